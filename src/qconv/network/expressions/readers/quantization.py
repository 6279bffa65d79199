"""QuantizeLinear and DequantizeLinear: per tensor, axis and block; and quantized functions as these around a function
of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.dtypes import FLOAT8, RANGES
from qconv.expression.index import Index
from qconv.expression.node import Node, Number, call
from qconv.network.expressions.lazy import (
    Indices,
    Lazy,
    Reader,
    broadcast,
    check_saturates,
    clamped,
    converted,
    narrowed,
    number,
)
from qconv.network.expressions.readers.activations import leaky_relu
from qconv.network.graph.served import Unserved

QUANTIZED = ("int8", "uint8", "int16", "uint16")
# An element of a scale or a zero point, by the index of the element that it scales.
At = Callable[[Indices], Node]


def dequantized(element: Node, scale: Node, zero: Node | None) -> Node:
    """Return a real number of float32. None stands for a zero point of 0."""
    if zero is not None:
        element = call("subtract", element, zero)
    return call("multiply", converted(element, "float32"), converted(scale, "float32"))


def quantized(real: Node, scale: Node, zero: Node | None, dtype: str, rounds_last: bool = False) -> Node:
    """Round half to even, add the zero point, and saturate. The zero point is added in floats, where nothing overflows;
    it decides ties if it is added before they are rounded. An 8-bit float has none."""
    real, scale = converted(real, "float32"), converted(scale, "float32")
    if dtype in FLOAT8:
        return narrowed(call("divide", real, scale), dtype)
    moved = number(0, "float32") if zero is None else converted(zero, "float32")
    low, high = RANGES[dtype]
    if rounds_last:
        return call("nearest", clamped(call("add", call("divide", real, scale), moved), low, high, "float32"))
    return call("quantize", real, scale, moved, number(low, "float32"), number(high, "float32"))


def _along(reader: Reader, which: int) -> At:
    """Return the scale or the zero point of an element of the first input: one for the tensor, one per element of an
    axis, or one per block of elements along an axis."""
    one, shape = reader.x(which), reader.x().shape
    if one.elements == 1:
        return lambda indices: one.at((Index(),) * len(one.shape))
    axis = int(reader.attribute("axis", 1)) % len(shape)
    block = int(reader.attribute("block_size", 0))
    if block:
        wanted = (*shape[:axis], -(-shape[axis] // block), *shape[axis + 1 :])
        _check_scales(one.shape, wanted)
        return lambda indices: one.at((*indices[:axis], indices[axis] // block, *indices[axis + 1 :]))
    _check_scales(one.shape, (shape[axis],))
    return lambda indices: one.at((indices[axis],))


def _check_scales(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise Unserved(f"its scales have the shape {shape}, not {wanted}")


def _parameters(reader: Reader) -> Callable[[Indices], tuple[Node, Node | None]]:
    """Return the scale and the zero point of an element of the first input."""
    scale = _along(reader, 1)
    zero = _along(reader, 2) if reader.has(2) and not _is_of_float8(reader) else None
    return lambda indices: (scale(indices), None if zero is None else zero(indices))


def _is_of_float8(reader: Reader) -> bool:
    """True where the zero point only says the type, an 8-bit float: it is ignored, as by ONNX Runtime."""
    if reader.x(2).dtype not in FLOAT8:
        return False
    known = reader.optional(2)
    if known is not None and known.astype("float32").any():
        raise Unserved(f"its zero point is {known.astype('float32').max()} of {reader.x(2).dtype}; a float has none")
    return True


def dequantize(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    of = _parameters(reader)
    return Lazy(x.shape, dtype, lambda indices: narrowed(dequantized(x.at(indices), *of(indices)), dtype))


def quantize(reader: Reader) -> Lazy:
    x, dtype = reader.x(), quantized_type(reader)
    of = _parameters(reader)
    return Lazy(x.shape, dtype, lambda indices: quantized(x.at(indices), *of(indices), dtype))


def quantized_type(reader: Reader) -> str:
    dtype = reader.y_dtype
    if dtype not in (*QUANTIZED, *FLOAT8):
        raise Unserved(f"its output is {dtype}; the kernels quantize to {', '.join((*QUANTIZED, *FLOAT8))}")
    check_saturates(reader)
    return dtype


def single(one: Lazy) -> Node:
    """Return a scale or a zero point of a whole tensor."""
    if one.elements != 1:
        raise Unserved(f"a scale or a zero point has the shape {one.shape}; the kernels have one number for the tensor")
    return one.at((Index(),) * len(one.shape))


def _scale_and_zero(reader: Reader, which: int) -> tuple[Node, Node | None]:
    """Return the scale that is the input of this number, and the zero point behind it; None if that is not given."""
    zero = single(reader.x(which + 1)) if reader.has(which + 1) else None
    return single(reader.x(which)), zero


def _quantized_op(function: Callable[..., Node], count: int) -> Callable[[Reader], Lazy]:
    """Return the reader of an op of com.microsoft: `count` tensors, each with its scale and zero point, and the scale
    and zero point of the output."""

    def read(reader: Reader) -> Lazy:
        inputs, dtype = [reader.x(3 * at) for at in range(count)], quantized_type(reader)
        shape = broadcast(*inputs)
        scales = [_scale_and_zero(reader, 3 * at + 1) for at in range(count)]
        y_scale, y_zero = _scale_and_zero(reader, 3 * count)

        def at(indices: Indices) -> Node:
            elements = [one.expanded(shape)(indices) for one in inputs]
            reals = [dequantized(each, *one) for each, one in zip(elements, scales, strict=True)]
            # As ONNX Runtime rounds its sums and products.
            return quantized(function(reader, *reals), y_scale, y_zero, dtype, rounds_last=count > 1)

        return Lazy(shape, dtype, at)

    return read


def _leaky(reader: Reader, x: Node) -> Node:
    return leaky_relu(x, Number(float(reader.attribute("alpha", 0.01))))


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "DequantizeLinear": dequantize,
    "QuantizeLinear": quantize,
    "com.microsoft.DequantizeLinear": dequantize,
    "com.microsoft.QuantizeLinear": quantize,
    "com.microsoft.QLinearAdd": _quantized_op(lambda reader, a, b: call("add", a, b), 2),
    "com.microsoft.QLinearMul": _quantized_op(lambda reader, a, b: call("multiply", a, b), 2),
    "com.microsoft.QLinearLeakyRelu": _quantized_op(_leaky, 1),
    "com.microsoft.QLinearSigmoid": _quantized_op(lambda reader, x: call("sigmoid", x), 1),
}
