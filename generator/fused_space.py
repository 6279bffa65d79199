"""What the `fused` family searches: its config, the choices, and which of them may serve a problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

from qconv.errors import Infeasible
from qconv.fused import FusedConv2d
from qconv.generator.convolution import input_span
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
from qconv.generator.stage_cost import work
from qconv.generator.tiles import check_residents
from qconv.problem import Conv2d
from qconv.target import Target


@dataclass(frozen=True)
class Fused(Config):
    family: ClassVar[str] = "fused"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    warps: int  # of a team
    residents: int  # blocks that a multiprocessor holds at a time
    teams: int  # of so many warps, in a block: each has tiles of its own, and they share the weights
    shares: int  # blocks that have a tile together, each some of the output channels
    holds: int  # how many of the two have their weights in shared memory, the second before the first
    # How many of those that warpgroups may multiply they do, the second before the first. Their weights are held, or
    # of the second a few slabs at a time.
    wide: int
    # Of the first convolution: atoms of pixels of a warp (1 of a warpgroup); for depthwise, rows of a thread.
    first_m: int
    first_n: int  # atoms of channels of a warp or a warpgroup; for depthwise, fours of channels of a thread
    second_m: int  # the same of the second
    second_n: int


# Networks have layers of 24, 40, 80 and 96 channels; of these sizes those are searched that leave fewest idle.
PIECES_N = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CHOICES: dict[str, tuple[int, ...]] = {
    "tile_h": (2, 4, 7, 8, 14, 16),
    "tile_w": (7, 8, 14, 16),
    "warps": (4, 8, 16),
    "residents": (1, 2, 3, 4, 6),
    "teams": (1, 2, 3, 4, 6),
    "shares": (1, 2, 4),
    "holds": (0, 1, 2),
    "wide": (0, 1, 2),
    "first_m": (1, 2, 4),
    "first_n": PIECES_N,
    "second_m": (1, 2, 4),
    "second_n": PIECES_N,
}
# The pieces of a warp or a thread that serve best.
LIKELY: dict[str, tuple[int, ...]] = {
    "tile_h": (4, 7, 8),
    "tile_w": (7, 8, 14),
    "residents": (1, 2, 4),
    "teams": (1, 3, 6),
    "shares": (1, 2),
    "first_m": (2, 4),
    "second_m": (2, 4),
}


def structure(config: Fused) -> tuple[int, ...]:
    """What makes another kernel of it, where the rest makes the same one of another size."""
    return config.teams > 1, config.shares, config.holds, config.wide


def configs(problem: FusedConv2d, target: Target, choices: dict[str, tuple[int, ...]]) -> Iterator[Config]:
    """Tiles that fit shared memory, so many blocks at a time, and pieces that are neither tiny nor huge."""
    of_weights = []
    for holds, wide in itertools.product(choices["holds"], choices["wide"]):
        with suppress(Infeasible):
            of_weights.append((holds, wide, placed_weights(problem, holds, wide, target)))
    pieces = {
        (stage, wide): tuple(
            (m, n)
            for m, n in itertools.product((1,) if wide else choices[f"{stage}_m"], choices[f"{stage}_n"])
            if is_piece(getattr(problem, stage), wide, m, n, target)
        )
        for stage, wide in itertools.product(("first", "second"), (False, True))
    }

    def best_pieces(stage: str, tile: tuple[int, int], shares: int, warps: int, weights: Weights) -> tuple[_Piece, ...]:
        wide = stage in weights.groups
        share = Share(stage, *tile, shares, wide, 1, 1, warps // 4 * (weights.stream and stage == "second"))
        return _cheapest(getattr(problem, stage), share, warps * target.warp_size, pieces[stage, wide], target)

    for tile_h, tile_w, warps, residents, teams, shares in itertools.product(*(choices[n] for n in list(CHOICES)[:6])):
        each_has = tiles_of(problem, tile_h, tile_w)[2] * shares / target.processors
        too_many = shares > 1 and each_has > 2 * residents
        if shares > 1 and (is_depthwise(problem.second) or teams > 1):
            continue
        # Half as many at a time would do.
        if residents * teams >= 2 * math.ceil(each_has):
            continue
        if teams > 1 and (residents > 2 or not 8 <= teams * warps * residents <= 32):
            continue
        try:
            room = geometry(problem, tile_h, tile_w, teams, warps * target.warp_size, residents, (), target)
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
            if any(room.pixels(stage) < 0.6 * RUN_PIXELS for stage in weights.groups):
                continue
            first = best_pieces("first", room.mid, shares if target.bulk_copies else 1, warps, weights)
            second = best_pieces("second", room.tile, shares, warps, weights)
            for (first_m, first_n), (second_m, second_n) in itertools.product(first, second):
                shape = (tile_h, tile_w, warps, residents, teams, shares)
                yield Fused(*shape, holds, wide, first_m, first_n, second_m, second_n)


_Piece = tuple[int, int]
# Of each stage, by either cost: the two are chosen each for itself, for a kernel takes about as long as both.
MOST_PIECES = 3


@lru_cache(maxsize=4096)
def _cheapest(
    problem: Conv2d, share: Share, threads: int, pieces: tuple[_Piece, ...], target: Target
) -> tuple[_Piece, ...]:
    """Of the pieces that serve, those that issue least, and those whose longest warp has least to do."""
    works: dict[_Piece, tuple[float, float]] = {}
    for m, n in pieces:
        with suppress(Infeasible):
            works[m, n] = work(problem, replace(share, m=m, n=n), target, False, threads)
    either = (sorted(works, key=lambda piece: works[piece][cost])[:MOST_PIECES] for cost in (0, 1))
    return tuple(dict.fromkeys(itertools.chain(*either)))


def _matrices(problem: FusedConv2d) -> tuple[str, ...]:
    """Whose weights are matrices. Dot products read theirs once for many pixels."""
    return tuple(stage for stage in ("second", "first") if not is_depthwise(getattr(problem, stage)))


def _bytes(problem: FusedConv2d, stages: tuple[str, ...]) -> int:
    return sum(math.prod(getattr(problem, stage).w_shape) for stage in stages)


def _for_groups(problem: FusedConv2d, target: Target) -> tuple[str, ...]:
    """Those that warpgroups may multiply."""
    return tuple(stage for stage in _matrices(problem) if is_wide(getattr(problem, stage), target))


def tiles_of(problem: FusedConv2d, tile_h: int, tile_w: int) -> tuple[int, int, int]:
    """Down, across, and of all images."""
    down, across = ceil_div(problem.second.oh, tile_h), ceil_div(problem.second.ow, tile_w)
    return down, across, problem.second.n * down * across


@dataclass(frozen=True)
class Geometry:
    tile: tuple[int, int]  # pixels of the second convolution
    mid: tuple[int, int]  # and of the first that it needs
    planes: tuple[int, int, int, int]  # chunks and pixels of the input and of what lies between, in shared memory
    smem_bytes: int  # of a team

    def pixels(self, stage: str) -> int:
        return math.prod(self.tile if stage == "second" else self.mid)


@lru_cache(maxsize=1024)
def geometry(
    problem: FusedConv2d,
    tile_h: int,
    tile_w: int,
    teams: int,
    threads: int,
    residents: int,
    wide: tuple[str, ...],
    target: Target,
) -> Geometry:
    first, second = problem.first, problem.second
    for name, side, size in (("tile_h", tile_h, second.oh), ("tile_w", tile_w, second.ow)):
        at_most(side, max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    mid = input_span(second, tile_h, tile_w)
    rows = input_span(first, *mid)[0]
    # A depthwise layer reads the image itself. Warpgroups read two chunks at a time.
    in_chunks, in_plane = (0, 0) if is_depthwise(first) else (chunks(first.c), plane(rows * row_places(first, mid[1])))
    mid_chunks, mid_plane = chunks(first.k), plane(mid[0] * mid[1])
    in_chunks += in_chunks % 2 * ("first" in wide)
    mid_chunks += mid_chunks % 2 * ("second" in wide)
    smem_bytes = 16 * (in_chunks * in_plane + mid_chunks * mid_plane)
    check_residents(residents, teams * threads, teams * smem_bytes, 40, target)
    return Geometry((tile_h, tile_w), mid, (in_chunks, in_plane, mid_chunks, mid_plane), smem_bytes)


class Weights(NamedTuple):
    """Where those of the two are."""

    held: tuple[str, ...]  # in shared memory
    groups: tuple[str, ...]  # multiplied by warpgroups, out of shared memory
    stream: bool  # the second's, of which shared memory has a few slabs at a time


@lru_cache(maxsize=256)
def placed_weights(problem: FusedConv2d, holds: int, wide: int, target: Target) -> Weights:
    matrices, for_groups = _matrices(problem), _for_groups(problem, target)
    if holds and not target.async_copies:
        raise Infeasible(f"holds={holds}: {target.name} has no asynchronous copies; 0 serves it")
    if holds > len(matrices):
        raise Infeasible(
            f"holds={holds}: {len(matrices)} of the two convolutions have matrix instructions; hold no more"
        )
    if wide and not target.warpgroups:
        raise Infeasible(f"wide={wide}: warps of {target.name} do not multiply in groups; 0 serves it")
    if wide > len(for_groups):
        raise Infeasible(
            f"wide={wide}: warpgroups multiply what has one group, more than 4 output channels and no "
            f"w_zero_point, {len(for_groups)} of the two convolutions; no more than that"
        )
    held, groups = matrices[:holds], for_groups[:wide]
    if not held and groups == ("second",) and target.bulk_copies:
        return Weights(groups, groups, stream=True)
    if not {*groups} <= {*held}:
        needed = 1 + max(matrices.index(stage) for stage in groups)
        raise Infeasible(f"wide={wide}: warpgroups read weights that are held; holds={needed} or more")
    return Weights(tuple(sorted(held)), tuple(sorted(groups)), stream=False)
