"""Stations and learners on a Ray cluster (`enpire run --on ray`): more machines, the same loop, ledger and gate.

Ray only places processes on machines and reports lost machines. A station there is the ordinary station process and
connects to the orchestrator over ZeroMQ; the learner there is the ordinary learner process, whose folder is mirrored
(enpire/fleet/learner_on_ray.py). RAY_ADDRESS names the cluster; without it a cluster starts on this machine. Every
machine of the cluster needs the same version of ENPIRE.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from enpire import __version__
from enpire.campaign.campaign import Campaign
from enpire.errors import MissingExtra, TransportProblem, UsageError
from enpire.fleet.local import files_to_start
from enpire.fleet.station_processes import StationProcesses, start_station
from enpire.home import Home
from enpire.ids import file_name
from enpire.processes.child_process import ChildProcess, end_process
from enpire.station.station_file import StationFile
from enpire.store import durable
from enpire.wire.curve_keys import KeyPair, read_pair, write_pair
from enpire.wire.listening_address import FleetAddress, local_address, stays_here

SLOTS_S = 10.0
"""Period at which the learner slots of a cluster are counted: it may grow."""
LOST = -9
"""The exit code of a process whose machine or worker was lost."""
_REACHABLE_BIND = "set stations.bind of the campaign to tcp://0.0.0.0:PORT (keys are created automatically)"
_REACHABLE_POLICY_SERVER = "start it with --bind tcp://0.0.0.0:PORT and name its machine in stations.policy_server"


def join(address: str) -> Any:
    """The module `ray`, connected to the cluster at `address` (HOST:PORT), or, for `local`, to a new one made here.

    Raises:
        MissingExtra: Ray is not installed.
        TransportProblem: the cluster does not answer.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # sends no statistics
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ModuleNotFoundError as missing:
        raise MissingExtra("--on ray needs the package ray: pip install 'enpire[ray]'.") from missing
    module: Any = ray  # its types are known in part only
    own: dict[str, bool] = {"include_dashboard": False} if address == "local" else {}
    try:
        with _same_signals():
            module.init(address=address, logging_level=logging.ERROR, log_to_driver=False, **own)
    except (ConnectionError, RuntimeError, TimeoutError, ValueError) as problem:
        raise TransportProblem(
            f"The Ray cluster at {address} cannot be joined: {' '.join(str(problem).split())[:300]} "
            "Set RAY_ADDRESS to HOST:PORT of its head, or unset it to start a cluster on this machine."
        ) from problem
    return module


@contextmanager
def _same_signals() -> Generator[None]:
    """Give this process its handlers of signals back: Ray sets its own, and leaves them when it is shut down."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Ray sets none there either
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)


def start_on_ray(campaign: Campaign, home: Home, at: FleetAddress, say: Callable[[str], None]) -> RayStations:
    """Start the campaign's stations on the cluster that RAY_ADDRESS names; `stop()` ends them within two seconds.

    Raises:
        UsageError: the cluster has other machines that cannot reach the orchestrator or the policy server.
    """
    ray = join(os.environ.get("RAY_ADDRESS", "local"))
    try:
        here = ray.util.get_node_ip_address()
        nodes = [str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]]
        _check_reach(campaign.stations.policy_server, set(nodes) - {here}, _REACHABLE_POLICY_SERVER)
        head, cores = ray.get_runtime_context().gcs_address, ray.cluster_resources().get("CPU", 1.0)
        say(f"Ray cluster {head}: {len(nodes)} node(s), {cores:g} cores.")
        address = at.private if set(nodes) <= {here} else reachable(at.public or at.private, here, set(nodes))
        files = files_to_start(campaign, home, address)
        stations = RayStations(files, address, home.stations / "logs", say)
        stations.cluster, stations.environment = ray, {"RAY_ADDRESS": head}
        stations.start()
    except BaseException:
        ray.shutdown()
        raise
    return stations


def reachable(address: str, here: str, machines: set[str]) -> str:
    """The address at which every machine of the cluster reaches the orchestrator.

    Raises:
        UsageError: some machine cannot reach it.
    """
    if machines <= {here}:
        return local_address(address)
    _check_reach(address, machines - {here}, _REACHABLE_BIND)
    return address.replace("//0.0.0.0:", f"//{here}:")


def _check_reach(address: str, others: set[str], remedy: str) -> None:
    if others and stays_here(address):
        raise UsageError(
            f"The Ray cluster has machines ({', '.join(sorted(others))}) that cannot reach {address}: {remedy}, or run"
            " --on local."
        )


class RayStations(StationProcesses):
    """Station processes on the machines of a cluster, supervised like those of this machine."""

    learner = "enpire.fleet.learner_on_ray"
    cluster: Any = None
    """The module `ray`, connected."""
    _slots: tuple[float, int] = (-1e9, 1)
    """When the learner slots were counted, and how many there were."""

    @property
    def learner_slots(self) -> int:
        """Training runs for which the whole cluster has room: each takes a GPU if it has any, otherwise a core.

        They are counted every `SLOTS_S`; while the cluster does not answer, the last number counts.
        """
        counted_s, slots = self._slots
        if (now_s := time.monotonic()) - counted_s >= SLOTS_S:
            try:
                has = self.cluster.cluster_resources()
                slots = max(1, int(has.get("GPU", 0.0) or has.get("CPU", 1.0)))
            except Exception as problem:  # noqa: BLE001 - Ray has many kinds of errors, and training can wait
                self._say(f"The learner slots of the cluster cannot be counted: {problem}.")
            self._slots = now_s, slots
        return slots

    def stop(self) -> None:
        """End all of them within two seconds and leave the cluster. Allowed twice."""
        super().stop()
        self.cluster.shutdown()

    def _launch(self, file: StationFile) -> ChildProcess:
        key = read_pair(file.key_file) if file.key_file is not None else None
        # With fewer cores than stations, they share cores as on one machine; one share is left for the learner.
        share = min(1.0, self.cluster.cluster_resources().get("CPU", 1.0) / (len(self._files) + 1))
        place = {"num_cpus": round(share, 3), "scheduling_strategy": "SPREAD", "max_restarts": 0}
        actor = self.cluster.remote(StationActor).options(**place)
        return RayProcess(self.cluster, actor.remote(file, self._address, self._logs, key, __version__))


class RayProcess:
    """A station's process behind its actor. `poll` never waits; a lost actor counts as a killed process."""

    pid = 0
    """No process of this machine."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self._exit_reply: Any = actor.poll.remote()
        self._end_reply: Any = None
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code that the actor reported; None while the process runs or waits for a free machine."""
        if self._code is None and self._received(self._exit_reply, 0.0):
            self._exit_reply = self._actor.poll.remote()
        return self._code

    def terminate(self) -> None:
        """Ask the process to end; `wait` waits for it."""
        self._end_reply = self._end_reply or self._actor.end.remote()

    def kill(self) -> None:
        """End the actor, and with it the process."""
        self._ray.kill(self._actor)
        self._code = LOST

    def wait(self, timeout: float | None = None) -> int:
        """Ask the process to end and wait for its exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs after `timeout` seconds.
        """
        self.terminate()
        if self._code is None:
            self._received(self._end_reply, timeout)
        if self._code is None:
            raise subprocess.TimeoutExpired("a station on Ray", timeout or 0.0)
        return self._code

    def _received(self, reply: Any, timeout_s: float | None) -> bool:
        """Whether the reply has arrived; an exit code in it is kept."""
        ready, _ = self._ray.wait([reply], timeout=timeout_s)
        if ready:
            try:
                self._code = self._ray.get(reply)
            except self._ray.exceptions.RayActorError:
                self._code = LOST
        return bool(ready)


class StationActor:
    """Runs one station process on a machine of the cluster; the process ends with this actor."""

    def __init__(self, file: StationFile, address: str, logs: Path, key: KeyPair | None, version: str) -> None:
        require_same(version)
        if not logs.parent.is_dir():
            # Another machine: the station keeps its state on that machine's own disk.
            own = scratch("stations", str(logs.parent))
            file, logs = replace(file, home=own / file_name(file.name, "a station")), own / "logs"
        if key is not None:
            durable.make_folder(file.home)
            key_file = file.home / "station.secret"
            write_pair(key_file, key)
            file = replace(file, key_file=key_file)
        self._process = start_station(file, address, logs)

    def poll(self) -> int | None:
        """The exit code of the station's process; None while it runs."""
        return self._process.poll()

    def end(self) -> int:
        """End the process; returns its exit code."""
        end_process(self._process, 1.2)
        return self._process.wait()


def require_same(version: str) -> None:
    """Refuse an orchestrator of another version.

    Raises:
        TransportProblem: the versions differ; the sentence names both.
    """
    if version != __version__:
        raise TransportProblem(
            f"This machine of the cluster has ENPIRE {__version__}, the orchestrator has {version}; "
            "install the same version."
        )


def scratch(*names: str) -> Path:
    """A folder in the temporary directory of this machine that only this user can enter; same names, same folder."""
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]
    top = Path(tempfile.gettempdir()) / f"enpire-{os.getuid()}"
    top.mkdir(mode=0o700, exist_ok=True)
    if top.stat().st_uid != os.getuid() or top.is_symlink():
        raise TransportProblem(f"{top} on {os.uname().nodename} belongs to another user; remove it or set TMPDIR.")
    folder = top / digest
    folder.mkdir(exist_ok=True)
    return folder
