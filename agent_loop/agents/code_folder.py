"""The folder in which a language model writes a code candidate, and the tools that it has on it.

The folder is a set of texts in memory, so it holds no link, no binary file and nothing of this computer. The files that
a candidate may have are checked when it is submitted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

from agent_loop.arguments import FolderCode, NoArguments, object_schema
from agent_loop.tools import BY_NAME, anthropic_schema
from enpire.errors import UsageError
from enpire.files import parse, shown
from enpire.service import code

_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}){0,2}")
SUBMIT = "submit_code"
"""The lab's tool that gets the files of the folder."""
SUBMIT_FOLDER = replace(
    BY_NAME[SUBMIT], arguments=FolderCode,
    description=f"{BY_NAME[SUBMIT].description} The lab takes the files of your folder.",
)  # fmt: skip
"""The same as an agent with a folder sees it."""
LOADING = ("adopt", "revert_code")
"""The lab's tools whose answers replace the files of the folder."""
TAKE = "take_skill"
"""The lab's tool whose answer is added to the folder."""


class FolderProblem(UsageError):
    """A file tool cannot do what the model asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePath:
    """Arguments of read_file and delete_file."""

    path: Annotated[str, "Path of a file in your folder, for example learner.py or skills/grasp.py."]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """Arguments of write_file."""

    path: Annotated[str, "Path in your folder; an older file of that path is replaced."]
    text: Annotated[str, "The whole text of the file."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Arguments of edit_file."""

    path: Annotated[str, "Path of a file in your folder."]
    old: Annotated[str, "The text to replace. It must be in the file exactly once."]
    new: Annotated[str, "The text in its place; may be empty."]


@dataclass(slots=True)
class CodeFolder:
    """The files of one candidate: path -> text."""

    files: dict[str, str] = field(default_factory=dict[str, str])

    def tools(self) -> Mapping[str, Callable[..., dict[str, object]]]:
        """The file tools, as functions with keyword arguments."""
        return {name: self._bound(name) for name in _TOOLS}

    def loading(self, tool: Callable[..., object]) -> Callable[..., dict[str, object]]:
        """A tool of the lab whose answer replaces the files of the folder; the model reads their names."""

        def load(**arguments: object) -> dict[str, object]:
            answer: dict[str, Any] = dict(cast("Mapping[str, Any]", tool(**arguments)))
            if "files" in answer:
                self.files = dict(answer["files"])
                answer["files"] = sorted(self.files)
            return answer

        return load

    def taking(self, tool: Callable[..., object]) -> Callable[..., dict[str, object]]:
        """A tool of the lab whose answer is a file, which it adds to the folder; the model reads its path."""

        def take(**arguments: object) -> dict[str, object]:
            answer = dict(cast("Mapping[str, Any]", tool(**arguments)))
            path, text = str(answer["path"]), str(answer.pop("text"))
            if self.files.get(path, text) != text:
                raise FolderProblem(f"The folder has another {path}; rename it, then take the skill.")
            return {**answer, **self._write(NewFile(path=path, text=text))}

        return take

    def _bound(self, name: str) -> Callable[..., dict[str, object]]:
        _, kind, run = _TOOLS[name]
        return lambda **arguments: run(self, parse(kind, arguments, f"The call of {name}"))

    def _list(self, _: NoArguments) -> dict[str, object]:
        return {"files": {path: text.count("\n") for path, text in sorted(self.files.items())}, "limits": code.limits()}

    def _read(self, which: FilePath) -> dict[str, object]:
        return {"path": which.path, "text": self._text(which.path)}

    def _write(self, new: NewFile) -> dict[str, object]:
        if not _PATH.fullmatch(new.path):
            raise FolderProblem(
                f"{shown(new.path)} is no path in your folder: use at most 3 names of letters, digits, '_', '-' and "
                "'.', separated by '/'."
            )
        files = {**self.files, new.path: new.text}
        size = sum(len(text.encode(errors="replace")) for text in files.values())
        if len(files) > code.MOST_FILES or size > code.MOST_BYTES:
            raise FolderProblem(
                f"Your folder would hold {len(files)} files with {size} bytes; at most {code.MOST_FILES} files with "
                f"{code.MOST_BYTES} bytes together are allowed: delete or shorten one."
            )
        self.files = files
        return {"path": new.path, "lines": new.text.count("\n")}

    def _edit(self, edit: Edit) -> dict[str, object]:
        text = self._text(edit.path)
        times = text.count(edit.old) if edit.old else 0
        if times != 1:
            raise FolderProblem(
                f"`old` is {times} times in {edit.path}, and must be there once: give more of the text around it."
            )
        return self._write(NewFile(path=edit.path, text=text.replace(edit.old, edit.new)))

    def _delete(self, which: FilePath) -> dict[str, object]:
        self._text(which.path)
        self.files = {path: text for path, text in self.files.items() if path != which.path}
        return {"deleted": which.path}

    def _text(self, path: str) -> str:
        if path not in self.files:
            there = ", ".join(sorted(self.files)) or "none"
            raise FolderProblem(f"There is no file {shown(path)} in your folder; there are: {there}.")
        return self.files[path]


_TOOLS: Mapping[str, tuple[str, type, Callable[[CodeFolder, Any], dict[str, object]]]] = {
    "list_files": ("The files of your folder with their lines, and the limits.", NoArguments, CodeFolder._list),
    "read_file": ("The text of a file of your folder.", FilePath, CodeFolder._read),
    "write_file": ("Write a file of your folder.", NewFile, CodeFolder._write),
    "edit_file": ("Replace a text in a file of your folder.", Edit, CodeFolder._edit),
    "delete_file": ("Delete a file of your folder.", FilePath, CodeFolder._delete),
}
"""Name -> (description, arguments, function)."""


def with_file_tools(schemas: list[dict[str, object]]) -> list[dict[str, object]]:
    """The lab's tools as the Messages API takes them, and the file tools; `submit_code` takes the folder's files."""
    own: list[dict[str, object]] = [
        {"name": name, "description": description, "input_schema": object_schema(kind)}
        for name, (description, kind, _) in _TOOLS.items()
    ]
    return [anthropic_schema(SUBMIT_FOLDER) if one["name"] == SUBMIT else one for one in schemas] + own
