"""A launch fills in its arguments on the stack: it takes no memory, and several threads launch what was packed once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from built_library import STUB_CUDA, SUPPORT, build, builds, stub_driver, write_uncompiled
from library_cases import CASES, FILTER, PROJECT, gpu_winners, plan_of, plan_with_scratch, small, winner_of

from qconv import FusedConv2d
from qconv.device import cpu_runtime
from qconv.instances.library.write import write
from qconv.tensor_ops import Add

pytestmark = [builds, pytest.mark.slow, pytest.mark.thirds]

COUNTED = SUPPORT / "counted_launches.cpp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export kernels with scratch memory, with a tensor between two, with values per channel, and without weights."""
    made = tmp_path_factory.mktemp("library")
    chain, residual = FusedConv2d(FILTER, PROJECT), Add(1, 1, 960)
    reduction = next(problem for family, _, problem in CASES if family == "reduce")
    plans = [plan_of("unfused", "cpu", chain), plan_of("binary", "cpu", residual), plan_of("reduce", "cpu", reduction)]
    write([small(), *map(winner_of, [plan_with_scratch(), *plans])], made)
    return made


def compiled(folder: Path, into: Path, *more: object) -> Path:
    """Compile the program that launches every kernel of a library."""
    sources = [COUNTED, folder / "test/self_test_vectors.cpp", *more, "-ldl", "-pthread"]
    includes = [f"-I{folder / name}" for name in ("include", "test", "src", "runtime")]
    run = subprocess.run(["g++", "-std=c++17", *includes, *sources, "-o", into], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return into


def counts(program: Path, what: str, variables: dict[str, str] | None = None) -> list[int]:
    environment = os.environ | (variables or {})
    run = subprocess.run([program, what], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return [int(line.split()[0]) for line in run.stdout.splitlines()]


def test_a_launch_on_the_cpu_takes_nothing_from_the_heap(folder: Path, tmp_path: Path) -> None:
    """Each launch has arrays of its own. More workers than one would be threads, which take memory."""
    made = build(folder, "-DQCONV_CPU_WORKERS=1", "-DQCONV_BUILD_TESTS=OFF", "-DQCONV_PREBUILT=ON", into=tmp_path / "b")
    program = compiled(folder, tmp_path / "counted", "-DCOUNTS_ALLOCATIONS", made / "libqconv_kernels.a")
    assert counts(program, "allocations") == [0] * 5


@pytest.fixture(scope="module")
def for_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpus")
    return write_uncompiled([one for one in gpu_winners("sm_80", "sm_90a") if one.target == "sm_90a"], folder)


def test_a_launch_on_a_gpu_allocates_nothing_and_waits_for_nothing(for_gpus: Path, tmp_path: Path) -> None:
    """Tensor maps of the call's arrays are encoded on the stack as well."""
    made = build(for_gpus, "-DQCONV_BUILD_TESTS=OFF", f"-DQCONV_CUDA_INCLUDE={STUB_CUDA}", into=tmp_path / "build")
    program = compiled(for_gpus, tmp_path / "counted", "-DCOUNTS_ALLOCATIONS", made / "libqconv_kernels.a")
    known = {"LD_LIBRARY_PATH": str(stub_driver(tmp_path / "driver")), "QCONV_STUB_MAJOR": "9"}
    found = counts(program, "allocations", known)
    assert set(found) == {0}
    assert len(found) == len([one for one in gpu_winners("sm_80", "sm_90a") if one.target == "sm_90a"]) > 3


TWO = """
import ctypes, sys
from pathlib import Path
import numpy as np
from built_library import Library, aligned, addresses, pointer
from library_cases import FILTER, WIDE
from qconv import FusedConv2d
from qconv.ops import registry

problem = FusedConv2d(FILTER, WIDE)
library, other, count = Library(Path(sys.argv[1])), ctypes.c_void_p(), ctypes.c_int()
assert library.c.qconv_device_count(ctypes.byref(count)) == 0 and count.value == 2
assert library.c.qconv_open(1, ctypes.byref(other)) == 0, library.error
assert library.c.qconv_open(2, ctypes.byref(ctypes.c_void_p())) == 3
print(library.error)
drawn = registry.draw(problem, 1)
x, *weights = (aligned(array) for array in drawn.arrays)
y = aligned(np.zeros(problem.outputs[0].shape, problem.outputs[0].dtype))
packed = []
for device in (library.device, other):
    library.device = device
    status, made = library.pack(str(problem), weights, library.values(problem, drawn))
    assert status == 0, library.error
    packed.append(made)
workspace = library.workspace(str(problem), packed[0])
driver, current = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(current), 0) == driver.cuCtxPushCurrent_v2(current) == 0
open(sys.argv[2], "w").close()
for at in (1, 0, 1):
    assert library.launch(packed[at], [x], [y], workspace) == 0, library.error
"""


REFOLDED = """
import ctypes, sys
from pathlib import Path
from built_library import Library, aligned
from library_cases import FILTER, WIDE
from qconv import FusedConv2d
from qconv.ops import registry

problem, library = FusedConv2d(FILTER, WIDE), Library(Path(sys.argv[1]))
drawn = registry.draw(problem, 1)
_, *weights = (aligned(array) for array in drawn.arrays)
status, packed = library.pack(str(problem), weights, library.values(problem, drawn))
assert status == 0, library.error
open(sys.argv[2], "w").close()
assert library.c.qconv_refold(packed, ctypes.c_void_p(77)) == 0, library.error
"""


def test_weights_that_are_folded_again_are_waited_for(for_gpus: Path, tmp_path: Path) -> None:
    """A launch that overlaps does not wait for the kernels that fold, but it does for a fill behind them."""
    log = ran_with_stub(REFOLDED, for_gpus, tmp_path, {})[1]
    words = [line.split() for line in log]
    assert [word for word, *_ in words] == ["launch"] * (len(words) - 1) + ["fill"]
    assert len(words) > 1
    assert words[-1] == ["fill", "0", "4", "0x4d"]


def test_several_gpus_have_their_own_contexts(for_gpus: Path, tmp_path: Path) -> None:
    """The first one's is current in the program."""
    printed, log = ran_with_stub(TWO, for_gpus, tmp_path, {"QCONV_STUB_DEVICES": "2"})
    assert printed == "there is no CUDA device 2: the driver has 2, counted from 0\n"
    assert [line for line in log if line.startswith("context")] == ["context 1", "context 0", "context 1"]


def ran_with_stub(program: str, folder: Path, at: Path, known: dict[str, str]) -> tuple[str, list[str]]:
    """Run a program with a shared library and the file of the stub's log. Return what it printed, and the log."""
    flags = ["-DQCONV_BUILD_TESTS=OFF", f"-DQCONV_CUDA_INCLUDE={STUB_CUDA}", "-DBUILD_SHARED_LIBS=ON"]
    made, log = build(folder, *flags, into=at / "build"), at / "log"
    paths = {"LD_LIBRARY_PATH": str(stub_driver(at / "driver")), "PYTHONPATH": os.pathsep.join(sys.path)}
    variables = os.environ | known | paths | {"QCONV_STUB_MAJOR": "9", "QCONV_STUB_LOG": str(log)}
    command = [sys.executable, "-c", program, made / "libqconv_kernels.so", log]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout, log.read_text().splitlines()


def test_threads_launch_what_was_packed_once(folder: Path, tmp_path: Path) -> None:
    """Under ThreadSanitizer, which watches the launcher and the kernels. The runtime tells it about fibers."""
    kernels = sorted((folder / "kernels").iterdir())
    sanitized = ["-fsanitize=thread", "-g1"]
    flags = [flag for flag in cpu_runtime.KERNEL_FLAGS if flag != "-fno-exceptions"]
    watched = [folder / "src/qconv_launcher.cpp", folder / "src/qconv_table.cpp", *kernels]
    objects = []
    runtime = ["-O2", "-std=c++17", "-DQCONV_SANITIZE_THREAD", "-c", folder / "runtime/cpu_runtime.cpp"]
    for source, options in [(source, [*flags, *sanitized, "-w", "-c", source]) for source in watched] + [
        (folder / "runtime/cpu_runtime.cpp", runtime)
    ]:
        objects.append(tmp_path / f"{source.stem}.o")
        includes = [f"-I{folder / name}" for name in ("include", "src", "runtime")]
        subprocess.run(["g++", *options, *includes, "-o", objects[-1]], check=True, capture_output=True)
    program = compiled(folder, tmp_path / "threads", *sanitized, *objects)
    assert counts(program, "threads", {"TSAN_OPTIONS": "halt_on_error=1"}) == [0] * 5
