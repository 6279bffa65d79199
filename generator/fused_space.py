"""What the `fused` and `block` families search: their configs, the choices, and which of them may serve a problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

from qconv.errors import Infeasible
from qconv.fused import WORDS, Chain, FusedBlock
from qconv.generator.convolution import input_span
from qconv.generator.layer import InKernel
from qconv.generator.layer_cost import Work
from qconv.generator.layers import layer_plan
from qconv.generator.plan import Config, at_most, ceil_div
from qconv.generator.share import (
    RUN_PIXELS,
    Share,
    chunks,
    is_depthwise,
    is_piece,
    is_wide,
    plane,
    row_places,
)
from qconv.generator.tiles import check_blocks_per_sm
from qconv.problem import Conv2d
from qconv.target import Target


@dataclass(frozen=True)
class Fused(Config):
    family: ClassVar[str] = "fused"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    warps: int  # of a team
    blocks_per_sm: int  # blocks that a multiprocessor holds at a time
    teams: int  # of so many warps, in a block: each has tiles of its own, and they share the weights
    cluster_blocks: int  # blocks that have a tile together, each some of the output channels
    weights_in_smem: int  # how many of the convolutions have their weights in shared memory, the last before the others
    # How many of those that warpgroups may multiply they do, the last before the others. Their weights are held, or
    # of the last a few slabs at a time.
    on_wgmma: int
    # Of the first convolution: atoms of pixels of a warp (1 of a warpgroup); for depthwise, rows of a thread.
    first_m: int
    first_n: int  # atoms of channels of a warp or a warpgroup; for depthwise, fours of channels of a thread
    second_m: int  # the same of the second
    second_n: int

    def piece(self, layer: str) -> tuple[int, int]:
        return getattr(self, f"{layer}_m"), getattr(self, f"{layer}_n")


@dataclass(frozen=True)
class Block(Fused):
    """Of three convolutions, which blocks do not share."""

    family: ClassVar[str] = "block"
    third_m: int
    third_n: int


# Networks have layers of 24, 40, 80 and 96 channels; of these sizes those are searched that leave fewest idle.
PIECES_N = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 7, 8, 14, 16),
    "tile_w": (7, 8, 14, 16),
    "warps": (4, 8, 16),
    "blocks_per_sm": (1, 2, 3, 4, 6),
    "teams": (1, 2, 3, 4, 6),
    "cluster_blocks": (1, 2, 4),
    "weights_in_smem": (0, 1, 2),
    "on_wgmma": (0, 1, 2),
    "first_m": (1, 2, 4),
    "first_n": PIECES_N,
    "second_m": (1, 2, 4),
    "second_n": PIECES_N,
}
# The pieces of a warp or a thread that serve best.
LIKELY: dict[str, tuple[int, ...]] = {
    "tile_h": (4, 7, 8),
    "tile_w": (7, 8, 14),
    "blocks_per_sm": (1, 2, 4),
    "teams": (1, 3, 6),
    "cluster_blocks": (1, 2),
    "first_m": (2, 4),
    "second_m": (2, 4),
}
BLOCK_CHOICES = CHOICES | {
    "weights_in_smem": (0, 1, 2, 3),
    "on_wgmma": (0, 1, 2, 3),
    "cluster_blocks": (1,),
    "third_m": CHOICES["second_m"],
    "third_n": CHOICES["second_n"],
}
BLOCK_LIKELY = LIKELY | {"cluster_blocks": (1,), "third_m": LIKELY["second_m"]}


def structure(config: Fused) -> tuple[int, ...]:
    """What makes another kernel of it, where the rest makes the same one of another size."""
    return config.teams > 1, config.cluster_blocks, config.weights_in_smem, config.on_wgmma


def configs(problem: Chain, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Config]:
    """Tiles that fit shared memory, so many blocks at a time, and pieces that are neither tiny nor huge."""
    of_weights = []
    for holds, wide in itertools.product(choices["weights_in_smem"], choices["on_wgmma"]):
        with suppress(Infeasible):
            of_weights.append((holds, wide, placed_weights(problem, holds, wide, target)))
    pieces = {
        (layer, wide): tuple(
            (m, n)
            for m, n in itertools.product((1,) if wide else choices[f"{layer}_m"], choices[f"{layer}_n"])
            if is_piece(problem.layers[layer], wide, m, n, target)
        )
        for layer, wide in itertools.product(problem.LAYERS, (False, True))
    }

    made = Block if isinstance(problem, FusedBlock) else Fused
    most = MOST_PIECES[len(problem.LAYERS)]
    # Which of them a block computes by itself.
    alone = () if target.bulk_copies else problem.LAYERS[:-1]

    def best_pieces(layer: str, tile: tuple[int, int], shares: int, warps: int, weights: Weights) -> tuple[_Piece, ...]:
        wide, last = layer in weights.groups, layer == problem.LAYERS[-1]
        share = Share(layer, last, *tile, shares, wide, 1, 1, warps // 4 * (weights.stream and last))
        return _cheapest(problem.layers[layer], share, warps * target.warp_size, pieces[layer, wide], target, most)

    for tile_h, tile_w, warps, blocks_per_sm, teams, shares in itertools.product(
        *(choices[n] for n in list(CHOICES)[:6])
    ):
        each_has = tiles_of(problem, tile_h, tile_w)[2] * shares / target.processors
        too_many = shares > 1 and each_has > 2 * blocks_per_sm
        if shares > 1 and (is_depthwise(problem.last) or teams > 1):
            continue
        # Half as many at a time would do.
        if blocks_per_sm * teams >= 2 * math.ceil(each_has):
            continue
        if teams > 1 and (blocks_per_sm > 2 or not 8 <= teams * warps * blocks_per_sm <= 32):
            continue
        try:
            room = geometry(problem, tile_h, tile_w, teams, warps * target.warp_size, blocks_per_sm, (), target)
        except Infeasible:
            continue
        for holds, wide, weights in of_weights:
            if teams > 1 and not holds:
                continue
            # What is small enough to be held is.
            if weights.stream and 4 * _bytes(problem, weights.held) < target.smem_bytes:
                continue
            # Where each block could have tiles of its own, several share them to hold weights that one can not.
            if too_many and (weights.stream or _bytes(problem, weights.held) < shares / 4 * target.smem_bytes):
                continue
            # Of 64 pixels that a warpgroup multiplies most should be there.
            if any(room.pixels(layer) < 0.6 * RUN_PIXELS for layer in weights.groups):
                continue
            shape = (tile_h, tile_w, warps, blocks_per_sm, teams, shares, holds, wide)
            best = [
                best_pieces(layer, room.outputs[layer], 1 if layer in alone else shares, warps, weights)
                for layer in problem.LAYERS
            ]
            for of_layers in itertools.product(*best):
                yield made(*shape, *itertools.chain(*of_layers))


_Piece = tuple[int, int]
# Of each layer, by either cost, where there are so many: each is chosen for itself, for a kernel takes about as long as
# all of them.
MOST_PIECES = {2: 3, 3: 1}


@lru_cache(maxsize=4096)
def _cheapest(
    problem: Conv2d, share: Share, threads: int, pieces: tuple[_Piece, ...], target: Target, most: int
) -> tuple[_Piece, ...]:
    """Of the pieces that serve, those that issue least, and those whose longest warp has least to do."""
    works: dict[_Piece, Work] = {}
    alone = InKernel(threads)
    for m, n in pieces:
        with suppress(Infeasible):
            works[m, n] = layer_plan(problem, replace(share, m=m, n=n), target, alone).work
    either = (sorted(works, key=lambda piece: works[piece][cost])[:most] for cost in (0, 1))
    return tuple(dict.fromkeys(itertools.chain(*either)))


def _matrices(problem: Chain) -> tuple[str, ...]:
    """Whose weights are matrices, the last one's first. Dot products read theirs once for many pixels."""
    *others, last = problem.LAYERS
    return tuple(layer for layer in (last, *others) if not is_depthwise(problem.layers[layer]))


def _bytes(problem: Chain, layers: tuple[str, ...]) -> int:
    return sum(math.prod(problem.layers[layer].w_shape) for layer in layers)


def _for_groups(problem: Chain, target: Target) -> tuple[str, ...]:
    """Those that warpgroups may multiply."""
    return tuple(layer for layer in _matrices(problem) if is_wide(problem.layers[layer], target))


def tiles_of(problem: Chain, tile_h: int, tile_w: int) -> tuple[int, int, int]:
    """Down, across, and of all images."""
    last = problem.last
    down, across = ceil_div(last.oh, tile_h), ceil_div(last.ow, tile_w)
    return down, across, last.n * down * across


@dataclass(frozen=True)
class Geometry:
    outputs: dict[str, tuple[int, int]]  # of each layer: the last one's tile, and of the others what it needs
    planes: tuple[tuple[int, int], ...]  # chunks and pixels of the input and of what lies between, in shared memory
    smem_bytes: int  # of a team

    def pixels(self, layer: str) -> int:
        return math.prod(self.outputs[layer])


@lru_cache(maxsize=1024)
def geometry(
    problem: Chain,
    tile_h: int,
    tile_w: int,
    teams: int,
    threads: int,
    blocks_per_sm: int,
    wide: tuple[str, ...],
    target: Target,
) -> Geometry:
    layers, first, last = problem.layers, problem.first, problem.last
    for name, side, size in (("tile_h", tile_h, last.oh), ("tile_w", tile_w, last.ow)):
        at_most(side, max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    outputs = {problem.LAYERS[-1]: (tile_h, tile_w)}
    for giver, taker in reversed(list(itertools.pairwise(problem.LAYERS))):
        outputs[giver] = input_span(layers[taker], *outputs[taker])
    # A depthwise layer reads the image itself.
    planes = [(0, 0)]
    if not is_depthwise(first):
        rows, columns = input_span(first, *outputs["first"])[0], row_places(first, outputs["first"][1])
        planes = [_even(chunks(first.c), "first" in wide, rows * columns)]
    for giver, taker in itertools.pairwise(problem.LAYERS):
        planes.append(_even(chunks(layers[giver].k), taker in wide, math.prod(outputs[giver])))
    smem_bytes = 16 * sum(count * pixels for count, pixels in planes)
    check_blocks_per_sm(blocks_per_sm, teams * threads, teams * smem_bytes, 40, target)
    return Geometry(outputs, tuple(planes), smem_bytes)


def _even(count: int, wide: bool, pixels: int) -> tuple[int, int]:
    """So many chunks of so many pixels: warpgroups read two chunks at a time."""
    return count + count % 2 * wide, plane(pixels)


class Weights(NamedTuple):
    """Where those of the two are."""

    held: tuple[str, ...]  # in shared memory
    groups: tuple[str, ...]  # multiplied by warpgroups, out of shared memory
    stream: bool  # the second's, of which shared memory has a few slabs at a time


@lru_cache(maxsize=256)
def placed_weights(problem: Chain, holds: int, wide: int, target: Target) -> Weights:
    matrices, for_groups = _matrices(problem), _for_groups(problem, target)
    if holds and not target.async_copies:
        raise Infeasible(f"weights_in_smem={holds}: {target.name} has no asynchronous copies; 0 serves it")
    if holds > len(matrices):
        raise Infeasible(
            f"weights_in_smem={holds}: {len(matrices)} of the {WORDS[len(problem.LAYERS)]} convolutions have matrix "
            "instructions; hold no more"
        )
    if wide and target.warpgroup is None:
        raise Infeasible(f"on_wgmma={wide}: warps of {target.name} do not multiply in groups; 0 serves it")
    if wide > len(for_groups):
        raise Infeasible(
            f"on_wgmma={wide}: warpgroups multiply what has one group, more than 4 output channels and no "
            f"w_zero_point, {len(for_groups)} of the {WORDS[len(problem.LAYERS)]} convolutions; no more than that"
        )
    held, groups = matrices[:holds], for_groups[:wide]
    if not held and groups == (problem.LAYERS[-1],) and target.bulk_copies:
        return Weights(groups, groups, stream=True)
    if not {*groups} <= {*held}:
        needed = 1 + max(matrices.index(layer) for layer in groups)
        raise Infeasible(f"on_wgmma={wide}: warpgroups read weights that are held; weights_in_smem={needed} or more")
    return Weights(tuple(sorted(held)), tuple(sorted(groups)), stream=False)
