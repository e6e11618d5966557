"""Policy versions at a station: fetched by hash, checked, loaded next to the control loop, kept on disk.

Where a policy server runs inference for the station, `make` asks it to load the version instead.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from enpire.errors import EnpireError, PeerSilent, PolicyProblem
from enpire.ids import is_version_id, version_id
from enpire.interfaces import Policy, Task
from enpire.policy_calls import PLUGIN_ERRORS, LoadedPolicy
from enpire.station.people import NO_OPERATOR, HoldStill
from enpire.station.station_file import StationFile
from enpire.store import durable, removal, versions
from enpire.store.load_version import AllowedKinds, load_version, require_horizon
from enpire.types import PEOPLE, SOURCE_EXPERT, SOURCE_POLICY
from enpire.wire.host_services import THIS_HOST, HostServices
from enpire.wire.messages import PolicyMissing, PolicyPart, WantPolicy

EXPERT = "scripted:expert"
_LOADED, _LOADED_BYTES, _KEPT = 4, 2**28, 16
"""Versions kept in memory: the newest ones up to the first number, and further ones while the files of all are at most
so many bytes. Most versions on disk, and in memory."""
_ASK_AGAIN_S = 3.0
_ARRIVING = "incoming-"
"""Beginning of the names of the files into which versions arrive."""
_REFUSED_S = 30.0
"""How long a version that could not be fetched or loaded is refused before the next try."""
_RETRY_S = 2.0
"""How often a policy server that is away is called again."""


@runtime_checkable
class Reconnectable(Protocol):
    """A policy that another process runs."""

    @property
    def lost(self) -> bool:
        """Whether it must be made again before the next episode begins."""
        ...


@dataclass(slots=True)
class _Fetch:
    """A version that is being fetched."""

    have: int = 0
    """Parts that are in the file."""
    asked_s: float = -1e9


@dataclass(slots=True, frozen=True)
class _Refusal:
    why: str
    fetched: bool
    """True when the files arrived and the policy itself is faulty."""
    until_s: float


class PolicyCache:
    """Gives policies by hash. `find` never waits: it starts the fetch or the load, and the caller tries again later.

    Args:
        folder: the station's cache of versions; made when missing.
        task: gives the expert.
        seed: of the expert.
        host: clock and loader threads.
        make: (folder whose hash was checked, policy_id) -> the policy; PeerSilent while the policy server is away.
    """

    def __init__(
        self, folder: Path, task: Task, seed: int, host: HostServices = THIS_HOST,
        make: Callable[[Path, str], Policy] | None = None,
    ) -> None:  # fmt: skip
        durable.make_folder(folder)
        durable.sweep(folder)
        for left in folder.glob(f"{_ARRIVING}*"):
            removal.remove(left, folder)
        self._folder, self._task, self._seed = folder, task, seed
        self._loaded: OrderedDict[str, LoadedPolicy] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """Version in memory -> bytes of its files; 0 where it is missing."""
        self._loading: dict[str, Future[LoadedPolicy]] = {}
        self._fetching: dict[str, _Fetch] = {}
        self._refused: dict[str, _Refusal] = {}
        self._forgetting = threading.Lock()
        self._clock, self._loaders = host.clock, host.loaders()
        self._make = make or load_version
        self.has_operator = False
        """Whether an operator can move the robot, so that people can demonstrate here."""
        self._away, self._missed, self._retry_s = "", "", -1e9
        """Why policies cannot be made now, which one was requested, and when to try again."""

    def find(self, policy_id: str) -> LoadedPolicy | None:
        """The policy if it is ready; None while it is fetched or loaded.

        Raises:
            PolicyProblem: it cannot be fetched or loaded.
        """
        ready = self._loaded.get(policy_id)
        if ready is not None and isinstance(ready.policy, Reconnectable) and ready.policy.lost:
            del self._loaded[policy_id]
        elif ready is not None:
            self._loaded.move_to_end(policy_id)
            return ready
        refusal = self._refused.get(policy_id)
        if refusal is not None and self._clock() < refusal.until_s:
            raise PolicyProblem(refusal.why)
        if policy_id in self._loading:
            return self._finish(policy_id)
        if policy_id == EXPERT:
            self._start(policy_id, self._expert)
        elif policy_id == PEOPLE:
            return self._people()
        elif not is_version_id(policy_id):
            raise PolicyProblem(f"policy {policy_id[:40]!r} is not a version's id of 64 hexadecimal digits")
        elif self._away and self._clock() < self._retry_s:
            return None
        elif self._path(policy_id).is_dir():
            self._start(policy_id, lambda: self._load(policy_id))
        else:
            self._fetching.setdefault(policy_id, _Fetch())
        return None

    @property
    def alarm(self) -> str:
        """One sentence when a version cannot be fetched; empty otherwise, also when a fetched version is faulty."""
        now = self._clock()
        for refusal in self._refused.values():
            if now < refusal.until_s and not refusal.fetched:
                return refusal.why
        return self._away

    def look(self) -> None:
        """Try again to make a policy that failed because the policy server was away, even if no order needs it now."""
        if self._away and (self._missed in self._loading or self._clock() >= self._retry_s):
            with contextlib.suppress(PolicyProblem):
                self.find(self._missed)

    def ask_again(self) -> None:
        """Request the missing parts again: after a reconnect, earlier requests may be lost."""
        for fetch in self._fetching.values():
            fetch.asked_s = -1e9

    def next_request(self) -> WantPolicy | None:
        """The part to request from the orchestrator now; None if none is due."""
        now = self._clock()
        for policy_id, fetch in self._fetching.items():
            if now - fetch.asked_s > _ASK_AGAIN_S:
                fetch.asked_s = now
                return WantPolicy(policy_id=policy_id, part=fetch.have)
        return None

    def arrived(self, part: PolicyPart) -> None:
        """Take one part; with the last one, check the hash before the version is kept."""
        fetch = self._fetching.get(part.policy_id)
        if fetch is None or part.part != fetch.have:
            return
        packed = self._folder / f"{_ARRIVING}{version_id(part.policy_id)}.parts"
        try:
            with packed.open("ab" if fetch.have else "wb") as file:
                file.write(part.data)
        except OSError as problem:
            removal.try_remove(packed, self._folder)
            self.missing(PolicyMissing(policy_id=part.policy_id, why=str(durable.refusal(problem, packed))))
            return
        fetch.have, fetch.asked_s = fetch.have + 1, -1e9
        if fetch.have == part.parts:
            del self._fetching[part.policy_id]
            self._start(part.policy_id, lambda: self._keep(part.policy_id, packed))

    def missing(self, answer: PolicyMissing) -> None:
        """Note that the orchestrator cannot send a version."""
        if self._fetching.pop(answer.policy_id, None) is not None:
            why = f"policy {answer.policy_id[:12]} cannot be fetched: {answer.why}"
            self._refuse(answer.policy_id, why, fetched=False)

    def close(self) -> None:
        """End the loader threads."""
        self._loaders.shutdown(wait=True, cancel_futures=True)

    def _start(self, policy_id: str, work: Callable[[], LoadedPolicy]) -> None:
        self._loading[policy_id] = self._loaders.submit(work)

    def _finish(self, policy_id: str) -> LoadedPolicy | None:
        future = self._loading[policy_id]
        if not future.done():
            return None
        del self._loading[policy_id]
        try:
            loaded = future.result()
        except PeerSilent as problem:
            self._away, self._missed, self._retry_s = str(problem), policy_id, self._clock() + _RETRY_S
            return None
        except PLUGIN_ERRORS as problem:
            text = f"policy {policy_id[:12]} refused: {' '.join(str(problem).split())}"[:1000]
            self._refuse(policy_id, text, fetched=policy_id == EXPERT or self._path(policy_id).is_dir())
            raise PolicyProblem(text) from problem
        if policy_id != EXPERT:
            self._away = ""
        self._loaded[policy_id] = loaded
        while self._holds_too_many():
            oldest, _ = self._loaded.popitem(last=False)
            self._sizes.pop(oldest, None)
        return loaded

    def _holds_too_many(self) -> bool:
        """Whether the version that was not used for longest must leave memory.

        Branches and gates use many versions in turn; loading them again and again leaves robots idle.
        """
        total = sum(self._sizes.get(name, 0) for name in self._loaded)
        return len(self._loaded) > (_KEPT if total <= _LOADED_BYTES else _LOADED)

    def _refuse(self, policy_id: str, why: str, *, fetched: bool) -> None:
        self._refused[policy_id] = _Refusal(why, fetched, self._clock() + _REFUSED_S)

    def _expert(self) -> LoadedPolicy:
        return _checked(EXPERT, self._task.expert(self._seed), SOURCE_EXPERT)

    def _people(self) -> LoadedPolicy:
        if not self.has_operator:
            self._refuse(PEOPLE, NO_OPERATOR, fetched=False)
            raise PolicyProblem(NO_OPERATOR)
        self._loaded[PEOPLE] = _checked(PEOPLE, HoldStill(self._task.spec), SOURCE_EXPERT)
        return self._loaded[PEOPLE]

    def _keep(self, policy_id: str, packed: Path) -> LoadedPolicy:
        versions.keep(packed, policy_id, self._folder)
        self._forget_old()
        return self._load(policy_id)

    def _load(self, policy_id: str) -> LoadedPolicy:
        folder = check_version(self._folder, policy_id)
        loaded = _checked(policy_id, self._make(folder, policy_id), SOURCE_POLICY)
        # A policy in a process of its own takes memory that its files do not show.
        least = _LOADED_BYTES // _LOADED if isinstance(loaded.policy, Reconnectable) else 0
        self._sizes[policy_id] = max(least, _bytes_of(folder))
        return loaded

    def _path(self, policy_id: str) -> Path:
        return self._folder / version_id(policy_id)

    def _forget_old(self) -> None:
        """Remove the oldest versions on disk, but none that arrives or is loaded. Both loader threads call it."""
        with self._forgetting:
            busy = {version_id(policy_id) for policy_id in tuple(self._loading) if policy_id != EXPERT}
            kept = [path for path in self._folder.glob("[!.]*") if not path.name.startswith(_ARRIVING)]
            for path in sorted(kept, key=_made_ns, reverse=True)[_KEPT:]:
                if path.name not in busy:
                    removal.try_remove(path, self._folder)


def _made_ns(path: Path) -> int:
    """When it was made, in ns; 0 where it was removed meanwhile."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _bytes_of(folder: Path) -> int:
    """Bytes of the files of a version; 0 where it was removed meanwhile."""
    try:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError:
        return 0


def check_version(root: Path, policy_id: str) -> Path:
    """The folder of a version below `root`, whose files have its hash; a folder with other files is removed.

    Raises:
        FileProblem: `policy_id` is not the id of a version; nothing was removed.
        PolicyProblem: the files have another hash.
    """
    folder = root / version_id(policy_id)
    try:
        found = versions.identify(folder)
    except EnpireError:
        found = "nothing that can be read"
    if found != policy_id:
        removal.try_remove(folder, root)
        raise PolicyProblem(f"its files on this disk were changed (hash {found[:12]}); they are fetched again")
    return folder


def loader_of(file: StationFile) -> Callable[[Path, str], Policy]:
    """Loads versions at a station, of the kinds that are installed there or that its own file allows."""
    allowed = AllowedKinds(
        kinds=file.policy_kinds, where="name it under `policy_kinds` in the station's own file",
        unsandboxed=file.unsandboxed,
    )  # fmt: skip
    return lambda folder, policy_id: load_version(folder, policy_id, allowed)


def _checked(policy_id: str, policy: Policy, source: int) -> LoadedPolicy:
    require_horizon(policy)
    return LoadedPolicy.of(policy_id, policy, source)
