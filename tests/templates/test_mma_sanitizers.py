"""Kernels of the matrix instructions under the sanitizers: each combination of roles is clean and right, with late and
early copies; and planted bugs are found by a sanitizer, by the CPU device or by the oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, get_args

import pytest
from exactness import expected
from mostly_slow import mostly_slow
from random_matrix import EMULATIONS, matrix_plan, matrix_problems

from qconv import Conv2d, Quantization, generator
from qconv.device.cpu_runtime import Sanitizer
from qconv.generator import Plan
from qconv.generator.families.mma import plan as mma
from qconv.generator.families.mma.config import Mma
from qconv.generator.families.mma.plan import MmaPlan
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure.sanitized import run
from tests.templates.test_simt_sanitizers import ADDED, EVERYTHING, HALF, check

SIGNED = Quantization("int8", "int8", "uint8", True, True, True, True, "int32", "relu6")
WIDE = Conv2d(1, 7, 7, 64, 48, 3, 3, pad=1)
TALL = Conv2d(1, 10, 10, 64, 48, 3, 3, pad=1)
PRODUCT = Conv2d(2, 5, 5, 72, 40, 1, 1)
BYTES = Conv2d(1, 9, 9, 11, 35, 3, 3, pad=1)
PLANES = Conv2d(2, 6, 5, 24, 54, 2, 3, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=3, layout="nchw")
GROUPED = Conv2d(1, 9, 9, 24, 64, 3, 3, pad=1, groups=2)
SHARED = Conv2d(1, 12, 12, 128, 32, 1, 1)
WHOLE_STEPS = Conv2d(1, 4, 4, 128, 32, 2, 2)  # offsets are the same in all lanes

# Tiles that the problem does not fill, and more steps than stages.
BASE = Mma(
    instruction=0,
    tile_m=32,
    tile_n=32,
    tile_k=64,
    warp_m=32,
    warp_n=16,
    pipeline_stages=3,
    prefetch_fragments=0,
    split=1,
    split_last_wave=0,
    persist=0,
    stream_k=0,
    tile_swizzle_width=1,
    staged=0,
)


def plan_of(target: str, problem: Conv2d, quantization: Quantization, **config: int) -> MmaPlan:
    return mma.plan(replace(problem, quantization=quantization), replace(BASE, **config), TARGETS[target])


SM_80, SM_75 = "cpu.sm_80", "cpu.sm_75"
PLANS = {
    "tile": plan_of(SM_80, WIDE, Quantization()),
    "tile, prefetch, staged": plan_of(SM_80, WIDE, EVERYTHING, prefetch_fragments=1, staged=1),
    "parts of a tile": plan_of(SM_80, WIDE, ADDED, split=4, prefetch_fragments=1, pipeline_stages=2),
    "parts of a tile, staged": plan_of(SM_80, WIDE, Quantization(), split=2, staged=1),
    "parts in a cluster": plan_of("cpu.sm_90a", WIDE, ADDED, split=4, prefetch_fragments=1, pipeline_stages=2),
    # Four blocks have entire tiles, and two share one.
    "the last wave, split": plan_of(SM_80, SHARED, ADDED, split=2, split_last_wave=1, pipeline_stages=2),
    "persist": plan_of(SM_80, TALL, Quantization(per_channel=True), persist=1),
    "persist, prefetch, staged": plan_of(SM_80, TALL, ADDED, persist=1, prefetch_fragments=1, staged=1),
    "stream": plan_of(SM_80, GROUPED, Quantization(), persist=1, stream_k=1, tile_k=32),
    "stream, bytes": plan_of(SM_80, BYTES, EVERYTHING, persist=1, stream_k=1, tile_k=32, pipeline_stages=2),
    "tile, planes": plan_of(SM_80, PLANES, HALF, tile_k=32, prefetch_fragments=1),
    "matrix product": plan_of(SM_80, PRODUCT, EVERYTHING, tile_k=32, pipeline_stages=2, prefetch_fragments=1),
    "fewer steps than stages": plan_of(SM_80, PRODUCT, EVERYTHING, tile_k=32, pipeline_stages=4),
    "registers": plan_of(SM_75, WIDE, EVERYTHING, pipeline_stages=2),
    "registers, stream, planes": plan_of(SM_75, PLANES, HALF, tile_k=32, pipeline_stages=2, persist=1, stream_k=1),
    "registers, persist, staged": plan_of(SM_75, TALL, ADDED, pipeline_stages=2, persist=1, staged=1),
    "mfma 32x32": plan_of(
        "cpu.gfx942", TALL, SIGNED, pipeline_stages=2, prefetch_fragments=1, tile_n=64, warp_n=32, staged=1, split=2
    ),
    "mfma 16x16": plan_of("cpu.gfx908", GROUPED, SIGNED, pipeline_stages=2, instruction=1, persist=1, stream_k=1),
    "mfma, whole steps of a window": plan_of("cpu.gfx942", WHOLE_STEPS, SIGNED, pipeline_stages=2, instruction=1),
    "wmma, copies of operands": plan_of("cpu.gfx1100", WIDE, EVERYTHING, pipeline_stages=2, split=4),
    "wmma": plan_of("cpu.gfx1201", TALL, EVERYTHING, pipeline_stages=2, persist=1, staged=1),
}


LATE, EARLY = 2, 3  # seeds that determine when asynchronous copies are performed


RUNS: dict[str, tuple[Plan, Sanitizer, int]] = {
    f"{name}-{sanitizer}-{seed}": (plan, sanitizer, seed)
    for name, plan in PLANS.items()
    for sanitizer in get_args(Sanitizer)
    for seed in (LATE, EARLY)
}
# Under the slow thread sanitizer: one kernel per loader, asynchronous or through registers, and one for warps of 64
# lanes.
FAST_RUNS = {f"{name}-address-{LATE}" for name in PLANS} | {
    f"{name}-thread-{EARLY}" for name in ("parts of a tile", "persist", "registers", "mfma 16x16")
}


@pytest.mark.turns
@pytest.mark.parametrize("run_of", mostly_slow(RUNS, FAST_RUNS))
def test_nothing_is_found(run_of: str) -> None:
    check(*RUNS[run_of])


def test_the_plans_have_every_role() -> None:
    for role, values in {
        "loader": {"async", "registers", "buffers"},
        "combine": {"none", "scratch", "cluster"},
        "schedule": {"tile", "persist"},
        "stream_k": {False, True},
        "store": {"direct", "staged"},
        "prefetch_fragments": {False, True},
        "gemm": {False, True},
        "gathers_x": {False, True},
        "gathers_w": {False, True},
        "channel_parameters_are_late": {False, True},
        "atom": {"mma_m8n8k16", "mma_m16n8k32", "mfma", "wmma_gfx11", "wmma_gfx12"},
    }.items():
        assert {getattr(plan.roles, role) for plan in PLANS.values()} == values
    assert all(plan.shape.steps > 1 for plan in PLANS.values())


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", EMULATIONS)
def test_nothing_is_found_in_random_problems(name: str) -> None:
    target = TARGETS[name]
    for index, problem in enumerate(matrix_problems(6, 12, target)):
        check(matrix_plan(problem, target, index), ("address", "thread")[index // 2 % 2], seed=index)


class Planted(NamedTuple):
    plan: str
    old: str
    new: str
    sanitizer: Sanitizer
    kind: str  # "wrong": the oracle finds it
    says: str = ""  # part of the report
    seeds: tuple[int, ...] = (2, 3)  # even seeds have late copies


WRONG = "wrong"
READ, WRITE = "READ of size", "WRITE of size"
RACE, OVERFLOW = "data race", "heap-buffer-overflow"

PLANTED: dict[str, Planted] = {
    "no barrier behind the wait": Planted(
        "tile", "        tile::barrier();\n        loader.begin", "        loader.begin", "thread", RACE, "accumulate"
    ),
    "no barrier behind the wait, prefetched fragments": Planted(
        "tile, prefetch, staged",
        "                tile::barrier();\n                load(pipeline, next",
        "                load(pipeline, next",
        "thread",
        RACE,
        "accumulate",
    ),
    "no barrier between registers and fragments": Planted(
        "registers",
        "        tile::barrier();\n        loader.begin",
        "        loader.begin",
        "thread",
        RACE,
        "accumulate",
    ),
    "a stage is filled while it is multiplied": Planted(
        "tile",
        "        loader.wait();\n        tile::barrier();\n        loader.begin<1>(pipeline, 0);",
        "        loader.begin<1>(pipeline, 0);\n        loader.wait();\n        tile::barrier();",
        "thread",
        RACE,
        "accumulate",
        (3,),
    ),
    "no wait": Planted(
        "tile",
        "copies.wait<PIPELINE_STAGES - 2>();",
        "",
        "address",
        "runtime error",
        "more asynchronous copies than COPIES_IN_FLIGHT are not waited for",
        (2,),
    ),
    "a wait for a step too few": Planted(
        "tile",
        "copies.wait<PIPELINE_STAGES - 2>();",
        "copies.wait<PIPELINE_STAGES - 1>();",
        "address",
        WRONG,
        seeds=(2,),
    ),
    "no commit": Planted(
        "tile",
        "        if (is_last) copies.commit();\n",
        "",
        "address",
        "runtime error",
        "are not waited for",
        (2,),
    ),
    "no commit of the first steps": Planted(
        "tile",
        "            if (i < left) copy_x<1>(pipeline.x[i], 0);\n            copies.commit();",
        "            if (i < left) copy_x<1>(pipeline.x[i], 0);",
        "address",
        "runtime error",
        "are not waited for",
        (2,),
    ),
    "no wait for what is known of the channels": Planted(
        "fewer steps than stages",
        "    loader.wait_for_channel_parameters();\n",
        "",
        "address",
        "undefined behaviour",
        seeds=(2,),
    ),
    "no barrier behind what is known of the channels": Planted(
        "fewer steps than stages",
        "    loader.wait_for_channel_parameters();\n    tile::barrier();",
        "    loader.wait_for_channel_parameters();",
        "thread",
        RACE,
        "channel_at",
        (2,),
    ),
    "chunks are put where nobody looks for them": Planted(
        "tile",
        "swizzled_offset(first / 8 * 8, first % 8, byte() / 16)",
        "swizzled_offset(first, 0, byte() / 16)",
        "address",
        WRONG,
    ),
    "chunks are looked for where nobody put them": Planted(
        "mfma 32x32", "lane_row / 8 * 8, lane_row % 8, chunk)", "lane_row, 0, chunk)", "address", WRONG
    ),
    "the lanes of an instruction hold different copies": Planted(
        "wmma, copies of operands",
        "const int lane_row = tile::lane() % ATOM_ROWS;",
        "const int lane_row = (tile::lane() + tile::lane() / 16) % ATOM_ROWS;",
        "address",
        "runtime error",
        "two lanes that hold copies of an operand differ",
    ),
    "the scratch keeps its sums": Planted(
        "parts of a tile",
        "products[i] = tile::take(sums + i * THREADS);",
        "products[i] = tile::load(sums + i * THREADS);",
        "address",
        "dirty scratch",
        "leaves sums other than zero",
    ),
    "the scratch keeps its count": Planted(
        "stream",
        "    if (tile::thread() == 0) tile::take(args.arrived + index);\n",
        "",
        "address",
        "dirty scratch",
        "leaves arrived other than zero",
    ),
    "sums are added without atomics": Planted(
        "parts of a tile",
        "tile::accumulate(sums + i * THREADS, products[i]);",
        "sums[i * THREADS] += products[i];",
        "thread",
        RACE,
        "add_up",
    ),
    "no barrier before the staged store": Planted(
        "tile, prefetch, staged",
        "    tile::barrier();  // all threads have multiplied the last step\n",
        "",
        "thread",
        RACE,
        "write_tile",
    ),
    "no barrier before staged rows are written": Planted(
        "tile, prefetch, staged",
        "    tile::barrier();\n    constexpr int CHANNELS_AT_ONCE",
        "    constexpr int CHANNELS_AT_ONCE",
        "thread",
        RACE,
        "write_tile",
    ),
    "no barrier before the next tile is fetched": Planted(
        "registers, persist, staged",
        "        tile::barrier();  // all threads have multiplied the last step\n",
        "",
        "thread",
        RACE,
    ),
    "two tiles keep their channels in one place": Planted(
        "persist",
        "shared.channel_parameters[next.turn % 2]",
        "shared.channel_parameters[tile_part.turn % 2]",
        "address",
        WRONG,
    ),
    "two blocks write the same rows": Planted(
        "persist, prefetch, staged",
        "pixel_tile = m * TILE_M;",
        "pixel_tile = m * (TILE_M / 2);",
        "thread",
        RACE,
        "write_tile",
    ),
    "a tile row beyond the last pixel": Planted(
        "tile", "pixel < PIXELS ? pixel : PIXELS - 1", "pixel", "address", OVERFLOW, READ
    ),
    "a tile row beyond the last channel": Planted(
        "tile", "K_GROUP % TILE_N == 0 || k < tile_part.k_end ? k : tile_part.k_end - 1", "k", "address", OVERFLOW, READ
    ),
    "a row of the image too many": Planted(
        "tile", "static_cast<unsigned>(row < IN_H)", "static_cast<unsigned>(row <= IN_H)", "address", OVERFLOW, READ
    ),
    "an element of the reduction too many": Planted(
        "stream, bytes", "if (index + j >= REDUCTION)", "if (index + j > REDUCTION)", "address", OVERFLOW, READ
    ),
    "a pixel too many is written": Planted(
        "tile", "    if (pixel >= PIXELS) return;\n", "", "address", OVERFLOW, WRITE
    ),
    "a pixel too many is written, staged": Planted(
        "tile, prefetch, staged", "pixel >= PIXELS || ", "", "address", OVERFLOW, WRITE
    ),
    "a residual too many": Planted(
        "parts of a tile", "    if (pixel >= PIXELS) return residuals;\n", "", "address", OVERFLOW, READ
    ),
    "a copy that lies across two chunks": Planted(
        "tile",
        "return static_cast<unsigned>(tile::thread()) % PER_ROW * WIDTH;",
        "return static_cast<unsigned>(tile::thread()) % PER_ROW * WIDTH + 4;",
        "address",
        "runtime error",
        "that its size does not divide",
    ),
    "no barrier behind what was put down, prefetched fragments": Planted(
        "mfma 32x32",
        "                tile::barrier();\n                loader.begin",
        "                loader.begin",
        "thread",
        RACE,
        "accumulate",
    ),
    "padding is read from where it would be": Planted(
        "wmma",
        "inside && tap.exists() ? byte_of(at) : tile::NOWHERE",
        "tap.exists() ? byte_of(at) : tile::NOWHERE",
        "address",
        "runtime error",
        "a load outside of its buffer",
    ),
    "padding is a zero, not the zero point": Planted(
        "wmma", "(padding >> i & 1) != 0 ? filling : word", "word", "address", WRONG
    ),
    "a step past the last is read": Planted(
        "wmma",
        "fetch_w(left > 0 ? W_SIZE : 0);",
        "fetch_w(W_SIZE);",
        "address",
        "runtime error",
        "a load outside of its buffer",
    ),
    "a stage too many": Planted("registers", "stage = 1 - stage;", "++stage;", "address", "use-after-poison", "put("),
}


def finding(plan: Plan, text: str, sanitizer: Sanitizer, seed: int) -> tuple[str, str]:
    """Return the sanitizer's kind and report, or `wrong` if only the outputs differ."""
    drawn = registry.draw(plan.problem, 1)
    report, outs = run(plan, drawn, sanitizer, source=text, seed=seed)
    if report.clean and outs[0].tobytes() != expected(plan.problem, drawn).tobytes():
        return WRONG, ""
    return report.kind, report.text


def check_planted(bug: Planted, plan: Plan) -> None:
    text = generator.render(plan).text
    assert text.count(bug.old) == 1, "the text to replace has changed: plant the bug anew"
    for seed in bug.seeds:
        kind, report = finding(plan, text.replace(bug.old, bug.new), bug.sanitizer, seed)
        assert kind == bug.kind, report
        assert bug.says in report


# One of each kind: a barrier, a wait, a commit, the scratch, a staged store, an address.
FAST = {
    *("no barrier between registers and fragments", "no wait", "no commit", "the scratch keeps its sums"),
    *("sums are added without atomics", "no barrier before the staged store", "a tile row beyond the last pixel"),
    *("the lanes of an instruction hold different copies", "two blocks write the same rows", "a stage too many"),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANTED, FAST))
def test_a_planted_bug_is_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])


def test_a_wait_too_few_shows_only_where_copies_are_late() -> None:
    """This is why both extremes of a GPU's behaviour are tested."""
    bug = PLANTED["a wait for a step too few"]
    text = generator.render(PLANS[bug.plan]).text.replace(bug.old, bug.new)
    assert [finding(PLANS[bug.plan], text, "address", seed)[0] for seed in (2, 3)] == [WRONG, "clean"]
