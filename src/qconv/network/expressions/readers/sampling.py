"""GridSample: elements at places that another tensor says, in float32 and in the order of ONNX Runtime's arithmetic.

A sample reads one or more taps along each axis. A tap outside of the axis is padding: zero, the element at the border,
or the one that a mirror at the border shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from qconv.expression.function import FLOAT, INT
from qconv.expression.index import Index, flat
from qconv.expression.node import Node, Number, Position, call
from qconv.network.expressions.lazy import Indices, Lazy, Reader, converted, number
from qconv.network.graph.served import Unserved

PADDINGS = ("zeros", "border", "reflection")
ALPHA = -0.75  # of cubic interpolation


@dataclass(frozen=True)
class Tap:
    """An element along an axis, its weight, and where it counts; None where it always does."""

    index: Node
    weight: Node | None
    is_inside: Node | None


@dataclass(frozen=True)
class Sampled:
    """An axis of x that is sampled."""

    extent: int
    padding: str
    aligns_corners: bool

    def place(self, given: Node) -> Node:
        """Return the place of a number from -1 to 1, in elements."""
        moved = call("add", given, _real(1))
        if self.aligns_corners:
            return call("multiply", call("divide", moved, _real(2)), _real(self.extent - 1))
        return call("divide", call("subtract", call("multiply", moved, _real(self.extent)), _real(1)), _real(2))

    def tap(self, place: Node, weight: Node | None) -> Tap:
        """Return the tap at a whole number."""
        index, last = call("to_int32", place), Number(self.extent - 1, INT)
        if self.padding == "reflection":
            index = self._reflected(index)
        clamped = call("minimum", call("maximum", index, Number(0, INT)), last)
        is_inside = call("equal", index, clamped) if self.padding == "zeros" else None
        return Tap(clamped, weight, is_inside)

    def _reflected(self, index: Node) -> Node:
        """Return an index mirrored at the centers of the border's elements, or at their edges."""
        period = 2 * (self.extent - self.aligns_corners)
        inside = call("modulo", index, Number(period, INT))
        back = call("subtract", Number(period - (not self.aligns_corners), INT), inside)
        return call("select", call("less", inside, Number(self.extent, INT)), inside, back)


def _real(value: float) -> Number:
    return number(value, FLOAT)


def _nearest(axis: Sampled, place: Node) -> list[Tap]:
    return [axis.tap(call("round", place), None)]


def _linear(axis: Sampled, place: Node) -> list[Tap]:
    first = call("floor", place)
    second = call("add", first, _real(1))
    return [axis.tap(first, call("subtract", second, place)), axis.tap(second, call("subtract", place, first))]


def _cubic(axis: Sampled, place: Node) -> list[Tap]:
    first = call("subtract", call("floor", place), _real(1))
    s = call("subtract", call("subtract", place, first), _real(1))
    rest = call("subtract", _real(1), s)
    weights = [_far(call("add", s, _real(1))), _near(s), _near(rest), _far(call("subtract", _real(2), s))]
    return [axis.tap(call("add", first, _real(at)), weight) for at, weight in enumerate(weights)]


def _far(distance: Node) -> Node:
    """Return the weight of an element more than 1 away."""
    made = call("subtract", call("multiply", _real(ALPHA), distance), _real(5 * ALPHA))
    made = call("add", call("multiply", made, distance), _real(8 * ALPHA))
    return call("subtract", call("multiply", made, distance), _real(4 * ALPHA))


def _near(distance: Node) -> Node:
    made = call("subtract", call("multiply", _real(ALPHA + 2), distance), _real(ALPHA + 3))
    return call("add", call("multiply", call("multiply", made, distance), distance), _real(1))


# The taps of a place along an axis, by mode without the prefix that older versions have.
MODES: Mapping[str, Callable[[Sampled, Node], list[Tap]]] = {
    "cubic": _cubic,
    "linear": _linear,
    "nearest": _nearest,
}


def grid_sample(reader: Reader) -> Lazy:
    x, grid = reader.x(), reader.x(1)
    mode = reader.attribute("mode", "linear").removeprefix("bi")
    padding = reader.attribute("padding_mode", "zeros")
    if mode not in MODES or padding not in PADDINGS:
        raise Unserved(
            f"mode={mode}, padding_mode={padding}; the kernels have {', '.join(MODES)}, and {', '.join(PADDINGS)}"
        )
    if mode != "nearest" and x.computed != FLOAT:
        raise Unserved(f"x is {x.dtype}, and mode={mode} weighs its elements; the kernels weigh floats")
    aligns = bool(reader.attribute("align_corners", 0))
    axes = [Sampled(extent, padding, aligns) for extent in x.shape[2:]]
    element, pixels = reader.placed(), prod(x.shape[2:])

    def at(indices: Indices) -> Node:
        image, channel, *places = indices
        # The last axis' place is the first number.
        given = [grid.at((image, *places, Index((), number))) for number in range(len(axes))][::-1]
        taps = [MODES[mode](axis, axis.place(converted(one, FLOAT))) for axis, one in zip(axes, given, strict=True)]
        first = Position(flat((image, channel), x.shape[:2]) * pixels)

        def sample(chosen: Sequence[Tap]) -> Node:
            """Return the weighted sum of the elements with these indices along the first axes."""
            if len(chosen) == len(axes):
                return _element(element, first, chosen, x)
            parts = [(tap.weight, sample((*chosen, tap))) for tap in taps[len(chosen)]]
            weighted = [part if weight is None else call("multiply", weight, part) for weight, part in parts]
            return reduce(lambda one, other: call("add", one, other), weighted)

        return converted(sample(()), x.dtype)

    return Lazy((*x.shape[:2], *grid.shape[1:-1]), x.dtype, at)


def _element(element: Callable[[Node], Node], first: Node, taps: Sequence[Tap], x: Lazy) -> Node:
    """Return the element of x at these taps, 0 where one of them is outside."""
    place = reduce(
        lambda one, other: call("add", call("multiply", one, Number(other[0], INT)), other[1].index),
        zip(x.shape[3:], taps[1:], strict=True),
        taps[0].index,
    )
    found = element(call("add", first, place))
    conditions = [tap.is_inside for tap in taps if tap.is_inside is not None]
    if not conditions:
        return found
    is_inside = reduce(lambda one, other: call("bit_and", one, other), conditions)
    return call("select", is_inside, found, number(0, x.dtype))


READERS: Mapping[str, Callable[[Reader], Lazy]] = {"GridSample": grid_sample}
