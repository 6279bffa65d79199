"""Transposed convolutions between DequantizeLinear and QuantizeLinear, as one convolution of all their phases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.between import Between
from qconv.network.layers.convolution import IntegerConvolution, check_smallest
from qconv.network.layers.window import transposed_extents
from qconv.problem.transposed import ConvTranspose2d
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True, eq=False)
class TransposedConvolution:
    """A layer with everything that is the same in each run. `phases` is the convolution of all phases."""

    layer: Layer
    x: str
    y: str
    phases: IntegerConvolution
    attributes: Mapping[str, Any]
    k: int
    taps: tuple[int, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        if len(shape) != len(self.taps) + 2:
            raise ValueError(f"x has shape {shape}, but w has {len(self.taps)} axes: it must have {len(self.taps) + 2}")
        made = transposed(self.attributes, shape, self.k, self.taps)
        axes = len(self.taps)
        (top, left, bottom, right), window = made.window["pad"], dict(made.window)
        window["pads"] = (*(top, left)[2 - axes :], *(bottom, right)[2 - axes :])
        del window["pad"]
        return replace(self.phases, attributes={"group": made.groups} | window).prepare(shapes, device)


def transposed(attributes: Mapping[str, Any], shape: Shape, k: int, taps: tuple[int, ...]) -> ConvTranspose2d:
    """Return the geometry for an input of this shape, with the channels after N. A single axis is w."""
    n, c, *sizes = shape
    given = {name: tuple(attributes.get(name) or (1,) * len(taps)) for name in ("strides", "dilations")}
    extra = tuple(attributes.get("output_padding") or (0,) * len(taps))
    along = zip(sizes, taps, given["strides"], given["dilations"], extra, strict=True)
    whole = [step * (size - 1) + (count - 1) * gap + 1 + more for size, count, step, gap, more in along]
    outs, before = transposed_extents(attributes, sizes, given["strides"], whole)
    after = [size - out - front for size, out, front in zip(whole, outs, before, strict=True)]
    zeros, ones = (0,) * (2 - len(taps)), (1,) * (2 - len(taps))
    h, w, r, s = (*ones, *sizes)[0], sizes[-1], (*ones, *taps)[0], taps[-1]
    return ConvTranspose2d(
        *(n, h, w, c, k, r, s),
        stride=(*ones, *given["strides"]),
        dilation=(*ones, *given["dilations"]),
        pad=(*zeros, *before, *zeros, *after),
        output_padding=(*zeros, *extra),
        groups=int(attributes.get("group", 1)),
    )


def transposed_between(between: Between) -> TransposedConvolution:
    """Return a transposed convolution as one of all its phases. Raise ValueError where it is none of integers."""
    network, layer = between.network, between.layer
    others = [network.producers[name] for name in layer.inputs[1:] if name in network.producers]
    are_dequantized = all(one.op == "DequantizeLinear" and not one.attributes.get("block_size", 0) for one in others)
    if not are_dequantized or len(others) != len([name for name in layer.inputs[1:] if name]):
        raise Unserved("not all of its inputs are dequantized")
    weights, *biases = (Reading(one, network) for one in others)
    x, x_type = between.first.x()
    w = weights.weights(0, (3, 4))
    taps, groups = w.shape[2:], int(layer.attributes.get("group", 1))
    out_type = str(network.tensor(between.y).dtype)
    if out_type not in BYTES or tuple(layer.attributes.get("kernel_shape", taps)) != taps:
        raise Unserved("its output is no bytes, or its kernel_shape is not that of the weights")
    k = w.shape[1] * groups
    numbers = between.numbers
    # One number for each output of a group, the same in all groups.
    of_group = weights.scales({"w_scale": 1, "w_zero_point": 2}, w.shape[1])
    if of_group["w_scale"].size > 1 and weights.layer.attributes.get("axis", 1) % w.ndim != 1:
        raise Unserved("the scales of its weights are not per output")
    own = {name: np.tile(array, groups) if array.size > 1 else array for name, array in of_group.items()}
    if biases:
        numbers["bias"] = _bias(biases[0], numbers["x_scale"], own["w_scale"], k)
    smallest = transposed(layer.attributes, (1, w.shape[0], *_smallest(layer, taps)), k, taps)
    filters = smallest.filters(w.reshape(*w.shape[:2], smallest.r, smallest.s), own.get("w_zero_point", 0))
    one, given = between.as_one(others), smallest.by_phase(own | numbers)
    w_phases, group = filters.transpose(0, 3, 1, 2), {"group": groups}
    phases = IntegerConvolution(one, x, between.y, x_type, w_phases, out_type, given, group, axes=len(taps))
    check_smallest(phases)
    return TransposedConvolution(one, x, between.y, phases, layer.attributes, k, taps)


def _smallest(layer: Layer, taps: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of an image of which outputs remain, whatever the pads."""
    axes = len(taps)
    removed = tuple(layer.attributes.get("pads") or (0,) * (2 * axes))
    asked = tuple(layer.attributes.get("output_shape") or (0,) * axes)[-axes:]
    return tuple(1 + removed[at] + removed[at + axes] + int(asked[at]) for at in range(axes))


def _bias(reading: Reading, x_scale: Array, w_scale: Array, k: int) -> Array:
    """Return the integers of a bias whose scale is that of the products, as quantizers write it."""
    bias, scale = reading.constant(0, "bias"), reading.constant(1, "the scale of the bias")
    zero = reading.optional(2, "the zero point of the bias")
    products = np.asarray(x_scale, np.float32) * np.asarray(w_scale, np.float32)
    if str(bias.dtype) != "int32" or bias.shape != (k,) or (zero is not None and zero.any()):
        raise Unserved("its bias is no int32 with one number per output")
    if not np.allclose(np.broadcast_to(scale, (k,)), np.broadcast_to(products, (k,)), rtol=1e-6, atol=0):
        raise Unserved("its bias has another scale than the products")
    return bias
