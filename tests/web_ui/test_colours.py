"""Text of the page can be read: WCAG 2.2 asks for a contrast of 4.5 to 1, in the light and in the dark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

STYLE = Path(__file__).resolve().parents[2] / "web_ui" / "ui" / "src" / "style" / "tokens.css"
BLOCKS = re.findall(r"\{([^{}]+)\}", STYLE.read_text(encoding="utf-8"))
GROUNDS = ("ground", "surface", "raised", "calm-soft")
TONES = ("ok", "warn", "bad", "busy", "calm")


def _colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-fA-F]{6});", block))


def _luminance(colour: str) -> float:
    """Relative luminance in [0, 1] (WCAG 2.2)."""
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, bright = sorted((_luminance(one), _luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_contrast_of_black_and_white() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)
    assert len(BLOCKS) == 3, "light, dark as the system says, dark as chosen"


@pytest.mark.parametrize("block", BLOCKS)
def test_text_can_be_read(block: str) -> None:
    colours = _colours(block)
    pairs = [(text, ground) for text in ("text", "soft", "faint") for ground in GROUNDS]
    pairs += [(tone, f"{tone}-soft") for tone in TONES] + [("on-accent", "accent")]
    weak = {pair: round(_contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
    assert {pair: value for pair, value in weak.items() if value < 4.5} == {}


def test_both_darks_are_one() -> None:
    assert _colours(BLOCKS[1]) == _colours(BLOCKS[2])
