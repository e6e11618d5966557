"""Episodes for viewers: Rerun's and MCAP's own readers find every number, image and note at its moment."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enpire.codec import result_fields, result_of
from enpire.datasets import mcap_export, rerun_export
from enpire.errors import MissingExtra
from enpire.parts import TASKS
from enpire.store import arrays, durable, pictures
from enpire.store.episodes import FolderStore, Recording
from enpire.types import Episode, EpisodeArrays
from tests.fakes.sample_campaign import BASE, CampaignWriter

TICKS = 10
CRITICS = {"p_v": [0.25, 0.5, 0.75, 0.5, 0.125], "V_e": [-5.0, -4.0, -3.0, -2.0, -1.0], "g": [0.0, 1.0, 0.0, 1.0, 0.0]}
SPEC = TASKS.make("pin_insertion").spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A home with two recorded episodes, and what is recorded of the first."""

    home: Path
    shown: str
    hidden: str
    recording: EpisodeArrays
    images: list[bytes]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    home = tmp_path_factory.mktemp("viewers")
    record = CampaignWriter(home, campaign_id="01J0000000000000000000CAMP", name="pins")
    record.tell(
        "campaign started", name="pins", task="pin_insertion", campaign={"name": "pins"}, seed=7, home=str(home),
        code="0.1.0", goal={"success": 0.9, "confirm_starts": 60},
    )  # fmt: skip
    draw = np.random.default_rng(3)
    recording = EpisodeArrays(
        state=draw.normal(size=(TICKS + 1, SPEC.state_dim)).astype(np.float32),
        action=draw.normal(size=(TICKS, SPEC.action_dim)).astype(np.float32),
        source=np.array([0, 0, 0, 1, 1, 0, 0, 0, 0, 1], np.uint8),
        chunk=np.arange(TICKS, dtype=np.int32) // 2,
    )
    store = FolderStore(home / "episodes")
    durable.make_folder(store.root)
    data, found = arrays.pack(recording), dict[str, str]()
    for purpose in ("collect", "gate"):
        order = record.order(purpose, BASE, 1)
        if purpose == "collect":
            record.tell("person needed", station=order.station, alarm="the arm is pushed")
        frames = [{"wrist": draw.integers(0, 256, (4, 6, 3)).astype(np.uint8)} for _ in range(TICKS)]
        taken = store.root / f"{purpose}.zip"
        digest = pictures.keep(taken, frames)
        ended = Episode(
            order=order, outcome="unsafe", cause="force above 40 N", confidence=0.75, ran_policy_id=BASE, ticks=TICKS,
            began_s=0.0, ended_s=1.0, clipped=3, attempts=(6,), predicted_failure_at=8, pictures_sha256=digest,
            sha256=hashlib.sha256(data).hexdigest(),
        )  # fmt: skip
        [folder] = store.put_many([Recording(episode=ended, arrays_file=data, pictures=taken)])
        durable.write(folder / "figures.json", json.dumps(CRITICS).encode())
        record.tell("orders ended", episodes=[result_fields(result_of(ended))])
        found[purpose] = order.order_id
    record.tell("person judged", order_id=found["collect"], outcome="failure", by="ada")
    record.flush()
    images = pictures.Pictures(home / "episodes" / record.campaign_id / found["collect"] / pictures.NAME)
    return Lab(
        home=home, shown=found["collect"], hidden=found["gate"], recording=recording,
        images=[images.data("wrist", tick) for tick in range(TICKS)],
    )  # fmt: skip


def enpire(*words: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, "-m", "enpire.cli", "episodes", "export", *words]
    return subprocess.run(asked, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="module")
def written(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("out") / "files"
    done = enpire(str(target), "--rrd", "--mcap", "--home", str(lab.home))
    assert (done.returncode, done.stdout) == (0, f"1 episode is in {target}.\n"), done.stderr
    assert sorted(path.name for path in target.iterdir()) == [f"{lab.shown}.mcap", f"{lab.shown}.rrd"]
    return target


def notes_of(lab: Lab) -> list[tuple[int, str, str]]:
    return [
        (0, "INFO", f"Rollout of {BASE[:12]} at cell-2, to collect"),
        (3, "WARN", "Intervention: a person takes over"), (5, "INFO", "The person hands back after 2 commands"),
        (6, "INFO", "The robot tries again"), (8, "WARN", "The policy predicts a failure"),
        (9, "WARN", "Intervention: a person takes over"), (10, "INFO", "The person hands back after 1 command"),
        (10, "ERROR", "Guard or station: the arm is pushed"),
        (10, "WARN", "Guard: the envelope limited 3 commands"),
        (10, "ERROR", "Verdict: unsafe (75%): force above 40 N"), (10, "INFO", "Label of a person: failure"),
    ]  # fmt: skip


def test_reruns_reader_finds_the_whole_episode(lab: Lab, written: Path) -> None:
    from rerun.chunk import RrdReader

    reader = RrdReader(str(written / f"{lab.shown}.rrd"))
    [store] = reader.recordings()
    assert (store.application_id, store.recording_id) == ("enpire", lab.shown)
    rows: dict[str, list[tuple[int, float, dict[str, Any]]]] = {}
    properties: dict[str, Any] = {}
    for chunk in reader.stream().to_chunks():
        table = chunk.to_record_batch().to_pylist()
        if "command" in table[0]:
            rows.setdefault(chunk.entity_path, []).extend(
                (row["command"], row["time"].total_seconds(), row) for row in table
            )
        elif chunk.entity_path == "/__properties/enpire":
            properties = table[0]
    assert (properties["outcome"], properties["cause"]) == (["unsafe"], ["force above 40 N"])
    assert (properties["station"], properties["episode"]) == (["cell-2"], [lab.shown])

    def numbers(entity: str) -> tuple[list[int], Any]:
        found = sorted(rows[entity], key=lambda row: row[0])
        assert [row[1] for row in found] == pytest.approx([row[0] * SPEC.period_s for row in found], abs=1e-6)
        return [row[0] for row in found], np.array([row[2]["Scalars:scalars"] for row in found])

    assert numbers("/state")[0] == list(range(TICKS + 1))
    np.testing.assert_array_equal(numbers("/state")[1], lab.recording.state)
    np.testing.assert_array_equal(numbers("/action")[1], lab.recording.action)
    assert numbers("/intervention")[1].ravel().tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 1]
    for name, values in CRITICS.items():
        ticks, found = numbers(f"/critics/{name}")
        assert (ticks, found.ravel().tolist()) == ([0, 2, 4, 6, 8], values)
    blobs = {tick: row["EncodedImage:blob"][0] for tick, _, row in rows["/cameras/wrist"]}
    assert [bytes(blobs[tick]) for tick in range(TICKS)] == lab.images
    notes = [(tick, row["TextLog:level"][0], row["TextLog:text"][0]) for tick, _, row in rows["/events"]]
    assert notes == notes_of(lab)
    assert [(tick, row["TextDocument:text"]) for tick, _, row in rows["/verdict"]] == [(TICKS, ["unsafe"])]


def test_the_reader_of_mcap_finds_the_whole_episode_as_ros_2_messages(lab: Lab, written: Path) -> None:
    from mcap.reader import make_reader
    from mcap_ros2.decoder import DecoderFactory

    found: dict[str, list[tuple[int, Any]]] = {}
    types: dict[str, str] = {}
    with (written / f"{lab.shown}.mcap").open("rb") as file:
        reader = make_reader(file, decoder_factories=[DecoderFactory()])
        assert reader.get_header().profile == "ros2"
        [metadata] = [one.metadata for one in reader.iter_metadata()]
        for schema, channel, message, content in reader.iter_decoded_messages():
            assert schema is not None
            types[channel.topic] = schema.name
            found.setdefault(channel.topic, []).append((message.log_time, content))
    assert (metadata["outcome"], metadata["policy"], metadata["instruction"]) == ("unsafe", BASE, SPEC.instruction)
    began = found["/state"][0][0]

    def ticks(topic: str) -> list[int]:
        return [round((at - began) * 1e-9 / SPEC.period_s) for at, _ in found[topic]]

    assert types["/state"] == types["/action"] == "sensor_msgs/msg/JointState"
    assert ticks("/state") == list(range(TICKS + 1))
    assert ticks("/action") == list(range(TICKS))
    np.testing.assert_array_equal([one.position for _, one in found["/state"]], lab.recording.state)
    np.testing.assert_array_equal([one.position for _, one in found["/action"]], lab.recording.action)
    assert found["/state"][0][1].name == [one.name for one in SPEC.state]
    first = found["/state"][0][1].header.stamp
    assert first.sec * 10**9 + first.nanosec == began
    assert [one.data for _, one in found["/source"]] == lab.recording.source.tolist()
    assert [one.data for _, one in found["/intervention"]] == (lab.recording.source == 1).tolist()
    for name, values in CRITICS.items():
        assert (ticks(f"/critics/{name}"), [one.data for _, one in found[f"/critics/{name}"]]) == (
            [0, 2, 4, 6, 8], values,
        )  # fmt: skip
    assert types["/cameras/wrist/compressed"] == "sensor_msgs/msg/CompressedImage"
    assert [(one.format, bytes(one.data)) for _, one in found["/cameras/wrist/compressed"]] == [
        ("png", image) for image in lab.images
    ]
    levels = {20: "INFO", 30: "WARN", 40: "ERROR"}
    lines = [(levels[one.level], one.msg) for _, one in found["/rosout"]]
    assert list(zip(ticks("/rosout"), lines, strict=True)) == [
        (tick, (level, text)) for tick, level, text in notes_of(lab)
    ]
    assert (ticks("/verdict"), found["/verdict"][0][1].data) == ([TICKS], "unsafe")


def test_hidden_starts_and_missing_packages_are_refused_in_one_sentence(
    lab: Lab, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = enpire(str(tmp_path / "out"), "--mcap", "--episode", lab.hidden, "--home", str(lab.home))
    assert done.returncode == 1
    assert "hidden starts stay hidden" in done.stderr
    done = enpire(str(written), "--rrd", "--home", str(lab.home))
    assert "exists already" in done.stderr
    for module, write, extra in (
        ("rerun", rerun_export.write_rrd, "rerun"), ("mcap_ros2.writer", mcap_export.write_mcap, "mcap"),
    ):  # fmt: skip
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(MissingExtra, match=rf"pip install 'enpire\[{extra}\]'"):
            write(None, [], tmp_path / "file")  # pyright: ignore[reportArgumentType]
    assert not list(tmp_path.iterdir())
