"""Sums of real numbers along axes. They add in the order in which the elements lie, so that their bits depend on where
the channels are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from qconv.network import Layer, Network
from qconv.network.graph.value import last_of

# One of the numbers along some axes, which depends on who is added, or multiplied, first.
SUMS = frozenset(f"Reduce{what}" for what in ("L1", "L2", "LogSum", "LogSumExp", "Mean", "Prod", "Sum", "SumSquare"))
REALS = ("float32", "float64")


def adds_reals(layer: Layer, network: Network) -> bool:
    """Along axes that are named by constants, in a tensor that has more of them than images and channels."""
    if layer.op not in SUMS:
        return False
    x = network.tensor(layer.inputs[0])
    axes = _axes_in(layer.inputs, layer.attributes, network.constants)
    return axes is not None and x.dtype in REALS and len(x.shape or ()) > 2


def sum_is_turned(layer: Layer, network: Network, node: onnx.NodeProto, known: Mapping[str, Any]) -> bool | None:
    """Whether the node adds, in a tensor whose channels are last, along the axes that the layer names where they are
    not; None where those are the same. `known` has the small constants beside the node."""
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
    """The same sum with the channels last, between what brings them there and back."""
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
    """An attribute or, in later opsets, an input; None where it is computed, or where none is named."""
    named = inputs[1] if len(inputs) > 1 else ""
    given = constants.get(named) if named else attributes.get("axes")
    return None if given is None or not len(given) else [int(axis) for axis in given]


def _moved(axes: Sequence[int], rank: int) -> set[int]:
    order = last_of(range(rank))
    return {order.index(axis % rank) for axis in axes}
