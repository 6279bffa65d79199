"""The `map` family: expressions of elements, at the speed of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from math import log2, prod
from typing import ClassVar

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.expression import Map
from qconv.expression.function import CTYPES
from qconv.expression.index import Axis
from qconv.expression.node import Load, Lookup, Node, Position, Statement, in_order, indices_of, statements
from qconv.generator.families import Family
from qconv.generator.families.expression.branches import Branch, Chains, chains_of, of_first, without
from qconv.generator.families.expression.common import changes_within, divided
from qconv.generator.families.expression.joined import joined
from qconv.generator.families.expression.lines import (
    Chosen,
    ExpressionContext,
    Lines,
    aliases_of,
    alignment_of,
    axes_of,
    fields_of,
    first_of,
    is_vector,
    stored,
    vector_loaded,
    with_axis,
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
class ElementLines:
    """The lines that compute a value, by how often they run."""

    loads: list[str]  # vectors
    common: list[str]  # once per vector
    of_group: list[str]  # once per group of neighbours
    lines: list[str]  # once per element
    value: str


@dataclass(frozen=True)
class BranchText:
    """A branch in C++."""

    begin: list[str]  # its condition, and what runs once per vector
    lines: list[str]  # of one element
    chosen: str  # the array of the chain's values
    value: str


@dataclass(frozen=True, kw_only=True)
class MapContext(ExpressionContext):
    order: str  # the page of a thread's first element
    begin: list[str]  # lines that compute the indices of the first element, and load vectors
    branches: list[BranchText]
    common: list[str]  # lines that run once per vector, behind the branches
    lanes: str  # the page of the loop over a vector's elements
    of_group: list[str]  # lines that run once per group of neighbours
    lines: list[str]  # of one element
    stored: str


@dataclass(frozen=True)
class MapPlan(WaitingPlan):
    page: ClassVar[str] = "families/expression/map.j2"

    problem: Map
    config: MapConfig

    @property
    def axes(self) -> tuple[Axis, ...]:
        return joined(self.problem, self.config.vector)[0]

    @property
    def root(self) -> Node:
        return joined(self.problem, self.config.vector)[1]

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
        return fields_of(self.problem.named)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return alignment_of(self.problem, self.vectors, self.config.vector)

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases_of(self.problem.named, self.problem.y_type)

    @property
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        return {
            "The problem.": (Constant("ELEMENTS", self.problem.elements),),
            "The config.": (*constants_of(self.config), *self._group_constants, *self._row_constants),
        }

    @property
    def _group_constants(self) -> tuple[Constant, ...]:
        return (Constant("GROUP", self.group, "neighbours along the last axis"),) if self.group > 1 else ()

    @property
    def _row_constants(self) -> tuple[Constant, ...]:
        return (Constant("ROW_VECTORS", self.row_vectors, "of elements that look up different rows"),) * self.is_tall

    @cached_property
    def row_vectors(self) -> int:
        """Return the vectors of neighbours that look up different rows of tables; 1 where none do."""
        nodes = (within for node in in_order(self.root) if isinstance(node, Lookup) for within in in_order(node.at))
        rows = {axis for node in nodes if isinstance(node, Position) for axis in node.at.axes}
        extents = [axis.extent for axis in takewhile(rows.__contains__, reversed(self.axes))]
        return prod(extents) // self.config.vector if rows else 1

    @property
    def is_tall(self) -> bool:
        """True where the vectors of a warp are of several rows, so that it looks up few rows of tables."""
        return self.row_vectors > 2 and self.row_vectors % 2 == 0 and self.config.threads % self.row_vectors == 0

    @property
    def axis(self) -> Axis | None:
        """Return the axis along which vectors lie."""
        return self.axes[-1] if self.axes else None

    @cached_property
    def chains(self) -> Chains:
        return chains_of(self.root, self.axis, self.config.vector)

    @cached_property
    def vectors(self) -> tuple[Load, ...]:
        """Return the loads that read neighbouring elements with a thread's vector."""
        return self._vectors_of(self.root)

    def _vectors_of(self, root: Node) -> tuple[Load, ...]:
        loads = [node for node in in_order(root) if isinstance(node, Load)]
        axis = self.axis
        return tuple(load for load in loads if axis is not None and is_vector(load, axis, self.config.vector))

    @property
    def group(self) -> int:
        """Return how many neighbours have equal indices of all axes but the last, in a vector of several of it."""
        last = self.problem.axes[-1].extent if self.problem.axes else 1
        is_several = self.config.vector > last and self.config.vector % last == 0
        return last if is_several and not self.chains else 1

    @property
    def context(self) -> MapContext:
        problem = self.problem
        axes = axes_of(self.axes, "first")[::-1]
        if self._inner:
            axes[-1] = axes[-1].replace("const int ", "const int first_", 1)
        made = statements(problem.root)
        own = self._lines(without(self.root, self.chains), 0)
        return MapContext(
            says=[f"  {one.name} = {one.text}" for one in made] + [f"  y = {made[-1].name}"],
            order=f"families/expression/{'tall' if self.is_tall else 'in_order'}.j2",
            begin=[*axes, *own.loads] or ["// Every element is the same."],
            branches=list(self._branches(len(own.loads))),
            common=[*own.common, "Vector<Output> y;"],
            lanes=f"families/expression/{'groups' if own.of_group else 'lanes'}.j2",
            of_group=own.of_group,
            lines=own.lines,
            stored=stored(problem.y_type, own.value),
        )

    def _lines(self, root: Node, loaded: int) -> ElementLines:
        """Return the lines of a value. The vectors are numbered from `loaded` on."""
        numbers = {load: loaded + at for at, load in enumerate(self._vectors_of(root))}
        lines = Lines(self.problem, lambda load: f"v{numbers[load]}.element[lane]" if load in numbers else None)
        made = statements(root)
        common, own = divided(made, lambda index: self.axis in index.axes)
        of_group, own = self._of_group(own)
        inside = [f"[[maybe_unused]] const int {axis} = first_{axis} + lane;" for axis in self._inner]
        loads = [vector_loaded(load, self.axes[-1], at) for load, at in numbers.items()]
        return ElementLines(loads, lines.of(common), of_group, [*inside, *lines.of(own)], made[-1].name)

    def _of_group(self, made: list[Statement]) -> tuple[list[str], list[Statement]]:
        """Return the lines that run once per group of neighbours, and the statements of one element."""
        axis, count = self.axis, self.group
        if axis is None or count == 1:
            return [], made
        same, own = divided(made, lambda index: changes_within(index, axis, count))
        group = Axis(f"group_{axis.name}", axis.extent)
        lines = Lines(self.problem).of([replace(one, node=with_axis(one.node, axis, group)) for one in same])
        return [f"const int {group.name} = {first_of(axis).name} + group;", *lines] if lines else [], own

    def _branches(self, loaded: int) -> Iterator[BranchText]:
        for number, (node, branches) in enumerate(self.chains.items()):
            chosen = str(Chosen(number, node.dtype))
            declared = ["// A vector computes one branch.", f"{CTYPES[node.dtype]} {chosen}[VECTOR];"]
            for at, branch in enumerate(branches):
                own = self._lines(branch.value, loaded)
                loaded += len(own.loads)
                begin = f"{'else ' * bool(at)}{self._condition(branch)}{{"
                inside = [f"    {line}" for line in (*own.loads, *own.common)]
                yield BranchText([*declared, begin, *inside], own.lines, chosen, own.value)
                declared = []

    def _condition(self, branch: Branch) -> str:
        if branch.condition is None:
            return ""
        assert self.axis is not None, "a condition is one on an axis"
        return f"if ({Lines(self.problem).nested(of_first(branch.condition, self.axis))}) "

    @property
    def _inner(self) -> list[str]:
        """Return the name of the axis along which vectors lie."""
        return [axis.name for axis in self.axes[-1:] if axis.extent > 1]

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
    """Return the vector whose widest array is read or written in 16 bytes. Where a load from a large tensor along the
    last axis is not one of neighbours, vectors are of no use but to a store, of 4 bytes. A search asks for it with
    every config."""
    axis = problem.axes[-1] if problem.axes else None
    along = _along(problem.root, axis)
    dtypes = [problem.y_type, *(problem.named[load.operand].dtype for load in along)]
    widest = max(ELEMENT_TYPES[dtype].bytes for dtype in dtypes)
    extent = 1 if axis is None else axis.extent
    fitting = [vector for vector in CHOICES["vector"] if extent % vector == 0 and vector * widest <= WIDEST]
    if chains_of(problem.root, axis, 1):
        # A warp has few branches where its vectors are short.
        short = [vector for vector in fitting if vector <= max(1, 4 // ELEMENT_TYPES[problem.y_type].bytes)]
        return next(vector for vector in reversed(short) if chains_of(problem.root, axis, vector))
    large = [load for load in along if _is_large(problem, load)]
    if axis is not None and not all(is_vector(load, axis, fitting[-1]) for load in large):
        return min(fitting[-1], max(1, 4 // widest))
    return max([fitting[-1], *_wider(problem, extent)])


def _wider(problem: Map, extent: int) -> Iterator[int]:
    """Yield the vectors of several of the last axis, with which what is as large as the output is read in vectors."""
    for vector in CHOICES["vector"]:
        axes, root = joined(problem, vector)
        if vector > extent and axes and axes[-1].extent % vector == 0:
            large = [load for load in _along(root, axes[-1]) if _is_large(problem, load)]
            dtypes = [problem.y_type, *(problem.named[load.operand].dtype for load in large)]
            widest = max(ELEMENT_TYPES[dtype].bytes for dtype in dtypes)
            if vector * widest <= WIDEST and all(is_vector(load, axes[-1], vector) for load in large):
                yield vector


def _is_large(problem: Map, load: Load) -> bool:
    return 8 * problem.named[load.operand].elements >= problem.elements


def _along(root: Node, axis: Axis | None) -> list[Load]:
    """Return the loads that differ along an axis."""
    loads = [node for node in in_order(root) if isinstance(node, Load)]
    return [load for load in loads if any(axis in index.axes for index in indices_of(load))]


def plan(problem: Map, config: MapConfig, target: Target) -> MapPlan:
    check_choices(config, CHOICES)
    at_most(config.threads, target.threads_per_block, f"threads of a block on {target.name}")
    made = MapPlan(problem, config, target)
    if made.extent % config.vector:
        shape = ",".join(map(str, problem.shape))
        raise Infeasible(f"vector={config.vector} divides no product of the last extents of shape={shape}")
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
