"""Networks of light layers of bytes with random scales, and their tensors by the oracles of the layers' own kernels and
of expressions. Nothing is compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qconv.network import Layer, Network, Served, Tensor, read_layer
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.concatenation import Joined
from qconv.network.layers.table import Tabulated
from qconv.op import Sample
from qconv.ops.registry import compute
from qconv.tensor_ops.binary import turned

Numbers = tuple[str, str]


class Bytes:
    """Layers of bytes in their order, and full-range tensors. The scales of a network are powers of two, which makes
    ties, hundredths, which makes near ties, or any."""

    def __init__(self, dtype: str, seed: object) -> None:
        self.rng = np.random.default_rng([hash_of(seed), dtype == "int8"])
        self.dtype = dtype
        self.layers: list[Layer] = []
        self.tensors: dict[str, Tensor] = {}
        self.held: dict[str, Any] = {}
        self.fed: dict[str, Any] = {}
        self.is_of: dict[str, Numbers] = {}
        self.kind = self.rng.choice(["powers", "hundredths", "any"])

    def drawn(self, shape: Sequence[int]) -> Any:
        limits = np.iinfo(self.dtype)
        return self.rng.integers(limits.min, limits.max, tuple(shape), self.dtype, endpoint=True)

    def numbers(self) -> Numbers:
        """Hold a scale and a zero point."""
        scale = {
            "powers": 2.0 ** self.rng.integers(-4, 1),
            "hundredths": self.rng.integers(1, 13) / 100,
            "any": np.exp(self.rng.uniform(-3, 0)),
        }[self.kind]
        return self.hold(np.float32(scale)), self.hold(self.drawn(()))

    def hold(self, array: Any) -> str:
        name = f"c{len(self.held)}"
        self.held[name] = np.asarray(array)
        self.tensors[name] = Tensor(name, str(self.held[name].dtype), self.held[name].shape)
        return name

    def input(self, *shape: int) -> str:
        name = f"x{len(self.fed)}"
        self.fed[name] = self.drawn(shape)
        return self._made(name, shape)

    def constant(self, *shape: int) -> str:
        name = self.hold(self.drawn(shape))
        self.is_of[name] = self.numbers()
        return name

    def _made(self, name: str, shape: Sequence[int], dtype: str = "", is_of: Numbers | None = None) -> str:
        self.tensors[name] = Tensor(name, dtype or self.dtype, tuple(shape))
        self.is_of[name] = is_of or self.numbers()
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        found = self.tensors[name].extents
        assert found is not None
        return found

    def node(
        self,
        op: str,
        reads: Sequence[str],
        shape: Sequence[int],
        dtype: str = "",
        y_is: Numbers | None = None,
        **attributes: Any,
    ) -> str:
        """Add a layer. `Y` among its inputs stands for the scale and the zero point of its output."""
        y = self._made(f"y{len(self.layers)}", shape, dtype, y_is)
        inputs = [each for name in reads for each in (self.is_of[y] if name == "Y" else (name,))]
        self.layers.append(Layer(y, op, tuple(inputs), (y,), attributes))
        return y

    def pair(self, op: str, a: str, b: str) -> str:
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        return self.node(f"com.microsoft.QLinear{op}", [a, *self.is_of[a], b, *self.is_of[b], "Y"], shape)

    def table(self, x: str, op: str = "Sigmoid") -> str:
        return self.node(f"com.microsoft.QLinear{op}", [x, *self.is_of[x], "Y"], self.shape(x))

    def joined(self, parts: Sequence[str], axis: int, y_is: Numbers | None = None) -> str:
        shape = list(self.shape(parts[0]))
        shape[axis] = sum(self.shape(part)[axis] for part in parts)
        reads = ["Y", *(each for part in parts for each in (part, *self.is_of[part]))]
        return self.node("com.microsoft.QLinearConcat", reads, shape, y_is=y_is, axis=axis)

    def cut(self, x: str, axis: int, begin: int, width: int) -> str:
        shape = list(self.shape(x))
        widths = [begin, width, shape[axis] - begin - width]
        shape[axis] = width
        return self.node("Split", [x], shape, y_is=self.is_of[x], axis=axis, split=widths, output=1, outputs=3)

    def convolution(self, x: str, k: int) -> str:
        """Add a convolution of 1x1."""
        n, c, *pixels = self.shape(x)
        w = self.hold(self.rng.integers(-128, 128, (k, c, 1, 1), np.int8))
        w_is = self.hold(np.float32(0.01)), self.hold(np.int8(0))
        return self.node("QLinearConv", [x, *self.is_of[x], w, *w_is, "Y"], (n, k, *pixels))

    def dequantized(self, x: str) -> str:
        return self.node("DequantizeLinear", [x, *self.is_of[x]], self.shape(x), "float32")

    def network(self, *outputs: str) -> Network:
        return Network(tuple(self.fed), outputs, tuple(self.layers), self.tensors, self.held)


def hash_of(seed: object) -> int:
    return int.from_bytes(str(seed).encode(), "little") % 2**63


def served_of(network: Network) -> dict[str, Served]:
    """Return the layers of bytes with their own kernels."""
    return {
        layer.name: read_layer(layer, network)
        for layer in network.layers
        if layer.op == "Split" or "QLinear" in layer.op
    }


def by_own_kernels(network: Network, fed: dict[str, Any]) -> dict[str, Any]:
    """Return every tensor of bytes, by the oracles of the layers' own kernels."""
    values = dict(fed)
    for name, one in served_of(network).items():
        values[name] = _own(one, values)
    return values


def _own(one: Any, values: dict[str, Any]) -> Any:
    if isinstance(one, QuantizedBinary):
        return _paired(one, [values[each] if isinstance(each, str) else each for each in one.operands])
    if isinstance(one, Tabulated):
        x = values[one.x]
        return compute(one.problem(x.shape), Sample((x.reshape(-1), one.table)))[0].reshape(x.shape)
    assert isinstance(one, Joined)
    arrays = [values[name] for name in one.inputs]
    problem, made = one.problem([array.shape for array in arrays])
    is_last = arrays[0].ndim > 2
    tables = [table for table in one.tables if table is not None]
    seen = [np.moveaxis(array, 1, -1) if is_last else array for array in arrays]
    rows = [array.reshape(problem.rows, each.stride) for array, each in zip(seen, problem.slices, strict=True)]
    (y,) = compute(problem, Sample((*rows, *([np.stack(tables)] if tables else []))))
    return np.moveaxis(y.reshape(made), -1, 1) if is_last else y.reshape(made)


def _paired(one: QuantizedBinary, operands: Sequence[Any]) -> Any:
    shapes = [operand.shape for operand in operands]
    problem, is_turned, is_last = one.problem(shapes)
    wide = [operand.reshape(shape) for operand, shape in zip(operands, one.widened(shapes), strict=True)]
    a, b = reversed(wide) if is_turned else wide
    a, b = (np.moveaxis(each, 1, -1) if is_last else each for each in (a, b))
    arrays = tuple(each.reshape(tensor.shape) for each, tensor in zip((a, b), problem.inputs, strict=True))
    numbers = dict(one.parameters)
    if is_turned:
        numbers = turned(numbers)
    y = compute(problem, Sample(arrays, numbers))[0].reshape(a.shape)
    return np.moveaxis(y, -1, 1) if is_last else y


def by_expressions(network: Network, fed: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the tensors that expressions and the remaining kernels make, and the layers that are expressions."""
    made, served, why_not = fuse(network, served_of(network))
    assert not why_not, why_not
    values, expressed = dict(fed), []
    for layer in made.layers:
        one = served[layer.name]
        if not isinstance(one, Expressed):
            values[one.y] = _own(one, values)
            continue
        expressed.append(layer.name)
        kernel, held = one.kernel(one.lasts), dict(one.constants) | values
        order = {
            name: np.moveaxis(held[name], 1, -1) if is_last else held[name]
            for name, is_last in zip(one.inputs, one.lasts, strict=True)
        }
        arrays = [np.concatenate([np.reshape((held | order)[n], -1) for n in names]) for names in kernel.tensors]
        (y,) = compute(kernel.problem, Sample(tuple(arrays)))
        n, *rest = kernel.y_shape
        values[one.y] = (
            np.moveaxis(y.reshape(n, *rest[1:], rest[0]), -1, 1) if kernel.is_last else y.reshape(kernel.y_shape)
        )
    return values, expressed
