"""QuantizeLinear and DequantizeLinear: per tensor and per axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qconv.dtypes import RANGES
from qconv.expression.index import Index
from qconv.expression.node import call
from qconv.network.expressions.lazy import Lazy, Reader, clamped, converted, narrowed
from qconv.network.graph.served import Unserved


def _along(reader: Reader, number: int, rank: int) -> Callable[[tuple[Index, ...]], Any]:
    """Return the scale or the zero point of an element: one for the tensor, or one per element of an axis."""
    one = reader.x(number)
    if one.elements == 1:
        return lambda indices: one.at((Index(),) * len(one.shape))
    if len(one.shape) != 1 or reader.attribute("block_size", 0):
        raise Unserved(f"its scales have the shape {one.shape}; the kernels have one, or one per element of an axis")
    axis = int(reader.attribute("axis", 1)) % rank
    return lambda indices: one.at((indices[axis],))


def dequantize(reader: Reader) -> Lazy:
    x, dtype = reader.x(), reader.y_dtype
    scale = _along(reader, 1, len(x.shape))
    zero = _along(reader, 2, len(x.shape)) if reader.has(2) else None

    def at(indices: tuple[Index, ...]) -> Any:
        element = x.at(indices)
        if zero is not None:
            element = call("subtract", element, zero(indices))
        return narrowed(call("multiply", converted(element, "float32"), converted(scale(indices), "float32")), dtype)

    return Lazy(x.shape, dtype, at)


def quantize(reader: Reader) -> Lazy:
    """Round half to even, add the zero point, and saturate."""
    x, dtype = reader.x(), reader.y_dtype
    if dtype not in RANGES:
        raise Unserved(f"its output is {dtype}; the kernels quantize to {', '.join(RANGES)}")
    scale = _along(reader, 1, len(x.shape))
    zero = _along(reader, 2, len(x.shape)) if reader.has(2) else None
    low, high = RANGES[dtype]

    def at(indices: tuple[Index, ...]) -> Any:
        whole = call("round", call("divide", converted(x.at(indices), "float32"), converted(scale(indices), "float32")))
        if zero is None:
            return call("to_int32", clamped(whole, low, high, "float32"))
        # The zero point is added in floats, where nothing overflows.
        moved = call("add", whole, converted(zero(indices), "float32"))
        return call("to_int32", clamped(moved, low, high, "float32"))

    return Lazy(x.shape, dtype, at)


READERS: Mapping[str, Callable[[Reader], Lazy]] = {"DequantizeLinear": dequantize, "QuantizeLinear": quantize}
