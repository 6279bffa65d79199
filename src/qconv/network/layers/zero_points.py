"""Products of integers whose zero point is computed at each run, as a product without one and a correction behind it.

A kernel's weights and zero points are packed before a run. It therefore computes the sum of x * w, and an expression,
which the layers behind it join, subtracts the zero point times the sums of the weights: the same integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Reason, Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.convolution import IntegerConvolution, read_layer
from qconv.network.layers.tap_sums import TapSums


@dataclass
class _Apart:
    """A layer that is taken apart: the layers in its place, with their tensors and constants."""

    network: Network
    layer: Layer
    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def input(self, number: int) -> str:
        return self.layer.inputs[number] if number < len(self.layer.inputs) else ""

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    @property
    def whole(self) -> Network:
        """Return the network with the tensors and constants of these layers."""
        network = self.network
        return replace(
            network, tensors={**network.tensors, **self.tensors}, constants={**network.constants, **self.constants}
        )

    def extents(self, name: str) -> Shape:
        extents = self.whole.tensor(name).extents
        if extents is None:
            maker = self.network.producers.get(name)
            raise Unserved(f"the shape of its input {name!r} is unknown", None if maker is None else maker.name)
        return extents

    def named(self, end: str, dtype: str, shape: Shape) -> str:
        """Add a tensor, and return its name."""
        name = f"{self.layer.name}/{end}"
        self.tensors[name] = Tensor(name, dtype, shape)
        return name

    def append(self, op: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: Any) -> None:
        end = f":{len(self.layers)}" if self.layers else ""
        self.layers.append(Layer(self.layer.name + end, op, inputs, outputs, attributes, parts=(self.layer,)))

    def add_product(self, op: str, inputs: tuple[str, str, str, str], y: str, attributes: Mapping[str, Any]) -> str:
        """Add a product of x and w with their zero points, and return the name of its int32 output: `y`, or a new
        one."""
        x, w, zero, w_zero = inputs
        is_known = not zero or zero in self.network.constants
        layer = Layer(self.layer.name, op, (x, w, zero if is_known else "", w_zero), ("",), attributes)
        product = read_layer(layer, self.whole)
        assert isinstance(product, IntegerConvolution), f"{op} is a convolution"
        x_shape = self.extents(x)
        problem = product.problem(x_shape)
        shape = product.made_shape(x_shape, problem)
        sums = y if y and is_known else self.named("sums", "int32", shape)
        self.append(op, layer.inputs, (sums,), **attributes)
        if is_known:
            return sums
        taps = TapSums.of(problem, product.weights, product.parameters.get("w_zero_point", 0))
        weights = f"{self.layer.name}/weights"
        self.constants[weights] = taps.sums
        y = y or self.named("whole", "int32", shape)
        places = {"rows": taps.rows, "columns": taps.columns, "axes": product.axes}
        self.append("WithoutZeroPoint", (sums, zero, weights), (y,), **places)
        return y

    def add_scaled(self, whole: str, scales: tuple[str, str], bias: str) -> None:
        """Add the layers from an int32 product to real numbers: those that quantize_dynamic writes."""
        shape = self.extents(whole)
        if self.network.tensor(self.y).dtype != "float32":
            raise Unserved(f"its output is {self.network.tensor(self.y).dtype}; the kernels make float32 of it")
        real = self.named("real", "float32", shape)
        scale = self.named("scale", "float32", self._broadcast(scales))
        self.append("Cast", (whole,), (real,))
        self.append("Mul", scales, (scale,))
        scaled = self.named("scaled", "float32", shape) if bias else self.y
        self.append("Mul", (real, scale), (scaled,))
        if bias:
            self.append("Add", (scaled, bias), (self.y,))

    def _broadcast(self, scales: tuple[str, str]) -> Shape:
        """Return the shape of the product of a scale of the tensor and those of the weights."""
        a, b = map(self.extents, scales)
        if a not in ((), (1,)):
            raise Unserved(f"its scale of A has the shape {a}; the kernels have one number for the tensor")
        return b if len(b) >= len(a) else a


def _integer(apart: _Apart) -> None:
    layer = apart.layer
    zero = apart.input(2)
    if zero and zero not in apart.network.constants:
        inputs = (*layer.inputs[:2], zero, apart.input(3))
        apart.add_product(layer.op, inputs, apart.y, layer.attributes)


def _to_float(apart: _Apart) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (apart.input(number) for number in range(7))
    whole = apart.add_product("MatMulInteger", (a, b, a_zero, b_zero), "", {})
    apart.add_scaled(whole, (a_scale, b_scale), bias)


def _dynamic_to_float(apart: _Apart) -> None:
    a, b, b_scale, b_zero, bias = (apart.input(number) for number in range(5))
    made = (
        apart.named("bytes", "uint8", apart.extents(a)),
        apart.named("byte_scale", "float32", ()),
        apart.named("zero_point", "uint8", ()),
    )
    whole = apart.add_product("MatMulInteger", (made[0], b, made[2], b_zero), "", {})
    # In front of the product, which has the layer's own name.
    quantize = Layer(f"{apart.layer.name}:quantize", "DynamicQuantizeLinear", (a,), made, parts=(apart.layer,))
    apart.layers.insert(0, quantize)
    apart.add_scaled(whole, (made[1], b_scale), bias)


TAKEN_APART: Mapping[str, Callable[[_Apart], None]] = {
    "ConvInteger": _integer,
    "MatMulInteger": _integer,
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_to_float,
    "com.microsoft.MatMulIntegerToFloat": _to_float,
}


def zero_points_apart(network: Network, without: Collection[str] = ()) -> tuple[Network, dict[str, Reason]]:
    """Return the network with products taken apart where kernels compute them, and why others are not. Layers whose
    names are in `without` stay whole."""
    tensors, constants = dict(network.tensors), dict(network.constants)
    layers, left = list[Layer](), dict[str, Reason]()
    for layer in network.layers:
        apart = _Apart(network, layer)
        try:
            if layer.op in TAKEN_APART and layer.name not in without:
                TAKEN_APART[layer.op](apart)
        except Unserved as error:
            left[layer.name] = error.reason
        except ValueError as error:
            left[layer.name] = Reason(str(error))
        if not apart.layers or layer.name in left:
            layers.append(layer)
            continue
        layers += apart.layers
        tensors |= apart.tensors
        constants |= apart.constants
    return replace(network, layers=tuple(layers), tensors=tensors, constants=constants), left


def is_apart(layer: Layer) -> bool:
    """True for one of the layers in the place of a product."""
    return len(layer.parts) == 1 and layer.parts[0].op in TAKEN_APART
