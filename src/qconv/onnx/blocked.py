"""Float layers in ONNX Runtime's blocked layout, NCHWc. Their bits depend on which layers use it.

ONNX Runtime decides over the whole model which float convolutions and pools have their channels in blocks, which layers
between them keep the blocks, and which additions and activations become parts of a convolution. It would decide
differently for a part of the model. So all float layers are decided together here, and not again for parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

import onnx

from qconv.network import Layer, Network
from qconv.onnx.model import EVERY_OPTIMIZATION, ReadModel, part_of, read, read_by, rewritten
from qconv.onnx.own_names import adopt_names
from qconv.tensor_ops.problem import BYTES

DOMAIN = "com.microsoft.nchwc"
# The layers that convert floats to blocks and back.
REORDERS = (f"{DOMAIN}.ReorderInput", f"{DOMAIN}.ReorderOutput")
# The optimizers that decide. They also fold additions into convolutions without blocks.
DECIDED_ALREADY = frozenset({"NchwcTransformer", "ConvAddActivationFusion"})
# Ops that introduce blocks; convolutions also absorb additions. All other ops only keep blocks.
_BEGIN = ("Conv", "com.microsoft.FusedConv", "MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
_OF_GRAPHS = ("If", "Loop", "Scan")  # subgraphs may contain such layers


def in_blocks(model: ReadModel, config: Mapping[str, str]) -> ReadModel:
    """Return the model with the blocks that ONNX Runtime's CPU provider chooses on this processor. Integer layers stay
    as they are, because another optimization would change them."""
    network = model.network
    floats = [layer for layer in network.layers if not _has_integers(layer, network)]
    if not any(layer.op in (*_BEGIN, *_OF_GRAPHS) for layer in floats):
        return model
    nodes = [_named(model.nodes[layer.name], layer.name) for layer in floats]
    part = part_of(model, floats, nodes, _read_outside(floats, network))
    decided = rewritten(part.SerializeToString(), config, EVERY_OPTIMIZATION, {"NhwcTransformer"}).graph
    own = {name for layer in floats for name in (*layer.reads, *layer.outputs)}
    made_by = {f"{name}_nchwc": layer.name for layer in floats for name in layer.outputs}
    for tensor in decided.initializer:
        tensor.name = _renamed(tensor.name, own)
    for node in decided.node:
        node.input[:] = [_renamed(name, own) for name in node.input]
        node.output[:] = [_renamed(name, own) for name in node.output]
        if node.domain == DOMAIN:  # ONNX Runtime names it after the output of the node that it replaces
            node.name = made_by.get(node.name, node.name)
    adopt_names(decided.node, nodes, model.nodes.keys() - {layer.name for layer in floats})
    return read(_joined(model, floats, decided), config)


def _has_integers(layer: Layer, network: Network) -> bool:
    if layer.op in ("QuantizeLinear", "DequantizeLinear"):
        return True
    types = {network.tensor(name).dtype for name in (*layer.reads, *layer.outputs) if name}
    return not types.isdisjoint(BYTES)


def _read_outside(layers: Sequence[Layer], network: Network) -> list[str]:
    """Return the outputs of these layers that other layers or the caller read."""
    inside = {layer.name for layer in layers}

    def leaves(name: str) -> bool:
        return name in network.outputs or any(one.name not in inside for one in network.consumers.get(name, ()))

    return [name for layer in layers for name in layer.outputs if name and leaves(name)]


def _named(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    named = onnx.NodeProto()
    named.CopyFrom(node)
    named.name = name
    return named


def _renamed(name: str, own: Iterable[str]) -> str:
    """Rename a tensor that ONNX Runtime has added, whose name may occur elsewhere in the model."""
    return name if name in own or not name else f"{name}, in blocks"


def _joined(model: ReadModel, floats: Sequence[Layer], decided: onnx.GraphProto) -> onnx.ModelProto:
    """Return the whole model with these nodes in place of its float layers."""
    replaced = {layer.name for layer in floats}
    nodes = [*(_named(node, name) for name, node in model.nodes.items() if name not in replaced), *decided.node]
    makers = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    reads = {at: {makers[name] for name in read_by(node) if name in makers} for at, node in enumerate(nodes)}
    joined = onnx.ModelProto()
    joined.CopyFrom(model.proto)
    del joined.graph.node[:]
    joined.graph.node.extend(nodes[at] for at in TopologicalSorter(reads).static_order())
    known = {tensor.name for tensor in joined.graph.initializer}
    joined.graph.initializer.extend(tensor for tensor in decided.initializer if tensor.name not in known)
    if all(opset.domain != DOMAIN for opset in joined.opset_import):
        joined.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return joined
