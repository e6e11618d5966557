"""Versions with one fault each, and a learner that makes them, for the smoke check before a version is published."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from enpire.interfaces import ImprovementJob, Progress
from enpire.types import FloatArray, IntArray, Observation

MODULE = "tests.fakes.smoke_policies"


class SmokePolicy:
    """Draws its actions from the seed of each lane, unless `fault` says otherwise."""

    horizon, execute = 4, 2

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.calls: list[tuple[int, ...]] = []
        self.begun: list[tuple[int, int]] = []
        self.generators: dict[int, np.random.Generator] = {}
        if fault == "horizon":
            self.execute = 5

    def begin(self, lane: int, seed: int) -> None:
        if self.fault == "begin":
            raise RuntimeError("no memory of this lane")
        self.begun.append((lane, seed))
        self.generators[lane] = np.random.default_rng(None if self.fault == "random" else seed)

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        self.calls.append(observation.state.shape)
        self._wait(len(lanes))
        draws = np.stack([self.generators[int(lane)].uniform(-0.05, 0.05, (4, 2)) for lane in lanes])
        if self.fault == "alone" and len(lanes) == 1:
            raise IndexError("it needs company")
        if self.fault == "die":
            os._exit(7)
        if self.fault == "raise":
            raise KeyError("nothing of that name")
        if self.fault == "shape":
            return np.zeros((len(lanes), 4, 3), np.float32)
        if self.fault == "nan" and len(self.calls) == 3:
            draws[-1, 0, 0] = np.nan
        if self.fault == "far":
            draws[:, :2] = 7.0
        return draws.astype(np.float32)

    def _wait(self, lanes: int) -> None:
        if self.fault == "lanes":
            time.sleep(0.02 * lanes)
        if self.fault == "hang":
            time.sleep(60)
        if self.fault == "slow" or (self.fault == "cold" and len(self.calls) == 1):
            time.sleep(0.06)
        if self.fault == "busy" and len(self.calls) in (11, 14):
            time.sleep(0.06)


class SmokeImages(SmokePolicy):
    """Needs images."""

    needs_images = True

    def act(self, observation: Observation, lanes: IntArray) -> FloatArray:
        assert observation.images["top"].shape[0] == len(lanes)
        return super().act(observation, lanes)


class SmokeCollected(SmokePolicy):
    """Another policy collects its data."""

    def __init__(self, fault: str, collector: SmokePolicy) -> None:
        super().__init__(fault)
        self.collector = collector


MADE: list[SmokePolicy] = []
"""Every policy that was loaded in this process."""


def load(folder: Path) -> SmokePolicy:
    says = json.loads((folder / "policy.json").read_text())
    if says["fault"] == "load":
        raise ValueError("the weights do not fit")
    if "collector" in says:
        MADE.append(SmokeCollected(says["fault"], SmokePolicy(says["collector"])))
    else:
        MADE.append((SmokeImages if says.get("images") else SmokePolicy)(says["fault"]))
    return MADE[-1]


def write_version(folder: Path, fault: str = "", **more: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "policy.json").write_text(json.dumps({"kind": f"{MODULE}:load", "fault": fault, **more}))
    return folder


class Maker:
    """A learner that makes a version with the fault that its recipe names."""

    def improve(self, job: ImprovementJob, report: Callable[[Progress], None]) -> Mapping[str, float]:
        settings = job.recipe["settings"]
        assert isinstance(settings, dict)
        write_version(job.output, str(settings["fault"]))
        return {"loss": 0.5}
