"""A runner cannot reach a guard that runs as a user of its own."""

from __future__ import annotations

import grp
import os
import pwd
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from enpire.errors import RobotProblem
from robot_drivers.guard_client import GuardControl, GuardedClient, open_guarded, start_guard
from robot_drivers.guard_settings import GuardSettings
from robot_drivers.resume_code import keep
from tests.robot_drivers.guarded_arm import CODE, HOME, resume

NOBODY = pwd.getpwnam("nobody")


def as_nobody(attempt: Callable[[], None]) -> int:
    """The exit status of a process of another user that attempts something."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY.pw_gid)
            os.setuid(NOBODY.pw_uid)
            attempt()
        except BaseException:  # noqa: BLE001 - whatever it is, this copy of the test process must end here.
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_runner_of_another_user_drives_and_can_neither_resume_nor_end_its_guard(settings):
    with tempfile.TemporaryDirectory(prefix="enpire-") as made:
        Path(made).chmod(0o755)
        own = replace(settings, folder=Path(made) / "arm", group=grp.getgrgid(NOBODY.pw_gid).gr_name)
        keep(own.folder, CODE)
        guard = start_guard(own)

        def drive() -> None:
            rig = GuardedClient(own)
            rig.place(0, HOME)
            rig.stop()

        def escape() -> None:
            with pytest.raises(PermissionError):
                os.kill(guard.pid, signal.SIGKILL)
            for file in own.folder.iterdir():
                with pytest.raises(PermissionError):
                    file.unlink()
            with GuardControl(own.card) as control, pytest.raises(RobotProblem, match="not this robot's code"):
                control.resume("Mallory", "a guess")

        resume(own)
        assert as_nobody(drive) == 0
        assert as_nobody(escape) == 0
        with GuardControl(own.card) as control:
            assert control.status()["latched"] == "The runner asked for a stop."
            control.quit()
        guard.communicate()
        assert as_nobody(lambda: told_that_none_starts(own)) == 0


def told_that_none_starts(settings: GuardSettings) -> None:
    with pytest.raises(RobotProblem, match="and none can be started"):
        open_guarded(settings)


def test_a_group_that_does_not_exist_is_refused(settings):
    with pytest.raises(RobotProblem, match="cannot admit the group nobodies"):
        open_guarded(replace(settings, group="nobodies"))
