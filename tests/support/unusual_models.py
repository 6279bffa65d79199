"""Unusual models, each made of nodes and arrays, and their inputs."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

X_SHAPE = (2, 4, 6, 5)


def random(*of: Any) -> np.random.Generator:
    """Return a generator for one array. Equal calls draw equal arrays, in whichever order tests run."""
    return np.random.default_rng(zlib.crc32(repr(of).encode()))


def floats_of(*shape: int) -> Any:
    return random("floats", shape).standard_normal(shape).astype(np.float32)


FLOATS = floats_of(*X_SHAPE)


@dataclass
class Made:
    """Nodes, input arrays and constant arrays. The inputs are declared with the shapes of the arrays, or without any
    extents (`dynamic`)."""

    nodes: Sequence[Any]
    feeds: Mapping[str, Any]
    held: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    opset: int = 17
    ir: int = 9
    dynamic: bool = False
    listed: Sequence[str] = ()  # constants that are listed as inputs too

    @property
    def proto(self) -> Any:
        def shown(name: str, array: Any) -> Any:
            kind = TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
            return helper.make_tensor_value_info(name, kind, [None] * array.ndim if self.dynamic else array.shape)

        held = {name: np.asarray(array) for name, array in self.held.items()}
        inputs = [shown(name, np.asarray(array)) for name, array in self.feeds.items() if name not in held]
        inputs += [shown(name, held[name]) for name in self.listed]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.outputs]
        constants = [numpy_helper.from_array(array, name) for name, array in held.items()]
        graph = helper.make_graph(list(self.nodes), "unusual", inputs, outputs, constants)
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=self.ir)


def bytes_of(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return random(dtype, shape).integers(info.min, info.max + 1, shape).astype(dtype)


def weights_of(*shape: int) -> Any:
    """Return int8 weights of 7 bits: without VNNI, ONNX Runtime saturates sums of larger ones with uint8."""
    return random("weights", shape).integers(-64, 64, shape).astype("int8")


def conv_inputs(w_shape: tuple[int, ...] = (6, 4, 3, 3), **changed: Any) -> dict[str, Any]:
    given = {
        "x_s": np.float32(0.03), "x_z": np.uint8(9), "w": bytes_of("uint8", *w_shape), "w_s": np.float32(0.02),
        "w_z": np.uint8(120), "y_s": np.float32(0.9), "y_z": np.uint8(130),
    }  # fmt: skip
    return given | changed


def conv(
    attributes: Mapping[str, Any] | None = None,
    x: Any = None,
    w_shape: tuple[int, ...] = (6, 4, 3, 3),
    given: Mapping[str, Any] | None = None,
    **changed: Any,
) -> Made:
    """Return a QLinearConv between x and y; `changed` are other inputs of it, and `given` other fields of the model."""
    held = conv_inputs(w_shape, **changed)
    node = helper.make_node("QLinearConv", ["x", *held], ["y"], **(attributes or {}))
    return Made([node], {"x": bytes_of("uint8", *X_SHAPE) if x is None else x}, held, **(given or {}))


def qdq(b_scale: float = 0.03 * 0.02, axis: int | None = None, w_scale: Any = 0.02, **given: Any) -> Made:
    """Return QuantizeLinear, DequantizeLinear, Conv, QuantizeLinear, DequantizeLinear, all constant but x."""
    k = 6
    per_axis: dict[str, Any] = {} if axis is None else {"axis": axis}
    w_scale = np.asarray(w_scale, np.float32)
    w_zero = np.zeros(w_scale.shape, np.int8)
    held = {
        "x_s": np.float32(0.03), "x_z": np.uint8(100), "w": weights_of(k, 4, 3, 3), "w_s": w_scale, "w_z": w_zero,
        "b": bytes_of("int16", k).astype("int32"), "b_s": np.float32(b_scale), "b_z": np.int32(0),
        "y_s": np.float32(0.4), "y_z": np.uint8(128),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "x_s", "x_z"], ["xq"]),
        node("DequantizeLinear", ["xq", "x_s", "x_z"], ["xr"]),
        node("DequantizeLinear", ["w", "w_s", "w_z"], ["wr"], **per_axis),
        node("DequantizeLinear", ["b", "b_s", "b_z"], ["br"]),
        node("Conv", ["xr", "wr", "br"], ["c"], pads=[1, 1, 1, 1]),
        node("QuantizeLinear", ["c", "y_s", "y_z"], ["yq"]),
        node("DequantizeLinear", ["yq", "y_s", "y_z"], ["y"]),
    ]
    return Made(nodes, {"x": FLOATS}, held, **given)


def equal_constants() -> Made:
    """Two equal constants: ONNX Runtime keeps one of them, and the inputs that list both."""
    made = qdq()
    *before, last = made.nodes
    held = {**made.held, "y_s_again": made.held["y_s"]}
    nodes = [*before, helper.make_node(last.op_type, ["yq", "y_s_again", "y_z"], ["y"])]
    return Made(nodes, made.feeds, held, ir=3, listed=list(held))


def between_reals() -> Made:
    """Bytes and weights that are dequantized, and a float convolution whose output is not quantized. With constant
    weights of this many channels, ONNX Runtime would use another layout, with other bits."""
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "x_s", "x_z"], ["xr"]),
        node("DequantizeLinear", ["w", "w_s", "w_z"], ["wr"]),
        node("Conv", ["xr", "wr"], ["y"]),
    ]
    held = {"x_s": np.float32(0.03), "x_z": np.uint8(100), "w": weights_of(32, 32, 3, 3), "w_s": np.float32(0.02)}
    return Made(nodes, {"x": bytes_of("uint8", 1, 32, 9, 9)}, {**held, "w_z": np.int8(0)})


def between(op: str, attributes: Mapping[str, Any] | None = None, more: Sequence[str] = (), **held: Any) -> Made:
    """Another op before and after a convolution."""
    made = conv({"pads": [1, 1, 1, 1]}, w_shape=(4, 4, 3, 3), x_z=np.uint8(0))
    first = helper.make_node(op, ["x", *more], ["a"], **(attributes or {}))
    middle = helper.make_node("QLinearConv", ["a", *made.held], ["c"], pads=[1, 1, 1, 1])
    last = helper.make_node(op, ["c", *more], ["y"], **(attributes or {}))
    return Made([first, middle, last], made.feeds, {**made.held, **held}, outputs=("y", "c"))


def branch() -> Made:
    """An If whose graphs read the output of an outer convolution."""
    made = conv(w_shape=(4, 4, 1, 1))
    graphs = {
        name: helper.make_graph(
            [helper.make_node(op, ["c"], ["z"])],
            name,
            [],
            [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        )
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    nodes = [
        helper.make_node("QLinearConv", ["x", *made.held], ["q"]),
        helper.make_node("Cast", ["q"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("If", ["on"], ["y"], **graphs),
    ]
    return Made(nodes, {**made.feeds, "on": np.asarray(True)}, made.held)


def branch_of_branches() -> Made:
    """The same If in both graphs of another If, which reads nothing itself."""
    made = branch()
    *before, within = made.nodes
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graphs = {name: helper.make_graph([within], name, [], [output]) for name in ("then_branch", "else_branch")}
    nodes = [*before, helper.make_node("If", ["on"], ["v"], **graphs)]
    return Made(nodes, made.feeds, made.held, outputs=("v",))


def sequence() -> Made:
    """A sequence of two tensors, one of them a convolution's output, passed from one subgraph to another."""
    made = conv(w_shape=(4, 4, 1, 1))
    node = helper.make_node
    nodes = [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("QLinearConv", ["x", *made.held], ["c"]),
        node("SequenceInsert", ["s", "c"], ["t"]),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
    ]
    return Made(nodes, made.feeds, made.held)


def from_nothing() -> Made:
    """A node without inputs that is not a constant."""
    node = helper.make_node
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("SequenceInsert", ["none", "x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], axis=1),
    ]
    return Made(nodes, {"x": FLOATS})


def rescaled_input() -> Made:
    """An input that is rescaled before the first layer on kernels."""
    node = helper.make_node
    nodes = [
        node("DequantizeLinear", ["x", "x_s", "z"], ["r"]),
        node("QuantizeLinear", ["r", "y_s", "z"], ["q"]),
        node("MaxPool", ["q"], ["y"], kernel_shape=[2, 2]),
    ]
    held = {"x_s": np.float32(0.1), "y_s": np.float32(0.05), "z": np.int8(3)}
    return Made(nodes, {"x": bytes_of("int8", *X_SHAPE)}, held)


def unread() -> Made:
    """A model whose last two layers, one of them on kernels, are not read."""
    node = helper.make_node
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("MaxPool", ["q"], ["p"], kernel_shape=[2, 2]),
        node("DequantizeLinear", ["p", "s", "z"], ["y"]),
        node("Sigmoid", ["y"], ["unread"]),
        node("MaxPool", ["p"], ["unread_bytes"], kernel_shape=[2, 2]),
    ]
    held = {"s": np.float32(0.1), "z": np.int8(3)}
    return Made(nodes, {"x": FLOATS}, held)


def behind_a_pool() -> Made:
    """A pool in ceil mode whose last window would consist of padding only: it is inferred, but does not exist."""
    node = helper.make_node
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        node("DequantizeLinear", ["p", "s", "z"], ["d"]),
        node("Sigmoid", ["d"], ["y"]),
    ]
    return Made(nodes, {"x": bytes_of("int8", 1, 4, 7, 7)}, {"s": np.float32(0.1), "z": np.int8(3)})


def split_images(count: int) -> Made:
    """Images whose channels are split after a pool and joined again, in another order."""
    node = helper.make_node
    nodes = [
        node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
        node("Split", ["p", "sizes"], ["a", "b"], axis=1),
        node("Concat", ["b", "a"], ["y"], axis=1),
    ]
    return Made(nodes, {"x": bytes_of("int8", count, 4, 6, 5)}, {"sizes": np.array([3, 1], np.int64)}, dynamic=True)


def matrices(op: str, held: dict[str, Any], x: Any, domain: str = "", **attributes: Any) -> Made:
    node = helper.make_node(op, ["x", *held], ["y"], domain=domain, **attributes)
    return Made([node], {"x": x}, {name: array for name, array in held.items() if name})


def linear(w: Any) -> dict[str, Any]:
    return conv_inputs() | {"w": w}


def real_output(w: Any) -> dict[str, Any]:
    return {name: array for name, array in linear(w).items() if not name.startswith("y_")}


def dynamic_quantization() -> Made:
    """The result of `quantize_dynamic` for a MatMul."""
    node = helper.make_node
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "w", "z", "w_z"], ["i"]),
        node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        node("Mul", ["s", "w_s"], ["m"]),
        node("Mul", ["f", "m"], ["y"]),
    ]
    held = {"w": weights_of(5, 7), "w_z": np.int8(0), "w_s": np.float32(0.1)}
    return Made(nodes, {"x": floats_of(3, 5)}, held)


def identities() -> Made:
    """One output that is an input, and one that is a constant."""
    made = conv()
    return Made(made.nodes, made.feeds, made.held, outputs=("y", "x", "w"))


def named_alike() -> Made:
    made = conv(w_shape=(4, 4, 1, 1))
    nodes = [
        helper.make_node("QLinearConv", ["x", *made.held], ["c"], name="same"),
        helper.make_node("QLinearConv", ["c", *made.held], ["y"], name="same"),
    ]
    return Made(nodes, made.feeds, made.held)


def cycle() -> Made:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    return Made(nodes, {"x": np.ones(3, np.float32)}, outputs=("b",))


def twice_made() -> Made:
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["y"])]
    return Made(nodes, {"x": np.ones(3, np.float32)})


def unknown(op: str, domain: str = "") -> Made:
    return Made([helper.make_node(op, ["x"], ["y"], domain=domain)], {"x": np.ones(3, np.float32)})
