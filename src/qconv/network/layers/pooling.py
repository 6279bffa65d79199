"""Pools of quantized tensors on kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer
from qconv.network.graph.reading import NUMBERS, Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Value
from qconv.network.layers.window import auto_pad_of, check_auto_pad, sides
from qconv.tensor_ops import AveragePool, GlobalAveragePool, MaxPool
from qconv.tensor_ops.pooling import PoolParameters

Problem = MaxPool | AveragePool | GlobalAveragePool


@dataclass(frozen=True, eq=False)
class QuantizedPool:
    """A pool. `attributes` describe the window and are empty for a pool of the whole image. `parameters` are the scales
    and zero points of an average. Without `keeps_axes`, its output has none of the axes of the image."""

    layer: Layer
    x: str
    y: str
    kind: type[Problem]
    dtype: str
    parameters: Mapping[str, Any]
    attributes: Mapping[str, Any]
    keeps_axes: bool = True

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,)

    @property
    def smallest(self) -> tuple[int, ...]:
        """The extents of an image in which the window moves once."""
        window = tuple(self.attributes["kernel_shape"])
        ones = (1,) * len(window)
        gaps, steps = (self.attributes.get(name) or ones for name in ("dilations", "strides"))
        return tuple((size - 1) * gap + 1 + step for size, gap, step in zip(window, gaps, steps, strict=False))

    def problem(self, x_shape: Sequence[int]) -> Problem:
        """Return the problem for an input of this shape, with the channels after N. Raise ValueError where no kernel
        serves it."""
        if len(x_shape) < 3:
            raise ValueError(f"x has shape {tuple(x_shape)}: a pool needs N, channels and one axis at least")
        n, c, *sizes = x_shape
        if self.kind is GlobalAveragePool:
            return self._of_image(n, prod(sizes), c)
        window = tuple(self.attributes["kernel_shape"])
        if len(sizes) != len(window):
            raise ValueError(f"x has shape {tuple(x_shape)}, but the window {window} slides along {len(window)} axes")
        spec = sides(self.attributes, sizes, window)
        if auto_pad_of(self.attributes).startswith("SAME"):
            _check_same(sizes, window, spec["stride"][-len(window) :])
        if self.kind is AveragePool and tuple(sizes) == window and not any(spec["pad"]):
            return self._of_image(n, prod(sizes), c)
        ones = (1,) * (2 - len(window))
        shape, filters = (n, *ones, *sizes, c), (*ones, *window)
        ceil_mode = bool(self.attributes.get("ceil_mode", 0))
        if self.kind is MaxPool:
            return MaxPool.of(shape, filters, x_type=self.dtype, ceil_mode=ceil_mode, **spec)
        del spec["dilation"]
        counts = bool(self.attributes.get("count_include_pad", 0))
        types = {"x_type": self.dtype, "out_type": self.dtype}
        return AveragePool.of(shape, filters, ceil_mode=ceil_mode, count_include_pad=counts, **types, **spec)

    def _of_image(self, n: int, pixels: int, c: int) -> GlobalAveragePool:
        return GlobalAveragePool(n, pixels, c, x_type=self.dtype, out_type=self.dtype)

    def y_shape(self, x_shape: Sequence[int], problem: Problem) -> tuple[int, ...]:
        """Return the shape in which to view the kernel's output, with the channels last."""
        axes = len(x_shape) - 2 if self.keeps_axes else 0
        along = (1,) * axes if isinstance(problem, GlobalAveragePool) else (problem.oh, problem.ow)[2 - axes :]
        return (x_shape[0], *along, x_shape[1])

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        (shape,) = shapes
        return _Pooled(self, shape, device)


class _Pooled:
    def __init__(self, pool: QuantizedPool, shape: tuple[int, ...], device: Device) -> None:
        problem = pool.problem(shape)
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        self._device = device
        self._seen = problem.inputs[0].shape
        self._y_shape = pool.y_shape(shape, problem)
        self._packed = instance.pack(**pool.parameters)
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        y = self._packed.in_sequence(x.channels_last.reshape(self._seen))
        return Value.ordered(self._device, y.reshape(self._y_shape), len(self._y_shape) > 2)


def max_pool(reading: Reading) -> QuantizedPool:
    return _windowed(max_pool_of(reading))


def average_pool(reading: Reading) -> QuantizedPool:
    return _windowed(average_pool_of(reading))


def max_pool_of(reading: Reading) -> QuantizedPool:
    """Return a max pool along any number of axes, of which no kernel is known yet."""
    if reading.layer.attributes.get("output", 0):
        raise Unserved("it gives the indices, which the kernels of bytes do not")
    return _read(reading, MaxPool, {})


def average_pool_of(reading: Reading) -> QuantizedPool:
    """Return an average pool along any number of axes, of which no kernel is known yet."""
    return _read(reading, AveragePool, reading.scales(NUMBERS, 1))


def global_average_pool(reading: Reading) -> QuantizedPool:
    _check_order(reading)
    parameters = reading.scales(NUMBERS, 1)
    x, dtype = reading.x()
    try:
        PoolParameters.of(parameters, {"x_zero_point": dtype, "y_zero_point": dtype})
    except ValueError as error:
        raise Unserved(str(error)) from None
    return QuantizedPool(reading.layer, x, reading.layer.outputs[0], GlobalAveragePool, dtype, parameters, {})


def _read(reading: Reading, kind: type[Problem], parameters: Mapping[str, Any]) -> QuantizedPool:
    _check_order(reading)
    x, dtype = reading.x()
    attributes = dict(reading.layer.attributes)
    gaps = attributes.get("dilations") or ()
    if kind is AveragePool and any(gap != 1 for gap in gaps):
        raise Unserved(f"dilations={tuple(gaps)}, which the kernels have of max pools only")
    if auto_pad_of(attributes).startswith("SAME") and any(gap != 1 for gap in gaps):
        raise Unserved(f"dilations={tuple(gaps)} with auto_pad: ONNX Runtime pads as if there were none")
    try:
        check_auto_pad(attributes)
    except ValueError as error:
        raise Unserved(str(error)) from None
    return QuantizedPool(reading.layer, x, reading.layer.outputs[0], kind, dtype, parameters, attributes)


def _windowed(made: QuantizedPool) -> QuantizedPool:
    """Return the pool, after rejecting what is wrong for every input shape."""
    window = tuple(made.attributes["kernel_shape"])
    if len(window) > 2:
        raise Unserved(f"its window {window} slides along {len(window)} axes; the kernels have up to three")
    try:
        made.problem((1, 1, *made.smallest)).checked(dict(made.parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None
    return made


def _check_same(sizes: Sequence[int], window: Sequence[int], stride: Sequence[int]) -> None:
    for size, span, step in zip(sizes, window, stride, strict=True):
        if (-(-size // step) - 1) * step + span < size:
            raise ValueError(
                f"auto_pad with a window of {span} that moves by {step} along {size} pixels: ONNX Runtime's padding is "
                "negative there"
            )


def _check_order(reading: Reading) -> None:
    if reading.layer.attributes.get("channels_last", 0):
        raise Unserved("channels_last=1, which ONNX Runtime writes for its own kernels")
