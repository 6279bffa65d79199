"""A model for inputs of known shapes. Whatever follows from shapes and constants is computed once, on the host.

Models that are exported with open extents compute shapes as they run: the target of a Reshape, the sizes of a Resize,
the pads of a Pad. For known inputs all of these are constants, with which the layers that read them run on kernels. The
values are ONNX Runtime's own, computed without optimizations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qconv.network import Network
from qconv.network.graph.value import Shape
from qconv.onnx.constant_nodes import evaluated, is_a_function
from qconv.onnx.model import (
    CONSTANTS_ARE_NO_INPUTS,
    ReadModel,
    constants_of,
    forget_shape,
    read,
    read_by,
    tensor_of,
    typed_outputs,
)

Array = NDArray[Any]
SHAPES = ("Shape", "Size")
# The inputs of standard ops that decide the shape of an output, or how its elements are arranged.
DECIDES: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Expand", "Reshape", "Split", "Squeeze", "Tile", "TopK", "Unsqueeze", "Upsample", "OneHot"), (1,)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"), (1,)),
    **dict.fromkeys(("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"), (1,)),
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "NonMaxSuppression": (2, 3, 4),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
}
# The first of the inputs that may be floats, of ops that have such: scales, and thresholds.
FLOATS: Mapping[str, int] = {"NonMaxSuppression": 3, "Resize": 1, "Upsample": 1}
# Constants above this many elements are weights, whose values no shape depends on.
MOST_OF_A_SHAPE = 1024


def computes_shapes(network: Network) -> bool:
    """True where layers depend on the shapes of the inputs, or where an input decides a shape."""
    read = network.without_unread()
    return any(layer.op in SHAPES for layer in read.layers) or bool(deciding_inputs(read))


def deciding_inputs(network: Network) -> tuple[str, ...]:
    """Return the inputs whose values decide shapes: integers of rank 0 or 1 that such an operand follows from, and
    floats that are the scales of a resize or the thresholds of a suppression."""
    floats = {name for layer in network.layers if layer.op in FLOATS for name in layer.inputs[FLOATS[layer.op] :]}
    asked = [layer.inputs[at] for layer in network.layers for at in DECIDES.get(layer.op, ()) if at < len(layer.inputs)]
    seen: set[str] = set()
    while asked:
        name = asked.pop()
        if name and name not in seen:
            seen.add(name)
            maker = network.producers.get(name)
            asked += [] if maker is None or maker.op in SHAPES else maker.reads
    return tuple(name for name in network.inputs if name in seen and _may_decide(network, name, name in floats))


def _may_decide(network: Network, name: str, is_float: bool) -> bool:
    tensor = network.tensor(name)
    dtypes = ("int32", "int64", "float32") if is_float else ("int32", "int64")
    return tensor.dtype in dtypes and tensor.shape is not None and len(tensor.shape) <= 1


def with_known_shapes(
    model: ReadModel, shapes: Mapping[str, Shape], values: Mapping[str, Array], config: Mapping[str, str]
) -> ReadModel:
    """Return the model for inputs of these shapes. The inputs in `values` are constants."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for name, node in zip(model.nodes, proto.graph.node, strict=True):
        node.name = name  # to be found after others are gone
    if proto.ir_version < CONSTANTS_ARE_NO_INPUTS:
        _drop_inputs(proto.graph, {tensor.name for tensor in proto.graph.initializer})
        proto.ir_version = CONSTANTS_ARE_NO_INPUTS
    _fix(proto, shapes)
    folding = _Folding(proto, config, dict(values))
    while folding.fold():
        pass
    _replace(proto, folding.found, folding.gone, values)
    return read(proto, config)


def _fix(proto: onnx.ModelProto, shapes: Mapping[str, Shape]) -> None:
    """Declare the shapes of the inputs, and forget those of all other tensors."""
    del proto.graph.value_info[:]
    for value in proto.graph.output:
        forget_shape(value)
    for value in proto.graph.input:
        if value.name in shapes and value.type.HasField("tensor_type"):
            element = value.type.tensor_type.elem_type
            value.CopyFrom(helper.make_tensor_value_info(value.name, element, shapes[value.name]))


def _replace(
    proto: onnx.ModelProto, found: Mapping[str, Array], gone: frozenset[str], values: Mapping[str, Array]
) -> None:
    """Put the values in place of the nodes that compute them, and in place of the inputs."""
    graph = proto.graph
    kept = [node for node in graph.node if node.name not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in read_by(node)} | {value.name for value in graph.output}
    _drop_inputs(graph, values)
    for tensor in [tensor for tensor in graph.initializer if tensor.name in values]:
        graph.initializer.remove(tensor)
    graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in found.items() if name in read)


def _drop_inputs(graph: onnx.GraphProto, names: Collection[str]) -> None:
    for value in [value for value in graph.input if value.name in names]:
        graph.input.remove(value)


@dataclass
class _Folding:
    """Rounds of inference and evaluation: a value found may make further shapes known. `found` are the values, `gone`
    the names of the nodes that computed them."""

    proto: onnx.ModelProto
    config: Mapping[str, str]
    found: dict[str, Array]
    gone: frozenset[str] = frozenset()

    @cached_property
    def constants(self) -> Mapping[str, onnx.TensorProto]:
        return constants_of(self.proto)

    @cached_property
    def skeleton(self) -> onnx.ModelProto:
        """Return the model with its weights as inputs, so that a round copies no weights."""
        graph = self.proto.graph
        small = [one for one in self.constants.values() if _elements(one) <= MOST_OF_A_SHAPE]
        large = [one for one in self.constants.values() if _elements(one) > MOST_OF_A_SHAPE]
        weights = [helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in large]
        inputs = [*graph.input, *weights]
        made = onnx.ModelProto(ir_version=self.proto.ir_version)
        made.graph.CopyFrom(helper.make_graph(list(graph.node), "shapes", inputs, list(graph.output), small))
        made.opset_import.extend(self.proto.opset_import)
        made.functions.extend(self.proto.functions)
        return made

    def fold(self) -> bool:
        """Compute what is known by now. Return False where nothing is."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.skeleton)
        _replace(proto, self.found, self.gone, self.found)
        values = (*proto.graph.input, *typed_outputs(proto, self.config))
        extents = {value.name: tensor_of(value).extents for value in values}
        extents |= {tensor.name: tuple(tensor.dims) for tensor in proto.graph.initializer}
        shapes = dict(_known_shapes(proto, extents))
        found = shapes | self._evaluated(proto, self.found | shapes)
        if not found:
            return False
        self.found |= found
        self.gone |= {node.name for node in proto.graph.node if all(name in self.found for name in node.output)}
        return True

    def _evaluated(self, proto: onnx.ModelProto, known: Mapping[str, Array]) -> dict[str, Array]:
        """Evaluate the nodes that follow from the known values, and from constants."""
        constants = {**self.constants, **{name: numpy_helper.from_array(array, name) for name, array in known.items()}}
        new, nodes = set(known), list[onnx.NodeProto]()
        for node in proto.graph.node:
            reads = set(filter(None, node.input))
            follows = not new.isdisjoint(reads) and all(name in constants or name in new for name in reads)
            if follows and node.output[0] not in known and is_a_function(node, self.proto):
                nodes.append(node)
                new |= set(filter(None, node.output))
        return evaluated(nodes, constants, proto, self.config) if nodes else {}


def _elements(tensor: onnx.TensorProto) -> int:
    return prod(tensor.dims)


def _known_shapes(proto: onnx.ModelProto, extents: Mapping[str, tuple[int, ...] | None]) -> Iterator[tuple[str, Array]]:
    for node in proto.graph.node:
        shape = extents.get(node.input[0]) if node.op_type in SHAPES and node.domain in ("", "ai.onnx") else None
        if shape is None:
            continue
        if node.op_type == "Size":
            yield node.output[0], np.asarray(prod(shape), np.int64)
            continue
        part = {entry.name: entry.i for entry in node.attribute}
        yield node.output[0], np.asarray(shape[part.get("start", 0) : part.get("end", len(shape))], np.int64)
