"""The whole numbers that a node can be, from the element types of what it loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from qconv.dtypes import RANGES
from qconv.expression.function import BOOL, INT
from qconv.expression.node import Call, Load, Lookup, Node, Number, in_order
from qconv.expression.problem import Expression


class Range(NamedTuple):
    low: int
    high: int

    @property
    def magnitude(self) -> int:
        return max(abs(self.low), abs(self.high))

    def join(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))


def _products(a: Range, b: Range) -> Range:
    every = [x * y for x in a for y in b]
    return Range(min(every), max(every))


# The bounds of functions of whole numbers, which do not wrap around where the result is as small as here.
_RANGES: Mapping[str, Callable[..., Range]] = {
    "add": lambda a, b: Range(a.low + b.low, a.high + b.high),
    "subtract": lambda a, b: Range(a.low - b.high, a.high - b.low),
    "multiply": _products,
    "negate": lambda a: Range(-a.high, -a.low),
    "maximum": lambda a, b: Range(max(a.low, b.low), max(a.high, b.high)),
    "minimum": lambda a, b: Range(min(a.low, b.low), min(a.high, b.high)),
    "to_int32": lambda a: a,
    "to_float32": lambda a: a,
}
_WRAPS = {f"wrap_{dtype}": Range(*RANGES[dtype]) for dtype in ("int8", "uint8", "int16", "uint16")}
# A float holds every whole number up to here.
_EXACT = 2**24


def whole(problem: Expression, root: Node) -> Range | None:
    """Return bounds of a node whose values are whole numbers of at most 24 bits, or None for another one."""
    found: dict[Node, Range | None] = {}
    for node in in_order(root):
        made = _range_of(problem, node, [found[each] for each in node.arguments])
        found[node] = made if made is not None and made.magnitude <= _EXACT else None
    return found[root]


def _range_of(problem: Expression, node: Node, arguments: list[Range | None]) -> Range | None:
    if isinstance(node, Number):
        return Range(int(node.value), int(node.value)) if node.dtype in (INT, BOOL) else None
    if isinstance(node, Load | Lookup):
        limits = RANGES.get(problem.named[node.operand].dtype)
        loaded = None if limits is None else Range(*limits)
        if isinstance(node, Lookup) or not arguments or loaded is None:
            return loaded
        return None if arguments[0] is None else loaded.join(arguments[0])
    if not isinstance(node, Call):
        return None
    if node.function in _WRAPS:
        return _WRAPS[node.function]
    known = [each for each in arguments if each is not None]
    of = _RANGES.get(node.function)
    return of(*known) if of is not None and len(known) == len(arguments) else None
