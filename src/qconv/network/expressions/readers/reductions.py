"""Reductions over axes, softmax and normalizations.

Sums are of float32 in the order that `qconv.expression.reduce` states. A variance is the mean of squared differences
from the mean, which takes a second pass over the row, and loses nothing where the mean is large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, isinf, prod

import numpy as np

from qconv.expression.index import Axis, Index, flat
from qconv.expression.node import Node, call
from qconv.expression.reduce import COMBINES
from qconv.network.expressions.lazy import Folding, Indices, Lazy, Reader, converted, number, placed
from qconv.network.expressions.readers.movement import reshaped
from qconv.network.graph.served import Unserved

# The version of the operator set from which softmax is over one axis, not over all from one on.
OF_ONE_AXIS = 13
# Folds of no elements.
OF_NOTHING: Mapping[str, float] = {"sum": 0, "product": 1, "maximum": -inf, "minimum": inf}
# Functions combine so few elements, such as two branches that are added. Whoever reads the result computes it.
FEW = 4


def columns_of(x: Lazy, axes: Sequence[int]) -> tuple[Axis, ...]:
    """Return axes of their own over which a tensor is folded."""
    return tuple(Axis(f"c{at}", x.shape[axis]) for at, axis in enumerate(axes))


class Row:
    """The elements of a tensor along some axes, beside one index, of which these axes do not matter."""

    def __init__(self, x: Lazy, axes: Sequence[int], indices: Indices) -> None:
        self._columns = columns_of(x, axes)
        inside = list(indices)
        for axis, column in zip(axes, self._columns, strict=True):
            inside[axis] = Index.of(column)
        self.element = _real(x.at(tuple(inside)))
        self.count = prod(x.shape[axis] for axis in axes)

    def fold(self, kind: str, of: Node | None = None) -> Node:
        if not self.count and kind in OF_NOTHING:
            dtype, value = self.element.dtype, OF_NOTHING[kind]
            if isinf(value) and dtype != "float32":
                raise Unserved("it reduces no elements, and integers have no infinity")
            return number(value, dtype)
        return Folding(kind, self.element if of is None else of, self._columns)

    def combined(self, kind: str, of: Node | None = None) -> Node:
        """Return a fold, or the functions that combine few elements in its order."""
        made = self.fold(kind, of)
        return _in_halves(kind, _elements(made)) if isinstance(made, Folding) and self.count <= FEW else made

    def mean(self, of: Node | None = None) -> Node:
        return call("divide", self.fold("sum", of), number(self.count, "float32"))


def _elements(fold: Folding) -> list[Node]:
    every = np.ndindex(*(column.extent for column in fold.columns))
    return [placed(fold.of, dict(zip(fold.columns, (Index((), one) for one in at), strict=True))) for at in every]


def _in_halves(kind: str, elements: Sequence[Node]) -> Node:
    """Combine each element of the first half, which is a power of two, with the one that is as far in the second."""
    if len(elements) == 1:
        return elements[0]
    half = 1 << (len(elements) - 1).bit_length() - 1
    others = [call(COMBINES[kind], one, other) for one, other in zip(elements, elements[half:], strict=False)]
    return _in_halves(kind, [*others, *elements[len(others) : half]])


def _real(node: Node) -> Node:
    return node if node.dtype in ("float32", "int32", "int64") else converted(node, "int32")


def _square(node: Node) -> Node:
    return call("multiply", node, node)


def _log_sum_exp(row: Row) -> Node:
    most = row.fold("maximum")
    return call("add", most, call("log", row.fold("sum", call("exp", call("subtract", row.element, most)))))


# The result of a row, by op.
REDUCTIONS: Mapping[str, Callable[[Row], Node]] = {
    "ReduceL1": lambda row: row.combined("sum", call("absolute", row.element)),
    "ReduceL2": lambda row: call("sqrt", converted(row.combined("sum", _square(row.element)), "float32")),
    "ReduceLogSum": lambda row: call("log", row.combined("sum")),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": lambda row: row.combined("maximum"),
    "ReduceMean": lambda row: _mean(row),
    "ReduceMin": lambda row: row.combined("minimum"),
    "ReduceProd": lambda row: row.combined("product"),
    "ReduceSum": lambda row: row.combined("sum"),
    "ReduceSumSquare": lambda row: row.combined("sum", _square(row.element)),
}


def _mean(row: Row) -> Node:
    """Return the mean; that of integers is rounded toward zero."""
    total = row.combined("sum")
    return call("divide", total, number(row.count, "float32" if total.dtype == "float32" else total.dtype))


def reduction(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    axes = _axes(reader, len(x.shape))
    result = REDUCTIONS[reader.layer.op]
    if not axes:
        return x
    return _over(x, axes, bool(reader.attribute("keepdims", 1)), dtype, lambda row: converted(result(row), dtype))


def _axes(reader: Reader, rank: int) -> tuple[int, ...]:
    """Return the axes over which an op reduces: all of them if none is given, unless it says otherwise."""
    given = reader.integers("axes", 1)
    if given is None or not given:
        return () if reader.attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({axis % rank for axis in given}))


def _over(x: Lazy, axes: Sequence[int], keeps: bool, dtype: str, result: Callable[[Row], Node]) -> Lazy:
    shape = tuple(1 if at in axes else extent for at, extent in enumerate(x.shape))
    kept = Lazy(shape, dtype, lambda indices: result(Row(x, axes, indices)))
    return kept if keeps else reshaped(kept, tuple(extent for at, extent in enumerate(x.shape) if at not in axes))


def arg(kind: str) -> Callable[[Reader], Lazy]:
    def read(reader: Reader) -> Lazy:
        x = reader.x()
        axis = int(reader.attribute("axis", 0)) % len(x.shape)
        keeps = bool(reader.attribute("keepdims", 1))
        if not reader.attribute("select_last_index", 0):
            return _over(x, (axis,), keeps, "int64", lambda row: call("to_int64", row.fold(kind)))
        # The last of equals is the first from behind.
        last = x.shape[axis] - 1
        behind = Lazy(x.shape, x.dtype, lambda at: x.at((*at[:axis], Index((), last) - at[axis], *at[axis + 1 :])))
        return _over(
            behind,
            (axis,),
            keeps,
            "int64",
            lambda row: call("to_int64", call("subtract", number(last, "int32"), row.fold(kind))),
        )

    return read


def _softmax_axes(reader: Reader) -> tuple[int, ...]:
    rank, is_old = len(reader.x().shape), 0 < reader.network.opset < OF_ONE_AXIS
    axis = int(reader.attribute("axis", 1 if is_old else -1)) % max(rank, 1)
    return tuple(range(axis, rank)) if is_old else (axis,)


def softmax_of(
    reader: Reader, raised: Callable[[Node, Node], Node], finish: Callable[[Node, Node, Node], Node]
) -> Lazy:
    """Return what `finish` makes of an element, the largest of its row, and the sum of the row's exponentials. `raised`
    makes an exponential of an element and the largest."""
    x, axes = reader.x(), _softmax_axes(reader)

    def at(indices: Indices) -> Node:
        row = Row(x, axes, indices)
        most = row.fold("maximum")
        return finish(x.at(indices), most, row.fold("sum", raised(row.element, most)))

    return Lazy(x.shape, reader.y_dtype, at)


def softmax(reader: Reader) -> Lazy:
    dtype = reader.y_dtype

    def finish(element: Node, most: Node, total: Node) -> Node:
        return converted(call("multiply", _raised(element, most), inverse(total)), dtype)

    return softmax_of(reader, _raised, finish)


def log_softmax(reader: Reader) -> Lazy:
    dtype = reader.y_dtype

    def finish(element: Node, most: Node, total: Node) -> Node:
        return converted(call("subtract", call("subtract", element, most), call("log", total)), dtype)

    return softmax_of(reader, _raised, finish)


def _raised(element: Node, most: Node) -> Node:
    return call("exp", call("subtract", element, most))


def normalized(x: Lazy, axes: Sequence[int], epsilon: float, indices: Indices) -> Node:
    """Return an element minus the mean of its row, over the standard deviation."""
    row = Row(x, axes, indices)
    return call("multiply", call("subtract", x.at(indices), row.mean()), inverse(_deviation(row, epsilon)))


def inverse(of_row: Node) -> Node:
    """Return the inverse of a number per row: a product per element takes a tenth of the time of a division."""
    return call("divide", number(1, "float32"), of_row)


def _deviation(row: Row, epsilon: float) -> Node:
    variance = row.mean(_square(call("subtract", row.element, row.mean())))
    return call("sqrt", call("add", variance, number(epsilon, "float32")))


def _scaled(reader: Reader, node: Node, of: Callable[[Lazy], Node], first: int = 1) -> Node:
    """Return a normalized element times its scale, plus its bias, where these are given."""
    if reader.has(first):
        node = call("multiply", node, converted(of(reader.x(first)), "float32"))
    if reader.has(first + 1):
        node = call("add", node, converted(of(reader.x(first + 1)), "float32"))
    return node


def layer_normalization(reader: Reader) -> Lazy:
    """Read an output: the normalized elements, the means of the rows, or the inverse standard deviations."""
    x, dtype = reader.x(), reader.y_dtype
    axes, epsilon = _behind(reader, x), _epsilon(reader)
    output = reader.attribute("output", 0)
    if output == 1:
        return _over(x, axes, True, dtype, lambda row: converted(row.mean(), dtype))
    if output == 2:
        return _over(x, axes, True, dtype, lambda row: converted(inverse(_deviation(row, epsilon)), dtype))

    return _normalization(reader, x, axes, lambda one, indices: one.expanded(x.shape)(indices))


def rms_normalization(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    axes, epsilon = _behind(reader, x), number(_epsilon(reader), "float32")

    def at(indices: Indices) -> Node:
        row = Row(x, axes, indices)
        size = call("sqrt", call("add", row.mean(_square(row.element)), epsilon))
        made = call("multiply", x.at(indices), inverse(size))
        return converted(_scaled(reader, made, lambda one: one.expanded(x.shape)(indices)), dtype)

    return Lazy(x.shape, dtype, at)


def _behind(reader: Reader, x: Lazy) -> tuple[int, ...]:
    """Return the axes from the one that the layer names."""
    return tuple(range(int(reader.attribute("axis", -1)) % len(x.shape), len(x.shape)))


def _epsilon(reader: Reader) -> float:
    return float(reader.attribute("epsilon", 1e-5))


def _normalization(reader: Reader, x: Lazy, axes: tuple[int, ...], scale: Callable[[Lazy, Indices], Node]) -> Lazy:
    """Return a tensor normalized over axes. `scale` returns the element of a scale or a bias for indices."""
    dtype, epsilon = reader.y_dtype, _epsilon(reader)

    def at(indices: Indices) -> Node:
        made = normalized(x, axes, epsilon, indices)
        return converted(_scaled(reader, made, lambda one: scale(one, indices)), dtype)

    return Lazy(x.shape, dtype, at)


def instance_normalization(reader: Reader) -> Lazy:
    x = reader.x()
    return _normalization(reader, x, tuple(range(2, len(x.shape))), lambda one, indices: one.at((indices[1],)))


def group_normalization(reader: Reader) -> Lazy:
    """Read a normalization of groups of channels. The scales are one per group in older versions, later one per
    channel."""
    x = reader.x()
    groups = int(reader.attribute("num_groups", 0))
    n, channels, *rest = x.shape
    if not groups or channels % groups:
        raise Unserved(f"{groups} groups do not divide {channels} channels")
    split = reshaped(x, (n, groups, channels // groups, *rest))
    per_channel = reader.x(1).elements == channels

    def scale(one: Lazy, indices: Indices) -> Node:
        return one.at((flat(indices[1:3], split.shape[1:3]) if per_channel else indices[1],))

    return reshaped(_normalization(reader, split, tuple(range(2, len(split.shape))), scale), x.shape)


def lp_normalization(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    axis, power = int(reader.attribute("axis", -1)) % len(x.shape), int(reader.attribute("p", 2))

    def at(indices: Indices) -> Node:
        row = Row(x, (axis,), indices)
        if power == 1:
            size = row.fold("sum", call("absolute", row.element))
        else:
            size = call("sqrt", row.fold("sum", _square(row.element)))
        made = call("divide", x.at(indices), size)
        is_zero = call("equal", size, number(0, "float32"))
        return converted(call("select", is_zero, number(0, "float32"), made), dtype)

    return Lazy(x.shape, dtype, at)


def mean_variance_normalization(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    axes = tuple(axis % len(x.shape) for axis in np.reshape(reader.attribute("axes", (0, 2, 3)), -1))
    tiny = number(1e-9, "float32")

    def at(indices: Indices) -> Node:
        row = Row(x, axes, indices)
        mean = row.mean()
        deviation = call("add", call("sqrt", row.mean(_square(call("subtract", row.element, mean)))), tiny)
        return converted(call("multiply", call("subtract", x.at(indices), mean), inverse(deviation)), dtype)

    return Lazy(x.shape, dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    **dict.fromkeys(REDUCTIONS, reduction),
    "ArgMax": arg("argmax"),
    "ArgMin": arg("argmin"),
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": log_softmax,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
    "SimplifiedLayerNormalization": rms_normalization,
    "Softmax": softmax,
}
