"""ONNX Runtime's ops of quantized tensors, as the op of floats between a dequantization and a quantization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qconv.dtypes import RANGES
from qconv.expression.elementary import exp
from qconv.expression.node import Node, Number, call
from qconv.network.expressions.lazy import Lazy, Place, Reader, clamped, converted, number
from qconv.network.expressions.readers import elementwise, joining, reductions, windows
from qconv.network.expressions.readers.quantization import dequantized, quantized, quantized_type, single
from qconv.network.graph.served import Unserved

# The largest difference of two bytes.
MOST_DIFFERENCE = 255
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


def _of_floats(reader: Reader, inputs: Sequence[Lazy | None], op: str) -> _OfFloats:
    return _OfFloats(replace(reader.layer, op=op, inputs=("",) * len(inputs)), reader.network, inputs, reader.added)


def _between(
    reader: Reader,
    function: Callable[[Reader], Lazy],
    inputs: Sequence[Lazy | None],
    op: str,
    numbers: Sequence[Lazy | None],
) -> Lazy:
    """Return a function of real inputs, quantized by a scale and a zero point."""
    dtype = quantized_type(reader)
    made, (scale, zero) = function(_of_floats(reader, inputs, op)), _numbers(*numbers)
    return Lazy(made.shape, dtype, lambda indices: quantized(made.at(indices), scale, zero, dtype))


def of_one(op: str, function: Callable[[Reader], Lazy]) -> Callable[[Reader], Lazy]:
    """Return the reader of an op with the inputs x, its scale and zero point, and those of y."""

    def read(reader: Reader) -> Lazy:
        inputs = [*reader.inputs, *(None for _ in range(5 - len(reader.inputs)))]
        x = reader.x(0)
        return _between(reader, function, [_reals(x, inputs[1], inputs[2])], op, inputs[3:5])

    return read


def softmax(reader: Reader) -> Lazy:
    """Read a softmax of bytes. ONNX Runtime counts its output in whole steps: in 254 for a scale of 1 / 255 that was
    rounded up."""
    dtype = quantized_type(reader)
    raised = _raised(reader)
    scale, zero = _numbers(reader.x(3), reader.x(4) if reader.has(4) else None)
    steps = call("floor", call("divide", Number(1.0), scale))

    def finish(element: Node, most: Node, total: Node) -> Node:
        of_row = call("multiply", steps, reductions.inverse(total))
        whole = call("nearest", call("multiply", raised(element, most), of_row))
        moved = whole if zero is None else call("add", whole, converted(zero, "int32"))
        return clamped(moved, *RANGES[dtype], "int32")

    return reductions.softmax_of(reader, raised, finish)


def _raised(reader: Reader) -> Callable[[Node, Node], Node]:
    """Return the exponential of a byte's difference from the largest: an entry of a table, if the scale is known."""
    scale, known = single(reader.x(1)), reader.optional(1)
    if known is None:
        return lambda element, most: call(
            "exp", call("multiply", converted(call("subtract", element, most), "float32"), scale)
        )
    differences = np.arange(-MOST_DIFFERENCE, 1, dtype=np.float32)
    table, last = reader.add(exp(differences * np.float32(known.reshape(())))), number(MOST_DIFFERENCE, "int32")

    def looked_up(element: Node, most: Node) -> Node:
        place = call("add", call("subtract", element, most), last)
        return Place(table, call("bit_and", place, last), "float32")

    return looked_up


def _triples(given: Sequence[Lazy | None]) -> list[Lazy]:
    """Return tensors of which each is followed by its scale and its zero point."""
    return [_reals(_given(given[at]), given[at + 1], given[at + 2]) for at in range(0, len(given), 3)]


def concat(reader: Reader) -> Lazy:
    """Read a concatenation: the scale and the zero point of y, then each tensor with its own."""
    rest = reader.inputs[2:]
    parts = [rest[at : at + 3] for at in range(0, len(rest), 3)]
    if all(_has_numbers_of_output(reader, 2 + at) for at in range(0, len(rest), 3)):
        inputs = [_given(part[0]) for part in parts]
        layer = replace(reader.layer, op="Concat", inputs=("",) * len(inputs))
        return joining.concat(Reader(layer, reader.network, inputs, reader.added))
    return _between(reader, joining.concat, _triples(rest), "Concat", reader.inputs[:2])


def where(reader: Reader) -> Lazy:
    """Read a choice: the condition, both tensors with their numbers, the numbers of y."""
    inputs = [reader.x(0), *_triples(reader.inputs[1:7])]
    return _between(reader, elementwise.where, inputs, "Where", reader.inputs[7:9])


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
    "com.microsoft.QLinearSoftmax": softmax,
    "com.microsoft.QLinearWhere": where,
}
# Ops that fold their input.
FOLDING = frozenset(READERS) - {"com.microsoft.QLinearConcat", "com.microsoft.QLinearWhere"}
