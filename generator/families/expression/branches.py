"""Elements that are of one branch or another by their place, as those of a concatenation: a chain of selects. Where all
elements of a vector are of the same branch, the vector computes that branch alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qconv.expression.function import INT
from qconv.expression.index import Axis, Index
from qconv.expression.node import Call, Load, Lookup, Node, Number, Position, call, in_order, replaced
from qconv.generator.families.expression.lines import Chosen, begins_vector, first_of, with_axis

# With two branches, a vector computes both.
FEWEST = 3


@dataclass(frozen=True)
class Branch:
    condition: Node | None  # None: of all elements that are left
    value: Node


@dataclass(frozen=True)
class Span:
    """The indices of an axis at which a condition holds, from `low` to before `high`."""

    low: int
    high: int

    def __and__(self, other: Span) -> Span:
        return Span(max(self.low, other.low), min(self.high, other.high))


Chains = Mapping[Node, tuple[Branch, ...]]


def chains_of(root: Node, axis: Axis | None, vector: int) -> dict[Node, tuple[Branch, ...]]:
    """Return the outermost chains whose conditions are equal for all elements of each vector along an axis."""
    found: dict[Node, tuple[Branch, ...]] = {}
    if axis is None:
        return found
    seen: set[Node] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        branches = _branches(node, axis, vector)
        if len(branches) >= FEWEST and sum(_reads(branch.value) for branch in branches) >= FEWEST - 1:
            found[node] = branches
        else:
            waiting.extend(reversed(node.arguments))
    return found


def without(root: Node, chains: Chains) -> Node:
    """Return the expression behind its chains."""
    numbers = {node: number for number, node in enumerate(chains)}
    return replaced(root, lambda node: Chosen(numbers[node], node.dtype) if node in numbers else None)


def of_first(condition: Node, axis: Axis) -> Node:
    """Return the condition of the first element of a vector along an axis."""
    return replaced(condition, lambda node: with_axis(node, axis, first_of(axis)))


def _branches(node: Node, axis: Axis, vector: int) -> tuple[Branch, ...]:
    branches: list[Branch] = []
    left = Span(0, axis.extent)
    while isinstance(node, Call) and node.function == "select" and _is_even(node.arguments[0], axis, vector):
        condition, value, node = node.arguments
        span = _span(condition, axis)
        if span is not None:
            span = left & span
            if span.low >= span.high:
                continue
            value = _narrowed(value, axis, span)
            if span.low == left.low:
                condition = call("less", Position(Index.of(axis)), Number(span.high, INT))
                left = Span(span.high, left.high)
        branches.append(Branch(condition, value))
        if left.low >= left.high:
            return (*branches[:-1], Branch(None, value))
    return (*branches, Branch(None, _narrowed(node, axis, left)))


def _span(condition: Node, axis: Axis) -> Span | None:
    """Return where a condition holds, or None if that is no one span."""
    match condition:
        case Call("bit_and", (one, other)):
            spans = _span(one, axis), _span(other, axis)
            return None if spans[0] is None or spans[1] is None else spans[0] & spans[1]
        case Call("less", (Position(at), Number(value))) if _is_alone(at, axis):
            return Span(0, int(value) - at.constant)
        case Call("less_or_equal", (Number(value), Position(at))) if _is_alone(at, axis):
            return Span(int(value) - at.constant, axis.extent)
    return None


def _is_alone(at: Index, axis: Axis) -> bool:
    return at - at.constant == Index.of(axis)


def _narrowed(value: Node, axis: Axis, span: Span) -> Node:
    """Return a value without the guards that hold in all of a span."""
    inside = Index.of(Axis(axis.name, span.high - span.low)) + span.low

    def unguarded(node: Node) -> Node | None:
        if not isinstance(node, Load) or not node.guards:
            return None
        moved = [
            guard.moved(lambda at: at.substituted(lambda each: inside if each == axis else Index.of(each)))
            for guard in node.guards
        ]
        needed = tuple(guard for guard, there in zip(node.guards, moved, strict=True) if there.is_needed)
        return Load(node.operand, node.at, node.dtype, needed, node.fill if needed else None)

    return replaced(value, unguarded)


def _reads(value: Node) -> bool:
    return any(isinstance(node, Load | Lookup) for node in in_order(value))


def _is_even(condition: Node, axis: Axis, vector: int) -> bool:
    """True where a condition is the same for all elements of each vector."""
    return isinstance(condition, Call) and (
        _bound(condition, axis, vector) or all(_is_constant(each, axis, vector) for each in condition.arguments)
    )


def _is_constant(node: Node, axis: Axis, vector: int) -> bool:
    if isinstance(node, Number):
        return True
    if isinstance(node, Position):
        return axis not in node.at.axes or vector == 1
    return _is_even(node, axis, vector)


def _bound(condition: Call, axis: Axis, vector: int) -> bool:
    """True for `i + a < b` and `a <= i + b`, where a vector begins at the bound."""
    match condition:
        case Call("less", (Position(at), Number(value, dtype))) | Call(
            "less_or_equal", (Number(value, dtype), Position(at))
        ):
            return dtype == INT and begins_vector(at - int(value), axis, vector)
    return False
