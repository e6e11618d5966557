"""What a coding CLI works in and what outlives its session: the folder of its next code candidate, and its turn.

The folder lies in the room's memory. Its files are kept whenever the CLI calls a tool of the lab and when its turn
ends, so that a session that was killed continues with them.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agent_loop.agent_context import AgentContext
from agent_loop.agents.code_folder import LOADING, SUBMIT, TAKE
from enpire.errors import UsageError
from enpire.ids import mint
from enpire.service import code
from enpire.service.skills import add_file

Tools = Mapping[str, Callable[..., object]]


@dataclass(slots=True)
class CliFolder:
    """The folder of one agent session."""

    path: Path
    context: AgentContext
    turn: str = ""
    """Id of the turn that has begun and not ended; empty between turns."""
    _kept: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def kept_by(context: AgentContext, path: Path) -> CliFolder:
        """As an earlier process of the session kept it."""
        record: dict[str, Any] = json.loads(context.kept[-1]) if context.kept else {}
        return CliFolder(path, context, record.get("turn", ""), record.get("files", {}))

    def begin_turn(self) -> None:
        """Begin a turn, or continue the one that a killed process began."""
        if not self.turn:
            self.turn = mint()
            self._keep()

    def end_turn(self) -> None:
        """End the turn."""
        self.turn = ""
        self._read()
        self._keep()

    def open(self, tools: Tools) -> dict[str, Callable[..., object]]:
        """Write the files to begin with, where there are none; the tools, which take and replace the files."""
        if not self.path.is_dir():
            code.replace_files(self.path, self._kept or cast("Mapping[str, Any]", tools["get_code"]())["files"])
        loading = {name: self._loading(tools[name]) for name in LOADING}
        own = {SUBMIT: self._submitting(tools[SUBMIT]), TAKE: self._taking(tools[TAKE])}
        of_folder = {**tools, **loading, **own}
        return {name: self._keeping(tool) for name, tool in of_folder.items()}

    def _submitting(self, submit: Callable[..., object]) -> Callable[..., object]:
        """`submit_code`, which gets the files of the folder.

        Raises:
            UsageError: they cannot be read as a code candidate.
        """
        return lambda **arguments: submit(**{**arguments, "files": code.read_folder(self.path)})

    def _loading(self, load: Callable[..., object]) -> Callable[..., object]:
        """A tool whose answer replaces the files of the folder; the CLI reads their names."""

        def loaded(**arguments: object) -> dict[str, object]:
            answer: dict[str, Any] = dict(cast("Mapping[str, Any]", load(**arguments)))
            if "files" in answer:
                code.replace_files(self.path, answer["files"])
                answer["files"] = sorted(answer["files"])
            return answer

        return loaded

    def _taking(self, take: Callable[..., object]) -> Callable[..., object]:
        """A tool whose answer is a file, which it adds to the folder; the CLI reads its path."""

        def taken(**arguments: object) -> dict[str, object]:
            answer = dict(cast("Mapping[str, Any]", take(**arguments)))
            add_file(self.path, str(answer["path"]), str(answer.pop("text")))
            return answer

        return taken

    def _keeping(self, tool: Callable[..., object]) -> Callable[..., object]:
        """A tool; the files are kept before it is called and after."""

        def keeping(**arguments: object) -> object:
            self._keep_changes()
            try:
                return tool(**arguments)
            finally:
                self._keep_changes()

        return keeping

    def _keep_changes(self) -> None:
        if self._read():
            self._keep()

    def _read(self) -> bool:
        """Read the files, if they are some that a candidate may have; whether they changed."""
        before = self._kept
        with contextlib.suppress(UsageError):  # the CLI is told why when it submits them
            self._kept = code.read_folder(self.path) if self.path.is_dir() else before
        return self._kept != before

    def _keep(self) -> None:
        self.context.keep(json.dumps({"turn": self.turn, "files": self._kept}), True)
