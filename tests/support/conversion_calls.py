"""A conversion has arrays and no parameters: what is drawn for a call, and what the oracle says of it."""

from __future__ import annotations

from qconv import reference, sample
from qconv.conversion import Conversion
from qconv.op import Array, Sample


def draw(problem: Conversion, seed: int) -> tuple[Array, ...]:
    return sample.draw(problem, seed).arrays


def compute(problem: Conversion, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return reference.compute(problem, Sample(arrays))
