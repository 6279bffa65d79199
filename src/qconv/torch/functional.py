"""Removal of in-place ops and of memory-dependent views from an exported graph, so that lowered nodes become dead.

An exported `nn.ReLU(inplace=True)` writes to the convolution's output. PyTorch never treats such nodes as dead, so that
the original network would still run beside the lowered one. Views that depend on how their input is laid out fail after
lowering, which makes images channels_last."""

from __future__ import annotations

from typing import Any

import torch

from qconv.torch.pattern import arguments, only_user, target_of

DROPOUTS = ("aten.dropout.default", "aten.dropout_.default")
ASSERTION = "aten._assert_tensor_metadata.default"
VIEW = "aten.view.default"


def without_writes(module: Any) -> None:
    """Replace in-place ops, and inference dropouts, where no other node sees the write."""
    for node in list(module.graph.nodes):
        if target_of(node) in DROPOUTS:
            _without_dropout(node)
        elif (other := _functional(node)) is not None:
            node.target = other


def without_assertions(module: Any) -> None:
    """Remove assertions about types and devices of tensors, which hold by construction: they would keep a tensor in
    memory that nobody else reads."""
    for node in list(module.graph.nodes):
        if target_of(node) == ASSERTION and not node.users:
            node.graph.erase_node(node)


def without_views(module: Any) -> None:
    """Replace views by `reshape`, which copies where necessary. A view of memory that is written stays, because a copy
    would not be written."""
    origins = _written(module)
    for node in module.graph.nodes:
        if target_of(node) == VIEW and _origin(node) not in origins:
            node.target = torch.ops.aten.reshape.default


def written(module: Any) -> frozenset[Any]:
    """Return the nodes that share the memory which some node writes."""
    origins = _written(module)
    return frozenset(node for node in module.graph.nodes if origins and _origin(node) in origins)


def _written(module: Any) -> set[Any]:
    """Return the nodes that may own the memory which some node writes."""
    return {_origin(read) for node in module.graph.nodes if writes(node) for read in node.all_input_nodes}


def _origin(node: Any) -> Any:
    """Return the node that may own the memory: the first input of a chain of views."""
    while target_of(node) and not makes(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def writes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _without_dropout(node: Any) -> None:
    """Remove a dropout in inference, which returns its input."""
    if not arguments(node)["train"]:
        node.replace_all_uses_with(node.args[0])
        node.graph.erase_node(node)


def _functional(node: Any) -> Any:
    """Return the op that computes the same into a new tensor, or None where the node writes nothing or others see
    it."""
    namespace, _, rest = target_of(node).partition(".")
    name, _, overload = rest.partition(".")
    if namespace != "aten" or not writes(node) or not name.endswith("_"):
        return None
    written = node.args[0]
    if not makes(written) or only_user(written) is not node:
        return None
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    return None if packet is None else getattr(packet, overload, None)


def makes(node: Any) -> bool:
    """True where the node's output is new memory."""
    if not target_of(node):
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(each.alias_info is None for each in schema.returns)
