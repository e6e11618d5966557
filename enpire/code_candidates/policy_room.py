"""Inside the room of a candidate's policy: `python -m enpire.code_candidates.policy_room CHANNEL RELAY`.

It answers the calls of a policy server, `open` and `act`, with the class `Policy` of the candidate's policy.py. Each
episode has an object of its own, so the lanes of a station do not influence each other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from enpire.code_candidates.inside import CODE, described, enter, load, write_code
from enpire.errors import PolicyProblem
from enpire.field_reader import Fields
from enpire.types import FloatArray
from enpire.wire.rpc import Message, array_out, error_out, observation_in

LONGEST_CHUNK = 512


class Episodes:
    """The candidate's objects, one for each lane."""

    def __init__(self, version: Path, work: Path) -> None:
        self.version = version
        written: dict[str, str] = json.loads((version / CODE).read_text(encoding="utf-8"))
        self.folder = write_code(written, work)
        module = load(self.folder, "policy")
        self.make: Callable[[Path, int], Any] = module.Policy
        self.horizon = int(getattr(module, "HORIZON", 1))
        self.execute = int(getattr(module, "EXECUTE", self.horizon))
        self.needs_images = bool(getattr(module, "NEEDS_IMAGES", False))
        if not 1 <= self.execute <= self.horizon <= LONGEST_CHUNK:
            raise PolicyProblem(
                f"policy.py has HORIZON {self.horizon} and EXECUTE {self.execute}; allowed are 1 <= EXECUTE <= HORIZON "
                f"<= {LONGEST_CHUNK}"
            )
        self.lanes: dict[int, Any] = {}

    def answer(self, call: Fields) -> Message:
        """The reply to one call."""
        if call.choice("verb", ("open", "act")) == "open":
            return {
                "horizon": self.horizon, "execute": self.execute, "continues": False,
                "needs_images": self.needs_images,
            }  # fmt: skip
        for item in call.items("begins"):
            lane, seed = Fields({"begin": item}, "An episode that begins").wholes("begin")
            self.lanes[lane] = self.make(self.version, seed)
        seen = observation_in(Fields(call.get("observation"), "The observation"))
        chunks = [
            self._chunk(lane, {
                "state": seen.state[row], "images": {camera: image[row] for camera, image in seen.images.items()},
            })
            for row, lane in enumerate(call.wholes("lanes"))
        ]  # fmt: skip
        return {"answer": array_out(np.stack(chunks))}

    def _chunk(self, lane: int, observation: Message) -> FloatArray:
        chunk = np.asarray(self.lanes[lane].act(observation), np.float32)
        if chunk.ndim != 2 or len(chunk) != self.horizon:
            raise PolicyProblem(
                f"act returned an array of shape {chunk.shape}; it must be ({self.horizon}, action_dim), HORIZON rows"
            )
        return chunk


def main(arguments: list[str]) -> int:
    """Answer calls until the channel is closed; returns the exit code."""
    frames, first = enter(arguments)
    folders = Fields(first.get("folders"), "The folders")
    version, work = Path(folders.text("version")), Path(first.text("work"))
    try:
        episodes = Episodes(version, work)
    except BaseException as problem:  # noqa: BLE001 - a candidate's code may raise anything, also SystemExit
        frames.send(error_out(PolicyProblem(f"policy.py cannot be loaded: {described(problem, work)}")))
        return 1
    while (call := frames.receive()) is not None:
        try:
            reply = {"error": "", **episodes.answer(call)}
        except BaseException as problem:  # noqa: BLE001 - as above
            reply = error_out(PolicyProblem(described(problem, work)))
        frames.send({**reply, "sequence": call.whole("sequence")})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
