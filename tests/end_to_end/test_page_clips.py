"""The film of an episode in the viewer: two cameras, one moment; of a real robot every command has its picture."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from enpire.codec import order_fields, result_fields, result_of
from enpire.datasets.episode_images import replay_images
from enpire.home import open_home
from enpire.store import pictures
from enpire.store.episodes import FolderStore
from tests.end_to_end.conftest import NEEDED, set_up
from tests.end_to_end.watch import Watch
from tests.enpire.datasets.test_episode_images import TICKS, recorded
from tests.fakes.sample_events import append
from tests.web_ui.scripted_lab import ScriptedLab
from web_ui.server import Server

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("mujoco") is None, reason="mujoco is not installed"),
    *NEEDED,
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Server]:
    """The pages over one simulated episode that was run again with its cameras."""
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-1")
    episode = FolderStore(home.episodes).get("E1")
    append(ledger, [
        ("order issued", {"campaign_id": "C1", "orders": [order_fields(episode.order)]}),
        ("orders ended", {"campaign_id": "C1", "episodes": [result_fields(result_of(episode))]}),
    ])  # fmt: skip
    made = replay_images(home, ledger, "E1")
    if made.why:
        pytest.skip(made.why)
    server = Server(home.root, ScriptedLab(campaign_id="C1"))
    server.start()
    yield server
    server.stop()
    ledger.close()


def test_the_cameras_of_a_film_show_the_moment_of_the_time_axis(
    site: Server, context: BrowserContext, artefacts: Path
) -> None:
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    watch.follow(page)
    set_up(page, site)
    page.goto(f"{site.setup_link.partition('/setup')[0]}/episodes/E1?t=0")
    clips = page.locator(".clips figure")
    expect(clips.first).to_be_visible()
    cameras = clips.locator("figcaption b").all_inner_texts()
    assert len(cameras) == len(set(cameras)) >= 1
    page.get_by_label("Time in the episode").fill(str(TICKS // 2))
    for camera in cameras:
        expect(page.get_by_alt_text(f"{camera} at frame {_newest(page, camera, TICKS // 2)}")).to_be_visible()
    page.locator(".strip").first.get_by_role("button").last.click()
    expect(page.get_by_text(f"frame {TICKS - 1}", exact=False).first).to_be_visible()
    page.locator("h1").click()
    page.keyboard.press("Home")
    for camera in cameras:
        shown = page.get_by_alt_text(f"{camera} at frame 0")
        expect(shown).to_be_visible()
        assert shown.evaluate("(picture) => picture.naturalWidth") > 0, "the picture itself was not served"
    page.screenshot(path=artefacts / "film.png", full_page=True)
    if importlib.util.find_spec("av") is not None:
        _play(page, cameras)
    assert watch.complaints == []
    assert watch.hosts == {"127.0.0.1"}


def _play(page: Page, cameras: list[str]) -> None:
    """The videos hold one image per command, answer byte ranges, and move with the time axis."""
    page.get_by_role("button", name="Make the video").click()
    films = page.locator("video")
    playwright.expect(films).to_have_count(len(cameras), timeout=300_000)  # a process of its own renders them
    for film in films.all():
        page.wait_for_function("(one) => one.readyState >= 2", arg=film.element_handle())
        assert film.evaluate("(one) => one.error") is None
    address = films.first.get_attribute("src") or ""
    site = page.url.partition("/episodes")[0]
    part = page.request.get(f"{site}{address}", headers={"range": "bytes=0-99"})
    assert (part.status, part.headers["content-type"], len(part.body())) == (206, "video/webm", 100)
    page.get_by_label("Time in the episode").fill(str(TICKS // 2))
    for film in films.all():
        page.wait_for_function(
            "(one) => Math.abs(one.currentTime - %f) < 0.05" % (TICKS // 2 / 30), arg=film.element_handle()
        )
    page.get_by_label("Time in the episode").fill("0")
    films.first.evaluate("(one) => void one.play()")
    playwright.expect(page.get_by_label("Time in the episode")).not_to_have_value("0")


def test_every_command_of_a_real_robot_has_its_picture(
    tmp_path: Path, context: BrowserContext, artefacts: Path
) -> None:
    expect, watch, page = playwright.expect, Watch(), context.new_page()
    home = open_home(tmp_path)
    ledger = recorded(home, "arm-1")
    store = FolderStore(home.episodes)
    before = store.get("E1")
    shades = [{"front": np.full((48, 64, 3), tick, np.uint8)} for tick in range(TICKS + 1)]
    digest = pictures.keep(store.folder("E1") / pictures.NAME, dict(enumerate(shades)), "jpg")
    episode = replace(before, pictures_sha256=digest)
    append(ledger, [
        ("order issued", {"campaign_id": "C1", "orders": [order_fields(episode.order)]}),
        ("orders ended", {"campaign_id": "C1", "episodes": [result_fields(result_of(episode))]}),
    ])  # fmt: skip
    server = Server(home.root, ScriptedLab(campaign_id="C1"))
    server.start()
    try:
        watch.follow(page)
        set_up(page, server)
        page.goto(f"{server.setup_link.partition('/setup')[0]}/episodes/E1?t=0")
        for tick in (0, 1, TICKS // 2, TICKS):
            page.get_by_label("Time in the episode").fill(str(min(tick, TICKS - 1)))
            shown = page.get_by_alt_text(f"front at frame {min(tick, TICKS - 1)}")
            expect(shown).to_be_visible()
        assert shown.evaluate("(picture) => picture.naturalWidth") == 64
        assert page.locator(".strip").get_by_role("button").count() == min(12, TICKS + 1)
        page.screenshot(path=artefacts / "recorded_film.png", full_page=True)
        assert watch.complaints == []
        assert watch.hosts == {"127.0.0.1"}
    finally:
        server.stop()
        ledger.close()


def _newest(page: Page, camera: str, tick: int) -> int:
    """The frame of the last picture of a camera at or before a moment, as its strip offers them."""
    names = page.get_by_label(f"{camera}, frame").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    return max(frame for frame in (int(name.rpartition(" ")[2]) for name in names) if frame <= tick)
