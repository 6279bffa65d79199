"""Which launches ask to overlap with the one before."""

from __future__ import annotations

from typing import Any

import pytest

from qconv.instances.load.executable import Packed


def asked_to_overlap(gains: bool, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by what each launch asks, where all kernels gain by it or none does. None of them overlaps."""
    asked: list[bool] = []
    own = Packed.prepare

    def prepare(packed: Packed, inputs: Any, out: Any, overlap: bool = False) -> Any:
        asked.append(overlap)
        return own(packed, inputs, out)

    monkeypatch.setattr(Packed, "prepare", prepare)
    monkeypatch.setattr(Packed, "gains_by_overlap", gains)
    return asked
