"""The kernels of docs/hopper match their page: ptxas spills nothing, does not serialize wgmma, and reallocates
registers; and the page's table has the figures of the JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from disassembly import disassembled
from machine_code import nvidia
from mostly_slow import mostly_slow

from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.targets.target import TARGETS

FOLDER = Path(__file__).parents[2] / "docs/hopper"
RESULTS = Path(__file__).parents[2] / "bench/results/nvidia-h200/hopper.json"
HALO_RESULTS = RESULTS.with_name("hopper_halo.json")
# Stand-ins for the types of the headers under NVRTC; a tensor map is 128 bytes that only TMA reads.
HEADERS = """
using int8_t = signed char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using size_t = unsigned long;
struct alignas(64) CUtensorMap { uint64_t opaque[16]; };
"""
MAPS = "const __grid_constant__ CUtensorMap, const __grid_constant__ CUtensorMap, const Conv, const Buffers"


def configs_of(program: str) -> tuple[str, ...]:
    return tuple(f"Config<{config}>" for config in re.findall(r"Config<(\d.*?)>>", program))


# Name -> the kernels of its program.
KERNELS = {
    "1_wgmma": ("128", "256"),
    "2_tma": ("128", "256"),
    "3_warps": ("128", "256"),
    **{
        name: tuple(
            f"Config<{config}>" for config in re.findall(r"Config<(\d.*?)>>", (FOLDER / f"{name}.cu").read_text())
        )
        for name in ("4_persistent", "5_halo")
    },
}
# The programs that serve the layers of the first table.
WIDE = ("1_wgmma", "2_tma", "3_warps", "4_persistent")
PRODUCTS = re.compile(r"\bIGMMA\.64x\d+x32\.S8\.S8\b")


def device_code(name: str) -> Source:
    """Return a program without its host part, with its headers and an instance of each of its kernels."""
    parts = [(FOLDER / file).read_text() for file in ("conv.cuh", "ptx.cuh", f"{name}.cu")]
    parts[-1] = re.split(r"\ntemplate <[^>]*>\nLaunch prepare\(", parts[-1])[0]
    code = re.sub(r"^#(include|pragma once).*$", "", "\n".join(parts), flags=re.MULTILINE)
    # The first kernel has the signature of the others, but reads no tensor map.
    arguments = MAPS.replace("__grid_constant__ ", "") if name == "1_wgmma" else MAPS
    instances = [f"template __global__ void conv_kernel<{kernel}>({arguments});" for kernel in KERNELS[name]]
    return Source(HEADERS + code + "\n" + "\n".join(instances) + "\n", "", ".cu")


def test_every_config_is_compiled() -> None:
    assert [len(KERNELS[name]) for name in ("4_persistent", "5_halo")] == [8, 4]


@pytest.mark.parametrize("name", mostly_slow(KERNELS, {"1_wgmma"}))
def test_kernels_compile_to_what_they_teach(name: str) -> None:
    try:
        compiler = compiler_for(TARGETS["sm_90a"])
    except CompileError as error:
        pytest.skip(str(error))
    cubin, log = compiler.run(device_code(name))
    assert nvidia.serialized(log) == []
    assert "setmaxnreg" not in log, "ptxas ignores it where it cannot tell the registers at entry"
    sass = disassembled(cubin)
    assert nvidia.local_memory(sass) == []
    assert len(PRODUCTS.findall(sass)) >= 4 * len(KERNELS[name])
    assert ("UTMALDG.4D.IM2COL" in sass) == (name not in ("1_wgmma", "5_halo"))
    assert ("UTMALDG.4D " in sass) == (name == "5_halo")
    assert ("USETMAXREG" in sass) == (name in ("3_warps", "4_persistent", "5_halo"))
    assert ("UTMALDG.2D.MULTICAST" in sass) == (name == "4_persistent")


def best_of(results: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Return the fastest row of each layer and program; no row has a wrong output."""
    rows = json.loads(results.read_text())["rows"]
    assert all(row["wrong"] == 0 for row in rows)
    fastest_last = sorted(rows, key=lambda row: -float(row["time_us"]))
    return {(row["layer"], row["kernel"].partition(" ")[0]): row for row in fastest_last}


def lines_of_tables() -> dict[str, list[str]]:
    found = re.findall(r"^\| `(\w+)` \|(.*)\|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    return {layer: [cell.strip() for cell in cells.split("|")] for layer, cells in found}


def test_the_table_has_the_figures_of_the_json() -> None:
    best, lines = best_of(RESULTS), lines_of_tables()
    layers = {layer for layer, _ in best if not layer.startswith("tiny")}
    assert layers <= lines.keys()
    for layer in layers:
        assert [float(cell) for cell in lines[layer][:4]] == [best[layer, kernel]["tops"] for kernel in WIDE], layer


def test_the_table_of_the_halo_has_the_figures_of_its_json() -> None:
    best, lines = best_of(HALO_RESULTS), lines_of_tables()
    layers = {layer for layer, _ in best if not layer.startswith("tiny")}
    assert len(layers) == 2
    for layer in layers:
        row = best[layer, "5_halo"]
        assert [float(cell) for cell in lines[layer][:2]] == [row["tops"], round(row["time_us"], 1)], layer
        assert lines[layer][-1] == row["kernel"].removeprefix("5_halo ").replace("x", " x ", 1), layer
