"""The type, scale and zero point of a network's input when the caller quantizes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IntegerInput:
    """A quantized input: an integer of it stands for `scale * (integer - zero_point)`."""

    dtype: str
    scale: float
    zero_point: int
