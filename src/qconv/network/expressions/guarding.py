"""Values at an index that may be outside of a tensor: no element is read there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from qconv.expression.function import INT
from qconv.expression.index import Axis
from qconv.expression.node import Guard, Node, Number, Position, call
from qconv.network.expressions.lazy import Element, number, rewritten, with_arguments


def guarded(root: Node, guards: Iterable[Guard], fill: Node) -> Node:
    """Return a value where all guards hold, and `fill` elsewhere."""
    needed = tuple(guard for guard in guards if guard.is_needed)
    if not needed or root == fill:
        return root
    if any(guard.index.high < 0 or guard.index.low >= guard.extent for guard in needed):
        return fill
    if isinstance(root, Element) and (not root.guards or root.fill == fill):
        return Element(root.tensor, root.indices, root.dtype, _joined(root, needed), fill)
    inside = _read_inside(root, needed)
    return call("select", reduce(lambda one, other: call("bit_and", one, other), map(_condition, needed)), inside, fill)


def _read_inside(root: Node, guards: tuple[Guard, ...]) -> Node:
    """Return the value of which every element that depends on a guarded axis is read where the guards hold."""
    axes = frozenset[Axis]().union(*(guard.index.axes for guard in guards))

    def change(node: Node, arguments: tuple[Node, ...]) -> Node:
        if not isinstance(node, Element) or all(axes.isdisjoint(index.axes) for index in node.indices):
            return with_arguments(node, arguments)
        fill = arguments[0] if arguments else number(0, node.dtype)
        return Element(node.tensor, node.indices, node.dtype, _joined(node, guards), fill)

    return rewritten(root, change)


def _joined(element: Element, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    return tuple(dict.fromkeys((*element.guards, *guards)))


def _condition(guard: Guard) -> Node:
    """Return the condition of a guard."""
    at = Position(guard.index)
    conditions = []
    if guard.index.low < 0:
        conditions.append(call("less_or_equal", Number(0, INT), at))
    if guard.index.high >= guard.extent:
        conditions.append(call("less", at, Number(guard.extent, INT)))
    return reduce(lambda one, other: call("bit_and", one, other), conditions)
