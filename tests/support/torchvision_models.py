"""Import of torchvision beside a PyTorch of another build, such as PyPI's torchvision beside a CPU-only PyTorch."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

# Operators of its library that importing torchvision declares to PyTorch's compiler, whether or not it loads.
DESCRIBED = ("nms", "qnms")
# A declaration lives as long as its object.
DECLARED: list[Any] = []


@cache
def import_models() -> Any:
    """Import torchvision. If its library does not load, declare its operators without an implementation, as the import
    would fail otherwise; no network of the examples calls them."""
    try:
        return import_module("torchvision")
    except RuntimeError:
        from torch.library import Library

    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    for name in DESCRIBED:
        DECLARED.append(Library("torchvision", "FRAGMENT"))
        DECLARED[-1].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return import_module("torchvision")
