"""What a network takes whose callers quantize for themselves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IntegerInput:
    """An integer of it stands for `scale * (integer - zero_point)`."""

    dtype: str
    scale: float
    zero_point: int
