"""What one of two convolutions in one kernel costs, about."""

from __future__ import annotations

import math
from functools import lru_cache

from qconv.generator.convolution import input_span
from qconv.generator.measure import of_activation
from qconv.generator.plan import ceil_div
from qconv.generator.share import Share
from qconv.generator.stages import stage_plan
from qconv.problem import Conv2d
from qconv.target import Target

# Fitted with the rest of the model (see `fused.cost`). Clocks of an instruction of a warp that is alone, where many
# take one; the same where it waits for pixels of the image, and until the first of them come.
ALONE, ALONE_WAITING, FIRST = 4, 5, 1170
# Of a depthwise thread, instructions and what they wait for: of four channels of a pixel, which are loaded and
# transposed; of an output beside its products; of a place; and of a channel's filter.
OF_PIXEL, OF_OUTPUT, OF_PLACE, OF_FILTER, WAITS = 5.4, 4, 27, 6, 1.03


@lru_cache(maxsize=4096)
def work(problem: Conv2d, share: Share, target: Target, holds: bool, threads: int) -> tuple[float, float]:
    """For one tile: clocks in which a multiprocessor issues its instructions, and those of its longest warp."""
    stage = stage_plan(problem, share, target)
    constant = {c.name: c.value for c in stage.constants["What follows."]}
    own = {c.name: c.value for c in stage.constants["The config."]}
    of_curve = of_activation(problem)
    sums, warps = 1 + problem.quantization.w_zero_point, threads // target.warp_size
    if stage.roles["kind"] == "depthwise":
        places = ceil_div(constant["GRID_ROWS"], own["ROWS"]) * ceil_div(constant["GRID_COLUMNS"], own["COLUMNS"])
        outputs, quads = own["ROWS"] * own["COLUMNS"] * own["VECTOR"], own["VECTOR"] // 4
        vectors = constant.get("BLOCK_K", problem.k) // own["VECTOR"]
        across = min(vectors, threads)
        sets, turns = ceil_div(vectors, across), ceil_div(places, threads // across)
        pixels = math.prod(input_span(problem, own["ROWS"], own["COLUMNS"]))
        of_outputs = outputs * (problem.r * constant["WORDS"] * sums + OF_OUTPUT + of_curve)
        of_place = pixels * quads * OF_PIXEL + of_outputs + OF_PLACE
        longest = sets * (turns * of_place * WAITS + own["VECTOR"] * OF_FILTER + 60)
        return longest * warps / 4, ALONE_WAITING * longest + FIRST
    if stage.roles["kind"] == "warpgroup":
        run, slab_k = constant["RUN"], constant["SLAB_K"]
        items = ceil_div(constant["POSITIONS"], run) * constant["BLOCK_SLABS"]
        # Of a multiprocessor: products, or bytes of both factors on their way.
        of_products = constant["UNITS"] / 2 * 1.5 * max(slab_k / 2, 16 + slab_k / 4)
        of_warp = run / 4 * slab_k / 32 * (4.5 + of_curve) + 84
        return items * (of_products + of_warp), ALONE * ceil_div(items, warps // 4) * of_warp + of_products + 80
    run = own["BATCH"] * constant["ATOM_M"]
    items = ceil_div(constant["GRID_PIXELS"], run) * constant["BLOCK_SLABS"]
    # Of a partition: products, or fragments of them on their way.
    steps: float = constant["STEPS"] * constant["STEP_CHUNKS"] * 16 * run * constant["SLAB_K"] * sums / 570
    of_step = own["BATCH"] * (4 + own["ATOMS"]) + own["ATOMS"] * (8 if holds else 11) + 8
    # Shared memory brings a partition 32 bytes a clock, of pixels that lie on different banks.
    of_pixels = run * _times(
        constant["GRID_PIXELS"],
        constant["GRID_COLUMNS"],
        problem.stride[0] * constant.get("SOURCE_ROW", constant["SOURCE_COLUMNS"]),
        1 if "SOURCE_ROW" in constant else problem.stride[1],
    )
    of_fragments = constant["STEP_CHUNKS"] * 16 * (of_pixels + constant["SLAB_K"] * sums) / 32
    steps = max(steps, constant["STEPS"] * max(of_step, of_fragments))
    epilogue: float = run * min(problem.k, constant["SLAB_K"]) / 32 * (6.7 + of_curve) + 125
    one = steps + epilogue
    return items * one / 4, ALONE * ceil_div(items, warps) * one + 215


@lru_cache(maxsize=1024)
def _times(pixels: int, width: int, row: int, apart: int) -> float:
    """How often shared memory is asked for eight neighbouring pixels of a tile, which may share banks."""
    banks = [(pixel // width * row + pixel % width * apart) % 8 for pixel in range(pixels // 8 * 8)]
    eights = [banks[i : i + 8] for i in range(0, len(banks), 8)]
    return sum(max(map(eight.count, eight)) for eight in eights) / len(eights) if eights else 1.0
