"""The `stem` family: first layers of one to four channels, on matrix instructions. A pixel is a word in shared memory;
whole rows of taps by channels are the reduction, and the filters stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import DATA_TYPES
from qconv.errors import Infeasible
from qconv.generator.convolution import (
    aliases,
    argument_fields,
    fold_constants,
    fold_launches,
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

# Of a lane, in registers: filters, and sums of its pixels.
MOST_FILTER_WORDS = 128
MOST_WORDS = 168
# Of the next tile, that a thread carries.
MOST_CARGO_WORDS = 32


@dataclass(frozen=True)
class Stem(Config):
    family: ClassVar[str] = "stem"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    atoms: int  # eights of output channels that a warp has
    slabs: int  # of so many channels, of a block
    warps: int
    batch: int  # sixteens of pixels that a warp has at a time
    residents: int  # blocks that a multiprocessor holds at a time


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (4, 8, 16),
    "tile_w": (8, 16, 32, 64),
    "atoms": (1, 2, 4, 8),
    "slabs": (1, 2),
    "warps": (2, 4, 8),
    "batch": (1, 2),
    "residents": (2, 3, 4, 6),
}
LIKELY: dict[str, tuple[int, ...]] = {
    "tile_h": (8, 16),
    "tile_w": (8, 16, 32),
    "warps": (4, 8),
}


def why_none(problem: Conv2d, target: Target) -> str | None:
    """What stands against every config."""
    if instruction_of(target) is None:
        return f"{target.name} has no mma.m16n8k32"
    if problem.layout != "nhwc":
        return f"layout={problem.layout}: neighbouring channels must lie side by side, as in nhwc"
    if problem.groups != 1 or problem.c > 4:
        return f"a first layer has at most 4 channels in one group (here c={problem.c}, groups={problem.groups})"
    return None


def plan(problem: Conv2d, config: Stem, target: Target) -> Plan:
    check_choices(config, CHOICES)
    if (reason := why_none(problem, target)) is not None:
        raise Infeasible(reason)
    instruction = instruction_of(target)
    assert instruction is not None
    q, taps_of_word = problem.quantization, {1: 4, 2: 2}.get(problem.c, 1)
    row_words, steps = _words(problem.r, ceil_div(problem.s, taps_of_word))
    filter_words = 2 * steps * config.atoms
    at_most(filter_words, MOST_FILTER_WORDS, "registers of a lane for filters")
    sums = config.batch * 4 * config.atoms * (1 + q.w_zero_point)
    at_most(filter_words + sums, MOST_WORDS, "registers of a lane for filters and sums")
    slab_k = 8 * config.atoms
    slabs = ceil_div(problem.k, slab_k)
    if config.atoms > 1:
        at_most(slab_k, 2 * problem.k - 1, f"output channels of a warp (the problem has {problem.k})")
    tiles = tiles_of(problem, config, CHOICES, slab_k, slabs, target)
    quads = problem.w % 4 == 0 and (problem.c > 2 or problem.tap_steps[1] == 1)
    rows, pitch = _input_words(problem, config, (row_words - 1) * taps_of_word * problem.tap_steps[1] + 1, quads)
    pieces, of_piece = (rows * pitch // 4, problem.c + (problem.c < 3)) if quads else (rows * pitch, 1)
    carried = ceil_div(pieces, tiles.threads) * of_piece
    at_most(carried, MOST_CARGO_WORDS, "registers of a thread for the next tile")
    smem_bytes = 2 * ceil_div(4 * rows * pitch, 16) * 16
    check_residents(config.residents, tiles.threads, smem_bytes, filter_words + sums + carried + 40, target)

    words = slabs * steps * config.atoms * 64
    lane_k, y_bytes = 2 * config.atoms, DATA_TYPES[q.out_type].bytes
    at_once = lane_k * y_bytes if problem.k % lane_k == 0 else y_bytes
    alignment = {"x": 4 if quads else 1, "w": 1, "y": min(16, at_once)}
    if q.residual != "none":
        alignment["residual"] = DATA_TYPES[q.residual].bytes
    constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": (
            Constant("TILE_H", config.tile_h, "output rows of a block"),
            Constant("TILE_W", config.tile_w, "output columns of a block"),
            Constant("ATOMS", config.atoms, "eights of output channels that a warp has"),
            Constant("SLABS", config.slabs, "of so many channels, of a block"),
            Constant("WARPS", config.warps),
            Constant("BATCH", config.batch, BATCH_SAYS),
            Constant("RESIDENTS", config.residents, RESIDENTS_SAYS),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", tiles.threads),
            Constant("TAPS_OF_WORD", taps_of_word, "of a filter row"),
            Constant("ROW_WORDS", row_words, "of a filter row"),
            Constant("STEPS", steps, "of eight words of a filter"),
            *tiles.slab_constants,
            *tiles.constants,
            Constant("SMEM_BYTES", smem_bytes),
            *fold_constants(problem),
        ),
    }
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/stem.j2",
        constants=constants,
        launches=(
            *fold_launches(problem),
            spread_launch(words),
            Launch("conv2d_stem", (tiles.places, 1, 1), tiles.threads, smem_bytes),
        ),
        fields=argument_fields(problem, (fragments(words),)),
        alignment=alignment,
        aliases=aliases(problem),
        roles={"quads": quads, **matrix_roles(problem, instruction, target)},
        wants=("warp", *(("bytes",) if quads else ())),
    )


def _words(rows: int, of_row: int) -> tuple[int, int]:
    """Words of a filter row, and steps of eight words. Fours lie a constant apart for all lanes, which is faster,
    unless it takes another step."""
    fours = ceil_div(of_row, 4) * 4
    steps = ceil_div(rows * of_row, 8)
    return (fours, steps) if ceil_div(rows * fours, 8) == steps else (of_row, steps)


def _input_words(problem: Conv2d, config: Stem, filter_columns: int, quads: bool) -> tuple[int, int]:
    """Rows of the input that a tile looks at, and words of each."""
    rows = (config.tile_h - 1) * problem.stride[0] + (problem.r - 1) * problem.dilation[0] + 1
    columns = (config.tile_w - 1) * problem.stride[1] + filter_columns
    return rows, ceil_div(columns + 3, 4) * 4 if quads else columns


# Of the clocks counted here an H200 took so much, of 15 kernels: more overlaps than is told apart.
FITTED = 0.57


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Stem)
    assert isinstance(problem, Conv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    steps, tiles, places = constant["STEPS"], constant["TILES"], constant["PLACES"]
    sums = 1 + problem.quantization.w_zero_point
    sixteens = config.tile_h * config.tile_w // 16 * config.slabs
    # Clocks of a partition: a product takes about seven, what else there is counts as instructions.
    products = sixteens * steps * 7 * config.atoms * sums
    of_output = 6 + of_activation(problem)
    instructions: float = sixteens * (steps * (4 + config.atoms * sums) + 4 * config.atoms * of_output + 40)
    instructions += plan.main.smem_bytes / 2 / 16 / 32 * (24 if plan.roles["quads"] else 160) + config.warps * 30
    if target.vendor == "cpu":  # one thread after the other
        return tiles * (products + instructions) * 32 / 64
    turns, held = ceil_div(tiles, places), min(config.residents, ceil_div(places, target.processors))
    warps = held * config.warps
    # So few instructions a clock as the warps allow: each waits for its own.
    step = held * max(products / 4, instructions / min(2.5, warps * (1 + config.batch) / 16))
    return launched(problem, target, FITTED * (turns * (step + 150) + 2500 + 12 * steps * config.atoms))
