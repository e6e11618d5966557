"""Files, settings and arguments that no honest person writes: each is answered in one sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from enpire.campaign.campaign import Campaign, read_campaign
from enpire.campaign.recipe import Recipe, changed
from enpire.cli import app
from enpire.errors import EnpireError, FileProblem, UsageError
from enpire.files import find, parse, read_json, read_yaml
from enpire.gate.rule import GateRule
from enpire.shares import require_share
from enpire.station.station_file import StationFile

DIGITS = "9" * 5000
TEXTS = {
    "deep lists": "a: " + "[" * 100_000,
    "deep mappings": "{a: " * 100_000,
    "indented": "\n".join(" " * depth + "a:" for depth in range(3000)),
    "5000 digits": f"seed: {DIGITS}",
    "5000 hexadecimal digits": f"seed: 0x{DIGITS}",
    "a billion": "\n".join(
        ["a0: &a0 [1, 1]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
    ),
    "an alias of itself": "a: &a [*a]",
    "a NUL": "name: a\0b",
    "a date": "name: 2026-01-01",
    "bytes": "name: !!binary aGVsbG8=",
    "a set": "name: !!set {a, b}",
    "a tag of Python": "name: !!python/object/apply:os.system [true]",
    "a list": "[a]",
    "nothing": "",
    "a key that is a list": "? [a]\n: b",
}


@pytest.mark.parametrize("name", TEXTS)
def test_yaml_that_is_no_plain_data_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "campaign.yaml"
    path.write_text(TEXTS[name])
    with pytest.raises(FileProblem, match=str(path)) as refusal:
        read_campaign(path)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 1000


def test_files_that_are_none_are_refused_unopened(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe.yaml", tmp_path / "large.yaml"
    os.mkfifo(pipe)
    large.write_bytes(b"a: b\n" * 2**22)
    for path in (pipe, tmp_path, Path("/dev/zero"), tmp_path / "a\0b.yaml", Path("x" * 100_000 + ".yaml"), large):
        for read in (read_yaml, read_json):
            with pytest.raises(FileProblem) as refusal:
                read(path)
            assert len(str(refusal.value)) < 1000
    for name in ("a\0b", "x" * 100_000, "x" * 100_000 + ".yaml", str(pipe), str(tmp_path / "a\0b.yaml")):
        with pytest.raises(FileProblem) as refusal:
            find("campaigns", name)
        assert len(str(refusal.value)) < 1000


def test_a_whole_number_has_64_bits() -> None:
    given = {"name": "a", "task": "b", "recipe": "c"}
    for seed in (2**63, -(2**63), 10**4000):
        with pytest.raises(
            FileProblem, match=r"'seed' must be a whole number of at most 64 bits, not a whole number of"
        ):
            parse(Campaign, {**given, "seed": seed}, "here")
    assert parse(Campaign, {**given, "seed": 2**63 - 1}, "here").seed == 2**63 - 1


@pytest.mark.parametrize(
    ("section", "key"),
    [
        ("goal", "success"), ("goal", "attempt_chance"), ("rounds", "hard_starts"), ("rounds", "supervised"),
        ("rounds", "early_stop"), ("rounds", "early_stop_control"), ("drift", "false_successes"),
        ("drift", "confidence"), ("gate", "alpha"), ("gate", "margin"),
    ],
)  # fmt: skip
def test_a_share_in_percent_is_refused_with_the_share_to_write(section: str, key: str) -> None:
    given = {"name": "a", "task": "b", "recipe": "c", section: {key: 97}}
    with pytest.raises(EnpireError, match=rf"{key} must lie in .*, not 97; for 97 % write 0\.97\."):
        parse(Campaign, given, "here")


def test_the_ends_of_a_share_are_allowed_as_its_interval_says() -> None:
    require_share("a", 0, "[0, 1]")
    require_share("a", 1, "(0, 1]")
    for value, interval in ((0, "(0, 1]"), (1, "[0, 1)"), (float("nan"), "[0, 1]"), (101, "[0, 1]")):
        with pytest.raises(ValueError, match=r"a must lie in .*, not [0-9a-z]+\.$"):
            require_share("a", value, interval)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="for 5 % write 0.05"):
        GateRule(alpha=5)


def test_a_number_in_another_spelling_is_the_same_recipe() -> None:
    recipe = Recipe(
        name="r", learner="habc", settings={"multi_step": 1, "rate": 1, "zero": 0.5, "flag": True},
        space={
            "multi_step": (1, 2, 3), "rate": (0.5, 2.0, "log"), "zero": (-1.0, 1.0, "linear"), "flag": (True, False),
        },
    )  # fmt: skip
    assert changed(recipe, {"multi_step": 2.0}, "x").hash == changed(recipe, {"multi_step": 2}, "x").hash
    assert changed(recipe, {"zero": -0.0}, "x").hash == changed(recipe, {"zero": 0}, "x").hash
    assert changed(recipe, {"multi_step": 2, "rate": 1.0}, "x").hash == changed(recipe, {"multi_step": 2}, "x").hash
    for change in ({"multi_step": 1.0}, {"rate": 1.0}):
        with pytest.raises(UsageError, match="leave the recipe as it is"):
            changed(recipe, change, "x")
    with pytest.raises(UsageError, match="cannot be 1"):
        changed(recipe, {"flag": 1}, "x")


def test_a_station_file_and_a_recipe_are_checked_alike(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump({"name": "s", "task": "pin_insertion", "home": "x", "seed": 2**70}))
    with pytest.raises(FileProblem, match="'seed'.*a whole number of 71 bits"):
        parse(StationFile, read_yaml(path), "here")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A command that runs in this process may ignore Ctrl-C, and programs that later tests start would inherit that."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "push_t", "--seed", str(2**63)], 2, "--seed"),
        (["run", "push_t", "--seed", DIGITS], 2, "--seed"),
        (["gate", "a", "b", "--lanes", "99999999999999999999"], 2, "--lanes"),
        (["policy", "serve", "--bind", "tcp://[", "--home", "HOME"], 1, "write tcp://HOST:PORT"),
        (["episodes", "list", "--home", "x" * 100_000], 1, "choose another one"),
        (["robot", "status", "x" * 100_000], 1, "File name too long"),
        (["agents", "run", "search", "--options", "[" * 100_000, "--home", "HOME"], 2, "Usage"),
        (["learner", "HOME"], 1, "job.json does not exist"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_argument_that_cannot_be_is_answered_in_one_sentence(
    words: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(app, [str(tmp_path) if word == "HOME" else word for word in words])
    assert done.exit_code == code, done.output
    assert isinstance(done.exception, SystemExit)
    assert said in done.stderr
