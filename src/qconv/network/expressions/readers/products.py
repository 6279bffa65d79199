"""Products of two computed tensors, and convolutions of floats, as sums of products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from qconv.dtypes import RANGES
from qconv.expression.index import Axis, Index
from qconv.expression.node import Guard, Node, call
from qconv.network.expressions.guarding import guarded
from qconv.network.expressions.lazy import (
    Element,
    Folding,
    Indices,
    Lazy,
    Place,
    Product,
    Reader,
    Shape,
    clamped,
    converted,
    number,
)
from qconv.network.expressions.readers.movement import reshaped, swapped
from qconv.network.graph.served import Unserved
from qconv.network.layers.window import transposed_extents

# Sums of whole numbers up to here are exact in fp32, which GPUs multiply at twice the rate of int32. A byte minus its
# zero point is at most LARGEST_DIFFERENCE.
EXACT, LARGEST_DIFFERENCE = 2**24, 255


def product(a: Lazy, b: Lazy, is_exact: bool = False) -> Lazy:
    """Return the product of two tensors of matrices, as NumPy's matmul broadcasts them; int32 or float32. With
    `is_exact`, the order of its sums changes no bit: then one by a vector is a reduction, in which threads share a
    row."""
    wide_a = reshaped(a, (1, *a.shape)) if len(a.shape) == 1 else a
    wide_b = reshaped(b, (*b.shape, 1)) if len(b.shape) == 1 else b
    if not a.shape or not b.shape or wide_a.shape[-1] != wide_b.shape[-2]:
        raise Unserved(f"the shapes {a.shape} and {b.shape} have no product")
    try:
        outer = np.broadcast_shapes(wide_a.shape[:-2], wide_b.shape[:-2])
    except ValueError:
        raise Unserved(f"the shapes {a.shape} and {b.shape} have no product") from None
    shape = (*outer, wide_a.shape[-2], wide_b.shape[-1])
    sums = (Axis("k0", wide_a.shape[-1]),)
    at_a, at_b = wide_a.expanded((*outer, *wide_a.shape[-2:])), wide_b.expanded((*outer, *wide_b.shape[-2:]))
    k = Index.of(sums[0])

    def at(indices: Indices) -> Node:
        *batch, m, n = indices
        row, column = at_a((*batch, m, k)), at_b((*batch, k, n))
        if is_exact and shape[-1] == 1:
            return Folding("sum", call("multiply", row, column), sums)
        return Product(row, column, sums)

    made = Lazy(shape, "float32" if a.computed == "float32" else "int32", at)
    kept = (*outer, *shape[-2 : -2 + (len(a.shape) > 1)], *shape[-1:][: len(b.shape) > 1])
    return made if kept == shape else reshaped(made, kept)


def _over(one: Lazy, function: Callable[[Node, Indices], Node], dtype: str = "") -> Lazy:
    """Return a function of each element and its index."""
    return Lazy(one.shape, dtype or one.dtype, lambda indices: function(one.at(indices), indices))


def _in_range(x: Lazy) -> Lazy:
    """Return bytes as an expression from whose text it follows that they are bytes, which matrix instructions need."""
    if x.dtype not in ("int8", "uint8"):
        return x
    wrap = f"wrap_{x.dtype}"
    return _over(x, lambda node, _: node if isinstance(node, Element | Place) else call(wrap, node), x.dtype)


def _minus(x: Lazy, zero: Lazy | None, axis: int) -> Lazy:
    """Return integers minus a zero point: one for the tensor, or one per element of an axis."""
    x = _in_range(x)
    if zero is None:
        return _over(x, lambda node, indices: node, "int32")
    if zero.elements == 1:
        return _over(x, lambda node, _: call("subtract", node, zero.at((Index(),) * len(zero.shape))), "int32")
    if len(zero.shape) != 1 or zero.elements != x.shape[axis]:
        raise Unserved(f"its zero points have the shape {zero.shape}; the kernels have one, or one per row or column")
    return _over(x, lambda node, indices: call("subtract", node, zero.at((indices[axis],))), "int32")


def _input(reader: Reader, at: int) -> Lazy | None:
    return reader.x(at) if reader.has(at) else None


def _finished(reader: Reader, one: Lazy) -> Lazy:
    """Return the product in the type of the output."""
    dtype = reader.y_dtype
    return _over(one, lambda node, _: converted(node, dtype), dtype)


def matmul(reader: Reader) -> Lazy:
    return _finished(reader, product(reader.x(0), reader.x(1)))


def fused_matmul(reader: Reader) -> Lazy:
    a, b = reader.x(0), reader.x(1)
    if reader.attribute("transBatchA", 0) or reader.attribute("transBatchB", 0):
        raise Unserved("it transposes batches; the kernels transpose the last two axes")
    made = product(
        swapped(a) if reader.attribute("transA", 0) else a, swapped(b) if reader.attribute("transB", 0) else b
    )
    alpha = float(reader.attribute("alpha", 1.0))
    scaled = made if alpha == 1 else _over(made, lambda node, _: call("multiply", node, number(alpha, "float32")))
    return _finished(reader, scaled)


def gemm(reader: Reader) -> Lazy:
    a, b = reader.x(0), reader.x(1)
    alpha, beta = (float(reader.attribute(name, 1.0)) for name in ("alpha", "beta"))
    made = product(
        swapped(a) if reader.attribute("transA", 0) else a, swapped(b) if reader.attribute("transB", 0) else b
    )
    bias = _input(reader, 2)
    own = made.computed

    def finish(node: Node, indices: Indices) -> Node:
        if alpha != 1:
            node = call("multiply", node, number(alpha, own))
        if bias is not None and beta:
            more = bias.expanded(made.shape)(indices)
            node = call("add", node, more if beta == 1 else call("multiply", more, number(beta, own)))
        return node

    return _finished(reader, _over(made, finish))


def matmul_integer(reader: Reader) -> Lazy:
    return _finished(reader, _of_differences(reader, 0, 1, 2, 3))


def _of_differences(reader: Reader, a: int, b: int, a_zero: int, b_zero: int) -> Lazy:
    """Return the product of two inputs, each without its zero point. The arguments are numbers of inputs."""
    left = _minus(reader.x(a), _input(reader, a_zero), -2)
    right = _minus(reader.x(b), _input(reader, b_zero), -1)
    if LARGEST_DIFFERENCE**2 * left.shape[-1] < EXACT:
        left, right = _as_floats(left), _as_floats(right)
    return product(left, right, is_exact=True)


def _as_floats(x: Lazy) -> Lazy:
    return _over(x, lambda node, _: call("to_float32", node), "float32")


def matmul_integer_to_float(reader: Reader) -> Lazy:
    made = _of_differences(reader, 0, 1, 4, 5)
    a_scale, b_scale, bias = reader.x(2), reader.x(3), _input(reader, 6)

    def finish(node: Node, indices: Indices) -> Node:
        scale = call("multiply", _of_axis(a_scale, indices, -2), _of_axis(b_scale, indices, -1))
        node = call("multiply", call("to_float32", node), scale)
        return node if bias is None else call("add", node, bias.expanded(made.shape)(indices))

    return _finished(reader, _over(made, finish, "float32"))


def _of_axis(one: Lazy, indices: Indices, axis: int) -> Node:
    return one.at((Index(),) * len(one.shape)) if one.elements == 1 else one.at((indices[axis],))


def requantized(reader: Reader, made: Lazy, scales: Sequence[int], zero: int, axis: int) -> Lazy:
    """Return int32 sums, multiplied by the product of two scales over a third, rounded half to even."""
    dtype = reader.y_dtype
    left, right, out = (reader.x(at) for at in scales)
    low, high = RANGES[dtype]
    zero_point = _input(reader, zero)

    def finish(node: Node, indices: Indices) -> Node:
        product_of_scales = call("multiply", _of_axis(left, indices, -2), _of_axis(right, indices, axis))
        ratio = call("divide", product_of_scales, _of_axis(out, indices, -1))
        whole = call("round", call("multiply", call("to_float32", node), ratio))
        if zero_point is not None:
            whole = call("add", whole, call("to_float32", _of_axis(zero_point, indices, -1)))
        return call("to_int32", clamped(whole, low, high, "float32"))

    return _over(made, finish, dtype)


def qlinear_matmul(reader: Reader) -> Lazy:
    return requantized(reader, _of_differences(reader, 0, 3, 2, 5), (1, 4, 6), 7, -1)


def einsum(reader: Reader) -> Lazy:
    """Read a product of two tensors, each of whose axes has a letter of its own."""
    equation = str(reader.attribute("equation")).replace(" ", "")
    given, arrow, made = equation.partition("->")
    terms = given.split(",")
    if len(terms) != 2 or "." in equation or any(len(set(term)) < len(term) for term in (*terms, made)):
        raise Unserved(f"its equation is {equation}; the kernels have two tensors with axes named once, without dots")
    a, b = reader.x(0), reader.x(1)
    extents = dict(zip(terms[0] + terms[1], a.shape + b.shape, strict=True))
    if not arrow:
        made = "".join(sorted(name for name in extents if given.count(name) == 1))
    sums = {name: Axis(f"k{at}", extents[name]) for at, name in enumerate(n for n in extents if n not in made)}
    shape = tuple(extents[name] for name in made)

    def at(indices: Indices) -> Node:
        named = dict(zip(made, indices, strict=True)) | {name: Index.of(axis) for name, axis in sums.items()}
        one, other = (x.at(tuple(named[name] for name in term)) for x, term in zip((a, b), terms, strict=True))
        return Product(one, other, tuple(sums.values()))

    return _finished(reader, Lazy(shape, "float32" if a.computed == "float32" else "int32", at))


class _Window:
    """The windows of a convolution, of any number of spatial axes."""

    def __init__(self, reader: Reader, x: Shape, w: Shape) -> None:
        spatial = len(x) - 2
        self.kernel = w[2:]
        self.strides = tuple(reader.attribute("strides", (1,) * spatial))
        self.dilations = tuple(reader.attribute("dilations", (1,) * spatial))
        self.reach = tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))
        self.automatic = str(reader.attribute("auto_pad", "NOTSET"))
        self.given = tuple(reader.attribute("pads", (0,) * 2 * spatial))

    def pads(self, sizes: Shape) -> tuple[int, ...]:
        """Return the pads before and after each axis."""
        if self.automatic == "NOTSET":
            return self.given
        if self.automatic == "VALID":
            return (0,) * 2 * len(sizes)
        total = [
            max((-(-size // stride) - 1) * stride + reach - size, 0)
            for size, stride, reach in zip(sizes, self.strides, self.reach, strict=True)
        ]
        less, more = [each // 2 for each in total], [each - each // 2 for each in total]
        return (*less, *more) if self.automatic == "SAME_UPPER" else (*more, *less)


def convolution(reader: Reader) -> Lazy:
    """Read a convolution: a sum over the channels of a group and the taps of the filter."""
    x, w, bias = reader.x(0), reader.x(1), _input(reader, 2)
    return _finished(reader, _with_bias(_convolved(reader, x, w), bias))


def convolution_integer(reader: Reader) -> Lazy:
    return _finished(
        reader, _convolved(reader, _minus(reader.x(0), _input(reader, 2), 1), _minus(reader.x(1), _input(reader, 3), 0))
    )


def _with_bias(made: Lazy, bias: Lazy | None) -> Lazy:
    if bias is None:
        return made
    return _over(made, lambda node, indices: call("add", node, converted(bias.at((indices[1],)), made.dtype)))


def _convolved(reader: Reader, x: Lazy, w: Lazy) -> Lazy:
    n, channels, *sizes = x.shape
    k, depth, *kernel = w.shape
    groups = int(reader.attribute("group", 1))
    window = _Window(reader, x.shape, w.shape)
    pads = window.pads(tuple(sizes))
    spatial = range(len(sizes))
    outs = [
        (sizes[at] + pads[at] + pads[at + len(sizes)] - window.reach[at]) // window.strides[at] + 1 for at in spatial
    ]
    if depth * groups != channels or k % groups or min((*outs, 1)) < 1:
        raise Unserved(f"x has {channels} channels, and w the shape {w.shape} in {groups} groups")
    sums = (Axis("k0", depth), *(Axis(f"k{at + 1}", kernel[at]) for at in spatial))
    channel, taps = Index.of(sums[0]), [Index.of(axis) for axis in sums[1:]]

    def at(indices: Indices) -> Node:
        image, out, *pixel = indices
        places = [pixel[at] * window.strides[at] + taps[at] * window.dilations[at] - pads[at] for at in spatial]
        group = out // (k // groups)
        element = x.at((image, group * depth + channel, *places))
        element = guarded(element, [Guard(p, s) for p, s in zip(places, sizes, strict=True)], number(0, x.computed))
        return Product(element, w.at((out, channel, *taps)), sums)

    return Lazy((n, k, *outs), "float32" if x.computed == "float32" else "int32", at)


def transposed_convolution(reader: Reader) -> Lazy:
    """Read a transposed convolution: an output adds the products of those taps that meet an input."""
    x, w, bias = reader.x(0), reader.x(1), _input(reader, 2)
    n, channels, *sizes = x.shape
    _, per_group, *kernel = w.shape
    groups = int(reader.attribute("group", 1))
    window = _Window(reader, x.shape, w.shape)
    spatial = range(len(sizes))
    more = tuple(reader.attribute("output_padding", (0,) * len(sizes)))
    full = [(sizes[at] - 1) * window.strides[at] + window.reach[at] + more[at] for at in spatial]
    outs, before = transposed_extents(reader.layer.attributes, sizes, window.strides, full)
    depth = channels // groups
    sums = (Axis("k0", depth), *(Axis(f"k{at + 1}", kernel[at]) for at in spatial))
    channel, taps = Index.of(sums[0]), [Index.of(axis) for axis in sums[1:]]

    def at(indices: Indices) -> Node:
        image, out, *pixel = indices
        group, own = out // per_group, out % per_group
        moved = [pixel[at] + before[at] - taps[at] * window.dilations[at] for at in spatial]
        places = [each // window.strides[at] for at, each in enumerate(moved)]
        guards = [Guard(places[at], sizes[at]) for at in spatial]
        guards += [Guard(each % window.strides[at], 1) for at, each in enumerate(moved)]
        element = guarded(x.at((image, group * depth + channel, *places)), guards, number(0, x.computed))
        return Product(element, w.at((group * depth + channel, own, *taps)), sums)

    made = Lazy((n, per_group * groups, *outs), "float32", at)
    return _finished(reader, _with_bias(made, bias))


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "Conv": convolution,
    "ConvInteger": convolution_integer,
    "ConvTranspose": transposed_convolution,
    "Einsum": einsum,
    "Gemm": gemm,
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "QLinearMatMul": qlinear_matmul,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.MatMulIntegerToFloat": matmul_integer_to_float,
}
# Inputs that are multiplied as matrices, of ops that transpose neither.
FACTORS: Mapping[str, tuple[int, int]] = {
    "MatMul": (0, 1),
    "MatMulInteger": (0, 1),
    "QLinearMatMul": (0, 3),
    "com.microsoft.MatMulIntegerToFloat": (0, 1),
}
