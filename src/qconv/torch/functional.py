"""A graph without ops that write into their input or give it back: what they computed is then dead once it is lowered.

An exported `nn.ReLU(inplace=True)` writes into what the convolution in front of it made. Such nodes are never dead to
PyTorch, so that all of the real network would still run beside the lowered one."""

from __future__ import annotations

from typing import Any

import torch

from qconv.torch.pattern import arguments, only_user, target_of

DROPOUTS = ("aten.dropout.default", "aten.dropout_.default")


def without_writes(module: Any) -> None:
    """In place, where nobody else sees what is written."""
    for node in list(module.graph.nodes):
        if target_of(node) in DROPOUTS:
            _without_dropout(node)
        elif (other := _functional(node)) is not None:
            node.target = other


def _without_dropout(node: Any) -> None:
    """One that drops nothing gives its input."""
    if not arguments(node)["train"]:
        node.replace_all_uses_with(node.args[0])
        node.graph.erase_node(node)


def _functional(node: Any) -> Any:
    """The op that computes the same into a tensor of its own; None where the node writes nothing, or others see it."""
    namespace, _, rest = target_of(node).partition(".")
    name, _, overload = rest.partition(".")
    if namespace != "aten" or not node.target._schema.is_mutable or not name.endswith("_"):
        return None
    written = node.args[0]
    if not _makes(written) or only_user(written) is not node:
        return None
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    return None if packet is None else getattr(packet, overload, None)


def _makes(node: Any) -> bool:
    """Whether its output is memory that nothing else has."""
    if not target_of(node):
        return False
    schema = getattr(node.target, "_schema", None)
    return schema is not None and all(each.alias_info is None for each in schema.returns)
