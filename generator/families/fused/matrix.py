"""A layer that warps compute by matrix instructions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.dtypes import ElementType
from qconv.errors import Infeasible
from qconv.generator.atom import Atom
from qconv.generator.cost_units import of_activation
from qconv.generator.families.fused.layer import (
    ALONE,
    MBARRIER_BYTES,
    InKernel,
    LayerConfig,
    LayerPlan,
    LayerRoles,
    Work,
    atom_of,
    check_blocks,
    check_subtile,
    chunks,
    fetches,
    of_chunk,
    times_asked,
)
from qconv.generator.plan import Constant, at_most, ceil_div
from qconv.problem.convolution import Conv2d
from qconv.targets.instruction import MatrixInstruction
from qconv.targets.target import Target

# The most steps that a loop is unrolled by: with more, the compiler loads the weights ahead and spills them. A longer
# loop is unrolled by a divisor of its steps: where an unrolled loop has an exit in the middle, ptxas 13.0 loads from an
# address before it is set.
MOST_UNROLLED = 4


@dataclass(frozen=True)
class MatrixRoles(LayerRoles):
    instruction: MatrixInstruction
    spelled: str
    atom: str
    operation: str
    sums_may_sink: bool
    fragments: str
    a_word: str
    b_word: str
    weight_bits: str  # how a weight is read as bits: byte (of C types that are bits already) or word (of floats)
    steps_by: str  # the loop over the reduction: taps or units


@dataclass(frozen=True, kw_only=True)
class MatrixLayer(LayerPlan):
    kind: ClassVar[str] = "matrix"

    atom: Atom
    slabs: int
    block_slabs: int
    slab_chunks: int  # chunks of input channels that a slab needs
    steps: int  # along the reduction

    @property
    def taps(self) -> int:
        return self.problem.r * self.problem.s

    @property
    def _x(self) -> ElementType:
        return self.problem.quantization.types.x

    @property
    def step_chunks(self) -> int:
        return self.atom.block_k // 16

    @property
    def whole_taps(self) -> bool:
        """True if each step reads chunks of one tap."""
        return self.slab_chunks % self.step_chunks == 0

    @property
    def is_rolled(self) -> bool:
        return self.steps > MOST_UNROLLED

    @property
    def unroll(self) -> int:
        if not self.is_rolled:
            return self.steps
        turns = self.slab_chunks // self.step_chunks if self.whole_taps else self.steps
        return max(n for n in range(1, MOST_UNROLLED + 1) if turns % n == 0)

    @property
    def own_config(self) -> tuple[Constant, ...]:
        return (
            Constant("ATOMS", self.config.n, "atoms of channels per warp"),
            Constant("BATCH", self.config.m, "atoms of pixels per warp, at a time"),
        )

    @property
    def own_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("ATOM_M", self.atom.pixels, "pixels of one instruction"),
            Constant("ATOM_N", self.atom.channels, "channels of one instruction"),
            Constant("SLAB_K", self.slab_k, "output channels per slab, which is a warp's"),
            Constant("ALL_SLABS", self.slabs),
            Constant("BLOCK_SLABS", self.block_slabs, "slabs per block"),
            Constant("TAPS", self.taps),
            Constant("CHUNKS", self.slab_chunks, f"chunks of {of_chunk(self._x)} input channels that a slab needs"),
            Constant("ALL_CHUNKS", chunks(self.problem.c, self._x)),
            Constant("UNITS", self.taps * self.slab_chunks, "chunks of a slab's reduction"),
            Constant("STEP_CHUNKS", self.step_chunks, "chunks per step, which is an instruction or two"),
            Constant("STEPS", self.steps, "along the reduction"),
            Constant("WHOLE_TAPS", self.whole_taps, "no step reads chunks of two taps"),
            Constant("IS_ROLLED", self.is_rolled, "the loop over steps is not written out whole", may_be_unused=True),
            Constant("UNROLL", self.unroll, "steps that are written out"),
            Constant("ADDS_WINDOWS", self.problem.quantization.w_zero_point, "the sums of windows are needed"),
        )

    @property
    def roles(self) -> MatrixRoles:
        files = self.atom.files(self.problem.quantization, self.target, "windows")
        return MatrixRoles(
            **vars(super().roles),
            instruction=files.instruction,
            spelled=files.spelled,
            atom=files.atom,
            operation=files.operation,
            sums_may_sink=files.sums_may_sink,
            fragments=files.fragments,
            a_word=files.a_word,
            b_word=files.b_word,
            weight_bits="word" if self.problem.quantization.types.w.ctype == "float" else "byte",
            steps_by="taps" if self.whole_taps and self.is_rolled else "units",
        )

    def count_work(self, threads: int, weights_in_smem: bool) -> Work:
        problem, config = self.problem, self.config
        sums, of_curve = 1 + problem.quantization.w_zero_point, of_activation(problem)
        run = config.m * self.atom.pixels
        items = ceil_div(config.pixels, run) * self.block_slabs
        # A partition either multiplies or waits for the fragments of its operands.
        steps: float = self.steps * self.step_chunks * 16 * run * self.slab_k * sums / 570
        of_step = config.m * (4 + config.n) + config.n * (8 if weights_in_smem else 11) + 8
        # Shared memory delivers 32 bytes per clock to a partition, if the pixels lie on different banks.
        column_stride = 1 if self.by_turns else problem.stride[1]
        of_pixels = run * times_asked(config.pixels, config.columns, problem.stride[0] * self.source_row, column_stride)
        of_fragments = self.step_chunks * 16 * (of_pixels + self.slab_k * sums) / 32
        steps = max(steps, self.steps * max(of_step, of_fragments))
        epilogue: float = run * min(problem.k, self.slab_k) / 32 * (6.7 + of_curve) + 125
        one = steps + epilogue
        return Work(items * one / 4, ALONE * ceil_div(items, threads // self.target.warp_size) * one + 215)


def matrix_layer(problem: Conv2d, config: LayerConfig, target: Target, in_kernel: InKernel) -> MatrixLayer:
    atom, q = atom_of(problem, target), problem.quantization
    if atom is None:
        raise Infeasible(f"{target.name} has no matrix instruction that multiplies {q.x_type} by {q.w_type}")
    slab_k = config.n * atom.channels
    sums = slab_k * config.m * atom.pixels // target.warp_size * (1 + q.w_zero_point)
    check_subtile(problem, config, slab_k, config.m * atom.pixels, sums)
    slabs = ceil_div(problem.k, slab_k)
    _check_chunks(problem, config, slabs * slab_k)
    block_slabs = ceil_div(slabs, config.blocks)
    check_blocks(config, slabs, block_slabs)
    slab_chunks = max(_chunks_of(problem, slab, slab_k) for slab in range(1 if problem.groups == 1 else slabs))
    steps = ceil_div(problem.r * problem.s * slab_chunks, atom.block_k // 16)
    step_words = config.n * atom.lane_words * target.warp_size * (1 + q.w_zero_point)
    # One step past the last is loaded and not used.
    weight_words = (block_slabs * config.blocks * steps + 1) * step_words
    at_most(weight_words, 2**28, "words of weights")
    fetched = fetches(config, target)
    return MatrixLayer(
        problem=problem,
        config=config,
        target=target,
        in_kernel=in_kernel,
        lane_k=config.n * atom.lane_channels,
        slab_k=slab_k,
        block_k=block_slabs * slab_k,
        registers=sums + max(2 * config.n * atom.lane_words + 4 * config.m, 3 * config.n * atom.lane_channels) + 24,
        weight_words=weight_words,
        weight_smem_bytes=4 * (block_slabs * steps + 1) * step_words + MBARRIER_BYTES * fetched,
        weight_copies=() if fetched else (block_slabs * steps * step_words // 4,),
        atom=atom,
        slabs=slabs,
        block_slabs=block_slabs,
        slab_chunks=slab_chunks,
        steps=steps,
    )


def _check_chunks(problem: Conv2d, config: LayerConfig, written: int) -> None:
    """Raise Infeasible where a chunk of floats would have bytes that nobody has written: a zero times the NaN that they
    may be is none."""
    t = problem.quantization.types
    if config.layer == "first" and not t.x.is_integer and problem.c % of_chunk(t.x):
        raise Infeasible(f"c={problem.c}: floats fill chunks of {of_chunk(t.x)} channels; pad them, or run it unfused")
    if not config.last and not t.y.is_integer and written < chunks(problem.k, t.y) * of_chunk(t.y):
        raise Infeasible(
            f"{config.layer}_n={config.n}: {written} channels fill no chunks of {of_chunk(t.y)}; more at a time do"
        )


def _chunks_of(problem: Conv2d, slab: int, slab_k: int) -> int:
    """Count the chunks of input channels from the first to the last that a slab needs."""
    x = problem.quantization.types.x
    if problem.groups == 1:
        return chunks(problem.c, x)
    last_k = min(problem.k, (slab + 1) * slab_k) - 1
    first = slab * slab_k // problem.k_group * problem.c_group
    last = (last_k // problem.k_group + 1) * problem.c_group - 1
    return last // of_chunk(x) - first // of_chunk(x) + 1
