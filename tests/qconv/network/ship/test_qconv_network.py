"""The C interface of shipped networks on the CPU: runs, graphs, threads, and what it refuses."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds

import qconv.onnx

pytestmark = [pytest.mark.slow, builds, pytest.mark.thirds]
SUPPORT = Path(__file__).parents[3] / "support"


@pytest.fixture(scope="module")
def residual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped") / "residual"
    return qconv.onnx.export(shipped.residual(), folder, "cpu", batches=[2, 3]).folder


@pytest.fixture(scope="module")
def library(residual: Path, tmp_path_factory: pytest.TempPathFactory) -> shipped.Library:
    empty = tmp_path_factory.mktemp("library") / "empty.cpp"
    empty.write_text("")
    return shipped.Library(shipped.compiled(residual, empty, empty.with_name("network.so"), "-shared", "-fPIC"))


def checked(folder: Path, program: Path, runs: int) -> dict[str, int]:
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "ASAN_OPTIONS": "detect_leaks=0"}
    command = [str(program), str(folder), "cpu", str(runs)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-4000:]
    lines = (line.split() for line in run.stdout.splitlines() if " " in line)
    return {word: int(number) for word, number in lines}


RIGHT = {"repeated": 1, "different": 1, "graph": 1, "updated": 1, "threads": 4}


def test_a_run_allocates_nothing_and_threads_share_a_network(residual: Path, tmp_path: Path) -> None:
    program = shipped.compiled(residual, SUPPORT / "network_checks.cpp", tmp_path / "checks")
    assert checked(residual, program, 20) == {"allocations": 0, **RIGHT}


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers_find_nothing(residual: Path, tmp_path: Path, sanitizer: str) -> None:
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-g1")
    program = shipped.compiled(residual, SUPPORT / "network_checks.cpp", tmp_path / "checks", *flags)
    found = checked(residual, program, 2)
    assert {name: found[name] for name in RIGHT} == RIGHT


def test_arrays_of_all_kinds(library: shipped.Library, tmp_path: Path) -> None:
    folder = qconv.onnx.export(shipped.moving(), tmp_path / "moving", "cpu").folder
    status, network = library.open(folder)
    assert status == 0, library.error
    rng = np.random.default_rng(3)
    shapes = {"x": (1, 3, 5, 4), "a": (2, 3), "b": (2, 3)}
    fed = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    found = library.run(network, fed)
    session = qconv.onnx.Session(shipped.moving(), "cpu")
    for name, expected in zip(session.output_names, session.run(None, fed), strict=True):
        np.testing.assert_array_equal(found[name], expected, err_msg=name)


def test_programs_are_found_by_shapes(library: shipped.Library, residual: Path) -> None:
    _, network = library.open(residual)
    program = ctypes.c_size_t(9)

    def find(*shape: int) -> int:
        extents = (ctypes.c_uint64 * len(shape))(*shape)
        shapes = (ctypes.c_void_p * 1)(ctypes.addressof(extents))
        return int(library.c.qconv_network_find(network, shapes, ctypes.byref(program)))

    assert (find(3, 3, 16, 16), program.value) == (0, 1)
    assert (find(2, 3, 16, 16), program.value) == (0, 0)
    assert find(4, 3, 16, 16) == 1
    assert library.error == (
        "there is no program for x 4x3x16x16; there is one for x 2x3x16x16; x 3x3x16x16: give such inputs, or export "
        "these shapes too"
    )
    find_batch = library.c.qconv_network_find_batch
    assert (find_batch(network, ctypes.c_uint64(3), ctypes.byref(program)), program.value) == (0, 1)
    assert find_batch(network, ctypes.c_uint64(8), ctypes.byref(program)) == 1
    assert library.error.startswith("there is no program for a batch of 8; there is one for x 2x3x16x16; x 3x3x16x16")


def test_bad_arguments_have_a_sentence(library: shipped.Library, residual: Path) -> None:
    c = library.c
    _, network = library.open(residual)
    arrays = [shipped.aligned(np.zeros((2, 3, 16, 16), np.float32)), shipped.aligned(np.zeros((2, 5), np.float32))]
    workspace = shipped.aligned(np.zeros(c.qconv_network_workspace_bytes(network, ctypes.c_size_t(0)), np.uint8))

    def run(
        program: int = 0, stream: int | None = None, x: int | None = 0, y: int | None = 0, work: int | None = 0
    ) -> str:
        given, made = (
            (ctypes.c_void_p * 1)(None if shift is None else array.ctypes.data + shift)
            for array, shift in zip(arrays, (x, y), strict=True)
        )
        space = ctypes.c_void_p(None if work is None else workspace.ctypes.data + work)
        status = c.qconv_network_run(network, ctypes.c_size_t(program), ctypes.c_void_p(stream), given, made, space)
        return library.error if status else ""

    assert run() == ""
    assert run(program=2) == "there is no program 2: the network has 2, counted from 0"
    assert run(stream=8) == "a stream was given, but the CPU has none: give null"
    assert run(x=None) == "x is null: give an array of 6144 bytes"
    assert run(x=4) == "x needs 16-byte alignment: copy it to such an address"
    assert run(y=None) == "gemm16 is null: give an array of 40 bytes"
    assert run(work=None).startswith("workspace must have ")
    assert run(work=16).endswith("bytes at a multiple of 256: qconv_network_allocate gives such memory")
    assert c.qconv_network_open(None, b"cpu", ctypes.byref(network)) == 1
    assert library.error == "folder is null: give one"
    step = (ctypes.c_char_p * 2)()
    count = c.qconv_network_step_count(network, ctypes.c_size_t(0))
    assert c.qconv_network_step_of(network, ctypes.c_size_t(0), ctypes.c_size_t(count - 1), step) == 0
    assert step[0] == b"gemm16_DequantizeLinear"
    assert c.qconv_network_step_of(network, ctypes.c_size_t(0), ctypes.c_size_t(count), step) == 1
    assert f"there is no step {count}: the program has {count}, counted from 0" == library.error
    assert c.qconv_network_status_text(2) == b"the folder is damaged, incomplete, or of another version"


class MadeTensor(ctypes.Structure):
    """`qconv_network_made` of qconv_network.h."""

    _fields_ = (
        ("tensor", ctypes.c_char_p),
        ("is_channels_last", ctypes.c_int),
        ("step", ctypes.c_size_t),
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
    )


def test_tensors_that_steps_complete(library: shipped.Library, residual: Path) -> None:
    _, network = library.open(residual)
    c, program, made = library.c, ctypes.c_size_t(0), MadeTensor()
    outputs, workspace = (ctypes.c_void_p * 1)(4096), ctypes.c_void_p(65536)
    count = c.qconv_network_made_count(network, program)
    assert 1 < count <= c.qconv_network_step_count(network, program)
    found = []
    for index in range(count):
        ask = ctypes.c_size_t(index), outputs, workspace, ctypes.byref(made)
        assert c.qconv_network_made_of(network, program, *ask) == 0, library.error
        found.append((made.tensor, made.step, made.address))
    assert [step for _, step, _ in found] == sorted(step for _, step, _ in found)
    assert found[-1][0] == b"gemm16"
    assert found[-1][2] == 4096
    room = c.qconv_network_workspace_bytes(network, program)
    assert all(65536 <= address < 65536 + room for _, _, address in found[:-1])
    for index, given, there, says in (
        (count, outputs, workspace, f"there is no tensor {count}: the steps complete {count}, counted from 0"),
        (0, None, workspace, "outputs is null: give one"),
        (0, outputs, None, "workspace is null: give one"),
        (count - 1, (ctypes.c_void_p * 1)(None), workspace, "an output is null: give one"),
    ):
        ask = ctypes.c_size_t(index), given, there, ctypes.byref(made)
        assert c.qconv_network_made_of(network, program, *ask) == 1
        assert library.error == says
    assert c.qconv_network_made_count(network, ctypes.c_size_t(9)) == 0
    c.qconv_network_close(network)


def test_tensors(library: shipped.Library, residual: Path) -> None:
    _, network = library.open(residual)
    ((given,), (made,)) = (library.ports(network, kind, 1) for kind in ("input", "output"))
    assert (given.name, given.type, list(given.shape[: given.rank])) == (b"x", b"float32", [3, 3, 16, 16])
    assert (made.name, made.bytes, made.is_counted) == (b"gemm16", 60, 0)
    assert library.c.qconv_network_target(network) == b"cpu"
