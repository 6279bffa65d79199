"""torchvision beside a PyTorch of another build, as PyPI's is beside one for the CPU alone."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

# Operators of its library that the import of torchvision describes to PyTorch's compiler, loaded or not.
DESCRIBED = ("nms", "qnms")
# A declaration lives as long as its object.
DECLARED: list[Any] = []


@cache
def import_models() -> Any:
    """Import torchvision. Where its library does not load, the operators in it, which no network of the examples calls,
    are declared and left without an implementation: else the import fails."""
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
