"""Integer convolutions and matrix products with constant weights on kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.device import Device
from qconv.instances.api.convolution import conv2d_problem
from qconv.instances.load.arguments import is_nonzero
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Prepared, Served, Unserved
from qconv.network.graph.value import Value
from qconv.network.layers.argmax import arg_max
from qconv.network.layers.binary import qlinear_add, qlinear_mul
from qconv.network.layers.concatenation import concat, qlinear_concat, slice_of, split
from qconv.network.layers.frames import BesideEachOther
from qconv.network.layers.movement import SHAPES, reshaped, transpose
from qconv.network.layers.pixel_blocks import depth_to_space, space_to_depth
from qconv.network.layers.pooling import QuantizedPool, global_average_pool
from qconv.network.layers.table import clip, leaky_relu, relu, sigmoid
from qconv.network.layers.upsampling import pad, resize
from qconv.network.layers.volume import Images, Volume
from qconv.network.layers.volume_pool import average_pool, max_pool
from qconv.network.layers.window import check_auto_pad, sides
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.tensor_ops import MaxPool
from qconv.tensor_ops.binary import begins_with_first

# The inputs of QLinearConv and QLinearMatMul that are scales and zero points.
LINEAR = {"x_scale": 1, "x_zero_point": 2, "w_scale": 4, "w_zero_point": 5, "y_scale": 6, "y_zero_point": 7}


@dataclass(frozen=True)
class Added:
    """The tensor that is added to a convolution's output, and whether it is the sum's first input."""

    tensor: str
    is_first: bool


class Uploaded:
    """An array on the device that asked for it last: a network is shipped for one device after the other."""

    def __init__(self) -> None:
        self._device: Device | None = None
        self._array: Any = None

    def on(self, device: Device, make: Callable[[], Array]) -> Any:
        if self._device is not device:
            self._device, self._array = device, device.upload(make())
        return self._array


@dataclass(frozen=True, eq=False)
class IntegerConvolution:
    """A layer with everything that is the same in each run. `weights` are KCRS, or KCTRS with three spatial `axes`;
    `attributes` describe the window. A matrix product, which has no spatial axes, is a 1x1 convolution whose pixels are
    rows.

    With a sum folded in, `parameters` has the scale and zero point of the convolution's own output as `inner`, those of
    the other tensor as `residual`, and those of the sum as `y`. With a table, `parameters` has its entries as `table`,
    and `y` describes the table's input. With a max pool, the output is the pool's."""

    layer: Layer
    x: str
    y: str
    x_type: str
    weights: Array
    out_type: str
    parameters: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    axes: int = 2
    activation: str = "none"
    added: Added | None = None
    pooled: QuantizedPool | None = None
    _uploaded: Uploaded = field(default_factory=Uploaded, repr=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,) if self.added is None else (self.x, self.added.tensor)

    @property
    def has_table(self) -> bool:
        return "table" in self.parameters

    @property
    def is_shuffled(self) -> bool:
        """True where its output channels are stored as the pixels of blocks."""
        return "pixel_shuffle" in self.attributes

    @property
    def is_single(self) -> bool:
        """True where no sum, pool or table is folded in."""
        return self.added is None and self.pooled is None and not self.has_table

    @property
    def channels(self) -> int:
        return int(self.weights.shape[1]) * self.groups

    @property
    def groups(self) -> int:
        return int(self.attributes.get("group", 1))

    @cached_property
    def volume(self) -> Volume | None:
        """The way from three axes to images."""
        if self.axes != 3:
            return None
        t, r, s = self.weights.shape[2:]
        return Volume((t, r, s), self.attributes)

    @cached_property
    def filters(self) -> Array:
        """The weights of the kernel's convolution of images, KCRS."""
        return self.weights if self.volume is None else self.volume.filters(self.weights)

    def weights_on(self, device: Device) -> Any:
        """Return the weights in the kernels' order. They are uploaded once, and packed from there for each shape."""
        return self._uploaded.on(device, lambda: np.ascontiguousarray(self.filters.transpose(0, 2, 3, 1)))

    def images(self, x_shape: tuple[int, ...]) -> Images:
        """Return the images that the kernel reads of an input of this shape, with the channels after N."""
        if self.volume is not None:
            if x_shape[1] != self.channels:
                raise ValueError(f"x has {x_shape[1]} channels, but w has {self.channels} in groups={self.groups}")
            images = self.volume.images(x_shape)
            return replace(images, window={**images.window, **self._shuffle})
        n, channels, *sizes = x_shape if self.axes else (int(np.prod(x_shape[:-1])), x_shape[-1])
        window = sides(self.attributes, sizes, self.weights.shape[4 - self.axes :]) if self.axes else {}
        h, w = (*(1,) * (2 - self.axes), *sizes)
        return Images((n, h, w, channels), {**window, **self._shuffle})

    @property
    def _shuffle(self) -> dict[str, Any]:
        return {name: self.attributes[name] for name in ("pixel_shuffle", "crop") if name in self.attributes}

    def problem(self, x_shape: tuple[int, ...]) -> Conv2d:
        """Return the problem for an input of this shape, with the channels after N. Raise ValueError where no kernel
        serves it."""
        given = self.parameters
        if self.axes and len(x_shape) != self.axes + 2:
            raise ValueError(f"x has shape {x_shape}, but w has {self.axes} axes: it must have {self.axes + 2}")
        images = self.images(x_shape)
        problem = conv2d_problem(
            _shaped(images.shape, self.x_type), self.filters, w_layout="kcrs",
            groups=self.groups, out_type=self.out_type, mode="ort",
            activation=self.activation, table=given.get("table"), bias=given.get("bias"),
            w_scale=given.get("w_scale", 1.0),
            **{name: given.get(name, 0) for name in ("x_zero_point", "w_zero_point", "y_zero_point")}, **images.window,
        )  # fmt: skip
        if self.pooled is not None:
            return self._with_pool(problem, x_shape, self.pooled)
        return problem if self.added is None else self._with_sum(problem, x_shape, self.added)

    def _with_sum(self, problem: Conv2d, x_shape: tuple[int, ...], added: Added) -> Conv2d:
        """Return the problem with the sum. ONNX Runtime begins the sum with its first or second input, depending on
        their shapes."""
        shape = self.made_shape(x_shape, problem)
        begins_with_own = begins_with_first(shape, shape) != added.is_first
        spec: dict[str, Any] = {
            name: is_nonzero(self.parameters[name]) for name in ("residual_zero_point", "inner_zero_point")
        }
        mode = Mode(residual_add="requantized" if begins_with_own else "requantized_last")
        return replace(problem, quantization=replace(problem.quantization, residual=self.out_type, mode=mode, **spec))

    def _with_pool(self, problem: Conv2d, x_shape: tuple[int, ...], pooled: QuantizedPool) -> PooledConv2d:
        pool = pooled.problem(self.made_shape(x_shape, problem))
        assert isinstance(pool, MaxPool)
        return PooledConv2d.behind(problem, pool)

    def y_shape(self, x_shape: tuple[int, ...], problem: Conv2d) -> tuple[int, ...]:
        """Return the shape in which to view the kernel's output: with the channels last, or as the rows of a matrix."""
        if not self.axes:
            return (*x_shape[:-1], problem.k)
        if self.volume is not None:
            return self.volume.y_shape(x_shape, problem.y_shape)
        n, *sizes, k = problem.y_shape
        return (n, *sizes[2 - self.axes :], k)

    def made_shape(self, x_shape: tuple[int, ...], problem: Conv2d) -> tuple[int, ...]:
        """Return the shape of the output, with the channels after N."""
        shape = self.y_shape(x_shape, problem)
        return (shape[0], shape[-1], *shape[1:-1]) if self.axes else shape

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        shape, *others = shapes
        made = self.made_shape(shape, self.problem(shape))
        for other in others:
            if other != made:
                raise ValueError(f"its output has shape {made}, but {other} is added: the kernels add equal shapes")
        packed, frames = _Packed(self, shape, device), self.images(shape).frames
        if frames is None:
            return packed
        zero_point = int(self.parameters.get("x_zero_point", 0))
        return BesideEachOther(frames, self.x_type, zero_point, packed, device)


class _Packed:
    """A convolution prepared for one shape: its kernel, its packed weights, and the shapes of the kernel's arrays."""

    def __init__(self, convolution: IntegerConvolution, shape: tuple[int, ...], device: Device) -> None:
        self._device = device
        self._matrix = not convolution.axes
        self._problem = convolution.problem(shape)
        self.problems = (self._problem,)
        self._y_shape = convolution.y_shape(shape, self._problem)
        instance = lookup(self._problem, device.spec)
        self._packed = instance.pack(convolution.weights_on(device), **convolution.parameters)
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        arrays = (each.on_device if self._matrix else each.channels_last for each in inputs)
        shapes = (self._problem.x_shape, self._problem.y_shape)
        given = [self._device.contiguous(array).reshape(shape) for array, shape in zip(arrays, shapes, strict=False)]
        y = self._packed.in_sequence(*given)
        y = y.reshape(self._y_shape)
        return Value(self._device, there=y) if self._matrix else Value(self._device, channels_last=y)


def _shaped(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an array with a shape and a type that takes no memory."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def read_layer(layer: Layer, network: Network) -> Served:
    """Return the layer as one that runs on kernels. Raise `Unserved` where none computes it."""
    reader = READERS.get(layer.op)
    if layer.op in DYNAMIC:
        raise Unserved(f"it computes a scale and a zero point at each run, {OF_ONNXRUNTIME}", cure=BY_INTEGERS)
    if reader is None:
        raise Unserved(f"no kernel here computes {layer.op}")
    made = reader(Reading(layer, network))
    if isinstance(made, IntegerConvolution):
        check_smallest(made)
    return made


def is_of_integers(op: str) -> bool:
    """True for an op that only quantized models have. Others have kernels for floats as well."""
    return op in QUANTIZED or op in DYNAMIC


def check_smallest(made: IntegerConvolution) -> None:
    """Raise `Unserved` for problems with every input shape, by trying the smallest image that the filter fits into."""
    filters = made.weights.shape[made.weights.ndim - made.axes :]
    gaps = made.attributes.get("dilations") or (1,) * made.axes
    spans = [(size - 1) * gap + 1 for size, gap in zip(filters, gaps, strict=False)]
    try:
        made.problem((1, made.channels, *spans)).checked(dict(made.parameters))
    except ValueError as error:
        raise Unserved(str(error)) from None


def _made(
    reading: Reading,
    w: Array,
    numbers: Mapping[str, int],
    bias: Array | None,
    attributes: Mapping[str, Any],
    axes: int,
) -> IntegerConvolution:
    """Return the layer. `w` is KCRS or KCTRS; `numbers` maps scales and zero points to inputs. Without a y_scale the
    output is the sum itself."""
    x, x_type = reading.x()
    out_type = str(reading.constant(numbers["y_zero_point"], "y_zero_point").dtype) if "y_scale" in numbers else "int32"
    given = reading.scales(numbers, len(w)) | ({} if bias is None else {"bias": bias})
    (y,) = reading.layer.outputs
    return IntegerConvolution(reading.layer, x, y, x_type, w, out_type, given, attributes, axes)


def _convolution(reading: Reading, w_at: int, numbers: Mapping[str, int], bias_at: int | None) -> IntegerConvolution:
    attributes = dict(reading.layer.attributes)
    if attributes.pop("channels_last", 0):
        raise Unserved("channels_last=1, which ONNX Runtime writes for its own kernels")
    try:
        check_auto_pad(attributes)
    except ValueError as error:
        raise Unserved(str(error)) from None
    w = reading.weights(w_at, (3, 4, 5))
    bias = None if bias_at is None else reading.optional(bias_at, "bias")
    return _made(reading, w[:, :, np.newaxis] if w.ndim == 3 else w, numbers, bias, attributes, w.ndim - 2)


def _qlinear_conv(reading: Reading) -> IntegerConvolution:
    return _convolution(reading, 3, LINEAR, 8)


def _conv_integer(reading: Reading) -> IntegerConvolution:
    return _convolution(reading, 1, _zero_points(reading), None)


def _matrix(reading: Reading, w: Array, numbers: Mapping[str, int], bias: Array | None = None) -> IntegerConvolution:
    """Return a matrix product as a convolution. `w` is KC."""
    return _made(reading, np.ascontiguousarray(w)[:, :, np.newaxis, np.newaxis], numbers, bias, {}, 0)


def _qlinear_matmul(reading: Reading) -> IntegerConvolution:
    return _matrix(reading, reading.weights(3, (2,)).T, LINEAR)


def _matmul_integer(reading: Reading) -> IntegerConvolution:
    return _matrix(reading, reading.weights(1, (2,)).T, _zero_points(reading))


def _qgemm(reading: Reading) -> IntegerConvolution:
    attributes = reading.layer.attributes
    if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0:
        raise Unserved("transA or alpha is given, which the kernels do not have")
    if not reading.name(7):
        raise Unserved("its output is float, which ONNX Runtime scales in one additional operation")
    w = reading.weights(3, (2,))
    w = w if attributes.get("transB", 0) else w.T
    bias = reading.optional(6, "bias")
    if bias is not None:
        if bias.size not in (1, len(w)) or (bias.ndim == 2 and bias.shape[0] != 1) or bias.ndim > 2:
            raise Unserved(f"its bias has shape {bias.shape}; the kernels take one number per output")
        bias = np.ascontiguousarray(np.broadcast_to(bias.reshape(-1), (len(w),)))
    return _matrix(reading, w, LINEAR | {"y_scale": 7, "y_zero_point": 8}, bias)


def _zero_points(reading: Reading) -> dict[str, int]:
    """Return the inputs that are zero points of ConvInteger or MatMulInteger. Reject computed ones."""
    for number, what, remark, cure in (
        (X_ZERO_POINT, "x_zero_point", OF_ONNXRUNTIME, BY_INTEGERS),
        (W_ZERO_POINT, "w_zero_point", "and the kernels need a constant", None),
    ):
        name = reading.name(number)
        if name and reading.network.constant(name) is None:
            maker = reading.network.producers.get(name)
            follows = None if maker is None else maker.name
            raise Unserved(f"its {what} {name!r} is computed at each run, {remark}", follows, cure)
    return {"x_zero_point": X_ZERO_POINT, "w_zero_point": W_ZERO_POINT}


# The inputs of ConvInteger and MatMulInteger that are zero points.
X_ZERO_POINT, W_ZERO_POINT = 2, 3
# Ops that only quantize_dynamic writes, and those into which ONNX Runtime fuses them.
DYNAMIC = ("DynamicQuantizeLinear", "com.microsoft.DynamicQuantizeMatMul")
OF_ONNXRUNTIME = "as in models of quantize_dynamic; the floats behind it are ONNX Runtime's with these settings"
BY_INTEGERS = 'bits="integers" has kernels for it'

# The readers of ops of quantized tensors.
QUANTIZED: Mapping[str, Callable[[Reading], Served]] = {
    "QLinearConv": _qlinear_conv,
    "com.microsoft.QLinearConv": _qlinear_conv,
    "ConvInteger": _conv_integer,
    "QLinearMatMul": _qlinear_matmul,
    "MatMulInteger": _matmul_integer,
    "com.microsoft.QGemm": _qgemm,
    "com.microsoft.QLinearAdd": qlinear_add,
    "com.microsoft.QLinearMul": qlinear_mul,
    "com.microsoft.QLinearAveragePool": average_pool,
    "com.microsoft.QLinearGlobalAveragePool": global_average_pool,
    "com.microsoft.QLinearConcat": qlinear_concat,
    "com.microsoft.QLinearLeakyRelu": leaky_relu,
    "com.microsoft.QLinearSigmoid": sigmoid,
}
# The reader of each op that runs on kernels.
READERS: Mapping[str, Callable[[Reading], Served]] = {
    **QUANTIZED,
    "ArgMax": arg_max,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "MaxPool": max_pool,
    "Clip": clip,
    "Concat": concat,
    "Slice": slice_of,
    "Split": split,
    "Relu": relu,
    **dict.fromkeys(SHAPES, reshaped),
    "Pad": pad,
    "Resize": resize,
    "Transpose": transpose,
}
