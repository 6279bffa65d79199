"""The convolutions of a model as problems, with shapes from onnx's shape inference and quantization as deployed.

QLinearConv and ConvInteger define their quantization, and so do QuantizeLinear and DequantizeLinear around a Conv. An
unquantized Conv is read as static quantization would make it: int8 everywhere, a weight scale per filter, the bias in
int32. Layouts are NHWC, which a network that runs entirely on kernels keeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, helper, numpy_helper, shape_inference

from qconv.arithmetic.activation import named
from qconv.arithmetic.quantization import Quantization
from qconv.network.graph.value import Shape
from qconv.network.layers.volume import Images, Volume
from qconv.network.layers.window import check_auto_pad, sides
from qconv.onnx.tensor import type_name
from qconv.problem.chain import chain_of
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.tensor_ops import MaxPool
from qconv.tuner.workload import Place, Refused, Workload

# Each convolution op, with the positions of x and w among its inputs.
CONVOLUTIONS = {"Conv": (0, 1), "ConvInteger": (0, 1), "QLinearConv": (0, 3)}
# The activations of kernels. A Clip is one of these, depending on its limits.
ACTIVATIONS = named("onnx")
# Stand-ins for ops that onnx's inference does not know: an op whose output has the same shape, and the inputs and
# attributes to give it.
STAND_INS = {
    "QLinearAdd": ("Max", slice(0, 4, 3), ()),
    "QLinearMul": ("Max", slice(0, 4, 3), ()),
    "QLinearSigmoid": ("Identity", slice(0, 1), ()),
    "QLinearLeakyRelu": ("Identity", slice(0, 1), ()),
    "QLinearConcat": ("Concat", slice(2, None, 3), ("axis",)),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", slice(0, 1), ()),
    "QLinearAveragePool": (
        *("AveragePool", slice(0, 1)),
        ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    ),
}


def read(path: Path, batch: int | None = None) -> Workload:
    """Read a model. `batch` replaces an open batch."""
    try:
        # The model file itself has the shapes, however large its weights are and wherever they are stored.
        model = onnx.load(path, load_external_data=False)
    except Exception as error:  # whatever protobuf's reader raises
        raise ValueError(f"{path} is no ONNX model: {' '.join(str(error).split())[:200]}") from None
    return workload_of(model, path.name, batch)


def workload_of(model: onnx.ModelProto, name: str, batch: int | None = None) -> Workload:
    graph = _Graph(_with_shapes(model, batch))
    found: dict[str, Place] = {}
    refused: list[Refused] = []
    for node in graph.convolutions():
        place = f"{node.name or node.output[0]}"  # bytes if the file has it in invalid UTF-8
        try:
            found[node.output[0]] = Place(place, _problem(graph, node))
        except ValueError as error:
            refused.append(Refused(place, str(error)))
    return Workload.of(name, [*found.values(), *_fusions(graph, found), *_pooled(graph, found)], refused)


def _is_of_volume(graph: _Graph, node: NodeProto) -> bool:
    return len(graph.shape(node.input[CONVOLUTIONS[node.op_type][0]], "input")) == 5


@dataclass(frozen=True)
class _Graph:
    model: onnx.ModelProto
    made_by: dict[str, NodeProto] = field(init=False)
    constants: dict[str, Any] = field(init=False)
    values: dict[str, onnx.TypeProto] = field(init=False)
    outputs: frozenset[str] = field(init=False)
    read_by: dict[str, list[NodeProto]] = field(init=False)

    def __post_init__(self) -> None:
        graph = self.model.graph
        tensors = {tensor.name: tensor for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                tensors[node.output[0]] = node.attribute[0].t
        every = (*graph.input, *graph.value_info, *graph.output)
        read_by: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                read_by.setdefault(name, []).append(node)
        object.__setattr__(self, "made_by", {name: node for node in graph.node for name in node.output})
        object.__setattr__(self, "constants", tensors)
        object.__setattr__(self, "values", {value.name: value.type for value in every})
        object.__setattr__(self, "outputs", frozenset(value.name for value in graph.output))
        object.__setattr__(self, "read_by", read_by)

    def convolutions(self) -> Iterator[NodeProto]:
        return (node for node in self.model.graph.node if node.op_type in CONVOLUTIONS)

    def shape(self, name: str, what: str) -> tuple[int, ...]:
        if name in self.constants:
            return tuple(self.constants[name].dims)
        dims = self.values[name].tensor_type.shape.dim if name in self.values else ()
        if not dims:
            raise ValueError(f"onnx's shape inference does not know the shape of its {what} {name!r}")
        sizes = tuple(dim.dim_value for dim in dims)
        if not all(sizes):
            open_dims = ", ".join(str(dim.dim_value or dim.dim_param or "?") for dim in dims)
            raise ValueError(
                f"its {what} {name!r} has the shape ({open_dims}): give --batch, or fix the model's shapes"
            )
        return sizes

    def dtype(self, name: str) -> str:
        if name in self.constants:
            return type_name(self.constants[name].data_type)
        return type_name(self.values[name].tensor_type.elem_type) if name in self.values else "int8"

    def before(self, name: str, *ops: str) -> NodeProto | None:
        """Return the node that makes the value, if it is one of these ops."""
        node = self.made_by.get(name)
        return node if node is not None and node.op_type in ops else None

    def behind(self, name: str) -> NodeProto | None:
        """Return the only reader of the value, or None if there are several."""
        readers = self.read_by.get(name, [])
        return readers[0] if len(readers) == 1 and name not in self.outputs else None

    def is_nonzero(self, node: NodeProto, at: int) -> bool:
        """True where the zero point may be other than 0. A computed or external one may be."""
        if len(node.input) <= at or not node.input[at]:
            return False
        tensor = self.constants.get(node.input[at])
        if tensor is None or tensor.data_location == onnx.TensorProto.EXTERNAL:
            return True
        return bool(np.any(numpy_helper.to_array(tensor)))

    def is_per_channel(self, node: NodeProto, at: int) -> bool:
        tensor = self.constants.get(node.input[at])
        return tensor is not None and int(np.prod(tensor.dims)) > 1


def _with_shapes(model: onnx.ModelProto, batch: int | None) -> onnx.ModelProto:
    """Return a copy with the shape of every value, as far as onnx can infer it."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    constants = {tensor.name for tensor in made.graph.initializer}
    for value in made.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in constants or not dims or batch is None:
            continue
        if dims[0].dim_value not in (0, batch):
            raise ValueError(
                f"batch={batch}, but the model's input {value.name!r} has {dims[0].dim_value} images: leave --batch "
                "out, or export the model with an open batch"
            )
        dims[0].dim_value = batch
    if batch is not None:
        # Declared shapes of other values may contain the open batch.
        del made.graph.value_info[:]
    for node in made.graph.node:
        if node.op_type in STAND_INS:
            op, taken, kept = STAND_INS[node.op_type]
            known = helper.make_node(op, list(node.input)[taken], list(node.output), name=node.name)
            known.attribute.extend(entry for entry in node.attribute if entry.name in kept)
            node.CopyFrom(known)
    try:
        return shape_inference.infer_shapes(made, data_prop=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise ValueError(f"onnx cannot tell the model's shapes: {' '.join(str(error).split())[:300]}") from None


def _problem(graph: _Graph, node: NodeProto) -> Conv2d:
    at_x, at_w = CONVOLUTIONS[node.op_type]
    x = graph.shape(node.input[at_x], "input")
    w = graph.shape(_weights(graph, node, at_w), "weights")
    if len(x) not in (3, 4, 5) or len(w) != len(x):
        raise ValueError(f"its input has {len(x)} dimensions and its weights {len(w)}: kernels have 3, 4 or 5 each")
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    check_auto_pad(attributes)
    images, (k, r, s) = _images(x, w, attributes)
    n, h, width, c = images.shape
    return Conv2d(
        *(n, h, width, c, k, r, s),
        groups=int(attributes.get("group", 1)),
        quantization=_quantization(graph, node),
        **images.window,
    )


def _images(x: Shape, w: Shape, attributes: Mapping[str, Any]) -> tuple[Images, Shape]:
    """Return the images that a kernel convolves, and the extents of its filters, KRS."""
    if len(x) == 5:
        volume = Volume((w[2], w[3], w[4]), attributes)
        return volume.images(x), (w[0], *volume.taps_of_images)
    lift = (1,) * (4 - len(x))  # a single axis is w
    return Images((x[0], *lift, *x[2:], x[1]), sides(attributes, x[2:], w[2:])), (w[0], *lift, *w[2:])


def _weights(graph: _Graph, node: NodeProto, at: int) -> str:
    """Return the name of the weights, before a DequantizeLinear if there is one: the shape of a constant is known."""
    linear = graph.before(node.input[at], "DequantizeLinear")
    return str(node.input[at] if linear is None else linear.input[0])


def _quantization(graph: _Graph, node: NodeProto) -> Quantization:
    if node.op_type == "ConvInteger":
        with_zeros = graph.is_nonzero(node, 3)
        return Quantization(
            x_type=graph.dtype(node.input[0]),
            w_type=graph.dtype(node.input[1]),
            out_type="int32",
            per_channel=with_zeros and graph.is_per_channel(node, 3),
            x_zero_point=graph.is_nonzero(node, 2),
            w_zero_point=with_zeros,
        )
    if node.op_type == "QLinearConv":
        return Quantization(
            x_type=graph.dtype(node.input[0]),
            w_type=graph.dtype(node.input[3]),
            out_type=graph.dtype(node.input[7]),
            per_channel=graph.is_per_channel(node, 4),
            x_zero_point=graph.is_nonzero(node, 2),
            w_zero_point=graph.is_nonzero(node, 5),
            y_zero_point=graph.is_nonzero(node, 7),
            bias="int32" if len(node.input) > 8 and node.input[8] else "none",
        )
    x, w = (graph.before(node.input[at], "DequantizeLinear") for at in (0, 1))
    activation, last = _activation(graph, node.output[0])
    y = graph.behind(last)
    y = y if y is not None and y.op_type == "QuantizeLinear" else None
    return Quantization(
        x_type="int8" if x is None else graph.dtype(x.input[0]),
        w_type="int8" if w is None else graph.dtype(w.input[0]),
        out_type="int8" if y is None else graph.dtype(y.output[0]),
        per_channel=w is None or graph.is_per_channel(w, 1),
        x_zero_point=x is not None and graph.is_nonzero(x, 2),
        w_zero_point=w is not None and graph.is_nonzero(w, 2),
        y_zero_point=y is not None and graph.is_nonzero(y, 2),
        bias="int32" if len(node.input) > 2 and node.input[2] else "none",
        activation=activation,
    )


def _activation(graph: _Graph, value: str) -> tuple[str, str]:
    """Return the activation that the kernel can apply to the value, if it is the value's only reader, and the
    result."""
    node = graph.behind(value)
    if node is None:
        return "none", value
    name = ACTIVATIONS.get(node.op_type)
    if node.op_type == "Clip" and _limits(graph, node) == (0.0, 6.0):
        name = "relu6"
    return ("none", value) if name is None else (name, node.output[0])


def _limits(graph: _Graph, node: NodeProto) -> tuple[float | None, ...]:
    given = {entry.name: float(helper.get_attribute_value(entry)) for entry in node.attribute}
    limits = [given.get("min"), given.get("max")]
    for at, name in enumerate(node.input[1:3]):
        if name in graph.constants:
            limits[at] = float(numpy_helper.to_array(graph.constants[name]))
    return tuple(limits)


def _fusions(graph: _Graph, found: dict[str, Place]) -> list[Place]:
    """Return pairs of convolutions, the first feeding only the second, and triples around a depthwise one, as in an
    inverted residual. Chains whose types do not match, or for which no kernel exists, are omitted, and so are those of
    volumes, whose images differ from layer to layer."""
    nodes = {node.output[0]: node for node in graph.convolutions()}
    found = {output: place for output, place in found.items() if not _is_of_volume(graph, nodes[output])}
    follower = {output: after for output in found if (after := _consumer(graph, nodes[output])) in found}
    made = []
    for one, two in follower.items():
        chains = [[one, two]]
        middle = found[two].problem
        if two in follower and isinstance(middle, Conv2d) and middle.groups == middle.c == middle.k:
            chains.append([one, two, follower[two]])
        for outputs in chains:
            places = [found[output] for output in outputs]
            try:
                problem = chain_of([place.problem for place in places if isinstance(place.problem, Conv2d)])
            except ValueError:
                continue
            made.append(Place("+".join(place.name for place in places), problem, "fusion"))
    return made


def _pooled(graph: _Graph, found: dict[str, Place]) -> Iterator[Place]:
    """Yield convolutions followed by a max pool that is their only reader. Those whose types do not match, or for which
    no kernel exists, are omitted."""
    for node in graph.convolutions():
        _, pool = _reader(graph, node)
        place = found.get(node.output[0])
        if place is None or pool is None or pool.op_type != "MaxPool" or len(pool.output) > 1:
            continue
        convolution = place.problem
        assert isinstance(convolution, Conv2d)
        try:
            problem = PooledConv2d.behind(convolution, _pool(pool, convolution))
        except ValueError:
            continue
        yield Place(f"{place.name}+{pool.name or pool.output[0]}", problem, "fusion")


def _pool(node: NodeProto, convolution: Conv2d) -> MaxPool:
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    (made,) = convolution.outputs
    window = tuple(attributes["kernel_shape"])
    if len(window) != 2:
        raise ValueError(f"the window {window} slides along {len(window)} axes")
    check_auto_pad(attributes)
    named = sides(attributes, made.shape[1:3], window)
    return MaxPool.of(made.shape, window, x_type=made.dtype, ceil_mode=bool(attributes.get("ceil_mode", 0)), **named)


def _consumer(graph: _Graph, node: NodeProto) -> str | None:
    """Return the output of the convolution that alone reads this one's output, possibly behind an activation and
    QDQ."""
    value, after = _reader(graph, node)
    if after is None or after.op_type not in CONVOLUTIONS or after.input[CONVOLUTIONS[after.op_type][0]] != value:
        return None
    return str(after.output[0])


def _reader(graph: _Graph, node: NodeProto) -> tuple[str, NodeProto | None]:
    """Return the value behind the convolution's activation and QDQ, and its only reader."""
    _, value = _activation(graph, node.output[0])
    after = graph.behind(value)
    while after is not None and after.op_type in ("QuantizeLinear", "DequantizeLinear"):
        value = after.output[0]
        after = graph.behind(value)
    return value, after
