"""The families that serve certain layers only, under the sanitizers of the CPU device: only planted bugs are found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mostly_slow import mostly_slow
from random_special import special_plan, special_problems

from qconv import Conv2d, Quantization, generator
from qconv.generator import Config, Plan
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.direct import Direct
from qconv.generator.families.gemv import Gemv
from qconv.generator.families.pointwise import Pointwise
from qconv.generator.families.stem import Stem
from qconv.op import LARGEST
from qconv.targets.target import TARGETS
from tests.templates.test_mma_sanitizers import (
    EARLY,
    LATE,
    OVERFLOW,
    RACE,
    READ,
    WRITE,
    WRONG,
    Planted,
    check,
    check_planted,
)
from tests.templates.test_special_random import TARGET

EVERYTHING = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")
ADDED = Quantization(per_channel=True, residual="int8")
# Tiles that the problem does not fill.
HALVES = Quantization("float16", "float16", "float16", per_channel=True, residual="float32")
TALL = Depthwise(rows=2, columns=2, vector=4, run=2, threads=64)
TILE = Direct(tile_h=4, tile_w=8, slabs=2, warps=2, batch=2, blocks_per_sm=2)
SMALL = Direct(tile_h=4, tile_w=8, slabs=1, warps=2, batch=1, blocks_per_sm=2)
FIRST = Stem(tile_h=4, tile_w=8, atoms=2, slabs=2, warps=2, batch=2, blocks_per_sm=2)
ROW = Gemv(pixels=2, channels=2, lanes=8, threads=64)
# Units that the problem does not fill.
UNITS = Pointwise(batch=1, batches=2, atoms=2, pipeline_stages=2, warps=4, blocks_per_sm=1, weights_in_smem=1)


def plan_of(problem: Conv2d, config: Config) -> Plan:
    return generator.plan(problem, config, TARGET[config.family])


# The next tap would be as far away as an int can count, four channels before the end of a step.
ONE_TAP = Conv2d(1, 1, 1, 4, 8, 1, 1, pad=1, dilation=(LARGEST // 12, LARGEST // 4))


def mma_default(problem: Conv2d) -> Config:
    plans, _ = generator.space(problem, TARGETS["cpu.sm_80"], likely=True)
    return next(plan.config for plan in plans if plan.config.family == "mma")


PLANS = {
    "depthwise": plan_of(Conv2d(2, 9, 9, 24, 24, 3, 3, pad=1, groups=24, quantization=EVERYTHING), TALL),
    "depthwise, bytes": plan_of(Conv2d(1, 9, 9, 5, 10, 3, 3, pad=1, groups=5, quantization=ADDED), TALL),
    "depthwise, pairs": plan_of(Conv2d(1, 9, 9, 10, 10, 3, 3, groups=10, quantization=ADDED), TALL),
    "depthwise, no padding": plan_of(Conv2d(1, 9, 9, 8, 8, 3, 3, groups=8), TALL),
    # Tiles extend past the last row or column, and there past the array.
    "depthwise, a narrow image": plan_of(
        Conv2d(1, 1, 4, 4, 4, 1, 2, groups=4), Depthwise(rows=1, columns=2, vector=4, run=1, threads=64)
    ),
    "depthwise, a low image": plan_of(
        Conv2d(1, 4, 1, 4, 4, 2, 1, groups=4), Depthwise(rows=2, columns=1, vector=4, run=1, threads=64)
    ),
    "depthwise, halves": plan_of(Conv2d(1, 9, 9, 10, 10, 3, 3, groups=10, quantization=HALVES), replace(TALL, run=1)),
    "depthwise of floats, a narrow image": plan_of(
        Conv2d(1, 1, 4, 4, 4, 1, 2, groups=4, quantization=HALVES), Depthwise(1, 2, vector=4, run=1, threads=64)
    ),
    "depthwise of floats, a low image": plan_of(
        Conv2d(1, 4, 1, 4, 4, 2, 1, groups=4, quantization=HALVES), Depthwise(2, 1, vector=4, run=1, threads=64)
    ),
    "direct, a narrow image": plan_of(Conv2d(1, 4, 5, 8, 8, 1, 2, groups=2), SMALL),
    "direct, a low image": plan_of(Conv2d(1, 3, 9, 8, 8, 1, 2, groups=2), SMALL),
    "direct, no padding": plan_of(Conv2d(1, 9, 9, 32, 32, 3, 3, groups=8), TILE),
    "direct": plan_of(Conv2d(1, 9, 9, 48, 48, 3, 3, pad=1, groups=12, quantization=EVERYTHING), TILE),
    "stem": plan_of(Conv2d(3, 14, 16, 3, 40, 5, 5, stride=2, pad=2, quantization=EVERYTHING), FIRST),
    "stem, bytes": plan_of(Conv2d(3, 15, 15, 2, 21, 3, 3, pad=1, quantization=ADDED), FIRST),
    "stem, halves": plan_of(Conv2d(3, 14, 16, 3, 40, 5, 5, stride=2, pad=2, quantization=HALVES), FIRST),
    "stem, one half": plan_of(Conv2d(3, 14, 16, 1, 21, 3, 3, pad=1, quantization=HALVES), FIRST),
    "stem, odd halves": plan_of(Conv2d(3, 15, 15, 1, 21, 3, 3, pad=1, quantization=HALVES), FIRST),
    # The largest allowed step, which is never taken.
    "depthwise, one output": plan_of(
        Conv2d(1, 3, 3, 8, 8, 3, 3, stride=(LARGEST // 24, LARGEST // 8), groups=8),
        Depthwise(rows=1, columns=1, vector=4, run=1, threads=64),
    ),
    "gemv": plan_of(Conv2d(3, 1, 1, 96, 21, 1, 1, quantization=EVERYTHING), ROW),
    "gemv, bytes": plan_of(Conv2d(3, 3, 3, 7, 21, 3, 3, quantization=ADDED), ROW),
    "pointwise": plan_of(Conv2d(1, 41, 97, 24, 20, 1, 1, quantization=EVERYTHING), UNITS),
    "pointwise, bytes": plan_of(
        Conv2d(1, 5, 9, 27, 21, 1, 1, quantization=ADDED), replace(UNITS, batches=1, weights_in_smem=0)
    ),
    "mma, one tap": generator.plan(ONE_TAP, mma_default(ONE_TAP), TARGETS["cpu.sm_80"]),
    "direct, half a slab": plan_of(Conv2d(1, 9, 9, 24, 24, 3, 3, pad=1, groups=24, quantization=ADDED), TILE),
    # Three slabs for two at a time.
    "direct, halves": plan_of(Conv2d(1, 9, 9, 24, 24, 3, 3, pad=1, groups=6, quantization=HALVES), TILE),
    "direct, floats by four bytes": plan_of(Conv2d(1, 9, 9, 10, 10, 3, 3, groups=5, quantization=HALVES), TILE),
    # A row of pixels is loaded once for both groups of 16 that a warp multiplies.
    "direct, rows for two groups": plan_of(
        Conv2d(1, 9, 20, 24, 24, 3, 3, pad=1, groups=6, quantization=HALVES), replace(TILE, tile_w=16)
    ),
    "direct, an even number of rows": plan_of(
        Conv2d(1, 9, 20, 32, 32, 2, 2, dilation=2, stride=2, groups=4, quantization=HALVES), replace(TILE, tile_w=16)
    ),
    # Two warps divide a group's output channels.
    "direct, a group in parts": plan_of(Conv2d(1, 9, 9, 64, 64, 3, 3, pad=1, groups=2, quantization=HALVES), TILE),
}


# The sanitizers' compilers take long for unrolled code: the others are among the slow tests.
FAST_PLANS = {
    "depthwise, bytes",
    "depthwise, pairs",
    "depthwise, halves",
    "stem",
    "stem, halves",
    "stem, one half",
    "stem, odd halves",
}
FAST_PLANS |= {"direct, floats by four bytes", "direct, a group in parts", "direct, rows for two groups"}
FAST_PLANS |= {name for name in PLANS if name.endswith(("narrow image", "low image"))}
FAST_PLANTED = {
    *("no barrier before the outputs leave", "a row past the image is read"),
    *("a channel past the last is read", "no barrier before the lanes' sums are added up"),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANS, FAST_PLANS))
def test_nothing_is_found_by_address(name: str) -> None:
    check(PLANS[name], "address", LATE)


@pytest.mark.turns
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_nothing_is_found_by_thread(name: str) -> None:
    check(PLANS[name], "thread", EARLY)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("family", TARGET)
def test_nothing_is_found_in_random_problems(family: str) -> None:
    for index, problem in enumerate(special_problems(family, 6, 12)):
        plan = special_plan(family, problem, TARGET[family], index)
        check(plan, ("address", "thread")[index // 2 % 2], seed=index)


PLANTED = {
    "no barrier behind the input": Planted(
        "direct",
        "tile::barrier();  // this tile is loaded, and the outputs of the previous one are written\n",
        "\n",
        "thread",
        RACE,
        "load_matrices",
        (3,),
    ),
    "no wait for the input": Planted(
        "direct",
        "        copies.wait<0>();\n",
        "",
        "address",
        "runtime error",
        "more asynchronous copies than COPIES_IN_FLIGHT are not waited for",
        (2,),
    ),
    "no barrier before the outputs leave": Planted(
        "direct", "        tile::barrier();\n        store_tile", "        store_tile", "thread", RACE, "store_tile"
    ),
    "the next tile in the place of this one": Planted(
        "direct", "load_tile(args, shared.x[turn ^ 1]", "load_tile(args, shared.x[turn]", "address", WRONG
    ),
    "no barrier between tiles": Planted(
        "stem",
        "tile::barrier();  // the next tile is stored, and all threads have read this one\n",
        "\n",
        "thread",
        RACE,
        "put_vector",
    ),
    "the next tile over this one": Planted("stem", "put(shared.x[turn ^ 1]", "put(shared.x[turn]", "thread", RACE),
    "a column of pixels past the image is read": Planted(
        "stem", "&& static_cast<unsigned>(column + j / C * 4) < IN_W", "", "address", OVERFLOW, READ
    ),
    "a byte past the image is read": Planted(
        "stem, bytes", "&& static_cast<unsigned>(column) < IN_W", "", "address", OVERFLOW, READ
    ),
    "a pixel of a tile past the last is written": Planted(
        "stem", "|| first_row + i * ROWS_ON >= OUT_H", "", "address", OVERFLOW, WRITE
    ),
    "a channel of a lane past the last is written": Planted(
        "stem, bytes", "            if (k + n >= K) continue;\n", "", "address", OVERFLOW, WRITE
    ),
    "no barrier before the lanes' sums are added up": Planted(
        "gemv", "    tile::barrier();\n    if (!finishes)", "    if (!finishes)", "thread", RACE, "conv2d_gemv"
    ),
    "a filter past the last row": Planted("gemv", "(k < K ? k : K - 1)", "(k)", "address", OVERFLOW, READ),
    "a pixel past the last is multiplied": Planted(
        "gemv", "first_pixel + p < PIXELS ? first_pixel + p : PIXELS - 1", "first_pixel + p", "address", OVERFLOW, READ
    ),
    "a byte past a window is read": Planted(
        "gemv, bytes",
        "at < REDUCTION ? static_cast<unsigned char>(tile::load(row + at)) : 0u",
        "static_cast<unsigned char>(tile::load(row + at))",
        "address",
        OVERFLOW,
        READ,
    ),
    "a channel past the last is read": Planted(
        "direct, half a slab", "is_inside && c < C);", "is_inside);", "address", OVERFLOW, READ
    ),
    "a float past the last channel is read": Planted(
        "direct, halves", "is_inside && c < C);", "is_inside);", "address", OVERFLOW, READ
    ),
    "every part has an input of its own": Planted(
        "direct, a group in parts", "tile.slab / PARTS * SLAB_C", "tile.slab * SLAB_C", "address", WRONG
    ),
    "a channel past the last is written": Planted(
        "direct, half a slab",
        "column >= OUT_W || k >= K) continue;",
        "column >= OUT_W) continue;",
        "address",
        OVERFLOW,
        WRITE,
    ),
    "a pixel past the last is written": Planted(
        "direct",
        "if (row >= OUT_H || column >= OUT_W || k >= K) continue;",
        "if (k >= K) continue;",
        "address",
        OVERFLOW,
        WRITE,
    ),
    "a row past the last is written": Planted(
        "depthwise", "if (OUT_H % ROWS != 0 && patch.row + row >= OUT_H) return;", "", "address", OVERFLOW, WRITE
    ),
    "a row past the image is read": Planted(
        "depthwise, no padding",
        "(!PADDED && OUT_H % ROWS == 0) || row < IN_H",
        "true",
        "address",
        OVERFLOW,
        READ,
    ),
    "a column past the image is read": Planted(
        "depthwise", "static_cast<unsigned>(first + i) < IN_W;", "true;", "address", OVERFLOW, READ
    ),
    "a filter past the last is read": Planted(
        "depthwise, bytes", "patch.k + i < K ? patch.k + i : K - 1", "patch.k + i", "address", OVERFLOW, READ
    ),
    "an output past the last is written": Planted(
        "depthwise, pairs", "        if (patch.k + i >= K) continue;\n", "", "address", OVERFLOW, WRITE
    ),
    "a unit over one that is read": Planted(
        "pointwise",
        "tile::warp_barrier();  // this unit is in registers\n",
        "\n",
        "thread",
        RACE,
        seeds=(3,),
    ),
    "outputs leave before all are there": Planted(
        "pointwise",
        "        tile::warp_barrier();  // all outputs of the unit are in shared memory\n",
        "",
        "thread",
        RACE,
    ),
    "a unit that other lanes still wait for": Planted(
        "pointwise",
        "tile::warp_barrier();  // this unit is loaded, and the outputs of the previous one are written\n",
        "\n",
        "thread",
        RACE,
        seeds=(2,),
    ),
    "no barrier behind the weights": Planted(
        "pointwise", "tile::barrier();  // the block's weights are loaded\n", "\n", "thread", RACE
    ),
    "bytes behind the input are read": Planted(
        "pointwise, bytes",
        "if (last < bytes) to[last] = static_cast",
        "if (last < bytes + 16) to[last] = static_cast",
        "address",
        OVERFLOW,
        READ,
    ),
    "bytes behind the output are written": Planted(
        "pointwise, bytes", "if (last < bytes) to[last] = y", "to[last] = y", "address", OVERFLOW, WRITE
    ),
    "bytes behind the residual are read": Planted(
        "pointwise, bytes",
        "if (i + 16 <= bytes) copies",
        "if (i < bytes) copies",
        "address",
        OVERFLOW,
        READ,
    ),
    "a tap of the wrong pixel": Planted(
        "depthwise",
        "tile::pick<4 - BY, 5 - BY, 6 - BY, 7 - BY>(before, word)",
        "tile::pick<4, 5, 6, 7>(before, word)",
        "address",
        WRONG,
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", mostly_slow(PLANTED, FAST_PLANTED))
def test_a_planted_bug_is_found(name: str) -> None:
    check_planted(PLANTED[name], PLANS[PLANTED[name].plan])
