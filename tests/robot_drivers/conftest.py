"""The fake arm behind a guard with a long watchdog time, so that a busy computer does not trip it."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from robot_drivers import resume_code
from robot_drivers.guard_client import GuardedClient, open_guarded
from robot_drivers.guard_settings import GuardSettings
from tests.robot_drivers.guarded_arm import CODE, HOME, end_guards, guards, resume


@pytest.fixture(scope="package", autouse=True)
def cheap_codes() -> Iterator[None]:
    """Checks of codes at a small cost, of which test_guard_stops.py tests the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resume_code, "COST", 2**4)
        yield


@pytest.fixture(autouse=True)
def no_guard_stays() -> Iterator[None]:
    """A guard that a failing test leaves is ended, so that it takes no time from the tests after it."""
    before = guards()
    yield
    end_guards(but=before)


@pytest.fixture
def domain(worker_id: str) -> int:
    """A DDS domain per checkout and test worker: tests side by side receive each other's messages in the same one."""
    checkout = zlib.crc32(str(Path(__file__).resolve()).encode()) % 11
    return 50 + 16 * checkout + (int(worker_id.removeprefix("gw")) % 16 if worker_id.startswith("gw") else 0)


@pytest.fixture
def empty_domain() -> int:
    """A DDS domain in which no test has a node. In that of the worker, a node of an earlier test may still be found."""
    return 226


@pytest.fixture
def settings(tmp_path) -> GuardSettings:
    driver = tmp_path / "arm.py"
    driver.write_text("from robot_drivers.fake_robot import robot\n")
    resume_code.keep(tmp_path / "arm", CODE)
    # Ten seconds of patience: these tests are not about the watchdog, and the machine is busy.
    return GuardSettings(
        driver=str(driver), folder=tmp_path / "arm", options={"log": str(tmp_path / "log")}, watchdog_s=10.0
    )


@pytest.fixture
def rig(settings) -> Iterator[GuardedClient]:
    opened = open_guarded(settings)
    resume(settings)
    opened.place(0, HOME)
    yield opened
    opened.close()
