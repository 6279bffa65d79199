"""The environment of every test: its own cache, none of the user's settings, and a GPU if the test requires one."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ledger import VARIABLE, Ledger
from one_in import is_taken

if TYPE_CHECKING:
    from qconv.device import Device

# The fast suite has one in 24 of the tests marked turns. With its one in twenty, .ci/run has an eleventh.
FAST_ONE_IN = 24


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--regenerate-golden",
        action="store_true",
        help="write tests/golden anew instead of comparing with it; then read the diff",
    )
    parser.addoption(
        "--one-in",
        type=int,
        metavar="N",
        help="of the tests marked many or turns, one in N, and a third of the files marked thirds, others with each "
        "commit; 1: all, in the fast suite too",
    )
    parser.addoption("--gpu", metavar="SPEC", help="for tests marked gpu: cuda:1, say; default: the first GPU")


def pytest_configure(config: pytest.Config) -> None:
    """Set up before any test module is imported. The workers of xdist and all subprocesses inherit the environment."""
    # A shell's background jobs ignore Ctrl-C, and so would all processes that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        return
    for name in ("QCONV_DB", "QCONV_NO_COMPILE"):
        os.environ.pop(name, None)
    # Removed from the environment: a pytest run that a test starts must not count itself.
    if ledger := os.environ.pop(VARIABLE, None):
        config.pluginmanager.register(Ledger(Path(ledger)))
    # Tests replace parts of this process, which another would not have.
    os.environ["QCONV_PROCESSES"] = "1"
    # The threads of NumPy's matrix products busy-wait for each other, and take the cores from the other workers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # From 1.29 on, ONNX Runtime sends telemetry from its own thread, which reads the environment (the proxies) while a
    # test writes it: glibc's getenv then crashes the process. ONNX Runtime reads this when it is imported.
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    # PyTorch's engine onednn, which reads this once, is an exact oracle up to this instruction set: see
    # docs/contract.md. On processors without AVX-VNNI it uses AVX2.
    os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2_VNNI"
    # set by tests/repository/mutate.py, whose hundreds of runs share it
    if kept := os.environ.get("QCONV_TESTS_CACHE"):
        os.environ["QCONV_CACHE"] = kept
    else:
        os.environ["QCONV_CACHE"] = config.stash[CACHE] = tempfile.mkdtemp(prefix="qconv-tests-")
        # Compiling the package would take half of the time of a process that a test starts. Mutants run without
        # bytecode: two of one second and one length would share it.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)  # before -m looks at what is marked slow
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    one_in = config.getoption("--one-in")
    if one_in == 1 or (head := head_commit()) is None:
        return
    for item in items:
        if item.get_closest_marker("turns") and not is_taken(item.nodeid, head, FAST_ONE_IN):
            item.add_marker(pytest.mark.slow)
    if one_in is None:
        return
    taken = {item: has_its_turn(item, head, one_in) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not taken[item]])
    items[:] = [item for item in items if taken[item]]


def has_its_turn(item: pytest.Item, head: str, one_in: int) -> bool:
    if item.get_closest_marker("many") or item.get_closest_marker("turns"):
        return is_taken(item.nodeid, head, one_in)
    if item.get_closest_marker("thirds") and item.get_closest_marker("slow"):
        # The tests of a file share what it builds.
        return is_taken(item.nodeid.partition("::")[0], head, 3)
    return True


def head_commit() -> str | None:
    """Return the commit that decides which tests take their turn, or None outside of a clone, where all do."""
    from mutate import commit

    try:
        return commit()
    except (OSError, subprocess.CalledProcessError):
        return None


def pytest_collection_finish() -> None:
    """Freeze the garbage collector: thousands of tests and their imports live to the end, and scanning them each time
    took an eighth of the planning time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Run before the fixtures of the test, which may need the GPU."""
    if item.get_closest_marker("gpu") is not None:
        # Imported here: nothing of the package may be imported before its settings are removed.
        from qconv.device import gpu_specs

        if not gpu_specs():
            pytest.skip("no GPU here: CuPy is not installed, or it finds no driver or no device")
    set_host_flags(optimises=item.get_closest_marker("slow") is not None and item.get_closest_marker("many") is None)


@pytest.hookimpl(trylast=True)  # behind the fixtures, which restore the environment
def pytest_runtest_teardown() -> None:
    """Fail the test whose winners are in the common cache's database: lookups of later tests would choose by them."""
    database = Path(os.environ["QCONV_CACHE"]) / "tune.sqlite"
    if database.exists():
        database.unlink()
        pytest.fail("this test, or one in another worker, has tuned into the default database: set QCONV_DB for it")


def set_host_flags(optimises: bool) -> None:
    """Compile kernels for the CPU device as users do, or without optimisation: most kernels of the fast suite run once
    or twice, which takes less than to optimise them."""
    from cpu_kernels import OPTIMISED_FLAGS, UNOPTIMISED_FLAGS

    from qconv.device import compile

    flags = OPTIMISED_FLAGS if optimises else UNOPTIMISED_FLAGS
    if flags != compile.HOST_FLAGS:
        compile.HOST_FLAGS = flags
        compile.compiler_for.cache_clear()


@pytest.fixture(scope="session")
def gpu(request: pytest.FixtureRequest) -> Device:
    """Return the GPU for tests marked `gpu`: that of --gpu, or the first."""
    from qconv.device import gpu_specs, open_device

    return open_device(request.config.getoption("--gpu") or gpu_specs()[0])


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Device:
    """Return the device named by the test's parameter (`EVERY_DEVICE` of tests/support/devices.py): the first GPU, or
    any."""
    from qconv.device import open_device

    found: Device = request.getfixturevalue("gpu") if request.param == "gpu" else open_device(request.param)
    return found


def pytest_unconfigure(config: pytest.Config) -> None:
    if CACHE in config.stash:
        shutil.rmtree(config.stash[CACHE], ignore_errors=True)


CACHE = pytest.StashKey[str]()
