"""The `mma` family: implicit GEMM on matrix instructions. There is one page; the plan chooses the files of its roles:
the instruction, the loader, the schedule, and how outputs are combined and stored."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

from qconv.arithmetic.step import Argument
from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.atom import InstructionFiles
from qconv.generator.convolution import (
    ConvolutionPlan,
    argument_fields,
    channel_arguments,
    fold_constants,
    fold_launches,
    pads_with_zero_point,
    problem_constants,
)
from qconv.generator.expect.features import filled, log
from qconv.generator.families.mma.config import WORD, Combine, Mma, Shape, checked, in_cluster, whole_tiles
from qconv.generator.plan import Constant, Field, Launch, Roles, WaitingPlan, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# Size of the padding that all blocks read: 128 cache lines, spread over many slices of L2.
PADDING_WORDS = 4096


@dataclass(frozen=True)
class MmaRoles(InstructionFiles, Roles):
    """Files of the page's roles, and switches for optional code."""

    loader: Literal["async", "registers", "buffers"]
    fills_padding: bool  # copies past the end of x's buffer are padding, but the padding is not zero
    gathers_x: bool  # loads x byte by byte
    gathers_w: bool
    reads_padding: bool  # padding is read from device memory, because asynchronous copies can only fill with zeros
    combine: Combine
    split: int
    split_last_wave: bool
    part: str  # a block's part of a tile: whole, split or last_wave, the latter two also of a cluster
    order: Literal["strips", "rows"]  # in which blocks take tiles
    persist: bool
    stream_k: bool
    work: Literal["stream_k", "tiles"]  # of a persistent block
    schedule: Literal["tile", "persist"]
    prefetch_fragments: bool
    promotes: bool  # sums of an instruction are added up in fp32
    multiplies: Literal["multiply_add", "multiply_promoted"]  # the function
    gemm: bool  # every output pixel is a row of x
    one_tap: bool
    taps_first: bool
    staged: bool
    store: Literal["direct", "staged"]
    channel_arguments: tuple[Argument, ...]
    channel_parameters_are_late: bool


@dataclass(frozen=True)
class MmaPlan(WaitingPlan, ConvolutionPlan):
    page: ClassVar[str] = "families/mma/page.j2"

    problem: Conv2d
    config: Mma
    shape: Shape
    vector_n: int  # channels that a lane writes at once
    combine: Combine
    smem_bytes: int
    whole: int  # tiles that are not split
    blocks: int
    sums: int  # sums in device memory, for the tiles that blocks share

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        cluster = self.config.split if self.combine == "cluster" else 1
        main = Launch("conv2d_mma", (self.blocks, 1, 1), self.shape.threads, self.smem_bytes, cluster=cluster)
        return (*fold_launches(self.problem), main)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        own: list[Field] = []
        if self.reads_padding:
            own.append(Field("padding", "int*", "workspace", "x_zero in every element", None, PADDING_WORDS))
        if self.combine == "scratch":
            shared = self.shape.tiles - self.whole
            own.append(Field("sums", "Sum*", "scratch", "sums of the tiles that several blocks share", None, self.sums))
            own.append(Field("arrived", "int*", "scratch", "steps added so far to each of these tiles", None, shared))
        return argument_fields(self.problem, tuple(own))

    @cached_property
    def alignment(self) -> dict[str, int]:
        t = self.problem.quantization.types
        y_bytes = 16 if self.config.staged else self.vector_n * t.y.bytes
        alignment = {"x": self.shape.x_bytes, "w": self.shape.w_bytes, "y": y_bytes}
        if t.residual is not None:
            alignment["residual"] = self.vector_n * t.residual.bytes
        return alignment

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": problem_constants(self.problem, filter_rows=True),
            "The config.": self._config_constants,
            "Derived values.": self._constants_that_follow,
        }

    @property
    def _config_constants(self) -> tuple[Constant, ...]:
        config = self.config
        return (
            Constant("TILE_M", config.tile_m, "output pixels per tile"),
            Constant("TILE_N", config.tile_n, "output channels per tile"),
            Constant("TILE_K", config.tile_k, "bytes of the reduction per step"),
            Constant("WARP_M", config.warp_m, "output pixels per warp"),
            Constant("WARP_N", config.warp_n, "output channels per warp"),
            Constant(
                "PIPELINE_STAGES",
                config.pipeline_stages,
                "steps in shared memory: one is multiplied, the others are loaded",
            ),
            *((Constant("SPLIT", config.split, "blocks that share a tile"),) if config.split > 1 else ()),
            *((Constant("WHOLE", self.whole, "tiles that one block computes"),) if config.split_last_wave else ()),
            *(
                (
                    Constant(
                        "TILE_SWIZZLE_WIDTH",
                        config.tile_swizzle_width,
                        "tiles of pixels that run together, with the same weights",
                    ),
                )
                * (config.tile_swizzle_width > 1)
            ),
        )

    @property
    def _constants_that_follow(self) -> tuple[Constant, ...]:
        problem, config, shape = self.problem, self.config, self.shape
        atom = shape.atom
        return (
            Constant("WARP_SIZE", self.target.warp_size),
            Constant("THREADS", shape.threads),
            Constant("ATOM_M", atom.pixels, "output pixels per instruction"),
            Constant("ATOM_N", atom.channels, "output channels per instruction"),
            Constant("ATOM_K", atom.instruction.k_bytes, "bytes of the reduction per instruction"),
            Constant("K_BLOCK", atom.block_k, "bytes of the reduction per fragment"),
            Constant("STEPS", shape.steps, "steps along the reduction"),
            Constant(
                "HAS_REDUCTION_REMAINDER",
                self._reduction_bytes % config.tile_k != 0,
                "the last step reaches past the reduction",
            ),
            Constant("TILES_M", shape.tiles_m, "tiles along the pixels"),
            Constant("TILES_N", shape.tiles_n, "tiles along the channels of a group"),
            *((Constant("TILES", shape.tiles), Constant("BLOCKS", self.blocks)) if config.persist else ()),
            Constant("X_BYTES", shape.x_bytes, "bytes per copy of x; below a word, one element"),
            Constant("W_BYTES", shape.w_bytes, "bytes per copy of w; below a word, one element"),
            Constant("VECTOR_N", self.vector_n, "channels per store"),
            *self._copies_in_flight,
            *self._buffer_sizes,
            Constant("SMEM_BYTES", self.smem_bytes),
            *fold_constants(problem),
            *((Constant("PADDING_WORDS", PADDING_WORDS, "words of four x_zero each"),) * self.reads_padding),
        )

    @property
    def _copies_in_flight(self) -> tuple[Constant, ...]:
        """Return the length of a thread's queue of copies, which the CPU device needs."""
        if self.target.vendor != "cpu" or not self.target.async_copies:
            return ()
        vectors = self.shape.x_vectors + self.shape.w_vectors
        parameters = ceil_div(self.config.tile_n, self.shape.threads) * len(channel_arguments(self.problem))
        return (
            Constant(
                "COPIES_IN_FLIGHT", self.config.pipeline_stages * vectors + parameters, "queued copies per thread"
            ),
        )

    @property
    def _buffer_sizes(self) -> tuple[Constant, ...]:
        if self.target.buffer_word is None:
            return ()
        x, w = (math.prod(t.shape) * ELEMENT_TYPES[t.dtype].bytes for t in self.problem.inputs[:2])
        return Constant("X_SIZE", x, "bytes of x"), Constant("W_SIZE", w, "bytes of w")

    @property
    def reads_padding(self) -> bool:
        """True where padding is not the zeros with which an asynchronous copy fills."""
        return self.target.async_copies and self._pads_in_copies

    @property
    def _pads_in_copies(self) -> bool:
        """True where padding that is not zero is loaded in copies of several bytes."""
        return not self._gathers_x and pads_with_zero_point(self.problem)

    @property
    def _part(self) -> str:
        if self.config.split == 1:
            return "whole"
        if self.config.split_last_wave:
            return "last_wave_cluster" if self.combine == "cluster" else "last_wave"
        return "cluster" if self.combine == "cluster" else "split"

    @property
    def roles(self) -> MmaRoles:
        problem, config, target = self.problem, self.config, self.target
        one_tap = problem.r * problem.s == 1 and not any(problem.pad)
        promotes = problem.quantization.promoted_sums and self.shape.atom.instruction.lost_bits > 0
        return MmaRoles(
            **vars(self.shape.atom.files(problem.quantization, target, "tiles")),
            loader="async" if target.async_copies else "registers" if target.buffer_word is None else "buffers",
            fills_padding=target.buffer_word is not None and self._pads_in_copies,
            gathers_x=self._gathers_x,
            gathers_w=self.shape.w_bytes < WORD,
            reads_padding=self.reads_padding,
            combine=self.combine,
            split=config.split,
            split_last_wave=bool(config.split_last_wave),
            part=self._part,
            order="strips" if config.tile_swizzle_width > 1 else "rows",
            persist=bool(config.persist),
            stream_k=bool(config.stream_k),
            work="stream_k" if config.stream_k else "tiles",
            schedule="persist" if config.persist else "tile",
            prefetch_fragments=bool(config.prefetch_fragments),
            promotes=promotes,
            multiplies="multiply_promoted" if promotes else "multiply_add",
            gemm=one_tap and problem.stride == (1, 1),
            one_tap=one_tap,
            taps_first=self._taps_first,
            staged=bool(config.staged),
            store="staged" if config.staged else "direct",
            channel_arguments=channel_arguments(problem),
            channel_parameters_are_late=self._channel_parameters_are_late,
        )

    @property
    def _gathers_x(self) -> bool:
        return self.shape.x_bytes < WORD

    @property
    def _reduction_bytes(self) -> int:
        return self.problem.reduction * self.problem.quantization.types.x.bytes

    @property
    def _taps_first(self) -> bool:
        """True where the reduction runs over all taps of some channels before the next channels, so that a step finds
        most of its input in the cache lines of the last one."""
        problem, config = self.problem, self.config
        channel_bytes = problem.c_group * problem.quantization.types.x.bytes
        return (
            problem.layout == "nhwc"
            and channel_bytes % config.tile_k == 0
            and problem.r * problem.s > 1
            and channel_bytes > config.tile_k
            # ^The few steps of a split tile read contiguous weights instead, which come from device memory.
            and (config.split == 1 or config.split_last_wave > 0)
        )

    @property
    def _channel_parameters_are_late(self) -> bool:
        """True where channel parameters may still be in flight when the last step has been multiplied. They are loaded
        with step `pipeline_stages - 1`, and `prefetch_fragments` waits for one step more than there are."""
        config = self.config
        if not (self.target.async_copies and channel_arguments(self.problem)):
            return False
        fewest = 1 if config.stream_k else self.shape.steps // config.split
        return fewest + config.prefetch_fragments < config.pipeline_stages


def plan(problem: Conv2d, config: Mma, target: Target) -> MmaPlan:
    shape = checked(problem, config, target)
    vector_n = _vector(problem, config, shape)
    combine = _combine(config, target)
    smem_bytes = _smem_bytes(problem, config, target, shape, combine, vector_n)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    whole = whole_tiles(config, target, shape.tiles)
    blocks = config.persist * target.processors or whole + (shape.tiles - whole) * config.split
    at_most(blocks, 2**31 - 1, "blocks")
    sums = _sums(problem, config, shape, whole) if combine == "scratch" else 0
    at_most(problem.quantization.types.sum.bytes * sums, 2**30, "bytes of scratch memory")
    return MmaPlan(
        problem=problem,
        config=config,
        target=target,
        shape=shape,
        vector_n=vector_n,
        combine=combine,
        smem_bytes=smem_bytes,
        whole=whole,
        blocks=blocks,
        sums=sums,
    )


def _combine(config: Mma, target: Target) -> Combine:
    return "cluster" if in_cluster(config, target) else "scratch" if config.split > 1 or config.stream_k else "none"


def _sums(problem: Conv2d, config: Mma, shape: Shape, whole: int) -> int:
    """Return the number of sums in device memory: products, and with zero points of the weights the sums of windows."""
    shared = shape.tiles - whole
    sums = shared * config.tile_m * config.tile_n
    if problem.quantization.w_zero_point:
        sums += shared * config.tile_m * shape.atom.channels * (config.tile_n // config.warp_n)
    return sums


def _vector(problem: Conv2d, config: Mma, shape: Shape) -> int:
    """Return the channels that a lane writes at once: neighbours of one pixel, all of which exist or none."""
    lane = config.warp_n // shape.atom.channels * shape.atom.lane_channels
    t = problem.quantization.types
    widest = min(lane & -lane, 16 // max(t.y.bytes, t.residual.bytes if t.residual else 0))
    return math.gcd(widest, problem.y_group)


def _smem_bytes(problem: Conv2d, config: Mma, target: Target, shape: Shape, combine: Combine, vector_n: int) -> int:
    q = problem.quantization
    of_channel = sum(argument.bytes for argument in channel_arguments(problem))
    kept = ceil_div(of_channel * config.tile_n, 16) * 16 * (2 if config.persist else 1)
    phases = [config.pipeline_stages * config.tile_k * (config.tile_m + config.tile_n)]
    if config.staged:
        staged = config.tile_m * (config.tile_n * q.types.y.bytes + 16)
        if config.persist:
            kept += staged
        else:
            phases.append(staged)
    if combine == "cluster":
        of_lane = config.warp_m * config.warp_n // target.warp_size
        slots = ceil_div(of_lane // vector_n, config.split)
        kept += config.split * slots * shape.threads * q.types.sum.bytes * (vector_n + q.w_zero_point)
    return kept + max(phases) + 16 * (combine != "none")


def features(plan: MmaPlan) -> dict[str, float]:
    """Return the inputs for the cost model's correction: how full the tiles are, and how long a block runs."""
    problem, config, shape, main = plan.problem, plan.config, plan.shape, plan.main
    per_sm = plan.target.smem_bytes_per_sm // (main.smem_bytes + 1024)
    return {
        "m_filled": filled(problem.pixels, config.tile_m),
        "n_filled": filled(problem.k_group, config.tile_n),
        "steps": log(shape.steps * shape.tiles / plan.blocks),
        "warp_tile": log(config.warp_m * config.warp_n),
        "x_bytes": log(shape.x_bytes),
        "vector_n": log(plan.vector_n),
        "warps": log((config.tile_m // config.warp_m) * (config.tile_n // config.warp_n)),
        "warp_shape": log(config.warp_m / config.warp_n),
        "tile": log(config.tile_m * config.tile_n),
        "steps_filled": filled(problem.reduction, config.tile_k),
        "threads_per_sm": log(max(1, min(per_sm, plan.target.threads_per_sm // main.threads)) * main.threads),
    }
