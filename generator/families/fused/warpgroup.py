"""A layer that warpgroups compute by wgmma, with both operands in shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from qconv.arithmetic.epilogue import steps as epilogue_steps
from qconv.errors import Infeasible
from qconv.generator.convolution import input_span
from qconv.generator.cost_units import of_activation
from qconv.generator.families.fused.layer import (
    ALONE,
    MBARRIER_BYTES,
    RUN_PIXELS,
    InKernel,
    LayerConfig,
    LayerPlan,
    LayerRoles,
    Work,
    check_blocks,
    check_subtile,
    chunks,
    fetches,
    fits_wgmma,
    plane,
    ring,
    ring_bytes,
    row_pixels,
)
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# The most steps that a loop is unrolled by: many, because warpgroups load no operand to registers.
MOST_UNROLLED = 36
GROUP_WARPS = 4


@dataclass(frozen=True)
class WarpgroupRoles(LayerRoles):
    atoms: int
    spelled: str  # the instruction in PTX
    types: str
    sum_registers: tuple[str, ...]  # the instruction's operands for the sums of each atom
    turns: str  # which slabs are in shared memory: turns (some at a time) or resident (all)


@dataclass(frozen=True, kw_only=True)
class WarpgroupLayer(LayerPlan):
    kind: ClassVar[str] = "warpgroup"

    slabs: int
    block_slabs: int
    buffers: int  # slabs of the ring; 0: all slabs are in shared memory
    of_slab: int  # warpgroups that multiply a slab of the ring together
    pairs: int  # pairs of chunks of 16 input channels
    positions: int  # pixels of the input at which windows begin
    eights_stride: int  # pixels from eight neighbours to the next eight

    @property
    def taps(self) -> int:
        return self.problem.r * self.problem.s

    @property
    def own_config(self) -> tuple[Constant, ...]:
        return (Constant("ATOMS", self.config.n, "eights of channels per warpgroup"),)

    @property
    def own_constants(self) -> tuple[Constant, ...]:
        is_rolled = self.taps * self.pairs > MOST_UNROLLED
        return (
            Constant("RUN", RUN_PIXELS, "pixels of one instruction"),
            Constant("SLAB_K", self.slab_k, "output channels per slab, which is a warpgroup's"),
            Constant("ALL_SLABS", self.slabs),
            Constant("BLOCK_SLABS", self.block_slabs, "slabs per block"),
            Constant("BUFFERS", self.buffers or self.block_slabs, "slabs of weights that shared memory holds"),
            Constant("OF_SLAB", self.of_slab or self._resident, "warpgroups that multiply a slab together"),
            Constant("TAPS", self.taps),
            Constant("CHUNKS", 2 * self.pairs, "chunks of 16 input channels, zeros to an even number"),
            Constant("UNITS", self.taps * 2 * self.pairs, "chunks of the reduction"),
            Constant("POSITIONS", self.positions, "pixels of the input at which windows begin"),
            Constant("EIGHTS_STRIDE", self.eights_stride, "pixels from eight pixels to the next eight"),
            Constant("UNROLL_TAPS", 1 if is_rolled else self.taps, "taps that are written out"),
            Constant("UNROLL_CHUNKS", 4 if is_rolled else self.pairs, "pairs of chunks that are written out"),
        )

    @property
    def _resident(self) -> int:
        return self._of_resident_slab(self.in_kernel.threads // self.target.warp_size // GROUP_WARPS)

    def _of_resident_slab(self, groups: int) -> int:
        """Warpgroups that multiply a slab together, where all slabs are in shared memory."""
        return max(1, min(groups // self.block_slabs, ceil_div(self.positions, RUN_PIXELS)))

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, "async_proxy", *("phases",) * (self.buffers > 0))

    @property
    def roles(self) -> WarpgroupRoles:
        t, instruction = self.problem.quantization.types, self.target.warpgroup
        assert instruction is not None
        return WarpgroupRoles(
            **vars(super().roles),
            atoms=self.config.n,
            spelled=instruction.spell(8 * self.config.n, t.x.name, t.w.name),
            types=f"{t.x.short}.{t.w.short}",
            sum_registers=tuple(_registers(range(at, at + 4)) for at in range(0, 4 * self.config.n, 4)),
            turns="turns" if self.buffers else "resident",
        )

    def count_work(self, threads: int, weights_in_smem: bool) -> Work:
        of_curve, groups = of_activation(self.problem), threads // self.target.warp_size // GROUP_WARPS
        runs = ceil_div(self.positions, RUN_PIXELS)
        items = runs * self.block_slabs
        # Pixels that do not exist are multiplied but not finished.
        finished = self.positions * self.block_slabs / RUN_PIXELS
        of_slab = self._of_resident_slab(groups)
        of_longest = ceil_div(self.block_slabs, groups // of_slab) * ceil_div(runs, of_slab)
        # A multiprocessor either multiplies or waits for the bytes of both operands.
        of_products = self.taps * self.pairs * 1.5 * max(self.slab_k / 2, 16 + self.slab_k / 4)
        of_warp = RUN_PIXELS / 4 * self.slab_k / 32 * (4.5 + of_curve) + 84
        longest = ALONE * of_longest * of_warp + of_products + 80
        return Work(items * of_products + finished * of_warp, longest)


def warpgroup_layer(problem: Conv2d, config: LayerConfig, target: Target, in_kernel: InKernel) -> WarpgroupLayer:
    _check_served(problem, config, target)
    lane_k, slab_k, sums = 2 * config.n, 8 * config.n, 4 * config.n
    check_subtile(problem, config, slab_k, RUN_PIXELS, sums)
    slabs = ceil_div(problem.k, slab_k)
    block_slabs = ceil_div(slabs, config.blocks)
    check_blocks(config, slabs, block_slabs)
    columns, pairs = row_pixels(problem, config.columns), ceil_div(chunks(problem.c, problem.quantization.types.x), 2)
    without_gap = config.columns in (8, columns)
    positions = config.pixels if without_gap else (config.rows - 1) * columns + config.columns
    runs = ceil_div(positions, RUN_PIXELS)
    of_slab, buffers = ring(config, runs, slabs, block_slabs)
    slab_bytes = problem.r * problem.s * 2 * pairs * slab_k * 16
    weight_words = block_slabs * slab_bytes // 4 * config.blocks
    at_most(weight_words, 2**28, "words of weights")
    weight_bytes, fetched = (buffers or block_slabs) * slab_bytes, fetches(config, target)
    # The epilogue's channel parameters are in shared memory as well.
    per_channel = sum(a.per_channel for step in epilogue_steps(problem.quantization) for a in step.arguments)
    channel_bytes = per_channel * block_slabs * 4 * (lane_k + 4) * 4
    mbarrier_bytes = ring_bytes(buffers) if buffers else MBARRIER_BYTES * fetched
    eights_stride = problem.stride[0] * columns if config.columns == 8 else 8
    # compute-sanitizer assumes that both chunks of an operand's 64 rows are adjacent: 2 KB from the first chunk on.
    span = math.prod(input_span(problem, config.rows, config.columns))
    tools_past_bytes = 32 * (RUN_PIXELS - plane(span)) + 16 * (span - positions)
    return WarpgroupLayer(
        problem=problem,
        config=config,
        target=target,
        in_kernel=in_kernel,
        lane_k=lane_k,
        slab_k=slab_k,
        block_k=block_slabs * slab_k,
        registers=3 * (sums + 2 * lane_k + 16) // 2,  # sums of wgmma cannot be spilled
        weight_words=weight_words,
        weight_smem_bytes=weight_bytes + channel_bytes + mbarrier_bytes,
        weight_copies=(*(weight_bytes // 16,) * (not fetched), *(block_slabs * slab_k,) * per_channel),
        past_bytes=max(16 * (runs * RUN_PIXELS - positions) * eights_stride // 8, tools_past_bytes),
        slabs=slabs,
        block_slabs=block_slabs,
        buffers=buffers,
        of_slab=of_slab,
        pairs=pairs,
        positions=positions,
        eights_stride=eights_stride,
    )


def _registers(numbers: Iterable[int]) -> str:
    return ", ".join(f"%{number}" for number in numbers)


def _check_served(problem: Conv2d, config: LayerConfig, target: Target) -> None:
    if not fits_wgmma(problem, target):
        raise Infeasible(
            f"on_wgmma: warpgroups of {target.name} do not multiply the {config.layer} convolution: it must have one "
            f"group, more than 4 output channels and no w_zero_point; leave it to warps"
        )
    if problem.stride != (1, 1) and (config.layer != "first" or config.columns != 8):
        raise Infeasible(
            f"on_wgmma: warpgroups multiply a convolution of stride {problem.stride[0]}x{problem.stride[1]} if it is "
            f"the first, on {config.layer} tiles 8 pixels across (here {config.columns}); leave it to warps"
        )
    if config.n % 2 and config.n > 3:
        raise Infeasible(f"{config.layer}_n={config.n}: warpgroups multiply by 8, 16, 24 or a multiple of 16 channels")
    if config.m > 1:
        raise Infeasible(f"{config.layer}_m={config.m}: a warpgroup has {RUN_PIXELS} pixels at a time; 1 serves it")
