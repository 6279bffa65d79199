"""The parts that the families of `matmul` have in common: tiles, the two factors, and the lines behind a sum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

from qconv.dtypes import ELEMENT_TYPES
from qconv.expression import MatMul
from qconv.expression.function import CTYPES
from qconv.expression.index import Axis, Index
from qconv.expression.node import Fold, Load, Node, in_order, indices_of, statements
from qconv.expression.problem import Expression
from qconv.expression.whole import Range, whole
from qconv.generator.families.expression.lines import Lines, aliases_of, fields_of, index_of, split, stored
from qconv.generator.plan import Constant, Field, WaitingPlan


@dataclass(frozen=True)
class TiledPlan(WaitingPlan):
    """A plan whose blocks compute a tile of the output each."""

    problem: MatMul
    tiles_m: int  # blocks per column of a batch
    tiles_n: int  # blocks per row of a batch

    @cached_property
    def blocks(self) -> int:
        return prod(self.problem.batch) * self.tiles_m * self.tiles_n

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        return fields_of(self.problem.named)

    @cached_property
    def alignment(self) -> dict[str, int]:
        return {each.name: ELEMENT_TYPES[each.dtype].bytes for each in (*self.problem.inputs, *self.problem.outputs)}

    @cached_property
    def aliases(self) -> dict[str, str]:
        return aliases_of(self.problem.named, self.problem.y_type)


@dataclass(frozen=True, eq=False)
class Factor:
    """A factor of a problem, whose terms have the axes `axes` and k. C++ calls the place along `axes` `at`."""

    problem: MatMul
    root: Node
    axes: str
    at: str

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return in_order(self.root)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        return tuple(node for node in self.nodes if isinstance(node, Load))

    @cached_property
    def is_along_k(self) -> bool:
        """True where the loads read neighbours along k, rather than along the other axes."""
        along, across = (
            max((run(load.at, self.problem.axes_of(axes)) for load in self.loads), default=1)
            for axes in ("k", self.axes)
        )
        return along > across

    @cached_property
    def is_guarded(self) -> bool:
        return any(load.guards for load in self.loads)

    @cached_property
    def range(self) -> Range | None:
        """Return bounds of the terms where they are known to be whole numbers."""
        return whole(self.problem, self.root)

    def split(self, k: str) -> list[str]:
        """Return the lines that split the places of a term into indices."""
        return split(self.problem, ("batch", "batch"), (self.axes, self.at), ("k", k))


@lru_cache(maxsize=64)
def factors_of(problem: MatMul) -> tuple[Factor, Factor]:
    """Return the left and the right factor. A search asks for them with every config."""
    return Factor(problem, problem.left, "m", "row"), Factor(problem, problem.right, "n", "column")


def constants_of_problem(problem: MatMul) -> tuple[Constant, ...]:
    return (
        Constant("M", prod(problem.m)),
        Constant("N", prod(problem.n)),
        Constant("DEPTH", problem.depth, "products per sum"),
    )


def constants_of_neighbours(problem: MatMul) -> tuple[Constant, ...]:
    """Return the constants that say which elements are neighbours in memory."""
    left, right = factors_of(problem)
    return (
        Constant("LEFT_ALONG_K", left.is_along_k, "neighbours in memory"),
        Constant("RIGHT_ALONG_K", right.is_along_k, "neighbours in memory"),
        Constant("WRITE_ALONG_M", writes_along_m(problem), "neighbours in the output"),
    )


def writes_along_m(problem: MatMul) -> bool:
    """True where neighbours in the output are rows, rather than columns."""
    at = problem.y_at
    return run(at, problem.axes_of("m")) > run(at, problem.axes_of("n"))


def run(at: Index, axes: tuple[Axis, ...]) -> int:
    """Return the number of neighbours that an index reads as the last of the axes grows."""
    inner = next((axis for axis in reversed(axes) if axis.extent > 1), None)
    steps = {atom: times for atom, times in at.terms if isinstance(atom, Axis)}
    return inner.extent if inner is not None and steps.get(inner) == 1 else 1


@dataclass(frozen=True)
class Finish:
    """The lines behind a sum."""

    common: list[str]  # members: what all outputs have in common
    common_lines: list[str]
    lines: list[str]  # that compute an element of the output
    element: str
    store: str  # the line that writes it


def finish_of(problem: MatMul) -> Finish:
    made, lines = statements(problem.root), Lines(problem)
    after = _outside(problem.root)
    (sums,) = (statement.name for statement in made if isinstance(statement.node, Fold))
    shared = {node for node in after if _is_common(node)}
    given = {each for node in after - shared for each in node.arguments} | {problem.root}
    common = [each for each in made if each.node in shared and each.node in given]
    types = {each.name: CTYPES[each.node.dtype] for each in common}
    element = stored(problem.y_type, made[-1].name)
    return Finish(
        [f"{ctype} {name};" for name, ctype in types.items()],
        [
            *lines.of([each for each in made if each.node in shared]),
            *(f"common.{name} = {name};" for name in types),
        ],
        [
            *split(problem, ("batch", "batch"), ("m", "row"), ("n", "column")),
            *(f"const {ctype} {name} = common.{name};" for name, ctype in types.items()),
            f"const Term {sums} = sum;",
            *lines.of([each for each in made if each.node in after - shared]),
        ],
        element,
        f"args.y[{index_of(problem.y_at)}] = {element};",
    )


def says_of(problem: Expression, y: str = "y") -> list[str]:
    """Return the statements of an expression, for a source's header."""
    made = statements(problem.root)
    return [f"  {one.name} = {one.text}" for one in made] + [f"  {y} = {made[-1].name}"]


def _is_common(node: Node) -> bool:
    """True for a value that depends neither on the place of an output nor on its sum."""
    return not any(isinstance(each, Fold) or any(at.axes for at in indices_of(each)) for each in in_order(node))


def _outside(root: Node) -> set[Node]:
    """Return the nodes that follow the sum."""
    found: set[Node] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Fold) and node not in found:
            found.add(node)
            waiting.extend(node.arguments)
    return found
