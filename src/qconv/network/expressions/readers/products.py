"""Products of two computed tensors, and convolutions of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qconv.network.expressions.lazy import Lazy, Reader

READERS: Mapping[str, Callable[[Reader], Lazy]] = {}
