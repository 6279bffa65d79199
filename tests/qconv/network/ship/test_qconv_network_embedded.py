"""The library of networks as one header, for the CPU and for a GPU of each vendor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds, including, stub_driver

import qconv.onnx

pytestmark = [pytest.mark.slow, builds, pytest.mark.thirds]
HEADERS = {"CUDA": "cuda.h", "HIP": "hip/hip_runtime_api.h"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shipped") / "network"
    return qconv.onnx.export(shipped.residual(), made, ["cpu", "sm_90a"]).folder


def compiled(folder: Path, into: Path, *vendors: str) -> subprocess.CompletedProcess[str]:
    """Compile a source file that is the library, and the program that runs networks."""
    defined = "".join(f"#define QCONV_NETWORK_{vendor}\n" for vendor in vendors)
    own = '#define QCONV_NETWORK_IMPLEMENTATION\n#include "include/qconv_network_embedded.h"\n'
    library = into.with_suffix(".cpp")
    library.write_text(defined + own)
    includes = [folder, folder / "include", folder / "src", *(including(HEADERS[vendor]) for vendor in vendors)]
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", *(f"-I{path}" for path in includes)]
    command = ["g++", *flags, library, folder / "program/qconv_run.cpp", "-ldl", "-pthread", "-o", into]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("vendors", [(), ("CUDA",), ("HIP",)])
def test_it_is_the_whole_library(folder: Path, tmp_path: Path, vendors: tuple[str, ...]) -> None:
    made = compiled(folder, tmp_path / "own", *vendors)
    assert made.returncode == 0, made.stderr
    command = [tmp_path / "own", folder, "--device", "cpu", "--self-test"]
    assert "right  program 0, gemm16" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    command[3:] = ["tpu"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert f"this library was built for {', '.join([*map(str.lower, vendors), 'cpu'])}, and" in said


def test_it_runs_on_a_gpu(folder: Path, tmp_path: Path) -> None:
    assert compiled(folder, tmp_path / "own", "CUDA").returncode == 0
    log = tmp_path / "log"
    driver = stub_driver(tmp_path / "driver")
    known = {"LD_LIBRARY_PATH": str(driver), "QCONV_STUB_LOG": str(log), "QCONV_STUB_MAJOR": "9"}
    command = [tmp_path / "own", folder, "--device", "cuda:0", "--seconds", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | known)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sm_90a on ")
    assert sum(line.startswith("launch ") for line in log.read_text().splitlines()) > 3


def test_two_vendors_are_refused(folder: Path, tmp_path: Path) -> None:
    assert "the header is of one vendor at a time: leave" in compiled(folder, tmp_path / "own", "CUDA", "HIP").stderr
