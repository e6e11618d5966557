"""Many copies of one MuJoCo scene, stepped together. A row is bit-identical whatever the other rows do.

The sparse Newton solver of MuJoCo 4.0.0 returns wrong accelerations (fixed upstream in 4.0.1), so every scene here must
use the dense Jacobian.
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
    """`rows` simulations of one model. Writes to `qpos`, `qvel`, `ctrl` and edited fields act from the next step."""

    def __init__(self, xml: str, rows: int, edited: Sequence[str] = ()) -> None:
        """Compile a scene.

        Args:
            xml: MJCF text; its `option` element must set `jacobian="dense"`.
            rows: number of copies, at least one.
            edited: model fields that each row has a copy of, such as `qpos_spring`.

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
        # One thread: four stations share two cores, and a second thread gives 1.0 to 1.6 times the speed at best.
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
        """The live (rows, nv) external forces on the joints, in N or Nm."""
        return self._batch.bind("qfrc_applied")

    def equalities(self) -> RowArray:
        """The live (rows, constraints): 1 where an equality constraint is active, 0 where it is not."""
        return self._batch.bind("eq_active")

    def mocap(self) -> tuple[RowArray, RowArray]:
        """The live positions (rows, bodies, 3) in m and quaternions (rows, bodies, 4) of the mocap bodies."""
        return self._batch.bind("mocap_pos"), self._batch.bind("mocap_quat")

    def expand(self, field: str) -> RowArray:
        """Give each row its own values of one more model field, from now on `edited`: the live (rows, ...) values."""
        self._edits[field] = self._batch.expand(field)
        self._fresh_edits[field] = self._edits[field].copy()
        return self._edits[field]

    def edit(self, field: str) -> RowArray:
        """The live (rows, ...) values of one of the `edited` model fields."""
        return self._edits[field]

    def clear(self, row: int) -> None:
        """Reset one row to the compiled state, with its edited fields."""
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
                f"The simulation of lanes {list(failed.ids)} failed: {failed}; place them again."
            ) from failed

    def forward(self, rows: npt.NDArray[np.intp] | None = None) -> None:
        """Compute the derived fields of some rows (None: all) for their present state, without moving."""
        self._batch.forward(rows)

    def snapshot(self, row: int) -> RowSnapshot:
        """Copy one row, exactly."""
        edits = {name: values[row].copy() for name, values in self._edits.items()}
        return RowSnapshot(state=self._batch.state[row].copy(), edits=edits)

    def restore(self, row: int, snapshot: RowSnapshot) -> None:
        """Copy a snapshot into a row (its own or another one of the same scene), exactly."""
        self._batch.state[row] = snapshot.state
        for name, values in snapshot.edits.items():
            self._edits[name][row] = values

    def materialise(self, row: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """One row as an ordinary model and data, kinematics computed, for rendering or inspection."""
        model, data = self._batch.get_model(row), self._batch.get_data(row)
        mujoco.mj_forward(model, data)
        return model, data
