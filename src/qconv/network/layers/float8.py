"""Float layers between DequantizeLinear and QuantizeLinear of 8-bit floats, as one convolution of these."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.dtypes import FLOAT8
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Served, Unserved
from qconv.network.layers.float_convolution import READERS, REALS, FloatConvolution, FloatReader, check, note_of
from qconv.network.layers.float_folds import Folds


@dataclass(frozen=True)
class _Converted:
    """A tensor of 8-bit floats beside a conversion with constant scales, and no zero point."""

    reading: Reading
    tensor: str
    dtype: str
    scale: Array

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
        zero = reading.optional(2, "zero point")
        if dtype not in FLOAT8 or (zero is not None and zero.astype(np.float32).any()):
            raise Unserved(f"its {op} is of {dtype}; the kernels have 8-bit floats with a zero point of 0")
        if layer.attributes.get("block_size", 0) or not layer.attributes.get("saturate", 1):
            raise Unserved("it has scales of blocks, or overflows to infinity")
        scale = reading.scales({"w_scale": 1}, k)["w_scale"]
        return cls(reading, name, dtype, scale.astype(np.float32))


def fold_float8(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Fold each of them. What other layers read as well is computed for these."""
    found: dict[str, Served] = dict(served)
    instead: dict[str, Layer] = {}
    taken: set[str] = set()
    for layer in network.layers:
        if layer.name in served or layer.op not in READERS:
            continue
        try:
            one = _read(network, layer, taken)
        except Unserved:
            continue
        taken |= {part.name for part in one.layer.parts}
        found[one.layer.name] = one
        instead[one.layer.parts[-1].name] = one.layer
    layers = tuple(instead.get(layer.name, layer) for layer in network.layers)
    return replace(network, layers=layers).without_unread(), found


def _read(network: Network, layer: Layer, taken: Collection[str]) -> FloatConvolution:
    x = _Converted.of(network, network.producers.get(layer.inputs[0]), "DequantizeLinear")
    shape = network.tensor(x.tensor).extents
    if shape is None or 0 in shape or network.tensor(layer.outputs[0]).dtype not in REALS:
        raise Unserved(f"the shape of its input {x.tensor!r} is not known before the run, or it has no elements")
    maker = network.producers.get(layer.inputs[1])
    axis = 1 if layer.op == "MatMul" or (layer.op == "Gemm" and not layer.attributes.get("transB", 0)) else 0
    array = None if maker is None else network.constant(maker.inputs[0])
    w_shape = () if array is None else array.shape
    w = _Converted.of(network, maker, "DequantizeLinear", w_shape[axis] if axis < len(w_shape) else 1)
    if w.scale.size > 1 and w.reading.layer.attributes.get("axis", 1) % len(w_shape) != axis:
        raise Unserved("the scales of its weights are not per output")
    biases = {name: _bias(network, name) for name in layer.inputs[2:3] if name}
    plain = replace(layer, inputs=(x.tensor, w.tensor, *biases))
    known = replace(network, constants={**network.constants, **biases})
    made = READERS[layer.op](FloatReader(Reading(plain, known), x.dtype, w.dtype))
    parts = (x.reading.layer, w.reading.layer, layer)
    one = replace(
        made,
        layer=replace(layer, inputs=(x.tensor,), parts=parts, is_exact=False, note=note_of(x.dtype)),
        out_type=str(network.tensor(made.y).dtype),
        parameters={**made.parameters, "x_scale": x.scale, "w_scale": w.scale},
    )
    check(one, shape)
    return _quantized(network, Folds(network, False, taken).into(one, shape), shape)


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


def _quantized(network: Network, one: FloatConvolution, shape: tuple[int, ...]) -> FloatConvolution:
    """Return the convolution with the QuantizeLinear behind it folded in, if there is one of 8-bit floats."""
    last = network.only_consumer(one.y)
    try:
        y = _Converted.of(network, last, "QuantizeLinear")
        layer = replace(one.layer, outputs=(y.tensor,), parts=(*one.layer.parts, y.reading.layer))
        parameters = {**one.parameters, "y_scale": y.scale}
        made = replace(one, layer=layer, y=y.tensor, out_type=y.dtype, parameters=parameters)
        check(made, shape)
    except Unserved:
        return one
    return made
