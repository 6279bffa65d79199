"""The configs of the `fused` and `block` families, their choices, and the promising ones for a problem."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import ClassVar, NamedTuple

from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.families.fused.layer import (
    RUN_PIXELS,
    Border,
    LayerConfig,
    LayerPlan,
    Work,
    chunks,
    fits_wgmma,
    is_depthwise,
    is_subtile,
    of_chunk,
    plane,
    row_pixels,
)
from qconv.generator.families.fused.layers import any_layer
from qconv.generator.plan import Config, at_most, ceil_div
from qconv.generator.tiles import check_blocks_per_sm
from qconv.problem.chain import WORDS, Chain, FusedBlock
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target


@dataclass(frozen=True)
class Fused(Config):
    family: ClassVar[str] = "fused"
    tile_h: int  # output rows per tile
    tile_w: int  # output columns per tile
    warps: int  # per team
    blocks_per_sm: int  # resident blocks per multiprocessor
    teams: int  # per block; each computes tiles of its own, and all share the weights
    # Blocks that compute a tile together, each some of the output channels. They are a cluster; where the last layer is
    # depthwise they are independent, and each computes the same slice of channels in both layers.
    cluster_blocks: int
    weights_in_smem: int  # convolutions whose weights are in shared memory, counted from the last
    # Convolutions on wgmma, counted from the last, of those that fit. Their weights are in shared memory: all of them,
    # or, of the last layer, a few slabs at a time.
    on_wgmma: int
    # The first convolution: atoms of pixels per warp (1 for a warpgroup); rows per thread if it is depthwise.
    first_m: int
    first_n: int  # atoms of channels per warp or warpgroup; groups of four channels per thread if it is depthwise
    second_m: int  # the same of the second
    second_n: int

    def subtile(self, layer: str) -> tuple[int, int]:
        return getattr(self, f"{layer}_m"), getattr(self, f"{layer}_n")


@dataclass(frozen=True)
class Block(Fused):
    """The config of three convolutions. A block computes a tile alone."""

    family: ClassVar[str] = "block"
    third_m: int
    third_n: int


# Networks have layers of 24, 40, 80 and 96 channels. The search tries the sizes that leave the fewest atoms idle.
SUBTILES_N = (1, 2, 3, 4, 5, 6, 8, 10, 12)
CLUSTERS = (1, 2, 4)  # sizes of clusters that are searched; independent blocks may be any of the choices
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
# The values that win most often.
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
    """Return the fields that change the kernel's structure; the other fields change sizes."""
    return config.teams > 1, config.cluster_blocks, config.weights_in_smem, config.on_wgmma


class Subtiles(NamedTuple):
    """The subtiles of a layer to try, and the least that any of them takes."""

    sizes: tuple[_Subtile, ...]
    work: Work
    registers: int  # per thread
    weight_smem_bytes: int  # if its weights are in shared memory


class Shape(NamedTuple):
    """The promising configs that differ in the subtiles of layers only."""

    config: Fused  # with the first of them
    room: Geometry  # at least, without what warpgroups need
    weights: Weights
    subtiles: tuple[Subtiles, ...]  # of each layer

    def configs(self) -> Iterator[Config]:
        made, shared = type(self.config), list(vars(self.config).values())[: -2 * len(self.subtiles)]
        for of_layers in itertools.product(*(one.sizes for one in self.subtiles)):
            yield made(*shared, *itertools.chain(*of_layers))


def configs(problem: Chain, target: Target, choices: Choices) -> Iterator[Config]:
    """Yield the promising configs: tiles that fit in shared memory, with the subtiles of the lowest cost."""
    for shape in shapes(problem, target, choices):
        yield from shape.configs()


def _subtiles_of(problem: Chain, target: Target, choices: Choices) -> Callable[..., Subtiles]:
    """Return the function that finds the subtiles of a layer for a tile of its outputs."""
    subtiles, most = _subtiles(problem, target, choices), MOST_SUBTILES[len(problem.LAYERS)]
    # Layers that each block computes whole, unless it has a slice of the channels.
    alone = () if target.bulk_copies else problem.LAYERS[:-1]

    @cache  # tiles differ in how many are resident
    def found(
        layer: str, tile: tuple[int, int], cluster_blocks: int, warps: int, on_wgmma: bool, weight_ring: bool
    ) -> Subtiles:
        last = layer == problem.LAYERS[-1]
        ring_warpgroups = warps // 4 * (weight_ring and last)
        blocks = 1 if layer in alone and not is_sliced(problem, cluster_blocks) else cluster_blocks
        layer_config = LayerConfig(layer, last, *tile, blocks, on_wgmma, 1, 1, ring_warpgroups)
        every, threads = subtiles[layer, on_wgmma], warps * target.warp_size
        return _cheapest(problem.layers[layer], layer_config, threads, every, target, most)

    return found


def shapes(problem: Chain, target: Target, choices: Choices) -> Iterator[Shape]:
    """Yield the promising tiles with their subtiles."""
    of_weights, subtiles_of = _weights(problem, target, choices), _subtiles_of(problem, target, choices)
    made = Block if isinstance(problem, FusedBlock) else Fused
    # Computed once each: the loop has thousands of turns, for which a lookup without measurements waits.
    sliced_by = {count: is_sliced(problem, count) for count in choices["cluster_blocks"]}
    tiles = {side: tiles_of(problem, *side)[2] for side in itertools.product(choices["tile_h"], choices["tile_w"])}

    for tile_h, tile_w, warps, blocks_per_sm, teams, cluster_blocks in itertools.product(
        *(choices[n] for n in list(CHOICES)[:6])
    ):
        each_has = tiles[tile_h, tile_w] * cluster_blocks / target.processors
        sliced = sliced_by[cluster_blocks]
        too_many = cluster_blocks > 1 and not sliced and each_has > 2 * blocks_per_sm
        if cluster_blocks > 1 and (teams > 1 or not (sliced or cluster_blocks in CLUSTERS)):
            continue
        # Half as many resident teams would suffice.
        if blocks_per_sm * teams >= 2 * math.ceil(each_has):
            continue
        if teams > 1 and (blocks_per_sm > 2 or not 8 <= teams * warps * blocks_per_sm <= 32):
            continue
        try:
            given = problem.first.quantization.types.y
            least_k = of_chunk(given) * ceil_div(chunks(problem.first.k, given), cluster_blocks) * sliced
            threads = warps * target.warp_size
            room = geometry(problem, tile_h, tile_w, teams, threads, blocks_per_sm, (), target, least_k)
        except Infeasible:
            continue
        for weights_in_smem, on_wgmma, weights in of_weights:
            if teams > 1 and not weights_in_smem:
                continue
            # Weights that fit easily in shared memory need no ring.
            if weights.weight_ring and 4 * _bytes(problem, weights.in_smem) < target.smem_bytes:
                continue
            # If there are tiles for every block, blocks share a tile only because the weights are too large for the
            # shared memory of one of them.
            small = _bytes(problem, weights.in_smem) < cluster_blocks / 4 * target.smem_bytes
            if too_many and (weights.weight_ring or small):
                continue
            # Most of the 64 pixels of a warpgroup should exist.
            if any(room.pixels(layer) < 0.6 * RUN_PIXELS for layer in weights.on_wgmma):
                continue
            shape = (tile_h, tile_w, warps, blocks_per_sm, teams, cluster_blocks, weights_in_smem, on_wgmma)
            best = [
                subtiles_of(
                    layer, room.outputs[layer], cluster_blocks, warps, layer in weights.on_wgmma, weights.weight_ring
                )
                for layer in problem.LAYERS
            ]
            if all(one.sizes for one in best):
                config = made(*shape, *itertools.chain(*(one.sizes[0] for one in best)))
                yield Shape(config, room, weights, tuple(best))


# Subtiles of each layer that are tried for either cost, by the number of layers. They are chosen for each layer
# separately, because a kernel takes about the sum of its layers' times.
MOST_SUBTILES = {2: 3, 3: 1}


def _weights(problem: Chain, target: Target, choices: Choices) -> list[tuple[int, int, Weights]]:
    """Return the feasible pairs of `weights_in_smem` and `on_wgmma`, with the placement that follows."""
    found = []
    for weights_in_smem, on_wgmma in itertools.product(choices["weights_in_smem"], choices["on_wgmma"]):
        with suppress(Infeasible):
            found.append((weights_in_smem, on_wgmma, weights_of(problem, weights_in_smem, on_wgmma, target)))
    return found


def _subtiles(problem: Chain, target: Target, choices: Choices) -> dict[tuple[str, bool], tuple[_Subtile, ...]]:
    """Return the useful subtiles of each layer, on warps and on warpgroups."""
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
) -> Subtiles:
    """Return the feasible subtiles with the fewest issued clocks, and those with the shortest longest warp."""
    plans: dict[_Subtile, LayerPlan] = {}
    given = vars(layer_config)
    for m, n in subtiles:
        with suppress(Infeasible):
            # Not `replace`, which takes as long as planning the layer.
            plans[m, n] = any_layer(problem, LayerConfig(**given | {"m": m, "n": n}), target)
    works = {subtile: plan.count_work(threads, weights_in_smem=False) for subtile, plan in plans.items()}
    either = (sorted(works, key=lambda subtile: works[subtile][cost])[:most] for cost in (0, 1))
    best = tuple(dict.fromkeys(itertools.chain(*either)))
    least = [plans[subtile].count_work(threads, weights_in_smem=True) for subtile in best]
    work = Work(*(min((one[cost] for one in least), default=0.0) for cost in (0, 1)))
    registers = min((plans[subtile].registers for subtile in best), default=0)
    return Subtiles(best, work, registers, min((plans[subtile].weight_smem_bytes for subtile in best), default=0))


def _matrices(problem: Chain) -> tuple[str, ...]:
    """Return the layers that multiply matrices, the last layer first."""
    *others, last = problem.LAYERS
    return tuple(layer for layer in (last, *others) if not is_depthwise(problem.layers[layer]))


def is_sliced(problem: Chain, cluster_blocks: int) -> bool:
    """True if each block computes a slice of channels, the same in both layers: a depthwise layer needs no others."""
    return cluster_blocks > 1 and len(problem.LAYERS) == 2 and is_depthwise(problem.last)


def _bytes(problem: Chain, layers: tuple[str, ...]) -> int:
    return sum(math.prod(problem.layers[layer].w_shape) for layer in layers)


def _for_groups(problem: Chain, target: Target) -> tuple[str, ...]:
    """Return the layers that warpgroups can multiply, the last layer first."""
    return tuple(layer for layer in _matrices(problem) if fits_wgmma(problem.layers[layer], target))


def tiles_of(problem: Chain, tile_h: int, tile_w: int) -> tuple[int, int, int]:
    """Count the tiles down an image, across it, and of all images."""
    last = problem.last
    down, across = ceil_div(last.oh, tile_h), ceil_div(last.ow, tile_w)
    return down, across, last.n * down * across


@dataclass(frozen=True)
class Geometry:
    """The pixels of each tensor that a tile needs, and their place in shared memory."""

    outputs: dict[str, tuple[int, int]]  # rows and columns of each layer's outputs
    borders: dict[str, Border]  # of each intermediate tensor, by its producer
    planes: tuple[tuple[int, int], ...]  # chunks and pixels of the input and the intermediates, in shared memory
    smem_bytes: int  # per team

    def pixels(self, layer: str) -> int:
        return math.prod(self.outputs[layer])


@lru_cache(maxsize=1024)
def tile_outputs(problem: Chain, tile_h: int, tile_w: int) -> tuple[dict[str, tuple[int, int]], dict[str, Border]]:
    """Return the rows and columns of each layer's outputs that a tile needs, and their borders."""
    last = problem.last
    for name, side, size in (("tile_h", tile_h, last.oh), ("tile_w", tile_w, last.ow)):
        at_most(side, max(min(CHOICES[name]), 2 * size - 1), f"{name} (the problem has {size})")
    outputs, borders = {problem.LAYERS[-1]: (tile_h, tile_w)}, {}
    # True if a tile has all rows of an image, and all columns. Then the pixels beyond it are padding in all tiles, and
    # are not computed. Warpgroups whose windows have several pixels need rows of eight.
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
    """True if a tile of its outputs may have any width, on warps and on warpgroups."""
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
    """Return the tensors of a team in shared memory. `slice_k`: channels of the intermediate per block; 0: all."""
    layers, first = problem.layers, problem.first
    outputs, borders = tile_outputs(problem, tile_h, tile_w)
    # A depthwise layer reads the image itself.
    planes = [(0, 0)]
    if not is_depthwise(first):
        rows, columns = input_span(first, *outputs["first"])[0], row_pixels(first, outputs["first"][1])
        planes = [_even(chunks(first.c, first.quantization.types.x), "first" in on_wgmma, rows * columns)]
    for producer, consumer in itertools.pairwise(problem.LAYERS):
        given = chunks(slice_k or layers[producer].k, layers[producer].quantization.types.y)
        planes.append(_even(given, consumer in on_wgmma, math.prod(borders[producer][:2])))
    smem_bytes = 16 * sum(count * pixels for count, pixels in planes)
    check_blocks_per_sm(blocks_per_sm, teams * threads, teams * smem_bytes, 40, target)
    return Geometry(outputs, borders, tuple(planes), smem_bytes)


def _even(count: int, on_wgmma: bool, pixels: int) -> tuple[int, int]:
    """Return the chunks and pixels of a tensor: an even number of chunks if warpgroups read it, two at a time."""
    return count + count % 2 * on_wgmma, plane(pixels)


class Weights(NamedTuple):
    """The place of each layer's weights."""

    in_smem: tuple[str, ...]  # layers whose weights are in shared memory
    on_wgmma: tuple[str, ...]  # layers that warpgroups multiply
    weight_ring: bool  # the last layer's weights pass through a ring of slabs in shared memory


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
