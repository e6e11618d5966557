"""A lab as another process sees it: what it shows, what becomes of commands, and what it does not take for live."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from enpire.errors import UnknownName, UsageError
from enpire.home import Home, open_home
from enpire.lab import Lab
from enpire.loop import turn
from enpire.monitor import image_files, live_file
from enpire.monitor.image_files import LOOK_EVERY_S, ImageFileReader, ImageFileWriter
from enpire.monitor.lab_snapshot import LabSnapshot, StationLine
from enpire.monitor.live_file import SILENT, LiveFileReader, LiveFileWriter
from enpire.monitor.live_lab import LiveLab
from enpire.steps.ending import shut_down
from enpire.steps.take_snapshot import snapshot
from enpire.store.ledger import SqliteLedger
from enpire.wire.live_images import Preview
from tests.enpire.test_loop import lab_of, open_lab
from tests.fakes.sample_events import append
from tests.fakes.waiting import until


@dataclass
class Bench:
    """A loop that turns in this thread, and somebody beside it."""

    home: Home
    lab: Lab
    live: LiveLab

    def until(self, true: Callable[[LabSnapshot], object]) -> LabSnapshot:
        """Turn the loop until something is seen from beside it."""
        found: list[LabSnapshot] = []

        def came() -> bool:
            turn(self.lab)
            seen = self.live.snapshot()
            if seen is not None and true(seen):
                found.append(seen)
            return bool(found)

        until(came, "what is seen from beside")
        return found[0]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    home = open_home(tmp_path / "home")
    told, live = LiveFileWriter(home), LiveLab(home)
    with LiveFileReader(home, live), open_lab(home) as lab:
        lab.tick = lambda: told.update(snapshot(lab))
        yield Bench(home, lab, live)


def test_commands_from_beside_are_followed_until_they_are_effective(bench: Bench) -> None:
    seen = bench.until(lambda seen: len(seen.stations) == 4)
    assert (seen.campaign_id, seen.campaign_name) == ("C1", "coin")
    for number, (verb, paused, stopped) in enumerate(
        [("pause", True, False), ("resume", False, False), ("stop", False, True)]
    ):
        made = bench.live.command(verb, "one", "ada", f"key-{number}")
        assert bench.live.command(verb, "one", "ada", f"key-{number}") == made
        assert bench.live.command_state(made) == "requested"
        bench.until(lambda _, made=made: bench.live.command_state(made) == "effective")
        bench.until(lambda seen, now=(paused, stopped): (seen.stations[0].paused, seen.stations[0].stopped) == now)
    refused = bench.live.command("promote", "nothing", "ada", "key-4", "it is better")
    bench.until(lambda _: bench.live.command_state(refused) == "refused")
    assert "64 hexadecimal digits" in bench.live.why(refused)
    with pytest.raises(UnknownName, match="no station 'nine'"):
        bench.live.command("stop", "nine", "ada", "key-5")


def test_nothing_runs_once_the_loop_is_gone(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    live = LiveLab(home)
    ledger = SqliteLedger(home.ledger)
    lab = lab_of(home, ledger)
    reader = LiveFileReader(home, live)
    reader.look()
    line = StationLine(name="one", phase="rollout", cameras=("front",))
    LiveFileWriter(home).update(LabSnapshot(campaign_id="C1", stations=(line,), champion="c" * 64))
    reader.look()
    seen = live.snapshot()
    assert seen is not None
    assert seen.stations == (line,)
    assert seen.champion == "c" * 64
    shut_down(lab)
    ledger.close()
    again(reader)
    assert live.snapshot() is None
    with pytest.raises(UsageError, match="No campaign runs in"):
        live.command("stop", "", "ada", "key")
    assert not list(home.inbox.rglob("*.json"))


def again(reader: LiveFileReader) -> None:
    """Look, and ask at once whether a loop runs."""
    reader._asked_s = -1e9  # pyright: ignore[reportPrivateUsage]
    reader.look()


def test_a_silent_loop_is_not_shown_as_it_was_earlier(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    (home.root / "looked_at").touch()
    LiveFileWriter(home).update(LabSnapshot(campaign_id="C0", phase_text="what an earlier campaign did"))
    assert (home.root / "now.json").is_file()
    live = LiveLab(home)
    reader = LiveFileReader(home, live)
    reader.look()
    assert live.snapshot() is None, "there is no ledger yet"
    ledger = SqliteLedger(home.ledger)
    again(reader)
    assert live.snapshot() is None, "no campaign has begun"
    lab_of(home, ledger)
    again(reader)
    silent = live.snapshot()
    assert silent is not None
    assert (silent.campaign_id, silent.campaign_name, silent.phase_text) == ("C1", "coin", SILENT)
    again(reader)
    assert live.snapshot() is silent, "the same object says that nothing moves"
    append(ledger, [("campaign ended", {"campaign_id": "C1", "reached": False, "reason": "x"})])
    fresh = LiveLab(home)
    LiveFileReader(home, fresh).look()
    assert fresh.snapshot() is None, "the campaign has ended, whatever still holds the ledger"
    ledger.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 9000, b"[]", b'{"colour": "red"}', b"\xff"])
def test_a_state_that_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    home = open_home(tmp_path / "home")
    ledger = SqliteLedger(home.ledger)
    lab_of(home, ledger)
    live = LiveLab(home)
    reader = LiveFileReader(home, live)
    reader.look()
    (home.root / "now.json").write_bytes(content)
    reader.look()
    seen = live.snapshot()
    assert seen is not None
    assert seen.campaign_id == "C1"
    assert seen.phase_text.startswith("the snapshot of the loop cannot be read: ")
    assert live.command("stop", "", "ada", "key"), "a stop is left for the loop all the same"
    ledger.close()


def test_nothing_is_written_while_nobody_looks_or_where_it_cannot_be(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    LiveFileWriter(home).update(LabSnapshot())
    looked = home.root / "looked_at"
    looked.touch()
    long_ago = time.time() - 2 * live_file.LOOKED_S
    os.utime(looked, (long_ago, long_ago))
    LiveFileWriter(home).update(LabSnapshot())
    assert not (home.root / "now.json").exists()
    looked.touch()
    (home.root / "now.json").mkdir()
    LiveFileWriter(home).update(LabSnapshot(phase_text="a folder is in the way"))


def test_a_broken_ledger_is_said_and_read_again_once_it_is_whole(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    home.ledger.write_bytes(b"this is no database, however long it is" * 40)
    live = LiveLab(home)
    (home.root / "ledger.lock").touch()
    with LiveFileReader(home, live):
        deadline = time.monotonic() + 300
        while (seen := live.snapshot()) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert seen is not None
        assert "ledger.db" in seen.phase_text
        home.ledger.unlink()
        SqliteLedger(home.ledger).close()
        while live.snapshot() is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert live.snapshot() is None


class TwoImages:
    """Previews: an image of one camera, a reason for every other one."""

    def __init__(self) -> None:
        self.looked: list[tuple[str, str]] = []
        self.jpeg, self.came_ns = b"first", time.time_ns()

    def look(self, station: str, camera: str) -> Preview:
        self.looked.append((station, camera))
        return (
            Preview(jpeg=self.jpeg, came_ns=self.came_ns)
            if camera == "front"
            else Preview(why="The camera is covered.", came_ns=self.came_ns)
        )


def test_live_images_reach_a_page_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_files, "WANTED_S", 300.0)  # no machine is too slow to look in time
    home, previews, live = open_home(tmp_path / "home"), TwoImages(), LiveLab(open_home(tmp_path / "home"))
    writer = ImageFileWriter(home, previews)
    LiveFileReader(home, live)

    def written() -> None:
        time.sleep(LOOK_EVERY_S)
        writer.write()

    written()
    assert previews.looked == [], "nobody asked"
    assert live.picture("one", "front") == Preview()
    assert live.picture("one", "wrist") == Preview()
    written()
    first = live.picture("one", "front")
    assert first.jpeg == b"first"
    assert live.picture("one", "front") is first, "the page sends an image once"
    assert live.picture("one", "wrist") == Preview(why="The camera is covered.")
    previews.jpeg, previews.came_ns = b"second", previews.came_ns + 1
    written()
    assert live.picture("one", "front").jpeg == b"second"
    for came_ns in (time.time_ns() - 10**9, time.time_ns()):  # a scene in which nothing moves: the same image again
        previews.came_ns = came_ns
        written()
        assert live.picture("one", "front") == Preview(jpeg=b"second")
        assert live.picture("one", "front").came_ns == came_ns, "when it came from the station"
    for wanted in (home.root / "live_images").glob("*/*.wanted"):
        os.utime(wanted, (0, 0))
    previews.looked.clear()
    written()
    assert previews.looked == [], "the page looks no more"


def test_a_camera_whose_name_is_a_path_is_refused(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home")
    assert "cannot be the name of" in ImageFileReader(home).look("..", "front").why
    assert "cannot be the name of" in ImageFileReader(home).look("one", "a/../../b").why
    assert not (home.root / "live_images").exists()
