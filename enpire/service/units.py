"""The files that make systemd start a station with its guard, or the pages of a home, when the machine starts."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from enpire.errors import UsageError
from enpire.files import is_mapping
from enpire.ids import file_name
from enpire.interfaces import RobotSettings
from enpire.parts import PartGroup
from enpire.station.station_file import StationFile
from enpire.store import durable

__all__ = ["Installation", "Serving", "serve_units", "station_units", "write_units"]

UNITS = "etc/systemd/system"
GROUP = "enpire-robots"
"""Members may connect to guards."""
SIMULATED = frozenset({"mujoco", "fake"})
REMOTE = "remote"

_READY = ("systemd-sysusers", "systemd-tmpfiles --create", "systemctl daemon-reload")

type Setting = tuple[str, str]

_COMMON: Sequence[Setting] = (
    ("NoNewPrivileges", "yes"), ("CapabilityBoundingSet", ""), ("LockPersonality", "yes"), ("PrivateTmp", "yes"),
    ("ProtectHostname", "yes"), ("ProtectKernelModules", "yes"), ("ProtectSystem", "strict"),
    ("RestrictSUIDSGID", "yes"), ("SystemCallArchitectures", "native"),
)  # fmt: skip
"""Hardening under which the sandbox of agents and of code candidates still works; it makes namespaces."""
_PRIVATE: Sequence[Setting] = (("UMask", "0027"),)
_GUARD_ALONE: Sequence[Setting] = (
    ("ProtectControlGroups", "yes"), ("ProtectKernelLogs", "yes"), ("ProtectKernelTunables", "yes"),
    ("ProtectProc", "invisible"), ("RestrictNamespaces", "yes"),
    ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_CAN"),
    ("UMask", "0022"),  # the group may enter the folder, and reads there how to reach the guard
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Files for the root of a file system, and what to type after they are there."""

    files: Mapping[str, str]
    """Path below / -> content."""
    commands: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the pages are served."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 8000


def station_units(file: StationFile, path: Path, user: str) -> Installation:
    """A station, and the guard of its robot as a user of its own. Stopped in the order station, guard.

    Args:
        file: of the station.
        path: of that file.
        user: whom the station runs as; the guard runs as `user`-guard.

    Raises:
        UsageError: the station moves a real robot without a guard, or a name or path cannot stand in a unit.
    """
    folder, name = path.resolve().parent, file_name(file.name, "a station")
    user, guard_user = _user(user), f"{_user(user)}-guard"
    guard, state = file.options.get("guard"), str(folder / file.home)
    if not is_mapping(guard):
        if file.driver not in SIMULATED and file.driver != REMOTE:
            raise UsageError(
                f"The station {file.name} has no guard, so any policy could move its robot: write `driver: "
                "robot_drivers.guard_client:open_rig` and `options: {guard: {driver: "
                f"{file.driver}, folder: /var/lib/enpire/{name}}}, options: {{...}}}}` into {path} (docs/robots.md)."
            )
        unit = _station(file, path, folder, user, ())
        files = {f"{UNITS}/enpire-station-{name}.service": unit, **_users(user), **_folders(name, (state, user, user))}
        return Installation(files=files, commands=(*_READY, f"systemctl enable --now enpire-station-{name}"))
    read: PartGroup[[RobotSettings, Path, str], tuple[str, Path, bool]] = PartGroup("robots")
    settings, guarded, is_real = read.load("guard_settings")(file.robot, folder, GROUP)
    place, kept = f"/etc/enpire/{name}.guard.json", str(guarded)
    unit = f"enpire-guard-{name}.service"
    files = {
        f"{UNITS}/{unit}": _guard(file, folder, Path(place), Path(kept), guard_user),
        f"{UNITS}/enpire-station-{name}.service": _station(file, path, folder, user, (unit,)),
        place.removeprefix("/"): settings,
        **_users(user, guard_user),
        **_folders(name, (state, user, user), (kept, guard_user, GROUP)),
    }
    code = f"sudo -u {guard_user} {shlex.quote(str(_program()))} robot code {shlex.quote(kept)}"
    commands = (
        *_READY,
        *((code,) if is_real else ()),
        f"systemctl enable --now enpire-station-{name}",
    )
    return Installation(files=files, commands=commands)


def serve_units(at: Serving, user: str) -> Installation:
    """The pages of a home with its queue of campaigns. A stop interrupts a running campaign, which keeps its state."""
    user = _user(user)
    words = [_program(), "serve", "--home", at.home, "--host", at.host, "--port", at.port]
    unit = _unit(
        {
            "Unit": (("Description", "ENPIRE: pages and campaigns"), *_after(())),
            "Service": (
                *_process(words, at.home, user), ("KillSignal", "SIGINT"), ("SuccessExitStatus", "130"),
                ("TimeoutStopSec", "120"), *_COMMON, *_PRIVATE, *_may_write(at.home),
            ),
            "Install": (("WantedBy", "multi-user.target"),),
        }
    )  # fmt: skip
    files = {f"{UNITS}/enpire-serve.service": unit, **_users(user), **_folders("serve", (str(at.home), user, user))}
    return Installation(files=files, commands=(*_READY, "systemctl enable --now enpire-serve"))


def write_units(made: Installation, root: Path) -> Sequence[Path]:
    """Write the files below a folder, such as `/`; older files of these names are replaced."""
    paths: list[Path] = []
    for below, text in made.files.items():
        path = root.absolute() / below
        durable.make_folder(path.parent)
        durable.write(path, text.encode())
        paths.append(path)
    return paths


def _station(file: StationFile, path: Path, folder: Path, user: str, guards: Sequence[str]) -> str:
    state = folder / file.home
    return _unit(
        {
            "Unit": (
                ("Description", f"ENPIRE station {file.name}"), *(("Requires", unit) for unit in guards),
                *_after(guards),
            ),
            "Service": (
                *_process([_program(), "station", path.resolve()], folder, user),
                *((("SupplementaryGroups", GROUP),) if guards else ()),
                ("TimeoutStopSec", "90"), *_COMMON, *_PRIVATE, *_may_write(state),
            ),
            "Install": (("WantedBy", "multi-user.target"),),
        }
    )  # fmt: skip


def _guard(file: StationFile, folder: Path, settings: Path, kept: Path, user: str) -> str:
    words = [Path(sys.executable).absolute(), "-P", "-m", "robot_drivers.guard", settings]
    return _unit(
        {
            "Unit": (("Description", f"ENPIRE guard of the robot of station {file.name}"), *_after(())),
            "Service": (
                *_process(words, folder, user), ("SupplementaryGroups", f"{GROUP} dialout video"),
                ("OOMScoreAdjust", "-900"), ("LimitRTPRIO", "50"), ("TimeoutStopSec", "30"), *_COMMON, *_GUARD_ALONE,
                *_own_code(file, folder), *_may_write(kept),
            ),
        }
    )  # fmt: skip


def _own_code(file: StationFile, folder: Path) -> Sequence[Setting]:
    """Where the guard finds a task of one's own. Only root may write there."""
    return (("Environment", _quoted(f"PYTHONPATH={folder}")),) if ":" in file.task else ()


def _after(units: Sequence[str]) -> Sequence[Setting]:
    """Start after the network and these units, stop before them; try again without end."""
    return (
        ("Wants", "network-online.target"), ("After", " ".join(("network-online.target", *units))),
        ("StartLimitIntervalSec", "0"),
    )  # fmt: skip


def _process(words: Iterable[object], folder: Path, user: str) -> Sequence[Setting]:
    """What every service has: a program that starts again whenever it ends with an error."""
    _quoted(folder)
    return (
        ("Type", "exec"), ("User", user), ("WorkingDirectory", str(folder).replace("%", "%%")),
        ("ExecStart", " ".join(_quoted(word).replace("$", "$$") for word in words)), ("Restart", "always"),
        ("RestartSec", "5"),
    )  # fmt: skip


def _may_write(state: Path) -> Sequence[Setting]:
    """The only folder that a service may write. Home folders are hidden, unless it or the programs lie there."""
    ours = (str(state), str(Path(sys.executable).absolute()), str(Path(__file__)))
    inside = any(path.startswith(("/home/", "/root/", "/run/user/")) for path in ours)
    return ("ProtectHome", "read-only" if inside else "yes"), ("ReadWritePaths", _quoted(state))


def _users(*names: str) -> Mapping[str, str]:
    """A file of sysusers.d."""
    lines = [f"g {GROUP} -"]
    for name in names:
        lines += [f'u {name} - "ENPIRE" /var/lib/{name}', f"m {name} {GROUP}"]
        if name.endswith("-guard"):
            lines += [f"m {name} dialout", f"m {name} video"]
    return {f"etc/sysusers.d/{names[-1]}.conf": "\n".join(lines) + "\n"}


def _folders(name: str, *made: tuple[str, str, str]) -> Mapping[str, str]:
    """A file of tmpfiles.d that makes folders, each of a (path, user, group); others may not enter them."""
    lines = [f"d {_quoted(path)} 0750 {user} {group} -\n" for path, user, group in made]
    return {f"etc/tmpfiles.d/enpire-{name}.conf": "".join(lines)}


def _unit(sections: Mapping[str, Iterable[Setting]]) -> str:
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in settings) for name, settings in sections.items()
    )


def _program() -> Path:
    """The script `enpire` of this installation."""
    return Path(sys.executable).absolute().with_name("enpire")


def _quoted(word: object) -> str:
    """A word as systemd reads it, in quotes where it needs them."""
    text = str(word)
    if not text.isprintable():
        raise UsageError(f"{text!r} cannot stand in a unit of systemd: use a name of printable letters.")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    plain_word = escaped == text.replace("%", "%%") and not set(text) & set(" ';")
    return escaped if plain_word else f'"{escaped}"'


def _user(name: str) -> str:
    if not (0 < len(name) <= 24 and name.isascii() and name.replace("-", "").replace("_", "").isalnum()):
        raise UsageError(f"{name[:80]!r} is no name of a user: use up to 24 letters, digits, - and _.")
    return name
