"""In clang's code for AMD kernels, no instruction that needs every lane is executed where some lanes may be off."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache

import pytest
from golden_cases import CASES, plan_of
from machine_code import amd
from mostly_slow import mostly_slow
from random_conversions import conversions, turned_conversions
from random_fused import fused_plan, fused_problems
from random_matrix import matrix_plan, matrix_problems
from random_problems import problems
from random_special import special_plan, special_problems
from random_tensor_ops import tensor_op_problems

from qconv import Conv2d, generator
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Plan, Source
from qconv.generator.families.fused.config import Fused
from qconv.generator.families.mma.config import Mma
from qconv.op import Problem
from qconv.ops.registry import parse
from qconv.problem.chain import Chain
from qconv.targets.target import TARGETS, Target

MATRIX = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
# Random plans per target; gfx906 and gfx1030 have no matrix instructions, the others those of one above.
OTHERS = ("gfx906", "gfx908", "gfx1030", "gfx1150", "gfx1151", "gfx1200")
PLANS = {**dict.fromkeys(MATRIX, 120), **dict.fromkeys(OTHERS, 40)}
GOLDEN = [name for name, (_, target, _) in CASES.items() if name.endswith(".hip")]

# All products are of one step, so only the barrier separates them from the store's guard.
SUNK = (
    "conv2d:n=1:h=9:w=9:c=128:k=48:r=1:s=1:x_type=int8:w_type=int8:out_type=int8:per_channel:w_zero_point"
    ":bias=int32:activation=relu"
)
TILE = Mma(
    instruction=0,
    tile_m=32,
    tile_n=32,
    tile_k=128,
    warp_m=16,
    warp_n=32,
    pipeline_stages=2,
    prefetch_fragments=0,
    split=1,
    split_last_wave=0,
    persist=0,
    stream_k=0,
    tile_swizzle_width=1,
    staged=0,
)
# Its second layer has window sums, and each of the layers has a branch after its products.
CHAIN = (
    "conv2d:n=1:h=16:w=9:c=32:k=48:r=1:s=1:stride=2,2:x_type=uint8:w_type=uint8:out_type=uint8:per_channel:bias=int32"
    ":activation=relu+conv2d:n=1:h=8:w=5:c=48:k=128:r=1:s=1:x_type=uint8:w_type=int8:out_type=float16:w_zero_point"
    ":bias=int32:activation=tanh"
)
FUSED = Fused(
    tile_h=14,
    tile_w=7,
    warps=4,
    blocks_per_sm=2,
    teams=1,
    cluster_blocks=2,
    weights_in_smem=0,
    on_wgmma=0,
    first_m=1,
    first_n=1,
    second_m=1,
    second_n=1,
)


def skip_without_tools(target: Target) -> None:
    if reason := _missing(target):
        pytest.skip(reason)


@lru_cache(maxsize=16)
def _missing(target: Target) -> str | None:
    try:
        compiler_for(target)
    except CompileError as error:
        return str(error)
    return amd.missing()


Job = tuple[str, str, str, int]  # a family's name, or another way of drawing a plan; the target, the problem, the seed


def random_jobs(target: Target, seed: int, count: int) -> list[Job]:
    """Return plans of every family: three quarters use matrix instructions, if the target has any."""
    drawn: list[tuple[str, Problem]] = []
    if target.instructions:
        drawn += [("mma", problem) for problem in matrix_problems(seed, count // 2, target)]
        chains = (*fused_problems(seed, count // 6, target), *fused_problems(seed, count // 12, target, layers=3))
        drawn += [("fused", problem) for problem in chains]
    for family in ("depthwise", "gemv"):
        drawn += [(family, problem) for problem in special_problems(family, seed, count // 16)]
    for some in (problems, conversions, turned_conversions, tensor_op_problems):
        drawn += [("default", problem) for problem in some(seed, count // 16)]
    return [(kind, target.name, str(problem), seed) for kind, problem in drawn]


def plan_for(job: Job) -> Plan:
    kind, name, key, seed = job
    problem, target = parse(key), TARGETS[name]
    if kind == "default":
        return generator.default(problem, target)
    if isinstance(problem, Conv2d):
        drawn = matrix_plan(problem, target, seed) if kind == "mma" else special_plan(kind, problem, target, seed)
    else:
        assert isinstance(problem, Chain)
        drawn = fused_plan(problem, target, seed)
    return drawn


def refusals(plan: Plan, source: Source) -> tuple[amd.Reading, list[str]]:
    binary, _ = compiler_for(plan.target).run(source)
    return amd.read(binary, plan.target.warp_size), amd.refusals(source, plan.target, binary)


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(GOLDEN, set(GOLDEN) - {"depthwise-everything-gfx942.hip"}))
def test_golden_sources(name: str) -> None:
    plan = plan_of(name)
    skip_without_tools(plan.target)
    reading, refused = refusals(plan, generator.render(plan))
    assert not refused, "\n".join(refused)
    assert (reading.matrix > 0) == (plan.config.family in ("mma", "fused", "block"))
    assert reading.scratch == 0, f"{reading.scratch} instructions reach scratch memory; default plans keep registers"


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(MATRIX, {"gfx942"}))
def test_random_plans(name: str) -> None:
    """A few of the plans of test_many_random_plans."""
    skip_without_tools(TARGETS[name])
    for plan in map(plan_for, random_jobs(TARGETS[name], 1, 12)):
        _, refused = refusals(plan, generator.render(plan))
        assert not refused, "\n".join([f"{plan.problem} {plan.config}", *refused])


def _read(job: Job) -> tuple[str, amd.Reading, list[str]]:
    plan = plan_for(job)
    return f"{plan.problem} {plan.config}", *refusals(plan, generator.render(plan))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_many_random_plans(name: str) -> None:
    target = TARGETS[name]
    skip_without_tools(target)
    jobs = random_jobs(target, 0, PLANS[name])
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        answers = list(pool.map(_read, jobs, chunksize=4))
    counts: Counter[str] = Counter()
    for _, reading, refused in answers:
        counts.update(kernels=1, with_matrix=reading.matrix > 0, refused=bool(refused), scratch=reading.scratch > 0)
        counts.update(matrix=reading.matrix, barriers=reading.barriers, cross_lane=reading.cross_lane)
    print(f"\n{name}: {dict(counts)}")
    wrong = [f"{config}\n  {refused[0]}" for config, _, refused in answers if refused]
    assert not wrong, "\n".join(wrong[:5])
    assert counts["with_matrix"] >= len(jobs) / 2 or not target.instructions


def planted(source: Source, was: str, now: str) -> Source:
    assert was in source.text
    return replace(source, text=source.text.replace(was, now))


@pytest.mark.turns
@pytest.mark.parametrize(("name", "kept"), [("gfx1100", ""), ("gfx1201", "    keep_converged(acc.product);\n")])
def test_sums_that_are_free_to_sink_are_refused(name: str, kept: str) -> None:
    """Covers all sums, and the window sums alone: the store's guard is a branch of lanes, and only there is a sum
    used."""
    target = TARGETS[name]
    skip_without_tools(target)
    plan = generator.plan(parse(SUNK), TILE, target)
    source = generator.render(plan)
    assert refusals(plan, source)[1] == []
    _, refused = refusals(plan, planted(source, "    keep_converged(acc);\n", kept))
    assert refused
    assert all("v_wmma_i32_16x16x16_iu8" in each and "if (pixel >= PIXELS) return;" in each for each in refused)


@pytest.mark.turns
@pytest.mark.parametrize(("name", "kept"), [("gfx1100", ""), ("gfx1201", "    keep_converged(sums.set[0]);\n")])
def test_sums_of_chains_that_are_free_to_sink_are_refused(name: str, kept: str) -> None:
    """Covers all sums, and the window sums alone."""
    target = TARGETS[name]
    skip_without_tools(target)
    plan = generator.plan(parse(CHAIN), FUSED, target)
    _, refused = refusals(plan, planted(generator.render(plan), "    keep_converged(sums);\n", kept))
    assert refused
    assert all("v_wmma_i32_16x16x16_iu8" in each for each in refused)
