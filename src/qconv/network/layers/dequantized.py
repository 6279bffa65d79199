"""Convolutions and matrix products of dequantized tensors, as products of what is dequantized: of bytes, or of 8-bit
floats. What follows is folded in: a bias, an activation, a QuantizeLinear.

ONNX Runtime has integer layers only where the bias is quantized with the products' scale and a QuantizeLinear follows.
Models that other tools quantize, for TensorRT above all, have biases of floats, and no QuantizeLinear between a
convolution and a sum."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.arithmetic.quantization import SCALABLE
from qconv.dtypes import FLOAT8
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Served, Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.convolution import AddedReal, IntegerConvolution
from qconv.network.layers.float_convolution import READERS, REALS, FloatReader, check, note_of
from qconv.network.layers.float_folds import Folds, Made
from qconv.network.layers.packed_convolution import PackedConvolution
from qconv.tensor_ops.problem import BYTES

NOTE_OF_BYTES = "products of bytes with sums in int32, scaled and rounded once"


@dataclass(frozen=True)
class _Converted:
    """A tensor of bytes or 8-bit floats beside a conversion with constant numbers."""

    reading: Reading
    tensor: str
    dtype: str
    scale: Array
    zero_point: Array | None  # of bytes

    @classmethod
    def of(cls, network: Network, layer: Layer | None, op: str, k: int = 1) -> _Converted:
        """Return what a DequantizeLinear reads or a QuantizeLinear makes. `k`: its scales may be as many, along an axis
        that the caller checks."""
        if layer is None or layer.op != op:
            raise Unserved(f"there is no {op} beside it")
        reading = Reading(layer, network)
        name = layer.inputs[0] if op == "DequantizeLinear" else layer.outputs[0]
        array = network.constant(name)
        dtype = str(network.tensor(name).dtype if array is None else array.dtype)
        numbers = reading.scales({"w_scale": 1, "w_zero_point": 2}, k)
        zero = np.asarray(numbers.get("w_zero_point", 0))
        if dtype not in (*FLOAT8, *BYTES) or (dtype in FLOAT8 and zero.astype(np.float32).any()):
            raise Unserved(f"its {op} is of {dtype}; the kernels have bytes, and 8-bit floats with a zero point of 0")
        if layer.attributes.get("block_size", 0) or not layer.attributes.get("saturate", 1):
            raise Unserved("it has scales of blocks, or overflows to infinity")
        return cls(reading, name, dtype, numbers["w_scale"].astype(np.float32), zero if dtype in BYTES else None)

    def numbers(self, letter: str) -> dict[str, Any]:
        """Return the parameters of an operand or of the output."""
        zero = {} if self.zero_point is None else {f"{letter}_zero_point": self.zero_point}
        return {f"{letter}_scale": self.scale, **zero}


class _ByteReader(FloatReader):
    """The inputs of a layer that is to multiply bytes."""

    kind = IntegerConvolution

    def _narrowed(self, w: Array) -> Array:
        return w


class _DequantizedFolds(Folds):
    """The folds of a convolution of dequantized tensors. A sum adds another one of the operands' kind."""

    def over_rounded(self, one: Made, shape: Shape) -> Made:
        """Return the convolution with the sum of its dequantized output folded in, an 8-bit float, up to the
        QuantizeLinear behind the sum. The kernel rounds twice, as two kernels would; it bends the sum by activations
        that have the bits of expressions."""
        own = self._dequantized(one) if one.out_type in FLOAT8 and one.activation == "none" else None
        summed = None if own is None else self._sum(own)
        if summed is None:
            return one
        made = _quantized(self.network, self._activation(summed) or summed, shape)
        folded = {part.name for part in made.layer.parts[len(one.layer.parts) :]}
        is_whole = made.out_type == one.out_type and made.activation in ("none", *SCALABLE)
        return made if is_whole and folded.isdisjoint(self.taken) else one

    def _dequantized(self, one: Made) -> Made | None:
        """Return the convolution with the DequantizeLinear of its output, which has the same scale."""
        layer = self.network.only_consumer(one.y)
        try:
            own = _Converted.of(self.network, layer, "DequantizeLinear")
        except Unserved:
            return None
        scale, made = one.parameters["y_scale"], own.reading.layer
        if own.dtype != one.out_type or own.scale.item() != scale.item():
            return None
        if self.network.tensor(made.outputs[0]).dtype != "float32":  # the sum is of fp32
            return None
        parameters = {name: value for name, value in one.parameters.items() if name != "y_scale"}
        return self._with(one, made, out_type="float32", parameters={**parameters, "inner_scale": scale})

    def _with_added(self, one: Made, add: Layer, other: Tensor) -> Made | None:
        try:
            added = _Converted.of(self.network, self.network.producers.get(other.name), "DequantizeLinear")
        except Unserved:
            return None
        is_real = added.dtype in FLOAT8
        if is_real != (one.x_type in FLOAT8) or added.tensor in self.network.constants:
            return None
        fields: dict[str, Any] = {"added": AddedReal(added.tensor, added.dtype)}
        if is_real:
            fields = {"added": added.tensor, "added_type": added.dtype}
        made = self._with(one, add, parameters={**one.parameters, **added.numbers("residual")}, **fields)
        return replace(made, layer=replace(made.layer, inputs=(*one.layer.inputs, added.tensor)))


def fold_dequantized_products(
    network: Network, served: Mapping[str, Served], sums: bool
) -> tuple[Network, dict[str, Served]]:
    """Fold each of them. What other layers read as well is computed for these. `sums`: sums of two tensors are folded
    in."""
    found: dict[str, Served] = dict(served)
    instead: dict[str, Layer] = {}
    taken: set[str] = set()
    for layer in network.layers:
        if layer.name in served or layer.op not in READERS:
            continue
        try:
            one = _read(network, layer, sums, taken)
        except Unserved:
            continue
        taken |= {part.name for part in one.layer.parts}
        found[one.layer.name] = one
        instead[one.layer.parts[-1].name] = one.layer
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread(), found


def _read(network: Network, layer: Layer, sums: bool, taken: Collection[str]) -> PackedConvolution:
    x = _Converted.of(network, network.producers.get(layer.inputs[0]), "DequantizeLinear")
    shape = network.tensor(x.tensor).extents
    if shape is None or 0 in shape or network.tensor(layer.outputs[0]).dtype not in REALS:
        raise Unserved(f"the shape of its input {x.tensor!r} is not known before the run, or it has no elements")
    w = _weights(network, layer)
    if (x.dtype in FLOAT8) != (w.dtype in FLOAT8):
        raise Unserved(f"{x.dtype} by {w.dtype}: no kernel multiplies bytes by floats")
    biases = {name: _bias(network, name) for name in layer.inputs[2:3] if name}
    plain = replace(layer, inputs=(x.tensor, w.tensor, *biases))
    known = Reading(plain, replace(network, constants={**network.constants, **biases}))
    is_real = x.dtype in FLOAT8
    made = READERS[layer.op]((FloatReader if is_real else _ByteReader)(known, x.dtype, w.dtype))
    parts = (x.reading.layer, w.reading.layer, layer)
    note = note_of(x.dtype) if is_real else NOTE_OF_BYTES
    one = replace(
        made,
        layer=replace(layer, inputs=(x.tensor,), parts=parts, is_exact=False, note=note),
        out_type=str(network.tensor(made.y).dtype),
        parameters={**made.parameters, **x.numbers("x"), **w.numbers("w")},
    )
    check(one, shape)
    folds = _DequantizedFolds(network, sums, taken)
    return folds.over_rounded(_quantized(network, folds.into(one, shape), shape), shape)


def _weights(network: Network, layer: Layer) -> _Converted:
    maker = network.producers.get(layer.inputs[1])
    axis = 1 if layer.op == "MatMul" or (layer.op == "Gemm" and not layer.attributes.get("transB", 0)) else 0
    array = None if maker is None else network.constant(maker.inputs[0])
    shape = () if array is None else array.shape
    w = _Converted.of(network, maker, "DequantizeLinear", shape[axis] if axis < len(shape) else 1)
    if w.scale.size > 1 and w.reading.layer.attributes.get("axis", 1) % len(shape) != axis:
        raise Unserved("the scales of its weights are not per output")
    return w


def _bias(network: Network, name: str) -> Array:
    """Return a bias that is constant, or dequantized of constants."""
    array, maker = network.constant(name), network.producers.get(name)
    if array is not None:
        return array
    if maker is None or maker.op != "DequantizeLinear":
        raise Unserved("its bias is computed")
    whole, scale, *zero = (network.constant(each) for each in maker.inputs)
    if whole is None or scale is None or any(each is None or each.any() for each in zero):
        raise Unserved("its bias is computed, or has a zero point")
    made: Any = whole.astype(np.float32) * scale.astype(np.float32)
    return np.asarray(made)


def _quantized(network: Network, one: Made, shape: Shape) -> Made:
    """Return the convolution with the QuantizeLinear behind it folded in, if there is one of the operands' kind."""
    last = network.only_consumer(one.y)
    try:
        y = _Converted.of(network, last, "QuantizeLinear")
        if (y.dtype in FLOAT8) != (one.x_type in FLOAT8):
            return one
        layer = replace(one.layer, outputs=(y.tensor,), parts=(*one.layer.parts, y.reading.layer))
        made = replace(one, layer=layer, y=y.tensor, out_type=y.dtype, parameters={**one.parameters, **y.numbers("y")})
        check(made, shape)
    except Unserved:
        return one
    return made
