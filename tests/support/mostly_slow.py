"""Cases by name, a few of them in the fast suite and the others among the slow tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def mostly_slow(names: Iterable[str], fast: Collection[str]) -> list[Any]:
    """Return pytest parameters for all `names`, marking those that are not in `fast` as slow. Every name in `fast` must
    be a case: otherwise a renamed one would silently leave the fast suite."""
    names = list(names)
    if unknown := sorted(set(fast) - set(names)):
        raise ValueError(f"{', '.join(unknown)}: no case has this name; there are {', '.join(names)}")
    return [pytest.param(name, id=name, marks=() if name in fast else pytest.mark.slow) for name in names]
