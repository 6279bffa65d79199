"""The program that runs shipped networks: its outputs, figures and self-test, and what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import CROSS, EMULATOR, STUB_CUDA, build, builds, emulated, including, stub_driver, without

import qconv.onnx
from qconv.device.traced import Launched
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.network.ship.program import Port
from qconv.network.ship.vectors import drawn

pytestmark = [pytest.mark.slow, builds, pytest.mark.thirds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that is built by its CMake, as a stranger would."""
    made = qconv.onnx.export(
        shipped.residual(), tmp_path_factory.mktemp("shipped") / "network", ["cpu.sm_90a", "cpu"], batches=[1, 2]
    )
    build(made.folder)
    return made.folder


def run(folder: Path, *words: str, status: int = 0) -> str:
    command = [str(folder / "build/qconv_run"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stderr if status else done.stdout


def test_self_test(folder: Path) -> None:
    lines = run(folder, str(folder), "--self-test").splitlines()
    compared = [f"right  program {number}, {steps} tensors of {steps} steps" for number, steps in ((0, 9), (1, 10))]
    outputs = [f"right  program {number}, gemm16" for number in (0, 1)]
    assert lines == ["cpu.sm_90a on cpu", compared[0], outputs[0], compared[1], outputs[1]]


def test_self_test_of_tensor_maps(folder: Path, tmp_path: Path) -> None:
    made = qconv.onnx.export(shipped.wide(), tmp_path / "wide", "cpu.sm_90a")
    plan = (tmp_path / "wide/cpu.sm_90a/plan.txt").read_text()
    assert sum(line.startswith("map ") for line in plan.splitlines()) > 2
    assert run(folder, str(made.folder), "--self-test").splitlines()[1].startswith("right")


def test_images_of_several_sizes(folder: Path, tmp_path: Path) -> None:
    """The program is that of the file's shape, or of the shape that is asked for; Python has the same bits."""
    shapes = [{"x": shape} for shape in ((1, 3, 16, 16), (1, 3, 24, 8), (2, 3, 24, 8))]
    made = qconv.onnx.export(shipped.sized(), tmp_path / "network", "cpu", shapes=shapes)
    session, own = qconv.onnx.Session(made.folder, "cpu"), qconv.onnx.Session(shipped.sized(), "cpu")
    for number, shape in enumerate(each["x"] for each in shapes):
        x = np.random.default_rng(number).standard_normal(shape, np.float32)
        np.save(tmp_path / "x.npy", x)
        run(folder, str(made.folder), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path), "--seconds", "0")
        (wanted,) = own.run(None, {"x": x})
        np.testing.assert_array_equal(np.load(tmp_path / "gemm16.npy"), wanted)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], wanted)
        said = run(folder, str(made.folder), "--shape", f"x={'x'.join(map(str, shape))}", "--seconds", "0")
        assert f"float32 {'x'.join(map(str, shape))}" in said
    assert "x 24x3" not in run(folder, str(made.folder), "--self-test")
    there = "there is one for x 1x3x16x16; x 1x3x24x8; x 2x3x24x8: give such inputs, or export these shapes too"
    for words, status, says in (
        (["--shape", "1x3x16x8"], 1, f"there is no program for x 1x3x16x8; {there}"),
        (["--shape", "1x3x16"], 1, "the input x has 4 axes, and a shape of 3 was given: give an extent for each"),
        (["--shape", "1x3xx8"], 2, "--shape takes extents such as 1x3x224x224, and not 1x3xx8"),
        (["--shape", "y=1x3"], 2, "--shape y=1x3 is of no input of the network"),
        (["--shape", "1x3x16x16", "--batch", "1"], 2, "--batch and --shape both choose the program: give one"),
    ):
        assert says in run(folder, str(made.folder), *words, status=status)


def test_self_test_says_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    (network,) = [Path(qconv.onnx.export(shipped.residual(), tmp_path / "network", "cpu").folder)]
    text = (network / "vectors.txt").read_text()
    words = text.split()
    words[3] = str(int(words[3]) ^ 1)
    (network / "vectors.txt").write_text(" ".join(words))
    assert run(folder, str(network), "--self-test", status=1) == ""
    words = text.split()
    words[8] = "00000000"  # the second stored element
    (network / "vectors.txt").write_text(" ".join(words))
    command = [str(folder / "build/qconv_run"), str(network), "--self-test"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert said.splitlines()[1] == "WRONG  program 0, gemm16 at element 1"


def test_self_test_names_the_first_kernel_that_is_wrong(folder: Path, tmp_path: Path) -> None:
    """The weights of one layer are others: its tensor is the first that differs, and so is the output."""
    made = qconv.onnx.export(shipped.residual(), tmp_path / "network", "cpu")
    program = made.plans[0].programs[0]
    at, step = next((at, step) for at, step in enumerate(program.steps) if at > 2 and step.layer.startswith("conv"))
    read = [program.places[number] for number in step.read]
    (first, *_) = (place.number for place in read if place.space == "constant")
    lines = (made.folder / "cpu/plan.txt").read_text().splitlines()
    offset, size, _ = map(int, [line for line in lines if line.startswith("constant ")][first].split()[1:])
    weights = bytearray((made.folder / "weights.bin").read_bytes())
    weights[offset : offset + size] = bytes(byte ^ 0x15 for byte in weights[offset : offset + size])
    (made.folder / "weights.bin").write_bytes(weights)
    shipped.seal(made.folder, "weights.bin")
    command = [str(folder / "build/qconv_run"), str(made.folder), "--self-test"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert done.returncode == 1
    assert said[1].startswith(f"WRONG  program 0, step {at}: kernel {step.launch.kernel}"), said
    assert f" of layer {step.layer} makes another " in said[1]
    assert said[2].startswith("WRONG  program 0, gemm16")


def test_outputs_and_figures(folder: Path, tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((2, 3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ["--batch", "2", "--input", f"x={tmp_path}/x.npy", "--output", str(tmp_path), "--seconds", "0.05"]
    said = run(folder, str(folder), *words, "--profile", "--json", str(tmp_path / "figures.json"))
    session = qconv.onnx.Session(shipped.residual(), "cpu")
    np.testing.assert_array_equal(np.load(tmp_path / "gemm16.npy"), session.run(None, {"x": x})[0])
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["inputs"] == {"x": "2x3x16x16"}
    assert figures["open_ms"] > 0
    assert 0 < figures["least_us"] <= figures["p50_us"] <= figures["p99_us"]
    layers = [step["layer"] for step in figures["steps"]]
    assert layers[0] == "x_QuantizeLinear"
    assert all(layer in said for layer in layers)
    assert "latency p50" in said


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool", "float16", *FLOAT8])
def test_inputs_that_are_not_given_are_drawn(folder: Path, tmp_path: Path, dtype: str) -> None:
    """The program draws the numbers that vectors.py draws."""
    import onnx
    from onnx import helper

    kind = helper.np_dtype_to_tensor_dtype(ELEMENT_TYPES[dtype].numpy)
    given, made = (helper.make_tensor_value_info(name, kind, [3, 40]) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], "turn", [given], [made])
    made.type.tensor_type.ClearField("shape")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    assert isinstance(model, onnx.ModelProto)
    network = qconv.onnx.export(model, tmp_path / "network", "cpu").folder
    run(folder, str(network), "--seconds", "0", "--output", str(tmp_path))
    y = np.load(tmp_path / "y.npy").view(ELEMENT_TYPES[dtype].numpy)  # 8-bit floats are written as their bits
    np.testing.assert_array_equal(y.astype("float64"), drawn(Port("x", dtype, (3, 40)), 1).T.astype("float64"))


def test_bad_words(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 8, 8), np.float32))
    for words, status, says in (
        ([], 2, "there is no folder\nusage: qconv_run FOLDER"),
        ([str(folder), "--fast"], 2, "the word --fast is not known\n"),
        ([str(folder), "--seconds", "soon"], 2, "--seconds takes a number, and not soon\n"),
        ([str(folder), "--batch"], 2, "--batch takes a word behind it\n"),
        ([str(folder), "--input", f"z={tmp_path}/x.npy"], 2, f"--input z={tmp_path}/x.npy is of no input of the"),
        ([str(folder), "--batch", "7"], 1, "there is no program for a batch of 7; there is one for x 1x3x16x16; x 2x3"),
        (
            [str(folder), "--input", f"{tmp_path}/x.npy"],
            1,
            "there is no program for x 1x3x8x8; there is one for x 1x3x16x16; x 2x3x16x16",
        ),
        ([str(folder), "--input", f"{tmp_path}/none.npy"], 1, f"{tmp_path}/none.npy cannot be opened: give the name"),
        ([f"{tmp_path}/none"], 1, f"the folder {tmp_path}/none cannot be opened (No such file or directory): give its"),
        ([str(tmp_path)], 1, f"{tmp_path} has no network.txt: give a folder that qconv-tune export or build"),
        ([str(folder), "--device", "tpu"], 1, "the device tpu is not known: this library was built for "),
    ):
        assert run(folder, *words, status=status).startswith(says), words


def test_help(folder: Path) -> None:
    for words in (["--help"], [str(folder), "-h"]):
        assert run(folder, *words).startswith("usage: qconv_run FOLDER [options]\n")


def test_it_is_found_by_cmake(folder: Path, tmp_path: Path) -> None:
    """A program outside finds the installed library, and runs a network by its C++ wrappers."""
    subprocess.run(["cmake", "--install", folder / "build", "--prefix", tmp_path / "there"], check=True)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(own LANGUAGES CXX)\nfind_package(qconv_network 1 REQUIRED)\n"
        "add_executable(own own.cpp)\ntarget_link_libraries(own PRIVATE qconv::network)\n"
    )
    (tmp_path / "own.cpp").write_text(
        "#include <qconv_network.hpp>\n#include <cstdio>\nint main(int, char** words) {\n"
        "    const qconv_network_api::Network network(words[1], words[2]);\n"
        "    const size_t program = network.of_shapes({{2, 3, 16, 16}});\n"
        '    printf("%zu %s\\n", program, network.outputs(program)[0].name);\n    return 0;\n}\n'
    )
    where = build(tmp_path, f"-DCMAKE_PREFIX_PATH={tmp_path / 'there'}")
    said = subprocess.run([where / "own", folder, "cpu"], capture_output=True, text=True, check=True).stdout
    assert said == "1 gemm16\n"


def test_a_package_has_the_network(folder: Path, tmp_path: Path) -> None:
    """`cpack` packs the program, the network, and a file by which pkg-config finds the library."""
    where = build(folder, "-DQCONV_NETWORK_NAME=finder", "-DCPACK_GENERATOR=TGZ", into=tmp_path / "build")
    subprocess.run(["cpack"], cwd=where, check=True, stdout=subprocess.DEVNULL)
    (archive,) = where.glob("*.tar.gz")
    assert archive.name.startswith("finder-1.0")
    subprocess.run(["tar", "-xzf", archive, "--strip-components=1", "-C", tmp_path], check=True)
    prefix = tmp_path if (tmp_path / "bin").is_dir() else tmp_path / "usr"
    command = [prefix / "bin/qconv_run", prefix / "share/finder", "--self-test"]
    assert "right  program 1" in subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (found,) = prefix.rglob("qconv_network.pc")
    assert "-lqconv_network -lstdc++ -pthread -ldl" in found.read_text()


@without("dpkg-deb", "cpack")
def test_packages_of_two_networks_lie_beside_each_other(folder: Path, tmp_path: Path) -> None:
    """A package has a network and the models of its parts, and needs the one of the library, which all share."""
    network = Path(shutil.copytree(folder, tmp_path / "network", ignore=shutil.ignore_patterns("build")))
    (network / "elsewhere").mkdir()
    (network / "elsewhere/part.onnx").write_bytes(b"part")
    names = {"Finder_1": "finder-1", "other": "other"}
    held, needed = {}, {}
    for name, package in names.items():
        where = build(network, f"-DQCONV_NETWORK_NAME={name}", "-DCPACK_GENERATOR=DEB", into=tmp_path / name)
        subprocess.run(["cpack"], cwd=where, check=True, stdout=subprocess.DEVNULL)
        for each in (package, "qconv-network"):
            (archive,) = where.glob(f"{each}_1.0_*.deb")
            root = tmp_path / f"{name}-{each}"
            subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
            held[name, each] = {str(path.relative_to(root / "usr")) for path in root.rglob("*") if path.is_file()}
            asked = subprocess.run(["dpkg-deb", "-f", archive, "Depends"], capture_output=True, text=True, check=True)
            needed[name, each] = asked.stdout
    assert held["Finder_1", "qconv-network"] == held["other", "qconv-network"]
    assert {"bin/qconv_run", "include/qconv_network.hpp"} <= held["other", "qconv-network"]
    for name, package in names.items():
        own = (
            "network.txt",
            "weights.bin",
            "vectors.txt",
            "cpu/plan.txt",
            "cpu.sm_90a/kernels.so",
            "elsewhere/part.onnx",
        )
        assert {f"share/{name}/{file}" for file in own} <= held[name, package]
        assert all(file.startswith(f"share/{name}/") for file in held[name, package])
        assert "qconv-network (>= 1.0)" in needed[name, package]


def test_an_installed_program_finds_the_shared_library(folder: Path, tmp_path: Path) -> None:
    where = build(folder, "-DBUILD_SHARED_LIBS=ON", into=tmp_path / "build")
    subprocess.run(["cmake", "--install", where, "--prefix", tmp_path / "first"], check=True)
    moved = (tmp_path / "first").rename(tmp_path / "second")
    command = [moved / "bin/qconv_run", folder, "--self-test"]
    assert "right  program 1" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_build_says_which_devices_it_is_for(folder: Path, tmp_path: Path) -> None:
    command = ["cmake", "-S", folder, "-B", tmp_path, f"-DQCONV_CUDA_INCLUDE={STUB_CUDA}", "-DQCONV_HIP_INCLUDE="]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert f"qconv_network: with CUDA, by the header in {STUB_CUDA}\n" in said
    wanted = "hip/hip_runtime_api.h: install ROCm's HIP, or give -DQCONV_HIP_INCLUDE=FOLDER"
    assert f"qconv_network: without HIP, for want of {wanted}\n" in said


@without(CROSS, EMULATOR)
def test_it_is_built_for_a_jetson_and_runs_against_a_stub(tmp_path: Path) -> None:
    """The program and the stub of the driver are of 64-bit ARM; the stub logs launches, of compute capability 8.7."""
    made = qconv.onnx.export(shipped.residual(), tmp_path / "network", "orin", vectors=False)
    tools = f"-DCMAKE_TOOLCHAIN_FILE={made.folder / 'cmake/aarch64-linux-gnu.cmake'}"
    where = build(made.folder, tools, f"-DQCONV_CUDA_INCLUDE={including('cuda.h')}", "-DQCONV_HIP=OFF")
    driver, log = stub_driver(tmp_path / "driver", CROSS), tmp_path / "log"
    known = {"QCONV_STUB_MAJOR": "8", "QCONV_STUB_MINOR": "7", "QCONV_STUB_LOG": str(log)}
    command = [*emulated(where / "qconv_run", driver), made.folder, "--seconds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | known)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sm_87 on ")
    (plan,) = made.plans
    wanted = sum(isinstance(step, Launched) for step in (*(one.step for one in plan.setup), *plan.programs[0].steps))
    assert sum(line.startswith("launch ") for line in log.read_text().splitlines()) == wanted
