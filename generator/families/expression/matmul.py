"""The `matmul` family: sums of products of expressions, in tiles whose factors pass through shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import ClassVar

from qconv.expression import MatMul
from qconv.expression.function import CTYPES, FLOAT, LONG
from qconv.expression.node import statements
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
from qconv.generator.families.expression.lines import ExpressionContext, Lines
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Launch, at_most, ceil_div, check_choices
from qconv.op import WIDEST
from qconv.targets.target import Target


@dataclass(frozen=True)
class MatMulConfig(Config):
    family: ClassVar[str] = "matmul"
    threads: int
    tile_m: int  # rows per block
    tile_n: int  # columns per block
    thread_m: int  # rows per thread
    thread_n: int  # columns per thread
    slab: int  # terms of each sum in shared memory at a time


CHOICES: Choices = {
    "threads": (64, 128, 256),
    "tile_m": (1, 8, 16, 32, 64, 128),
    "tile_n": (1, 8, 16, 32, 64, 128),
    "thread_m": (1, 2, 4, 8),
    "thread_n": (1, 2, 4, 8),
    "slab": (8, 16, 32, 64, 128),
}
# A sum with a product, where the two round once.
ADDED = {FLOAT: "tile::fma(a, b, sum)"}
# Most terms of a slab that a thread holds in registers.
MOST_FETCHED = 24
MOST_FETCHED_GUARDED = 18  # each has conditions, and an address of its own
# Most terms of each sum that are multiplied without a branch.
UNROLLED = 16
# Clocks of a load from device memory, and of one from shared memory.
FAR, NEAR = 700, 30
WARP, LINE_BYTES = 32, 32


@dataclass(frozen=True, kw_only=True)
class MatMulContext(ExpressionContext):
    vector_page: str = "nothing.j2"
    term: str  # type of the products in C++
    added: str  # a sum with a product
    left: list[str]  # lines that return a term
    right: list[str]
    finish: Finish
    unroll: int
    terms: str = "terms"  # the page that fetches a slab and stores it


@dataclass(frozen=True)
class MatMulPlan(TiledPlan):
    page: ClassVar[str] = "families/expression/matmul.j2"

    config: MatMulConfig
    smem_bytes: int

    @cached_property
    def slabs(self) -> int:
        return ceil_div(self.problem.depth, self.config.slab)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("matmul", (self.blocks, 1, 1), self.config.threads, self.smem_bytes),)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, vector = self.config, vector_of(self.problem)
        return {
            "The problem.": constants_of_problem(self.problem),
            "The config.": constants_of(config),
            "Derived values.": (
                Constant("TILES_M", self.tiles_m, "blocks per column of a batch"),
                Constant("TILES_N", self.tiles_n, "blocks per row of a batch"),
                Constant("ROW_THREADS", config.tile_m // config.thread_m, "threads per column of a tile"),
                Constant("COLUMN_THREADS", config.tile_n // config.thread_n, "threads per row of a tile"),
                Constant("LEFT_VECTOR", min(vector, config.thread_m), "rows per load from shared memory"),
                Constant("RIGHT_VECTOR", min(vector, config.thread_n), "columns per load from shared memory"),
                *constants_of_neighbours(self.problem),
                Constant("SLABS", self.slabs),
                Constant("BUFFERS", buffers_of(self.slabs)),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @property
    def context(self) -> MatMulContext:
        problem = self.problem
        dtype = problem.fold.dtype
        left, right = map(_term, factors_of(problem))
        return MatMulContext(
            says=says_of(problem),
            term=CTYPES[dtype],
            added=ADDED.get(dtype, "scalar::add(sum, scalar::multiply(a, b))"),
            left=left,
            right=right,
            finish=finish_of(problem),
            unroll=max(4, min(UNROLLED, 64 // (self.config.thread_m * self.config.thread_n))),
        )

    def cost(self) -> float:
        """Estimate the clocks of all blocks: for each slab the instructions of the blocks that share an SM, and at
        least the loads and the chains of one block."""
        config, target = self.config, self.target
        registers = 40 + config.thread_m * config.thread_n + self._fetched + 2 * (config.thread_m + config.thread_n)
        resident = min(
            max(1, target.registers_per_sm // (registers * config.threads)),
            max(1, target.smem_bytes_per_sm // self.smem_bytes),
            max(1, target.threads_per_sm // config.threads),
        )
        per_sm = min(resident, ceil_div(self.blocks, target.processors))
        rounds = self.blocks / (target.processors * per_sm)
        rounds = max(1.0, rounds) if rounds < 1 else (ceil_div(self.blocks, target.processors * per_sm) + rounds) / 2
        issued = per_sm * (self._multiply + self._stage)
        chain = config.slab * (max(4, config.thread_m * config.thread_n) + 4) + NEAR
        return rounds * (self.slabs * max(issued, FAR + chain / 2, chain) + FAR)

    @property
    def _fetched(self) -> int:
        return fetched_of(self.config)

    @property
    def _multiply(self) -> float:
        """Estimate the clocks of an SM for the products of a slab: multiplications, or loads from shared memory."""
        config = self.config
        workers = config.tile_m * config.tile_n // (config.thread_m * config.thread_n)
        warps = ceil_div(workers, WARP)
        products = warps * config.thread_m * config.thread_n / 4
        loads = warps * (config.thread_m + config.thread_n) / 2
        return config.slab * max(products + loads / 4, loads)

    @property
    def _stage(self) -> float:
        """Estimate the clocks of an SM to fetch a slab, and to store it to shared memory."""
        config = self.config
        total = 0.0
        for tile, factor in zip((config.tile_m, config.tile_n), factors_of(self.problem), strict=True):
            neighbours = config.slab if factor.is_along_k else tile
            scattered = max(1.0, LINE_BYTES / (4 * neighbours))
            total += tile * config.slab * (len(factor.nodes) + 12) / 128 * scattered
        return total


def _term(factor: Factor) -> list[str]:
    """Return the lines that return a term of a factor."""
    made = statements(factor.root)
    return [*factor.split("k"), *Lines(factor.problem).of(made), f"return {made[-1].name};"]


def vector_of(problem: MatMul) -> int:
    """Return the terms of the widest load from shared memory."""
    return WIDEST // (8 if problem.fold.dtype == LONG else 4)


def fetched_of(config: MatMulConfig) -> int:
    """Return the terms of a slab per thread."""
    return sum(ceil_div(tile * config.slab, config.threads) for tile in (config.tile_m, config.tile_n))


def buffers_of(slabs: int) -> int:
    return min(2, slabs)


def promising(problem: MatMul, target: Target, choices: Choices) -> Iterator[MatMulConfig]:
    """Generate the configs whose threads share a tile, and whose tile is not far larger than the problem."""
    m, n = prod(problem.m), prod(problem.n)
    slabs = [slab for slab in choices["slab"] if slab == min(choices["slab"]) or slab < 2 * problem.depth]
    for tile_m, tile_n in product(choices["tile_m"], choices["tile_n"]):
        if (tile_m > 8 and tile_m >= 2 * m) or (tile_n > 8 and tile_n >= 2 * n):
            continue
        for thread_m, thread_n, threads in product(choices["thread_m"], choices["thread_n"], choices["threads"]):
            if tile_m % thread_m or tile_n % thread_n:
                continue
            workers = tile_m * tile_n // (thread_m * thread_n)
            if threads // 16 <= workers <= threads:
                for slab in slabs:
                    yield MatMulConfig(threads, tile_m, tile_n, thread_m, thread_n, slab)


def plan(problem: MatMul, config: MatMulConfig, target: Target) -> MatMulPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    for tile, thread, name in (
        (config.tile_m, config.thread_m, "m"),
        (config.tile_n, config.thread_n, "n"),
    ):
        at_most(thread, tile, f"thread_{name}, of a tile of tile_{name}={tile}")
    workers = config.tile_m * config.tile_n // (config.thread_m * config.thread_n)
    at_most(workers, config.threads, "threads that multiply")
    is_guarded = any(factor.is_guarded for factor in factors_of(problem))
    most = MOST_FETCHED_GUARDED if is_guarded else MOST_FETCHED
    at_most(fetched_of(config), most, "terms of a slab per thread")
    m, n = prod(problem.m), prod(problem.n)
    vector = vector_of(problem)
    columns = sum(
        tile + min(vector, thread)
        for tile, thread in ((config.tile_m, config.thread_m), (config.tile_n, config.thread_n))
    )
    buffers = buffers_of(ceil_div(problem.depth, config.slab))
    smem_bytes = buffers * config.slab * columns * (WIDEST // vector)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return MatMulPlan(problem, config, target, ceil_div(m, config.tile_m), ceil_div(n, config.tile_n), smem_bytes)


FAMILY = Family(
    ops=("matmul",),
    config=MatMulConfig,
    choices=CHOICES,
    plan=plan,
    cost=MatMulPlan.cost,
    promising=promising,
    likely={"thread_m": (1, 4, 8), "thread_n": (1, 4, 8), "threads": (128, 256), "slab": (8, 16, 32, 64, 128)},
    predicts_time=False,
)
