"""An exported library builds with only CMake and a C++ compiler, and matches the oracle."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_library import BAD_ARGUMENT, NO_DEVICE, NO_KERNEL, NO_MEMORY, OK, Library, aligned, build, builds
from library_cases import CASES, FILTER, PROJECT, SMALL, TURNED, plan_of, plan_with_scratch, small, winner_of, winners

from qconv import Conv2d, FusedConv2d, Quantization
from qconv.instances.library.vectors import vector_of
from qconv.instances.library.write import write
from qconv.ops import registry
from qconv.ops.registry import OPS, op_of
from qconv.tensor_ops import Add

pytestmark = pytest.mark.thirds


def test_a_library_of_one_problem_has_everything_that_its_build_names(tmp_path: Path) -> None:
    library = write([small()], tmp_path)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(library.files)
    text = (tmp_path / "CMakeLists.txt").read_text()
    named = re.findall(r"\b(?:src|test|example|include|runtime|cmake)/[\w.]+\.\w+", text)
    assert set(named) <= set(library.files)
    assert re.search("@[A-Z]+@", text) is None
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (problem,) = manifest["problems"]
    assert (problem["problem"], problem["origin"], problem["time_us"]) == (str(SMALL), "default", None)
    (kernel,) = manifest["kernels"]
    assert problem["kernels"] == [kernel["file"]]
    assert "-ffp-contract=off" in kernel["compile"]
    binary = tmp_path / kernel["binary"]["file"]
    assert hashlib.sha256(binary.read_bytes()).hexdigest() == kernel["binary"]["sha256"]


def test_the_header_has_the_version_that_the_manifest_says(tmp_path: Path) -> None:
    write([small()], tmp_path)
    version = json.loads((tmp_path / "manifest.json").read_text())["abi_version"]
    assert f"#define QCONV_ABI_VERSION {version}\n" in (tmp_path / "include/qconv_kernels.h").read_text()


def test_every_op_is_in_some_library() -> None:
    assert {op_of(problem).name for _, _, problem in CASES} == {op.name for op in OPS if op.problems}


def test_one_library_is_for_one_vendor(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="export each vendor's targets to a folder of its own"):
        write([small(), small("sm_80")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_stored_inputs_make_outputs_of_variety() -> None:
    vector = vector_of(CASES[0][2])
    assert len(np.unique(vector.outputs[0])) > 16
    assert all(np.array_equal(array.reshape(-1)[: block.size], block.reshape(-1)) for array, block in
               zip(vector.sample.arrays, vector.blocks, strict=True))  # fmt: skip


def test_the_one_who_waits_is_told_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    write([small(), winner_of(plan_of("simt", "cpu", TURNED))], tmp_path, lambda *counts: told.append(counts))
    assert told == [(1, 2), (2, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export every family in one library."""
    made = tmp_path_factory.mktemp("library")
    write([*winners(), winner_of(plan_of("simt", "cpu", TURNED))], made)
    return made


@pytest.fixture(scope="module")
def built(folder: Path) -> Path:
    return build(folder, "-DBUILD_SHARED_LIBS=ON")


@pytest.fixture(scope="module")
def library(built: Path) -> Library:
    return Library(built / "libqconv_kernels.so")


@builds
@pytest.mark.slow
def test_every_kernel_passes_its_self_test(built: Path) -> None:
    run = subprocess.run([built / "qconv_self_test"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert f"cpu: {len(CASES) + 2} right, 0 wrong, 0 not for this device" in run.stdout
    example = subprocess.run([built / "qconv_example"], capture_output=True, text=True, check=False)
    assert example.returncode == 0, example.stderr
    assert subprocess.run([built / "qconv_self_test", "--device", "1"], check=False).returncode == 3


@builds
@pytest.mark.slow
def test_a_wrong_output_is_found_and_told(folder: Path, built: Path, tmp_path: Path) -> None:
    """A stored input of one problem is changed: the kernel's output then differs from the stored one."""
    text = (folder / "test/self_test_vectors.cpp").read_text()
    changed = re.sub(r'(array_0_0\[\] =\n    ")\\\d{1,3}', r"\g<1>\\177", text, count=1)
    assert changed != text
    (tmp_path / "self_test_vectors.cpp").write_text(changed)
    include = [f"-I{folder / 'include'}", f"-I{folder / 'test'}"]
    sources = ["self_test_vectors.cpp", str(folder / "test/self_test.cpp"), str(built / "libqconv_kernels.so")]
    subprocess.run(["g++", "-std=c++17", *include, *sources, "-o", "test"], cwd=tmp_path, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    run = subprocess.run([tmp_path / "test"], env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.count("WRONG")) == (1, 1)


@builds
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_every_problem_computes_what_the_oracle_does(library: Library, seed: int) -> None:
    """On data that the library does not contain."""
    for _, _, problem in CASES:
        drawn = registry.draw(problem, seed)
        for got, wanted in zip(library.call(problem, drawn), op_of(problem).compute(problem, drawn), strict=True):
            assert np.array_equal(got.view(np.uint8), wanted.view(np.uint8)), str(problem)


@builds
@pytest.mark.slow
def test_an_installed_library_is_found_by_its_package(folder: Path, tmp_path: Path) -> None:
    """The package is static, made of the objects that were compiled with the export."""
    build(folder, "-DQCONV_PREBUILT=ON", into=tmp_path / "static")
    subprocess.run(
        ["cmake", "--install", tmp_path / "static", "--prefix", tmp_path / "prefix"], check=True, capture_output=True
    )
    (tmp_path / "main.c").write_text(
        '#include "qconv_kernels.h"\n#include <stdio.h>\nint main(void) { printf("%zu\\n", qconv_kernel_count()); '
        "return qconv_abi_version() != QCONV_ABI_VERSION; }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C CXX)\nfind_package(qconv_kernels 1 REQUIRED)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user qconv::kernels)\n"
        "set_target_properties(user PROPERTIES LINKER_LANGUAGE CXX)\n"
    )
    for command in (
        ["cmake", "-S", ".", "-B", "user", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}"],
        ["cmake", "--build", "user"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([tmp_path / "prefix/bin/qconv_self_test"], capture_output=True, check=True)
    run = subprocess.run([tmp_path / "user/user"], capture_output=True, text=True, check=True)
    assert int(run.stdout) == len(CASES) + 2


@builds
@pytest.mark.slow
def test_what_is_wrong_is_refused_with_a_sentence(library: Library) -> None:
    assert library.lookup("conv2d:n=1")[0] == NO_KERNEL
    assert "this library has no kernel for conv2d:n=1" in library.error
    assert library.c.qconv_open(1, ctypes.byref(ctypes.c_void_p())) == NO_DEVICE
    nothing = {"synchronize": 2, "upload": 4, "pack": 7, "refold": 2, "workspace_prepare": 4, "launch": 6, "lookup": 3}
    for name, count in nothing.items():
        assert getattr(library.c, f"qconv_{name}")(*[None] * count) == BAD_ARGUMENT
        assert "is null: give one" in library.error
    for bytes_ in (2**64 - 1, 2**63):
        memory = ctypes.c_void_p()
        status = library.c.qconv_allocate(library.device, ctypes.c_size_t(bytes_), ctypes.byref(memory))
        assert (status, memory.value) == (NO_MEMORY, None)
    problem = CASES[0][2]
    drawn = registry.draw(problem, 3)
    _, w = (aligned(array) for array in drawn.arrays)
    right = library.values(problem, drawn)
    f64 = lambda *values: np.array(values, np.float64)  # noqa: E731
    wrong: dict[str, dict[str, Any]] = {
        "x_scale holds -1": {"x_scale": f64(-1)},
        "w_scale has 2 values; this problem takes one": {"w_scale": f64(1, 1)},
        "x_zero_point holds 128": {"x_zero_point": np.array([128], np.int32)},
        "x_zero_point must be of QCONV_INT32": {"x_zero_point": f64(1)},
        "bias has 3 values": {"bias": np.zeros(3, np.int32)},
        "bias must be of QCONV_INT32": {"bias": np.zeros(24)},
        "low is above high": {"low": f64(2), "high": f64(1)},
        "slope is no parameter of this problem": {"slope": f64(1)},
        "must be finite and positive in float32": {"x_scale": f64(1e-30), "w_scale": f64(1e-30)},
    }
    for said, values in wrong.items():
        status, _ = library.pack(str(problem), [w], right | values)
        assert (status, said in library.error) == (BAD_ARGUMENT, True), (said, library.error)
    without = {name: value for name, value in right.items() if name != "bias"}
    assert library.pack(str(problem), [w], without)[0] == BAD_ARGUMENT
    assert "bias was not given, and this problem needs it" in library.error


NULLS = r"""
#include <stdio.h>
#include <string.h>
#include "qconv_kernels.h"

static int is_refused(qconv_status status, const char* with) {
    return status == QCONV_BAD_ARGUMENT && strstr(qconv_last_error(), with) != NULL;
}

int main(void) {
    static _Alignas(64) char memory[1 << 16];
    const void* weights[] = {memory};
    qconv_device* device = NULL;
    qconv_packed* packed = NULL;
    if (qconv_open(0, &device) != QCONV_OK) return 2;
    const int right[] = {
        qconv_upload(device, NULL, NULL, 0) == QCONV_OK,
        qconv_download(device, NULL, NULL, 0) == QCONV_OK,
        is_refused(qconv_upload(device, NULL, memory, 1), "to is null: give one"),
        is_refused(qconv_upload(device, memory, NULL, 1), "from_host is null: give one"),
        is_refused(qconv_download(device, NULL, memory, 1), "to_host is null: give one"),
        is_refused(qconv_download(device, memory, NULL, 1), "from is null: give one"),
        is_refused(qconv_pack(device, qconv_kernel_at(0), weights, NULL, 3, NULL, &packed),
                   "parameters is null, and 3 were announced"),
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; ++i) printf("%d", right[i]);
    return 0;
}
"""


@builds
@pytest.mark.slow
def test_null_ends_no_process(folder: Path, built: Path, tmp_path: Path) -> None:
    """Called by a program of its own, which a null that is read would end."""
    (tmp_path / "nulls.c").write_text(NULLS)
    library = built / "libqconv_kernels.so"
    subprocess.run(
        ["gcc", "-std=c11", f"-I{folder / 'include'}", "nulls.c", library, "-o", "nulls"], cwd=tmp_path, check=True
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(built)}
    run = subprocess.run([tmp_path / "nulls"], env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "1111111"), run.stderr


@builds
@pytest.mark.slow
def test_sums_of_several_blocks_begin_with_zero(library: Library) -> None:
    """The workspace has memory for them, which the first launch must find cleared, and leaves so for the next."""
    problem = plan_with_scratch().problem
    drawn = registry.draw(problem, 7)
    wanted = op_of(problem).compute(problem, drawn)
    x, w, residual = (aligned(array) for array in drawn.arrays)
    status, packed = library.pack(str(problem), [w], library.values(problem, drawn))
    assert status == OK, library.error
    workspace = library.workspace(str(problem), packed)
    assert workspace.nbytes > 0
    for _ in range(3):
        y = aligned(np.zeros_like(wanted[0]))
        assert library.launch(packed, [x, residual], [y], workspace) == OK, library.error
        assert np.array_equal(y, wanted[0])


@builds
@pytest.mark.slow
def test_a_workspace_that_does_not_serve_is_refused(library: Library) -> None:
    problem = plan_with_scratch().problem
    drawn = registry.draw(problem, 7)
    x, w, residual = (aligned(array) for array in drawn.arrays)
    status, packed = library.pack(str(problem), [w], library.values(problem, drawn))
    assert status == OK, library.error
    room = library.workspace(str(problem), packed)
    y = aligned(np.zeros(problem.outputs[0].shape, problem.outputs[0].dtype))
    inside = room.ctypes.data + 64
    wrong = {
        f"workspace_bytes is 64, and {problem} needs {room.nbytes}: allocate what qconv_workspace_bytes": (
            room[:64],
            y,
        ),
        "workspace needs 64-byte alignment: allocate it at such an address": (
            np.empty(2 * room.nbytes, np.int8)[1:],
            y,
        ),
        "y lies in the workspace, which the kernels write: give it other memory": (room, inside),
    }
    for said, (workspace, output) in wrong.items():
        status = library.launch(packed, [x, residual], [output], workspace)
        assert (status, library.error) == (BAD_ARGUMENT, said) or library.error.startswith(said), library.error
    bytes_ = ctypes.c_size_t(room.nbytes)
    assert library.c.qconv_workspace_prepare(packed, None, bytes_, None) == BAD_ARGUMENT
    assert library.error == "workspace is null: give one"
    assert library.launch(packed, [x, residual], [y], room) == OK, library.error


@builds
@pytest.mark.slow
def test_a_status_has_a_name(library: Library) -> None:
    library.c.qconv_status_text.restype = ctypes.c_char_p
    names = [library.c.qconv_status_text(status) for status in (OK, BAD_ARGUMENT, NO_KERNEL, NO_DEVICE, NO_MEMORY, 7)]
    assert names[:2] == [b"QCONV_OK", b"QCONV_BAD_ARGUMENT"]
    assert names[-1] == b"no status of this library"
    assert len(set(names)) == len(names)


@builds
@pytest.mark.slow
def test_scales_that_a_sum_cannot_have_are_refused(library: Library) -> None:
    problem = next(problem for _, _, problem in CASES if isinstance(problem, Add))
    wrong: dict[str, dict[str, Any]] = {
        "a_scale / y_scale is 1.04858e+06; it must be 1.17549e-38 to 1.04858e+06 in float32: check the scales": {
            "a_scale": np.array([2.0**20 + 1], np.float64)
        },
        "b_zero_point holds 300; it must be from -128 to 127": {"b_zero_point": np.array([300], np.int32)},
        "bias is no parameter of this problem, which takes a_scale, b_scale, y_scale, a_zero_point": {
            "bias": np.zeros(1, np.int32)
        },
    }
    for said, values in wrong.items():
        status, _ = library.pack(str(problem), [], values)
        assert (status, said in library.error) == (BAD_ARGUMENT, True), (said, library.error)
    assert library.pack(str(problem), [], {})[0] == OK, "scales are 1 and zero points 0 where none are given"


@builds
@pytest.mark.slow
def test_an_output_over_what_is_read_is_refused(library: Library) -> None:
    """The exception is a residual at the same address: the thread that writes an output has read it."""
    problem = next(p for _, _, p in CASES if isinstance(p, Conv2d) and p.quantization.residual == "int8")
    drawn = registry.draw(problem, 6)
    x, w, residual = (aligned(array) for array in drawn.arrays)
    status, packed = library.pack(str(problem), [w], library.values(problem, drawn))
    assert status == OK, library.error
    workspace = library.workspace(str(problem), packed)
    for name, over in {"x": x, "w": w, "residual": residual}.items():
        for at in (over.ctypes.data - 64, over.ctypes.data + (64 if over is residual else 0)):
            assert library.launch(packed, [x, residual], [at], workspace) == BAD_ARGUMENT
            assert f"y shares memory with {name}: " in library.error
            assert library.error.endswith("give an array of its own, or residual itself as a whole")
    assert library.launch(packed, [x, residual], [residual], workspace) == OK, library.error
    assert np.array_equal(residual, op_of(problem).compute(problem, drawn)[0])


@builds
@pytest.mark.slow
def test_an_output_over_what_another_kernel_reads_is_refused(library: Library) -> None:
    """Covers problems with two outputs or two kernels."""
    for problem in (next(p for f, _, p in CASES if f == "unfused"), CASES[-1][2]):
        drawn = registry.draw(problem, 6)
        named = dict(zip((tensor.name for tensor in problem.inputs), map(aligned, drawn.arrays), strict=True))
        weights = [named.pop(name) for name in problem.packed]
        status, packed = library.pack(str(problem), weights, library.values(problem, drawn))
        assert status == OK, library.error
        workspace = library.workspace(str(problem), packed)
        own = [aligned(np.zeros(tensor.shape, tensor.dtype)) for tensor in problem.outputs]
        outputs = [array.ctypes.data for array in own]
        for over in (*(array for name, array in named.items() if name != "residual"), *weights):
            status = library.launch(packed, [*named.values()], [*outputs[:-1], over.ctypes.data], workspace)
            assert (status, "shares memory with" in library.error) == (BAD_ARGUMENT, True)
        if len(outputs) > 1:
            status = library.launch(packed, [*named.values()], [outputs[0]] * len(outputs), workspace)
            assert (status, "shares memory with" in library.error) == (BAD_ARGUMENT, True)


@builds
@pytest.mark.slow
def test_weights_written_anew_are_folded_again(library: Library) -> None:
    problem = CASES[0][2]
    one, other = (registry.draw(problem, seed) for seed in (4, 5))
    x, w = (aligned(array) for array in one.arrays)
    y = aligned(np.zeros(problem.outputs[0].shape, problem.outputs[0].dtype))
    status, packed = library.pack(str(problem), [w], library.values(problem, one))
    assert status == OK, library.error
    workspace = library.workspace(str(problem), packed)
    w[...] = other.arrays[1]
    assert library.c.qconv_refold(packed, None) == OK
    assert library.launch(packed, [x], [y], workspace) == OK, library.error
    changed = type(one)((one.arrays[0], other.arrays[1]), one.parameters)
    assert np.array_equal(y, op_of(problem).compute(problem, changed)[0])


@builds
@pytest.mark.slow
def test_threads_launch_what_is_theirs_at_the_same_time(library: Library) -> None:
    problem = FusedConv2d(FILTER, PROJECT)
    drawn = [registry.draw(problem, seed) for seed in range(4)]
    got: dict[int, Any] = {}

    def work(number: int) -> None:
        got[number] = [library.call(problem, drawn[number])[0] for _ in range(5)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(drawn))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, one in enumerate(drawn):
        (wanted,) = op_of(problem).compute(problem, one)
        assert all(np.array_equal(each, wanted) for each in got[number])


@builds
@pytest.mark.slow
@pytest.mark.parametrize("problem", [TURNED, CASES[1][2]], ids=["nhwc", "nchw"])
def test_weights_in_the_other_layout_are_turned(library: Library, problem: Conv2d) -> None:
    w = registry.draw(problem, 6).arrays[1]
    other = np.ascontiguousarray(w.transpose((0, 3, 1, 2) if problem.layout == "nhwc" else (0, 2, 3, 1)))
    turned = np.zeros_like(w)
    status, kernel = library.lookup(str(problem))
    assert status == OK
    given, into = (ctypes.c_void_p(array.ctypes.data) for array in (other, turned))
    assert library.c.qconv_turn_weights(kernel, ctypes.c_size_t(0), given, into) == OK, library.error
    assert np.array_equal(turned, w)


def test_kernels_of_a_library_share_nothing_by_name(tmp_path: Path) -> None:
    """A function that two files define differently could be taken from either."""
    if shutil.which("g++") is None or shutil.which("nm") is None:
        pytest.skip("no g++, or no nm")
    other = winner_of(plan_of("simt", "cpu", Conv2d(1, 4, 4, 8, 8, 1, 1, quantization=Quantization(bias="int32"))))
    write([small(), other], tmp_path)
    names: list[str] = []
    for path in sorted((tmp_path / "kernels").iterdir()):
        subprocess.run(["g++", "-std=c++17", "-O0", "-c", path, "-o", tmp_path / "one.o"], check=True)
        command = ["nm", "--defined-only", "-g", tmp_path / "one.o"]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        names += [line.split()[-1] for line in run.stdout.splitlines()]
    assert len(set(names)) == len(names) > 3
