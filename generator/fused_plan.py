"""What follows from two or three convolutions, a config and a target, and how long their kernel takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from qconv.fused import MIDS, Chain
from qconv.generator.convolution import ChainPlan, pads_with_zero_point
from qconv.generator.fused_space import Fused, Geometry, Weights
from qconv.generator.layer import LayerPlan
from qconv.generator.layer_config import chunks
from qconv.generator.plan import Constant, Field, Launch, Roles, ceil_div
from qconv.generator.tiles import BLOCKS_PER_SM_SAYS
from qconv.generator.waiting import WaitingPlan

# Fitted to 166 configs on an H200.
LAUNCH = 4100  # clocks of a launch
EXCHANGE = 1750  # clocks in which the blocks of a tile exchange the intermediate
HOLDING = 130  # bytes of weights to hold that come in a clock
STREAMING = 11.4  # bytes of the tiles that come in a clock
HIDING = 1.9  # how much longer instructions take with one warp, for others hide what it waits for
LACKING = 1.0  # how much longer a layer takes that lacks as many registers as it has
# The best of 163 chains took about 0.92 of the clocks that this counts; with 0.9 fewer are decided wrongly against two.
FITTED = 0.9


@dataclass(frozen=True)
class FusedRoles(Roles):
    loads_input: bool
    loads_async: bool
    copies: bool
    copied: tuple[str, ...]
    fetched: tuple[str, ...]
    weights_in_smem: tuple[str, ...]
    weights_before_input: tuple[str, ...]  # whose weights are asked for before the input,
    weights_behind_input: tuple[str, ...]  # and behind it, where a block has one team
    waits_before_first: bool  # for copies
    waits_before_second: bool
    weight_ring: bool
    on_wgmma: tuple[str, ...]
    pads: tuple[str, ...]  # layers that write the padding of the next, where it is another for each tile
    bordered: tuple[str, ...]  # layers around whose outputs it is the same
    padded: tuple[str, ...]  # layers whose windows reach beyond their inputs
    mid_chunks: tuple[str, ...]  # of each intermediate tensor, as the source spells them
    last: str
    spare_bytes: int
    cluster_blocks: int
    teams: bool
    block_threads: str
    clusters: bool
    by_slices: bool  # a block has some channels, the same in all layers
    counts_tiles: bool  # mbarriers have a phase for each tile
    stays: bool
    kinds: frozenset[str]
    depthwise: tuple[str, ...]  # layers of that kind


@dataclass(frozen=True)
class FusedPlan(WaitingPlan, ChainPlan):
    page: ClassVar[str] = "fused/page.j2"

    problem: Chain
    config: Fused
    geometry: Geometry
    weights: Weights
    layer_plans: dict[str, LayerPlan]
    cluster: int  # blocks that have a tile together and reach each other's shared memory
    weight_smem_bytes: int  # of the weights in shared memory, with what belongs to them
    spare_bytes: int  # past the last pixels, which warpgroups read
    smem_bytes: int
    tiles_h: int
    tiles_w: int
    tiles: int  # of all images
    blocks: int  # or groups of blocks that have a tile together

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
        """Threads of a team."""
        return self.config.warps * self.target.warp_size

    @property
    def block_threads(self) -> int:
        return self.config.teams * self.threads

    @property
    def has_teams(self) -> bool:
        return self.config.teams > 1

    @property
    def grid_teams(self) -> int:
        """Teams that have tiles in turn."""
        return self.blocks * self.config.teams

    @property
    def stays(self) -> bool:
        """Whether a block has several tiles, one after the other."""
        return self.has_teams or self.grid_teams < self.tiles

    @property
    def clusters(self) -> bool:
        return self.cluster > 1

    @property
    def by_slices(self) -> bool:
        return self.first.in_kernel.by_slices

    @property
    def copied(self) -> tuple[str, ...]:
        """Layers whose weights come by asynchronous copies."""
        return tuple(name for name in self.weights.in_smem if self.layer_plans[name].weight_copies)

    @property
    def fetched(self) -> tuple[str, ...]:
        """Layers whose weights come by bulk copies."""
        return tuple(name for name in self.weights.in_smem if self.layer_plans[name].fetches)

    @property
    def loads_input(self) -> bool:
        return self.first.loads_image

    @property
    def loads_async(self) -> bool:
        """Whether the input comes by asynchronous copies."""
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
        wants = {*super().wants, *(want for layer in self.layer_plans.values() for want in layer.wants)}
        asked = {
            "cluster": self.clusters,
            "parts": self.clusters,
            "phases": self.clusters and self.stays,
            "bulk": bool(self.fetched),
            "teams": self.has_teams,
            "copies": self.loads_async or bool(self.copied),
            "kept": self.overlaps and self.loads_input and not self.loads_async,
            "fill": self.loads_async and pads_with_zero_point(self.problem.first),
        }
        return tuple(sorted(wants | {want for want, is_asked in asked.items() if is_asked}))

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, part_chunks = self.config, self.first.block_k // 16
        in_chunks, in_plane = self.geometry.planes[0]
        return {
            "The config.": (
                Constant("TILE_H", config.tile_h, "output rows of a block"),
                Constant("TILE_W", config.tile_w, "output columns of a block"),
                Constant("BLOCKS_PER_SM", config.blocks_per_sm, BLOCKS_PER_SM_SAYS),
                *(Constant("TEAMS", config.teams, "of a block, each with tiles of its own"),) * self.has_teams,
                *(Constant("CLUSTER_BLOCKS", config.cluster_blocks, "blocks that have a tile together"),)
                * (config.cluster_blocks > 1),
            ),
            "What follows.": (
                Constant("WARP_SIZE", self.target.warp_size),
                Constant("THREADS", self.threads, "of a team" * self.has_teams),
                *(Constant("BLOCK_THREADS", self.block_threads),) * self.has_teams,
                Constant("TILES_H", self.tiles_h),
                Constant("TILES_W", self.tiles_w),
                Constant("TILES", self.tiles),
                Constant("GRID_TEAMS", self.grid_teams, "that have tiles in turn"),
                *_window_constants(self.problem, self.geometry),
                *(Constant("IN_CHUNKS", in_chunks), Constant("IN_PLANE", in_plane)) * self.loads_input,
                *_plane_constants(self.problem, self.geometry, self.by_slices * self.first.block_k),
                *(Constant("PART_CHUNKS", part_chunks, "of a block of a cluster"),) * self.clusters,
                *(Constant("SPARE_BYTES", self.spare_bytes, "past the last, that warpgroups read"),)
                * (self.spare_bytes > 0),
                Constant("SMEM_BYTES", self.smem_bytes),
                *self._copies_in_flight,
            ),
        }

    @property
    def _copies_in_flight(self) -> tuple[Constant, ...]:
        """The CPU device keeps a thread's copies in a queue."""
        if self.target.vendor != "cpu":
            return ()
        loops = (count for name in self.weights.in_smem for count in self.layer_plans[name].weight_copies)
        copies = sum(ceil_div(count, self.block_threads) for count in loops)
        if self.loads_async:
            rows, columns = self.first.source_span
            of_row = columns * ceil_div(self.problem.first.c, self.first.load_bytes)
            across = min(of_row, self.threads)
            copies += ceil_div(of_row, across) * ceil_div(rows, self.threads // across)
        return (Constant("COPIES_IN_FLIGHT", copies, "of a thread"),) * (copies > 0)

    @property
    def roles(self) -> FusedRoles:
        copies = self.loads_async or bool(self.copied)
        behind = (self.last,) * (self.loads_input and self.last in self.copied and not self.has_teams)
        return FusedRoles(
            loads_input=self.loads_input,
            loads_async=self.loads_async,
            copies=copies,
            copied=self.copied,
            fetched=self.fetched,
            weights_in_smem=self.weights.in_smem,
            weights_before_input=tuple(name for name in self.weights.in_smem if name not in behind),
            weights_behind_input=behind,
            # Teams wait for the weights before their first tile.
            waits_before_first=self.loads_async if self.has_teams else copies and self.loads_input,
            waits_before_second=not self.has_teams and copies and (bool(behind) or not self.loads_input),
            weight_ring=self.weights.weight_ring,
            on_wgmma=self.weights.on_wgmma,
            pads=tuple(name for name, layer in self.layer_plans.items() if layer.fills),
            bordered=tuple(name for name, layer in self.layer_plans.items() if layer.bordered),
            padded=tuple(name for name, layer in self.layer_plans.items() if layer.is_padded),
            mid_chunks=_mid_chunks(self.problem, self.geometry),
            last=self.last,
            spare_bytes=self.spare_bytes,
            cluster_blocks=self.config.cluster_blocks,
            teams=self.has_teams,
            block_threads=self.first.in_kernel.block_threads,
            clusters=self.clusters,
            by_slices=self.by_slices,
            counts_tiles=self.clusters or self.weights.weight_ring,
            stays=self.stays,
            kinds=frozenset(layer.kind for layer in self.layer_plans.values()),
            depthwise=tuple(name for name, layer in self.layer_plans.items() if layer.kind == "depthwise"),
        )

    def cost(self) -> float:
        config, target = self.config, self.target
        works = [layer.work for layer in self.layer_plans.values()]
        issued, longest = sum(work.issued for work in works), sum(work.longest for work in works)
        if target.vendor == "cpu":  # one thread after the other
            return self.tiles * config.cluster_blocks * issued
        turns = ceil_div(self.tiles, self.grid_teams)
        resident = min(
            config.blocks_per_sm * config.teams, ceil_div(self.tiles * config.cluster_blocks, target.processors)
        )
        lacking = 1 + LACKING * self._lacking
        issued, longest = issued * lacking * (1 + HIDING / (resident * config.warps)), longest * lacking
        tile_bytes = self.problem.io_bytes / self.tiles / config.cluster_blocks
        # What all blocks of a multiprocessor issue, what the longest warp of one waits for, what the memory brings.
        turn = max(resident * issued, longest, resident * tile_bytes / STREAMING) + (
            EXCHANGE if config.cluster_blocks > 1 and not self.by_slices else 0
        )
        in_chunks, in_plane = self.geometry.planes[0]
        first_bytes = resident * 16 * in_chunks * in_plane  # that all wait for
        return FITTED * (
            turns * turn + LAUNCH + first_bytes / STREAMING + config.blocks_per_sm * self.weight_smem_bytes / HOLDING
        )

    @property
    def _lacking(self) -> float:
        """Registers that a thread lacks, over those that it has. Warpgroups are left out: their sums may not spill,
        so that more registers are asked for than they need."""
        registers = [layer.registers for layer in self.layer_plans.values() if layer.kind != "warpgroup"]
        threads = self.config.blocks_per_sm * self.block_threads
        return max(0.0, max(registers, default=0) * threads / self.target.registers_per_sm - 1)


def _window_constants(problem: Chain, room: Geometry) -> tuple[Constant, ...]:
    """Where a tile's part of what each layer gives begins: its windows, without the padding that lies around it."""
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
    of_chunks = "of 16 channels, of a block" if slice_k else "of 16 channels"
    return tuple(
        constant
        for name, producer, (_, pixels) in zip(MIDS, problem.LAYERS, room.planes[1:], strict=False)
        for constant in (
            Constant(f"{name.upper()}_CHUNKS", chunks(slice_k or problem.layers[producer].k), of_chunks),
            Constant(f"{name.upper()}_PLANE", pixels, "pixels of a chunk"),
        )
    )


def _mid_chunks(problem: Chain, room: Geometry) -> tuple[str, ...]:
    """Warpgroups read two chunks at a time."""
    return tuple(
        f"{name.upper()}_CHUNKS" + " + 1" * (count > chunks(problem.layers[producer].k))
        for name, producer, (count, _) in zip(MIDS, problem.LAYERS, room.planes[1:], strict=False)
    )
