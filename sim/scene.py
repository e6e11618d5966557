"""Many copies of one MuJoCo scene, stepped together; rows are bit-identical whatever their neighbours do.

MuJoCo 4.0.0's sparse Newton solver returns wrong accelerations (fixed upstream in 4.0.1), so every scene here runs with
the dense Jacobian; a scene that asks for another one is refused.
"""

# MuJoCo ships no type stubs.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import mujoco
import mujoco.batch
import numpy as np
import numpy.typing as npt

from enpire.errors import RobotProblem, UsageError

RowArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSnapshot:
    """Everything that the physics of one row depends on; restoring it continues bit for bit."""

    state: RowArray
    """The full integration state (mjSTATE_INTEGRATION): positions, velocities, controls, warm start, clock."""
    edits: Mapping[str, RowArray]
    """Model field -> this row's own values."""


class Scene:
    """`rows` simulations of one model. Writes to `qpos`, `qvel`, `ctrl` and edited fields count from the next step."""

    def __init__(self, xml: str, rows: int, edited: Sequence[str] = ()) -> None:
        """Compile a scene.

        Args:
            xml: MJCF text; its `option` must say `jacobian="dense"`.
            rows: how many copies, at least one.
            edited: model fields that every row may set for itself, such as `qpos_spring`.

        Raises:
            UsageError: no rows, or a Jacobian that is not dense.
        """
        if rows < 1:
            raise UsageError(f"A scene needs at least one row, not {rows}; give the station lanes: 1 or more.")
        self.model = mujoco.MjModel.from_xml_string(xml)
        if self.model.opt.jacobian != mujoco.mjtJacobian.mjJAC_DENSE:
            raise UsageError(
                'A scene must use jacobian="dense": MuJoCo 4.0.0 solves the sparse form wrongly; '
                "set it in the scene's option element."
            )
        self.rows = rows
        # One thread: four stations share two cores, and a second thread brings 1.0-1.6x at best.
        self._batch = mujoco.batch.Batch(self.model, rows, nthread=1)
        self._edits = {name: self._batch.expand(name) for name in edited}
        self.qpos = self._batch.bind("qpos")
        self.qvel = self._batch.bind("qvel")
        self.ctrl = self._batch.bind("ctrl")
        self._fresh = self._batch.state.copy()
        self._fresh_edits = {name: values.copy() for name, values in self._edits.items()}

    def output(self, field: str) -> RowArray:
        """A live, read-only (rows, ...) view of a derived field, current after every step."""
        return self._batch.bind(field)

    def setpoints(self) -> RowArray:
        """The live (rows, ...) activations of the actuators (`act`): the set points of integrating servos."""
        return self._batch.bind("act")

    def applied(self) -> RowArray:
        """The live (rows, nv) forces that something outside the model puts on the joints."""
        return self._batch.bind("qfrc_applied")

    def equalities(self) -> RowArray:
        """The live (rows, constraints): 1 where an equality constraint holds, 0 where it has been let go."""
        return self._batch.bind("eq_active")

    def mocap(self) -> tuple[RowArray, RowArray]:
        """The live places (rows, bodies, 3) and quaternions (rows, bodies, 4) of what is moved by hand."""
        return self._batch.bind("mocap_pos"), self._batch.bind("mocap_quat")

    def edit(self, field: str) -> RowArray:
        """The live (rows, ...) values of one of the `edited` model fields."""
        return self._edits[field]

    def clear(self, row: int) -> None:
        """Put one row back into the compiled state, its edits too."""
        self._batch.state[row] = self._fresh[row]
        for name, values in self._edits.items():
            values[row] = self._fresh_edits[name][row]

    def step(self, rows: npt.NDArray[np.intp] | None, count: int) -> None:
        """Advance some rows (None: all) by `count` steps of physics.

        Raises:
            RobotProblem: MuJoCo could not step a row (the state blew up).
        """
        if count <= 0:
            return
        try:
            self._batch.step(rows, nstep=count)
        except mujoco.batch.SimulationError as failed:
            raise RobotProblem(
                f"The simulation of lanes {list(failed.ids)} failed: {failed}; place them anew."
            ) from failed

    def forward(self, rows: npt.NDArray[np.intp] | None = None) -> None:
        """Compute the derived fields of some rows for the state as it stands, without moving."""
        self._batch.forward(rows)

    def snapshot(self, row: int) -> RowSnapshot:
        """Copy one row, exactly."""
        edits = {name: values[row].copy() for name, values in self._edits.items()}
        return RowSnapshot(state=self._batch.state[row].copy(), edits=edits)

    def restore(self, row: int, snapshot: RowSnapshot) -> None:
        """Put a snapshot into a row (its own or another one of the same scene), exactly."""
        self._batch.state[row] = snapshot.state
        for name, values in snapshot.edits.items():
            self._edits[name][row] = values

    def materialise(self, row: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """One row as an ordinary model and data, kinematics computed, for the renderer or for inspection."""
        model, data = self._batch.get_model(row), self._batch.get_data(row)
        mujoco.mj_forward(model, data)
        return model, data
