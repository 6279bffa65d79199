"""Nodes whose outputs follow from constants, computed once, on the host.

ONNX Runtime folds such nodes itself, but no DequantizeLinear, and so nothing behind one: the filters of a network that
standardizes its weights stay nodes, and would be computed at every run. The values are ONNX Runtime's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from qconv.onnx.model import CPU_ONLY, ORT_ERRORS, constants_of, read_by, session_options
from qconv.onnx.tensor import Unsupported

Array = NDArray[Any]
# Ops with other outputs each time.
RANDOM = frozenset(
    ("Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
# Quantized constants, which integer layers read from.
QUANTIZED = ("DequantizeLinear", "QuantizeLinear")


def with_constants_computed(proto: onnx.ModelProto, config: Mapping[str, str]) -> onnx.ModelProto:
    """Return the model with constants in place of the nodes that follow from constants. A DequantizeLinear in front of
    any other node stays."""
    constants = constants_of(proto)
    follow = _following(proto, set(constants))
    if all(node.op_type in QUANTIZED for node in follow):
        return proto
    values = evaluated(follow, constants, proto, config)
    # A node that also makes a sequence, which no constant is, stays.
    known = {name for node in follow if values.keys() >= _made_by(node) for name in _made_by(node)}
    asked = {value.name for value in proto.graph.output}
    asked |= {name for node in proto.graph.node if not _made_by(node) <= known for name in read_by(node)}
    for node in follow:
        if node.op_type == "DequantizeLinear" and not asked.isdisjoint(node.output):
            known -= _made_by(node)
    left = [node for node in proto.graph.node if not _made_by(node) <= known]
    read = {name for node in left for name in read_by(node)} | asked
    folded = onnx.ModelProto()
    folded.CopyFrom(proto)
    del folded.graph.node[:]
    folded.graph.node.extend(left)
    folded.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in sorted(known & read))
    return folded


def _made_by(node: onnx.NodeProto) -> set[str]:
    return set(filter(None, node.output))


def _following(proto: onnx.ModelProto, known: set[str]) -> list[onnx.NodeProto]:
    found = list[onnx.NodeProto]()
    for node in proto.graph.node:
        reads = set(filter(None, node.input))
        if reads and reads <= known and is_a_function(node, proto):
            found.append(node)
            known |= _made_by(node)
    return found


def is_a_function(node: onnx.NodeProto, proto: onnx.ModelProto) -> bool:
    """True for a node whose outputs follow from its inputs alone."""
    has_graph = any(entry.HasField("g") or entry.graphs for entry in node.attribute)
    is_of_model = any((node.domain, node.op_type) == (one.domain, one.name) for one in proto.functions)
    return not has_graph and not is_of_model and node.op_type not in RANDOM


def evaluated(
    nodes: list[onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
    proto: onnx.ModelProto,
    config: Mapping[str, str],
) -> dict[str, Array]:
    """Return the values of the nodes' outputs, computed by ONNX Runtime without optimizations."""
    read = {name for node in nodes for name in node.input if name in constants}
    made = [name for node in nodes for name in node.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in made]
    graph = helper.make_graph(nodes, "constants", [], outputs, [constants[name] for name in sorted(read)])
    part = onnx.ModelProto(ir_version=proto.ir_version, graph=graph)
    part.opset_import.extend(proto.opset_import)
    options = session_options(config)
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(part.SerializeToString(), options, providers=list(CPU_ONLY))
        computed = session.run(made, {})
    except ORT_ERRORS as error:
        named = ", ".join(dict.fromkeys(node.op_type for node in nodes))
        raise Unsupported(f"ONNX Runtime cannot compute what follows from known values ({named}): {error}") from None
    return {name: array for name, array in zip(made, computed, strict=True) if isinstance(array, np.ndarray)}
