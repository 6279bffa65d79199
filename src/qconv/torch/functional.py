"""A graph without ops that write into their input or give it back: what they computed is then dead once it is lowered.

An exported `nn.ReLU(inplace=True)` writes into what the convolution in front of it made. Such nodes are never dead to
PyTorch, so that all of the real network would still run beside the lowered one. And without views that ask how their
input lies in memory, which is otherwise once it is lowered: images are channels_last."""

from __future__ import annotations

from typing import Any

import torch

from qconv.torch.pattern import arguments, only_user, target_of

DROPOUTS = ("aten.dropout.default", "aten.dropout_.default")
VIEW = "aten.view.default"


def without_writes(module: Any) -> None:
    """In place, where nobody else sees what is written."""
    for node in list(module.graph.nodes):
        if target_of(node) in DROPOUTS:
            _without_dropout(node)
        elif (other := _functional(node)) is not None:
            node.target = other


def without_views(module: Any) -> None:
    """In place: `reshape`, which copies where it has to. Where somebody writes into that memory a view stays, as the
    copy would not be written."""
    written = {_origin(read) for node in module.graph.nodes if writes(node) for read in node.all_input_nodes}
    for node in module.graph.nodes:
        if target_of(node) == VIEW and _origin(node) not in written:
            node.target = torch.ops.aten.reshape.default


def _origin(node: Any) -> Any:
    """Whose memory it may be: that of the first input of a view, and of its first input."""
    while target_of(node) and not makes(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def writes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _without_dropout(node: Any) -> None:
    """One that drops nothing gives its input."""
    if not arguments(node)["train"]:
        node.replace_all_uses_with(node.args[0])
        node.graph.erase_node(node)


def _functional(node: Any) -> Any:
    """The op that computes the same into a tensor of its own; None where the node writes nothing, or others see it."""
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
    """Whether its output is memory that nothing else has."""
    if not target_of(node):
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(each.alias_info is None for each in schema.returns)
