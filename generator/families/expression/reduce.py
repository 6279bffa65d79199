"""The `reduce` family: each row is folded by a team of threads, which then write its result or its elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2
from typing import ClassVar

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.expression import Reduce
from qconv.expression.function import CTYPES, FUNCTIONS, LONG, OF_EXPONENTIAL
from qconv.expression.index import Axis
from qconv.expression.node import Call, Load, Statement
from qconv.generator.families import Family
from qconv.generator.families.expression.lines import (
    ExpressionContext,
    Lines,
    aliases_of,
    alignment_of,
    axes_of,
    fields_of,
    is_vector,
    loaded,
    stored,
)
from qconv.generator.families.expression.passes import FoldLines, Pass, Passes, passes_of
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import WIDEST
from qconv.targets.target import Target


@dataclass(frozen=True)
class ReduceConfig(Config):
    family: ClassVar[str] = "reduce"
    threads: int
    team: int  # threads that share a row
    vector: int  # neighbouring elements per load
    across: int  # 0: neighbouring threads and elements of a vector are of a row; 1: of rows; 2: threads of rows
    unroll: int  # vectors that a thread loads before it uses the first
    keep: int  # 1: what several passes compute of an element is kept in registers


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (64, 128, 256),
    "team": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "vector": (1, 2, 4, 8, 16),
    "across": (0, 1, 2),
    "unroll": (1, 2, 4, 8, 16, 32),
    "keep": (0, 1),
}
SAYS = {
    "TEAM": "threads that share a row",
    "ACROSS": "1: threads and vectors lie across rows; 2: threads do",
    "KEEP": "passes keep values for later ones",
}
# Threads whose neighbours shuffle values: the smallest warp of all targets.
MOST_SHUFFLED = 32
# Registers per thread for the elements that it has, and for the lanes of all folds of a pass.
MOST_HELD_REGISTERS, MOST_LANE_REGISTERS = 112, 64
REGISTER_BYTES = 4
MOST_ACROSS = 32  # clang keeps an address for each
MOST_LONG_REGISTERS = 16  # compilers unroll the loop over columns, and comparing int64 takes several for each
# An H200, for the cost of a plan.
PROCESSORS, THREADS_PER_SM, REGISTERS_PER_SM, LANES_PER_SM = 132, 2048, 65536, 128
SECTOR_BYTES, BYTES_PER_CLOCK = 32, 2400
OTHER_REGISTERS = 40  # of a thread, besides its elements and lanes
# Latencies: of a load, of an instruction, of a step that combines two threads by a shuffle or through shared memory.
LOAD_CLOCKS, INSTRUCTION_CLOCKS, NEAR_CLOCKS, FAR_CLOCKS = 700, 3, 35, 80
# Columns of a batch, so that the first column after the last one is an int.
MOST_COLUMNS = 4096


@dataclass(frozen=True)
class PassLines:
    """The lines of a pass."""

    rows: list[str]
    lanes: list[str]
    elements: list[str]
    combined: list[str]
    folds: tuple[FoldLines, ...]


@dataclass(frozen=True, kw_only=True)
class ReduceContext(ExpressionContext):
    folds: tuple[FoldLines, ...]
    members: list[str]  # of Rows
    vectors: list[str]  # members of Vectors
    values: list[str]  # members of Values
    shared: list[str]  # members of Shared
    row_axes: list[str]  # lines that compute the indices of a row
    column_axes: list[str]
    loads: list[str]  # lines that load vectors
    places: list[str]  # lines that compute the row and the column of an element, and their indices
    passes: list[PassLines]
    stored: str


@dataclass(frozen=True)
class ReducePlan(WaitingPlan):
    page: ClassVar[str] = "families/expression/reduce.j2"

    problem: Reduce
    config: ReduceConfig
    blocks: int
    lanes: int
    smem_bytes: int

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("reduce", (self.blocks, 1, 1), self.config.threads, self.smem_bytes),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return fields_of(self.problem.named)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return alignment_of(self.problem, self.vectors, self.config.vector)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases_of(self.problem.named, self.problem.y_type)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        config, steps = self.config, self.steps
        columns = self.problem.column_count
        return {
            "The problem.": (Constant("ROWS", self.problem.row_count), Constant("COLUMNS", columns)),
            "The config.": tuple(
                each._replace(says=SAYS.get(each.name, each.says), may_be_unused=True) for each in constants_of(config)
            ),
            "Derived values.": (
                Constant("WARP_SIZE", self.target.warp_size, may_be_unused=True),
                Constant("TEAMS", self.teams, "teams per block"),
                Constant("SPAN", self.span, "columns of a vector"),
                Constant("ROWS_OF_THREAD", self.rows_of_thread),
                Constant("LANES", self.lanes, "lanes of a row: lane i folds the columns i, i + LANES, ..."),
                Constant("JUMPS", self.jumps, "vectors between two of the same lanes, of a thread"),
                Constant("STEPS", steps, "vectors of a batch, of a thread"),
                Constant("BATCHES", ceil_div(self.vectors_of_thread, steps)),
                Constant("IS_WHOLE", columns % (config.team * self.span * steps) == 0, "no batch exceeds the columns"),
                Constant("SHUFFLED", self.shuffled, "neighbours of a team that shuffle values", may_be_unused=True),
                Constant(
                    "LANES_LEFT",
                    max(1, config.vector // self.shuffled),
                    "lanes of each, once they did",
                    may_be_unused=True,
                ),
                Constant(
                    "NEXT",
                    self.teams if config.across else 1,
                    "distance of two members, in threads",
                    may_be_unused=True,
                ),
                Constant("SMEM_BYTES", self.smem_bytes, may_be_unused=True),
            ),
        }

    @property
    def teams(self) -> int:
        return self.config.threads // self.config.team

    @property
    def span(self) -> int:
        return span_of(self.config)

    @property
    def rows_of_thread(self) -> int:
        return self.config.vector // self.span

    @property
    def jumps(self) -> int:
        return self.lanes // (self.config.team * self.span)

    @property
    def vectors_of_thread(self) -> int:
        return ceil_div(self.problem.column_count, self.config.team * self.span)

    @property
    def steps(self) -> int:
        return min(self.config.unroll, self.vectors_of_thread)

    @property
    def shuffled(self) -> int:
        return 1 if self.config.across else min(self.config.team, MOST_SHUFFLED)

    @property
    def passes(self) -> Passes:
        return passes_of(self.problem, bool(self.config.keep))

    @cached_property
    def vectors(self) -> tuple[Load, ...]:
        """Return the loads that read neighbouring elements with a thread's vector."""
        axes = self.problem.axes_of(along(self.config))
        vector = self.config.vector
        return tuple(load for load in self.passes.loads if vector == 1 or is_vector(load, axes[-1], vector))

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, *("shuffle",) * (self.shuffled > 1))

    @property
    def context(self) -> ReduceContext:
        problem, made = self.problem, self.passes
        row_axes = axes_of(problem.axes_of("rows"), "row")
        column_axes = axes_of(problem.axes_of("columns"), "column")
        columns = "first + i" if self.span > 1 else "first"
        rows = "first_row + at" if self.rows_of_thread > 1 else "first_row"
        at = "i" if self.rows_of_thread > 1 else "0"
        return ReduceContext(
            says=[f"  {one.name} = {one.text}" for one in made.made] + [f"  y = {made.made[-1].name}"],
            folds=made.folds,
            members=[f"{CTYPES[one.node.dtype]} {one.name}[ROWS_OF_THREAD];" for one in made.rows],
            vectors=[f"Vector<{load.operand.upper()}> v{number}[STEPS];" for number, load in enumerate(self.vectors)],
            values=[f"{CTYPES[one.node.dtype]} {one.name}[STEPS][VECTOR];" for one in made.kept] or ["// None."],
            shared=[f"{one.type}::Value {one.type.lower()}[VECTOR][THREADS];" for one in made.folds],
            row_axes=row_axes,
            column_axes=column_axes,
            loads=[f"vectors.v{number}[step] = {loaded(load)};" for number, load in enumerate(self.vectors)],
            places=[
                f"[[maybe_unused]] const int at = {at}, row = {rows}, column = {columns};",
                *row_axes,
                *column_axes,
            ],
            passes=[self._lines(each) for each in made.all],
            stored=stored(problem.y_type, made.made[-1].name),
        )

    def _lines(self, each: Pass) -> PassLines:
        numbers = {load: at for at, load in enumerate(self.vectors)}
        lines = Lines(
            self.problem, lambda load: f"vectors.v{numbers[load]}[step].element[i]" if load in numbers else None
        )
        made = self.passes
        rows = [*axes_of(self.problem.axes_of("rows"), "row"), *made.lines(lines, each.rows)]
        written = [f"rows.{one.name}[at] = {one.name};" for one in each.rows]
        adds = [f"lanes{fold.name[1:]}.add(step, i, {fold.type}::of({fold.argument}, column));" for fold in each.folds]
        return PassLines(
            rows=[*rows, *written] if written else [],
            lanes=[f"Lanes<{fold.type}> lanes{fold.name[1:]};" for fold in each.folds],
            elements=[*made.element_lines(lines, each), *adds],
            combined=[line for fold in each.folds for line in self._combined(fold)],
            folds=each.folds,
        )

    def _combined(self, fold: FoldLines) -> list[str]:
        """Return the lines that combine all lanes of a fold."""
        lanes = f"lanes{fold.name[1:]}"
        shared = f"shared.{fold.type.lower()}"
        first = f"{lanes}.value[0]"
        in_shared = self.smem_bytes > 0
        return [
            f"{lanes}.combine_jumps();",
            *([f"combine_in_shared_memory<{fold.type}>({first}, {shared}, member);"] * in_shared),
            *([f"combine_neighbours<{fold.type}>({first}, member);"] * (self.rows_of_thread == 1)),
            *([f"broadcast({first}, {shared}, member);"] * in_shared),
            f"set_rows<{fold.type}>(rows.{fold.name}, {first});",
        ]

    def cost(self) -> float:
        """Estimate clocks: the longest of the waves of blocks, the arithmetic of all threads and the memory traffic,
        with a part of the other two, because they overlap imperfectly."""
        config, made = self.config, self.passes
        batches = ceil_div(self.vectors_of_thread, self.steps)
        loading = 1 if batches == 1 else len(made.all)  # passes that load the row
        work: float = sum(sum(map(_instructions, each.elements)) + 2 * len(each.folds) for each in made.all)
        work += 8 * loading * len(made.loads) / config.vector
        elements = self.vectors_of_thread * config.vector  # of a thread
        far = log2(config.team / self.shuffled)
        combining = FAR_CLOCKS * (far + (far > 0)) + NEAR_CLOCKS * log2(self.shuffled)
        combining += 4 * (self.jumps + config.vector)
        block = loading * batches * LOAD_CLOCKS + len(made.folds) * combining + elements * work * INSTRUCTION_CLOCKS
        registers = OTHER_REGISTERS + held_registers(made, config, self.steps) + self.jumps * config.vector
        resident = max(1, min(THREADS_PER_SM, REGISTERS_PER_SM // registers) // config.threads)
        threads = self.blocks * config.threads
        moved = self.problem.elements * (loading * sum(map(self._moved_bytes, made.loads)) + self._stored_bytes)
        bounds = (
            max(1.0, self.blocks / (PROCESSORS * resident)) * block,
            threads * elements * work / (PROCESSORS * LANES_PER_SM),
            moved / BYTES_PER_CLOCK,
        )
        return 0.8 * max(bounds) + 0.2 * sum(bounds) + abs(log2(config.threads / 128))

    def _moved_bytes(self, load: Load) -> float:
        """Return the bytes that a load moves per element: of a sector, where no neighbour in the warp uses the rest."""
        own = ELEMENT_TYPES[self.problem.named[load.operand].dtype].bytes
        axes = self.problem.axes_of(along(self.config))
        if axes[-1] not in load.at.axes:
            return own / self.config.vector
        # A vector of several accesses reads each sector in parts.
        slower = 1.25 if own * self.config.vector > WIDEST else 1.0
        return max(own, own * SECTOR_BYTES / (own * self._neighbours(load))) * slower

    def _neighbours(self, load: Load) -> int:
        """Return how many elements a warp reads one behind the other."""
        steps = {atom: times for atom, times in load.at.terms if isinstance(atom, Axis)}
        config, axes = self.config, self.problem.axes_of(along(self.config))
        if steps.get(axes[-1]) != 1:
            return 1
        if config.across < 2:
            found = min(self.teams if config.across else config.team, MOST_SHUFFLED) * config.vector
            is_short = len(axes) > 1 and steps.get(axes[-2]) != axes[-1].extent
            return min(found, axes[-1].extent) if is_short else found
        rows = self.problem.axes_of("rows")
        if not rows or steps.get(rows[-1]) != config.vector:
            return config.vector
        return min(self.teams, MOST_SHUFFLED, rows[-1].extent) * config.vector

    @property
    def _stored_bytes(self) -> float:
        own = ELEMENT_TYPES[self.problem.y_type].bytes
        if not self.problem.has_columns:
            return own / self.problem.column_count
        return max(own, SECTOR_BYTES if self.config.across else 0)


def _instructions(statement: Statement) -> int:
    """Return about how many instructions a statement takes."""
    node = statement.node
    if not isinstance(node, Call):
        return 2
    if (instructions := FUNCTIONS[node.function].instructions) >= OF_EXPONENTIAL:
        return instructions
    return 10 if node.function in ("divide", "modulo", "remainder", "sqrt") else 2


def plan(problem: Reduce, config: ReduceConfig, target: Target) -> ReducePlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    at_most(config.team, config.threads, "threads of a team, in a block")
    _check_vector(problem, config)
    span = span_of(config)
    made = passes_of(problem, bool(config.keep))
    # Without an order to keep, a thread needs only one lane per element of its vectors.
    lanes = problem.lanes if made.is_ordered else config.team * span
    at_most(config.team * span, problem.lanes, f"columns of a team's vectors (a row has {problem.lanes} lanes)")
    jumps, vectors = lanes // (config.team * span), ceil_div(problem.column_count, config.team * span)
    if config.unroll < vectors and config.unroll % jumps:
        raise Infeasible(f"unroll={config.unroll} is no multiple of the {jumps} vectors that cover the lanes")
    at_most(config.unroll, 2 * vectors - 1, f"vectors in flight (a thread has {vectors} of a row)")
    if config.keep and (config.unroll < vectors or not made.kept):
        raise Infeasible(
            f"keep=1 keeps the values of all {vectors} vectors of a thread, of which unroll={config.unroll}"
        )
    at_most(config.team * span * config.unroll, MOST_COLUMNS, "columns of a batch")
    rows = config.vector // span
    smem_bytes = 0
    if config.team > (1 if config.across else MOST_SHUFFLED):
        smem_bytes = config.threads * config.vector * sum(fold.bytes for fold in made.folds)
    at_most(smem_bytes, target.smem_bytes, f"bytes of shared memory on {target.name}")
    _check_registers(made, config, jumps, min(vectors, config.unroll))
    if config.across == 1 and target.vendor == "amd":
        at_most(config.vector * config.unroll, MOST_ACROSS, "elements in flight, of rows beside each other, on AMD")
    teams = config.threads // config.team
    blocks = ceil_div(problem.row_count, teams * rows)
    return ReducePlan(problem, config, target, blocks, lanes, smem_bytes)


def along(config: ReduceConfig) -> str:
    """Return the axes along which vectors lie."""
    return "rows" if config.across == 1 else "columns"


def span_of(config: ReduceConfig) -> int:
    """Return the columns of a vector."""
    return 1 if config.across == 1 else config.vector


def _check_vector(problem: Reduce, config: ReduceConfig) -> None:
    name = along(config)
    extents = problem.rows if config.across == 1 else problem.columns
    if config.across and not problem.rows:
        raise Infeasible(f"across={config.across} takes neighbouring rows, and the problem has one row")
    if config.across == 2 and config.vector == 1:
        raise Infeasible("across=2 is across=1 where vector=1")
    if extents[-1] % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide the last extent of {name}={extents}")


def _check_registers(made: Passes, config: ReduceConfig, jumps: int, steps: int) -> None:
    is_long = any(made.problem.named[load.operand].dtype == LONG for load in made.loads)
    most = MOST_LONG_REGISTERS if is_long else MOST_HELD_REGISTERS
    at_most(held_registers(made, config, steps), most, "registers of a thread for its elements")
    lanes = max(sum(fold.bytes for fold in each.folds) for each in made.all) // 4 * config.vector * jumps
    at_most(lanes, MOST_LANE_REGISTERS, "registers of a thread for the lanes of a pass")


def held_registers(made: Passes, config: ReduceConfig, steps: int) -> int:
    """Return the registers of a thread for its vectors, and for the values that it keeps between two passes. Bytes take
    half as many again, because compilers unpack them early."""
    sizes = [ELEMENT_TYPES[made.problem.named[load.operand].dtype].bytes for load in made.loads]
    vectors = sum(1.5 * size if size == 1 else size for size in sizes)
    kept = max(sum(ELEMENT_TYPES[one.node.dtype].bytes for one in each.read) for each in made.all)
    return ceil((vectors + kept) * config.vector * steps / REGISTER_BYTES)


FAMILY = Family(
    ops=("reduce",),
    config=ReduceConfig,
    choices=CHOICES,
    plan=plan,
    cost=ReducePlan.cost,
    predicts_time=False,
)
