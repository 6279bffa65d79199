"""ONNX Runtime's ops of quantized tensors, as the op of floats between a dequantization and a quantization."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from qconv.expression.node import Node
from qconv.network.expressions.lazy import Lazy, Reader
from qconv.network.expressions.readers import elementwise, joining, reductions, windows
from qconv.network.expressions.readers.quantization import dequantized, quantized, quantized_type, single
from qconv.network.graph.served import Unserved


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


def _triples(given: Sequence[Lazy | None]) -> list[Lazy]:
    """Return tensors of which each is followed by its scale and its zero point."""
    return [_reals(_given(given[at]), given[at + 1], given[at + 2]) for at in range(0, len(given), 3)]


def concat(reader: Reader) -> Lazy:
    """Read a concatenation: the scale and the zero point of y, then each tensor with its own."""
    return _between(reader, joining.concat, _triples(reader.inputs[2:]), "Concat", reader.inputs[:2])


def where(reader: Reader) -> Lazy:
    """Read a choice: the condition, both tensors with their numbers, the numbers of y."""
    inputs = [reader.x(0), *_triples(reader.inputs[1:7])]
    return _between(reader, elementwise.where, inputs, "Where", reader.inputs[7:9])


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
    "com.microsoft.QLinearWhere": where,
}
# Ops that fold their input.
FOLDING = frozenset(READERS) - {"com.microsoft.QLinearConcat", "com.microsoft.QLinearWhere"}
