"""Queries of the nodes of an exported graph: which tensors are quantized and how, who reads them, and which
activation a node is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from qconv.arithmetic.activation import named
from qconv.dtypes import RANGES
from qconv.torch.arrays import name_of

PER_TENSOR = ("per_tensor.default", "per_tensor.tensor")
# The key, in a node's meta, of the name of the node that it replaces.
REPLACES = "qconv_replaces"
# By name: the creator of the graph has registered these ops, and this package need not.
QUANTIZE, DEQUANTIZE = "quantized_decomposed.quantize_", "quantized_decomposed.dequantize_"


class Unmatched(Exception):
    """A layer stays in PyTorch; the message says why."""


@dataclass(frozen=True)
class Quantized:
    """A node with integers, their scale and their zero point, which are nodes if there is one per channel."""

    node: Any
    scale: Any
    zero_point: Any
    low: int
    high: int
    dtype: Any
    axis: int | None = None

    @property
    def is_served(self) -> bool:
        return self.axis is None and self.dtype in (torch.int8, torch.uint8)

    @property
    def is_whole(self) -> bool:
        """True where the output may be any integer of its type: kernels clamp only to that."""
        return self.is_served and (self.low, self.high) == RANGES[name_of(self.dtype)]

    def means(self, other: Quantized) -> bool:
        """True where equal integers stand for equal numbers."""
        return (self.scale, self.zero_point, self.dtype) == (other.scale, other.zero_point, other.dtype)

    def numbers(self, name: str) -> dict[str, Any]:
        return {f"{name}_scale": self.scale, f"{name}_zero_point": self.zero_point}


def target_of(node: Any) -> str:
    return str(node.target) if isinstance(node, torch.fx.Node) and node.op == "call_function" else ""


def quantized(node: Any) -> Quantized | None:
    """Return the output of a node that quantizes, else None."""
    found = _read(node, QUANTIZE)
    return None if found is None else Quantized(node, *found[1:])


def dequantized(node: Any) -> Quantized | None:
    """Return the input of a node that dequantizes, else None."""
    found = _read(node, DEQUANTIZE)
    return None if found is None else Quantized(*found)


def _read(node: Any, prefix: str) -> tuple[Any, ...] | None:
    name = target_of(node)
    if not name.startswith(prefix):
        return None
    kind = name.removeprefix(prefix)
    if kind in PER_TENSOR:
        values = arguments(node)
        scale, zero_point = (constant_number(node, values[key]) for key in ("scale", "zero_point"))
        if scale is None or zero_point is None:
            return None
        return values["input"], scale, zero_point, values["quant_min"], values["quant_max"], values["dtype"]
    if kind == "per_channel.default":
        values = arguments(node)
        limits = values["quant_min"], values["quant_max"], values["dtype"], values["axis"]
        return values["input"], values["scales"], values["zero_points"], *limits
    return None


def arguments(node: Any) -> dict[str, Any]:
    """Return the arguments of a node by the names of its schema, with defaults."""
    schema = node.target._schema.arguments
    values = {each.name: each.default_value for each in schema if each.has_default_value()}
    return {**values, **dict(zip((each.name for each in schema), node.args, strict=False)), **node.kwargs}


def constant_number(node: Any, value: Any) -> Any:
    """Return a number, or the value of a constant with one element; None where it is computed."""
    if not isinstance(value, torch.fx.Node):
        return value
    tensor = constant(value)
    return tensor.item() if tensor is not None and tensor.numel() == 1 else None


def constant(node: Any) -> Any:
    """Return the constant tensor of a node: an attribute of the module, or a result computed from such; else None."""
    if node.op == "get_attr":
        found = node.graph.owning_module
        for name in str(node.target).split("."):
            found = getattr(found, name)
        return found
    if node.op != "call_function":
        return None
    known: dict[Any, Any] = {}
    for each in node.all_input_nodes:
        if (tensor := constant(each)) is None:
            return None
        known[each] = tensor
    if not known:
        return None
    with torch.no_grad():
        return node.target(*(known.get(a, a) if isinstance(a, torch.fx.Node) else a for a in node.args), **node.kwargs)


def attribute(before: Any, node: Any, tensor: Any) -> Any:
    """Return a node for a constant. A computed one is computed now."""
    return node if node.op == "get_attr" else held(before, f"_qconv_{node.name}", tensor)


def held(before: Any, name: str, tensor: Any) -> Any:
    """Return a node for a tensor that the module is to hold under this name."""
    before.graph.owning_module.register_buffer(name, tensor.detach())
    made = before.graph.get_attr(name)
    made.meta["val"] = tensor.detach()
    return made


def only_user(node: Any) -> Any:
    """Return the only reader of a node, or None if there are several."""
    users = list(node.users)
    return users[0] if len(users) == 1 else None


def replace(node: Any, made: Any) -> None:
    """Replace a node by a new one, and record which node of the graph as it was given that stands for."""
    made.meta |= {REPLACES: node.meta.get(REPLACES, node.name), "val": node.meta.get("val")}
    node.replace_all_uses_with(made)


def shape_of(node: Any) -> tuple[Any, ...] | None:
    """Return the shape of a node's output if it is known."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


Read = Callable[[Mapping[str, Any]], dict[str, Any] | None]
# Beyond any real number that is quantized, with a finite product with any scale.
FAR = float(np.float32(2.0**100))


def _named(name: str) -> Read:
    return lambda values: {"activation": name}


def _clamp(low: str, high: str) -> Read:
    def read(values: Mapping[str, Any]) -> dict[str, Any] | None:
        limits = [values[name] for name in (low, high)]
        if any(not isinstance(limit, (int, float, type(None))) for limit in limits):
            return None
        least, most = (
            default if limit is None else float(limit) for limit, default in zip(limits, (-FAR, FAR), strict=True)
        )
        if (least, most) == (0.0, 6.0):
            return {"activation": "relu6"}
        return {"activation": "clamp", "low": least, "high": most} if least <= most else None

    return read


def _leaky(values: Mapping[str, Any]) -> dict[str, Any] | None:
    return {"activation": "leaky_relu", "slope": float(values["negative_slope"])}


def _gelu(values: Mapping[str, Any]) -> dict[str, Any] | None:
    return {"activation": "gelu"} if values["approximate"] == "none" else None


_READ: Mapping[str, Read] = {
    **{name: _named(ours) for name, ours in named("aten").items()},
    "hardtanh": _clamp("min_val", "max_val"),
    "clamp": _clamp("min", "max"),
    "leaky_relu": _leaky,
    "gelu": _gelu,
}
CLAMPS = ("relu", "relu6", "clamp")


def activation_of(node: Any) -> dict[str, Any] | None:
    """Return the activation's arguments for a convolution, or None if the node is no activation that kernels have."""
    namespace, _, rest = target_of(node).partition(".")
    name, _, overload = rest.partition(".")
    read = _READ.get(name.removesuffix("_"))
    return read(arguments(node)) if namespace == "aten" and overload == "default" and read else None
