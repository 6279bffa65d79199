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
from qconv.generator.convolution import input_span
from qconv.generator.families.fused.layer import InKernel
from qconv.generator.families.fused.layer_config import (
    RUN_PIXELS,
    Border,
    LayerConfig,
    Work,
    chunks,
    fits_wgmma,
    is_depthwise,
    is_subtile,
    plane,
    row_pixels,
)
from qconv.generator.families.fused.layers import layer_plan
from qconv.generator.plan import Config, at_most, ceil_div
from qconv.generator.tiles import check_blocks_per_sm
from qconv.problem.chain import WORDS, Chain, FusedBlock
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target


@dataclass(frozen=True)
class Fused(Config):
    family: ClassVar[str] = "fused"
    tile_h: int  # output rows of a block
    tile_w: int  # output columns of a block
    warps: int  # of a team
    blocks_per_sm: int  # blocks that a multiprocessor holds at a time
    teams: int  # of so many warps, in a block: each has tiles of its own, and they share the weights
    # Blocks that have a tile together, each some of the output channels: in a cluster, or, where the last layer is
    # depthwise, each for itself, with the same channels of both layers.
    cluster_blocks: int
    weights_in_smem: int  # how many of the convolutions have their weights in shared memory, the last before the others
    # How many of those that warpgroups may multiply they do, the last before the others. Their weights
    # are in shared memory, or of the last layer a few slabs of them at a time.
    on_wgmma: int
    # The first convolution: atoms of pixels of a warp (1 of a warpgroup); for depthwise, rows of a thread.
    first_m: int
    first_n: int  # atoms of channels of a warp or a warpgroup; for depthwise, fours of channels of a thread
    second_m: int  # the same of the second
    second_n: int

    def subtile(self, layer: str) -> tuple[int, int]:
        return getattr(self, f"{layer}_m"), getattr(self, f"{layer}_n")


@dataclass(frozen=True)
class Block(Fused):
    """The config of three convolutions, whose tiles are each of one block."""

    family: ClassVar[str] = "block"
    third_m: int
    third_n: int


# Networks have layers of 24, 40, 80 and 96 channels; of these sizes those are searched that leave fewest idle.
SUBTILES_N = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CLUSTERS = (1, 2, 4)  # of these numbers of blocks clusters are searched; what needs none may be any of the choices
Choices = dict[str, tuple[int, ...]]
CHOICES: Choices = {
    "tile_h": (2, 4, 7, 8, 14, 16, 28),
    "tile_w": (7, 8, 14, 16, 28),
    "warps": (4, 8, 16),
    "blocks_per_sm": (1, 2, 3, 4, 6),
    "teams": (1, 2, 3, 4, 6),
    "cluster_blocks": (1, 2, 3, 4, 6, 8),
    "weights_in_smem": (0, 1, 2),
    "on_wgmma": (0, 1, 2),
    "first_m": (1, 2, 4),
    "first_n": SUBTILES_N,
    "second_m": (1, 2, 4),
    "second_n": SUBTILES_N,
}
# The subtiles of a warp or a thread that serve best.
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


_Subtile = tuple[int, int]


def structure(config: Fused) -> tuple[int, ...]:
    """The fields that make another kernel, where the others make the same one of another size."""
    return config.teams > 1, config.cluster_blocks, config.weights_in_smem, config.on_wgmma


def configs(problem: Chain, target: Target, choices: Choices) -> Iterator[Config]:
    """Tiles that fit shared memory, so many blocks at a time, and subtiles that are neither tiny nor huge."""
    of_weights, subtiles = _weights(problem, target, choices), _subtiles(problem, target, choices)
    made = Block if isinstance(problem, FusedBlock) else Fused
    most = MOST_SUBTILES[len(problem.LAYERS)]
    # Which of them a block computes by itself, where it has no slice of the channels.
    alone = () if target.bulk_copies else problem.LAYERS[:-1]

    def best_subtiles(
        layer: str, tile: tuple[int, int], cluster_blocks: int, warps: int, weights: Weights
    ) -> tuple[_Subtile, ...]:
        on_wgmma, last = layer in weights.on_wgmma, layer == problem.LAYERS[-1]
        ring_warpgroups = warps // 4 * (weights.weight_ring and last)
        blocks = 1 if layer in alone and not is_sliced(problem, cluster_blocks) else cluster_blocks
        layer_config = LayerConfig(layer, last, *tile, blocks, on_wgmma, 1, 1, ring_warpgroups)
        every, threads = subtiles[layer, on_wgmma], warps * target.warp_size
        return _cheapest(problem.layers[layer], layer_config, threads, every, target, most)

    for tile_h, tile_w, warps, blocks_per_sm, teams, cluster_blocks in itertools.product(
        *(choices[n] for n in list(CHOICES)[:6])
    ):
        each_has = tiles_of(problem, tile_h, tile_w)[2] * cluster_blocks / target.processors
        sliced = is_sliced(problem, cluster_blocks)
        too_many = cluster_blocks > 1 and not sliced and each_has > 2 * blocks_per_sm
        if cluster_blocks > 1 and (teams > 1 or not (sliced or cluster_blocks in CLUSTERS)):
            continue
        # Half as many at a time would do.
        if blocks_per_sm * teams >= 2 * math.ceil(each_has):
            continue
        if teams > 1 and (blocks_per_sm > 2 or not 8 <= teams * warps * blocks_per_sm <= 32):
            continue
        try:
            least_k = 16 * ceil_div(chunks(problem.first.k), cluster_blocks) * sliced
            threads = warps * target.warp_size
            room = geometry(problem, tile_h, tile_w, teams, threads, blocks_per_sm, (), target, least_k)
        except Infeasible:
            continue
        for weights_in_smem, on_wgmma, weights in of_weights:
            if teams > 1 and not weights_in_smem:
                continue
            # Weights that are small enough for shared memory lie there.
            if weights.weight_ring and 4 * _bytes(problem, weights.in_smem) < target.smem_bytes:
                continue
            # Where each block could have tiles of its own, several have one together only to keep in shared memory
            # weights that are too large for one of them.
            small = _bytes(problem, weights.in_smem) < cluster_blocks / 4 * target.smem_bytes
            if too_many and (weights.weight_ring or small):
                continue
            # A warpgroup multiplies 64 pixels, most of which should exist.
            if any(room.pixels(layer) < 0.6 * RUN_PIXELS for layer in weights.on_wgmma):
                continue
            shape = (tile_h, tile_w, warps, blocks_per_sm, teams, cluster_blocks, weights_in_smem, on_wgmma)
            best = [
                best_subtiles(layer, room.outputs[layer], cluster_blocks, warps, weights) for layer in problem.LAYERS
            ]
            for of_layers in itertools.product(*best):
                yield made(*shape, *itertools.chain(*of_layers))


# How many subtiles of each layer are tried, by either cost, in a chain of so many layers. Each layer's are chosen for
# themselves, for a kernel takes about as long as all its layers.
MOST_SUBTILES = {2: 3, 3: 1}


def _weights(problem: Chain, target: Target, choices: Choices) -> list[tuple[int, int, Weights]]:
    """What `weights_in_smem` and `on_wgmma` may be together, with what follows from them."""
    found = []
    for weights_in_smem, on_wgmma in itertools.product(choices["weights_in_smem"], choices["on_wgmma"]):
        with suppress(Infeasible):
            found.append((weights_in_smem, on_wgmma, weights_of(problem, weights_in_smem, on_wgmma, target)))
    return found


def _subtiles(problem: Chain, target: Target, choices: Choices) -> dict[tuple[str, bool], tuple[_Subtile, ...]]:
    """The subtiles of each layer that may serve, by whether warpgroups multiply it."""
    return {
        (layer, on_wgmma): tuple(
            (m, n)
            for m, n in itertools.product((1,) if on_wgmma else choices[f"{layer}_m"], choices[f"{layer}_n"])
            if is_subtile(problem.layers[layer], on_wgmma, m, n, target)
        )
        for layer, on_wgmma in itertools.product(problem.LAYERS, (False, True))
    }


@lru_cache(maxsize=4096)
def _cheapest(
    problem: Conv2d, layer_config: LayerConfig, threads: int, subtiles: tuple[_Subtile, ...], target: Target, most: int
) -> tuple[_Subtile, ...]:
    """Subtiles that issue least, and those whose longest warp has least to do; Infeasible ones are left out."""
    works: dict[_Subtile, Work] = {}
    alone = InKernel(threads)
    for m, n in subtiles:
        with suppress(Infeasible):
            works[m, n] = layer_plan(problem, replace(layer_config, m=m, n=n), target, alone).work
    either = (sorted(works, key=lambda subtile: works[subtile][cost])[:most] for cost in (0, 1))
    return tuple(dict.fromkeys(itertools.chain(*either)))


def _matrices(problem: Chain) -> tuple[str, ...]:
    """Layers whose weights are matrices, the last layer first. Dot products read theirs once for many pixels."""
    *others, last = problem.LAYERS
    return tuple(layer for layer in (last, *others) if not is_depthwise(problem.layers[layer]))


def is_sliced(problem: Chain, cluster_blocks: int) -> bool:
    """Whether blocks have some channels each, the same in both layers: those of a depthwise layer look at no others."""
    return cluster_blocks > 1 and len(problem.LAYERS) == 2 and is_depthwise(problem.last)


def _bytes(problem: Chain, layers: tuple[str, ...]) -> int:
    return sum(math.prod(problem.layers[layer].w_shape) for layer in layers)


def _for_groups(problem: Chain, target: Target) -> tuple[str, ...]:
    """Layers that warpgroups may multiply."""
    return tuple(layer for layer in _matrices(problem) if fits_wgmma(problem.layers[layer], target))


def tiles_of(problem: Chain, tile_h: int, tile_w: int) -> tuple[int, int, int]:
    """Tiles down an image, across it, and of all images."""
    last = problem.last
    down, across = ceil_div(last.oh, tile_h), ceil_div(last.ow, tile_w)
    return down, across, last.n * down * across


@dataclass(frozen=True)
class Geometry:
    outputs: dict[str, tuple[int, int]]  # of each layer: the last one's tile, and of the others what it needs
    borders: dict[str, Border]  # of each intermediate, by the layer that gives it
    planes: tuple[tuple[int, int], ...]  # chunks and pixels of the input and of the intermediates, in shared memory
    smem_bytes: int  # of a team

    def pixels(self, layer: str) -> int:
        return math.prod(self.outputs[layer])


@lru_cache(maxsize=1024)
def tile_outputs(problem: Chain, tile_h: int, tile_w: int) -> tuple[dict[str, tuple[int, int]], dict[str, Border]]:
    """Rows and columns of each layer's outputs that a tile needs, and what lies around them."""
    last = problem.last
    for name, side, size in (("tile_h", tile_h, last.oh), ("tile_w", tile_w, last.ow)):
        at_most(side, max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    outputs, borders = {problem.LAYERS[-1]: (tile_h, tile_w)}, {}
    # Whether a tile has all rows of an image, and all columns: what lies beyond is the same for all tiles then, and is
    # not computed. Warpgroups that look at more than a pixel need rows of eight.
    whole = tile_h >= last.oh, tile_w >= last.ow
    for producer, consumer in reversed(list(itertools.pairwise(problem.LAYERS))):
        layer, pad = problem.layers[producer], problem.layers[consumer].pad
        span = input_span(problem.layers[consumer], *outputs[consumer])
        whole = whole[0] and span[0] > pad[0], whole[1] and span[1] > pad[1] and _any_width(layer)
        rows, columns = (
            min(size, needed - before) if all_of_it else needed
            for size, needed, before, all_of_it in zip((layer.oh, layer.ow), span, pad, whole, strict=False)
        )
        varies = any((pad[axis] or pad[axis + 2]) and not whole[axis] for axis in (0, 1))
        outputs[producer] = rows, columns
        borders[producer] = Border(*span, pad[0] * whole[0], pad[1] * whole[1], varies)
    return outputs, borders


def _any_width(layer: Conv2d) -> bool:
    """Whether a tile of its outputs may be of any width, whatever multiplies it."""
    return is_depthwise(layer) or (layer.r, layer.s, layer.stride) == (1, 1, (1, 1))


@lru_cache(maxsize=1024)
def geometry(
    problem: Chain,
    tile_h: int,
    tile_w: int,
    teams: int,
    threads: int,
    blocks_per_sm: int,
    on_wgmma: tuple[str, ...],
    target: Target,
    slice_k: int,
) -> Geometry:
    """What a team has in shared memory. `slice_k`: so many channels of the intermediate; 0: all."""
    layers, first = problem.layers, problem.first
    outputs, borders = tile_outputs(problem, tile_h, tile_w)
    # A depthwise layer reads the image itself.
    planes = [(0, 0)]
    if not is_depthwise(first):
        rows, columns = input_span(first, *outputs["first"])[0], row_pixels(first, outputs["first"][1])
        planes = [_even(chunks(first.c), "first" in on_wgmma, rows * columns)]
    for producer, consumer in itertools.pairwise(problem.LAYERS):
        given = chunks(slice_k or layers[producer].k)
        planes.append(_even(given, consumer in on_wgmma, math.prod(borders[producer][:2])))
    smem_bytes = 16 * sum(count * pixels for count, pixels in planes)
    check_blocks_per_sm(blocks_per_sm, teams * threads, teams * smem_bytes, 40, target)
    return Geometry(outputs, borders, tuple(planes), smem_bytes)


def _even(count: int, on_wgmma: bool, pixels: int) -> tuple[int, int]:
    """Chunks and pixels of a plane: an even number of chunks where warpgroups read it, two at a time."""
    return count + count % 2 * on_wgmma, plane(pixels)


class Weights(NamedTuple):
    """Where the weights of the layers are when they are multiplied."""

    in_smem: tuple[str, ...]  # layers whose weights are in shared memory
    on_wgmma: tuple[str, ...]  # layers that warpgroups multiply, out of shared memory
    weight_ring: bool  # the last layer's weights pass through a ring of a few slabs in shared memory


@lru_cache(maxsize=256)
def weights_of(problem: Chain, weights_in_smem: int, on_wgmma: int, target: Target) -> Weights:
    matrices, for_groups = _matrices(problem), _for_groups(problem, target)
    if weights_in_smem and not target.async_copies:
        raise Infeasible(f"weights_in_smem={weights_in_smem}: {target.name} has no asynchronous copies; 0 serves it")
    if weights_in_smem > len(matrices):
        raise Infeasible(
            f"weights_in_smem={weights_in_smem}: {len(matrices)} of the {WORDS[len(problem.LAYERS)]} convolutions have "
            "matrix instructions; give no more"
        )
    if on_wgmma and target.warpgroup is None:
        raise Infeasible(f"on_wgmma={on_wgmma}: warps of {target.name} do not multiply in groups; 0 serves it")
    if on_wgmma > len(for_groups):
        raise Infeasible(
            f"on_wgmma={on_wgmma}: warpgroups multiply what has one group, more than 4 output channels and no "
            f"w_zero_point, {len(for_groups)} of the {WORDS[len(problem.LAYERS)]} convolutions; no more than that"
        )
    in_smem, multiplied = matrices[:weights_in_smem], for_groups[:on_wgmma]
    if not in_smem and multiplied == (problem.LAYERS[-1],) and target.bulk_copies:
        return Weights(multiplied, multiplied, weight_ring=True)
    if not {*multiplied} <= {*in_smem}:
        needed = 1 + max(matrices.index(layer) for layer in multiplied)
        raise Infeasible(
            f"on_wgmma={on_wgmma}: warpgroups read weights in shared memory; weights_in_smem={needed} or more"
        )
    return Weights(tuple(sorted(in_smem)), tuple(sorted(multiplied)), weight_ring=False)
