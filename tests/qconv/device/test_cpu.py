"""A CPU device created with a seed runs its kernels in that order, with its own rounding mode."""

from __future__ import annotations

import gc
import platform
import struct
from pathlib import Path

import pytest
from cpu_kernels import Runner

from qconv import Quantization, generator
from qconv.device import cpu_runtime
from qconv.device.cpu import CpuDevice, runtime_cache
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.problem.convolution import Conv2d
from qconv.targets.target import TARGETS


@pytest.mark.parametrize("seed", [0, 3])
def test_the_seed_reaches_the_runtime(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    honest = cpu_runtime.run_grid

    def run_grid(grid: cpu_runtime.LaunchedGrid) -> None:
        seen.append(grid.seed)
        honest(grid)

    monkeypatch.setattr(cpu_runtime, "run_grid", run_grid)
    device, problem = CpuDevice(TARGETS["cpu"], seed), Conv2d(1, 3, 3, 4, 4, 1, 1)
    drawn = registry.draw(problem, 1)
    load(generator.default(problem, device.target), device)(*drawn.arrays, **drawn.parameters)
    assert seen == [seed]


def loaded_kernels() -> set[str]:
    """Return the kernels whose code this process has."""
    names = (line.split(maxsplit=5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line)
    return {name for name in names if name.endswith("/kernel.so")}


def test_a_kernel_that_nobody_holds_is_unloaded() -> None:
    """Linux allows 65530 mappings a process."""
    device, problem = CpuDevice(TARGETS["cpu"]), Conv2d(1, 3, 3, 4, 4, 1, 1, quantization=Quantization(bias="float32"))
    gc.collect()
    before = loaded_kernels()
    kernel = load(generator.default(problem, device.target), device)
    assert len(loaded_kernels() - before) == 1
    del kernel
    gc.collect()
    assert loaded_kernels() <= before


FLOATS = """
#include <cstring>
extern "C" __attribute__((visibility("default"))) unsigned control(unsigned set) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(set);
    return before;
}
KERNEL(floats) {
    const int at = 2 * (qconv_cpu_block(0) * width + t);
    float value;
    memcpy(&value, input + t, sizeof value);
    output[at] = (int)__builtin_rintf(value);
    value *= 0.5f;
    memcpy(output + at + 1, &value, sizeof value);
}
"""
FLUSHES, ROUNDS_UP, EXCEPTIONS = 0x8040, 0x4000, 0x3F  # bits of MXCSR


@pytest.mark.skipif(platform.machine() != "x86_64", reason="MXCSR is x86's")
@pytest.mark.parametrize("workers", [1, 2])
def test_kernels_round_as_ever_whatever_their_caller_does(workers: int) -> None:
    """In a program that flushes denormals, or rounds upwards, the bits are the same, and the program's mode is kept."""
    run = Runner(runtime_cache(), FLOATS)
    halves, denormal = struct.unpack("2i", struct.pack("2f", 2.5, 1e-39))
    own = run.library.control(0x1F80 | FLUSHES | ROUNDS_UP)
    try:
        got = run("floats", [halves, denormal], 16, 2, grid=(4, 1, 1), threads=2, workers=workers)
    finally:
        left = run.library.control(own)
    (quotient,) = struct.unpack("i", struct.pack("f", 1.25))
    assert got == [2, quotient, 0, denormal // 2] * 4
    assert left & ~EXCEPTIONS == 0x1F80 | FLUSHES | ROUNDS_UP
