"""The table of targets, which is not repeated here, and how a device finds its target."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from qconv.device import Device
from qconv.device.compile import CLANG_FLAGS, compiler_for, find_clang
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.targets.generation import CDNA_2, CPU, FEATURES, Generation
from qconv.targets.instruction_tables import ON_THE_CPU
from qconv.targets.target import (
    TARGETS,
    Target,
    abilities,
    emulation_of,
    target,
    target_of_compute_capability,
    target_of_gcn_arch,
)


def test_the_table_lists_each_target_under_its_name() -> None:
    assert all(entry.name == name for name, entry in TARGETS.items())


def test_the_cpu_emulates_what_gpus_have() -> None:
    """Features of a GPU without an emulation would be untested where there is no such GPU."""
    emulations = [entry.generation for entry in TARGETS.values() if entry.vendor == "cpu"]
    emulated = {each.name for e in emulations for each in e.instructions}
    for entry in TARGETS.values():
        has = entry.generation
        assert {each.name for each in has.instructions} <= emulated
        assert any(
            e.features >= has.features
            and abilities(e) >= abilities(has) - has.features
            and {*e.warpgroup_of_floats} >= {*has.warpgroup_of_floats}
            and e.warp_size == has.warp_size
            for e in emulations
        ), entry.name


@pytest.mark.parametrize("name", [name for name in TARGETS if name.startswith("cpu.")])
def test_an_emulation_has_the_limits_of_its_architecture(name: str) -> None:
    entry, emulated = target(name), target(name.removeprefix("cpu."))
    assert (entry.vendor, entry.dots) == ("cpu", ON_THE_CPU)
    generation = replace(entry.generation, **{part: getattr(emulated, part) for part in ("vendor", "dots")})
    assert replace(generation, name=emulated.generation.name) == emulated.generation
    others = ("name", "generation", "processors")
    assert replace(entry, **{part: getattr(emulated, part) for part in others}) == emulated


@pytest.mark.parametrize("entry", [t for t in TARGETS.values() if t.async_copies], ids=lambda entry: entry.name)
def test_an_sm_keeps_a_kibibyte_per_block_for_itself(entry: Target) -> None:
    assert entry.smem_bytes_per_sm - entry.smem_bytes == 1024


@pytest.mark.parametrize("entry", TARGETS.values(), ids=TARGETS)
def test_a_target_answers_for_its_generation(entry: Target) -> None:
    for part in fields(Generation):
        if part.name not in ("name", "features"):
            assert getattr(entry, part.name) == getattr(entry.generation, part.name)
    assert {feature for feature in FEATURES if getattr(entry, feature)} == entry.generation.features


@pytest.mark.gpu
def test_limits_are_those_of_the_device(gpu: Device) -> None:
    import cupy

    says, entry = cupy.cuda.runtime.getDeviceProperties(0), gpu.target
    assert entry.warp_size == says["warpSize"]
    assert entry.smem_bytes_per_sm == says["sharedMemPerMultiprocessor"]
    assert entry.registers_per_sm == says["regsPerMultiprocessor"]
    assert entry.threads_per_sm == says["maxThreadsPerMultiProcessor"]
    assert (entry.threads_per_block, entry.grid_y_max) == (says["maxThreadsPerBlock"], says["maxGridSize"][1])
    if entry.vendor == "nvidia":
        assert entry.smem_bytes == says["sharedMemPerBlockOptin"]


NVIDIA = [entry for entry in TARGETS.values() if entry.vendor == "nvidia"]


def capability_of(entry: Target) -> tuple[int, int]:
    digits = entry.name.removeprefix("sm_").removesuffix("a")
    return int(digits[:-1]), int(digits[-1])


@pytest.mark.parametrize("entry", NVIDIA, ids=lambda entry: entry.name)
def test_a_device_gets_the_target_made_for_it(entry: Target) -> None:
    assert target_of_compute_capability(*capability_of(entry)) is entry


@pytest.mark.parametrize("minor", range(11))
@pytest.mark.parametrize("major", sorted({capability_of(entry)[0] for entry in NVIDIA}))
def test_code_runs_on_later_revisions_unless_it_is_for_one_alone(major: int, minor: int) -> None:
    minors = [capability_of(entry)[1] for entry in NVIDIA if entry.name in (f"sm_{major}{m}" for m in range(10))]
    runs = [f"sm_{major}{before}" for before in minors if before <= minor]
    if f"sm_{major}{minor}a" in TARGETS:
        runs.append(f"sm_{major}{minor}a")
    if runs:
        assert target_of_compute_capability(major, minor) is TARGETS[runs[-1]]
    else:
        assert_refused(major, minor)


def assert_refused(major: int, minor: int) -> None:
    says = rf"compute capability {major}\.{minor} is unknown.*sm_75, .*sm_{major}{minor} to "
    with pytest.raises(ValueError, match=says):
        target_of_compute_capability(major, minor)


# sm_75 is newer than 7.0.
@pytest.mark.parametrize("capability", [(7, 0), (6, 1), (99, 0)])
def test_a_device_that_no_target_serves_is_refused(capability: tuple[int, int]) -> None:
    assert_refused(*capability)


@pytest.mark.parametrize(
    ("arch", "name"),
    [("gfx90a:sramecc+:xnack-", "gfx90a"), ("gfx942", "gfx942"), ("gfx1100", "gfx1100")],
)
def test_an_amd_device_is_known_by_its_arch_without_features(arch: str, name: str) -> None:
    assert target_of_gcn_arch(arch) is TARGETS[name]


AMD = ", ".join(entry.name for entry in TARGETS.values() if entry.vendor == "amd")


@pytest.mark.parametrize("arch", ["gfx1fff", "gfx900:xnack-", "cpu", "cpu.gfx942", "sm_80", ""])
def test_an_unknown_amd_arch_is_refused(arch: str) -> None:
    with pytest.raises(ValueError, match=rf"is unknown: no code of {AMD} runs there"):
        target_of_gcn_arch(arch)


@pytest.mark.parametrize(
    ("name", "called"),
    [
        *(("SM_90A", "sm_90a"), ("H100", "sm_90a"), (" h200 ", "sm_90a"), ("NVIDIA GeForce RTX 4090", "sm_89")),
        *(("orin", "sm_87"), ("thor", "sm_110a"), ("strix-halo", "gfx1151"), ("mi355x", "gfx950")),
        *(("cpu.h100", "cpu.sm_90a"), ("CPU.MI300X", "cpu.gfx942"), ("CPU", "cpu")),
    ],
)
def test_a_target_is_known_by_a_gpu_and_in_any_case(name: str, called: str) -> None:
    assert target(name) is TARGETS[called]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        *((name, "; did you mean 'sm_90a'?") for name in ("sm_90", "sm90a", "SM-90", "compute_90")),
        ("sm_120a", "; did you mean 'sm_120'?"),
        ("sm_101a", "; did you mean 'sm_110a'?"),  # CUDA 12's name
        ("gfx94", "; did you mean 'gfx942'?"),
        ("h10", "; did you mean 'h100'?"),
        ("orion", "; did you mean 'orin'?"),
        ("strix", "; did you mean 'strix-point' or 'strix-halo'?"),
        ("cpu.h10", "; did you mean 'cpu.h100'?"),
        # Binaries of a neighbour do not run there.
        ("gfx1031", "; no kernel here is compiled for gfx1031"),
        ("RX 6700 XT", "; no kernel here is compiled for gfx1031, which 'RX 6700 XT' is"),
        ("v100", "; no kernel here is compiled for sm_70, which 'v100' is"),
        *((name, "") for name in ("sm_81", "gfx1034", "quantum", "xavierr", "cpu.quantum", "h300", "", "cpu.")),
        ("cpu.orin", "; the CPU device emulates it as 'cpu.sm_80'"),
        ("cpu.sm_90", "; the CPU device emulates it as 'cpu.sm_90a'"),
        ("cpu.rx6800", "; the CPU device emulates it as 'cpu'"),
    ],
)
def test_an_unknown_name_lists_the_known_ones_and_a_hint_that_is_right(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f", cpu, nor a GPU such as {SOME_GPUS}{hint}") + "$") as refused:
        target(name)
    assert str(refused.value).startswith(f"target {name!r} is not one of sm_75, ")


def test_what_is_no_text_names_no_target() -> None:
    with pytest.raises(ValueError, match="target 90 is not one of sm_75"):
        target(90)  # type: ignore[arg-type]


SOME_GPUS = "h100, orin, rtx4090, mi300x or strix-halo"


def test_gpus_that_a_message_names_are_known() -> None:
    assert all(target(name) for name in re.split(", | or ", SOME_GPUS))


@pytest.mark.parametrize(
    ("name", "emulated"),
    [
        ("sm_87", "cpu.sm_80"),
        ("sm_110a", "cpu.sm_100a"),
        ("sm_121", "cpu.sm_90a"),  # TMA, and no tensor memory
        ("gfx90a", "cpu.gfx908"),
        ("gfx1151", "cpu.gfx1100"),
        ("gfx1030", "cpu"),
    ],
)
def test_the_cpu_device_emulates_a_target_as_the_most_alike(name: str, emulated: str) -> None:
    assert emulation_of(TARGETS[name]) is TARGETS[emulated]


def test_an_emulation_has_all_that_the_target_has() -> None:
    for entry in TARGETS.values():
        assert abilities(entry.generation) <= abilities(emulation_of(entry).generation), entry.name


def compiled(source: str, suffix: str, command: list[str]) -> str:
    """Return what a compiler says, or skip where there is none."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]} here")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, f"limit{suffix}").write_text(source)
        done = subprocess.run([*command, f"limit{suffix}"], cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("entry", NVIDIA, ids=lambda entry: entry.name)
def test_ptxas_knows_as_many_threads_per_sm(entry: Target) -> None:
    """It ignores launch bounds of more, and says so."""
    try:
        compiler = compiler_for(entry)
    except CompileError as error:
        pytest.skip(str(error))
    blocks = entry.threads_per_sm // 512
    text = 'extern "C" __global__ void __launch_bounds__(512, {}) touch(int* x) {{ x[threadIdx.x] = 1; }}'
    logs = [compiler.run(Source(text.format(count), "", ".cu"))[1] for count in (blocks, blocks + 1)]
    assert ["threads per SM" in log for log in logs] == [False, True]


AMDS = [entry for entry in TARGETS.values() if entry.vendor == "amd"]


@pytest.mark.parametrize("entry", AMDS, ids=lambda entry: entry.name)
def test_clang_knows_as_much_shared_memory_and_as_many_registers(entry: Target) -> None:
    """It counts the waves per SIMD that a kernel of 86 VGPRs leaves room for, and refuses more LDS than there is."""
    try:
        clang = find_clang(entry.name)
    except CompileError as error:
        pytest.skip(str(error))
    command = [clang.path, *CLANG_FLAGS, f"--offload-arch={entry.name}", "-o", os.devnull]
    touch = "__attribute__((global)) void touch(int* x) {{ {} }}"
    asked = 'asm volatile("v_mov_b32 v85, 0" ::: "v85"); x[0] = 1;'
    said = compiled(touch.format(asked), ".hip", [*command, "-Rpass-analysis=kernel-resource-usage"])
    most = entry.threads_per_sm // entry.warp_size // entry.simds
    allocated = -(-86 // entry.register_granule) * entry.register_granule
    waves = entry.registers_per_sm // entry.simds // entry.warp_size // allocated
    assert re.findall(r"Occupancy \[waves/SIMD\]: (\d+)", said) == [str(min(most, waves))]
    for extra in (0, 1):
        words = (
            f"__attribute__((shared)) static int lds[{entry.smem_bytes // 4 + extra}]; lds[x[0]] = 1; x[1] = lds[x[2]];"
        )
        assert ("exceeds limit" in compiled(touch.format(words), ".hip", command)) == (extra == 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "hopper"}, "target name 'hopper': nvidia names match"),
        ({"generation": CPU, "name": "cpu.hopper"}, r"target name 'cpu.hopper': cpu names match"),
        ({"generation": CDNA_2}, "target name 'sm_90a': amd names match"),
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
    ],
)
def test_a_broken_target_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(target("sm_90a"), **change)


def test_importing_targets_imports_only_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import qconv.targets.target; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) - sys.stdlib_module_names == {"qconv"}


def test_resident_blocks_are_limited_by_registers_in_granules() -> None:
    """86 registers per lane become 88 on CDNA; 101 become 120 on gfx1100, whose SIMDs have 1536 each."""
    assert target("gfx942").blocks_per_sm(256, 1024, 86) == 512 // 88
    assert target("gfx1100").blocks_per_sm(64, 1024, 101) == 1536 // 120
    assert target("gfx1100").blocks_per_sm(256, 33 * 1024, 86) == 1
    assert target("gfx942").blocks_per_sm(1024, 1024, 129) == 0
    assert target("sm_90a").blocks_per_sm(384, 1024, 168) == 1
    assert target("sm_90a").blocks_per_sm(128, 0, 32) == 2048 // 128


def test_resident_blocks_are_limited_by_shared_memory_and_what_an_sm_reserves_per_block() -> None:
    assert target("sm_90a").blocks_per_sm(128, 113 * 1024, 32) == 2
    assert target("sm_90a").blocks_per_sm(128, 114 * 1024, 32) == 1
    assert target("sm_90a").blocks_per_sm(128, 227 * 1024, 32) == 1
    assert target("sm_75").blocks_per_sm(128, 32 * 1024, 32) == 2
