"""Lowering of quantize and dequantize with one scale that no layer absorbed: at the boundary of a network, and next to
layers that stay in PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from qconv.torch.pattern import Quantized, arguments, dequantized, quantized, replace

# The system whose bits these nodes have.
MODE = "decomposed"


def lower_end(node: Any) -> None:
    """Replace the node by an op with the same bits, if there is one. PyTorch uses up to five kernels for it."""
    out, given = quantized(node), dequantized(node)
    found = out or given
    if found is None or not found.is_served:
        return
    real = arguments(node)["input"] if out is not None else node
    value = real.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return
    op = "quantize" if out is not None else "dequantize"
    target = getattr(torch.ops.qconv, op).scalar
    with node.graph.inserting_before(node):
        named: dict[str, Any] = {"out_dtype": torch.float32, "mode": MODE} if out is None else _limits(out)
        made = node.graph.call_function(target, (arguments(node)["input"], found.scale, found.zero_point), named)
    replace(node, made)


def _limits(out: Quantized) -> dict[str, Any]:
    limits = {} if out.is_whole else {"low": out.low, "high": out.high}
    return {"out_dtype": out.dtype, **limits, "mode": MODE}
