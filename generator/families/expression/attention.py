"""The `attention` family: a block computes the scores of some rows, the weights that follow from them, and the sums of
the weighted values. Scores and weights stay in registers: a lane's sums of the first product are, as weights, its
factors of the second one. The products are those of `matmul_mma`, and the reduction is that of `reduce`, by a team of
four lanes per row, or by such teams of the warps that share the row: each has every SHARING-th step of the keys, so
that a fold combines them in the same order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.expression import Attention
from qconv.expression.function import CTYPES
from qconv.expression.matmul import MatMul
from qconv.expression.node import Load, in_order, statements
from qconv.generator.atom import Atom
from qconv.generator.families import Choices, Family
from qconv.generator.families.expression.factors import Factor, Finish, factors_of, finish_of, says_of
from qconv.generator.families.expression.lines import (
    ExpressionContext,
    Lines,
    aliases_of,
    fields_of,
    split,
)
from qconv.generator.families.expression.matmul_mma import EXACT, MatMulMmaRoles, atom_of, reach_of
from qconv.generator.families.expression.neighbours import Neighbours
from qconv.generator.families.expression.passes import FoldLines
from qconv.generator.families.expression.reduce import PassLines, ReduceConfig, ReducePlan
from qconv.generator.families.expression.side import Side
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.targets.target import Target
from qconv.tensor_ops.problem import BYTES

# Lanes that share a row of an instruction's sums, and the neighbouring columns of each.
LANES, COLUMNS = 4, 2
# Names of what the parts give.
NAMES = ("score", "weight", "y")
# Rows of a warp, keys that a step of the second product takes, and columns of an instruction of the first one.
ROWS, KEYS, STEP = 16, 16, LANES * COLUMNS
# Keys whose scores, weights and factors fit in a lane's registers.
MOST_KEYS = 256
# The instruction whose sums lie as its factors do.
INSTRUCTION = "mma_m16n8k16_f16"
# Registers of a lane: the most, those without its scores, and how many of each key it keeps where it has no others.
MOST_REGISTERS, OTHER_REGISTERS, LEAST_PER_KEY = 255, 40, 0.65
# Instructions of a node of an expression: some are none.
PER_NODE = 0.8
# Schedulers of an SM, and clocks between two instructions of a lane that wait for each other.
SCHEDULERS, CHAIN = 4, 3.0
# Clocks of a load from device memory, and of a barrier with the loads and stores of shared memory beside it.
FAR, EXCHANGE = 700, 600
# Instructions of a barrier, and of the addresses beside it. Rows of a lane.
OF_BARRIER, LANE_ROWS = 80, 2


@dataclass(frozen=True)
class AttentionConfig(Config):
    family: ClassVar[str] = "attention"
    warps: int  # per block
    sharing: int  # warps that share 16 rows and divide the keys
    slab: int  # terms of a row that lie beside each other in shared memory
    resident: int  # blocks that share an SM, for which the compiler keeps to fewer registers


CHOICES: Choices = {"warps": (1, 2, 4, 8), "sharing": (1, 2, 4, 8), "slab": (32, 64), "resident": (1, 2, 3, 4, 6, 8)}


@dataclass(frozen=True)
class RowPlan(ReducePlan):
    """The reduction of a row whose elements are in registers."""

    element: Load
    sharing: int  # warps that share the row

    @cached_property
    def vectors(self) -> tuple[Load, ...]:
        return (self.element,)

    def _combined(self, fold: FoldLines) -> list[str]:
        jumps, *others = super()._combined(fold)
        lanes = f"lanes{fold.name[1:]}.value[0]"
        among = f"combine_warps<{fold.type}>({lanes}, parts.{fold.type.lower()}[pixel]);"
        return [jumps, *[among] * (self.sharing > 1), *others]


@dataclass(frozen=True, kw_only=True)
class AttentionContext(ExpressionContext):
    term: str  # type of the sums in C++
    score: Finish
    folds: tuple[FoldLines, ...]
    members: list[str]  # of Rows
    kept: list[str]  # members of Kept
    places: list[str]
    passes: list[PassLines]
    stored: str
    factor: list[str]  # lines that compute a weight's factor
    factor_result: str
    finish: Finish
    rows_of: str  # the page of what warps give each other


@dataclass(frozen=True)
class AttentionPlan(WaitingPlan):
    page: ClassVar[str] = "families/expression/attention.j2"

    problem: Attention
    config: AttentionConfig
    atom: Atom
    row: RowPlan

    @property
    def threads(self) -> int:
        return self.target.warp_size * self.config.warps

    @property
    def rows(self) -> int:
        return ROWS * self.config.warps // self.config.sharing

    @cached_property
    def blocks(self) -> int:
        return prod(self.problem.scores.batch) * ceil_div(prod(self.problem.scores.m), self.rows)

    @property
    def keys(self) -> int:
        return keys_of(self.problem, self.config.sharing)

    @property
    def key_rows(self) -> int:
        """Return the rows of keys in shared memory: instructions read those of two steps at a time."""
        return self.keys + STEP * (self.row.config.unroll % 2)

    @cached_property
    def smem_bytes(self) -> int:
        slab = self.config.slab
        depth, values = (ceil_div(each, slab) * slab for each in (self.problem.scores.depth, self._values))
        return 2 * ((self.rows + self.key_rows) * depth + self.key_rows * values) + self._parts_bytes

    @property
    def _parts_bytes(self) -> int:
        """Return the bytes in shared memory of what warps give each other: their folds of each row, and their sums."""
        if self.config.sharing == 1:
            return 0
        folds = ROWS * LANES * COLUMNS * sum(fold.bytes for fold in self.row.passes.folds)
        return self.config.warps * (folds + 4 * ROWS * ceil_div(self._values, KEYS) * KEYS)

    @property
    def _values(self) -> int:
        return prod(self.problem.values.n)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("attention", (self.blocks, 1, 1), self.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return fields_of(self.problem.named)

    @cached_property
    def aliases(self) -> dict[str, str]:
        named = aliases_of(self.problem.named, self.problem.values.y_type)
        between = aliases_of(dict(zip(("score", "weight"), self.problem.between, strict=True)), "")
        return {**named, "Score": between["SCORE"], "Weight": between["WEIGHT"]}

    @cached_property
    def alignment(self) -> dict[str, int]:
        sizes = {one.name: ELEMENT_TYPES[one.dtype].bytes for one in (*self.problem.inputs, *self.problem.outputs)}
        for side in self.sides:
            for load in side.near.loads:
                sizes[load.operand] = max(sizes[load.operand], side.near.vector)
        return sizes

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, "shuffle")

    @property
    def roles(self) -> MatMulMmaRoles:
        return MatMulMmaRoles.of(self.atom, self.target)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        scores, row = self.problem.scores, self.row
        return {
            "The problem.": (
                Constant("M", prod(scores.m), "rows of a batch"),
                Constant("N", prod(scores.n), "keys of a batch"),
                Constant("DEPTH", scores.depth, "products per score"),
                Constant("COLUMNS", self._values, "of the values"),
            ),
            "Derived values.": (
                Constant("WARP_SIZE", self.target.warp_size),
                Constant("THREADS", self.threads),
                Constant("WARPS", self.config.warps, "of a block", may_be_unused=True),
                Constant("SHARING", self.config.sharing, "warps that share rows"),
                Constant("RESIDENT", self.config.resident, "blocks that share an SM"),
                Constant("ATOM_M", self.atom.pixels, "rows of one instruction"),
                Constant("ATOM_N", self.atom.channels, "columns of one instruction"),
                Constant("K_BLOCK", self.atom.block_k, "bytes of the sums per fragment"),
                Constant("SLAB", self.config.slab, "terms of a row that lie beside each other"),
                Constant("TILE_K", 2 * self.config.slab, "bytes per row of a slab"),
                Constant("X_SIGNED", True, may_be_unused=True),
                Constant("W_SIGNED", True, may_be_unused=True),
                Constant("TILE_M", self.rows, "rows per block"),
                Constant("TILES_M", ceil_div(prod(scores.m), self.rows), "blocks per batch"),
                Constant("KEYS", self.keys, "N, rounded up to whole steps of the second product and of all warps"),
                Constant("KEY_ROWS", self.key_rows, "rows of keys in shared memory"),
                Constant("STEPS", self.row.config.unroll, "columns of the first product's instructions, per warp"),
                Constant("JUMPS", row.jumps, "vectors between two of the same lanes, of a thread"),
                Constant("SHUFFLED", row.shuffled, "neighbours of a team that shuffle values"),
                Constant("LANES_LEFT", 1, "lanes of each, once they did"),
                Constant("TEAM", LANES, "lanes that share a row"),
                Constant("SPAN", COLUMNS, "neighbouring columns of a lane"),
                Constant("VECTOR", COLUMNS),
                Constant("ROWS_OF_THREAD", 1, "of those that a lane reduces at a time"),
                Constant("SMEM_BYTES", self.smem_bytes),
            ),
        }

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """Return the factors in shared memory: rows and keys along k, and the values along their columns."""
        scores, _, values = self.problem.joined
        (left, right), (_, weighted) = factors_of(scores), factors_of(values)

        def side(name: str, says: str, factor: Factor, along: str, *sizes: str) -> Side:
            problem = factor.problem
            near = Neighbours.along(problem, problem.axes_of(along), factor.loads, BYTES)
            before = split(problem, ("batch", "batch"), (factor.axes if along == "k" else "k", "at"), (along, "first"))
            rows, extent, width = sizes
            return Side(name, says, rows, extent, width, near, factor.root, before)

        return (
            side("Queries", "Rows of the scores.", left, "k", "TILE_M", "M", "DEPTH"),
            side("Keys", "Columns of the scores.", right, "k", "KEY_ROWS", "N", "DEPTH"),
            side("Values", "Rows that the weights multiply.", weighted, "n", "KEY_ROWS", "N", "COLUMNS"),
        )

    @property
    def context(self) -> AttentionContext:
        scores, _, values = self.problem.joined
        row, (_, chained) = self.row.context, self.problem.chained
        score, finish = finish_of(scores), finish_of(values)
        weight, _ = factors_of(values)
        made = statements(weight.root)
        factor = Lines(values, lambda load: "weight" if load.operand == chained else None)
        return AttentionContext(
            says=[line for name, part in zip(NAMES, self.problem.joined, strict=True) for line in says_of(part, name)],
            term=CTYPES[scores.fold.dtype],
            score=score,
            folds=row.folds,
            members=row.members,
            kept=row.values,
            places=row.places,
            passes=row.passes,
            stored=row.stored,
            factor=[*split(values, ("batch", "batch"), ("m", "row"), ("k", "key")), *factor.of(made)],
            factor_result=made[-1].name,
            finish=finish,
            rows_of="warps" if self.config.sharing > 1 else "warp",
        )

    def cost(self) -> float:
        """Estimate the clocks of all blocks: what the blocks that share an SM issue, and a lane's chain."""
        target, config = self.target, self.config
        most = target.registers_per_sm // self.threads
        keys = self.keys // config.sharing  # per lane
        fits = most // min(MOST_REGISTERS, OTHER_REGISTERS + keys)
        resident = min(max(config.resident, fits), max(1, target.smem_bytes_per_sm // self.smem_bytes))
        per_sm = min(resident, ceil_div(self.blocks, target.processors))
        blocks = self.blocks / (target.processors * per_sm)
        rounds = max(1.0, (ceil_div(self.blocks, target.processors * per_sm) + blocks) / 2)
        least = OTHER_REGISTERS + LEAST_PER_KEY * keys
        lane = self._instructions * max(1.0, least * config.resident / most)
        waited = (2 * len(self.row.passes.folds) + 1) * EXCHANGE if config.sharing > 1 else 0
        return rounds * (per_sm * config.warps * lane / SCHEDULERS + CHAIN * lane + 3 * FAR + waited)

    @property
    def _instructions(self) -> float:
        """Estimate the instructions of a lane."""
        scores, weights, _ = self.problem.phases
        sizes = (self.rows * scores.depth, self.keys * scores.depth, self.keys * self._values)
        staged = 0.0
        for side, terms in zip(self.sides, sizes, strict=True):
            staged += terms * (2 if side.page == "bytes" else PER_NODE * len(in_order(side.root))) / self.threads
        each = PER_NODE * (len(in_order(scores.epilogue)) + len(in_order(weights.root)))
        weighed = self.keys / 2 * each + self.keys / KEYS * (scores.depth / 4 + self._values / 4)
        return staged + weighed / self.config.sharing + self._exchanged

    @property
    def _exchanged(self) -> float:
        """Estimate the instructions of a lane that gives its parts to other warps, and combines theirs."""
        sharing = self.config.sharing
        if sharing == 1:
            return 0.0
        folds = LANE_ROWS * len(self.row.passes.folds) * (OF_BARRIER + 3 * sharing)
        return folds + OF_BARRIER + 6 * self._values


def plan(problem: Attention, config: AttentionConfig, target: Target) -> AttentionPlan:
    check_choices(config, CHOICES)
    atom = atom_of(target)
    if atom is None or atom.instruction.name != INSTRUCTION:
        raise Infeasible(f"{target.name} has no instruction whose sums lie as its factors do, as {INSTRUCTION} has")
    scores, _, values = problem.joined
    for name, product in (("scores", scores), ("values", values)):
        _check_exact(name, product)
    if scores.fold.dtype != values.fold.dtype:
        raise Infeasible(
            f"sums of scores are {scores.fold.dtype} and of values {values.fold.dtype}; they are of one type"
        )
    keys, most = prod(scores.n), max(scores.depth, prod(values.n))
    at_most(keys, MOST_KEYS, "keys, whose scores a lane holds")
    if keys <= LANES * COLUMNS // 2:
        raise Infeasible(f"{keys} keys are fewer than the lanes of a row hold")
    if config.slab > min(CHOICES["slab"]) and config.slab >= 2 * most:
        raise Infeasible(f"slab={config.slab} is twice the {most} terms of a row")
    at_most(config.sharing, config.warps, "warps of a block that share rows")
    lanes = STEP * config.sharing
    at_most(lanes, problem.weights.lanes, f"lanes of a row's folds, {STEP} of each warp that shares it")
    made = AttentionPlan(problem, config, target, atom, _row(problem, config, target))
    at_most(made.smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    return made


def keys_of(problem: Attention, sharing: int) -> int:
    """Return the keys, rounded up to whole steps of the second product, and of all warps that share them."""
    whole = max(KEYS, STEP * sharing)
    return ceil_div(prod(problem.scores.n), whole) * whole


def _row(problem: Attention, config: AttentionConfig, target: Target) -> RowPlan:
    weights, (chained, _) = problem.joined[1], problem.chained
    element = next(node for node in in_order(weights.root) if isinstance(node, Load) and node.operand == chained)
    steps = keys_of(problem, config.sharing) // (STEP * config.sharing)
    reduced = ReduceConfig(threads=64, team=LANES, vector=COLUMNS, across=0, unroll=steps, keep=1)
    return RowPlan(weights, reduced, target, 1, weights.lanes // config.sharing, 0, element, config.sharing)


def _check_exact(name: str, product: MatMul) -> None:
    reach = reach_of(product)
    if reach is None:
        raise Infeasible(f"the factors of the {name} are not known to be small whole numbers")
    at_most(product.depth * reach, EXACT, f"sums of products of the {name} in float32")


FAMILY = Family(
    ops=("attention",),
    config=AttentionConfig,
    choices=CHOICES,
    plan=plan,
    cost=AttentionPlan.cost,
    predicts_time=False,
)
