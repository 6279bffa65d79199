"""Transposed convolutions between DequantizeLinear and QuantizeLinear, as a convolution and a move of pixels.

An output at s * m + phase, for a stride of s, adds up the inputs at m, m - 1, ... times the taps phase, s + phase, ...
of the filter. So each phase is a convolution with stride 1, and all s * s phases are the channels of one. Moving these
to space, and cropping, gives the output. Filters whose size is no multiple of the stride are filled up with taps that
contribute nothing."""

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
from qconv.network.layers.convolution import IntegerConvolution, check_smallest
from qconv.network.layers.pixel_blocks import PhasesToSpace
from qconv.network.layers.window import auto_pad_of
from qconv.tensor_ops.problem import BYTES


@dataclass(frozen=True)
class Axis:
    """The geometry along one axis: `before` and `after` are pads of the output."""

    taps: int
    stride: int
    before: int
    after: int
    extra: int

    @property
    def taps_of_phase(self) -> int:
        return -(-self.taps // self.stride)

    @property
    def skipped(self) -> int:
        """Return the whole steps at the front that the pad removes, which the convolution does not compute."""
        return min(self.before // self.stride, self.taps_of_phase - 1)

    def made(self, size: int) -> int:
        return self.stride * (size - 1) + self.taps - self.before - self.after + self.extra

    def steps(self, size: int) -> int:
        """Return the outputs of the convolution from which the output is cropped."""
        return -(-(self.before - self.stride * self.skipped + self.made(size)) // self.stride)

    def pads(self, size: int) -> tuple[int, int]:
        front = self.taps_of_phase - 1 - self.skipped
        back = self.steps(size) - (size + front - self.taps_of_phase + 1)
        if back < 0:
            raise ValueError(f"pads={self.before, self.after} remove inputs at the end, which the kernels do not skip")
        return front, back


@dataclass(frozen=True, eq=False)
class TransposedConvolution:
    """A layer with everything that is the same in each run. `phases` is the convolution of all phases."""

    layer: Layer
    x: str
    y: str
    phases: IntegerConvolution
    axes: tuple[Axis, Axis]

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        if len(shape) != 4 or min(axis.made(size) for axis, size in zip(self.axes, shape[2:], strict=True)) < 1:
            raise ValueError(f"x has shape {shape}, which a transposed convolution of {self.axes} does not take")
        (top, bottom), (left, right) = (axis.pads(size) for axis, size in zip(self.axes, shape[2:], strict=True))
        convolution = replace(self.phases, attributes={"pads": (top, left, bottom, right)})
        return _Transposed(self, convolution.prepare(shapes, device), shape, device)


class _Transposed:
    def __init__(self, layer: TransposedConvolution, phases: Prepared, shape: Shape, device: Device) -> None:
        self._phases = phases
        self.problems, self.why = phases.problems, phases.why
        starts = [axis.before - axis.stride * axis.skipped for axis in layer.axes]
        sizes = [axis.made(size) for axis, size in zip(layer.axes, shape[2:], strict=True)]
        strides = [axis.stride for axis in layer.axes]
        self._to_space = PhasesToSpace((strides[0], strides[1]), (starts[0], starts[1]), (sizes[0], sizes[1]), device)

    def __call__(self, *inputs: Value) -> Value:
        return self._to_space(self._phases(*inputs))


def transposed_between(between: Between) -> TransposedConvolution:
    """Return a transposed convolution as one of all its phases. Raise ValueError where it is none of integers."""
    network, layer = between.network, between.layer
    others = [network.producers[name] for name in layer.inputs[1:] if name in network.producers]
    are_dequantized = all(one.op == "DequantizeLinear" and not one.attributes.get("block_size", 0) for one in others)
    if not are_dequantized or len(others) != len([name for name in layer.inputs[1:] if name]):
        raise Unserved("not all of its inputs are dequantized")
    weights, *biases = (Reading(one, network) for one in others)
    x, x_type = between.first.x()
    w, axes = weights.weights(0, (4,)), _axes(layer)
    out_type = str(network.tensor(between.y).dtype)
    if out_type not in BYTES or layer.attributes.get("group", 1) != 1 or w.shape[2:] != tuple(a.taps for a in axes):
        raise Unserved("it has groups, or an output that is no bytes")
    k = w.shape[1]
    numbers = between.numbers
    own = weights.scales({"w_scale": 1, "w_zero_point": 2}, k)
    if own["w_scale"].size > 1 and weights.layer.attributes.get("axis", 1) % 4 != 1:
        raise Unserved("the scales of its weights are not per output")
    if biases:
        numbers["bias"] = _bias(biases[0], numbers["x_scale"], own["w_scale"], k)
    filters = _of_phases(w, axes, own.get("w_zero_point", np.zeros((), w.dtype)))
    count = axes[0].stride * axes[1].stride
    repeated = {name: _repeated(array, count) for name, array in (own | numbers).items()}
    one = between.as_one(others)
    made = IntegerConvolution(one, x, between.y, x_type, filters, out_type, repeated)
    check_smallest(made)
    return TransposedConvolution(one, x, between.y, made, axes)


def _axes(layer: Layer) -> tuple[Axis, Axis]:
    given: Mapping[str, Any] = layer.attributes
    if auto_pad_of(given) != "NOTSET" or "output_shape" in given or any(gap != 1 for gap in given.get("dilations", ())):
        raise Unserved("it has dilations, or pads that follow from its shapes")
    taps, strides = given.get("kernel_shape", ()), given.get("strides") or (1, 1)
    pads, extra = given.get("pads") or (0,) * 4, given.get("output_padding") or (0, 0)
    if len(taps) != 2:
        raise Unserved("it has not two axes")
    h, w = (Axis(taps[at], strides[at], pads[at], pads[at + 2], extra[at]) for at in (0, 1))
    return h, w


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


def _of_phases(w: Array, axes: tuple[Axis, Axis], zero: Array) -> Array:
    """Return the filters of all phases, KCRS, from weights of a transposed convolution, CKRS. The channels are ordered
    by the phase along h, the phase along w and the output. Taps beyond the filter are zero points."""
    c, k = w.shape[:2]
    (rows, columns), (high, wide) = ((axis.taps_of_phase for axis in axes), (axis.stride for axis in axes))
    filled = np.broadcast_to(np.reshape(zero, (1, -1, 1, 1)), (c, k, rows * high, columns * wide)).astype(w.dtype)
    filled[:, :, : axes[0].taps, : axes[1].taps] = w
    # A later tap of a phase meets an earlier input, so a filter of the convolution is reversed.
    by_phase = filled.reshape(c, k, rows, high, columns, wide)[:, :, ::-1, :, ::-1]
    return np.ascontiguousarray(by_phase.transpose(3, 5, 1, 0, 2, 4).reshape(high * wide * k, c, rows, columns))


def _repeated(array: Array, count: int) -> Array:
    """Return numbers per output for all phases; a single number stays one."""
    return np.tile(array, count) if array.size > 1 else array
