"""Nodes of PyTorch's graphs as layers with ONNX's names and meanings, whose readers make expressions of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qconv.torch.pattern import Unmatched, target_of
from qconv.torch.translation import elementwise, movement, quantization, rows, windows
from qconv.torch.translation.node_layers import NodeLayers, Translate

TABLE: Mapping[str, Translate] = {
    **elementwise.TABLE,
    **movement.TABLE,
    **quantization.TABLE,
    **rows.TABLE,
    **windows.TABLE,
}


def translated(node: Any) -> NodeLayers:
    """Return the layers of a node. Raise Unmatched where it has none."""
    found = movement.part_of(node)
    if found is not None and target_of(found[0]) in movement.SPLITS:
        translate: Translate | None = movement.split_part
    else:
        translate = TABLE.get(target_of(node))
    if translate is None:
        raise Unmatched(f"no op here computes {target_of(node)}")
    layers = NodeLayers(node)
    translate(layers)
    return layers


__all__ = ["TABLE", "NodeLayers", "translated"]
