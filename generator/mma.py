"""The `mma` family: implicit GEMM on matrix instructions. One page; the instruction, the way to shared memory, the
division of the work and the way of the outputs are roles that the plan chooses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from qconv.dtypes import DATA_TYPES
from qconv.epilogue import steps as epilogue_steps
from qconv.errors import Infeasible
from qconv.generator.convolution import FOLD_THREADS, aliases, argument_fields, fold_launch, problem_constants
from qconv.generator.plan import Config, Constant, Field, Launch, Plan, at_most, ceil_div, check_choices
from qconv.instruction import MatrixInstruction
from qconv.problem import Conv2d
from qconv.target import Target


@dataclass(frozen=True)
class Mma(Config):
    family: ClassVar[str] = "mma"
    instruction: int  # which of the target's matrix instructions
    tile_m: int  # output pixels of a block
    tile_n: int  # output channels of a block
    tile_k: int  # bytes of the reduction in a step
    warp_m: int  # output pixels of a warp
    warp_n: int  # output channels of a warp
    stages: int  # steps in shared memory: one is multiplied, the others are on their way
    ahead: int  # 1: the next fragments are read from shared memory while these are multiplied
    split: int  # blocks that share a tile, each a part of the reduction
    tail: int  # 0: every tile is split; else only those that leave a last round of so many blocks a multiprocessor unfilled
    persist: int  # 0: a block a tile; else blocks a multiprocessor, each one tile after the other
    stream: int  # 1: they get equal shares of the steps of all tiles, not whole tiles
    band: int  # tiles of pixels that are worked on together, so that their weights are read once
    staged: int  # 1: the outputs go through shared memory, to be written in whole rows


CHOICES: dict[str, tuple[int, ...]] = {
    "instruction": (0, 1, 2, 3),
    "tile_m": (16, 32, 64, 128, 256),
    "tile_n": (8, 16, 32, 64, 128, 256),
    "tile_k": (32, 64, 128),
    "warp_m": (16, 32, 64, 128),
    "warp_n": (8, 16, 32, 64, 128),
    "stages": (2, 3, 4, 6),
    "ahead": (0, 1),
    "split": (1, 2, 4, 8, 16),
    "tail": (0, 1, 2, 3),
    "persist": (0, 1, 2),
    "stream": (0, 1),
    "band": (1, 8),
    "staged": (0, 1),
}
# Where the default is looked for.
LIKELY: dict[str, tuple[int, ...]] = {
    "instruction": (0, 1),
    "tile_m": (32, 64, 128, 256),
    "tile_n": (8, 32, 64, 128),
    "warp_m": (16, 32, 64),
    "warp_n": (8, 32, 64),
    "stages": (2, 4),
    "split": (1, 4, 8),
    "tail": (0,),
    "persist": (0,),
    "stream": (0,),
    "band": (1,),
    "staged": (0,),
}
# What is chosen once the tile is: see `Shape`.
REST = ("stages", "ahead", "split", "tail", "persist", "stream", "band", "staged")
MOST_WARPS = 8
# Accumulators of a lane. More leave no registers for the operands.
MOST_SUMS = 128
# The most blocks of a cluster on every part that has them.
MOST_IN_CLUSTER = 8
# Parts of a tile of the last round.
MOST_IN_TAIL = 4
# Bits of the mask that says which filter rows and columns of a window fall inside the image.
MOST_ROWS_AND_COLUMNS = 32


@dataclass(frozen=True)
class Shape:
    """A tile and how the warps and the instruction divide it: what the rest of a config cannot mend."""

    tile: tuple[int, int, int]
    warp_n: int
    instruction: MatrixInstruction
    atom_m: int
    atom_n: int
    block_k: int  # bytes of the reduction in a fragment
    warps: int
    threads: int
    x_bytes: int
    w_bytes: int
    tiles_m: int
    tiles_n: int
    steps: int

    @property
    def lane_channels(self) -> int:
        """Of one instruction."""
        d = self.instruction.d
        return math.prod(digit.size for digit in d.element if digit.axis == self.channel_axis)

    @property
    def channel_axis(self) -> str:
        return "n" if self.is_nvidia else "m"

    @property
    def is_nvidia(self) -> bool:
        return self.instruction.name.startswith("mma_")


def _shape(
    problem: Conv2d, target: Target, number: int, tile: tuple[int, int, int], warp: tuple[int, int]
) -> Shape:
    q = problem.quantization
    if number >= len(target.instructions):
        has = f"{len(target.instructions)} matrix instructions" if target.instructions else "no matrix instruction"
        raise Infeasible(f"instruction={number}, but {target.name} has {has}: the family simt serves it")
    instruction = target.instructions[number]
    tile_m, tile_n, tile_k = tile
    warp_m, warp_n = warp
    if problem.r + problem.s > MOST_ROWS_AND_COLUMNS and any(problem.pad):
        raise Infeasible(
            f"a padded filter of {problem.r}x{problem.s}: rows and columns together may be {MOST_ROWS_AND_COLUMNS}; "
            "the family simt serves larger ones"
        )
    is_nvidia = instruction.name.startswith("mma_")
    if is_nvidia:
        atom_m, atom_n, block_k = instruction.m, instruction.n, instruction.k
    else:
        groups = math.prod(digit.size for digit in instruction.b.lane if digit.axis == "k")
        atom_m, atom_n, block_k = instruction.n, instruction.m, 16 * groups
    if not is_nvidia and not instruction.accepts(q.w_type, q.x_type) or not instruction.accepts(q.x_type, q.w_type):
        raise Infeasible(f"{instruction.name} does not multiply {q.x_type} by {q.w_type}: the family simt does")
    for name, whole, part, atom in (("m", tile_m, warp_m, atom_m), ("n", tile_n, warp_n, atom_n)):
        if whole % part or part % atom:
            raise Infeasible(
                f"tile_{name}={whole} must be a multiple of warp_{name}={part}, and that of {atom}, the size of "
                f"{instruction.name}"
            )
    if tile_k % block_k:
        raise Infeasible(f"tile_k={tile_k} must be a multiple of {block_k}, which {instruction.name} reads at a time")
    warps = (tile_m // warp_m) * (tile_n // warp_n)
    at_most(warps, MOST_WARPS, "warps of a block")
    at_most(warp_m * warp_n // target.warp_size, MOST_SUMS, "sums of a lane")
    at_most(max(warp_m, warp_n) // min(warp_m, warp_n), 4, "the longer side of a warp's tile over the shorter")
    threads = warps * target.warp_size

    # Tiles that others do the same work with, faster: mostly past the end of the problem, or needlessly narrow.
    sizes = (("tile_m", tile_m, problem.pixels), ("tile_n", tile_n, problem.k_group))
    for name, side, size in (*sizes, ("tile_k", tile_k, problem.reduction)):
        at_most(side, max(min(CHOICES[name]), atom_m, block_k, 2 * size - 1), f"{name} (the problem has {size})")
    for name, side, size in sizes:
        if size >= 64 > 2 * side:
            raise Infeasible(f"{name}={side} is too narrow for the problem's {size}: at least 32")
    if tile_k == min(CHOICES["tile_k"]) and problem.c_group % (2 * tile_k) == 0:
        raise Infeasible(f"tile_k={tile_k} halves the work between barriers; {problem.c_group} channels allow more")
    if tile_m * tile_n >= 64 * 64 and (warps < 4 or warp_m * warp_n < 32 * 32):
        raise Infeasible(
            f"{warps} warps of {warp_m}x{warp_n}: a tile of {tile_m}x{tile_n} takes at least 4, of at least 32x32"
        )
    nhwc = problem.layout == "nhwc"
    x_bytes = _load_bytes(problem.c_group) if nhwc else 1
    w_bytes = _load_bytes(problem.reduction)
    for name, rows, width in (("x", tile_m, x_bytes), ("w", tile_n, w_bytes)):
        pieces = ceil_div(rows * tile_k, max(width, 4) * threads)
        at_most(pieces, 16, f"loads of {name} a thread has in flight at {width} bytes each")
    return Shape(
        tile,
        warp_n,
        instruction,
        atom_m,
        atom_n,
        block_k,
        warps,
        threads,
        x_bytes,
        w_bytes,
        ceil_div(problem.pixels, tile_m),
        ceil_div(problem.k_group, tile_n),
        ceil_div(problem.reduction, tile_k),
    )


def _load_bytes(aligned_to: int) -> int:
    """The widest copy that every start of a row and every offset in it allows."""
    return next((width for width in (16, 8, 4) if aligned_to % width == 0), 1)


def configs(problem: Conv2d, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Mma]:
    """What may be feasible: tiles that are not are left out with all that could be done with them."""
    warps = tuple(itertools.product(choices["warp_m"], choices["warp_n"]))
    numbers = [number for number in choices["instruction"] if number < len(target.instructions)]
    for tile in itertools.product(choices["tile_m"], choices["tile_n"], choices["tile_k"]):
        for number, warp in itertools.product(numbers, warps):
            try:
                shape = _shape(problem, target, number, tile, warp)
            except Infeasible:
                continue
            left = [[v for v in choices[name] if not _why_not(problem, target, shape, name, v)] for name in REST]
            for rest in itertools.product(*left):
                config = Mma(number, *tile, *warp, *rest)
                if not _contradiction(problem, target, shape, config):
                    yield config


def _why_not(problem: Conv2d, target: Target, shape: Shape, name: str, value: int) -> str | None:
    """What stands against one choice, whatever the others are; None where nothing does."""
    tile_m, tile_n, tile_k = shape.tile
    if name == "stages":
        if not target.async_copies:
            return f"{target.name} copies through registers, which takes 2" if value != 2 else None
        return f"the reduction has {shape.steps} steps" if value > max(2, shape.steps + 1) else None
    if value == min(CHOICES[name]):
        return None
    tiles = shape.tiles_m * shape.tiles_n * problem.groups
    if name == "ahead" and not target.async_copies:
        return f"on {target.name} the fragments follow what comes through registers"
    if name == "split" and value > shape.steps:
        return f"the reduction has {shape.steps} steps"
    if name == "tail" and not 0 < tiles % (value * target.processors) < tiles:
        return f"{tiles} tiles on {target.processors} multiprocessors have no last round that is unfilled"
    if name == "persist" and tiles <= value * target.processors:
        return f"{tiles} tiles have a place of their own at {value} blocks a multiprocessor"
    if name == "band" and (shape.tiles_n == 1 or shape.tiles_m < 2 * value or problem.k * problem.reduction < 2**19):
        return f"the weights of {shape.tiles_m}x{shape.tiles_n} tiles stay in the cache"
    if name == "staged":
        out_bytes = DATA_TYPES[problem.quantization.out_type].bytes
        if problem.layout != "nhwc" or problem.k_group * out_bytes % 16:
            return f"{problem.k_group} channels of {out_bytes} bytes in {problem.layout} are no whole rows of 16 bytes"
        if tile_n == shape.warp_n:
            return f"a warp of {tile_n} channels writes whole rows already"
    return None


def _contradiction(problem: Conv2d, target: Target, shape: Shape, config: Mma) -> str | None:
    """Choices that do not go together."""
    tiles, places = shape.tiles_m * shape.tiles_n * problem.groups, config.persist * target.processors
    if config.persist and config.stream and (tiles % places == 0 or tiles > 8 * places):
        return f"stream=1: {tiles} tiles are about equal shares of {places} blocks already"
    if config.persist and not config.stream and tiles < 2 * places:
        return f"persist={config.persist}: {tiles} tiles are fewer than two for each of {places} blocks"
    if config.stream and not config.persist:
        return "stream=1 shares the steps among blocks that persist: persist must be 1 or more"
    if config.tail:
        whole, parts = _whole(config, target, tiles), config.tail * target.processors
        if config.split == 1 or config.split > MOST_IN_TAIL or (tiles - whole) * config.split > parts * 5 // 4:
            return f"tail={config.tail}: split={config.split} does not fill the round of {tiles - whole} tiles"
    elif config.split > 1 and (tiles > 2 * target.processors or tiles * config.split > 4 * target.processors):
        return f"split={config.split}: {tiles} tiles keep the {target.processors} multiprocessors busy with fewer parts"
    if config.split > 1 and config.persist:
        return f"split={config.split} and persist={config.persist} divide the same work: one of them is off"
    if config.staged and _in_cluster(config, target):
        return f"staged=1: with split={config.split}, the blocks of a cluster write vectors as they come"
    return None


def _whole(config: Mma, target: Target, tiles: int) -> int:
    """How many tiles are not split: those that fill rounds, and whole clusters."""
    if not config.tail:
        return 0
    places = config.tail * target.processors
    return tiles // places * places // config.split * config.split


def plan(problem: Conv2d, config: Mma, target: Target) -> Plan:
    check_choices(config, CHOICES)
    tile, warp = (config.tile_m, config.tile_n, config.tile_k), (config.warp_m, config.warp_n)
    shape = _shape(problem, target, config.instruction, tile, warp)
    for name in REST:
        value = getattr(config, name)
        if (reason := _why_not(problem, target, shape, name, value)) is not None:
            raise Infeasible(f"{name}={value}: {reason}")
    if (reason := _contradiction(problem, target, shape, config)) is not None:
        raise Infeasible(reason)
    q, steps = problem.quantization, shape.steps
    tiles = shape.tiles_m * shape.tiles_n * problem.groups
    vector_n = _vector(problem, config, shape)
    combine = "cluster" if _in_cluster(config, target) else "scratch" if config.split > 1 or config.stream else "none"
    smem_bytes = _smem_bytes(problem, config, target, shape, combine, vector_n)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    whole = _whole(config, target, tiles)
    blocks = config.persist * target.processors or whole + (tiles - whole) * config.split
    at_most(blocks, 2**31 - 1, "blocks")
    fields = argument_fields(problem)
    if combine == "scratch":
        shared = tiles - whole
        sums = shared * config.tile_m * config.tile_n
        if q.w_zero_point:
            sums += shared * config.tile_m * shape.atom_n * (config.tile_n // config.warp_n)
        at_most(4 * sums, 2**30, "bytes of scratch memory")
        fields = (
            *(field for field in fields if field.is_pointer),
            Field("sums", "int*", "scratch", "of tiles that several blocks share", None, sums),
            Field("arrived", "int*", "scratch", "steps added to each of those tiles", None, shared),
            *(field for field in fields if not field.is_pointer),
        )
    alignment = {"x": shape.x_bytes, "w": shape.w_bytes}
    alignment["y"] = 16 if config.staged else vector_n * DATA_TYPES[q.out_type].bytes
    if q.residual != "none":
        alignment["residual"] = vector_n * DATA_TYPES[q.residual].bytes
    constants = {
        "The problem.": problem_constants(problem, filter_rows=True),
        "The config.": (
            Constant("TILE_M", config.tile_m, "output pixels of a block"),
            Constant("TILE_N", config.tile_n, "output channels of a block"),
            Constant("TILE_K", config.tile_k, "bytes of the reduction in a step"),
            Constant("WARP_M", config.warp_m, "output pixels of a warp"),
            Constant("WARP_N", config.warp_n, "output channels of a warp"),
            Constant("STAGES", config.stages, "steps in shared memory: one is multiplied, the others on their way"),
            *((Constant("SPLIT", config.split, "blocks that share a tile"),) if config.split > 1 else ()),
            *((Constant("WHOLE", whole, "tiles that are not shared"),) if config.tail else ()),
            *((Constant("BAND", config.band, "tiles of pixels that are worked on together"),) * (config.band > 1)),
        ),
        "What follows.": (
            Constant("WARP_SIZE", target.warp_size),
            Constant("THREADS", shape.threads),
            Constant("ATOM_M", shape.atom_m, "output pixels of one instruction"),
            Constant("ATOM_N", shape.atom_n, "output channels of one instruction"),
            Constant("ATOM_K", shape.instruction.k, "bytes of the reduction in one instruction"),
            Constant("K_BLOCK", shape.block_k, "bytes of the reduction in one fragment"),
            Constant("STEPS", steps, "along the reduction"),
            Constant("TAIL", problem.reduction % config.tile_k != 0, "the last step reaches beyond the reduction"),
            Constant("TILES_M", shape.tiles_m, "along the pixels"),
            Constant("TILES_N", shape.tiles_n, "along the channels of a group"),
            *((Constant("TILES", tiles), Constant("BLOCKS", blocks)) if config.persist else ()),
            Constant("X_BYTES", shape.x_bytes, "one copy of x (1: byte by byte)"),
            Constant("W_BYTES", shape.w_bytes, "one copy of w (1: byte by byte)"),
            Constant("VECTOR_N", vector_n, "channels that are written at once"),
            *_copies_in_flight(config, target, shape),
            Constant("SMEM_BYTES", smem_bytes),
        ),
    }
    launches: tuple[Launch, ...] = (Launch("conv2d_mma", (blocks, 1, 1), shape.threads, smem_bytes),)
    if q.x_zero_point:
        constants["What follows."] += (Constant("FOLD_THREADS", FOLD_THREADS),)
        launches = (fold_launch(problem), *launches)
    return Plan(
        problem=problem,
        config=config,
        target=target,
        page="conv2d/mma.j2",
        constants=constants,
        launches=launches,
        fields=fields,
        alignment=alignment,
        aliases=aliases(problem),
        roles=_roles(problem, config, target, shape, combine),
        wants=_wants(target, shape, combine),
        overlaps=target.overlaps_launches,
    )


def _copies_in_flight(config: Mma, target: Target, shape: Shape) -> tuple[Constant, ...]:
    """The CPU device keeps a thread's copies in a queue."""
    if target.vendor != "cpu" or not target.async_copies:
        return ()
    rows = ((config.tile_m, shape.x_bytes), (config.tile_n, shape.w_bytes))
    pieces = sum(ceil_div(side * config.tile_k, max(width, 4) * shape.threads) for side, width in rows)
    return (Constant("COPIES_IN_FLIGHT", config.stages * pieces, "of a thread"),)


def _in_cluster(config: Mma, target: Target) -> bool:
    """Whether the parts of a tile become one within a cluster, and not in device memory."""
    return 1 < config.split <= MOST_IN_CLUSTER and target.clusters


def _roles(problem: Conv2d, config: Mma, target: Target, shape: Shape, combine: str) -> dict[str, object]:
    name, q = shape.instruction.name, problem.quantization
    # One file an instruction of NVIDIA's; AMD's share what their layouts have in common.
    atom = name if shape.is_nvidia else "mfma" if name.startswith("mfma") else f"wmma_{name.rpartition('_')[2]}"
    operation = "emulated" if target.vendor == "cpu" else atom if shape.is_nvidia else atom.partition("_")[0]
    return {
        "instruction": shape.instruction,
        "spelled": shape.instruction.spell(q.x_type, q.w_type),
        "atom": atom,
        "operation": f"instruction/{operation}.j2",
        "loader": "async" if target.async_copies else "registers",
        "gathers_x": shape.x_bytes == 1,
        "gathers_w": shape.w_bytes == 1,
        "combine": combine,
        "split": config.split,
        "tail": bool(config.tail),
        "band": config.band,
        "persist": bool(config.persist),
        "stream": bool(config.stream),
        "schedule": "persist" if config.persist else "tile",
        "ahead": bool(config.ahead),
        # All taps of a run of channels before the next run: a step finds most of its input where the last one left it.
        "taps_first": (
            problem.layout == "nhwc"
            and problem.c_group % config.tile_k == 0
            and problem.r * problem.s > 1
            and problem.c_group > config.tile_k
            # The few steps of a part read runs of the weights instead, which come from device memory.
            and (config.split == 1 or config.tail > 0)
        ),
        "staged": bool(config.staged),
        "store": "staged" if config.staged else "direct",
        "channel_arguments": _channel_arguments(problem),
    }


@lru_cache(maxsize=256)
def _channel_arguments(problem: Conv2d) -> list[object]:
    return [a for step in epilogue_steps(problem.quantization) for a in step.arguments if a.per_channel]


def _wants(target: Target, shape: Shape, combine: str) -> tuple[str, ...]:
    wants = ["warp"]
    if target.async_copies:
        wants.append("copies")
    if shape.is_nvidia:
        wants.append("matrices")
    if combine != "none":
        wants.append({"cluster": "cluster", "scratch": "atomics"}[combine])
    if target.overlaps_launches:
        wants.append("overlap")
    return tuple(wants)


def _vector(problem: Conv2d, config: Mma, shape: Shape) -> int:
    """Channels that a lane writes at once: neighbours of one pixel, all of which exist or none."""
    lane = config.warp_n // shape.atom_n * shape.lane_channels
    widest = min(lane, 16 // DATA_TYPES[problem.quantization.out_type].bytes)
    return math.gcd(widest, problem.k_group)


def _smem_bytes(problem: Conv2d, config: Mma, target: Target, shape: Shape, combine: str, vector_n: int) -> int:
    q = problem.quantization
    known = ceil_div(4 * config.tile_n * len(_channel_arguments(problem)), 16) * 16 * (2 if config.persist else 1)
    phases = [config.stages * config.tile_k * (config.tile_m + config.tile_n)]
    if config.staged:
        staged = config.tile_m * (config.tile_n * DATA_TYPES[q.out_type].bytes + 16)
        if config.persist:
            known += staged
        else:
            phases.append(staged)
    if combine == "cluster":
        of_lane = config.warp_m * config.warp_n // target.warp_size
        slots = ceil_div(of_lane // vector_n, config.split)
        known += config.split * slots * shape.threads * 4 * (vector_n + q.w_zero_point)
    return known + max(phases) + 16 * (combine == "scratch")


def cost(plan: Plan) -> float:
    """About how long the launch takes, in clocks of a multiprocessor."""
    config, problem, target = plan.config, plan.problem, plan.target
    assert isinstance(config, Mma)
    assert isinstance(problem, Conv2d)
    constant = {c.name: c.value for c in plan.constants["What follows."]}
    threads, steps = plan.main.threads, constant["STEPS"]
    warps = threads // target.warp_size
    tile_bytes = (config.tile_m + config.tile_n) * config.tile_k
    # 2048 products, 128 bytes of shared memory and 28 bytes of the second-level cache a clock.
    multiply = config.tile_m * config.tile_n * config.tile_k / 2048
    shared = (warps * (config.warp_m + config.warp_n) * config.tile_k + tile_bytes) / 128
    narrow = 16 / max(1, constant["X_BYTES"])
    fetch = tile_bytes / 28 * max(1.0, narrow / 4)
    registers = min(255, 40 + config.warp_m * config.warp_n * 3 // (2 * target.warp_size))
    resident = max(
        1,
        min(
            target.registers_per_sm // (registers * threads),
            target.smem_bytes_per_sm // (plan.main.smem_bytes + 1024),
            target.threads_per_sm // threads,
        ),
    )
    blocks = plan.main.grid[0]
    tiles = constant["TILES_M"] * constant["TILES_N"] * problem.groups
    total_steps = steps * tiles
    held = min(resident, ceil_div(blocks, target.processors))
    # A step takes what the busiest unit needs, or its share of the latency that the stages hide.
    exposed = 0.0 if config.ahead else 60 / held
    step = max(held * max(multiply, shared, fetch) + exposed, 700 / (config.stages - 1), 60.0)
    epilogue = config.tile_m * config.tile_n * 8 / 128
    rounds: float = ceil_div(blocks, held * target.processors)
    of_block = total_steps / blocks
    if config.tail:
        rounds, of_block = tiles // (held * target.processors) + 1 / config.split, steps
    each = of_block * step + held * epilogue + 1800
    combined = 0.0
    if config.split > 1 or config.stream:  # sums go through a cluster, or through device memory and back
        combined = 600.0 + config.split * 20 if _in_cluster(config, target) else 3000.0
    return rounds * each + combined
