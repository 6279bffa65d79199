"""Random conversions over every parameter, small enough for the CPU device. The seed determines the problems."""

from __future__ import annotations

import random
from dataclasses import fields
from typing import Any

from qconv.conversion import CONVERSIONS, FLAGS, Conversion, Dequantize, Quantize
from qconv.conversion.problem import CHOICES
from qconv.dtypes import FLOAT8

# Whole vectors and odd sizes, tensors and single elements, rows longer than any team of threads.
OUTER = (1, 1, 2, 3, 7)
CHANNELS = (1, 1, 3, 8, 16, 33, 64, 130)
INNER = (1, 1, 2, 5, 7, 16, 64, 97, 257, 1024)
BLOCKS = (0, 0, 0, 1, 3, 8, 32)
TURNED = (1, 2, 3, 3, 3, 4, 5, 8, 12, 16, 21, 32)
# Fields that only integers have.
OF_INTEGERS = ("zero_point", "rounding", "zero_point_add", "fma", "subtraction", "rule", "mapping")
# An fma needs these.
WITH_FMA = {"quotient": "reciprocal", "zero_point_add": "before_round", "precision": "float32", "zero_point": True}
LONG = ((1, 1, 40_003), (1, 1, 65_536), (1, 2, 20_000), (3, 1, 9_999))


def conversions(seed: int, count: int) -> list[Conversion]:
    """Return every op in turn; contradictory draws are drawn again."""
    rng = random.Random(f"conversions {seed}")
    made: list[Conversion] = []
    while len(made) < count:
        problem = _draw(rng, list(CONVERSIONS.values())[len(made) % len(CONVERSIONS)])
        if problem is not None:
            made.append(problem)
    return made


def turned_conversions(seed: int, count: int) -> list[Conversion]:
    """Return conversions that move the channels: both ops in turn, whole words and odd sizes, images of one pixel."""
    rng = random.Random(f"turned conversions {seed}")
    made: list[Conversion] = []
    while len(made) < count:
        op = (Quantize, Dequantize)[len(made) % 2]
        outer, channels, inner = map(rng.choice, (OUTER, TURNED, INNER))
        try:
            made.append(op(outer=outer, channels=channels, inner=inner, **_values(rng, op), channels_last=True))
        except ValueError:
            continue
    return made


def _draw(rng: random.Random, op: type[Conversion]) -> Conversion | None:
    outer, channels, inner = rng.choice(OUTER), rng.choice(CHANNELS), rng.choice(INNER)
    if rng.random() < 0.15:
        outer, channels, inner = rng.choice(LONG)
    values = _values(rng, op)
    try:
        return op(outer=outer, channels=channels, inner=inner, block=rng.choice(BLOCKS), **values)
    except ValueError:
        return None


def _values(rng: random.Random, op: type[Conversion]) -> dict[str, Any]:
    """Draw everything but the sizes and the layout."""
    values: dict[str, Any] = {}
    for entry in fields(op):
        if entry.name in op.allowed:
            values[entry.name] = rng.choice(op.allowed[entry.name])
        elif entry.name in CHOICES:
            values[entry.name] = rng.choice((CHOICES[entry.name][0], rng.choice(CHOICES[entry.name])))
        elif entry.name in FLAGS and entry.name != "channels_last":
            values[entry.name] = rng.random() < 0.6
    if {values.get("precision"), values["x_type"]} <= {"float16", "bfloat16"}:
        values["precision"] = values["x_type"]  # no other type has a 16-bit quotient
    if values.get("fma") == "on":
        values |= {name: value for name, value in WITH_FMA.items() if name in values}
    if {values["x_type"], values["out_type"]} & set(FLOAT8):
        return {name: value for name, value in values.items() if name not in OF_INTEGERS}
    if rng.random() < 0.2 and any(entry.name == "low" for entry in fields(op)):
        values |= {"low": 0, "high": 100} if "uint" in values["out_type"] else {"low": -7, "high": 7}
    return values
