"""Products of integers whose zero point is computed at each run, as a product without one and a correction behind it.

A kernel's weights and zero points are packed before a run. It therefore computes the sum of x * w, and an expression,
which the layers behind it join, subtracts the zero point times the sums of the weights: the same integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Array
from qconv.network.graph.served import Reason, Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.convolution import IntegerConvolution, read_layer
from qconv.network.layers.tap_sums import TapSums


@dataclass
class _Parts:
    """The layers in the place of one, with their tensors and constants."""

    network: Network
    layer: Layer
    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)

    def inputs(self, count: int) -> tuple[str, ...]:
        """Return the names of the inputs, "" for an absent one."""
        return (*self.layer.inputs, *("",) * count)[:count]

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
        known = self.network.constant(name)
        extents = self.whole.tensor(name).extents if known is None else known.shape
        if extents is None:
            maker = self.network.producers.get(name)
            raise Unserved(f"the shape of its input {name!r} is unknown", None if maker is None else maker.name)
        return extents

    def named(self, end: str, dtype: str, shape: Shape) -> str:
        """Add a tensor, and return its name."""
        name = f"{self.layer.name}/{end}"
        self.tensors[name] = Tensor(name, dtype, shape)
        return name

    def append(self, end: str, op: str, inputs: tuple[str, ...], outputs: tuple[str, ...], **attributes: Any) -> None:
        """Add a layer. The one without an end has the name of the layer that it replaces."""
        name = f"{self.layer.name}:{end}" if end else self.layer.name
        self.layers.append(Layer(name, op, inputs, outputs, attributes, parts=(self.layer,)))

    def add_quantization(self, x: str) -> tuple[str, str, str]:
        """Add a dynamic quantization, and return the names of its bytes, its scale and its zero point."""
        made = (
            self.named("bytes", "uint8", self.extents(x)),
            self.named("byte_scale", "float32", ()),
            self.named("zero_point", "uint8", ()),
        )
        self.append("quantize", "DynamicQuantizeLinear", (x,), made)
        return made

    def add_product(self, op: str, inputs: tuple[str, ...], y: str, attributes: Mapping[str, Any]) -> str:
        """Add a product of x and w with their zero points, and return the name of its int32 output: `y`, or a new
        one."""
        x, w, zero, w_zero = inputs
        is_known = not zero or zero in self.network.constants
        layer = Layer(self.layer.name, op, (x, w, zero if is_known else "", w_zero), ("",), attributes)
        product = read_layer(layer, self.whole)
        assert isinstance(product, IntegerConvolution), f"{op} is a convolution"
        if product.axes == 3 and not is_known:
            raise Unserved("its zero point is computed at each run, and its filter has three axes")
        x_shape = self.extents(x)
        problem = product.problem(x_shape)
        shape = product.made_shape(x_shape, problem)
        sums = y if y and is_known else self.named("sums", "int32", shape)
        self.append("", op, layer.inputs, (sums,), **attributes)
        if is_known:
            return sums
        taps = TapSums.of(problem, product.weights, product.parameters.get("w_zero_point", np.zeros(())))
        weights = f"{self.layer.name}/weights"
        self.constants[weights] = taps.sums
        y = y or self.named("whole", "int32", shape)
        places = {"rows": taps.rows, "columns": taps.columns, "axes": product.axes}
        self.append("zero_point", "WithoutZeroPoint", (sums, zero, weights), (y,), **places)
        return y

    def add_scaled_product(self, inputs: tuple[str, ...], scales: tuple[str, str], bias: str) -> None:
        """Add a product of matrices and the layers from its integers to real numbers, as quantize_dynamic writes
        them."""
        if self.network.tensor(self.y).dtype != "float32":
            raise Unserved(f"its output is {self.network.tensor(self.y).dtype}; the kernels make float32 of it")
        whole = self.add_product("MatMulInteger", inputs, "", {})
        shape = self.extents(whole)
        real = self.named("real", "float32", shape)
        scale = self.named("scale", "float32", self._product_of_scales(*scales))
        self.append("real", "Cast", (whole,), (real,))
        self.append("scale", "Mul", scales, (scale,))
        scaled = self.named("scaled", "float32", shape) if bias else self.y
        self.append("scaled", "Mul", (real, scale), (scaled,))
        if bias:
            self.append("bias", "Add", (scaled, bias), (self.y,))

    def _product_of_scales(self, of_a: str, of_b: str) -> Shape:
        """Return the shape of the product of the scale of A and those of B."""
        a, b = self.extents(of_a), self.extents(of_b)
        if a not in ((), (1,)):
            raise Unserved(f"its scale of A has the shape {a}; the kernels have one number for the tensor")
        return b if len(b) >= len(a) else a


def _integer(parts: _Parts) -> None:
    x, w, zero, w_zero = parts.inputs(4)
    if zero and zero not in parts.network.constants:
        parts.add_product(parts.layer.op, (x, w, zero, w_zero), parts.y, parts.layer.attributes)


def _to_float(parts: _Parts) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = parts.inputs(7)
    parts.add_scaled_product((a, b, a_zero, b_zero), (a_scale, b_scale), bias)


def _dynamic_to_float(parts: _Parts) -> None:
    a, b, b_scale, b_zero, bias = parts.inputs(5)
    x, scale, zero = parts.add_quantization(a)
    if b in parts.network.constants:
        parts.add_scaled_product((x, b, zero, b_zero), (scale, b_scale), bias)
    else:  # an expression has products of two computed tensors
        parts.append("", TO_FLOAT, (x, b, scale, b_scale, zero, b_zero, bias), (parts.y,))


TO_FLOAT = "com.microsoft.MatMulIntegerToFloat"
DECOMPOSED: Mapping[str, Callable[[_Parts], None]] = {
    "ConvInteger": _integer,
    "MatMulInteger": _integer,
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_to_float,
    TO_FLOAT: _to_float,
}


def decompose_zero_points(network: Network, without: Collection[str] = ()) -> tuple[Network, dict[str, Reason]]:
    """Return the network with several layers in the place of each product that kernels compute so, and why other
    products stay. Layers whose names are in `without` stay as well."""
    tensors, constants = dict(network.tensors), dict(network.constants)
    layers, left = list[Layer](), dict[str, Reason]()
    for layer in network.layers:
        parts = _Parts(network, layer)
        try:
            if layer.op in DECOMPOSED and layer.name not in without:
                DECOMPOSED[layer.op](parts)
        except Unserved as error:
            left[layer.name] = error.reason
        except ValueError as error:
            left[layer.name] = Reason(str(error))
        if not parts.layers or layer.name in left:
            layers.append(layer)
            continue
        layers += parts.layers
        tensors |= parts.tensors
        constants |= parts.constants
    return replace(network, layers=tuple(layers), tensors=tensors, constants=constants), left


def is_of_product(layer: Layer) -> bool:
    """True for one of the layers in the place of a product."""
    return len(layer.parts) == 1 and layer.parts[0].op in DECOMPOSED
