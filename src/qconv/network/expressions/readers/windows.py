"""Pooling: the largest element or the mean of each window.

The elements of a window are combined row by row. Few are combined one after the other, as a map; many are folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import prod

import numpy as np

from qconv.dtypes import RANGES
from qconv.expression.index import Axis, Index, flat
from qconv.expression.node import Guard, Node, Position, call
from qconv.expression.reduce import COMBINES
from qconv.network.expressions.guarding import guarded
from qconv.network.expressions.lazy import Array, Folding, Indices, Lazy, Reader, narrowed, number
from qconv.network.graph.served import Unserved

# Elements of a window that are combined one after the other.
FEW = 16
# How many squares of squares an element is in a norm of each degree.
SQUARES = {1: 0, 2: 1, 4: 2}


@dataclass(frozen=True)
class Window:
    """The windows along one axis: of `size` elements, `dilation` apart."""

    extent: int  # elements of the axis
    size: int
    stride: int
    dilation: int
    pads: tuple[int, int]
    has_part: bool  # whether the last window may lie behind the padding in part

    @property
    def count(self) -> int:
        """Return the number of windows."""
        room = self.extent + sum(self.pads) - self.dilation * (self.size - 1) - 1
        count = (-(-room // self.stride) if self.has_part else room // self.stride) + 1
        # A window does not begin behind the elements and the padding in front.
        return count - (self.has_part and (count - 1) * self.stride >= self.extent + self.pads[0])

    def at(self, window: Index, tap: Index | int) -> Index:
        return window * self.stride + (tap * self.dilation - self.pads[0])

    def elements(self, with_padding: bool) -> Array:
        """Return the number of elements of each window that count for its mean."""
        begins = np.arange(self.count) * self.stride - self.pads[0]
        places = begins[:, None] + np.arange(self.size) * self.dilation
        before, behind = self.pads if with_padding else (0, 0)
        return np.asarray(((places >= -before) & (places < self.extent + behind)).sum(axis=1))


def windows_of(reader: Reader, x: Lazy) -> tuple[Window, ...]:
    sizes = tuple(int(size) for size in reader.attribute("kernel_shape"))
    rank = len(sizes)
    strides, dilations = (reader.attribute(name, (1,) * rank) for name in ("strides", "dilations"))
    pads = reader.attribute("pads", (0,) * 2 * rank)
    has_part, auto = bool(reader.attribute("ceil_mode", 0)), reader.attribute("auto_pad", "NOTSET")
    if auto.startswith("SAME") and any(gap != 1 for gap in dilations):
        raise Unserved(f"dilations={tuple(dilations)} with auto_pad: ONNX Runtime pads as if there were none")
    made = []
    for axis, extent in enumerate(x.shape[2:]):
        reach = dilations[axis] * (sizes[axis] - 1) + 1
        both = (pads[axis], pads[axis + rank])
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-extent // strides[axis]) - 1) * strides[axis] + reach - extent, 0)
            both = (total // 2, total - total // 2) if auto == "SAME_UPPER" else (total - total // 2, total // 2)
        elif auto == "VALID":
            both = (0, 0)
        made.append(Window(extent, sizes[axis], strides[axis], dilations[axis], both, has_part and auto == "NOTSET"))
    return tuple(made)


def _tap(x: Lazy, windows: Sequence[Window], indices: Indices, taps: Iterable[Index | int], fill: Node) -> Node:
    """Return an element of a window, and `fill` where it is padding."""
    inside = [window.at(index, one) for window, index, one in zip(windows, indices[2:], taps, strict=True)]
    guards = [Guard(index, window.extent) for index, window in zip(inside, windows, strict=True)]
    return guarded(x.at((*indices[:2], *inside)), guards, fill)


def _columns(windows: Sequence[Window]) -> tuple[Axis, ...]:
    return tuple(Axis(f"c{number}", window.size) for number, window in enumerate(windows))


def pooled(kind: str, x: Lazy, windows: tuple[Window, ...], fill: Node, element: Callable[[Node], Node]) -> Lazy:
    """Return a tensor with functions of the elements of each window, combined."""
    sizes = [window.size for window in windows]
    of = Lazy(x.shape, x.dtype, lambda indices: element(x.at(indices)))

    def at(indices: Indices) -> Node:
        if prod(sizes) <= FEW:
            taps = [_tap(of, windows, indices, each, fill) for each in product(*map(range, sizes))]
            return reduce(lambda one, other: call(COMBINES[kind], one, other), taps)
        columns = _columns(windows)
        return Folding(kind, _tap(of, windows, indices, map(Index.of, columns), fill), columns)

    return Lazy((*x.shape[:2], *(window.count for window in windows)), x.dtype, at)


def lowest(dtype: str) -> Node:
    return number(-np.inf if dtype.startswith("float") else RANGES.get(dtype, RANGES["int32"])[0], dtype)


def max_pool(reader: Reader) -> Lazy:
    """Read an output: the largest elements, or their places in x."""
    x = reader.x()
    if reader.attribute("output", 0) == 1:
        return _places_of_largest(x, windows_of(reader, x), bool(reader.attribute("storage_order", 0)))
    return pooled("maximum", x, windows_of(reader, x), lowest(x.dtype), lambda element: element)


def _places_of_largest(x: Lazy, windows: tuple[Window, ...], is_first_fastest: bool) -> Lazy:
    """Return the place in x of the first largest element of each window, with the last or the first axis of the pixels
    as the fastest."""
    columns = _columns(windows)
    extents, sizes = [window.extent for window in windows], [window.size for window in windows]
    steps = [prod(extents[:at] if is_first_fastest else extents[at + 1 :]) for at in range(len(extents))]
    # Bytes have a number below all of them, so that padding is no element.
    fill = lowest(x.dtype) if x.computed == "float32" else number(RANGES[x.dtype][0] - 1, "int32")

    def at(indices: Indices) -> Node:
        largest = Folding("argmax", _tap(x, windows, indices, map(Index.of, columns), fill), columns)
        begin = flat(indices[:2], x.shape[:2]) * prod(extents)
        for window, index, step in zip(windows, indices[2:], steps, strict=True):
            begin = begin + window.at(index, 0) * step
        place: Node = Position(begin)
        for axis, (window, step) in enumerate(zip(windows, steps, strict=True)):
            rows = call("divide", largest, number(prod(sizes[axis + 1 :]), "int32"))
            tap = call("remainder", rows, number(window.size, "int32"))
            place = call("add", place, call("multiply", tap, number(window.dilation * step, "int32")))
        return call("to_int64", place)

    return Lazy((*x.shape[:2], *(window.count for window in windows)), "int64", at)


def average_pool(reader: Reader) -> Lazy:
    x = reader.x()
    return averaged(reader, x, windows_of(reader, x), bool(reader.attribute("count_include_pad", 0)))


def averaged(reader: Reader, x: Lazy, windows: tuple[Window, ...], with_padding: bool) -> Lazy:
    """Return the mean of each window: its sum, divided by the number of its elements."""
    if x.computed != "float32":
        raise Unserved(f"x is {x.dtype}; means are of floats")
    sums = pooled("sum", x, windows, number(0, "float32"), lambda element: element)
    counts = [window.elements(with_padding).astype(np.float32) for window in windows]
    per_axis = [None if (each == each[0]).all() else reader.vector(each) for each in counts]
    same = float(prod(each[0] for each, along in zip(counts, per_axis, strict=True) if along is None))

    def at(indices: Indices) -> Node:
        factors = [along(index) for along, index in zip(per_axis, indices[2:], strict=True) if along is not None]
        if same != 1 or not factors:
            factors.append(number(same, "float32"))
        count = reduce(lambda one, other: call("multiply", one, other), factors)
        return narrowed(call("divide", sums.at(indices), count), x.dtype)

    return Lazy(sums.shape, x.dtype, at)


def lp_pool(reader: Reader) -> Lazy:
    x = reader.x()
    return normed(reader, x, windows_of(reader, x))


def normed(reader: Reader, x: Lazy, windows: tuple[Window, ...]) -> Lazy:
    p = int(reader.attribute("p", 2))
    if p < 1 or x.computed != "float32":
        raise Unserved(f"p={p} of {x.dtype}; the kernels have the norms from 1 on of floats")

    def power(element: Node) -> Node:
        if p not in SQUARES:
            return reduce(partial(call, "multiply"), [call("absolute", element)] * p)
        for _ in range(SQUARES[p]):
            element = call("multiply", element, element)
        return element if SQUARES[p] else call("absolute", element)

    sums = pooled("sum", x, windows, number(0, "float32"), power)

    def at(indices: Indices) -> Node:
        total = sums.at(indices)
        if p not in SQUARES:
            return narrowed(call("power", total, number(1 / p, "float32")), x.dtype)
        for _ in range(SQUARES[p]):
            total = call("sqrt", total)
        return narrowed(total, x.dtype)

    return Lazy(sums.shape, x.dtype, at)


def _whole(x: Lazy) -> tuple[Window, ...]:
    return tuple(Window(extent, extent, 1, 1, (0, 0), False) for extent in x.shape[2:])


def global_max_pool(reader: Reader) -> Lazy:
    x = reader.x()
    return pooled("maximum", x, _whole(x), lowest(x.dtype), lambda element: element)


def global_average_pool(reader: Reader) -> Lazy:
    x = reader.x()
    return averaged(reader, x, _whole(x), True)


def global_lp_pool(reader: Reader) -> Lazy:
    x = reader.x()
    return normed(reader, x, _whole(x))


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
}
