"""The choices of the launcher, on NVIDIA's device with a stub driver: the kernel of a problem for a device, and the
array addresses that it refuses. The table is this test's, and the kernels launch nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from built_library import BAD_ARGUMENT, NO_KERNEL, OK

from qconv.instances.library.write import DEVICES, SAME

SUPPORT, LIBRARY = Path(__file__).parents[2] / "support", Path(__file__).parents[3] / "instances/library"
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")

HERE, ELSEWHERE = "NVIDIA H200", "NVIDIA A10"
DEFAULT, TUNED_ELSEWHERE, TUNED_HERE = ("", 0.0), (ELSEWHERE, 1.0), (HERE, 9.0)
# The compute capability, the kernels of a problem, and the chosen one. Tables may have any order.
CHOSEN: dict[str, tuple[str, tuple[tuple[str, tuple[str, float]], ...], int | None]] = {
    "one tuned here": ("8.6", (("sm_86", TUNED_ELSEWHERE), ("sm_86", TUNED_HERE), ("sm_86", DEFAULT)), 1),
    "one tuned elsewhere": ("8.6", (("sm_86", DEFAULT), ("sm_86", TUNED_ELSEWHERE)), 1),
    "its own target, not tuned": ("8.6", (("sm_80", TUNED_HERE), ("sm_86", DEFAULT)), 1),
    "the nearest target, not tuned": ("8.9", (("sm_86", TUNED_HERE), ("sm_87", DEFAULT), ("sm_80", TUNED_HERE)), 1),
    "an earlier target than its own": ("8.6", (("sm_89", TUNED_HERE), ("sm_80", DEFAULT)), 1),
    "another generation's": ("9.0", (("sm_89", TUNED_HERE), ("sm_90", DEFAULT), ("sm_100a", TUNED_HERE)), 1),
    "one for this capability alone": ("10.0", (("sm_103a", TUNED_HERE), ("sm_100a", DEFAULT)), 1),
    "none of a later minor": ("8.0", (("sm_86", TUNED_HERE),), None),
    "none for an earlier capability alone": ("10.3", (("sm_100a", TUNED_HERE),), None),
    "none of another vendor": ("9.0", (("gfx942", TUNED_HERE), ("cpu", TUNED_HERE)), None),
}
# name, role, bytes, alignment, whether an output may be there
TENSORS = (
    *(("x", "input", 64, 16, 0), ("w", "weights", 32, 4, 0), ("residual", "input", 48, 1, 1)),
    *(("same", "input", 40, 1, 1), ("y", "output", 48, 2, 0), ("mean", "output", 8, 1, 0)),
)
NAMES = [name for name, *_ in TENSORS]
# Offsets without any overlap.
SEPARATE = {"x": 0, "w": 64, "residual": 96, "same": 144, "y": 192, "mean": 240}


def table_text() -> str:
    tensors = (
        f'{{"{name}", "int8", Role::{role}, {size}, 1, 1, {{{size}}}, {alignment}, {"true" if may_be else "false"}}}'
        for name, role, size, alignment, may_be in TENSORS
    )
    rows = [(name, *row) for name, (_, rows, _) in CHOSEN.items() for row in rows]
    rows += [(f"{name}, in reverse", *row) for name, (_, rows, _) in CHOSEN.items() for row in rows[::-1]]
    rows.append(("arrays", "sm_80", DEFAULT))
    kernels = (
        f'{{"{key}", "{target}", "{device}", "", {time_us}, {{tensors, {len(TENSORS)}}}, {{}}, {{}}}}'
        for key, target, (device, time_us) in rows
    )
    return (
        f'#include "qconv_table.h"\nnamespace qconv {{\nconst Tensor tensors[] = {{{", ".join(tensors)}}};\n'
        f"const qconv_kernel kernels[] = {{{', '.join(kernels)}}};\n"
        f"extern const Span<qconv_kernel> table = {{kernels, {len(rows)}}};\n"
        "extern const Span<Grammar> grammars = {nullptr, 0};\n}\n"
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library with the stub driver in it, under the name that the launcher loads."""
    folder = tmp_path_factory.mktemp("launcher")
    for name in (*SAME.values(), DEVICES["nvidia"]):
        shutil.copy(LIBRARY / name, folder)
    (folder / DEVICES["nvidia"]).rename(folder / "qconv_device.h")
    # One file, so that the headers of all three are compiled once.
    own = '#include "qconv_launcher.cpp"\n#include "stub_cuda.cpp"\n'
    (folder / "library.cpp").write_text(own + table_text())
    flags = [
        "-std=c++17",
        "-shared",
        "-fPIC",
        "-O0",
        f"-I{SUPPORT}",
        f"-I{SUPPORT / 'stub_cuda'}",
        "-Wl,-soname,libcuda.so.1",
    ]
    run = subprocess.run(
        ["g++", *flags, "library.cpp", "-o", "library.so"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return folder / "library.so"


PROGRAM = """
import ctypes, json, sys
library, P, problems = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p, json.loads(sys.argv[2])
for name in ("last_error", "target_of", "tuned_on"):
    getattr(library, "qconv_" + name).restype = ctypes.c_char_p
library.qconv_kernel_at.restype = P
device, kernel, packed = P(), P(), P()
assert library.qconv_open(0, ctypes.byref(device)) == 0, library.qconv_last_error()
answers = []
for key, arrays in problems:
    if isinstance(key, int):
        status, kernel = 0, P(library.qconv_kernel_at(ctypes.c_size_t(key)))
    else:
        status = library.qconv_lookup(device, key.encode(), ctypes.byref(kernel))
    says = [library.qconv_target_of(kernel).decode(), library.qconv_tuned_on(kernel).decode()] if status == 0 else []
    if status == 0 and arrays:
        x, w, residual, same, y, mean = arrays
        status = library.qconv_pack(device, kernel, (P * 1)(w), None, ctypes.c_size_t(0), None, ctypes.byref(packed))
        inputs, outputs = (P * 3)(x, residual, same), (P * 2)(y, mean)
        status = status or library.qconv_launch(packed, inputs, outputs, None, ctypes.c_size_t(0), None)
    answers.append([status, says, library.qconv_last_error().decode() if status else ""])
print(json.dumps(answers))
"""


def asked(library: Path, capability: str, problems: list[Any]) -> list[tuple[int, list[str], str]]:
    """Return the library's status for each problem and its arrays, from a process of its own with the stub driver."""
    major, minor = capability.split(".")
    known = {"QCONV_STUB_MAJOR": major, "QCONV_STUB_MINOR": minor, "QCONV_STUB_LOG": os.devnull}
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(library), json.dumps(problems)]
    run = subprocess.run(command, env=os.environ | known, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    answers: list[tuple[int, list[str], str]] = json.loads(run.stdout)
    return answers


@pytest.mark.turns
@pytest.mark.parametrize("name", CHOSEN)
def test_the_kernel_of_the_latest_target_that_runs_goes_before_a_tuned_one(library: Path, name: str) -> None:
    capability, rows, chosen = CHOSEN[name]
    answers = asked(library, capability, [(name, []), (f"{name}, in reverse", [])])
    for status, says, error in answers:
        if chosen is None:
            assert status == NO_KERNEL
            assert f"but none that runs on {HERE}: export it for that device's target" in error
        else:
            target, (device, _) = rows[chosen]
            assert (status, says) == (OK, [target, device])


ACCEPTED = {
    "all apart": {},
    "an output right behind x": {"y": 64, "residual": 192, "w": 240, "mean": 280},
    "an output right before x": {"x": 240, "y": 192, "mean": 0},
    "an output right behind the weights": {"y": 96, "residual": 192},
    "an output right behind the other": {"mean": 240},
    "an output right before the other": {"mean": 184},
    "a residual as a whole": {"y": 96},
    "inputs that are one": {"residual": 0, "same": 0},
}
BASE = 2**20  # no kernel is launched, and nothing is read there
REFUSED = {
    "the last byte of x": ({"mean": 63}, "mean shares memory with x"),
    "the first byte of x": ({"x": 272, "mean": 265}, "mean shares memory with x"),
    "x, within it": ({"y": 8}, "y shares memory with x"),
    "x, around it": ({"mean": 1}, "mean shares memory with x"),
    "the weights": ({"mean": 95}, "mean shares memory with w"),
    "the other output": ({"mean": 239}, "y shares memory with mean"),
    "a residual, shifted": ({"y": 98}, "y shares memory with residual"),
    "a smaller input at the same address": ({"y": 144, "mean": 96, "residual": 200}, "y shares memory with same"),
    "a larger residual at the same address": ({"mean": 96}, "mean shares memory with residual"),
    "no address": ({"x": -BASE}, "x is null: give one"),
    "an address that no load of 16 bytes takes": ({"x": 264}, "x needs 16-byte alignment"),
    "an address of the weights": ({"w": 66}, "w needs 4-byte alignment"),
    "an address of an output": ({"y": 193}, "y needs 2-byte alignment"),
}


def placed(changed: dict[str, int]) -> list[int]:
    return [BASE + (SEPARATE | changed)[name] for name in NAMES]


def test_arrays_that_lie_beside_each_other_are_taken(library: Path) -> None:
    answers = asked(library, "8.0", [("arrays", placed(changed)) for changed in ACCEPTED.values()])
    assert {name: error for name, (status, _, error) in zip(ACCEPTED, answers, strict=True) if status != OK} == {}


def test_an_output_over_a_byte_of_another_array_is_refused(library: Path) -> None:
    answers = asked(library, "8.0", [("arrays", placed(changed)) for changed, _ in REFUSED.values()])
    for (name, (_, says)), (status, _, error) in zip(REFUSED.items(), answers, strict=True):
        assert (status, says in error) == (BAD_ARGUMENT, True), f"{name}: {error}"


def test_a_kernel_that_does_not_run_on_the_device_is_not_packed(library: Path) -> None:
    """The first kernels of the table are for 8.6."""
    for capability, wanted in (("8.6", OK), ("8.0", NO_KERNEL)):
        ((status, _, error),) = asked(library, capability, [(0, placed({}))])
        assert status == wanted, error
    assert error == f"a kernel for sm_86 does not run on {HERE}: look up one that does"
