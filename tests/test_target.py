"""The table of targets against the limits that vendors publish, and how a device finds its target."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from qconv.instruction_tables import MFMA_32X32X16, MMA_M8N8K16
from qconv.target import TARGETS, target, target_of_compute_capability, target_of_gcn_arch

# warp size, shared memory per block, registers per thread, registers per SM, threads per SM, dot4, SMs
PUBLISHED = {
    "sm_75": (32, 65536, 255, 65536, 1024, "dp4a", 40),
    "sm_80": (32, 166912, 255, 65536, 2048, "dp4a", 108),
    "sm_86": (32, 101376, 255, 65536, 1536, "dp4a", 84),
    "sm_89": (32, 101376, 255, 65536, 1536, "dp4a", 142),
    "sm_90a": (32, 232448, 255, 65536, 2048, "dp4a", 132),
    "sm_100a": (32, 232448, 255, 65536, 2048, "dp4a", 148),
    "sm_120": (32, 101376, 255, 65536, 1536, "dp4a", 170),
    "gfx906": (64, 65536, 256, 65536, 2560, "sdot4", 60),
    "gfx908": (64, 65536, 256, 65536, 2560, "sdot4", 120),
    "gfx90a": (64, 65536, 512, 131072, 2048, "sdot4", 104),
    "gfx942": (64, 65536, 512, 131072, 2048, "sdot4", 304),
    "gfx950": (64, 163840, 512, 131072, 2048, "sdot4", 256),
    "gfx1030": (32, 65536, 256, 65536, 1024, "sdot4", 80),
    "gfx1100": (32, 65536, 256, 98304, 1024, "sudot4", 96),
    "gfx1201": (32, 65536, 256, 98304, 1024, "sudot4", 64),
    "cpu.sm_75": (32, 65536, 255, 65536, 1024, "plain", 4),
    "cpu.sm_80": (32, 166912, 255, 65536, 2048, "plain", 4),
    "cpu.sm_90a": (32, 232448, 255, 65536, 2048, "plain", 4),
    "cpu.gfx908": (64, 65536, 256, 65536, 2560, "plain", 4),
    "cpu.gfx942": (64, 65536, 512, 131072, 2048, "plain", 4),
    "cpu.gfx950": (64, 163840, 512, 131072, 2048, "plain", 4),
    "cpu.gfx1100": (32, 65536, 256, 98304, 1024, "plain", 4),
    "cpu.gfx1201": (32, 65536, 256, 98304, 1024, "plain", 4),
    "cpu": (32, 232448, 512, 131072, 2560, "plain", 4),
}


def test_the_table_lists_every_target() -> None:
    assert set(TARGETS) == set(PUBLISHED)
    assert all(entry.name == name for name, entry in TARGETS.items())


@pytest.mark.parametrize("name", PUBLISHED)
def test_limits_are_the_published_ones(name: str) -> None:
    entry = target(name)
    assert (
        entry.warp_size,
        entry.smem_bytes,
        entry.registers_per_thread,
        entry.registers_per_sm,
        entry.threads_per_sm,
        entry.dot4,
        entry.processors,
    ) == PUBLISHED[name]
    assert (entry.threads_per_block, entry.grid_y_max) == (1024, 65535)


def test_what_runs_asynchronously() -> None:
    copies = {name for name, entry in TARGETS.items() if entry.async_copies}
    assert copies == {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120", "cpu.sm_80", "cpu.sm_90a"}
    assert {name for name, entry in TARGETS.items() if entry.overlaps_launches} == {
        *("sm_90a", "sm_100a", "sm_120", "cpu.sm_90a")
    }
    assert {name for name, entry in TARGETS.items() if entry.warpgroups} == {"sm_90a", "cpu.sm_90a"}


def test_the_cpu_emulates_every_instruction() -> None:
    """What a GPU has and no emulation does would go untested where there is no such GPU."""
    emulated = {i.name for entry in TARGETS.values() if entry.vendor == "cpu" for i in entry.instructions}
    assert {i.name for entry in TARGETS.values() for i in entry.instructions} == emulated


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.startswith("cpu.")])
def test_an_emulation_has_the_limits_of_its_architecture(name: str) -> None:
    entry, emulated = target(name), target(name.removeprefix("cpu."))
    assert entry.vendor == "cpu"
    others = ("name", "vendor", "dot4", "processors")
    assert replace(entry, **{field: getattr(emulated, field) for field in others}) == emulated


@pytest.mark.parametrize("name", ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"])
def test_an_sm_keeps_a_kibibyte_per_block_for_itself(name: str) -> None:
    assert target(name).smem_bytes_per_sm - target(name).smem_bytes == 1024


@pytest.mark.parametrize(
    ("name", "instructions"),
    [
        ("sm_75", ["mma_m8n8k16"]),
        ("sm_80", ["mma_m16n8k32"]),
        ("sm_90a", ["mma_m16n8k32"]),
        ("sm_120", ["mma_m16n8k32"]),
        ("gfx906", []),
        ("gfx908", ["mfma_i32_32x32x8i8", "mfma_i32_16x16x16i8"]),
        ("gfx90a", ["mfma_i32_32x32x8i8", "mfma_i32_16x16x16i8"]),
        ("gfx942", ["mfma_i32_32x32x16_i8", "mfma_i32_16x16x32_i8"]),
        (
            "gfx950",
            ["mfma_i32_32x32x32_i8", "mfma_i32_16x16x64_i8", "mfma_i32_32x32x16_i8", "mfma_i32_16x16x32_i8"],
        ),
        ("gfx1030", []),
        ("gfx1100", ["wmma_i32_16x16x16_iu8_gfx11"]),
        ("gfx1201", ["wmma_i32_16x16x16_iu8_gfx12"]),
        ("cpu", []),
    ],
)
def test_matrix_instructions(name: str, instructions: list[str]) -> None:
    assert [instruction.name for instruction in target(name).instructions] == instructions


@pytest.mark.parametrize(
    ("capability", "name"),
    [
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90a"),
        ((10, 0), "sm_100a"),
        ((12, 0), "sm_120"),
        ((12, 1), "sm_120"),
    ],
)
def test_a_device_gets_the_best_target_that_runs_on_it(capability: tuple[int, int], name: str) -> None:
    assert target_of_compute_capability(*capability) is TARGETS[name]


# 10.3 and 11.0: sm_100a runs on 10.0 only. 7.0: sm_75 is newer than it.
@pytest.mark.parametrize("capability", [(7, 0), (6, 1), (10, 3), (11, 0), (13, 0)])
def test_a_device_that_no_target_serves_is_refused(capability: tuple[int, int]) -> None:
    major, minor = capability
    with pytest.raises(
        ValueError, match=rf"compute capability {major}\.{minor} is unknown.*sm_75, .*sm_{major}{minor} to "
    ):
        target_of_compute_capability(major, minor)


@pytest.mark.parametrize(
    ("arch", "name"),
    [("gfx90a:sramecc+:xnack-", "gfx90a"), ("gfx942", "gfx942"), ("gfx1100", "gfx1100")],
)
def test_an_amd_device_is_known_by_its_arch_without_features(arch: str, name: str) -> None:
    assert target_of_gcn_arch(arch) is TARGETS[name]


@pytest.mark.parametrize("arch", ["gfx1101", "gfx900:xnack-", "cpu", "cpu.gfx942", "sm_80", ""])
def test_an_unknown_amd_arch_is_refused(arch: str) -> None:
    with pytest.raises(ValueError, match=r"is unknown: no code of gfx906, .*gfx1201 runs there"):
        target_of_gcn_arch(arch)


@pytest.mark.parametrize(("name", "near"), [("sm_90", "sm_90a"), ("sm90a", "sm_90a"), ("gfx94", "gfx942")])
def test_an_unknown_name_lists_the_known_ones_and_the_closest(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"target '{name}' is not one of sm_75, .*, cpu; did you mean '{near}'\?"):
        target(name)


def test_a_name_like_no_other_gets_no_hint() -> None:
    with pytest.raises(ValueError, match=r", cpu$"):
        target("quantum")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vendor": "intel"}, "vendor 'intel'"),
        ({"name": "hopper"}, "target name 'hopper': nvidia names match"),
        ({"vendor": "cpu", "name": "cpu.hopper"}, r"target name 'cpu.hopper': cpu names match"),
        ({"vendor": "amd", "name": "gfx90a", "dot4": "sdot4"}, "only CUDA has programmatic dependent launch"),
        (
            {"vendor": "amd", "name": "gfx90a", "dot4": "sdot4", "overlaps_launches": False},
            "async_copies=True: no kernel here has them on AMD",
        ),
        ({"warp_size": 16}, "warp_size=16"),
        ({"processors": 0}, "processors=0: limits are positive"),
        ({"smem_bytes": 0}, "smem_bytes=0: limits are positive"),
        (
            {"smem_bytes": 300000},
            "smem_bytes=300000: a block runs on one SM, which has smem_bytes_per_sm=233472",
        ),
        ({"threads_per_sm": 512}, "threads_per_block=1024: a block runs on one SM"),
        (
            {"threads_per_block": 1000},
            "threads_per_block=1000: a block is whole warps; give a multiple of 32",
        ),
        ({"dot4": "sdot4"}, "dot4='sdot4': nvidia has dp4a"),
        ({"instructions": (MMA_M8N8K16, MMA_M8N8K16)}, "each is listed once"),
        ({"instructions": (MFMA_32X32X16,)}, "mfma_i32_32x32x16_i8 has 64 lanes: a warp here has 32"),
    ],
)
def test_a_broken_target_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(target("sm_90a"), **change)


def test_importing_targets_imports_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import qconv.target; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) - sys.stdlib_module_names == {"qconv"}
