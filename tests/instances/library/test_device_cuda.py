"""A library for NVIDIA GPUs builds against CUDA's header, and makes the same driver calls as Python's device."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from built_library import build
from library_cases import gpu_winners

from qconv.device.compile import compiler_ahead
from qconv.errors import CompileError
from qconv.instances.library.write import write
from qconv.targets.target import target

SUPPORT = Path(__file__).parents[2] / "support"
TARGETS = ("sm_80", "sm_90a")
HEADERS = next(
    (path for path in map(Path, ("/usr/local/cuda/include", "/usr/include")) if (path / "cuda.h").exists()), None
)


def lacking() -> str | None:
    """Return what is missing for building: a header, or a compiler of kernels."""
    if HEADERS is None:
        return "no cuda.h"
    try:
        compiler_ahead(target(TARGETS[0]))
    except CompileError as missing:
        return str(missing)
    return next((f"no {name}" for name in ("cmake", "g++") if shutil.which(name) is None), None)


pytestmark = [pytest.mark.slow, pytest.mark.skipif(lacking() is not None, reason=lacking() or ""), pytest.mark.thirds]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    write(gpu_winners(*TARGETS), folder)
    return build(folder, "-DBUILD_SHARED_LIBS=ON")


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-std=c++17", "-shared", "-fPIC", f"-I{HEADERS}", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["g++", *flags, SUPPORT / "stub_cuda.cpp", "-o", folder / "libcuda.so.1"], check=True)
    return folder


def environment(stub: Path, log: Path, major: int = 9) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, (str(stub), os.environ.get("LD_LIBRARY_PATH"))))
    known = {"LD_LIBRARY_PATH": paths, "QCONV_STUB_LOG": str(log), "QCONV_STUB_MAJOR": str(major)}
    return {**os.environ, **known, "PYTHONPATH": str(SUPPORT)}


@pytest.fixture(scope="module")
def asked(built: Path, stub: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the driver calls for each target in turn, on a device that runs it."""
    answer: list[dict[str, Any]] = []
    for name, major in zip(TARGETS, (8, 9), strict=True):
        command = [sys.executable, SUPPORT / "stub_session.py", built / "libqconv_kernels.so", name, *TARGETS]
        log = tmp_path_factory.mktemp("log") / "driver"
        run = subprocess.run(command, env=environment(stub, log, major), capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        answer += json.loads(run.stdout)
    return answer


def test_the_driver_is_asked_for_the_same(asked: list[dict[str, Any]]) -> None:
    assert len(asked) == len(gpu_winners(*TARGETS))
    for one in asked:
        assert one["library"] == one["python"], one["problem"]
        assert one["python"][-1][0] == "launch", one["problem"]
        assert one["python"][-1][8] == ("overlaps" if one["overlaps"] else "alone"), one["problem"]
    assert len({one["overlaps"] for one in asked}) == 2


def test_everything_that_an_argument_can_be_was_compared(asked: list[dict[str, Any]]) -> None:
    lines = [line for one in asked for line in one["library"]]
    launches = [line for line in lines if line[0] == "launch"]
    assert any(line[0] == "attribute" for line in lines), "no kernel takes more than 48 KiB"
    values = [value for line in launches for value in line[-1].values()]
    assert any(isinstance(value, list) for value in values), "no tensor map"
    assert {"x", "w", "w1", "w2", "w3", "residual", "y", "own"} <= {value for value in values if isinstance(value, str)}
    assert {line[7] for line in launches} == {"0x4d"}, "some launch was on another stream"


def test_what_does_not_run_on_the_device_is_not_chosen(built: Path, stub: Path, tmp_path: Path) -> None:
    """On 8.0, code for 9.0 only is skipped; on 7.0, all of it."""
    for major, skipped in ((8, 5), (7, None)):
        run = subprocess.run(
            [built / "qconv_self_test"],
            env=environment(stub, tmp_path / "log", major),
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"NVIDIA H200: 0 right, \d+ wrong, (\d+) not for this device", run.stdout)
        assert found is not None, run.stdout
        assert int(found[1]) == (skipped or len(gpu_winners(*TARGETS)))
        assert run.returncode == (1 if skipped else 3)


# The first steps of a program: a library, and memory of its device.
OPENED = (
    "import ctypes, sys; from built_library import Library, NO_DEVICE\n"
    "library, memory = Library(sys.argv[1]), ctypes.c_void_p()\n"
    "assert library.c.qconv_allocate(library.device, ctypes.c_size_t(64), ctypes.byref(memory)) == 0\n"
)


def test_an_upload_has_landed_when_it_returns(built: Path, stub: Path, tmp_path: Path) -> None:
    """The data has arrived whatever stream launches next. The stub's device memory is host memory."""
    program = (
        f"{OPENED}"
        "assert library.c.qconv_upload(library.device, memory, b'bytes', ctypes.c_size_t(5)) == 0, library.error\n"
        "print(ctypes.string_at(memory, 5).decode())\n"
    )
    assert printed_by(program, built, environment(stub, tmp_path / "log")) == "bytes\n"


def test_what_is_closed_after_the_driver_ends_nothing(built: Path, stub: Path, tmp_path: Path) -> None:
    """A program's objects may be destroyed after the driver: closing them then must not crash the process."""
    program = (
        f"{OPENED}"
        "ctypes.CDLL('libcuda.so.1').qconv_stub_end()\n"
        "assert library.c.qconv_synchronize(library.device, None) == NO_DEVICE, library.error\n"
        "library.c.qconv_free(library.device, memory)\n"
        "library.c.qconv_close(library.device)\n"
        "print(library.error)\n"
    )
    printed = printed_by(program, built, environment(stub, tmp_path / "log"))
    assert printed == "cuCtxPushCurrent: CUDA error 4, a stub's error\n"


def printed_by(program: str, built: Path, variables: dict[str, str]) -> str:
    """Return a program's output, in a process of its own with the stub driver and the library."""
    command = [sys.executable, "-c", program, str(built / "libqconv_kernels.so")]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_without_a_driver_a_sentence_says_so(built: Path, tmp_path: Path) -> None:
    """An empty file of the runtime's name hides an installed one."""
    (tmp_path / "libcuda.so.1").touch()
    known = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    run = subprocess.run([built / "qconv_self_test"], env=known, capture_output=True, text=True, check=False)
    assert run.returncode == 3
    assert run.stderr == "libcuda.so.1 cannot be loaded: install NVIDIA's driver\n"
