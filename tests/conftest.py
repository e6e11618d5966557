"""What all tests share: quiet, repeatable, and nothing outside the test's own folder."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.strict_run"]

# One thread per process: the tests run side by side, and sums of floats must not depend on the machine.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A shell ignores SIGINT for what it runs in the background; then no child of a test would end of a Ctrl-C either.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes single examples slow without anything being wrong, so time is no criterion.
settings.register_profile(
    "suite", deadline=None, max_examples=40, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)  # fmt: skip
settings.load_profile("suite")

HOMES = itertools.count()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect at half the cost: every process of a run imports all tests before it runs the first.

    What is imported stays, so no garbage is looked for meanwhile, nor in it later. The rewritten asserts are kept as
    bytecode although the environment may say that Python shall keep none.
    """
    kept = sys.dont_write_bytecode
    sys.dont_write_bytecode = False
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        sys.dont_write_bytecode = kept


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees or writes the home folder of the person who runs it."""
    home = tmp_path_factory.getbasetemp() / f"home-{next(HOMES)}"  # `mktemp` reads all names that are there
    home.mkdir()
    monkeypatch.setenv("ENPIRE_HOME", str(home / "enpire"))


@pytest.fixture(autouse=True)
def no_module_stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that a test imported from its own folder are forgotten, so that no later test meets them."""
    before = set(sys.modules)
    yield
    own = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(own):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def learners_as_urgent_as_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab that runs in a test has the test's priority. Its learners have it, too: other tests must not slow them."""
    monkeypatch.setattr("enpire.processes.training_process.NICE", 0)
