"""Random integer ops between convolutions, small enough for the CPU device. Same seed, same problems."""

from __future__ import annotations

import random

from qconv.tensor_ops import Add, Binary, Mul
from qconv.tensor_ops.problem import ACTIVATIONS, BYTES

# Whole vectors and odd ones, one row and many.
SIZES = (1, 1, 2, 3, 5, 8, 16, 24, 33, 64, 130)
LONG = (1023, 4096, 9999, 20_001)

# For uint8. With each, another order of the operations of an add, or an operation rounded once more, changes hundreds
# of the pairs.
_NAMES = ("a_scale", "b_scale", "y_scale", "a_zero_point", "b_zero_point", "y_zero_point")
TELLING = [
    dict(zip(_NAMES, numbers, strict=True))
    for numbers in (
        (0.09, 0.27, 0.06, 100, 90, 95),
        (0.36, 0.18, 0.04, 232, 58, 210),
        (0.30, 0.42, 0.12, 100, 217, 197),
        (0.36, 0.48, 0.08, 135, 146, 50),
        (0.30, 0.54, 0.12, 116, 118, 191),
    )
]

# The same of a sigmoid, where one entry of a table changes.
TELLING_SIGMOID = [
    {"x_scale": x_scale, "x_zero_point": zero, "y_scale": 0.004, "y_zero_point": 0}
    for x_scale, zero in ((0.035, 0), (0.146, 178))
]


def binary_problems(seed: int, count: int) -> list[Binary]:
    rng = random.Random(f"binary {seed}")
    return [_binary(rng, (Add, Mul)[index % 2]) for index in range(count)]


def _binary(rng: random.Random, kind: type[Binary]) -> Binary:
    outer, repeat, inner = (rng.choice(SIZES) for _ in range(3))
    if rng.random() < 0.3:
        outer, repeat, inner = 1, 1, rng.choice(LONG)
    types = [rng.choice(BYTES) for _ in range(3)]
    return kind(min(outer, 8), repeat, inner, *types, activation=rng.choice(ACTIVATIONS))
