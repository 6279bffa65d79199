"""Lowering of ops that are no convolutions: sums, products, pools, and moves of integers; and quantize and dequantize
with one scale that no layer absorbed, at the boundary of a network and next to layers that stay in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from qconv.torch.pattern import (
    Quantized,
    activation_of,
    arguments,
    dequantized,
    only_user,
    quantized,
    replace,
    shape_of,
    target_of,
)

# Ops that only move elements, which may be integers as well.
MOVES = (
    *("aten.flatten.using_ints", "aten.view.default", "aten.reshape.default", "aten.permute.default"),
    *("aten.transpose.int", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.slice.Tensor", "aten.clone.default"),
)
IMAGE = ([2, 3], [-2, -1], [-1, -2], [3, 2])


@dataclass(frozen=True)
class Between:
    """An op between integers, in the place of `nodes`, the last of which quantizes."""

    last: Any
    nodes: frozenset[Any]
    target: Any
    inputs: tuple[Any, ...]
    named: Mapping[str, Any]
    says: str

    @property
    def is_move(self) -> bool:
        """True where PyTorch's own op moves the integers as they are."""
        return not str(self.target).startswith("qconv.")

    @property
    def row(self) -> tuple[str, str]:
        """Return the op and a description, for the report."""
        return str(self.target).removesuffix(".default"), self.says

    def lower(self) -> Any:
        """Replace the nodes, and return the new one."""
        with self.last.graph.inserting_before(self.last):
            new = self.last.graph.call_function(self.target, self.inputs, dict(self.named))
        replace(self.last, new)
        return new


def between(node: Any) -> Between | None:
    """Return the op in front of a node that quantizes, if integers have one."""
    out = quantized(node)
    if out is None or not isinstance(out.node.args[0], torch.fx.Node):
        return None
    source = out.node.args[0]
    if not out.is_whole or only_user(source) is not node:
        return None
    relu = activation_of(source) == {"activation": "relu"}
    inner = source.args[0] if relu else source
    if relu and only_user(inner) is not source:
        return None
    read = _READ.get(target_of(inner))
    made = None if read is None or (relu and read not in (_add, _mul)) else read(inner, out, relu)
    if made is None:
        return None
    op, inputs, named = made
    nodes = frozenset((node, source, inner, *inner.all_input_nodes))
    if isinstance(op, str):
        target = getattr(torch.ops.qconv, op).default
        return Between(node, nodes, target, inputs, named, f"in the place of {target_of(inner)}")
    return Between(node, nodes, op, inputs, named, "of integers as they are")


Made = tuple[Any, tuple[Any, ...], dict[str, Any]] | None


def _binary(op: str) -> Callable[[Any, Quantized, bool], Made]:
    def read(node: Any, out: Quantized, relu: bool) -> Made:
        if node.kwargs.get("alpha", 1) != 1:
            return None
        a, b = (dequantized(operand) for operand in node.args)
        if a is None or b is None or not (a.is_served and b.is_served):
            return None
        if not _is_broadcast(shape_of(node.args[0]), shape_of(node.args[1])):
            return None
        named = {**a.numbers("a"), **b.numbers("b"), **out.numbers("y"), "out_dtype": out.dtype}
        return op, (a.node, b.node), named | ({"activation": "relu"} if relu else {})

    return read


def _is_broadcast(one: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> bool:
    """True where the shapes are equal, or one has one number per channel of images."""
    if one is None or other is None:
        return False
    if one == other:
        return True
    small, large = sorted((one, other), key=lambda shape: sum(size == 1 for size in shape), reverse=True)
    if len(one) != 4 or len(other) != 4:
        return False
    return small[1:] == (large[1], 1, 1) and small[0] in (1, large[0])


_add, _mul = _binary("add"), _binary("mul")


def _operand(node: Any) -> Quantized | None:
    found = dequantized(node.args[0])
    return found if found is not None and found.is_served else None


def _image(node: Any) -> Quantized | None:
    return _operand(node) if len(shape_of(node) or ()) == 4 else None


def window_fits(pool: Any) -> bool:
    """True where a whole window fits into the padded image, as far as shapes are known. `ceil_mode` permits others, but
    kernels do not."""
    values = arguments(pool)
    for axis, size in enumerate((shape_of(pool.args[0]) or ())[-2:]):
        extent, pad, step = (
            (*given, *given)[axis] for given in (values["kernel_size"], values["padding"], values.get("dilation", (1,)))
        )
        if isinstance(size, int) and size + 2 * pad < (extent - 1) * step + 1:
            return False
    return True


def _pool(op: str, x: Quantized, node: Any, numbers: Mapping[str, Any], *names: str) -> Made:
    values = arguments(node)
    if not window_fits(node):
        return None
    window = {name: values[name] for name in ("stride", "padding", "ceil_mode", *names)}
    return op, (x.node, values["kernel_size"]), {**window, **numbers}


def _max_pool(node: Any, out: Quantized, relu: bool) -> Made:
    x = _image(node)
    return _pool("max_pool2d", x, node, {}, "dilation") if x is not None and x.means(out) else None


def _average_pool(node: Any, out: Quantized, relu: bool) -> Made:
    x, values = _image(node), arguments(node)
    if x is None or values["divisor_override"] is not None:
        return None
    counts = values["count_include_pad"]
    if values["ceil_mode"] and counts:
        # PyTorch divides an incomplete window by the part of it within the padded input.
        if any(values["padding"]):
            return None
        counts = False
    return _pool("avg_pool2d", x, node, {**_numbers(x, out), "count_include_pad": counts})


def _global(node: Any, out: Quantized, relu: bool) -> Made:
    x, values = _image(node), arguments(node)
    whole = list(values.get("output_size", ())) == [1, 1] or (
        list(values.get("dim") or ()) in IMAGE and values["keepdim"] and values["dtype"] is None
    )
    return ("global_avg_pool2d", (x.node,), _numbers(x, out)) if x is not None and whole else None


def _numbers(x: Quantized, out: Quantized) -> dict[str, Any]:
    return {**x.numbers("x"), **out.numbers("y"), "out_dtype": out.dtype}


def _move(node: Any, out: Quantized, relu: bool) -> Made:
    """Move the integers themselves if they are dequantized and quantized alike."""
    x = _operand(node)
    return (node.target, (x.node, *node.args[1:]), dict(node.kwargs)) if x is not None and x.means(out) else None


def _concatenate(node: Any, out: Quantized, relu: bool) -> Made:
    parts = [dequantized(part) for part in node.args[0]]
    integers = [part.node for part in parts if part is not None and part.means(out)]
    return (node.target, (integers, *node.args[1:]), {}) if len(integers) == len(parts) else None


_READ: Mapping[str, Callable[[Any, Quantized, bool], Made]] = {
    "aten.add.Tensor": _add,
    "aten.add_.Tensor": _add,
    "aten.mul.Tensor": _mul,
    "aten.max_pool2d.default": _max_pool,
    "aten.avg_pool2d.default": _average_pool,
    "aten.adaptive_avg_pool2d.default": _global,
    "aten.mean.dim": _global,
    "aten.cat.default": _concatenate,
    **dict.fromkeys(MOVES, _move),
}


# The system whose bits quantize and dequantize have.
CONVERSION_MODE = "decomposed"


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
        named: dict[str, Any] = {"out_dtype": torch.float32, "mode": CONVERSION_MODE} if out is None else _limits(out)
        made = node.graph.call_function(target, (arguments(node)["input"], found.scale, found.zero_point), named)
    replace(node, made)


def _limits(out: Quantized) -> dict[str, Any]:
    limits = {} if out.is_whole else {"low": out.low, "high": out.high}
    return {"out_dtype": out.dtype, **limits, "mode": CONVERSION_MODE}
