"""The plan of two or three convolutions in one kernel, and its predicted clocks.

The intermediate tensors stay in shared memory. For a tile of the last layer's outputs, a block computes the pixels of
each intermediate that the tile needs: all their channels, or only those that the block's outputs need. Pixels that
neighbouring tiles both need are computed for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

from qconv.errors import Infeasible
from qconv.generator.convolution import ChainPlan
from qconv.generator.families.fused.config import (
    BLOCK_CHOICES,
    CHOICES,
    Fused,
    Geometry,
    Weights,
    geometry,
    is_sliced,
    tile_outputs,
    tiles_of,
    weights_of,
)
from qconv.generator.families.fused.layer import MBARRIER_BYTES, InKernel, LayerConfig, LayerPlan, chunks, of_chunk
from qconv.generator.families.fused.layers import layer_plan
from qconv.generator.plan import Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div, check_choices
from qconv.generator.tiles import BLOCKS_PER_SM_SAYS, check_blocks_per_sm
from qconv.problem.chain import MIDS, Chain
from qconv.targets.target import Target

# Registers per thread. Where threads have as many, up to a third of the estimated need may be missing.
FEW_REGISTERS = 64


class Tensor(NamedTuple):
    """A tile of a tensor in shared memory, as the source names it."""

    name: str
    prefix: str  # of its constants


class Region(NamedTuple):
    """A part of shared memory beside the tensors, as the source names it."""

    type: str
    name: str


class PaddedBorder(NamedTuple):
    """A border of padding that is written once."""

    producer: str  # the layer whose outputs it surrounds
    consumer: str
    tensor: str


class Prepared(NamedTuple):
    """A kernel that prepares a set of weights."""

    kernel: str
    threads: int
    layer: str
    function: str


@dataclass(frozen=True)
class FusedRoles(Roles):
    kernel: str  # the kernel's structure: one_tile, persistent, teams or cluster
    team: str  # which threads compute a tile together: block, teams or parts
    copies: str
    tensors: tuple[Tensor, ...]
    weights_in_smem: tuple[str, ...]
    weights_before_input: tuple[str, ...]  # layers whose weights are loaded before the input, not behind it
    borders: tuple[PaddedBorder, ...]
    prepares: tuple[Prepared, ...]
    last: str
    last_source: str  # the tensor that the last layer reads
    regions: tuple[Region, ...]
    on_wgmma: bool


@dataclass(frozen=True)
class FusedPlan(WaitingPlan, ChainPlan):
    page: ClassVar[str] = "families/fused/page.j2"

    problem: Chain
    config: Fused
    geometry: Geometry
    weights: Weights
    layer_plans: dict[str, LayerPlan]
    cluster: int  # blocks per cluster; they compute a tile together and reach each other's shared memory
    weight_smem_bytes: int  # weights in shared memory, with their mbarriers and channel parameters
    spare_bytes: int  # past the last pixels; warpgroups read them
    smem_bytes: int
    tiles_h: int
    tiles_w: int
    tiles: int  # of all images
    blocks: int  # in the grid; a group of blocks that compute a tile together counts as one

    @property
    def layers(self) -> dict[str, LayerPlan]:
        return self.layer_plans

    @property
    def first(self) -> LayerPlan:
        return self.layer_plans["first"]

    @property
    def last(self) -> str:
        return self.problem.LAYERS[-1]

    @property
    def threads(self) -> int:
        """Threads per team."""
        return self.config.warps * self.target.warp_size

    @property
    def block_threads(self) -> int:
        return self.config.teams * self.threads

    @property
    def has_teams(self) -> bool:
        return self.config.teams > 1

    @property
    def grid_teams(self) -> int:
        """Teams in the grid; they take turns at the tiles."""
        return self.blocks * self.config.teams

    @property
    def stays(self) -> bool:
        """True if a team computes several tiles, one after the other."""
        return self.has_teams or self.grid_teams < self.tiles

    @property
    def clusters(self) -> bool:
        return self.cluster > 1

    @property
    def dot(self) -> str:
        """One dot product for all depthwise layers of bytes: the instruction that serves one pair of types serves all
        of them."""
        found = (layer.dot for layer in self.layer_plans.values() if layer.kind == "depthwise")
        return next((dot for dot in found if dot != "nothing.j2"), "nothing.j2")

    @property
    def by_slices(self) -> bool:
        return self.first.in_kernel.by_slices

    @property
    def copied(self) -> tuple[str, ...]:
        """Layers whose weights, or their channel parameters, all threads copy asynchronously."""
        return tuple(name for name in self.weights.in_smem if self.layer_plans[name].weight_copies)

    @property
    def fetched(self) -> tuple[str, ...]:
        """Layers whose weights one thread fetches by bulk copies."""
        return tuple(name for name in self.weights.in_smem if self.layer_plans[name].fetches)

    @property
    def loads_input(self) -> bool:
        return self.first.loads_image

    @property
    def loads_async(self) -> bool:
        """True if the input is copied asynchronously."""
        return self.loads_input and self.first.asynchronous

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        grid = (self.blocks * self.config.cluster_blocks, 1, 1)
        main = Launch(self.problem.op, grid, self.block_threads, self.smem_bytes, cluster=self.cluster)
        return (*(launch for layer in self.layer_plans.values() for launch in layer.launches), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return tuple(field for layer in self.layer_plans.values() for field in layer.fields)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {
            "x": self.first.alignment["x"],
            **dict.fromkeys(self.problem.packed, 1),
            **{name: n for name, n in self.layer_plans[self.last].alignment.items() if name != "w"},
        }

    @property
    def wants(self) -> tuple[str, ...]:
        of_layers = (want for layer in self.layer_plans.values() for want in layer.wants)
        return (*super().wants, *of_layers, *("async_proxy", "phases") * self.clusters)

    @property
    def weights_behind_input(self) -> bool:
        """True if the last layer's weights are copied after the input. Teams wait for the weights before they begin."""
        return self.loads_input and self.last in self.copied and not self.has_teams

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, part_chunks = self.config, chunks(self.first.block_k, self.problem.first.quantization.types.y)
        return {
            "The config.": (
                Constant("TILE_H", config.tile_h, "output rows of a tile"),
                Constant("TILE_W", config.tile_w, "output columns of a tile"),
                Constant("BLOCKS_PER_SM", config.blocks_per_sm, BLOCKS_PER_SM_SAYS),
                Constant("TEAMS", config.teams, "teams per block; each computes tiles of its own"),
                Constant(
                    "CLUSTER_BLOCKS", config.cluster_blocks, "blocks that compute a tile together", may_be_unused=True
                ),
            ),
            "What follows.": (
                Constant("WARP_SIZE", self.target.warp_size),
                Constant("THREADS", self.threads, "threads per team"),
                Constant("BLOCK_THREADS", self.block_threads, may_be_unused=True),
                Constant("TILES_H", self.tiles_h, "tiles down an image"),
                Constant("TILES_W", self.tiles_w, "tiles across an image"),
                Constant("TILES", self.tiles, "tiles of all images"),
                Constant("GRID_TEAMS", self.grid_teams, "teams in the grid; each computes every GRID_TEAMS-th tile"),
                Constant("LOADS_INPUT", self.loads_input, "the input is loaded to shared memory"),
                Constant("LOADS_ASYNC", self.loads_async, "by asynchronous copies"),
                Constant(
                    "COPIES_WEIGHTS", bool(self.copied), "some weights are copied asynchronously", may_be_unused=True
                ),
                Constant("WEIGHTS_BEHIND_INPUT", self.weights_behind_input, "the last ones after the input"),
                Constant("BY_SLICES", self.by_slices, "a block computes the same slice of channels in all layers"),
                *_window_constants(self.problem, self.geometry),
                *_plane_constants(self.problem, self.geometry, self.by_slices * self.first.block_k),
                Constant(
                    "PART_CHUNKS", part_chunks, "chunks of the first one that a block computes", may_be_unused=True
                ),
                *(Constant("SPARE_CHUNKS", self.spare_bytes // 16, "past the last pixels; warpgroups read them"),)
                * (self.spare_bytes > 0),
                Constant("SMEM_BYTES", self.smem_bytes),
                *self._copies_in_flight,
            ),
        }

    @property
    def _copies_in_flight(self) -> tuple[Constant, ...]:
        """The length of the queue in which the CPU device keeps a thread's copies."""
        if self.target.vendor != "cpu":
            return ()
        loops = (count for name in self.weights.in_smem for count in self.layer_plans[name].weight_copies)
        copies = sum(ceil_div(count, self.block_threads) for count in loops)
        if self.loads_async:
            rows, columns = self.first.source_span
            of_row = columns * ceil_div(self.problem.first.pixel_bytes, self.first.load_bytes)
            across = min(of_row, self.threads)
            copies += ceil_div(of_row, across) * ceil_div(rows, self.threads // across)
        return (Constant("COPIES_IN_FLIGHT", copies, "of a thread"),) * (copies > 0)

    @property
    def structure(self) -> str:
        """The kernel's page in templates/families/fused/kernel."""
        if self.clusters:
            return "cluster"
        return "teams" if self.has_teams else "persistent" if self.stays else "one_tile"

    @property
    def roles(self) -> FusedRoles:
        layers = self.problem.LAYERS
        names = [name for name, (count, _) in zip(("input", *MIDS), self.geometry.planes, strict=False) if count]
        prefixes = ["IN" if name == "input" else name.upper() for name in names]
        return FusedRoles(
            kernel=self.structure,
            team="teams" if self.has_teams else "parts" if self.config.cluster_blocks > 1 else "block",
            copies="copies" if self.loads_async or self.copied else "no_copies",
            tensors=tuple(Tensor(name, at) for name, at in zip(names, prefixes, strict=True)),
            weights_in_smem=self.weights.in_smem,
            weights_before_input=tuple(
                name for name in self.weights.in_smem if not (self.weights_behind_input and name == self.last)
            ),
            borders=tuple(
                PaddedBorder(producer, consumer, tensor)
                for producer, consumer, tensor in zip(layers, layers[1:], MIDS, strict=False)
                if self.layer_plans[producer].bordered
            ),
            prepares=tuple(
                Prepared(launch.kernel, launch.threads, *launch.kernel.split("_", 1)) for launch in self.prepare
            ),
            last=self.last,
            last_source=names[-1],
            regions=(
                *(Region(f"{name}::SmemWeights", f"{name}_weights") for name in self.weights.in_smem),
                *(Region("Planes<SPARE_CHUNKS, 1>", "spare"),) * (self.spare_bytes > 0),
                *(Region("tile::Mbarrier", "mbarrier"),) * self.clusters,
            ),
            on_wgmma=bool(self.weights.on_wgmma),
        )


def _window_constants(problem: Chain, room: Geometry) -> tuple[Constant, ...]:
    """Return the constants that map a tile to its first pixel of each intermediate tensor, padding not counted."""
    return tuple(
        constant
        for name, producer, consumer in zip(MIDS, problem.LAYERS, problem.LAYERS[1:], strict=False)
        for (stride_h, stride_w), (top, left, *_) in ((problem.layers[consumer].stride, problem.layers[consumer].pad),)
        for constant in (
            Constant(f"{name.upper()}_STRIDE_H", stride_h),
            Constant(f"{name.upper()}_STRIDE_W", stride_w),
            Constant(f"{name.upper()}_PAD_TOP", top - room.borders[producer].top),
            Constant(f"{name.upper()}_PAD_LEFT", left - room.borders[producer].left),
        )
    )


def _plane_constants(problem: Chain, room: Geometry, slice_k: int) -> tuple[Constant, ...]:
    """The chunks and pixels of each tensor in shared memory. Warpgroups read an even number of chunks."""
    constants: list[Constant] = []
    if room.planes[0][0]:
        constants += [Constant("IN_SMEM_CHUNKS", room.planes[0][0]), Constant("IN_PLANE", room.planes[0][1])]
    for name, producer, (count, pixels) in zip(MIDS, problem.LAYERS, room.planes[1:], strict=False):
        given = problem.layers[producer].quantization.types.y
        prefix, of_channels = name.upper(), chunks(slice_k or problem.layers[producer].k, given)
        constants += [
            Constant(f"{prefix}_CHUNKS", of_channels, f"chunks of {of_chunk(given)} channels that a block needs"),
            Constant(f"{prefix}_SMEM_CHUNKS", count, "chunks in shared memory"),
            Constant(f"{prefix}_PLANE", pixels, "pixels of a chunk"),
        ]
    return tuple(constants)


def plan(problem: Chain, config: Fused, target: Target) -> FusedPlan:
    check_choices(config, BLOCK_CHOICES if len(problem.LAYERS) > 2 else CHOICES)
    teams, threads = config.teams, config.warps * target.warp_size
    _check_threads(config, threads, target)
    weights = weights_of(problem, config.weights_in_smem, config.on_wgmma, target)
    sliced, cluster = is_sliced(problem, config.cluster_blocks), cluster_of(problem, config, target)
    layers = _layers(problem, config, weights, cluster, target)
    slice_k = layers["first"].block_k if sliced else 0
    tile = config.tile_h, config.tile_w
    room = geometry(problem, *tile, teams, threads, config.blocks_per_sm, weights.on_wgmma, target, slice_k)
    weight_smem_bytes = sum(layers[name].weight_smem_bytes for name in weights.in_smem)
    spare_bytes = _spare_bytes(layers, weights, room, weight_smem_bytes)
    smem_bytes = teams * room.smem_bytes + weight_smem_bytes + spare_bytes + MBARRIER_BYTES * (cluster > 1)
    estimated = max(layer.registers for layer in layers.values())
    registers = least_registers(estimated, config.blocks_per_sm * teams * threads, target)
    registers = max(registers, *(layer.registers for layer in layers.values() if not layer.spills), 0)
    check_blocks_per_sm(config.blocks_per_sm, teams * threads, smem_bytes, registers, target)
    tiles_h, tiles_w, tiles = tiles_of(problem, config.tile_h, config.tile_w)
    at_most(tiles * config.cluster_blocks, 2**30, "blocks of tiles")
    return FusedPlan(
        problem=problem,
        config=config,
        target=target,
        geometry=room,
        weights=weights,
        layer_plans=layers,
        cluster=cluster,
        weight_smem_bytes=weight_smem_bytes,
        spare_bytes=spare_bytes,
        smem_bytes=smem_bytes,
        tiles_h=tiles_h,
        tiles_w=tiles_w,
        tiles=tiles,
        blocks=blocks_of(tiles, config, cluster, target),
    )


def cluster_of(problem: Chain, config: Fused, target: Target) -> int:
    """Return the blocks per cluster. A block of a cluster computes some channels of the intermediate and sends them to
    the others. Without clusters a block computes all channels, or the slice that its own outputs need."""
    sliced = is_sliced(problem, config.cluster_blocks)
    return config.cluster_blocks if target.bulk_copies and not sliced else 1


def blocks_of(tiles: int, config: Fused, cluster: int, target: Target) -> int:
    """Return the blocks in the grid; a group of blocks that compute a tile together counts as one."""
    return min(ceil_div(tiles, config.teams), _room(config, cluster, target))


def _check_threads(config: Fused, threads: int, target: Target) -> None:
    at_most(config.teams * threads, target.threads_per_block, "threads of a block")
    if config.teams > 1 and (config.cluster_blocks > 1 or not config.weights_in_smem):
        raise Infeasible(
            f"teams={config.teams}: teams of a block share weights in shared memory, and no tile; 1 serves it"
        )
    if target.vendor == "amd":  # its compiler does not limit registers to what larger blocks leave
        at_most(config.warps, 8, f"warps of a block on {target.name}")


def _layers(
    problem: Chain,
    config: Fused,
    weights: Weights,
    cluster: int,
    target: Target,
) -> dict[str, LayerPlan]:
    """Plan each layer for the kernel."""
    last, by_slices = problem.LAYERS[-1], is_sliced(problem, config.cluster_blocks)
    blocks = {"first": config.cluster_blocks if by_slices else cluster, last: config.cluster_blocks}
    outputs, borders = tile_outputs(problem, config.tile_h, config.tile_w)
    layers: dict[str, LayerPlan] = {}
    for name in problem.LAYERS:
        layer_config = LayerConfig(
            name,
            name == last,
            *outputs[name],
            blocks.get(name, 1),
            name in weights.on_wgmma,
            *config.subtile(name),
            config.warps // 4 * (weights.weight_ring and name == last),
            layers["first"].block_k if by_slices and name == last else 0,
        )
        asks = InKernel(
            config.warps * target.warp_size,
            borders.get(name),
            name in weights.in_smem,
            by_slices,
        )
        layers[name] = layer_plan(problem.layers[name], layer_config, target, asks)
        whole = of_chunk(problem.layers[name].quantization.types.y)
        if name == "first" and blocks[name] > 1 and layers[name].block_k % whole:
            raise Infeasible(
                f"cluster_blocks={config.cluster_blocks}: {layers[name].block_k} channels of a block are no whole "
                f"chunks of {whole}; first_n=4 serves any"
            )
    return layers


def least_registers(estimated: int, threads: int, target: Target) -> int:
    """Return the registers that a thread must have. A third of the estimate can be recomputed or spilled where threads
    have FEW_REGISTERS; with fewer, ptxas 13.0 loses pointers, so that kernels read address 0, or runs for minutes."""
    return 2 * estimated // 3 if threads * FEW_REGISTERS <= target.registers_per_sm else estimated


def _spare_bytes(layers: dict[str, LayerPlan], weights: Weights, room: Geometry, weight_smem_bytes: int) -> int:
    """Return the bytes to append to shared memory, because warpgroups read past the end of a tile's pixels."""
    beyond = 0
    for at, (name, layer) in enumerate(layers.items()):
        if name in weights.on_wgmma:
            follow_bytes = sum(16 * count * pixels for count, pixels in room.planes[at + 1 :]) + weight_smem_bytes
            beyond = max(beyond, layer.past_bytes - follow_bytes)
    return 16 * ceil_div(beyond, 16)


def _room(config: Fused, cluster: int, target: Target) -> int:
    """Return how many blocks are resident on the device; a group that computes a tile together counts as one."""
    room = config.blocks_per_sm * target.processors
    # Clusters of more than two blocks do not fill the GPCs that they are placed in.
    usable = int(0.9 * room) if cluster > 2 else room
    return max(1, usable // config.cluster_blocks)
