"""The station file: robot, task, address of the orchestrator."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from enpire.codec import PURPOSES
from enpire.errors import FileProblem
from enpire.files import find, is_mapping, parse, read_yaml
from enpire.ids import NAME_FORM, is_file_name
from enpire.interfaces import RobotSettings, Task
from enpire.plugins import require_addresses
from enpire.station.camera_recorder import Cameras, RecordingRule
from enpire.station.motion import motions_of
from enpire.store import durable
from enpire.verifiers import VerifierSettings
from enpire.wire.arrivals import MOST_LANES

OLD_KEYS: Mapping[str, str] = {"faces": "bridges"}
"""Key of station files that were written before -> its name today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StationFile:
    """Settings of one station: robot, cameras, reset, verifiers, connection."""

    name: str
    task: str
    home: Path
    """Folder for the station's own state: spool, fetched policies."""
    connect: str = ""
    """Address of the orchestrator, tcp://HOST:PORT; may be given on the command line instead."""
    driver: str = "mujoco"
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    """For the driver."""
    lanes: int = 1
    """Robots that move in step; 1 for a real robot."""
    pace: Literal["fast", "realtime"] = "realtime"
    """`fast` steps a simulation as fast as it can; `realtime` keeps the task's rate."""
    inference: Literal["wait", "overlap"] = "wait"
    """`overlap`: the policy decides the next chunk while the robot carries out the one before; for pace realtime."""
    policy_server: str = ""
    """Address of an `enpire policy serve` that runs inference, tcp://HOST:PORT; empty: the station runs it."""
    policy_server_key: str = ""
    """Public key of that server; empty where it has the orchestrator's."""
    policy_kinds: tuple[str, ...] = ()
    """Kinds "module:name" of versions that this station may load besides the installed kinds. They can be any code."""
    unsandboxed: bool = False
    """Whether policies whose code an agent wrote may run without a sandbox where bubblewrap does not work."""
    reset: Literal["teleport", "robot"] = "robot"
    """How the scene gets into the start state: set by the simulation, or by the robot."""
    operator: str = ""
    """Plug-in that may take over in supervised episodes: `lerobot` (a teleoperator of LeRobot), `keyboard` (in the
    station's terminal); `simulated` replaces a human operator. Empty: no operator."""
    operator_options: Mapping[str, object] = field(default_factory=dict[str, object])
    """For the operator."""
    verifiers: tuple[VerifierSettings, ...] = ()
    """Verifiers that must all confirm a success; empty: the task's own verifier alone."""
    account: Path | None = None
    """File in which verifiers that cost money add up their cost; stations with one file share a budget. None: a file in
    `home`."""
    record: Cameras = ()
    """Cameras whose images are recorded at every command of every episode, or `all`. Images that a policy uses are
    always recorded, except with the driver `mujoco`, whose episodes can be replayed."""
    bridges: Mapping[str, Mapping[str, bool | int | float | str]] = field(
        default_factory=dict[str, Mapping[str, bool | int | float | str]]
    )
    """Other systems that see and may stop this station: plug-in -> its options, such as `ros2: {domain: 7}`."""
    seed: int = 0
    """Draws the station's own friction, mass and offsets in simulation."""
    min_free_mb: int = 256
    """With less free space on the disk of `home` the station takes no new orders and raises an alarm."""
    reset_limit_s: float = 60.0
    """A reset by the robot that takes longer has failed."""
    server_key: str = ""
    """Public key of the orchestrator (40 characters, Z85); needed when it is not on this machine."""
    key_file: Path | None = None
    """This station's secret key, made by `enpire station enroll`."""

    def __post_init__(self) -> None:
        """Refuse settings that no station can have."""
        if not is_file_name(self.name):
            raise ValueError(f"name {self.name!r} must have {NAME_FORM}.")
        if not 1 <= self.lanes <= MOST_LANES:
            raise ValueError(f"lanes must be from 1 to {MOST_LANES}.")
        require_addresses(self.policy_kinds)
        if self.inference == "overlap" and self.pace == "fast":
            raise ValueError("inference: overlap needs pace: realtime; a fast simulation always waits for its policy.")
        if self.seed < 0 or self.min_free_mb < 0 or self.reset_limit_s <= 0:
            raise ValueError("seed and min_free_mb must not be negative, reset_limit_s must be positive.")

    @property
    def robot(self) -> RobotSettings:
        """What opens the robot."""
        return RobotSettings(
            name=self.name, task=self.task, driver=self.driver, options=self.driver_options, lanes=self.lanes,
            seed=self.seed, pace=self.pace,
        )  # fmt: skip

    @property
    def driver_options(self) -> Mapping[str, object]:
        """The options for the driver; those of a `guard` also name the task, which its process makes again."""
        guard = self.options.get("guard")
        if not is_mapping(guard):
            return self.options
        return {**self.options, "guard": {"task": self.task, **guard}}

    @property
    def recording_rule(self) -> RecordingRule:
        """Which images are recorded. Simulated episodes can be replayed with a camera, so theirs need not be."""
        return RecordingRule(cameras=self.record, policy_images=self.driver != "mujoco", waits=self.pace == "fast")


def read_station(name_or_path: str | Path) -> StationFile:
    """Read a station file by name (configs/stations) or path.

    Raises:
        FileProblem: the file is missing, or a key or value is wrong.
    """
    path = find("stations", name_or_path)
    file = parse(StationFile, _renamed(read_yaml(path), path), f"The station {path}")
    if file.key_file is None:
        return file
    return replace(file, key_file=path.parent / file.key_file)  # relative to the station file


def _renamed(content: Mapping[str, object], path: Path) -> Mapping[str, object]:
    """The content of a station file under the names that its keys have today."""
    for old, new in OLD_KEYS.items():
        if old in content and new in content:
            raise FileProblem(f"The station {path} has the key {new!r} and its old name {old!r}; keep {new!r} alone.")
    return {OLD_KEYS.get(key, key): value for key, value in content.items()}


def write_station(file: StationFile, path: Path) -> None:
    """Write a station file from which `read_station` reads equal settings."""
    import yaml

    content = {key: str(value) if isinstance(value, Path) else value for key, value in asdict(file).items()}
    durable.make_folder(path.parent)
    durable.write(path, yaml.safe_dump(content, sort_keys=False).encode())


def facts(file: StationFile, task: Task) -> Mapping[str, str]:
    """Facts about a station for its hello, such as the digest of its verifier and the motions of its idle robots."""
    try:
        software = version("enpire")
    except PackageNotFoundError:
        software = "unknown"
    return {
        "task": file.task, "driver": file.driver, "pace": file.pace, "reset": file.reset,
        "verifier": task.verifier().digest, "enpire": software, "python": platform.python_version(),
        "host": platform.node(), "purposes": " ".join(PURPOSES), "motions": " ".join(motions_of(task)),
    }  # fmt: skip
