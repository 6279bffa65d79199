"""Random chains of convolutions of floats, in one kernel and in several, on the CPU device and on the first GPU. The
data's sums are exact in any order, so that the tolerance is 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exactness import assert_same, check, check_all, run
from random_floats import float_chains
from random_fused import TILE, fused_plan

from qconv import Conv2d, FusedConv2d, Quantization, generator
from qconv.device import Device
from qconv.device.cpu import CpuDevice
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.fused.config import Block
from qconv.generator.families.fused.layer import is_depthwise
from qconv.generator.families.fused.plan import FusedPlan
from qconv.generator.families.unfused import Unfused
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.problem.chain import Chain, chain_of
from qconv.targets.target import TARGETS, Target

FAST, LONG, CHUNK = 6, 120, 20
NAMES = ("cpu.sm_90a", "cpu.sm_80", "cpu.gfx942", "cpu.gfx1201")


def plans(target: Target, seed: int, count: int, layers: int = 2) -> list[Plan]:
    """Return a plan in one kernel for each chain that has one: an odd number of wide channels has none."""
    made: list[Plan] = []
    for index, problem in enumerate(float_chains(seed, count, target, layers)):
        try:
            made.append(fused_plan(problem, target, index))
        except (Infeasible, StopIteration):
            continue
    assert len(made) >= count // 4, f"{len(made)} of {count} chains have a plan in one kernel"
    return made


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMES)
def test_a_random_config(name: str) -> None:
    check_all(plans(TARGETS[name], 1, FAST), 0)


@pytest.mark.turns
def test_a_random_config_of_three() -> None:
    check_all(plans(TARGETS["cpu.sm_90a"], 1, FAST, layers=3), 0)


def quantization(types: str, *, last: bool) -> Quantization:
    """Return a layer of one type, or of one and the type that it gives: `int8>float16`."""
    x_type, _, out_type = types.partition(">")
    given = (out_type or x_type).replace("tfloat32", "float32")
    residual = "none" if not last else "int8" if x_type == "int8" else "float16"
    activation = "hardswish" if last else "relu6"
    bias = "int32" if x_type == "int8" else "float32"
    return Quantization(x_type, x_type, given, per_channel=True, bias=bias, activation=activation, residual=residual)


def plan_of(target: str, kinds: str, types: str, c: int = 32, k: int = 24, side: int = 9, **config: int) -> FusedPlan:
    """Return a plan of depthwise and 1x1 layers. `types` has a word for each, or one for all."""
    made: list[Conv2d] = []
    words = types.split() * (1 if " " in types else len(kinds.split()))
    for number, (kind, word) in enumerate(zip(kinds.split(), words, strict=True), 1):
        last = number == len(words)
        channels, h, w = (made[-1].k, made[-1].oh, made[-1].ow) if made else (c, side, side)
        r, groups, filters = (3, channels, channels) if kind == "dw" else (1, 1, k if last else 32)
        q = quantization(word, last=last)
        made.append(Conv2d(2, h, w, channels, filters, r, r, pad=r // 2, groups=groups, quantization=q))
    tile = TILE if len(made) == 2 else Block(**vars(TILE), third_m=1, third_n=2)
    plan = generator.plan(chain_of(made), replace(tile, **config), TARGETS[target])
    assert isinstance(plan, FusedPlan)
    return plan


SM_80, SM_90A = "cpu.sm_80", "cpu.sm_90a"
PLANS = {
    "dw, pw": plan_of(SM_80, "dw pw", "float16", first_m=2, first_n=1),
    "dw, pw, two ways": plan_of(SM_80, "dw pw", "bfloat16", side=16),
    "dw, pw, eight channels of a thread": plan_of(SM_80, "dw pw", "bfloat16", first_n=2),
    "dw, pw, 8 bits": plan_of(SM_90A, "dw pw", "float8_e4m3fn", first_n=2),
    "dw, pw, fp32": plan_of(SM_80, "dw pw", "float32 tfloat32", first_n=1),
    "dw, pw, teams": plan_of(SM_80, "dw pw", "float16", teams=2, weights_in_smem=1),
    "dw, pw, cluster": plan_of(SM_90A, "dw pw", "float16", c=48, cluster_blocks=2, weights_in_smem=1, second_n=1),
    "dw, pw, cluster of 8 bits": plan_of(
        SM_90A,
        "dw pw",
        "float16>float8_e4m3fn float8_e4m3fn",
        c=48,
        cluster_blocks=2,
        weights_in_smem=1,
        first_n=1,
        second_n=1,
    ),
    "dw, pw, bytes on warpgroups": plan_of(
        SM_90A, "dw pw", "float16>int8 int8", weights_in_smem=1, on_wgmma=1, first_n=1
    ),
    "dw, dw, bytes last": plan_of(SM_80, "dw dw", "float16>int8 int8", first_n=1, second_n=1),
    "dw, pw, bytes first": plan_of(SM_80, "dw pw", "int8>float16 float16"),
    "pw, dw": plan_of(SM_80, "pw dw", "float16", second_m=2, second_n=1),
    "pw, dw, fp32": plan_of(SM_80, "pw dw", "tfloat32 float32", second_n=1),
    "pw, dw, slices": plan_of(SM_80, "pw dw", "float16", c=16, cluster_blocks=2, first_n=1, second_n=1),
    "pw, dw, bytes last": plan_of(SM_80, "pw dw", "float16>int8 int8>float32"),
    "pw, pw, fp32": plan_of(SM_80, "pw pw", "tfloat32"),
    "dw, dw": plan_of("cpu.gfx942", "dw dw", "float32", first_n=1, second_n=1),
    "pw, dw, pw": plan_of(SM_80, "pw dw pw", "bfloat16", weights_in_smem=2),
    "dw, pw, dw": plan_of(SM_80, "dw pw dw", "float16"),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PLANS)
def test_it_is_exact(name: str) -> None:
    check_all([PLANS[name]], list(PLANS).index(name))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn"])
def test_depthwise_sums_have_one_order(dtype: str) -> None:
    """Numbers of the full range, whose sums depend on it: one kernel has the bits of two of the `depthwise` family."""
    fused = plan_of(SM_80, "dw dw", dtype, first_m=2, first_n=1, second_m=2, second_n=1)
    drawn = registry.draw(fused.problem, 7)
    of_full_range = replace(drawn, arrays=drawn.timed)
    config = Depthwise(rows=2, columns=2, vector=4, run=1, threads=64)
    unfused = generator.plan(fused.problem, Unfused(config, config), fused.target)
    one, two = (run(load(plan, CpuDevice(fused.target)), of_full_range) for plan in (fused, unfused))
    assert_same(one, two, str(fused.problem))
    assert not np.array_equal(drawn.arrays[0], drawn.timed[0])


def test_a_thread_loads_whole_vectors_of_the_image() -> None:
    assert PLANS["dw, pw"].alignment["x"] == 8
    assert PLANS["dw, pw, eight channels of a thread"].alignment["x"] == 16


def test_a_thread_has_all_registers_of_its_floats() -> None:
    """Bytes run with a third of their registers missing; ptxas spills the filters of floats for each row."""
    few = {"first_m": 4, "first_n": 1, "blocks_per_sm": 6, "side": 16}
    assert plan_of("sm_90a", "dw pw", "int8>int8", **few)
    with pytest.raises(Infeasible, match="registers"):
        plan_of("sm_90a", "dw pw", "float16", **few)
    assert plan_of("sm_90a", "dw pw", "float16", **few | {"first_m": 1})


@pytest.mark.turns
def test_several_kernels_are_the_same() -> None:
    target = TARGETS["cpu"]  # it has no matrix instruction
    chains = [chain for chain in float_chains(2, 2 * FAST, TARGETS["cpu.sm_90a"]) if has_matrix(chain)]
    chosen = [generator.default(problem, target) for problem in chains]
    assert {plan.config.family for plan in chosen} == {"unfused"}
    check_all(chosen, 0)


def has_matrix(chain: Chain) -> bool:
    return not all(is_depthwise(one) for one in chain.layers.values())


def test_chunks_that_floats_do_not_fill_are_refused() -> None:
    half = Quantization(*["float16"] * 3)
    first, second = (Conv2d(1, 8, 8, c, k, 1, 1, quantization=half) for c, k in ((16, 32), (32, 16)))
    target, chain = TARGETS["cpu.sm_90a"], FusedConv2d(first, second)
    config = next(generator.FAMILIES["fused"].configs(chain, target))
    assert generator.plan(chain, config, target)
    for channels in (12, 7):
        odd = FusedConv2d(replace(first, c=channels), second)
        with pytest.raises(Infeasible, match=rf"c={channels}: floats fill chunks of 8 channels"):
            generator.plan(odd, config, target)
    with pytest.raises(Infeasible, match="k=36: floats fill chunks of 8 channels"):
        plan_of(SM_80, "dw pw", "int8>float16 float16", c=36, first_n=1)
    first = Conv2d(1, 8, 8, 16, 8, 1, 1, quantization=quantization("int8>float8_e4m3fn", last=False))
    second = Conv2d(1, 8, 8, 8, 16, 1, 1, quantization=quantization("float8_e4m3fn", last=True))
    with pytest.raises(Infeasible, match="first_n=1: 8 channels fill no chunks of 16"):
        generator.plan(FusedConv2d(first, second), replace(TILE, first_n=1), target)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
@pytest.mark.parametrize("name", NAMES)
def test_many_random_configs(name: str, first: int) -> None:
    check_all(plans(TARGETS[name], 2, LONG)[first : first + CHUNK], first)


@pytest.mark.gpu
@pytest.mark.parametrize("first", range(0, LONG, CHUNK))
def test_many_random_configs_on_the_gpu(first: int, gpu: Device) -> None:
    if not gpu.target.instructions:
        pytest.skip(f"{gpu.target.name} has no matrix instructions")
    for index, plan in enumerate(plans(gpu.target, 2, LONG)[first : first + CHUNK], first):
        check(plan, gpu, seed=index)
