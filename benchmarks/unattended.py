"""Unattended simulated stations with faults: `python -m benchmarks.unattended --hours 8 [--tasks pin_insertion ...]`.

For each task a real campaign (orchestrator, one station, reset by the robot, fast pace) runs the varied expert
until so many hours of rollouts are recorded, without the resets. Meanwhile commands are dropped and delayed, grasps
slip, motions jam, calibrations drift and the power fails: every fault that the task has. The network to the station
is lost now and then: for a moment, for longer than a station may be silent, or until its orders end as unknown.
With `--lanes 1` sensors and cameras freeze, too, and the station records its cameras to detect it. The robot works
in the task's envelope of forces and places. Each call for an operator is answered with `resume` a second later: the
operator sets up the lanes that could not reset. Calls are counted from the ledger: every lane whose reset was given
up, and every other alarm. At the end every order must have ended, and none as unsafe. After an interruption, the
same command continues where the ledger ends (`--home`). Each seed has so many hours; with several, intervals of success
are clustered by seed.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import yaml

from benchmarks.intervals import head, rate_by_seed
from benchmarks.machine import describe
from benchmarks.tuning_seeds import UNATTENDED, verdict
from enpire import plugins
from enpire.campaign.campaign import read_campaign
from enpire.fleet.local import station_files
from enpire.fleet.station_processes import StationProcesses
from enpire.home import Home, open_home
from enpire.requests import operator_commands
from enpire.store.arrays import unpack
from enpire.store.connection import run
from enpire.store.ledger import SqliteLedger
from enpire.store.reading import Reading
from enpire.types import JUDGED, TaskSpec
from enpire.wire.private_socket import private_address
from sim.faults import known_faults
from sim.lost_network import LossyNetwork
from sim.so101.kinematics import JOINTS
from sim.tasks import bag_rig, gpu_rig, ziptie_rig
from tests.chaos.harness import newest_event

FAULTS: Mapping[str, float] = {
    "dropped_command": 0.05, "delayed_command": 0.05, "slipping_gripper": 0.02, "jammed": 0.02,
    "calibration_drift": 0.001, "lost_power": 0.004, "frozen_sensor": 0.01, "frozen_camera": 0.01,
}  # fmt: skip
"""Fault -> probability per episode."""
ALONE = frozenset({"frozen_sensor", "frozen_camera"})
"""Detected on stations of one lane only."""
_PIN = {"force_n": 8.0, "workspace": {"tip_x_mm": [-20, 20], "tip_y_mm": [-20, 20], "tip_z_mm": [-9, 30]}}
_ANGLES = [f"{joint}.pos" for joint in JOINTS]
ENVELOPES: Mapping[str, Mapping[str, object]] = {
    "pin_insertion": _PIN, "pin_insertion_blind": _PIN, "fragile_insertion": _PIN,
    "push_t": {"workspace": {"pusher_x_mm": [-280, 280], "pusher_y_mm": [-280, 280]}},
    "gpu_insertion": {"force_n": gpu_rig.GENTLE_N}, "ziptie_cutting": {"force_n": ziptie_rig.GENTLE_N},
    "fragile_ziptie": {"force_n": ziptie_rig.GENTLE_N},
    "bag_packing": {"force_n": bag_rig.GENTLE_N},
    "marker_in_cup": {"step": dict.fromkeys(_ANGLES, 4), "stall": dict.fromkeys(_ANGLES, 8)},
}  # fmt: skip
"""Task -> envelope of its station. A pin's servo presses with less than 8 N unless something pushes back, a pusher
senses no force, and the objects of two arms bear `GENTLE_N` on each axis."""
LOOK_S, REST_S, STALLED_S = 1.0, 150.0, 10.0
TASKS = [
    "pin_insertion", "pin_insertion_blind", "fragile_insertion", "push_t", "gpu_insertion", "ziptie_cutting",
    "fragile_ziptie", "bag_packing",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Counts from the ledger so far."""

    hours: float
    """Of rollouts, in simulated robot time."""
    outcomes: Mapping[str, int]
    causes: Mapping[str, int]
    alarms: int
    """Alarms of stations that an operator must answer; one may name several lanes."""
    calls: Mapping[str, int]
    """Calls for an operator: reason -> number."""

    @property
    def judged(self) -> int:
        """Episodes with a verdict."""
        return sum(self.outcomes.get(kind, 0) for kind in JUDGED)

    @property
    def kept(self) -> bool:
        """Whether every order ended, and none as unsafe."""
        return not self.outcomes.get("open", 0) and not self.outcomes.get("unsafe", 0)


def faults_of(name: str, lanes: int) -> Mapping[str, float]:
    """The faults that can befall a simulated station of a task."""
    rig = plugins.load("tasks", name)().rig(1, 0)  # type: ignore[operator]
    known = known_faults(rig) - (ALONE if lanes > 1 else frozenset())
    rig.close()
    return {kind: share for kind, share in FAULTS.items() if kind in known}


def largest_force_n(home: Path, spec: TaskSpec) -> float:
    """The largest number in N that was sensed in any recorded rollout; 0 where a task senses none."""
    columns = [index for index, item in enumerate(spec.state) if item.unit == "N"]
    found = 0.0
    for path in home.rglob("arrays.npz") if columns else ():
        found = max(found, float(np.abs(unpack(path.read_bytes()).state[:, columns]).max()))
    return found


def campaign_file(name: str, lanes: int, folder: Path, seed: int = 0) -> Path:
    """A campaign of endless demonstrations; an existing one when the run continues."""
    path = folder / "campaign.yaml"
    if path.exists():
        return path
    faults = " ".join(f"{kind}={share:g}" for kind, share in faults_of(name, lanes).items())
    content = {
        "name": f"unattended_{name}", "task": name, "recipe": "habc_plus", "budget": {"wall_s": 0.0}, "seed": seed,
        "base": {"demonstrations": 10**9},
        "stations": {
            "count": 0, "lanes": lanes, "reset": "robot", "record": "all" if lanes == 1 else [],
            "options": {"faults": faults, "envelope": ENVELOPES[name]}, "bind": private_address(folder, "lab"),
        },
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def progress(home: Path, spec: TaskSpec) -> Progress:
    """Read the ledger while the campaign writes it."""
    ledger = SqliteLedger(home / "ledger.db", read_only=True)
    try:
        outcomes, causes = Counter[str](), Counter[str]()
        spans = Reading(ledger.database).campaigns()
        for (outcome, cause), count in (Reading(ledger.database).causes(spans[0].campaign_id) if spans else {}).items():
            outcomes[outcome] += count
            if cause:
                causes[f"{outcome}: {cause.split(':')[0][:60]}"] += count
        (ticks,) = run(ledger.database, "SELECT coalesce(sum(ticks), 0) FROM orders").fetchone()
        alarms = [str(event.body["alarm"]) for event in ledger.events(kinds=("person needed",))]
    finally:
        ledger.close()
    calls = Counter(alarm.split(":")[0] for alarm in alarms if not alarm.startswith("The reset of lane"))
    calls["a lane cannot reset"] = causes["aborted: reset failed"]
    return Progress(
        hours=ticks * spec.period_s / 3600, outcomes=outcomes, causes=causes, alarms=len(alarms), calls=calls
    )


def leave_alone(name: str, seed: int, asked: argparse.Namespace) -> Progress:
    """Run one seed of a task; returns its counts at the end."""
    spec = cast(TaskSpec, plugins.load("tasks", name).spec)  # type: ignore[attr-defined]
    folder = asked.home / name / (f"seed-{seed}" if seed else "")
    home, path = open_home(folder / "home"), campaign_file(name, asked.lanes, folder, seed)
    SqliteLedger(home.root / "ledger.db").close()
    began_s, answered = time.monotonic(), progress(home.root, spec).alarms
    if progress(home.root, spec).hours < asked.hours:
        lab = Lab(path, home)
        try:
            _watch(lab, spec, asked.hours, answered)
        finally:
            lab.close()
        print(f"{name}: the network was lost {lab.lost} times")
    end = progress(home.root, spec)
    say(f"{name}, seed {seed}", end, time.monotonic() - began_s)
    faults = ", ".join(f"{kind} {share:g}" for kind, share in faults_of(name, asked.lanes).items())
    felt = (
        f"{largest_force_n(home.root, spec):.1f} N" if any(item.unit == "N" for item in spec.state) else "none sensed"
    )
    print(f"  faults: {faults}\n  envelope: {ENVELOPES[name]}; largest force: {felt}", flush=True)
    return end


class Lab:
    """A campaign, its station, and the network between them, which is lost now and then."""

    def __init__(self, campaign: Path, home: Home) -> None:
        self.home, self.log, plan = home.root, campaign.parent / "log.txt", read_campaign(campaign)
        (file,) = station_files(replace(plan, stations=replace(plan.stations, count=1)), home)
        self._network = LossyNetwork(plan.stations.bind, print)
        self._stations = StationProcesses([file], self._network.address, home.stations / "logs", print, self._network)
        command = [sys.executable, "-m", "enpire.cli", "run", str(campaign), "--headless", "--home", str(home.root)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._stations.start()

    def look(self) -> None:
        """Lose or find the network when it is time; start a station anew that ended; SystemExit when the loop ended."""
        if self.process.poll() is not None:
            raise SystemExit(f"The campaign ended by itself (exit {self.process.returncode}); see {self.log}.")
        self._stations.supervise()

    @property
    def lost(self) -> int:
        """How often the network was lost."""
        return self._network.lost

    def close(self) -> None:
        """End it; an interrupted campaign is kept and can continue."""
        self._stations.stop()
        if self.process.poll() is None:
            # Not SIGINT, which processes that a shell starts in the background ignore.
            self.process.terminate()
            self.process.wait(REST_S)


def _watch(lab: Lab, spec: TaskSpec, hours: float, answered: int) -> None:
    """Answer calls until the hours are reached."""
    seen, moved_s = -1, time.monotonic()
    while (now := progress(lab.home, spec)).hours < hours:
        lab.look()
        if sum(now.outcomes.values()) != seen:
            seen, moved_s = sum(now.outcomes.values()), time.monotonic()
        # A repeated alarm is no new event: in a lab without progress, a call is still unanswered.
        if now.alarms > answered or time.monotonic() - moved_s > STALLED_S:
            answered, moved_s = now.alarms, time.monotonic()
            operator_commands.leave(
                lab.home / "inbox", "resume", operator="the benchmark's operator", seen=newest_event(lab.home)
            )
        time.sleep(LOOK_S)
    operator_commands.leave(lab.home / "inbox", "end campaign", operator="the benchmark")
    lab.process.wait(REST_S)


def success(ends: Sequence[Progress]) -> str:
    """Success of one task over its seeds, with its interval."""
    good, judged = [end.outcomes.get("success", 0) for end in ends], [end.judged for end in ends]
    if not sum(judged):
        return "success: no episode has a verdict"
    rate = rate_by_seed(good, judged)
    low, high = 100 * rate.low, 100 * rate.high
    return f"success {sum(good)}/{sum(judged)} = {100 * rate.mean:.1f} % ({low:.1f} to {high:.1f})"


def say(name: str, end: Progress, wall_s: float) -> None:
    """Print the counts of one seed of a task."""
    orders = sum(end.outcomes.values())
    missing, unsafe = end.outcomes.get("open", 0), end.outcomes.get("unsafe", 0)
    print(f"{name}: {end.hours:.2f} h of rollouts (in {wall_s / 60:.1f} min), {orders} orders")
    print(f"  ends: {', '.join(f'{kind} {count}' for kind, count in sorted(end.outcomes.items()))}")
    for cause, count in sorted(end.causes.items(), key=lambda item: -item[1])[:6]:
        print(f"        {count:>6}  {cause}")
    print(f"  {success([end])}")
    calls = "; ".join(f"{why}: {count}" for why, count in sorted(end.calls.items()) if count)
    print(f"  orders without an outcome: {missing}; unsafe: {unsafe}")
    print(f"  calls for an operator: {sum(end.calls.values())} ({calls or 'nothing failed'})", flush=True)


def main() -> None:
    """Run every task, one after the other; exit code 1 when an order has no outcome or ended unsafe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--home", type=Path, default=Path("unattended"))
    parser.add_argument("--tasks", nargs="*", default=TASKS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="each of them for so many hours")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"{describe(asked.seeds)}\n{head(len(asked.seeds), 'episodes')}\n{UNATTENDED.line(asked.seeds)}")
    kept = True
    for name in asked.tasks:
        ends = [leave_alone(name, seed, asked) for seed in asked.seeds]
        print(f"{name}, {len(ends)} seed(s): {success(ends)}", flush=True)
        kept &= all(end.kept for end in ends)
    print(verdict(kept, len(asked.seeds)))
    if not kept:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
