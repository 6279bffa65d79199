"""Shipped networks on GPUs, with drivers that log what they are asked for instead of a GPU."""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import INCLUDES, builds

import qconv.onnx
from qconv.device.compile import compiler_ahead
from qconv.device.traced import Launched
from qconv.errors import CompileError
from qconv.network.ship.plan import Plan
from qconv.targets.target import target

SUPPORT = Path(__file__).parents[3] / "support"


@dataclass(frozen=True)
class Vendor:
    target: str
    header: str
    flags: tuple[str, ...]  # of whatever includes the header
    driver: str
    settings: dict[str, str]

    @property
    def lacks(self) -> str | None:
        if not any((folder / self.header).exists() for folder in INCLUDES):
            return f"no {self.header}"
        try:
            compiler_ahead(target(self.target))
        except CompileError as missing:
            return str(missing)
        return None


VENDORS = {
    "cuda": Vendor("sm_90a", "cuda.h", (), "libcuda.so.1", {"QCONV_STUB_MAJOR": "9"}),
    "hip": Vendor(
        "gfx942",
        "hip/hip_runtime_api.h",
        ("-D__HIP_PLATFORM_AMD__",),
        "libamdhip64.so",
        {"QCONV_STUB_ARCH": "gfx942"},
    ),
}
pytestmark = [pytest.mark.slow, builds, pytest.mark.thirds]


@dataclass(frozen=True)
class Ran:
    plan: Plan
    printed: dict[str, int]
    log: list[list[str]]  # words of lines


@pytest.fixture(scope="module", params=VENDORS)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Return what network_checks.cpp asked a driver for."""
    name = request.param
    vendor = VENDORS[name]
    if vendor.lacks is not None:
        pytest.skip(vendor.lacks)
    return ran_in(tmp_path_factory.mktemp(name), name, shipped.residual(), batches=[2])


def ran_in(folder: Path, name: str, model: Any, **asked: Any) -> Ran:
    vendor = VENDORS[name]
    made = qconv.onnx.export(model, folder / "network", vendor.target, vectors=False, **asked)
    program = built(folder, name, vendor)
    paths = os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH"))))
    known = {"LD_LIBRARY_PATH": paths, "QCONV_STUB_LOG": str(folder / "log"), **vendor.settings}
    command = [str(program), str(made.folder), f"{name}:0", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **known})
    assert run.returncode == 0, run.stderr
    printed = {line.split()[0]: int(line.split()[1]) for line in run.stdout.splitlines() if " " in line}
    return Ran(made.plans[0], printed, [line.split() for line in (folder / "log").read_text().splitlines()])


def built(folder: Path, name: str, vendor: Vendor) -> Path:
    """Build the driver, and the program with an engine for it."""
    includes = [*(f"-I{path}" for path in INCLUDES if (path / vendor.header).exists()), *vendor.flags]
    shared = ["g++", "-std=c++17", "-shared", "-fPIC", *includes, f"-Wl,-soname,{vendor.driver}"]
    sources = [SUPPORT / f"stub_{name}.cpp", SUPPORT / f"stub_{name}_graphs.cpp"]
    subprocess.run([*shared, *sources, "-o", folder / vendor.driver], check=True)
    network = folder / "network"
    engine = folder / "engine.o"
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *includes, f"-Dqconv=qconv_{name}", "-c"]
    command += [f"-I{network}/include", f"-I{network}/src", f"-DQCONV_NETWORK_{name.upper()}"]
    subprocess.run([*command, network / f"src/qconv_engine_{name}.cpp", "-o", engine], check=True)
    defined = f"-DQCONV_NETWORK_{name.upper()}"
    return shipped.compiled(network, SUPPORT / "network_checks.cpp", folder / "checks", defined, str(engine))


def launches(log: list[list[str]]) -> list[list[str]]:
    return [words for words in log if words[0] == "launch" and len(words) > 2]


def test_the_launches_of_the_plan(ran: Ran) -> None:
    (program,) = ran.plan.programs
    setup = [one.step.launch.kernel for one in ran.plan.setup if isinstance(one.step, Launched)]
    steps = [step for step in program.steps if isinstance(step, Launched)]
    found = launches(ran.log)
    assert [words[1] for words in found[: len(setup)]] == setup
    # Two runs, two more that are measured, a graph and its update, and five of each of four threads.
    assert len(found) == len(setup) + (2 + 2 + 2 + 20) * len(steps)
    for at in range(4):
        first = len(setup) + at * len(steps)
        for step, words in zip(steps, found[first : first + len(steps)], strict=True):
            assert words[1] == step.launch.kernel
            assert tuple(map(int, words[2:6])) == (*step.launch.grid, step.launch.threads)
            overlaps = step.overlap and ran.plan.target.vendor == "nvidia"
            assert words[8] == ("overlaps" if overlaps else "alone")
    assert any(step.overlap for step in steps) == (ran.plan.target.vendor == "nvidia")


def test_arguments(ran: Ran) -> None:
    """Numbers are those of the plan. All that lies in one array of a run has one address that it begins at."""
    (program,) = ran.plan.programs
    steps = [step for step in program.steps if isinstance(step, Launched)]
    setup = sum(isinstance(one.step, Launched) for one in ran.plan.setup)
    begins: list[dict[object, int]] = []
    for at in range(2):
        begins.append({})
        first = setup + at * len(steps)
        for step, words in zip(steps, launches(ran.log)[first : first + len(steps)], strict=True):
            given = bytearray.fromhex(words[9])
            for offset, spot in step.pointers:
                place = program.at(spot)
                (address,) = struct.unpack_from("Q", given, offset)
                begin = begins[-1].setdefault((place.space, place.number), address - place.offset)
                assert address == begin + place.offset
                given[offset : offset + 8] = bytes(8)
            for offset, _, spot in step.maps:
                place = program.at(spot)
                (address,) = struct.unpack_from("Q", given, offset)
                assert (
                    address == begins[-1].setdefault((place.space, place.number), address - place.offset) + place.offset
                )
                given[offset : offset + 128] = bytes(128)
            assert bytes(given) == step.arguments
    one, other = begins
    assert {place for place in one if one[place] != other[place]} == {("input", 0), ("output", 0), ("arena", 0)}


def test_kernels_that_move_arrays_have_one_parameter(tmp_path: Path) -> None:
    if VENDORS["cuda"].lacks is not None:
        pytest.skip(VENDORS["cuda"].lacks)
    ran = ran_in(tmp_path, "cuda", shipped.moving())
    steps = [step for step in ran.plan.programs[0].steps if isinstance(step, Launched)]
    setup = sum(isinstance(one.step, Launched) for one in ran.plan.setup)
    found = launches(ran.log)[setup : setup + len(steps)]
    assert [words[1] for words in found] == [step.launch.kernel for step in steps]
    assert {"exchange_1"} <= {words[1] for words in found}
    for step, words in zip(steps, found, strict=True):
        given = bytearray.fromhex(words[9])
        for offset, _ in step.pointers:
            given[offset : offset + 8] = bytes(8)
        assert bytes(given) == step.arguments


def test_a_graph_is_kept(ran: Ran) -> None:
    words = [" ".join(line) for line in ran.log]
    begins = [at for at, line in enumerate(words) if line == "begin capture"]
    assert len(begins) == 2
    steps = sum(isinstance(step, Launched) for step in ran.plan.programs[0].steps)
    inside = [words[begin + 1 : words.index("end capture", begin)] for begin in begins]
    assert [sum(line.startswith("launch ") for line in lines) for lines in inside] == [steps, steps]
    rest = [line for line in words if line in ("instantiate", "update", "launch graph")]
    assert rest == ["instantiate", "launch graph", "update", "launch graph"]
    assert words.count("destroy graph") == 2
    assert words.count("destroy executable") == words.count("destroy stream") == 1


def test_a_run_waits_for_nothing(ran: Ran) -> None:
    (program,) = ran.plan.programs
    steps = sum(isinstance(step, Launched) for step in program.steps)
    setup = sum(isinstance(one.step, Launched) for one in ran.plan.setup)
    places = [at for at, words in enumerate(ran.log) if words[0] == "launch" and len(words) > 2]
    measured = ran.log[places[setup + 2 * steps] : places[setup + 4 * steps - 1] + 1]
    assert {words[0] for words in measured} == {"launch"}
