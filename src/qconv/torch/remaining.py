"""The nodes of a lowered graph that compute and stay in PyTorch, with the reasons."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from qconv.torch.activations import activation_of
from qconv.torch.functional import makes, writes
from qconv.torch.pattern import DEQUANTIZE, QUANTIZE, REPLACES, target_of
from qconv.torch.tensor_ops import lowers


def staying(graph: Any, named: Collection[str]) -> list[tuple[str, str]]:
    """Return these nodes without the `named` ones and without those computed from constants alone."""
    constants: set[Any] = set()
    found = []
    for node in graph.nodes:
        read = node.all_input_nodes
        if node.op == "get_attr" or (node.op == "call_function" and read and constants.issuperset(read)):
            constants.add(node)
        elif _computes(node) and node.name not in named:
            found.append((node.name, _why(node)))
    return found


def _computes(node: Any) -> bool:
    """True for a node that computes. Views, sizes and elements of tuples do not."""
    target = target_of(node)
    if not target or target.startswith("qconv.") or REPLACES in node.meta:
        return False
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    value = node.meta.get("val")
    gives_numbers = value is not None and not isinstance(value, torch.Tensor | tuple | list)
    return not gives_numbers and (writes(node) or (makes(node) and bool(node.target._schema.returns)))


def _why(node: Any) -> str:
    target = target_of(node)
    if target.startswith((QUANTIZE, DEQUANTIZE)):
        return "ops here convert float32 from and to 8 bits, with one constant scale"
    if activation_of(node) is not None:
        return "it is not behind a layer that an op here computes, in front of what quantizes"
    if lowers(target):
        return f"what it reads and gives are not the integers for which an op here computes {target}"
    return f"no op here computes {target}"
