"""The launches that request to overlap with the previous one."""

from __future__ import annotations

from typing import Any

import pytest

from qconv.instances.load.executable import Packed


def asked_to_overlap(gains: bool, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that grows by each launch's request, with all kernels gaining by overlap or none. No launch does
    overlap."""
    asked: list[bool] = []
    own = Packed.prepare

    def prepare(packed: Packed, inputs: Any, out: Any, overlap: bool = False) -> Any:
        asked.append(overlap)
        return own(packed, inputs, out)

    monkeypatch.setattr(Packed, "prepare", prepare)
    monkeypatch.setattr(Packed, "gains_by_overlap", gains)
    return asked
