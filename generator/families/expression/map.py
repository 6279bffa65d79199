"""The `map` family: expressions of elements, at the speed of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log2
from typing import ClassVar

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.expression import Map
from qconv.expression.function import CTYPES
from qconv.expression.index import Axis
from qconv.expression.node import Load, Node, in_order, indices_of, statements
from qconv.generator.families import Family
from qconv.generator.families.expression.branches import Branch, Chains, chains_of, of_first, without
from qconv.generator.families.expression.lines import (
    Chosen,
    ExpressionContext,
    Lines,
    aliases_of,
    alignment_of,
    axes_of,
    fields_of,
    is_vector,
    stored,
    vector_loaded,
    wants_of,
)
from qconv.generator.families.tensor_ops.binary import constants_of
from qconv.generator.plan import Config, Constant, Field, Launch, WaitingPlan, at_most, ceil_div, check_choices
from qconv.op import WIDEST
from qconv.targets.target import Target


@dataclass(frozen=True)
class MapConfig(Config):
    family: ClassVar[str] = "map"
    threads: int
    vector: int  # neighbouring elements per thread
    unroll: int  # vectors per thread


CHOICES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256),
    "vector": (1, 2, 4, 8, 16),
    "unroll": (1, 2, 4),
}
# Elements that occupy a GPU with one vector per thread.
MANY = 2**20


@dataclass(frozen=True)
class BranchText:
    """A branch in C++."""

    begin: list[str]  # its condition, and lines that load vectors
    lines: list[str]  # of one element
    chosen: str  # the array of the chain's values
    value: str


@dataclass(frozen=True, kw_only=True)
class MapContext(ExpressionContext):
    begin: list[str]  # lines that compute the indices of the first element, and load vectors
    branches: list[BranchText]
    lines: list[str]  # of one element
    stored: str


@dataclass(frozen=True)
class MapPlan(WaitingPlan):
    page: ClassVar[str] = "families/expression/map.j2"

    problem: Map
    config: MapConfig

    @property
    def extent(self) -> int:
        """Return the number of elements along the last axis."""
        return 1 if self.axis is None else self.axis.extent

    @property
    def tile(self) -> int:
        """Return the number of elements of a block."""
        return self.config.threads * self.config.vector * self.config.unroll

    @property
    def blocks(self) -> int:
        return ceil_div(self.problem.elements, self.tile)

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        return (Launch("map", (self.blocks, 1, 1), self.config.threads, 0),)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return fields_of(self.problem)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return alignment_of(self.problem, self.vectors, self.config.vector)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases_of(self.problem)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (Constant("ELEMENTS", self.problem.elements),),
            "The config.": constants_of(self.config),
        }

    @property
    def axis(self) -> Axis | None:
        return last_of(self.problem)

    @cached_property
    def chains(self) -> Chains:
        return chains_of(self.problem.root, self.axis, self.config.vector)

    @cached_property
    def vectors(self) -> tuple[Load, ...]:
        """Return the loads that read neighbouring elements with a thread's vector."""
        return self._vectors_of(self.problem.root)

    def _vectors_of(self, root: Node) -> tuple[Load, ...]:
        loads = [node for node in in_order(root) if isinstance(node, Load)]
        axis = self.axis
        return tuple(load for load in loads if axis is not None and is_vector(load, axis, self.config.vector))

    @property
    def context(self) -> MapContext:
        problem = self.problem
        axes = axes_of(problem.axes, "first")[::-1]
        if self._inner:
            axes[-1] = axes[-1].replace("const int ", "const int first_", 1)
        made = statements(problem.root)
        loads, lines, value = self._lines(without(problem.root, self.chains), 0)
        return MapContext(
            says=[f"  {one.name} = {one.text}" for one in made] + [f"  y = {made[-1].name}"],
            wants=wants_of(problem, in_order(problem.root)),
            begin=[*axes, *loads] or ["// Every element is the same."],
            branches=list(self._branches(len(loads))),
            lines=lines,
            stored=stored(problem.y_type, value),
        )

    def _lines(self, root: Node, loaded: int) -> tuple[list[str], list[str], str]:
        """Return the lines that load the vectors of a value, the lines of one element, and its name. The vectors are
        numbered from `loaded` on."""
        numbers = {load: loaded + at for at, load in enumerate(self._vectors_of(root))}
        lines = Lines(self.problem, lambda load: f"v{numbers[load]}.element[lane]" if load in numbers else None)
        made = statements(root)
        inside = [f"[[maybe_unused]] const int {axis} = first_{axis} + lane;" for axis in self._inner]
        loads = [vector_loaded(load, self.problem.axes[-1], at) for load, at in numbers.items()]
        return loads, [*inside, *lines.of(made)], made[-1].name

    def _branches(self, loaded: int) -> Iterator[BranchText]:
        for number, (node, branches) in enumerate(self.chains.items()):
            chosen = str(Chosen(number, node.dtype))
            declared = ["// A vector computes one branch.", f"{CTYPES[node.dtype]} {chosen}[VECTOR];"]
            for at, branch in enumerate(branches):
                loads, lines, value = self._lines(branch.value, loaded)
                loaded += len(loads)
                begin = f"{'else ' * bool(at)}{self._condition(branch)}{{"
                yield BranchText([*declared, begin, *(f"    {load}" for load in loads)], lines, chosen, value)
                declared = []

    def _condition(self, branch: Branch) -> str:
        if branch.condition is None:
            return ""
        assert self.axis is not None, "a condition is one on an axis"
        return f"if ({Lines(self.problem).nested(of_first(branch.condition, self.axis))}) "

    @property
    def _inner(self) -> list[str]:
        """Return the name of the axis along which vectors lie."""
        return [axis.name for axis in self.problem.axes[-1:] if axis.extent > 1]

    def cost(self) -> float:
        config = self.config
        wanted = 1 if self.problem.elements < MANY else 2
        short = max(1.0, 132 / self.blocks)
        return (
            4 * abs(log2(config.vector / best_vector(self.problem)))
            + abs(log2(config.unroll / wanted))
            + (config.threads - 128) / 256
            + 2 * (short - 1)
        )


@lru_cache(maxsize=256)
def best_vector(problem: Map) -> int:
    """Return the vector whose widest array is read or written in 16 bytes. Where a load along the last axis is not one
    of neighbours, vectors are of no use but to a store, of 4 bytes. A search asks for it with every config."""
    axis = last_of(problem)
    loads = [node for node in in_order(problem.root) if isinstance(node, Load)]
    along = [load for load in loads if any(axis in index.axes for index in indices_of(load))]
    dtypes = [problem.y_type, *(problem.named[load.operand].dtype for load in along)]
    widest = max(ELEMENT_TYPES[dtype].bytes for dtype in dtypes)
    extent = 1 if axis is None else axis.extent
    fitting = [vector for vector in CHOICES["vector"] if extent % vector == 0 and vector * widest <= WIDEST]
    if chains_of(problem.root, axis, 1):
        # A warp has few branches where its vectors are short.
        short = [vector for vector in fitting if vector <= max(1, 4 // ELEMENT_TYPES[problem.y_type].bytes)]
        return next(vector for vector in reversed(short) if chains_of(problem.root, axis, vector))
    if axis is not None and not all(is_vector(load, axis, fitting[-1]) for load in along):
        return min(fitting[-1], max(1, 4 // widest))
    return fitting[-1]


def last_of(problem: Map) -> Axis | None:
    """Return the axis along which vectors lie."""
    return problem.axes[-1] if problem.axes else None


def plan(problem: Map, config: MapConfig, target: Target) -> MapPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    made = MapPlan(problem, config, target)
    if made.extent % config.vector:
        raise Infeasible(f"vector={config.vector} does not divide the {made.extent} elements of the last axis")
    if made.tile > config.threads:
        at_most(made.tile, 2 * problem.elements, f"elements of a tile (the problem has {problem.elements})")
    return made


FAMILY = Family(
    ops=("map",),
    config=MapConfig,
    choices=CHOICES,
    plan=plan,
    cost=MapPlan.cost,
    predicts_time=False,
)
