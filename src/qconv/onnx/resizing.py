"""Linear and cubic Resize of bytes, whose bits depend on the position of the channels.

ONNX Runtime has the channels of quantized layers last. When it optimizes for its kernels' layouts, it also moves the
channels of adjacent layers. Then its linear Resize uses fixed point instead of floats; its cubic one, which takes no
bytes with channels first, is allowed; and its sums begin with other numbers. So it is asked for the order in each layer
of the whole model. Each such layer then runs by itself in that order, unoptimized, because as part of a smaller model
it might get another order."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from qconv.network import Layer, Network
from qconv.network.graph.graph import Extents, may_be_equal
from qconv.network.graph.value import last_of
from qconv.onnx.model import EVERY_OPTIMIZATION, FOLDED_ALREADY, ReadModel, rewritten, tensor_of, typed_outputs
from qconv.onnx.summing import SUMS, adds_reals, sum_is_turned, turned_sum
from qconv.onnx.tensor import Unsupported
from qconv.tensor_ops.problem import BYTES

log = logging.getLogger("qconv")


def orders(model: ReadModel, config: Mapping[str, str]) -> dict[str, bool]:
    """Return for each such Resize and each sum, by name, whether an InferenceSession with default optimizations has its
    channels last."""
    network = model.network
    resizes = [layer for layer in network.layers if _computes_bytes(layer, network)]
    sums = [layer for layer in network.layers if adds_reals(layer, network)]
    if not resizes and not sums:
        return {}
    named = onnx.ModelProto()
    named.CopyFrom(model.proto)
    for name, node in zip(model.nodes, named.graph.node, strict=True):
        node.name = name  # to find it again
    try:
        whole = rewritten(named.SerializeToString(), config, EVERY_OPTIMIZATION, FOLDED_ALREADY)
        values = (*whole.graph.input, *typed_outputs(whole, config))
        known: dict[str, Extents | None] = {value.name: tensor_of(value).shape for value in values}
    except Unsupported as error:
        first = ", ".join(one.name for one in (*resizes, *sums))
        log.info("channels first in %s: where they lie is not known: %s", first, error)
        return dict.fromkeys((layer.name for layer in resizes), False)
    for tensor in whole.graph.initializer:
        if len(tensor.dims) == 1 and tensor.dims[0] < 8:
            known[tensor.name] = numpy_helper.to_array(tensor).tolist()
    nodes = {node.name: node for node in whole.graph.node if node.op_type in ("Resize", *SUMS)}
    found = {
        layer.name: layer.name in nodes and _is_turned(_pairs(layer, network, nodes[layer.name], known))
        for layer in resizes
    }
    for layer in sums:
        if layer.name not in nodes:
            continue
        node = nodes[layer.name]
        turns = sum_is_turned(layer, network, node, known)
        if turns is None:
            turns = _is_turned([(network.tensor(layer.inputs[0]).shape, known.get(node.input[0]))])
        if turns:
            found[layer.name] = True
    return found


def _computes_bytes(layer: Layer, network: Network) -> bool:
    """True for a Resize of bytes that interpolates. Those with `axes` are excluded: ONNX Runtime 1.32 fails when it has
    moved them."""
    computes = layer.op == "Resize" and layer.attributes.get("mode", b"nearest") != b"nearest"
    return computes and "axes" not in layer.attributes and network.tensor(layer.inputs[0]).dtype in BYTES


# The extents of a tensor, or one number per axis: in the network, and in the optimized model.
Pair = tuple[Extents | None, Extents | None]


def _pairs(layer: Layer, network: Network, node: onnx.NodeProto, known: Mapping[str, Extents | None]) -> list[Pair]:
    """Return the shapes of a layer's input and output, and its scales or sizes if there is one per axis."""
    pairs: list[Pair] = [
        (network.tensor(before).shape, known.get(after))
        for before, after in zip((layer.inputs[0], layer.outputs[0]), (node.input[0], node.output[0]), strict=True)
    ]
    for before, after in zip(layer.inputs[1:], node.input[1:], strict=False):
        numbers = network.constant(before)
        if numbers is not None and len(numbers) == len(pairs[0][0] or ()):
            pairs.append((numbers.tolist(), known.get(after)))
    return pairs


def _is_turned(pairs: Sequence[Pair]) -> bool:
    """True where the optimized layer has its channels last. If both orders fit, it has not moved: with all shapes
    known, it then computes the same."""
    both = [(before, after) for before, after in pairs if before is not None and after is not None]
    stays = all(may_be_equal(before, after) for before, after in both)
    return not stays and all(may_be_equal([before[at] for at in _axes(before)], after) for before, after in both)


def _axes(numbers: Sequence[Any]) -> list[int]:
    """Return the order of axes with the channels last."""
    return list(last_of(range(len(numbers))))


def turned(node: onnx.NodeProto, rank: int, constants: Mapping[str, Any]) -> list[onnx.NodeProto]:
    """Return the same Resize or sum with the channels last, between transpositions there and back."""
    if node.op_type in SUMS:
        return turned_sum(node, rank, constants)
    axes = _axes(range(rank))
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[0], made.output[0] = f"{node.input[0]}, turned", f"{node.output[0]}, turned"
    nodes = [helper.make_node("Transpose", [node.input[0]], [made.input[0]], perm=axes)]
    for number, name in enumerate(node.input[1:], 1):
        if name and (name not in constants or constants[name].size):
            made.input[number] = f"{name}, turned"
            is_region = number == 1 and len(node.input) > 2  # the starts of all axes, then the ends
            order = [*axes, *(rank + axis for axis in axes)] if is_region else axes
            nodes += _in_order(name, made.input[number], order)
    back = [axes.index(axis) for axis in range(rank)]
    return [*nodes, made, helper.make_node("Transpose", [made.output[0]], list(node.output), perm=back)]


def _in_order(name: str, made: str, order: Sequence[int]) -> list[onnx.NodeProto]:
    places = numpy_helper.from_array(np.asarray(order, np.int64))
    return [
        helper.make_node("Constant", [], [f"{made}, places"], value=places),
        helper.make_node("Gather", [name, f"{made}, places"], [made]),
    ]
