"""axe-core in a page of the tests: the rules for accessible pages that a program can check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / "web_ui/ui/node_modules/axe-core/axe.min.js"
CHECK = """async (rules) => (await axe.run(document, {
    resultTypes: ["violations"], ...(rules.length ? {runOnly: {type: "rule", values: rules}} : {})
})).violations.flatMap((found) => found.nodes.map((node) => (
    `${found.id}: ${node.target.join(" ")}: ${node.failureSummary.split("\\n").slice(1, 3).join(" ").trim()}`
)))"""


def violations(page: Page, *rules: str) -> list[str]:
    """Each element of the page that breaks a rule, with the rule; all rules of axe-core when none is named."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(CHECK, list(rules))
