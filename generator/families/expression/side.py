"""A factor of `attention` in shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qconv.expression.function import INT
from qconv.expression.node import Call, Load, Node, Number, statements
from qconv.generator.families.expression.lines import Lines, number
from qconv.generator.families.expression.neighbours import Neighbours, TermLines

# Chunks of a factor that a thread has under way, of bytes and of other terms, which take more registers.
UNDER_WAY = {"bytes": 16, "terms": 4}


@dataclass(frozen=True)
class Side:
    """A factor in shared memory, as a C++ type."""

    name: str
    says: str
    rows: str  # in shared memory
    extent: str  # rows that there are
    width: str  # terms of a row
    near: Neighbours
    root: Node
    before: list[str]  # lines that split the places of a term into indices

    @property
    def page(self) -> str:
        """Return what a chunk consists of: terms of any kind, or bytes without their zero point."""
        return "terms" if self._load is None else "bytes"

    @property
    def under_way(self) -> int:
        return UNDER_WAY[self.page]

    @property
    def lines(self) -> TermLines:
        return self.near.lines(self.root, self.before)

    @cached_property
    def _difference(self) -> tuple[Node, Node]:
        """Return what the terms are, and the number that is subtracted from each."""
        root = self.root.arguments[0] if is_call(self.root, "to_float32") else self.root
        is_difference = is_call(root, "subtract") and is_number(root.arguments[1])
        return (root.arguments[0], root.arguments[1]) if is_difference else (root, Number(0, INT))

    @property
    def _load(self) -> Load | None:
        """Return the bytes that are all that the terms consist of, beside their zero point."""
        load, _ = self._difference
        return load if isinstance(load, Load) and load in self.near.loads and not load.guards else None

    @property
    def byte(self) -> str:
        assert self._load is not None, "a chunk of bytes has a load"
        return self._load.operand.upper()

    @property
    def zero(self) -> TermLines:
        """Return the lines that load the zero point."""
        _, zero = self._difference
        if isinstance(zero, Number):
            return TermLines([], [], number(zero))
        made = statements(zero)
        return TermLines(Lines(self.near.problem).of(made), [], made[-1].name)


def is_call(node: Node, function: str) -> bool:
    return isinstance(node, Call) and node.function == function


def is_number(node: Node) -> bool:
    """True for an integer, and for one that all terms read."""
    is_one = isinstance(node, Load) and not node.at.axes and not node.guards
    return isinstance(node, Number) or is_one
