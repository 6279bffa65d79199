"""A reduction in passes over the columns of a row: a pass folds all that needs only the folds of earlier passes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache

from qconv.dtypes import ELEMENT_TYPES
from qconv.expression import Reduce
from qconv.expression.function import BOOL, CTYPES, FLOAT, INT
from qconv.expression.node import POSITIONS, Call, Fold, Load, Node, Number, Statement, in_order, statements
from qconv.expression.reduce import COMBINES, identity, varies
from qconv.generator.families.expression.lines import Lines, number


@dataclass(frozen=True)
class FoldLines:
    """A fold as a C++ type, named by its kind and its statement."""

    statement: Statement

    @property
    def _fold(self) -> Fold:
        assert isinstance(self.statement.node, Fold)
        return self.statement.node

    @property
    def is_position(self) -> bool:
        return self._fold.kind in POSITIONS

    @property
    def is_ordered(self) -> bool:
        """True where the order of the elements shows in the result."""
        return self._fold.of.dtype == FLOAT and not self.is_position

    @property
    def name(self) -> str:
        return self.statement.name

    @property
    def type(self) -> str:
        return f"{self._fold.kind.title()}{self.name[1:]}"

    @property
    def says(self) -> str:
        return f"{self.name} = {self.statement.text}"

    @property
    def element(self) -> str:
        """Return the type of an element. Bools are folded as ints."""
        of = self._fold.of.dtype
        return CTYPES[INT if of == BOOL else of]

    @property
    def value(self) -> str:
        return f"Position<{self.element}>" if self.is_position else self.element

    @property
    def bytes(self) -> int:
        """Return the bytes of a value; a position has its column beside it."""
        own = ELEMENT_TYPES[self._fold.of.dtype].bytes if self._fold.of.dtype != BOOL else 4
        return 2 * own if self.is_position else own

    @property
    def result(self) -> str:
        return CTYPES[self._fold.dtype]

    @property
    def identity(self) -> str:
        of = self._fold.of.dtype
        begin = identity(self._fold.kind, of)
        element = number(Number(int(begin), INT) if of == BOOL else Number(begin, of))
        return f"{{{element}, 0x7fffffff}}" if self.is_position else element

    @property
    def combined(self) -> str:
        if not self.is_position:
            return f"scalar::{COMBINES[self._fold.kind]}(a, b)"
        better = ">" if self._fold.kind == "argmax" else "<"
        earlier = "(a.element == b.element && a.column < b.column)"
        return f"a.element {better} b.element || {earlier} ? a : b"

    @property
    def of(self) -> str:
        """Return the value of an element; a NaN has no position."""
        if not self.is_position:
            return "element"
        has_nan = self._fold.of.dtype == FLOAT
        return f"{{{'element == element ? element : begin().element' if has_nan else 'element'}, column}}"

    @property
    def returned(self) -> str:
        if self.is_position:
            return "a.column"
        return "a != 0" if self.result == CTYPES[BOOL] else "a"

    @property
    def argument(self) -> str:
        of = self._fold.of
        return number(of) if isinstance(of, Number) else self.statement.arguments[0]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes that the C++ type computes besides those of the expression."""
        begin = Number(identity(self._fold.kind, self._fold.of.dtype), self._fold.of.dtype)
        return (begin,) if self.is_position else (begin, Call(COMBINES[self._fold.kind], (self._fold.of,) * 2))


@dataclass(frozen=True)
class Pass:
    """A pass over the columns, or the end of a reduction, which folds nothing."""

    rows: tuple[Statement, ...]  # values of a row that the passes before make possible
    read: tuple[Statement, ...]  # values of a column that an earlier pass kept
    elements: tuple[Statement, ...]  # statements of a column, for the folds or for the output
    folds: tuple[FoldLines, ...]


@dataclass(frozen=True)
class Passes:
    """The statements of a reduction by the pass that computes them. If it keeps values, then no pass calls a function
    of a column that an earlier one called."""

    problem: Reduce
    keeps: bool

    @cached_property
    def made(self) -> tuple[Statement, ...]:
        return statements(self.problem.root)

    @cached_property
    def _by_node(self) -> Mapping[Node, Statement]:
        return {one.node: one for one in self.made}

    @cached_property
    def _levels(self) -> Mapping[Node, int]:
        """Return the number of passes before a node can be computed."""
        levels: dict[Node, int] = {}
        for node in in_order(self.problem.root):
            levels[node] = max((levels[each] for each in node.arguments), default=0) + isinstance(node, Fold)
        return levels

    @cached_property
    def _varying(self) -> frozenset[Node]:
        """Return the nodes that differ between the columns of a row."""
        columns = self.problem.axes_of("columns")
        return frozenset(node for node in self._by_node if varies(node, columns))

    @cached_property
    def rows(self) -> tuple[Statement, ...]:
        """Return the statements that have one value per row."""
        return tuple(one for one in self.made if one.node not in self._varying)

    @cached_property
    def all(self) -> tuple[Pass, ...]:
        """Return the passes, and the end with the output."""
        folds = tuple(FoldLines(one) for one in self.made if isinstance(one.node, Fold))
        made: list[Pass] = []
        for at in range(max(self._levels.values()) + 1):
            own = tuple(fold for fold in folds if self._levels[fold.statement.node] == at + 1)
            roots = [fold.statement.node.arguments[0] for fold in own] or [self.problem.root]
            rows = (one for one in self.rows if self._levels[one.node] == at and not isinstance(one.node, Fold))
            known = {one.node for each in made for one in each.elements if isinstance(one.node, Call)}
            made.append(Pass(tuple(rows), *self._needed(roots, known if self.keeps else set()), own))
        return tuple(made)

    def _needed(self, roots: Iterable[Node], known: Set[Node]) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
        """Return the statements of a column that these nodes need: those that are known, and the others."""
        found: set[Node] = set()
        ahead = [root for root in roots if root in self._varying]
        while ahead:
            node = ahead.pop()
            if node not in found:
                found.add(node)
                ahead += [each for each in node.arguments if each in self._varying and node not in known]
        needed = [one for one in self.made if one.node in found]
        return tuple(one for one in needed if one.node in known), tuple(one for one in needed if one.node not in known)

    @cached_property
    def kept(self) -> tuple[Statement, ...]:
        """Return the statements whose values are kept from the pass that computes them."""
        read = {one for each in self.all for one in each.read}
        return tuple(one for one in self.made if one in read)

    @cached_property
    def folds(self) -> tuple[FoldLines, ...]:
        return tuple(fold for each in self.all for fold in each.folds)

    @cached_property
    def is_ordered(self) -> bool:
        return any(fold.is_ordered for fold in self.folds)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Return the loads of a column."""
        return tuple(node for node in self._by_node if isinstance(node, Load) and node in self._varying)

    def lines(self, lines: Lines, own: Sequence[Statement], *, besides: Iterable[str] = ()) -> list[str]:
        """Return the lines of statements, after those that read the row's values that they use, and those besides."""
        used = {name for one in own for name in one.arguments}.union(besides)
        read = [
            f"[[maybe_unused]] const {CTYPES[one.node.dtype]} {one.name} = rows.{one.name}[at];"
            for one in self.rows
            if one.name in used and one not in own
        ]
        return [*read, *lines.of(own)]

    def element_lines(self, lines: Lines, each: Pass) -> list[str]:
        """Return the lines of a pass for an element."""
        besides = [fold.argument for fold in each.folds] or [self.made[-1].name]
        kept = [f"const {CTYPES[one.node.dtype]} {one.name} = values.{one.name}[step][i];" for one in each.read]
        written = [f"values.{one.name}[step][i] = {one.name};" for one in self.kept if one in each.elements]
        return [*kept, *self.lines(lines, each.elements, besides=besides), *written]


@lru_cache(maxsize=64)
def passes_of(problem: Reduce, keeps: bool) -> Passes:
    return Passes(problem, keeps)
