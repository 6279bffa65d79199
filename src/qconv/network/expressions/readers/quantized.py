"""ONNX Runtime's ops of quantized tensors, as the op of floats between a dequantization and a quantization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qconv.expression.node import Node
from qconv.network.expressions.lazy import Lazy, Reader
from qconv.network.expressions.readers import joining, reductions, windows
from qconv.network.expressions.readers.quantization import dequantized, quantized, quantized_type, single
from qconv.network.graph.served import Unserved

# A scale with which no real number of a quantized one overflows, or is flushed to zero.
LEAST_SCALE = 1e-30


@dataclass
class _OfFloats(Reader):
    """A layer of floats in the place of the quantized one."""

    @property
    def y_dtype(self) -> str:
        return "float32"


def _numbers(scale: Lazy | None, zero: Lazy | None) -> tuple[Node, Node | None]:
    """Return the scale and the zero point of a whole tensor."""
    return single(_given(scale)), None if zero is None else single(zero)


def _reals(x: Lazy, scale: Lazy | None, zero: Lazy | None) -> Lazy:
    numbers = _numbers(scale, zero)
    return Lazy(x.shape, "float32", lambda indices: dequantized(x.at(indices), *numbers))


def _between(
    reader: Reader,
    function: Callable[[Reader], Lazy],
    inputs: Sequence[Lazy | None],
    op: str,
    numbers: Sequence[Lazy | None],
) -> Lazy:
    """Return a function of real inputs, quantized by a scale and a zero point."""
    dtype = quantized_type(reader)
    inner = _OfFloats(replace(reader.layer, op=op, inputs=("",) * len(inputs)), reader.network, inputs, reader.added)
    made, (scale, zero) = function(inner), _numbers(*numbers)
    return Lazy(made.shape, dtype, lambda indices: quantized(made.at(indices), scale, zero, dtype))


def of_one(op: str, function: Callable[[Reader], Lazy]) -> Callable[[Reader], Lazy]:
    """Return the reader of an op with the inputs x, its scale and zero point, and those of y."""

    def read(reader: Reader) -> Lazy:
        inputs = [*reader.inputs, *(None for _ in range(5 - len(reader.inputs)))]
        x = reader.x(0)
        return _between(reader, function, [_reals(x, inputs[1], inputs[2])], op, inputs[3:5])

    return read


def concat(reader: Reader) -> Lazy:
    """Read a concatenation: the scale and the zero point of y, then each tensor with its own."""
    scale, zero, *rest = reader.inputs
    parts = [rest[at : at + 3] for at in range(0, len(rest), 3)]
    if all(_has_numbers_of_output(reader, 2 + at) for at in range(0, len(rest), 3)):
        inputs = [_given(part[0]) for part in parts]
        layer = replace(reader.layer, op="Concat", inputs=("",) * len(inputs))
        return joining.concat(Reader(layer, reader.network, inputs, reader.added))
    inputs = [_reals(_given(part[0]), part[1], part[2]) for part in parts]
    return _between(reader, joining.concat, inputs, "Concat", (scale, zero))


def _has_numbers_of_output(reader: Reader, part: int) -> bool:
    """True where a part has the scale and the zero point of the output, so that no byte changes."""
    scale, y_scale, zero, y_zero = (reader.optional(number) for number in (part + 1, 0, part + 2, 1))
    if scale is None or y_scale is None or zero is None or y_zero is None:
        return False
    is_same = scale.size == zero.size == 1 and scale.dtype == y_scale.dtype == np.float32 and scale == y_scale
    return bool(is_same and LEAST_SCALE < scale < 1 / LEAST_SCALE and zero.dtype == y_zero.dtype and zero == y_zero)


def _given(one: Lazy | None) -> Lazy:
    if one is None:
        raise Unserved("one of its tensors, or its scale, is not given")
    return one


READERS: Mapping[str, Callable[[Reader], Lazy]] = {
    "com.microsoft.QLinearAveragePool": of_one("AveragePool", windows.average_pool),
    "com.microsoft.QLinearConcat": concat,
    "com.microsoft.QLinearGlobalAveragePool": of_one("GlobalAveragePool", windows.global_average_pool),
    "com.microsoft.QLinearReduceMean": of_one("ReduceMean", reductions.reduction),
    "com.microsoft.QLinearSoftmax": of_one("Softmax", reductions.READERS["Softmax"]),
}
# Ops that fold their input.
FOLDING = frozenset(READERS) - {"com.microsoft.QLinearConcat"}
