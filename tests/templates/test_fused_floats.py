"""Random chains of convolutions of floats, in one kernel and in several, on the CPU device and on the first GPU. The
data's sums are exact in any order, so that the tolerance is 0."""

from __future__ import annotations

from dataclasses import replace

import pytest
from exactness import check, check_all
from random_floats import float_chains
from random_fused import fused_plan

from qconv import Conv2d, FusedConv2d, Quantization, generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.fused.layer import is_depthwise
from qconv.problem.chain import Chain
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
