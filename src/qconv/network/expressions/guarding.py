"""Values at an index that may be outside of a tensor: no element is read there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from qconv.expression.function import INT
from qconv.expression.index import Axis
from qconv.expression.node import Call, Guard, Number, Position, call, in_order
from qconv.network.expressions.lazy import Element, Folding, Product, number


def guarded(root: Any, guards: Iterable[Guard], fill: Any) -> Any:
    """Return a value where all guards hold, and `fill` elsewhere."""
    needed = tuple(guard for guard in guards if guard.is_needed)
    if not needed or root == fill:
        return root
    if any(guard.index.high < 0 or guard.index.low >= guard.extent for guard in needed):
        return fill
    if isinstance(root, Element) and (not root.guards or root.fill == fill):
        return Element(root.tensor, root.indices, root.dtype, _joined(root, needed), fill)
    inside = _read_inside(root, needed)
    return call("select", reduce(lambda one, other: call("bit_and", one, other), map(_holds, needed)), inside, fill)


def _read_inside(root: Any, guards: tuple[Guard, ...]) -> Any:
    """Return the value of which every element that depends on a guarded axis is read where the guards hold."""
    axes = frozenset[Axis]().union(*(guard.index.axes for guard in guards))
    made: dict[Any, Any] = {}
    for node in in_order(root):
        arguments = tuple(made[each] for each in node.arguments)
        made[node] = node
        if isinstance(node, Element) and not axes.isdisjoint(frozenset().union(*(at.axes for at in node.indices))):
            fill = arguments[0] if arguments else number(0, node.dtype)
            made[node] = Element(node.tensor, node.indices, node.dtype, _joined(node, guards), fill)
        elif isinstance(node, Element) and arguments:
            made[node] = Element(node.tensor, node.indices, node.dtype, node.guards, arguments[0])
        elif isinstance(node, Call):
            made[node] = Call(node.function, arguments)
        elif isinstance(node, Folding):
            made[node] = Folding(node.kind, arguments[0], node.columns)
        elif isinstance(node, Product):
            made[node] = Product(arguments[0], arguments[1], node.sums)
    return made[root]


def _joined(element: Element, guards: tuple[Guard, ...]) -> tuple[Guard, ...]:
    return tuple(dict.fromkeys((*element.guards, *guards)))


def _holds(guard: Guard) -> Any:
    """Return the condition of a guard."""
    at = Position(guard.index)
    conditions = []
    if guard.index.low < 0:
        conditions.append(call("less_or_equal", Number(0, INT), at))
    if guard.index.high >= guard.extent:
        conditions.append(call("less", at, Number(guard.extent, INT)))
    return reduce(lambda one, other: call("bit_and", one, other), conditions)
