"""One Ray cluster for all tests of a run: two machines (both are this one) in processes of their own.

Ray sets handlers for signals and at exit, and variables of the environment, in the process that starts it. None of them
reaches a process of the tests. `python -m tests.fakes.ray_cluster FOLDER PID` writes the address of the head into
FOLDER/address, keeps as many second machines as FOLDER/wanted asks for (0 or 1; FOLDER/machines has their number), and
ends, with the cluster, when the process PID has ended.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.point_task import environment

CORES = 2
"""Of each machine."""
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class RayCluster:
    """The cluster, from outside."""

    folder: Path

    @property
    def address(self) -> str:
        """HOST:PORT of the head."""
        return (self.folder / "address").read_text()

    def machines(self, second: int) -> None:
        """Have one second machine or none; it is lost at once and without notice."""
        (self.folder / "wanted").write_text(str(second))
        _until(lambda: (self.folder / "machines").read_text() == str(second), "the second machine")


@contextmanager
def ray_cluster(folder: Path, owner: int) -> Iterator[RayCluster]:
    """The whole cluster, for one test at a time; the first caller starts it.

    Args:
        folder: the same for all processes of a run of tests.
        owner: the process with which the cluster ends.
    """
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        cluster = RayCluster(folder)
        if not (folder / "address").exists():
            _start(folder, owner)
        cluster.machines(1)
        yield cluster


def _start(folder: Path, owner: int) -> None:
    around = environment() | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    command = ["setsid", "--fork", sys.executable, "-m", "tests.fakes.ray_cluster", str(folder), str(owner)]
    with (folder / "log").open("wb") as log:
        subprocess.run(command, env=around, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    _until((folder / "address").exists, f"a Ray cluster, see {folder / 'log'}")


def _until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(FileNotFoundError):
            if condition():
                return
        assert time.monotonic() < deadline, f"waited too long for {what}"
        time.sleep(0.1)


def _write(path: Path, text: str) -> None:
    staged = path.with_suffix(".new")
    staged.write_text(text)
    staged.replace(path)


def main(folder: Path, owner: int) -> None:
    """Keep the cluster until its owner has ended."""
    from ray.cluster_utils import Cluster

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": CORES, "include_dashboard": False})
    second: Any = None
    _write(folder / "machines", "0")
    _write(folder / "address", made.address)
    with suppress(ProcessLookupError):
        while True:
            os.kill(owner, 0)
            wanted = folder / "wanted"
            if wanted.exists() and wanted.read_text() == str(int(second is None)):
                if second is None:
                    second = made.add_node(num_cpus=CORES)
                else:
                    made.remove_node(second, allow_graceful=False)
                    second = None
                _write(folder / "machines", str(int(second is not None)))
            time.sleep(0.1)
    made.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
