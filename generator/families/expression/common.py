"""Values that neighbouring elements have in common are computed once. Compilers leave them where each element computes
them: they repeat loads behind a branch, such as that of a division."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qconv.expression.index import Atom, Axis, Entry, Index, Quotient
from qconv.expression.node import Node, Statement, indices_of
from qconv.generator.families.expression.lines import Chosen

Statements = Sequence[Statement]


def divided(made: Statements, changes: Callable[[Index], bool]) -> tuple[list[Statement], list[Statement]]:
    """Return the statements with the same value for all elements between which no index changes, and the others."""
    own: set[Node] = set()
    for one in made:
        is_own = isinstance(one.node, Chosen) or any(changes(index) for index in indices_of(one.node))
        if is_own or not own.isdisjoint(one.node.arguments):
            own.add(one.node)
    return [one for one in made if one.node not in own], [one for one in made if one.node in own]


def changes_within(index: Index, axis: Axis, count: int) -> bool:
    """True for an index that may differ between `count` neighbours along an axis, the first a multiple of `count`."""
    return any(_changes(atom, axis, count) for atom, _ in index.terms)


def _changes(atom: Atom, axis: Axis, count: int) -> bool:
    if isinstance(atom, Axis):
        return atom == axis
    if isinstance(atom, Quotient) and atom.of == Index.of(axis) and atom.by % count == 0:
        return False
    return changes_within(atom.at if isinstance(atom, Entry) else atom.of, axis, count)
