"""Copies by tensor maps on the CPU device, as late as they may be and as early: what NumPy says lies where it says."""

from __future__ import annotations

import pytest
from random_tiles import random_case
from tensor_kernels import Case, Kind, difference

from qconv.device import cpu_runtime
from qconv.device.cache import Binary, cache_root
from qconv.device.cpu import CpuDevice, CpuKernel
from qconv.errors import LaunchError
from qconv.target import target

TARGET = target("cpu.sm_90a")
CASES: list[tuple[Kind, int]] = [(kind, seed) for kind in ("load", "multicast", "store") for seed in range(8)]
SEEDS = (0, 1, 2, 3)


def kernel_of(case: Case, seed: int, text: str | None = None) -> CpuKernel:
    flags = [flag.replace("-O2", "-O0") for flag in cpu_runtime.KERNEL_FLAGS]
    source = case.text(TARGET) if text is None else text
    path = cpu_runtime.build({"kernel.cpp": source}, [*flags, "-shared"], ".so", cache_root() / "cpu")
    return CpuKernel(case.plan(TARGET), Binary(b"", path, "g++", 0.0, {}), seed)


def finding(case: Case, seed: int, text: str | None = None) -> str | None:
    """What a launch shows: the runtime's message, or where the first byte differs."""
    try:
        return difference(case, *case.on(CpuDevice(TARGET, seed), kernel_of(case, seed, text)))
    except LaunchError as error:
        return str(error)


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_tiles_lie_where_numpy_puts_them(kind: Kind, number: int) -> None:
    case = random_case(number, kind)
    for seed in SEEDS:
        assert finding(case, seed) is None, (seed, case.tensor_map, case.coordinates)
