"""The arrays of a conversion's call, which has no parameters, and the oracle's answer."""

from __future__ import annotations

from qconv.conversion import Conversion
from qconv.op import Array, Sample
from qconv.ops import registry


def draw(problem: Conversion, seed: int) -> tuple[Array, ...]:
    return registry.draw(problem, seed).arrays


def compute(problem: Conversion, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    return registry.compute(problem, Sample(arrays))
