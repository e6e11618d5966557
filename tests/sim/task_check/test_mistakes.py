"""What a person who writes a task does wrong is told in a sentence, or with its line; it hides no other task."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enpire import plugins
from enpire.cli import app
from enpire.interfaces import Policy, Task
from enpire.types import MaskArray
from sim import cameras
from sim.array_task import ArrayVerifier, Rows
from sim.task_check.suite import check_made
from tests.sim.task_check.reach import Reach


class Beside(Reach):
    """A shorter row of ranges than the world has numbers."""

    ranges = ((-0.8, 0.8),)  # type: ignore[assignment]


class Backwards(Reach):
    """Its ranges are written the wrong way round."""

    ranges = ((0.8, -0.8), (0.2, 0.8))


class Aimless(Reach):
    """Its goal has one number."""

    goal = (0.0,)  # type: ignore[assignment]


class Intolerant(Reach):
    """No reset is good enough for it."""

    tolerance = (0.0, 0.02)


class Described(Reach):
    """Its spec is a note."""

    spec = {"name": "reach"}  # type: ignore[assignment]  # noqa: RUF012


class Unjudged(Reach):
    """Nobody judges it."""

    def verifier(self) -> ArrayVerifier:
        return None  # type: ignore[return-value]


class Counting(Reach):
    """Success is a number."""

    def success(self, state: Rows) -> MaskArray:
        return super().success(state).astype(int)  # type: ignore[return-value]


class Summary(Reach):
    """One success for all rows."""

    def success(self, state: Rows) -> MaskArray:
        return super().success(state).all()  # type: ignore[return-value]


class Forgetful(Reach):
    """Changes a copy of the world."""

    def advance(self, world: Rows, command: Rows) -> Rows:
        world = world + command
        return None  # type: ignore[return-value]


class Quitter(Reach):
    """Ends the process in the middle of a check."""

    def steer(self, state: Rows, goal: Rows) -> Rows:
        sys.exit(3)


class Expertless(Reach):
    """Has nobody who shows it."""

    def expert(self, seed: int) -> Policy:  # type: ignore[override]
        raise KeyError("no expert today")


class Viewless(Reach):
    """Names a camera that its rig does not have."""

    spec = replace(Reach.spec, cameras=("top",))  # type: ignore[misc]


def failures(make: Callable[[], Task]) -> Mapping[str, str]:
    return {failure.name: failure.detail for failure in check_made("broken", make).failures}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Beside, r"Beside: `ranges` must have the shape \(2, 2\), .*, not \(1, 2\)\."),
        (Backwards, r"Backwards: `ranges` of x_m must be .* \[-1, 1\], not \(0.8, -0.8\)\."),
        (Aimless, r"Aimless: `goal` must have the shape \(2,\), .*, not \(1,\)\."),
        (Intolerant, r"Intolerant: `tolerance` must be positive, not \(0.0, 0.02\)\."),
        (Described, r"Described: `spec` must be a TaskSpec, not dict\."),
        (Unjudged, r"`verifier\(\)` gives NoneType, which lacks digest, needs_images, finished, judge\."),
    ],
)
def test_what_a_task_says_wrongly_of_itself_is_one_sentence(make: Callable[[], Task], said: str) -> None:
    failed = failures(make)
    assert list(failed) == ["it_is_a_task"]
    assert re.fullmatch(f"-> {said}", failed["it_is_a_task"])


@pytest.mark.parametrize(
    ("make", "check", "said"),
    [
        (Counting, "truth_changes_nothing", r"`success` of Counting must give truth values .*, not int64"),
        (Summary, "verdicts_are_sane", r"`success` of Summary must give truth values .*, not bool of shape \(\)"),
        (Forgetful, "motion_is_seen", r"`advance` of Forgetful must give numbers of shape \(2, 2\) .*, not object"),
        (Quitter, "expert_chunks", rf"SystemExit: 3 \({re.escape(__file__)}, line \d+\)"),
        (Expertless, "expert_chunks", rf"KeyError: 'no expert today' \({re.escape(__file__)}, line \d+\)"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_what_is_allowed_or_its_line(make: Callable[[], Task], check: str, said: str) -> None:
    assert re.match(f"-> {said}", failures(make)[check])


def test_a_camera_without_a_picture_is_a_fault_of_the_rig_where_the_machine_makes_pictures() -> None:
    found = {item.name: item for item in check_made("viewless", Viewless).results}["cameras"]
    assert found.result == ("does not apply" if cameras.why_no_images() else "failed")
    assert ("this machine" if cameras.why_no_images() else "no image of top, which the spec names") in found.detail


def test_a_broken_installed_task_is_a_failed_check_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "labs-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: labs\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[enpire.tasks]\na_gone = no_such_module:Task\nb_ends = labs_ends:Task\n"
        "z_sound = tests.sim.task_check.reach:Reach\n"
    )
    (tmp_path / "labs_ends.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "BUILT_IN", {**plugins.BUILT_IN, "tasks": {}})
    done = CliRunner().invoke(app, ["task", "check"])
    assert done.exit_code == 1
    assert "the module no_such_module cannot be found" in done.output
    assert "fails on import: SystemExit: 3" in done.output
    assert re.search("z_sound passes (\\d+) of \\1 checks", done.output)
