"""More pictures than one tab may have, in a real browser."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from enpire.wire.live_images import Preview
from tests.end_to_end.conftest import NEEDED, set_up
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [*NEEDED]


def test_a_tile_beyond_the_most_pictures_says_so_and_has_its_own_once_others_are_out_of_sight(
    server: tuple[Server, ScriptedLab], context: BrowserContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, lab = server
    expect, page = playwright.expect, context.new_page()
    gray = io.BytesIO()
    Image.new("L", (16, 10), 128).save(gray, "jpeg")
    monkeypatch.setattr("web_ui.routes.socket.MOST_TOPICS", 6)  # fleet, commands, tasks, three pictures
    lab.pictures.update({(name, "front"): Preview(jpeg=gray.getvalue()) for name in lab.names})
    page.set_viewport_size({"width": 1360, "height": 1400})
    set_up(page, running)
    expect(page.locator(".picture img")).to_have_count(3)
    expect(page.locator(".picture", has_text="At most 6 topics at a time")).to_have_count(1)
    page.set_viewport_size({"width": 500, "height": 500})
    for number in (0, 3):
        tile = page.locator(".tile").nth(number)
        tile.scroll_into_view_if_needed()
        expect(tile.locator(".picture img")).to_be_visible()
