"""Sums of real numbers along axes. They add in memory order, so that their bits depend on the position of the
channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from qconv.network import Layer, Network
from qconv.network.graph.value import last_of

# Reductions along axes whose result depends on the order of additions or multiplications.
SUMS = frozenset(f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare"))
REALS = ("float32", "float64")


def adds_reals(layer: Layer, network: Network) -> bool:
    """True for a sum of reals along constant axes of a tensor with more than images and channels."""
    if layer.op not in SUMS:
        return False
    x = network.tensor(layer.inputs[0])
    axes = _axes_in(layer.inputs, layer.attributes, network.constants)
    return axes is not None and x.dtype in REALS and len(x.shape or ()) > 2


def sum_is_turned(layer: Layer, network: Network, node: onnx.NodeProto, known: Mapping[str, Any]) -> bool | None:
    """True where the node sums along the layer's axes in a tensor with the channels last, None where both orders have
    the same axes. `known` has the optimized model's small constants."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    before = _axes_in(layer.inputs, layer.attributes, network.constants)
    after = _axes_in(node.input, attributes, known)
    rank = len(network.tensor(layer.inputs[0]).shape or ())
    if before is None or after is None:
        return False
    own, found = ({axis % rank for axis in axes} for axes in (before, after))
    if _moved(before, rank) != found:
        return False
    return None if own == found else True


def turned_sum(node: onnx.NodeProto, rank: int, constants: Mapping[str, Any]) -> list[onnx.NodeProto]:
    """Return the same sum with the channels last, between transpositions there and back."""
    attributes = {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
    order = last_of(range(rank))
    axes = sorted(_moved(_axes_in(node.input, attributes, constants) or (), rank))
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[0], made.output[0] = f"{node.input[0]}, turned", f"{node.output[0]}, turned"
    nodes = [helper.make_node("Transpose", [node.input[0]], [made.input[0]], perm=order)]
    if len(node.input) > 1:
        made.input[1] = f"{node.output[0]}, axes"
        nodes.append(helper.make_node("Constant", [], [made.input[1]], value_ints=axes))
    else:
        del made.attribute[:]
        made.attribute.extend(
            helper.make_attribute(name, value) for name, value in (attributes | {"axes": axes}).items()
        )
    keeps = attributes.get("keepdims", 1)
    left = [axis for at, axis in enumerate(order) if keeps or at not in axes]
    back = [left.index(axis) for axis in sorted(left)]
    return [*nodes, made, helper.make_node("Transpose", [made.output[0]], list(node.output), perm=back)]


def _axes_in(
    inputs: Sequence[str], attributes: Mapping[str, Any], constants: Mapping[str, Any]
) -> Sequence[int] | None:
    """Return the axes from an attribute or, in later opsets, an input; None where they are computed or absent."""
    named = inputs[1] if len(inputs) > 1 else ""
    given = constants.get(named) if named else attributes.get("axes")
    return None if given is None or not len(given) else [int(axis) for axis in given]


def _moved(axes: Sequence[int], rank: int) -> set[int]:
    order = last_of(range(rank))
    return {order.index(axis % rank) for axis in axes}
