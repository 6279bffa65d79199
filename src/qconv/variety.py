"""What an array of outputs must show for a comparison with it to mean something: many values, none of them in most
outputs, and every channel alive. An output of one value is right however the kernel found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LEAST_VALUES = 32
# Outputs from which on so many values are asked for.
MANY_OUTPUTS = 256
# Outputs from which on no value may be that of more than half.
SOME_OUTPUTS = 16
MOST_OF_ONE_VALUE = 0.5
# Outputs of one channel from which on it may not be constant.
OF_A_CHANNEL = 16


@dataclass(frozen=True)
class Variety:
    outputs: int
    values: int
    most: float  # the share of the most frequent value
    dead_channels: int  # those of one value, of `OF_A_CHANNEL` outputs at least

    @classmethod
    def of(cls, rows: Array) -> Self:
        """`rows` by [output pixel, channel]. Compared by their bits, so that NaN is one value."""
        bits = np.ascontiguousarray(rows).view(f"u{rows.dtype.itemsize}")
        if rows.dtype.itemsize <= 2:
            counts = np.bincount(bits.ravel(), minlength=1)
            counts = counts[counts > 0]
        else:
            _, counts = np.unique(bits, return_counts=True)
        constant = bits.max(axis=0) == bits.min(axis=0)
        dead = int(constant.sum()) if len(rows) >= OF_A_CHANNEL else 0
        return cls(rows.size, len(counts), float(counts.max()) / rows.size, dead)

    @property
    def has_few_values(self) -> bool:
        return self.outputs >= MANY_OUTPUTS and self.values < LEAST_VALUES

    def lacks(self, most: float = MOST_OF_ONE_VALUE) -> str:
        """The rule that is broken, or nothing."""
        if self.has_few_values:
            return f"{self.values} values in {self.outputs} outputs, fewer than {LEAST_VALUES}"
        if self.outputs >= SOME_OUTPUTS and self.most > most:
            return f"one value in {self.most:.0%} of {self.outputs} outputs, more than {most:.0%}"
        if self.dead_channels:
            return f"{self.dead_channels} channels of one value"
        return ""
