"""The documents build into a site that needs no other server, with llms.txt beside it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "contributing", "changes"}
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=\"?(https?:)?//", re.IGNORECASE)
ENTRY = re.compile(r"^- \[(.+?)\]\((\S+?\.md)\)(: .+)?$")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it; not with --quiet, under which dead links are not counted."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    assert {path.stem for path in site.glob("*.html")} - {"404"} == PAGES


def test_no_page_loads_anything_from_another_server(site: Path) -> None:
    for path in site.glob("*.html"):
        assert not LOADED.search(path.read_text(encoding="utf-8")), path.name


def test_llms_txt_names_every_page_and_says_what_is_in_it(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    entries = [ENTRY.match(line) for line in text.splitlines() if line.startswith("- ")]
    found = {Path(entry[2]).stem: entry[3] or "" for entry in entries if entry}
    assert set(found) == PAGES
    assert len(entries) == len(found)
    assert all((site / f"{name}.md").is_file() for name in found)
    short = [name for name, sentence in found.items() if len(sentence) < 20 and name != "changes"]
    assert not short


def test_source_files_are_named_and_not_linked(site: Path) -> None:
    text = (site / "walk.md").read_text(encoding="utf-8")
    assert "`enpire/loop.py`" in text
    assert "](../" not in text
