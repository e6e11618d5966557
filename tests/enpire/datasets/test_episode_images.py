"""A recorded episode of a simulated station is replayed exactly and gives images, also for a LeRobotDataset."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from enpire.campaign.campaign import read_campaign
from enpire.datasets.dataset_export import export_episodes
from enpire.datasets.dataset_import import import_episodes
from enpire.datasets.episode_images import camera_images, replay_images, station_seeds
from enpire.errors import UsageError
from enpire.files import plain
from enpire.home import Home, open_home
from enpire.store import arrays, pictures
from enpire.store.episodes import FolderStore
from enpire.store.ledger import SqliteLedger
from enpire.types import Episode, EpisodeArrays, Observation, Order
from tests.fakes.sample_campaign import CAMPAIGN, begin
from tests.fakes.sample_events import append

TICKS = 12


def recorded(home: Home, station: str) -> SqliteLedger:
    """A ledger with the shipped campaign, and one short episode of its first station."""
    from sim.tasks.pin_insertion import PinInsertion

    campaign = read_campaign("pin_insertion")
    ledger = SqliteLedger(home.ledger)
    append(ledger, [("campaign started", {"campaign_id": "C1", "campaign": plain(campaign)})])
    task = PinInsertion()
    start = task.start("train", 3, b"")
    rig = task.rig(1, campaign.seed * 1000 + 1)
    rig.place(0, start)
    states = [rig.observe().state[0].copy()]
    action = np.full((TICKS, task.spec.action_dim), 0.002, np.float32)
    for tick in range(TICKS):
        action[tick] = rig.act(action[tick : tick + 1], np.ones(1, np.bool_))[0]
        states.append(rig.observe().state[0].copy())
    rig.close()
    data = arrays.pack(
        EpisodeArrays(
            state=np.stack(states), action=action, source=np.zeros(TICKS, np.uint8), chunk=np.zeros(TICKS, np.int32)
        )
    )
    order = Order(
        order_id="E1", campaign_id="C1", station=station, task="pin_insertion", policy_id="p", start=start,
        purpose="collect", round=0,
    )  # fmt: skip
    episode = Episode(
        order=order, outcome="failure", cause="", confidence=1.0, ran_policy_id="p", ticks=TICKS, began_s=0.0,
        ended_s=1.0, sha256=hashlib.sha256(data).hexdigest(),
    )  # fmt: skip
    FolderStore(home.episodes).put(episode, data)
    return ledger


def test_a_replay_has_equal_sensors_and_gives_images(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-1")
    made = replay_images(home, ledger, "E1")
    assert made.largest_difference == 0.0
    found = pictures.shown(made.path.parent)
    assert made.count == (0 if found is None else len(found.names))
    assert made.count > 0 or "No pictures" in made.why
    ledger.close()


def test_a_replay_with_another_stations_seed_differs(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-2")
    assert replay_images(home, ledger, "E1").largest_difference > 0.0
    ledger.close()


def test_the_seeds_of_simulated_stations_are_those_of_their_campaign(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-1")
    campaign = read_campaign("pin_insertion")
    names = [f"sim-{number}" for number in range(1, campaign.stations.count + 1)]
    assert station_seeds(ledger, home, "C1") == {
        name: campaign.seed * 1000 + number for number, name in enumerate(names, start=1)
    }
    assert station_seeds(ledger, home, "other") == {}
    ledger.close()


def test_an_episode_of_a_foreign_station_cannot_be_replayed(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "real-arm")
    with pytest.raises(UsageError, match="did not start"):
        replay_images(home, ledger, "E1")
    ledger.close()


def seen_live(home: Home) -> list[dict[str, np.ndarray]]:
    """The camera images before every command of the episode, rendered while its commands are sent."""
    from sim.tasks.pin_insertion import PinInsertion

    episode = FolderStore(home.episodes).get("E1")
    assert episode.arrays is not None
    rig = PinInsertion().rig(1, read_campaign("pin_insertion").seed * 1000 + 1)
    rig.place(0, episode.order.start)
    found: list[dict[str, np.ndarray]] = []
    for action in episode.arrays.action:
        found.append(dict(rig.look(0)))
        rig.act(action[None], np.ones(1, np.bool_))
    rig.close()
    return found


def test_replayed_images_equal_the_recorded_ones_bit_for_bit(tmp_path: Path) -> None:
    from sim import cameras

    home = open_home(tmp_path)
    ledger = recorded(home, "sim-1")
    episode = FolderStore(home.episodes).get("E1")
    if why := cameras.why_no_images():
        with pytest.raises(UsageError, match="No pictures"):
            camera_images(home, ledger, episode)
        pytest.skip(why)
    again, live = list(camera_images(home, ledger, episode)), seen_live(home)
    assert len(again) == len(live) == TICKS
    for now, then in zip(again, live, strict=True):
        assert set(now) == {"top", "side"}
        assert all(np.array_equal(now[camera], then[camera]) for camera in now)
    assert not np.array_equal(again[0]["top"], again[-1]["top"])
    ledger.close()


def test_a_replay_that_differs_gives_no_images(tmp_path: Path) -> None:
    home = open_home(tmp_path)
    ledger = recorded(home, "sim-2")
    with pytest.raises(UsageError, match="differ by up to .* when it is replayed"):
        camera_images(home, ledger, FolderStore(home.episodes).get("E1"))
    ledger.close()
    with pytest.raises(UsageError, match="no camera images of any of these"):
        export_episodes(home, ["E1"], tmp_path / "set", cameras=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_lerobots_act_learns_from_the_images_and_they_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from policies.lerobot_policy import load as load_lerobot
    from sim import cameras

    if why := cameras.why_no_images():
        pytest.skip(why)
    home = open_home(tmp_path / "home")
    recorded(home, "sim-1").close()
    made = export_episodes(home, ["E1"], tmp_path / "set", cameras=True)
    assert (made.written, dict(made.left_out)) == (1, {})
    asked = [
        sys.executable, "-m", "lerobot.scripts.lerobot_train", "--policy.type=act", "--policy.device=cpu",
        "--policy.push_to_hub=false", "--policy.chunk_size=4", "--policy.n_action_steps=4", "--policy.dim_model=32",
        "--policy.dim_feedforward=64", "--policy.n_heads=2", "--policy.n_encoder_layers=1",
        "--policy.pretrained_backbone_weights=null", "--dataset.repo_id=enpire/test", "--dataset.video_backend=pyav",
        f"--dataset.root={tmp_path / 'set'}", "--steps=3", "--batch_size=2", "--num_workers=0", "--log_freq=1",
        "--wandb.enable=false", f"--output_dir={tmp_path / 'out'}",
    ]  # fmt: skip
    surroundings = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(asked, capture_output=True, text=True, env=surroundings, check=False, timeout=800)
    assert done.returncode == 0, done.stderr[-3000:]
    trained = tmp_path / "out/checkpoints/last/pretrained_model"
    wide = FolderStore(home.episodes).get("E1").arrays
    assert wide is not None
    columns = [0, wide.state.shape[1]]
    about = {
        "kind": "lerobot", "execute": 2,
        "inputs": {"observation.state": columns},
    }  # fmt: skip
    takes = json.loads((trained / "config.json").read_text())["input_features"]
    assert sorted(takes) == ["observation.images.side", "observation.images.top", "observation.state"]
    (trained / "policy.json").write_text(json.dumps(about))
    policy = load_lerobot(trained)
    assert policy.needs_images
    policy.begin(0, seed=1)
    pictures_now = {camera: image[None] for camera, image in seen_live(home)[0].items()}
    now = Observation(stamp_ns=0, state=wide.state[:1], images=pictures_now)
    assert policy.act(now, np.array([0])).shape == (1, 4, wide.action.shape[1])
    other = open_home(tmp_path / "other")
    begin(other.root).flush()
    import_episodes(other, tmp_path / "set", CAMPAIGN)
    store = FolderStore(other.episodes)
    (taken,) = store.ids()
    folder = store.folder(taken)
    kept = pictures.Pictures(folder / pictures.NAME)
    assert kept.cameras == ("side", "top")
    for tick, then in enumerate(seen_live(home)):
        for camera, image in then.items():
            assert np.abs(kept.picture(camera, tick).astype(int) - image).mean() < 4
    again = export_episodes(other, [taken], tmp_path / "again", cameras=True)
    assert again.written == 1
