"""Promoted sums of 8-bit floats. The CPU device's matrix instructions cut sums as Hopper's do: that is what promotion
is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exactness import check_all
from random_matrix import matrix_plan

from qconv import Conv2d, Quantization, generator
from qconv.device.cpu import CpuDevice
from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.wgmma import Wgmma
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.problem.chain import chain_of
from qconv.targets.target import TARGETS

TARGET = TARGETS["cpu.sm_90a"]
E4M3 = Quantization("float8_e4m3fn", "float8_e4m3fn", "float32")
PROBLEM = Conv2d(1, 5, 4, 400, 24, 3, 3, pad=1, quantization=E4M3)
CONFIGS = {
    "one consumer": Wgmma(consumers=1, split_pixels=0, pixels=16, weight_slots=3, lag=0),
    "halves of the pixels": Wgmma(consumers=2, split_pixels=1, pixels=16, weight_slots=2, lag=1),
}
# An instruction cuts this part of a sum off; four of them share an accumulator.
CUT, INSTRUCTIONS = 2.0**-13, 4


def plan_of(name: str, promoted_sums: bool) -> Plan:
    problem = replace(PROBLEM, quantization=replace(E4M3, promoted_sums=promoted_sums))
    if name in CONFIGS:
        return generator.plan(problem, CONFIGS[name], TARGET)
    return matrix_plan(problem, TARGET, 1, tile_m=16, tile_n=32, split=1)


def error(plan: Plan) -> float:
    """Return the largest relative error of sums of positive numbers of the full range."""
    rng, kind = np.random.default_rng(7), ELEMENT_TYPES["float8_e4m3fn"].numpy
    x, w = (rng.random(shape, np.float32).astype(kind) for shape in (PROBLEM.x_shape, PROBLEM.w_shape))
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    real = np.einsum("nhwcrs,krsc->nhwk", windows, w.astype(np.float64))
    device = CpuDevice(plan.target)
    y = load(plan, device)(device.upload(x), device.upload(w))
    return float(np.abs(np.asarray(device.download(y)) / real - 1).max())


@pytest.mark.turns
@pytest.mark.parametrize("name", [*CONFIGS, "mma"])
def test_a_long_sum_is_as_exact_as_its_parts(name: str) -> None:
    assert error(plan_of(name, promoted_sums=True)) <= INSTRUCTIONS * CUT
    assert error(plan_of(name, promoted_sums=False)) > INSTRUCTIONS * CUT


@pytest.mark.turns
@pytest.mark.parametrize("c", [16, 128, 144])
def test_a_short_last_slab(c: int) -> None:
    quantization = replace(E4M3, promoted_sums=True, out_type="float16", bias="float32", activation="relu")
    problem = Conv2d(2, 5, 6, c, 40, 3, 3, pad=1, quantization=quantization)
    check_all([generator.plan(problem, config, TARGET) for config in CONFIGS.values()], c)


def test_halo_and_chains_refuse_it() -> None:
    layer = replace(PROBLEM, quantization=replace(E4M3, promoted_sums=True))
    with pytest.raises(Infeasible, match="promoted_sums: all sums stay in the accumulator"):
        generator.plan(layer, Halo(rows=4, consumers=2, channels=64), TARGET)
    behind = Conv2d(1, 5, 4, 24, 8, 1, 1, quantization=E4M3)
    first = replace(layer, quantization=replace(layer.quantization, out_type="float8_e4m3fn"))
    with pytest.raises(ValueError, match="no fused kernel adds sums of 8-bit floats up in fp32; run them unfused"):
        chain_of([first, behind])


@pytest.mark.parametrize("name", ["int8", "float16", "float32"])
def test_other_types_keep_all_bits(name: str) -> None:
    out_type = "int32" if name == "int8" else "float32"
    with pytest.raises(ValueError, match=r"promoted_sums=True with x_type=.* only sums of 8-bit floats"):
        Quantization(name, name, out_type, promoted_sums=True)


def test_registers_limit_a_tile() -> None:
    problem = Conv2d(1, 40, 40, 128, 128, 3, 3, pad=1, quantization=replace(E4M3, promoted_sums=True))
    with pytest.raises(Infeasible, match="registers for promoted sums"):
        generator.plan(problem, Wgmma(consumers=1, split_pixels=0, pixels=112, weight_slots=3, lag=0), TARGET)


def test_a_key_has_it() -> None:
    problem = replace(PROBLEM, quantization=replace(E4M3, promoted_sums=True))
    assert str(problem).endswith(":promoted_sums")
    assert registry.parse(str(problem)) == problem
