"""The search space of the `mma` family: its fields, their choices, and the rules that decide which combinations are
feasible."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from qconv.errors import Infeasible
from qconv.generator.atom import Atom
from qconv.generator.convolution import load_bytes, why_not_by_blocks
from qconv.generator.plan import Config, at_most, ceil_div, check_choices
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# How blocks that split a tile's reduction add up their sums: in device memory (scratch) or in the shared memory of a
# cluster.
Combine = Literal["none", "scratch", "cluster"]


@dataclass(frozen=True)
class Mma(Config):
    family: ClassVar[str] = "mma"
    instruction: int  # index among the target's matrix instructions of the problem's types
    tile_m: int  # output pixels per block
    tile_n: int  # output channels per block
    tile_k: int  # bytes of the reduction per step
    warp_m: int  # output pixels per warp
    warp_n: int  # output channels per warp
    pipeline_stages: int  # steps in shared memory: one is multiplied while the others are loaded
    prefetch_fragments: int  # 1: read the next fragments from shared memory while these are multiplied
    split: int  # blocks per tile, each of which computes a part of the reduction
    split_last_wave: int  # 0: split every tile; n: only those in the last wave, with n blocks per multiprocessor
    persist: int  # 0: one block per tile; n: n persistent blocks per multiprocessor
    stream_k: int  # 1: divide the steps of all tiles equally among the blocks, instead of whole tiles
    tile_swizzle_width: int  # tiles of pixels that run together, so that they read the same weights from L2
    staged: int  # 1: write outputs through shared memory, in whole rows


CHOICES: dict[str, tuple[int, ...]] = {
    "instruction": (0, 1, 2, 3),
    "tile_m": (16, 32, 64, 128, 256),
    "tile_n": (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 256),
    "tile_k": (32, 64, 128),
    "warp_m": (16, 32, 64, 128),
    "warp_n": (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128),
    "pipeline_stages": (2, 3, 4, 6),
    "prefetch_fragments": (0, 1),
    "split": (1, 2, 4, 8, 16),
    "split_last_wave": (0, 1, 2, 3),
    "persist": (0, 1, 2),
    "stream_k": (0, 1),
    "tile_swizzle_width": (1, 8),
    "staged": (0, 1),
}
LEAST = {name: min(values) for name, values in CHOICES.items()}
# Choices among which `default` looks first.
LIKELY: dict[str, tuple[int, ...]] = {
    "instruction": (0, 1),
    "tile_m": (32, 64, 128, 256),
    "tile_n": (8, 32, 40, 48, 64, 80, 96, 112, 128),
    "warp_m": (16, 32, 64),
    "warp_n": (8, 32, 40, 48, 64, 80, 96, 112),
    "pipeline_stages": (2, 3, 4),
    "prefetch_fragments": (1,),  # the cost model always prefers prefetching where it is possible
    "split": (1, 2, 4, 8),
    "split_last_wave": (0,),
    "persist": (0, 2),
    "stream_k": (0,),
    "tile_swizzle_width": (1,),
    "staged": (0,),
}
# Fields chosen after the tile: see `Shape`.
REST = (
    "pipeline_stages",
    "prefetch_fragments",
    "split",
    "split_last_wave",
    "persist",
    "stream_k",
    "tile_swizzle_width",
    "staged",
)
MOST_WARPS = 8
# Bytes of a register, and of the narrowest copy.
WORD = 4
# Sums per lane. More leave no registers for the operands.
MOST_SUMS = 128
# Largest cluster that every GPU with clusters supports.
MOST_IN_CLUSTER = 8
# Largest split of the tiles of the last wave.
MOST_LAST_SPLIT = 4
# Width of the mask of filter rows and columns that fall inside the image.
MOST_ROWS_AND_COLUMNS = 32


@dataclass(frozen=True)
class Shape:
    """A tile and its division among warps and instructions: the part of a config that decides by itself whether it is
    feasible."""

    tile: tuple[int, int, int]
    warp_n: int
    atom: Atom
    warps: int
    threads: int
    x_bytes: int  # bytes per copy of x; below a word, one element
    w_bytes: int
    x_vectors: int  # copies of x per thread and step
    w_vectors: int
    tiles_m: int
    tiles_n: int  # along the channels of a group
    tiles: int  # of all groups
    steps: int


# Every config of a tile needs its shape, and a tile may have hundreds of configs.
@lru_cache(maxsize=1024)
def shape_of(problem: Conv2d, target: Target, number: int, tile: tuple[int, int, int], warp: tuple[int, int]) -> Shape:
    """Divide the tile among warps and instructions. Raises Infeasible, with the reason, where this tile cannot serve
    the problem."""
    atom = _atom(problem, target, number)
    _check_warps(problem, target, atom, tile, warp)
    _check_tile(problem, atom, tile)
    return _divided(problem, target, atom, tile, warp)


def _atom(problem: Conv2d, target: Target, number: int) -> Atom:
    """Return the target's instruction with this index. Raises Infeasible where it does not serve the problem."""
    q = problem.quantization
    serving = [each for each in target.instructions if each.serves(q.types.x, q.types.w)]
    if number >= len(serving):
        has = (
            f"{len(serving)} matrix instructions that multiply" if serving else "no matrix instruction that multiplies"
        )
        raise Infeasible(
            f"instruction={number}, but {target.name} has {has} {q.x_type} by {q.w_type} with sums in "
            f"{q.types.sum.name}: the family simt serves it"
        )
    atom = Atom(serving[number])
    if problem.r + problem.s > MOST_ROWS_AND_COLUMNS and any(problem.pad):
        raise Infeasible(
            f"a padded filter of {problem.r}x{problem.s}: rows and columns together may be {MOST_ROWS_AND_COLUMNS}; "
            "the family simt serves larger ones"
        )
    return atom


def _check_warps(
    problem: Conv2d, target: Target, atom: Atom, tile: tuple[int, int, int], warp: tuple[int, int]
) -> None:
    """Check that the instruction divides the warps' tiles, and these divide the block's."""
    (tile_m, tile_n, tile_k), (warp_m, warp_n), name = tile, warp, atom.instruction.name
    for axis, whole, part, of_atom in (("m", tile_m, warp_m, atom.pixels), ("n", tile_n, warp_n, atom.channels)):
        if not _divides(whole, part, of_atom):
            raise Infeasible(
                f"tile_{axis}={whole} must be a multiple of warp_{axis}={part}, and that of {of_atom}, the size of "
                f"{name}"
            )
    if tile_k % atom.block_k:
        raise Infeasible(f"tile_k={tile_k} must be a multiple of {atom.block_k}, which {name} reads at a time")
    at_most((tile_m // warp_m) * (tile_n // warp_n), MOST_WARPS, "warps of a block")
    # Zero points of the weights add sums of the windows, one atom of channels wide.
    summed_n = warp_n + atom.channels * problem.quantization.w_zero_point
    sum_words = problem.quantization.types.sum.bytes // WORD
    at_most(warp_m * summed_n * sum_words // target.warp_size, MOST_SUMS, "sums of a lane")
    at_most(max(warp_m, warp_n) // min(warp_m, warp_n), 4, "the longer side of a warp's tile over the shorter")


def _divides(whole: int, part: int, of_atom: int) -> bool:
    """True where warps divide a side of the block's tile, and the instruction divides theirs."""
    return whole % part == 0 and part % of_atom == 0


def _check_tile(problem: Conv2d, atom: Atom, tile: tuple[int, int, int]) -> None:
    """Reject tiles for which another tile does the same work faster: mostly past the end of the problem, or too
    narrow."""
    tile_m, tile_n, tile_k = tile
    sizes = (("tile_m", tile_m, problem.pixels), ("tile_n", tile_n, problem.k_group))
    x_bytes = problem.quantization.types.x.bytes
    for field, side, size in (*sizes, ("tile_k", tile_k, problem.reduction * x_bytes)):
        least = max(LEAST[field], atom.pixels, atom.block_k)
        at_most(side, max(least, 2 * size - 1), f"{field} (the problem has {size})")
    for field, side, size in sizes:
        if size >= 64 > 2 * side:
            raise Infeasible(f"{field}={side} is too narrow for the problem's {size}: at least 32")
    if tile_n not in (useful := _useful_sides(problem.k_group)):
        computed = _computed(problem.k_group, tile_n)
        raise Infeasible(
            f"tile_n={tile_n} computes {computed} channels for the problem's {problem.k_group}, more than need be; "
            f"one of {', '.join(map(str, useful))} serves it"
        )
    if tile_k == LEAST["tile_k"] and problem.c_group * x_bytes % (2 * tile_k) == 0:
        raise Infeasible(f"tile_k={tile_k} halves the work between barriers; {problem.c_group} channels allow more")


def _divided(problem: Conv2d, target: Target, atom: Atom, tile: tuple[int, int, int], warp: tuple[int, int]) -> Shape:
    """Return the shape of a checked tile. Raises Infeasible where a block would have too few threads for it."""
    (tile_m, tile_n, tile_k), (warp_m, warp_n) = tile, warp
    warps = (tile_m // warp_m) * (tile_n // warp_n)
    if tile_m * tile_n >= 64 * 64 and (warps < 4 or warp_m * warp_n < 32 * 32):
        raise Infeasible(
            f"{warps} warps of {warp_m}x{warp_n}: a tile of {tile_m}x{tile_n} takes at least 4, of at least 32x32"
        )
    threads = warps * target.warp_size
    t = problem.quantization.types
    x_bytes = load_bytes(problem.c_group, t.x) if problem.layout == "nhwc" else t.x.bytes
    w_bytes = load_bytes(problem.reduction, t.w)
    x_vectors, w_vectors = (
        ceil_div(rows * tile_k, max(width, WORD) * threads) for rows, width in ((tile_m, x_bytes), (tile_n, w_bytes))
    )
    for name, vectors, width in (("x", x_vectors, x_bytes), ("w", w_vectors, w_bytes)):
        at_most(vectors, 16, f"loads of {name} a thread has in flight at {width} bytes each")
    tiles_m, tiles_n = ceil_div(problem.pixels, tile_m), ceil_div(problem.k_group, tile_n)
    return Shape(
        tile=tile,
        warp_n=warp_n,
        atom=atom,
        warps=warps,
        threads=threads,
        x_bytes=x_bytes,
        w_bytes=w_bytes,
        x_vectors=x_vectors,
        w_vectors=w_vectors,
        tiles_m=tiles_m,
        tiles_n=tiles_n,
        tiles=tiles_m * tiles_n * problem.groups,
        steps=ceil_div(problem.reduction * t.x.bytes, tile_k),
    )


def _computed(channels: int, side: int) -> int:
    return ceil_div(channels, side) * side


@lru_cache(maxsize=256)
def _useful_sides(channels: int) -> tuple[int, ...]:
    """Return the useful tile sides for this number of channels: powers of two, and those others that compute the fewest
    channels where the next power of two would compute more."""
    others = [side for side in CHOICES["tile_n"] if side & (side - 1)]
    fewest = min(_computed(channels, side) for side in others)
    return tuple(
        side
        for side in CHOICES["tile_n"]
        if side not in others or fewest == _computed(channels, side) < _computed(channels, 1 << side.bit_length())
    )


def checked(problem: Conv2d, config: Mma, target: Target) -> Shape:
    """Return the shape of a config. Raises Infeasible, with the reason, where the config cannot serve the problem."""
    check_choices(config, CHOICES)
    tile, warp = (config.tile_m, config.tile_n, config.tile_k), (config.warp_m, config.warp_n)
    shape = shape_of(problem, target, config.instruction, tile, warp)
    for name in REST:
        value = getattr(config, name)
        if (reason := _why_not(problem, target, shape, name, value)) is not None:
            raise Infeasible(f"{name}={value}: {reason}")
    if (reason := _contradiction(target, shape, config)) is not None:
        raise Infeasible(reason)
    return shape


def configs(problem: Conv2d, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Mma]:
    """Generate the configs that may be feasible. An infeasible tile is skipped together with all configs that use
    it."""
    atoms = list(_atoms(problem, target, choices["instruction"]))
    for tile in itertools.product(choices["tile_m"], choices["tile_n"], choices["tile_k"]):
        for number, atom in atoms:
            for warp, shape in _shapes(problem, target, atom, tile, choices):
                left = [[v for v in choices[name] if not _why_not(problem, target, shape, name, v)] for name in REST]
                # The likely choice is only to prefetch, which some kernels cannot do.
                left[REST.index("prefetch_fragments")] = left[REST.index("prefetch_fragments")] or [0]
                for rest in itertools.product(*left):
                    config = Mma(number, *tile, *warp, *rest)
                    if not _contradiction(target, shape, config):
                        yield config


def _atoms(problem: Conv2d, target: Target, numbers: tuple[int, ...]) -> Iterator[tuple[int, Atom]]:
    """Generate the target's instructions that serve the problem, with their indices."""
    for number in numbers:
        try:
            atom = _atom(problem, target, number)
        except Infeasible:
            continue
        yield number, atom


def _shapes(
    problem: Conv2d, target: Target, atom: Atom, tile: tuple[int, int, int], choices: dict[str, tuple[int, ...]]
) -> Iterator[tuple[tuple[int, int], Shape]]:
    """Generate the feasible ways to divide a tile among warps. Most tiles serve no problem and most warps no tile, so
    both are rejected as early as possible: users wait for this."""
    try:
        _check_tile(problem, atom, tile)
    except Infeasible:
        return
    of_m = [part for part in choices["warp_m"] if _divides(tile[0], part, atom.pixels)]
    of_n = [part for part in choices["warp_n"] if _divides(tile[1], part, atom.channels)]
    for warp in itertools.product(of_m, of_n):
        try:
            _check_warps(problem, target, atom, tile, warp)
            shape = _divided(problem, target, atom, tile, warp)
        except Infeasible:
            continue
        yield warp, shape


def _why_not(problem: Conv2d, target: Target, shape: Shape, name: str, value: int) -> str | None:
    """Return why one field cannot have this value, whatever the other fields are, or None."""
    if name == "pipeline_stages":
        if not target.async_copies:
            return f"{target.name} copies through registers, which takes 2" if value != 2 else None
        return f"the reduction has {shape.steps} steps" if value > max(2, shape.steps + 1) else None
    if value == LEAST[name]:
        return None
    tiles = shape.tiles
    if name == "prefetch_fragments" and not target.async_copies and target.buffer_word is None:
        return f"on {target.name} the fragments follow what comes through registers"
    if name in ("split", "stream_k") and (reason := why_not_by_blocks(problem)) is not None:
        return reason
    if name == "split" and value > shape.steps:
        return f"the reduction has {shape.steps} steps"
    if name == "split_last_wave" and not 0 < tiles % (value * target.processors) < tiles:
        return f"{tiles} tiles on {target.processors} multiprocessors have no last round that is unfilled"
    if name == "persist" and tiles <= value * target.processors:
        return f"{tiles} tiles have a block each at {value} blocks a multiprocessor"
    if name == "tile_swizzle_width" and (
        shape.tiles_n == 1 or shape.tiles_m < 2 * value or problem.k * problem.reduction < 2**19
    ):
        return f"the weights of {shape.tiles_m}x{shape.tiles_n} tiles stay in the cache"
    if name == "staged" and problem.is_shuffled:
        return "a row of the convolution's channels is no row of the output, whose pixels they are"
    if name == "staged":
        out_bytes = problem.quantization.types.y.bytes
        if problem.layout != "nhwc" or problem.k_group * out_bytes % 16:
            return f"{problem.k_group} channels of {out_bytes} bytes in {problem.layout} are no whole rows of 16 bytes"
        if shape.tile[1] * out_bytes % 16:
            return f"{shape.tile[1]} channels of {out_bytes} bytes of a tile are no whole rows of 16 bytes"
        if shape.tile[1] == shape.warp_n:
            return f"a warp of {shape.warp_n} channels writes whole rows already"
    return None


def _contradiction(target: Target, shape: Shape, config: Mma) -> str | None:
    """Return why these choices cannot be combined, or None."""
    tiles, blocks = shape.tiles, config.persist * target.processors
    if config.persist and config.stream_k and (tiles % blocks == 0 or tiles > 8 * blocks):
        return f"stream_k=1: {tiles} tiles divide about equally among {blocks} blocks already"
    if config.persist and not config.stream_k and tiles < 2 * blocks:
        return f"persist={config.persist}: {tiles} tiles are fewer than two for each of {blocks} blocks"
    if config.stream_k and not config.persist:
        return "stream_k=1 divides the steps among blocks that persist: persist must be 1 or more"
    if config.split_last_wave:
        whole, parts = whole_tiles(config, target, tiles), config.split_last_wave * target.processors
        if config.split == 1 or config.split > MOST_LAST_SPLIT or (tiles - whole) * config.split > parts * 5 // 4:
            last = f"split_last_wave={config.split_last_wave}: split={config.split}"
            return f"{last} does not fill the wave of {tiles - whole} tiles"
    elif config.split > 1 and (tiles > 2 * target.processors or tiles * config.split > 4 * target.processors):
        return f"split={config.split}: {tiles} tiles keep the {target.processors} multiprocessors busy with fewer parts"
    if config.split > 1 and config.persist:
        return f"split={config.split} and persist={config.persist} divide the same work: one of them is off"
    if config.staged and in_cluster(config, target):
        return f"staged=1: with split={config.split}, the blocks of a cluster write vectors as they come"
    return None


def whole_tiles(config: Mma, target: Target, tiles: int) -> int:
    """Return the number of tiles that are not split: those of the full waves, in whole clusters."""
    if not config.split_last_wave:
        return 0
    blocks = config.split_last_wave * target.processors
    return tiles // blocks * blocks // config.split * config.split


def in_cluster(config: Mma, target: Target) -> bool:
    """True where the parts of a tile are added up within a cluster instead of in device memory."""
    return 1 < config.split <= MOST_IN_CLUSTER and target.clusters
