"""A scripted model that edits the files of a code candidate with the own tools of a real coding CLI.

The script: read the brief, state a hypothesis, read and edit learner.py, policy.py and recipe.yaml, also write a file
outside the edit surface, submit and be refused, delete that file, submit again, wait for the gate, post a conclusion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.scripted_model import Body, Researcher, Step, read_result
from enpire.service.code import template

CODE_CLAIM = {
    "statement": "The demonstrators are slow and pause; a servo that knows where they end is faster and as accurate.",
    "falsifier": "The candidate does not beat the champion on hidden starts.",
    "regime": "heuristic", "kind": "draft", "effect": "+50 points",
}  # fmt: skip
LEARNER = '''"""Where the successful demonstrations end: the place to which the policy steers."""

import numpy as np


def improve(job):
    """The median tip at the end of the successes."""
    ends = [one.arrays().state[-1, :2] for one in job.episodes if one.outcome == "success"]
    np.savez(job.output / "servo.npz", aim=np.median(np.asarray(ends), axis=0), gain=job.settings["gain"])
    job.report("fit", 1, 1, ends=len(ends))
    return {"ends": float(len(ends))}
'''
POLICY = '''"""Centre the pin above the rim, then descend; go back up where it jams."""

import numpy as np

HORIZON = 8
EXECUTE = 4


class Policy:
    """A servo on the sensed tip."""

    def __init__(self, version, seed):
        servo = np.load(version / "servo.npz")
        self.aim, self.gain = servo["aim"].astype(np.float64), float(servo["gain"])

    def act(self, observation):
        state = observation["state"].astype(np.float64)
        (x, y), z = state[:2] - self.aim, state[2]
        jammed = -1.0 < z < 0.6 and state[10] > 1.2
        chunk = np.empty((HORIZON, 3), np.float32)
        for tick in range(HORIZON):
            aside, inside = float(np.hypot(x, y)), z < -0.6
            rate = min(self.gain, 18.0 / max(aside, 1e-9)) * (0.4 if inside else 1.0)
            hover = float(np.clip(8.0 * (1.0 - z), -20.0, 6.0))
            down = min(-10.0, hover) if inside or aside < 0.22 else hover
            chunk[tick] = -rate * x, -rate * y, 10.0 if jammed and z < 1.0 else down
            x, y, z = (value + float(speed) / 30.0 for value, speed in zip((x, y, z), chunk[tick]))
        return chunk
'''
SETTINGS = ("settings: {ridge: 0.1}\nturn_rollouts: 0", "settings: {gain: 9.0}\nturn_rollouts: 64")
"""What recipe.yaml of the template says, and what takes its place."""
OUTSIDE = ("verifier.py", 'def judge(episode):\n    """Every episode is a success."""\n    return True\n')
"""A file outside the edit surface."""
WRITTEN: Mapping[str, str] = {"learner.py": LEARNER, "policy.py": POLICY}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTools:
    """The file tools of one CLI, as the script uses them."""

    names: tuple[str, ...]
    """Names of the tools, by which a CLI is recognised."""
    read: Callable[[str], Step]
    write: Callable[[str, str], Step]
    edit: Callable[[str, str, str], Step]
    delete: Callable[[str], Step]


def _shell(command: str) -> Body:
    return {"command": command, "description": "Change a file"}


CLAUDE_CODE = FileTools(
    names=("Read", "Write", "Edit", "Bash"),
    read=lambda path: ("Read", {"file_path": path}),
    write=lambda path, text: ("Write", {"file_path": path, "content": text}),
    edit=lambda path, old, new: ("Edit", {"file_path": path, "old_string": old, "new_string": new}),
    delete=lambda path: ("Bash", _shell(f"rm {path}")),
)
KIMI = FileTools(
    names=("Read", "Write", "Edit", "Bash", "FetchURL"),
    read=lambda path: ("Read", {"path": path}),
    write=lambda path, text: ("Write", {"path": path, "content": text}),
    edit=lambda path, old, new: ("Edit", {"path": path, "old_string": old, "new_string": new}),
    delete=lambda path: ("Bash", _shell(f"rm {path}")),
)
OPENCODE = FileTools(
    names=("read", "write", "edit", "bash"),
    read=lambda path: ("read", {"filePath": path}),
    write=lambda path, text: ("write", {"filePath": path, "content": text}),
    edit=lambda path, old, new: ("edit", {"filePath": path, "oldString": old, "newString": new}),
    delete=lambda path: ("bash", _shell(f"rm {path}")),
)


def _patch(path: str, old: str, new: str) -> str:
    """A call of `apply_patch`, the file tool of Codex, which it offers within its shell."""
    lines = [*(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())]
    return _here(
        "apply_patch", "\n".join(["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"])
    )


def _here(command: str, text: str) -> str:
    """A shell command that reads a text."""
    content = text.rstrip("\n")
    return f"{command} <<'END_OF_TEXT'\n{content}\nEND_OF_TEXT\n"


def _exec(command: str) -> Step:
    return "exec_command", {"cmd": command}


CODEX = FileTools(
    names=("exec_command", "write_stdin"),
    read=lambda path: _exec(f"cat {path}"),
    write=lambda path, text: _exec(_here(f"cat > {path}", text)),
    edit=lambda path, old, new: _exec(_patch(path, old, new)),
    delete=lambda path: _exec(f"rm {path}"),
)
TOOLS = (KIMI, CLAUDE_CODE, OPENCODE, CODEX)
"""Claude Code and Kimi give their file tools the same names; Kimi has one more."""


@dataclass
class Coder(Researcher):
    """The script that writes code."""

    changes: Mapping[str, object] = field(default_factory=dict[str, object])

    def next(self, offered: list[str], results: list[tuple[str, str]], folder: str) -> Step:
        """What it does next: step n of the script after n results."""
        names = self.lab_tools(offered)
        tools = next((one for one in TOOLS if set(one.names) <= set(offered)), None)
        if "submit_code" not in names or tools is None:
            return "", {"text": "There is nothing to do without the laboratory's tools and a file tool."}
        mine = self.of_lab(results)
        hypothesis = next((read_result(text) for name, text in mine if name == "propose_hypothesis"), {})
        steps = script(names, tools, f"{folder}/code", hypothesis.get("hypothesis_id", ""))
        return steps[len(results)] if len(results) < len(steps) else self.conclude(names, mine)


def script(names: Mapping[str, str], tools: FileTools, folder: str, hypothesis_id: str) -> list[Step]:
    """All steps up to the accepted submission; `folder` holds the files of the candidate."""
    submit: Step = names["submit_code"], {"hypothesis_id": hypothesis_id}
    outside, recipe = f"{folder}/{OUTSIDE[0]}", f"{folder}/recipe.yaml"
    edits = [
        step for path, text in WRITTEN.items()
        for step in (tools.read(f"{folder}/{path}"), tools.write(f"{folder}/{path}", text))
    ]  # fmt: skip
    return [
        (names["get_brief"], {}), (names["propose_hypothesis"], CODE_CLAIM), *edits, tools.read(recipe),
        tools.edit(recipe, *SETTINGS), tools.write(outside, OUTSIDE[1]), submit, tools.delete(outside), submit,
    ]  # fmt: skip


def candidate_files() -> dict[str, str]:
    """The files of the candidate that the script submits: path -> text."""
    files = template()
    return {**files, **WRITTEN, "recipe.yaml": files["recipe.yaml"].replace(*SETTINGS)}
