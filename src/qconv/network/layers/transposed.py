"""Transposed convolutions between DequantizeLinear and QuantizeLinear, as one convolution of all their phases. With
three axes, those along the frames are moved to their frames by a copy behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value
from qconv.network.layers.between import Between
from qconv.network.layers.convolution import IntegerConvolution
from qconv.network.layers.packed_convolution import check_smallest
from qconv.network.layers.window import transposed_extents
from qconv.problem.transposed import Axis, ConvTranspose2d, size_with_outputs
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True)
class Geometry:
    """A layer for an input of one shape: its last two axes, and the one of the frames if there are three. The phases
    along the frames are outputs of the former; they are ordered by phase, then by the layer's output."""

    images: ConvTranspose2d
    frames: Axis | None = None

    @classmethod
    def of(cls, attributes: Mapping[str, Any], shape: Shape, k: int, taps: tuple[int, ...]) -> Geometry:
        """Return the geometry for an input of this shape, with the channels after N. A single axis is w."""
        n, c, *sizes = shape
        given = {name: tuple(attributes.get(name) or (1,) * len(taps)) for name in ("strides", "dilations")}
        extra = tuple(attributes.get("output_padding") or (0,) * len(taps))
        along = zip(sizes, taps, given["strides"], given["dilations"], extra, strict=True)
        whole = [Axis(size, count, step, gap, 0, 0, more) for size, count, step, gap, more in along]
        outs, before = transposed_extents(attributes, sizes, given["strides"], [axis.made for axis in whole])
        axes = [
            replace(axis, before=front, after=axis.made - out - front)
            for axis, out, front in zip(whole, outs, before, strict=True)
        ]
        frames = axes.pop(0) if len(axes) == 3 else None
        if frames is not None and frames.made < 1:
            raise ValueError(f"pads={frames.before, frames.after} along the frames leave {frames.made} of them")
        h, w = [Axis(1, 1, 1, 1, 0, 0, 0)] * (2 - len(axes)) + axes
        images = ConvTranspose2d(
            *(n, h.size, w.size, c, k * (frames.stride if frames else 1), h.taps, w.taps),
            stride=(h.stride, w.stride),
            dilation=(h.gap, w.gap),
            pad=(h.before, w.before, h.after, w.after),
            output_padding=(h.extra, w.extra),
            groups=int(attributes.get("group", 1)),
        )
        return cls(images, frames)

    def filters(self, w: Array, zero_point: Array) -> Array:
        """Return the filters of all phases, KCRS or KCTRS, from weights CKRS or CKTRS."""
        if self.frames is None:
            return self.images.filters(w, zero_point).transpose(0, 3, 1, 2)
        c, k, _, *window = w.shape
        count, stride = self.frames.taps_of_phase, self.frames.stride
        zero = np.broadcast_to(np.asarray(zero_point, w.dtype).reshape(-1), (k,))
        filled = np.broadcast_to(zero.reshape(-1, 1, 1, 1), (c, k, count * stride, *window)).copy()
        filled[:, :, : self.frames.span : self.frames.gap] = w
        # A later tap of a phase meets an earlier frame.
        taps = (filled[:, :, at * stride : (at + 1) * stride] for at in reversed(range(count)))
        by_phase = (tap.transpose(0, 2, 1, 3, 4).reshape(c, k * stride, *window) for tap in taps)
        return np.stack([self.images.filters(tap, np.tile(zero, stride)) for tap in by_phase]).transpose(1, 4, 0, 2, 3)

    def by_phase(self, numbers: Mapping[str, Any], k: int) -> dict[str, Any]:
        """Return the parameters of the convolution, with the numbers per output for each phase."""
        stride = self.frames.stride if self.frames else 1
        per_output = {name: np.tile(value, stride) for name, value in numbers.items() if np.shape(value) == (k,)}
        return self.images.by_phase({**numbers, **per_output})

    def window(self, axes: int) -> dict[str, Any]:
        """Return the attributes of the convolution."""
        given = dict(self.images.window)
        top, left, bottom, right = given.pop("pad")
        front, back = self.frames.pads if self.frames else (0, 0)
        pads = (*(front, top, left)[3 - axes :], *(back, bottom, right)[3 - axes :])
        return {"group": self.images.groups, "pads": pads, **given}


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
        axes = len(self.taps)
        if len(shape) != axes + 2:
            raise ValueError(f"x has shape {shape}, but w has {axes} axes: it must have {axes + 2}")
        made = Geometry.of(self.attributes, shape, self.k, self.taps)
        phases = replace(self.phases, attributes=made.window(axes)).prepare(shapes, device)
        return phases if made.frames is None else _FramesMoved(phases, made.frames, device)


class _FramesMoved:
    """A convolution, prepared for one shape, before the copy that moves the phases of its channels to frames."""

    def __init__(self, phases: Prepared, frames: Axis, device: Device) -> None:
        self._phases, self._frames, self._device = phases, frames, device
        self.problems = phases.problems
        self.why = f"{phases.why}; the phases along the frames are moved there"

    def __call__(self, *inputs: Value) -> Value:
        phases = self._phases(*inputs).channels_last
        n, steps, h, w, channels = phases.shape
        stride, front = self._frames.stride, self._frames.crop[0]
        moved = phases.reshape((n, steps, h, w, stride, channels // stride)).transpose((0, 1, 4, 2, 3, 5))
        whole = self._device.contiguous(moved).reshape((n, steps * stride, h, w, channels // stride))
        kept = whole[:, front : front + self._frames.made]
        return Value(self._device, channels_last=self._device.contiguous(kept))


def transposed_between(between: Between) -> TransposedConvolution:
    """Return a transposed convolution as one of all its phases. Raise ValueError where it is none of integers."""
    network, layer = between.network, between.layer
    others = [network.producers[name] for name in layer.inputs[1:] if name in network.producers]
    are_dequantized = all(one.op == "DequantizeLinear" and not one.attributes.get("block_size", 0) for one in others)
    if not are_dequantized or len(others) != len([name for name in layer.inputs[1:] if name]):
        raise Unserved("not all of its inputs are dequantized")
    weights, *biases = (Reading(one, network) for one in others)
    x, x_type = between.first.x()
    w = weights.weights(0, (3, 4, 5))
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
    if len(taps) == 3 and groups > 1:
        raise Unserved("it has groups and three axes")
    smallest = Geometry.of(layer.attributes, (1, w.shape[0], *_smallest(layer, taps)), k, taps)
    of_images = w[:, :, np.newaxis] if len(taps) == 1 else w
    filters = smallest.filters(of_images, own.get("w_zero_point", np.zeros((), w.dtype)))
    one, given = between.as_one(others), smallest.by_phase(own | numbers, k)
    group = {"group": groups}
    phases = IntegerConvolution(one, x, between.y, x_type, filters, out_type, given, group, axes=len(taps))
    check_smallest(phases)
    return TransposedConvolution(one, x, between.y, phases, layer.attributes, k, taps)


def _smallest(layer: Layer, taps: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of an image of which outputs remain, whatever the pads."""
    axes = len(taps)
    removed = tuple(layer.attributes.get("pads") or (0,) * (2 * axes))
    asked = tuple(layer.attributes.get("output_shape") or (0,) * axes)[-axes:]
    return tuple(size_with_outputs(removed[at], removed[at + axes], int(asked[at])) for at in range(axes))


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
