"""The `matmul_mma` family: sums of products of small whole numbers, such as bytes without their zero points, on matrix
instructions of fp16 factors and fp32 sums. All sums are exact, so that their order is free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import ClassVar, Literal, Self

from qconv.errors import Infeasible
from qconv.expression import MatMul
from qconv.expression.function import CTYPES, FLOAT
from qconv.generator.atom import Atom
from qconv.generator.families import Choices, Family
from qconv.generator.families.expression.factors import (
    Factor,
    Finish,
    TiledPlan,
    constants_of_neighbours,
    constants_of_problem,
    factors_of,
    finish_of,
    says_of,
)
from qconv.generator.families.expression.lines import (
    ExpressionContext,
    split,
)
from qconv.generator.families.expression.neighbours import CHUNK, Neighbours, Terms
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import (
    Config,
    Constant,
    Launch,
    Roles,
    at_most,
    ceil_div,
    check_choices,
)
from qconv.targets.target import Target

HALF = "float16"
# Whole numbers up to here are exact in fp16, and sums of their products up to EXACT in fp32.
MOST_FACTOR, EXACT = 2**11, 2**24
# Chunks of a slab that a thread holds in registers.
MOST_CHUNKS = 12
# Clocks of a load from device memory.
FAR = 700
# Products of an SM in a clock.
RATE = 4096
# Clocks of an SM for the addresses, the barrier and the fragments of a slab.
BESIDE = 100


@dataclass(frozen=True)
class MatMulMma(Config):
    family: ClassVar[str] = "matmul_mma"
    tile_m: int  # rows per block
    tile_n: int  # columns per block
    warp_m: int  # rows per warp
    warp_n: int  # columns per warp
    slab: int  # terms of each sum in shared memory at a time


CHOICES: Choices = {
    "tile_m": (16, 32, 64, 128),
    "tile_n": (16, 32, 64, 128),
    "warp_m": (16, 32, 64),
    "warp_n": (8, 16, 32, 64),
    "slab": (16, 32, 64, 128),
}


@dataclass(frozen=True)
class MatMulMmaRoles(Roles):
    atom: str
    operation: str
    spelled: str
    instruction: object
    fragments: str
    a_word: str
    b_word: str
    sum_register: Literal["f"] = "f"

    @classmethod
    def of(cls, atom: Atom, target: Target) -> Self:
        files = atom.files_of(HALF, HALF, target, "tiles")
        return cls(
            files.atom,
            files.operation,
            files.spelled,
            files.instruction,
            files.fragments,
            files.a_word,
            files.b_word,
        )


@dataclass(frozen=True, kw_only=True)
class MatMulMmaContext(ExpressionContext):
    term: str  # type of the sums in C++
    left: Terms
    right: Terms
    finish: Finish
    terms: str = "chunks"  # the page that computes a slab and stores it


@dataclass(frozen=True)
class MatMulMmaPlan(TiledPlan):
    page: ClassVar[str] = "families/expression/matmul_mma.j2"

    config: MatMulMma
    atom: Atom
    exact_slabs: int  # whose sums are exact in fp32

    @cached_property
    def threads(self) -> int:
        config = self.config
        return self.target.warp_size * (config.tile_m // config.warp_m) * (config.tile_n // config.warp_n)

    @cached_property
    def slabs(self) -> int:
        return ceil_div(self.problem.depth, self.config.slab)

    @cached_property
    def smem_bytes(self) -> int:
        config = self.config
        slabs = min(2, self.slabs) * 2 * config.slab * (config.tile_m + config.tile_n)
        return max(slabs, 4 * config.tile_m * (config.tile_n + 1))

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("matmul_mma", (self.blocks, 1, 1), self.threads, self.smem_bytes),)

    @cached_property
    def alignment(self) -> dict[str, int]:
        near = self.neighbours
        read = {load.operand for load in near.loads}
        return {name: size * (near.vector if name in read else 1) for name, size in super().alignment.items()}

    @cached_property
    def neighbours(self) -> Neighbours:
        """Return the neighbours along k that are computed together."""
        return neighbours_of(self.problem)

    @property
    def roles(self) -> MatMulMmaRoles:
        return MatMulMmaRoles.of(self.atom, self.target)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        atom = self.atom
        return {
            "The problem.": constants_of_problem(self.problem),
            "The config.": constants_of(self.config),
            "Derived values.": (
                Constant("WARP_SIZE", self.target.warp_size),
                Constant("THREADS", self.threads),
                Constant("ATOM_M", atom.pixels, "rows of one instruction"),
                Constant("ATOM_N", atom.channels, "columns of one instruction"),
                Constant("K_BLOCK", atom.block_k, "bytes of the sums per fragment"),
                Constant("TILE_K", 2 * self.config.slab, "bytes per row of a slab"),
                Constant("X_SIGNED", True, may_be_unused=True),
                Constant("W_SIGNED", True, may_be_unused=True),
                Constant("TILES_M", self.tiles_m, "blocks per column of a batch"),
                Constant("TILES_N", self.tiles_n, "blocks per row of a batch"),
                Constant("VECTOR", self.neighbours.vector, "neighbours along k that are computed together"),
                *constants_of_neighbours(self.problem),
                Constant("SLABS", self.slabs),
                Constant("EXACT_SLABS", self.exact_slabs, "slabs whose sums are exact in fp32"),
                Constant("BUFFERS", min(2, self.slabs)),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> MatMulMmaContext:
        problem = self.problem
        left, right = map(self._terms, ("Left", "Right"), factors_of(problem))
        return MatMulMmaContext(
            says=says_of(problem),
            term=CTYPES[problem.fold.dtype],
            left=left,
            right=right,
            finish=finish_of(problem),
        )

    def _terms(self, name: str, factor: Factor) -> Terms:
        before = split(self.problem, ("batch", "batch"), (factor.axes, "at"), ("k", "first"))
        return Terms(name, factor.axes.upper(), self.neighbours.lines(factor.root, before))

    def cost(self) -> float:
        """Estimate the clocks of all blocks: for each slab the instructions of the blocks that share an SM, and at
        least the loads of one block."""
        config, target = self.config, self.target
        sums = config.warp_m * config.warp_n // target.warp_size
        registers = 48 + 4 * self.chunks + sums * (1 if self.exact_slabs >= self.slabs else 2)
        resident = min(
            max(1, target.registers_per_sm // (registers * self.threads)),
            max(1, target.smem_bytes_per_sm // self.smem_bytes),
            max(1, target.threads_per_sm // self.threads),
        )
        per_sm = min(resident, ceil_div(self.blocks, target.processors))
        rounds = max(1.0, self.blocks / (target.processors * per_sm))
        products = config.tile_m * config.tile_n * config.slab / RATE
        issued = per_sm * (self._staged + products + BESIDE)
        # The loads of a slab are under way while the one before is multiplied, which takes no time.
        return rounds * (self.slabs * max(issued, FAR + self._staged) + FAR)

    @cached_property
    def chunks(self) -> int:
        """Return the chunks of a slab per thread."""
        per_row = self.config.slab // CHUNK
        return sum(ceil_div(tile * per_row, self.threads) for tile in (self.config.tile_m, self.config.tile_n))

    @property
    def _staged(self) -> float:
        """Estimate the clocks of an SM to compute the terms of a slab."""
        total = 0.0
        for tile, factor in zip((self.config.tile_m, self.config.tile_n), factors_of(self.problem), strict=True):
            scalar = sum(load not in self.neighbours.loads for load in factor.loads)
            total += tile * self.config.slab * (len(factor.nodes) + 3 * scalar) / 128
        return total


@lru_cache(maxsize=64)
def neighbours_of(problem: MatMul) -> Neighbours:
    """Return the neighbours along k of both factors."""
    loads = (load for factor in factors_of(problem) for load in factor.loads)
    return Neighbours.along(problem, problem.axes_of("k"), loads)


def promising(problem: MatMul, target: Target, choices: Choices) -> Iterator[MatMulMma]:
    """Generate the configs of whole warps, whose tile is not far larger than the problem."""
    if atom_of(target) is None or reach_of(problem) is None:
        return
    m, n = prod(problem.m), prod(problem.n)
    for tile_m, tile_n, warp_m, warp_n in product(
        *(choices[name] for name in ("tile_m", "tile_n", "warp_m", "warp_n"))
    ):
        if (tile_m > 16 and tile_m >= 2 * m) or (tile_n > 16 and tile_n >= 2 * n):
            continue
        if tile_m % warp_m or tile_n % warp_n or not 2 <= tile_m // warp_m * (tile_n // warp_n) <= 8:
            continue
        for slab in choices["slab"]:
            if slab == min(choices["slab"]) or slab < 2 * problem.depth:
                yield MatMulMma(tile_m, tile_n, warp_m, warp_n, slab)


def atom_of(target: Target) -> Atom | None:
    return next((Atom(each) for each in target.instructions if each.accepts(HALF, HALF)), None)


def reach_of(problem: MatMul) -> int | None:
    """Return the largest product of two terms, or None where the factors are other numbers than fp16 holds exactly."""
    left, right = (factor.range for factor in factors_of(problem))
    if left is None or right is None or max(left.magnitude, right.magnitude) > MOST_FACTOR:
        return None
    return max(1, left.magnitude * right.magnitude)


def plan(problem: MatMul, config: MatMulMma, target: Target) -> MatMulMmaPlan:
    check_choices(config, CHOICES)
    atom, reach = atom_of(target), reach_of(problem)
    if atom is None:
        raise Infeasible(f"{target.name} has no matrix instruction of fp16 factors")
    if reach is None:
        raise Infeasible(f"the factors are not known to be whole numbers up to {MOST_FACTOR}")
    if problem.fold.dtype == FLOAT:
        at_most(problem.depth * reach, EXACT, "sums of products in float32")
    elif problem.fold.dtype != "int32":
        raise Infeasible(f"sums are {problem.fold.dtype}; the family has float32 and int32")
    for tile, warp, atoms, name in (
        (config.tile_m, config.warp_m, atom.pixels, "m"),
        (config.tile_n, config.warp_n, atom.channels, "n"),
    ):
        if tile % warp or warp % atoms:
            raise Infeasible(f"tile_{name}={tile} is not whole warps of warp_{name}={warp}, which are {atoms} or more")
    m, n = prod(problem.m), prod(problem.n)
    exact = EXACT // (reach * config.slab)
    at_most(1, exact, "slabs whose sums are exact in fp32")
    made = MatMulMmaPlan(problem, config, target, ceil_div(m, config.tile_m), ceil_div(n, config.tile_n), atom, exact)
    at_most(made.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(made.chunks, MOST_CHUNKS, "chunks of a slab per thread")
    at_most(made.smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return made


FAMILY = Family(
    ops=("matmul",),
    config=MatMulMma,
    choices=CHOICES,
    plan=plan,
    cost=MatMulMmaPlan.cost,
    promising=promising,
    predicts_time=False,
)
