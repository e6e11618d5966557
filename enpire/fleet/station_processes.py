"""Station processes that the orchestrator starts, supervises and stops on its own machine. One log file for each."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from enpire.ids import file_name
from enpire.log_lines import print_line
from enpire.processes.child_process import (
    ChildProcess,
    ProcessLimits,
    end_process,
    single_core_environment,
    start_python,
)
from enpire.station.station_file import StationFile, write_station
from enpire.verifiers import key_variables

_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 0.5, 30.0
_STEADY_S = 60.0
"""A station that ran for this long is restarted quickly after its next failure."""
_PATIENCE_S = 1.6
"""Time from SIGTERM to SIGKILL, for all stations together."""
_OOM_SCORE = 300
"""When memory runs out, Linux ends agents and learners before stations, and stations before orchestrator and guards."""


@dataclass(slots=True)
class _Supervised:
    file: StationFile
    process: ChildProcess
    started_s: float
    back_off_s: float = _FIRST_BACK_OFF_S
    restart_at_s: float = 0.0


class Network(Protocol):
    """A network between the stations and the orchestrator, as a plug-in of the group `networks` makes it.

    The plug-in is called with the orchestrator's address and a function that prints one sentence.
    """

    address: str
    """Where the stations connect."""

    def supervise(self) -> None:
        """Do what is due; called several times a second."""

    def close(self) -> None:
        """End it. Allowed twice."""


class StationProcesses:
    """The station processes of one campaign. They end with this process, even when it is killed.

    Args:
        files: one per station.
        address: of the orchestrator.
        logs: folder for `<station>.log` and the station files that the processes read; made when missing.
        say: prints one sentence when a station has ended unexpectedly.
        network: lies between the stations and the orchestrator; `address` is then the network's.
    """

    learner = "enpire.processes.learner_process"
    """Module of the training process that runs where these stations run."""
    environment: Mapping[str, str] = MappingProxyType({})
    """Variables that the training process gets in addition to the environment of this process."""

    def __init__(
        self, files: Sequence[StationFile], address: str, logs: Path, say: Callable[[str], None] = print_line,
        network: Network | None = None,
    ) -> None:  # fmt: skip
        self._files, self._address, self._logs, self._say = tuple(files), address, logs, say
        self._network = network
        self._running: dict[str, _Supervised] = {}

    @property
    def learner_slots(self) -> int:
        """Training runs for which there is room at one time: the cores that this process may use."""
        return len(os.sched_getaffinity(0))

    def start(self) -> None:
        """Start all stations; returns at once. Each station says hello when it is ready."""
        for file in self._files:
            if file.name not in self._running:
                self._running[file.name] = _Supervised(file, self._launch(file), time.monotonic())

    def supervise(self, *, leaving: bool = False) -> None:
        """Restart stations that ended, after a longer pause each time. Call it regularly.

        Args:
            leaving: the stations were asked to leave, so one that ended with 0 did so.
        """
        if self._network is not None:
            self._network.supervise()
        now = time.monotonic()
        for running in self._running.values():
            code = running.process.poll()
            if code is None or (leaving and code == 0):
                continue
            if not running.restart_at_s:
                if now - running.started_s > _STEADY_S:
                    running.back_off_s = _FIRST_BACK_OFF_S
                running.restart_at_s = now + running.back_off_s
                self._say(
                    f"Station {running.file.name} ended with {code}; it is started again in {running.back_off_s:g} s, "
                    f"see {self.log(running.file.name)}."
                )
                running.back_off_s = min(2 * running.back_off_s, _LONGEST_BACK_OFF_S)
            elif now >= running.restart_at_s:
                running.process, running.started_s, running.restart_at_s = self._launch(running.file), now, 0.0

    def log(self, name: str) -> Path:
        """The log file of a station."""
        return self._logs / f"{file_name(name, 'a station')}.log"

    def stop(self) -> None:
        """End all stations within two seconds: SIGTERM, then SIGKILL for those that still run. Allowed twice."""
        alive = [running.process for running in self._running.values() if running.process.poll() is None]
        for process in alive:
            process.terminate()
        deadline = time.monotonic() + _PATIENCE_S
        for process in alive:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                end_process(process, 0.0)
        self._running.clear()
        if self._network is not None:
            self._network.close()

    def _launch(self, file: StationFile) -> ChildProcess:
        return start_station(file, self._address, self._logs)


def start_station(file: StationFile, address: str, logs: Path) -> subprocess.Popen[bytes]:
    """Start one station; its file and its log are in `logs`, and it ends with the process that started it."""
    path = logs / f"{file_name(file.name, 'a station')}.yaml"
    write_station(file, path)
    arguments = [str(path), "--connect", address, "--die-with-parent"]
    # A fast simulation uses every free core, so it has a lower priority than the loop, as a learner has.
    limits = ProcessLimits(nice=10 if file.pace == "fast" else 0, oom_score=_OOM_SCORE)
    environment = single_core_environment(*key_variables(file.verifiers))
    return start_python("enpire.station.station", arguments, path.with_suffix(".log"), limits, environment)
