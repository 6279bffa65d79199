"""The cost model of `direct`: clocks of one multiprocessor."""

from __future__ import annotations

from qconv.generator.cost_units import at_once, launched, of_activation, of_parameters, of_residual
from qconv.generator.families.direct.config import converts_floats, multiplies_floats
from qconv.generator.families.direct.plan import DirectPlan

# Measured clocks over counted clocks, for 15 kernels of bytes on an H200: more overlaps than the model describes.
FITTED = 0.79

# Instructions of floats, as in binaries of sm_90a: per step and its products, per output, per group of 16 pixels.
STEP, OUTPUT, SIXTEEN = 2.5, 2.5, 15
# Conversions of 8-bit floats: for the pixels of a step, and per product, which has another one and a sum as well.
CONVERTED_STEP, CONVERTED_PRODUCT = 8, 7
# Instructions per 32 copies of input, and per 32 stores of outputs.
COPIES, STORES = 17, 28
# The remaining constants are fitted to 29 kernels of bytes, measured on an H200, whose instructions are counted in the
# same way (spread of 15 %); no kernel of floats is measured yet. The most instructions per clock, and the warps with
# one group of 16 pixels that issue one per clock; clocks per product, per tile until it is loaded, and until the first
# is.
MOST_RATE, WARPS_OF_ONE = 2.8, 15
PRODUCT, TILE, FIRST = 1.44, 100, 1200
# Bytes per clock: of shared memory, and of input that is on its way.
SMEM, INPUT = 128, 24
MATRICES = 512  # bytes per load of matrices


def cost(plan: DirectPlan) -> float:
    if multiplies_floats(plan.problem):
        return _of_floats(plan)
    config, problem, tiles, steps, atoms = plan.config, plan.problem, plan.tiles, plan.steps, plan.atoms
    sums = 1 + problem.quantization.w_zero_point
    # Warp instructions: the copies, then loads, products and epilogue per 16 pixels of a slab.
    of_output = 6 + of_activation(problem)
    of_sixteen = steps * (3 + 2.5 * atoms * sums) + atoms * 4 * of_output + 30
    work = plan.vectors / 32 * 14 + plan.sixteens * of_sixteen
    # one thread runs after the other
    if plan.target.vendor == "cpu":
        return tiles.count * work * 32 / 64
    per_sm = tiles.resident
    # The warps issue few instructions per clock, because each waits for its own results.
    at_a_time = min(2.5, per_sm * tiles.threads / 32 * (1 + config.batch) / 24)
    step = max(per_sm * work / at_a_time, per_sm * plan.in_bytes / INPUT)
    return launched(problem, plan.target, FITTED * (tiles.turns * (step + 250) + 3000 + 3 * steps * atoms))


def _of_floats(plan: DirectPlan) -> float:
    """Return the clocks of products of floats. Few products follow a load of matrices, so that shared memory is counted
    as well as instructions."""
    config, problem, tiles, products = plan.config, plan.problem, plan.tiles, plan.products
    converts = converts_floats(problem, plan.target)
    of_output = OUTPUT + of_activation(problem) + of_parameters(problem) + of_residual(problem)
    of_sixteen = STEP * plan.loads + products + 4 * plan.atoms * of_output + SIXTEEN
    of_sixteen += converts * (CONVERTED_STEP * plan.loads + CONVERTED_PRODUCT * products)
    work = plan.vectors / 32 * COPIES + plan.stores / 32 * STORES + plan.sixteens * of_sixteen
    if plan.target.vendor == "cpu":
        return tiles.count * work * 32 / 64
    per_sm = tiles.resident
    issued = work / min(MOST_RATE, per_sm * config.warps * (1 + config.batch) / WARPS_OF_ONE)
    moved = (plan.sixteens * plan.loads * MATRICES + plan.in_bytes + 2 * plan.out_bytes) / SMEM
    multiplied = plan.sixteens * products * PRODUCT * (1 + converts)
    step = max(at_once(issued, max(moved, multiplied), 2), plan.in_bytes / INPUT)
    return launched(problem, plan.target, tiles.turns * (per_sm * step + TILE) + FIRST + 3 * products)
