"""The `direct` family: groups of few channels, on matrix instructions. A tile of the input comes to shared memory once
and serves all taps; the filters of several groups are spread over one matrix, with zeros between the groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convolution import (
    aliases,
    argument_fields,
    fold_constants,
    fold_launches,
    input_span,
    pads_with_zero_point,
    problem_constants,
    spread_launch,
)
from qconv.generator.measure import launched, of_activation
from qconv.generator.plan import Config, Constant, Launch, at_most, ceil_div, check_choices
from qconv.generator.plan import Untyped as Plan
from qconv.generator.tiles import (
    BATCH_SAYS,
    RESIDENTS_SAYS,
    check_residents,
    fragments,
    instruction_of,
    matrix_roles,
    tiles_of,
)
from qconv.problem import Conv2d
from qconv.target import Target

# Of a lane, in registers while a warp works on its slab.
MOST_FILTER_WORDS = 128
# Output channels of a slab: more sums and filters than a lane holds.
MOST_SLAB_K = 64


@dataclass(frozen=True)
class Direct(Config):
    family: ClassVar[str] = "direct"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    slabs: int  # of channels, of a block
    warps: int
    batch: int  # sixteens of pixels that a warp has at a time
    residents: int  # blocks that a multiprocessor holds at a time


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 8, 14),
    "tile_w": (8, 16),
    "slabs": (1, 2, 4, 8),
    "warps": (1, 2, 4, 8),
    "batch": (1, 2),
    "residents": (2, 3, 4, 6, 8),
}
LIKELY: dict[str, tuple[int, ...]] = {"warps": (4, 8), "batch": (2,), "residents": (2, 3, 4, 6)}


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    if instruction_of(target) is None or not target.async_copies:
        return f"{target.name} has no mma.m16n8k32 with asynchronous copies"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if problem.c_group not in (1, 2, 4, 8, 16, 32):
        return f"groups of {problem.c_group} channels do not divide 16 and are not 32"
    if problem.c % 4:
        return f"c={problem.c} is no multiple of 4, the narrowest asynchronous copy"
    return None


def plan(problem: Conv2d, config: Direct, target: Target) -> Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    q, c_group, instruction = problem.quantization, problem.c_group, instruction_of(target)
    assert instruction is not None
    slab_c = max(16, c_group)
    slab_k = slab_c // c_group * problem.k_group
    if slab_k % 8:
        raise Infeasible(f"{slab_c} input channels have {slab_k} output channels, no multiple of 8")
    at_most(slab_k, MOST_SLAB_K, f"output channels of {slab_c} input channels")
    chunks, taps = slab_c // 16, problem.r * problem.s
    steps, atoms = ceil_div(taps * chunks, 2), slab_k // 8
    at_most(2 * steps * atoms, MOST_FILTER_WORDS, "registers of a lane for filters")
    slabs = ceil_div(problem.c, slab_c)
    tiles = tiles_of(problem, config, CHOICES, slab_k, slabs, target)
    in_rows, in_columns = input_span(problem, config.tile_h, config.tile_w)
    y_bytes = DATA_TYPES[q.out_type].bytes
    plane = (in_rows * in_columns + 6) // 8 * 8 + 1
    smem_bytes = 2 * config.slabs * slab_c * plane
    smem_bytes += config.tile_h * config.tile_w * (config.slabs * slab_k * y_bytes + 16)
    smem_bytes = ceil_div(smem_bytes, 16) * 16
    words_held = 2 * steps * atoms + config.batch * 4 * atoms * (1 + q.w_zero_point) + 40
    check_residents(config.residents, tiles.threads, smem_bytes, words_held, target)
    x_bytes = math.gcd(16, problem.c)
    vector_k = math.gcd(16 // y_bytes, math.gcd(problem.k, slab_k))

    words = slabs * steps * atoms * 64
    alignment = {"x": x_bytes, "w": 1, "y": vector_k * y_bytes}
    if q.residual != "none":
        alignment["residual"] = DATA_TYPES[q.residual].bytes
    constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": (
            Constant("TILE_H", config.tile_h, "output rows of a block"),
            Constant("TILE_W", config.tile_w, "output columns of a block"),
            Constant("SLABS", config.slabs, "of channels, of a block"),
            Constant("WARPS", config.warps),
            Constant("BATCH", config.batch, BATCH_SAYS),
            Constant("RESIDENTS", config.residents, RESIDENTS_SAYS),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", tiles.threads),
            Constant("TAPS", taps, "of a filter"),
            Constant("CHUNKS", chunks, "of 16 input channels in a slab"),
            *tiles.slab_constants,
            Constant("STEPS", steps, "along the reduction"),
            Constant("ATOMS", atoms, "instructions that a step takes"),
            *tiles.constants,
            Constant("X_BYTES", x_bytes, "one copy of x"),
            Constant("VECTOR_K", vector_k, "channels that are written at once"),
            *_copies_in_flight(target, in_rows * in_columns * config.slabs * slab_c // x_bytes, tiles.threads),
            Constant("SMEM_BYTES", smem_bytes),
            *fold_constants(problem),
        ),
    }
    main = Launch("conv2d_direct", (tiles.places, 1, 1), tiles.threads, smem_bytes)
    fills = pads_with_zero_point(problem)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/direct.j2",
        constants=constants,
        launches=(*fold_launches(problem), spread_launch(words), main),
        fields=argument_fields(problem, (fragments(words),)),
        alignment=alignment,
        aliases=aliases(problem),
        roles={"fills": fills, **matrix_roles(problem, instruction, target)},
        wants=("warp", "copies", "matrices", *(("fill",) if fills else ())),
    )


def _copies_in_flight(target: Target, pieces: int, threads: int) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    if target.vendor != "cpu":
        return ()
    return (Constant("COPIES_IN_FLIGHT", ceil_div(pieces, threads), "of a thread"),)


# Of the clocks counted here an H200 took so much, of 15 kernels: more overlaps than is told apart.
FITTED = 0.79


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Direct)
    assert isinstance(problem, Conv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    in_rows, in_columns = input_span(problem, config.tile_h, config.tile_w)
    slab_c, atoms, steps = 16 * constant["CHUNKS"], constant["ATOMS"], constant["STEPS"]
    in_bytes = in_rows * in_columns * config.slabs * slab_c
    pieces = in_bytes // constant["X_BYTES"]
    sixteens = ceil_div(config.tile_h * config.tile_w, 16) * config.slabs
    sums = 1 + problem.quantization.w_zero_point
    # Instructions of warps: copies, then for 16 pixels of a slab loads, products and the epilogue.
    of_output = 6 + of_activation(problem)
    of_sixteen = steps * (3 + 2.5 * atoms * sums) + atoms * 4 * of_output + 30
    work = pieces / 32 * 14 + sixteens * of_sixteen
    turns, threads = ceil_div(constant["TILES"], plan.main.grid[0]), plan.main.threads
    if target.vendor == "cpu":  # one thread after the other
        return constant["TILES"] * work * 32 / 64
    held = min(config.residents, ceil_div(plan.main.grid[0], target.processors))
    # So few instructions a clock as the warps allow: each waits for its own.
    step = max(held * work / min(2.5, held * threads / 32 * (1 + config.batch) / 24), held * in_bytes / 24)
    return launched(problem, target, FITTED * (turns * (step + 250) + 3000 + 3 * steps * atoms))
