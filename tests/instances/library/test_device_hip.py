"""A library for AMD GPUs builds against HIP's headers, and without ROCm against its own declarations; it makes the same
HIP calls as Python's device. The kernels are compiled if clang is available."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from built_library import build
from library_cases import gpu_winners

from qconv.device.cache import Binary
from qconv.device.compile import compiler_ahead
from qconv.errors import CompileError
from qconv.instances.library import write as writing
from qconv.targets.target import target

SUPPORT = Path(__file__).parents[2] / "support"
TARGETS = ("gfx1100", "gfx1100")
LACKS = next((name for name in ("cmake", "g++") if shutil.which(name) is None), None)
CUDA = next(
    (path for path in (Path("/usr/local/cuda/include"), Path("/usr/include")) if (path / "cuda.h").exists()), None
)
STUB, SYSTEM = SUPPORT / "stub_hip", Path("/usr/include")
LIBRARY = Path(writing.__file__).parent
without_hip = pytest.mark.skipif(
    not (SYSTEM / "hip/hip_runtime_api.h").exists(),
    reason="no headers of HIP (apt-get install --no-install-recommends libamdhip64-dev)",
)
pytestmark = [pytest.mark.skipif(LACKS is not None, reason=f"no {LACKS}"), pytest.mark.thirds]


@pytest.mark.turns
@pytest.mark.parametrize("headers", [STUB, pytest.param(SYSTEM, marks=without_hip)], ids=["declarations", "HIP"])
def test_its_device_compiles_against(headers: Path, tmp_path: Path) -> None:
    """HIP's own headers overload some functions for C++, and so do the declarations."""
    (tmp_path / "device.cpp").write_text('#include "device_hip.h"\n')
    flags = [
        "-std=c++17",
        "-Wall",
        "-Werror",
        "-fsyntax-only",
        "-D__HIP_PLATFORM_AMD__",
        f"-I{LIBRARY}",
        f"-I{headers}",
    ]
    run = subprocess.run(["g++", *flags, tmp_path / "device.cpp"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        try:
            compiler_ahead(target(TARGETS[0]))
        except CompileError:
            # No stub reads the contents of the binaries.
            patch.setattr(writing, "_compiled", lambda _: Binary(b"none", Path("kernel.co"), "no compiler", 0.0, {}))
        writing.write(gpu_winners(*TARGETS), folder)
    return folder


@pytest.fixture(scope="module")
def built(written: Path) -> Path:
    return build(written, "-DBUILD_SHARED_LIBS=ON", f"-DQCONV_HIP_INCLUDE={STUB}")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CUDA is None:
        pytest.skip("no cuda.h, which the stub of CuPy's driver is built with")
    folder = tmp_path_factory.mktemp("runtime")
    for source, include, name in (
        ("stub_cuda.cpp", CUDA, "libcuda.so.1"),
        ("stub_hip.cpp", STUB, "libamdhip64.so"),
    ):
        flags = ["-std=c++17", "-shared", "-fPIC", f"-I{include}", f"-Wl,-soname,{name}"]
        subprocess.run(["g++", *flags, SUPPORT / source, "-o", folder / name], check=True)
    return folder


def environment(stubs: Path, log: Path, architecture: str) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, (str(stubs), os.environ.get("LD_LIBRARY_PATH"))))
    known = {"QCONV_STUB_LOG": str(log), "QCONV_STUB_KIND": "hip", "QCONV_STUB_ARCH": architecture}
    return {**os.environ, **known, "LD_LIBRARY_PATH": paths, "PYTHONPATH": str(SUPPORT)}


@pytest.mark.slow
def test_the_runtime_is_asked_for_the_same(built: Path, stubs: Path, tmp_path: Path) -> None:
    command = [sys.executable, SUPPORT / "stub_session.py", built / "libqconv_kernels.so", TARGETS[0], *TARGETS]
    known = environment(stubs, tmp_path / "log", TARGETS[0])
    run = subprocess.run(command, env=known, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    asked: list[dict[str, Any]] = json.loads(run.stdout)
    assert len(asked) == len(gpu_winners(*TARGETS))
    for one in asked:
        assert one["library"] == one["python"], one["problem"]
    launches = [line for one in asked for line in one["library"] if line[0] == "launch"]
    assert {line[6] for line in launches} == {"0"}, "shared memory is static there"


@pytest.mark.slow
def test_what_does_not_run_on_the_device_is_not_chosen(built: Path, stubs: Path, tmp_path: Path) -> None:
    known = environment(stubs, tmp_path / "log", "gfx90a")
    run = subprocess.run([built / "qconv_self_test"], env=known, capture_output=True, text=True, check=False)
    assert run.returncode == 3
    assert f"AMD Radeon RX 7900 XTX: 0 right, 0 wrong, {len(gpu_winners(*TARGETS))} not for this device" in run.stdout


@pytest.mark.slow
def test_without_a_runtime_a_sentence_says_so(built: Path, tmp_path: Path) -> None:
    """Empty files of the runtime's names hide an installed one."""
    for name in ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6"):
        (tmp_path / name).touch()
    known = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    run = subprocess.run([built / "qconv_self_test"], env=known, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (3, "libamdhip64.so cannot be loaded: install ROCm's HIP runtime\n")


@pytest.mark.slow
@without_hip
def test_it_builds_and_links_against_hip_itself(written: Path) -> None:
    """CMake finds the headers by itself; the runtime of that package is loaded, and finds no GPU here, or this one."""
    with_hip = build(written, "-DBUILD_SHARED_LIBS=ON", into=written / "with_hip")
    run = subprocess.run([with_hip / "qconv_self_test"], capture_output=True, text=True, check=False)
    assert "cannot be loaded" not in run.stderr
    assert "HIP" in run.stderr or "AMD" in run.stdout, run.stdout + run.stderr
