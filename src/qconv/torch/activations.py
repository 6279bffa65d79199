"""Activations in PyTorch graphs as activations of a convolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qconv.arithmetic.activation import named
from qconv.torch.pattern import arguments, target_of

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
