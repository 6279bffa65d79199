"""Random conversions over every parameter, small enough for the CPU device. Same seed, same problems."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

from qconv.conversion import CONVERSIONS, FLAGS, Conversion
from qconv.conversion.problem import CHOICES

# Whole vectors and odd ones, tensors and single elements, rows longer than any team of threads.
OUTER = (1, 1, 2, 3, 7)
CHANNELS = (1, 1, 3, 8, 16, 33, 64, 130)
INNER = (1, 1, 2, 5, 7, 16, 64, 97, 257, 1024)
BLOCKS = (0, 0, 0, 1, 3, 8, 32)
LONG = ((1, 1, 40_003), (1, 1, 65_536), (1, 2, 20_000), (3, 1, 9_999))


def conversions(seed: int, count: int) -> list[Conversion]:
    """Every op in turn; what a draw contradicts itself in is drawn again."""
    rng = random.Random(f"conversions {seed}")
    made: list[Conversion] = []
    while len(made) < count:
        problem = _draw(rng, list(CONVERSIONS.values())[len(made) % len(CONVERSIONS)])
        if problem is not None:
            made.append(problem)
    return made


def _draw(rng: random.Random, op: type[Conversion]) -> Conversion | None:
    values: dict[str, Any] = {}
    outer, channels, inner = rng.choice(OUTER), rng.choice(CHANNELS), rng.choice(INNER)
    if rng.random() < 0.15:
        outer, channels, inner = rng.choice(LONG)
    for entry in fields(op):
        if entry.name in op.allowed:
            values[entry.name] = rng.choice(op.allowed[entry.name])
        elif entry.name in CHOICES:
            values[entry.name] = rng.choice((CHOICES[entry.name][0], rng.choice(CHOICES[entry.name])))
        elif entry.name in FLAGS:
            values[entry.name] = rng.random() < 0.6
    if rng.random() < 0.2 and any(entry.name == "low" for entry in fields(op)):
        values |= {"low": 0, "high": 100} if "uint" in values["out_type"] else {"low": -7, "high": 7}
    try:
        return op(outer=outer, channels=channels, inner=inner, block=rng.choice(BLOCKS), **values)
    except ValueError:
        return None
