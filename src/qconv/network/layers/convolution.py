"""Integer convolutions and matrix products with constant weights on kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qconv.arithmetic.mode import Mode
from qconv.instances.load.arguments import is_nonzero
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array, Reading
from qconv.network.graph.served import Served, Unserved
from qconv.network.graph.value import Shape
from qconv.network.layers.argmax import arg_max
from qconv.network.layers.binary import qlinear_add, qlinear_mul
from qconv.network.layers.concatenation import concat, qlinear_concat, slice_of, split
from qconv.network.layers.movement import SHAPES, reshaped, transpose
from qconv.network.layers.packed_convolution import (
    PackedConvolution,
    as_images,
    check_smallest,
    window_of,
    with_one_per_output,
)
from qconv.network.layers.pixel_blocks import depth_to_space, space_to_depth
from qconv.network.layers.pooling import QuantizedPool, global_average_pool
from qconv.network.layers.table import clip, leaky_relu, relu, sigmoid
from qconv.network.layers.upsampling import pad, resize
from qconv.network.layers.volume_pool import average_pool, max_pool
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.tensor_ops import MaxPool
from qconv.tensor_ops.binary import begins_with_first

# The inputs of QLinearConv and QLinearMatMul that are scales and zero points.
LINEAR = {"x_scale": 1, "x_zero_point": 2, "w_scale": 4, "w_zero_point": 5, "y_scale": 6, "y_zero_point": 7}


@dataclass(frozen=True)
class Added:
    """The tensor that a QLinearAdd adds to a convolution's output, and whether it is the sum's first input."""

    tensor: str
    is_first: bool


@dataclass(frozen=True)
class Constant:
    """A byte for each channel that a QLinearAdd adds to a convolution's output, or a QLinearMul multiplies with it: the
    constant's shape in the model, and whether it is the first input."""

    shape: Shape
    is_first: bool
    multiplies: bool


@dataclass(frozen=True)
class AddedReal:
    """The tensor of bytes that is dequantized and added to a convolution's real output."""

    tensor: str
    dtype: str


@dataclass(frozen=True, eq=False)
class IntegerConvolution(PackedConvolution):
    """A convolution of bytes, and what is folded into it.

    With a constant folded in, `parameters` has the scale and zero point of the convolution's own output as `own`, those
    of the constant as `constant`, and those of what they make as `y`. With a QLinearAdd of another tensor, those of
    what is added to are `inner`, those of the tensor `residual`, and those of the sum `y`. With a table,
    `parameters` has its entries as `table`, and `y` describes the table's input. With a max pool, the output is the
    pool's."""

    constant: Constant | None = None
    added: Added | AddedReal | None = None
    pooled: QuantizedPool | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.x,) if self.added is None else (self.x, self.added.tensor)

    @property
    def has_table(self) -> bool:
        return "table" in self.parameters

    @property
    def has_end(self) -> bool:
        """True where a sum of two tensors, a pool or a table is folded in: behind these, nothing is."""
        return self.added is not None or self.pooled is not None or self.has_table

    @property
    def is_single(self) -> bool:
        """True where nothing but a clamp is folded in."""
        return self.constant is None and not self.has_end

    def problem(self, x_shape: Shape) -> Conv2d:
        given = self.parameters
        problem = self.problem_of(
            x_shape, mode=Mode(), table=given.get("table"), w_scale=given.get("w_scale", 1.0),
            **{name: given.get(name, 0) for name in ("x_zero_point", "w_zero_point", "y_zero_point")},
        )  # fmt: skip
        if self.constant is not None:
            problem = self._with_constant(problem, x_shape, self.constant)
        if self.pooled is not None:
            return self._with_pool(problem, x_shape, self.pooled)
        if isinstance(self.added, AddedReal):
            zero = is_nonzero(given.get("residual_zero_point", 0))
            own = problem.quantization
            return replace(problem, quantization=replace(own, residual=self.added.dtype, residual_zero_point=zero))
        return problem if self.added is None else self._with_sum(problem, x_shape, self.added)

    def _with_constant(self, problem: Conv2d, x_shape: Shape, constant: Constant) -> Conv2d:
        """Return the problem with the constant. The model has it before the channels become pixels."""
        if constant.multiplies:
            return replace(problem, quantization=replace(problem.quantization, constant="multiplied"))
        shape = self.made_shape(x_shape, replace(problem, pixel_shuffle=(1, 1), crop=(0, 0, 0, 0)))
        shapes = (constant.shape, shape) if constant.is_first else (shape, constant.shape)
        begins_with_own = begins_with_first(*shapes) != constant.is_first
        chosen = "added" if begins_with_own else "added_first"
        return replace(problem, quantization=replace(problem.quantization, constant=chosen))

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
    attributes = window_of(reading.layer)
    w = reading.weights(w_at, (3, 4, 5))
    bias = None if bias_at is None else reading.optional(bias_at, "bias")
    return _made(reading, as_images(w), numbers, bias, attributes, w.ndim - 2)


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
    bias = None if bias is None else with_one_per_output(bias, len(w))
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
