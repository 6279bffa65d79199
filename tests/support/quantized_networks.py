"""Small networks of the usual kinds with seeded weights, quantized by ONNX Runtime's own quantizer, and ONNX Runtime's
results. Large networks have the same combinations of ops."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

SIZE, CHANNELS, CLASSES = 16, 8, 5
INT8_ALLOWED = {"session.qdqisint8allowed": "1"}
FORMATS = ("QDQ", "QOperator")
TYPES = {"s8s8": ("QInt8", "QInt8"), "u8s8": ("QUInt8", "QInt8"), "u8u8": ("QUInt8", "QUInt8")}


class Builder:
    """A sequence of nodes: each method returns the name of its output."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.held: list[Any] = []

    def weights(self, *shape: int) -> str:
        name = f"w{len(self.held)}"
        values = self.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        self.held.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def number(self, value: float) -> str:
        name = f"n{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def shape(self, *extents: int) -> str:
        name = f"s{len(self.held)}"
        self.held.append(numpy_helper.from_array(np.asarray(extents, np.int64), name))
        return name

    def extent(self, x: str, axis: int) -> str:
        """Compute the extent of a tensor, as exporters do for an open one."""
        return self.node("Gather", self.node("Shape", x), self.shape(axis), axis=0)

    def halves(self, x: str) -> tuple[str, str]:
        """Split a tensor in two along the channels."""
        names = (f"split{len(self.nodes)}", f"half{len(self.nodes)}")
        self.nodes.append(helper.make_node("Split", [x], list(names), name=names[0], axis=1))
        return names

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, c: int, k: int, size: int = 3, stride: int = 1, groups: int = 1) -> str:
        window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4, "group": groups}
        return self.node("Conv", x, self.weights(k, c // groups, size, size), self.weights(k), **window)

    def model(self, y: str, is_open: bool = False) -> Any:
        """Return the model. `is_open`: of images of any size, with an output of any shape."""
        height, width = ("H", "W") if is_open else (SIZE, SIZE)
        shown = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3, height, width])
        given = helper.make_tensor_value_info(y, onnx.TensorProto.FLOAT, None if is_open else ["N", CLASSES])
        graph = helper.make_graph(self.nodes, "network", [shown], [given], self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def head(self, x: str, c: int) -> Any:
        flat = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.model(self.node("Gemm", flat, self.weights(c, CLASSES), self.weights(CLASSES)))


def resnet_like(seed: int = 0) -> Any:
    """A stem with a max pool, a block with an identity shortcut, and a block that halves the image."""
    b, c = Builder(seed), CHANNELS
    x = b.node("Relu", b.conv("x", 3, c, stride=2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    y = b.conv(b.node("Relu", b.conv(x, c, c)), c, c)
    x = b.node("Relu", b.node("Add", y, x))
    y = b.conv(b.node("Relu", b.conv(x, c, 2 * c, stride=2)), 2 * c, 2 * c)
    x = b.node("Relu", b.node("Add", y, b.conv(x, c, 2 * c, size=1, stride=2)))
    return b.head(x, 2 * c)


def mobilenet_like(seed: int = 1) -> Any:
    """Inverted residuals: expand, filter by channel, project; relu6 as Clip."""
    b, c = Builder(seed), CHANNELS

    def relu6(y: str) -> str:
        return b.node("Clip", y, b.number(0), b.number(6))

    x = relu6(b.conv("x", 3, c, stride=2))
    for stride in (1, 2):
        y = relu6(b.conv(x, c, 2 * c, size=1))
        y = relu6(b.conv(y, 2 * c, 2 * c, stride=stride, groups=2 * c))
        y = b.conv(y, 2 * c, c, size=1)
        x = b.node("Add", y, x) if stride == 1 else y
    return b.head(relu6(b.conv(x, c, 2 * c, size=1)), 2 * c)


def squeeze_excite_like(seed: int = 2) -> Any:
    """Hard swish as exporters spell it, and a gate per channel: a global pool, two 1x1 convolutions and a sigmoid."""
    b, c = Builder(seed), CHANNELS

    def hardswish(y: str) -> str:
        clipped = b.node("Clip", b.node("Add", y, b.number(3)), b.number(0), b.number(6))
        return b.node("Div", b.node("Mul", y, clipped), b.number(6))

    x = hardswish(b.conv("x", 3, c, stride=2))
    y = hardswish(b.conv(x, c, c, size=5, groups=c))
    gate = b.node("Relu", b.conv(b.node("GlobalAveragePool", y), c, c // 2, size=1))
    gate = b.node("Sigmoid", b.conv(gate, c // 2, c, size=1))
    y = b.conv(b.node("Mul", y, gate), c, c, size=1)
    both = b.node("Concat", b.node("Add", y, x), b.node("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4), axis=1)
    return b.head(both, 2 * c)


def resnext_like(seed: int = 3) -> Any:
    """The stem of a ResNet (7x7, stride 2, a max pool) and bottlenecks whose middle has groups."""
    b, c = Builder(seed), CHANNELS

    def bottleneck(x: str, c: int, k: int, stride: int) -> str:
        y = b.node("Relu", b.conv(x, c, k // 2, size=1))
        y = b.node("Relu", b.conv(y, k // 2, k // 2, stride=stride, groups=2))
        shortcut = x if c == k else b.conv(x, c, k, size=1, stride=stride)
        return b.node("Relu", b.node("Add", b.conv(y, k // 2, k, size=1), shortcut))

    x = b.node("Relu", b.conv("x", 3, c, size=7, stride=2))
    x = b.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    x = bottleneck(bottleneck(x, c, 2 * c, 1), 2 * c, 2 * c, 1)
    return b.head(bottleneck(x, 2 * c, 4 * c, 2), 4 * c)


def mobilenet_v3_like(seed: int = 4) -> Any:
    """Inverted residuals with HardSwish, and gates of HardSigmoid, as torchvision's are exported."""
    b, c = Builder(seed), CHANNELS

    def gated(y: str, c: int) -> str:
        gate = b.node("Relu", b.conv(b.node("GlobalAveragePool", y), c, c // 2, size=1))
        return b.node("Mul", b.node("HardSigmoid", b.conv(gate, c // 2, c, size=1), alpha=1 / 6), y)

    x = b.node("HardSwish", b.conv("x", 3, c, stride=2))
    for stride in (1, 2):
        y = b.node("HardSwish", b.conv(x, c, 2 * c, size=1))
        y = b.node("HardSwish", b.conv(y, 2 * c, 2 * c, size=5, stride=stride, groups=2 * c))
        y = b.conv(gated(y, 2 * c), 2 * c, c, size=1)
        x = b.node("Add", x, y) if stride == 1 else y
    x = b.node("HardSwish", b.conv(x, c, 2 * c, size=1))
    flat = b.node("Flatten", b.node("GlobalAveragePool", x))
    y = b.node("HardSwish", b.node("Gemm", flat, b.weights(2 * c, 3 * c), b.weights(3 * c)))
    return b.model(b.node("Gemm", y, b.weights(3 * c, CLASSES), b.weights(CLASSES)))


def shuffle_like(seed: int = 5) -> Any:
    """The two kinds of units of a ShuffleNet: grouped convolutions with a shuffle in between, and a tensor of which one
    half is filtered before both are shuffled."""
    b, c = Builder(seed), 2 * CHANNELS

    def shuffled(y: str, groups: int, size: int) -> str:
        split = b.shape(-1, groups, c // groups, size, size)
        y = b.node("Transpose", b.node("Reshape", y, split), perm=[0, 2, 1, 3, 4])
        return b.node("Reshape", y, b.shape(-1, c, size, size))

    x = b.node("Relu", b.conv("x", 3, c, stride=2))
    y = shuffled(b.node("Relu", b.conv(x, c, c, size=1, groups=4)), 4, SIZE // 2)
    y = b.conv(b.conv(y, c, c, groups=c), c, c, size=1, groups=4)
    x = b.node("Relu", b.node("Add", y, x))
    for _ in range(2):
        one, other = b.halves(x)
        y = b.node("Relu", b.conv(other, c // 2, c // 2, size=1))
        y = b.node("Relu", b.conv(b.conv(y, c // 2, c // 2, groups=c // 2), c // 2, c // 2, size=1))
        x = shuffled(b.node("Concat", one, y, axis=1), 2, SIZE // 2)
    return b.head(x, c)


def open_shuffle_like(seed: int = 6) -> Any:
    """A unit of a ShuffleNet as PyTorch exports it for images of any size: the shapes of the shuffles and the bounds of
    the halves are computed."""
    b, c = Builder(seed), 2 * CHANNELS

    def shuffled(y: str) -> str:
        n, h, w = (b.extent(y, axis) for axis in (0, 2, 3))
        half = b.node("Div", b.extent(y, 1), b.shape(2))
        split = b.node("Reshape", y, b.node("Concat", n, b.shape(2), half, h, w, axis=0))
        y = b.node("Transpose", split, perm=[0, 2, 1, 3, 4])
        return b.node("Reshape", y, b.node("Concat", n, b.node("Mul", half, b.shape(2)), h, w, axis=0))

    x = b.node("Relu", b.conv("x", 3, c, stride=2))
    for _ in range(2):
        middle = b.node("Div", b.extent(x, 1), b.shape(2))
        one = b.node("Slice", x, b.shape(0), middle, b.shape(1))
        other = b.node("Slice", x, middle, b.node("Mul", middle, b.shape(2)), b.shape(1))
        y = b.node("Relu", b.conv(other, c // 2, c // 2, size=1))
        x = shuffled(b.node("Concat", one, b.conv(y, c // 2, c // 2, groups=c // 2), axis=1))
    flat = b.node("Flatten", b.node("GlobalAveragePool", x))
    return b.model(b.node("Gemm", flat, b.weights(c, CLASSES), b.weights(CLASSES)), is_open=True)


def open_pyramid_like(seed: int = 7) -> Any:
    """Two levels of a feature pyramid for images of any size: the upper one is resized to the lower one's extents."""
    b, c = Builder(seed), CHANNELS
    low = b.node("Relu", b.conv("x", 3, c, stride=2))
    high = b.node("Relu", b.conv(low, c, c, stride=2))
    sizes = b.node("Concat", b.node("Slice", b.node("Shape", high), b.shape(0), b.shape(2), b.shape(0)),
                   b.node("Slice", b.node("Shape", low), b.shape(2), b.shape(4), b.shape(0)), axis=0)  # fmt: skip
    up = b.node("Resize", high, "", "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor")  # fmt: skip
    y = b.conv(b.node("Add", low, up), c, c)
    rows = b.node("Reshape", y, b.node("Concat", b.extent(y, 0), b.shape(c), b.shape(-1), axis=0))
    return b.model(b.node("Transpose", rows, perm=[0, 2, 1]), is_open=True)


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet": resnet_like,
    "mobilenet": mobilenet_like,
    "squeeze_excite": squeeze_excite_like,
    "resnext": resnext_like,
    "mobilenet_v3": mobilenet_v3_like,
}


def images(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((count, 3, SIZE, SIZE)).astype(np.float32)


class _Images(CalibrationDataReader):  # type: ignore[misc] # onnxruntime has no types
    def __init__(self, batches: list[dict[str, Any]]) -> None:
        self._left = iter(batches)

    def get_next(self) -> dict[str, Any] | None:
        return next(self._left, None)


@cache
def saturates() -> bool:
    """True on processors without VNNI, where ONNX Runtime saturates sums of two products of uint8 * int8. It computes
    some convolutions of other types that way."""
    x, w = np.full((1, 4), 255, np.uint8), np.full((4, 1), 127, np.int8)
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 4])]
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.INT32, [1, 1])]
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", given, made, [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bool(by_ort(model, {"x": x})[0] != 4 * 255 * 127)


def quantized(
    model: Any,
    form: str,
    types: str,
    per_channel: bool,
    batches: list[dict[str, Any]] | None = None,
    **extra: Any,
) -> Any:
    """Return the model as `quantize_static` makes it; `extra` are its extra_options. Weights beside uint8 * int8 have 7
    bits, as ONNX Runtime recommends, and where it saturates, all weights have."""
    activation, weight = TYPES[types]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "quantized.onnx"
        logging.disable(logging.WARNING)  # it recommends a preparation that only shortens the model
        try:
            quantize_static(
                model, path, _Images([{"x": images(2, 3)}] if batches is None else batches),
                quant_format=QuantFormat[form], per_channel=per_channel, reduce_range=types == "u8s8" or saturates(),
                activation_type=QuantType[activation],
                weight_type=QuantType[weight], extra_options=extra,
            )  # fmt: skip
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load(path)


def reference(model: Any, config: Mapping[str, str] | None = None, without: Collection[str] = ()) -> Any:
    """Return ONNX Runtime's session with its default optimizations, except the named ones."""
    options = onnxruntime.SessionOptions()
    for name, value in (config or {}).items():
        options.add_session_config_entry(name, value)
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=set(without)
    )


def by_ort(
    model: Any, feeds: Mapping[str, Any], config: Mapping[str, str] | None = None, without: Collection[str] = ()
) -> list[Any]:
    """Return ONNX Runtime's outputs with its default optimizations, except the named ones."""
    return list(reference(model, config, without).run(None, dict(feeds)))


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """Return the model with tensors inside it as further outputs. At the output of a QuantizeLinear this does not
    change what ONNX Runtime folds."""
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    own = {value.name for value in asked.graph.output}
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in own)
    return asked


def tensors_by_ort(
    model: Any,
    feeds: Mapping[str, Any],
    names: list[str],
    config: Mapping[str, str] | None = None,
    without: Collection[str] = (),
) -> dict[str, Any]:
    """Return tensors inside the model, by making them outputs."""
    asked = with_outputs(model, names)
    given = by_ort(asked, feeds, config, without)
    return dict(zip([value.name for value in asked.graph.output], given, strict=True))
