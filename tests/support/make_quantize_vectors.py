"""Write tests/vectors/quantize.json: for every flag, inputs whose output changes if that flag alone does.

    python tests/support/make_quantize_vectors.py

The expected outputs are those of `scalar_conversion`, in rational arithmetic.
"""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

from scalar_conversion import element, rounded_to

PATH = Path(__file__).parents[1] / "vectors/quantize.json"
EACH = 4

RECIPROCAL = {"quotient": "reciprocal"}
BEFORE = {"quotient": "reciprocal", "zero_point_add": "before_round"}
# The op, the flags that both have, and the flipped one.
FLIPS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("quantize", {}, {"quotient": "reciprocal"}),
    ("quantize", {}, {"rounding": "half_away"}),
    ("quantize", {}, {"rounding": "rtz"}),
    ("quantize", {}, {"zero_point_add": "before_round"}),
    ("quantize", {}, {"precision": "float64"}),
    ("quantize", {"x_type": "float64"}, {"precision": "float64"}),
    ("quantize", {"x_type": "float16"}, {"precision": "float16"}),
    ("quantize", {"x_type": "bfloat16"}, {"precision": "bfloat16"}),
    ("quantize", {"precision": "float64"}, {"scale_type": "float64"}),
    ("quantize", RECIPROCAL, {"scale_type": "float64"}),
    ("quantize", BEFORE, {"fma": "on"}),
    ("quantize", {"out_type": "int32"}, {"zero_point_add": "before_round"}),
    ("quantize", {"out_type": "uint16"}, {"zero_point_add": "before_round"}),
    ("quantize", {"out_type": "uint8", "x_type": "float16", **RECIPROCAL}, {"precision": "float16"}),
    ("dequantize", {"x_type": "int32"}, {"subtraction": "real"}),
    ("dequantize", {"x_type": "int32"}, {"precision": "float64"}),
    ("dequantize", {"x_type": "int16", "precision": "float64"}, {"scale_type": "float64"}),
    ("dequantize", {"x_type": "int8", "out_type": "float16"}, {"out_type": "bfloat16"}),
    ("dequantize", {"x_type": "int32", "out_type": "float64"}, {"precision": "float64"}),
    ("requantize", {}, {"order": "multiply_divide"}),
    ("requantize", {}, {"order": "multiply_reciprocal"}),
    ("requantize", {"order": "multiply_divide"}, {"order": "multiply_reciprocal"}),
    ("requantize", {}, {"rounding": "half_away"}),
    ("requantize", {}, {"rounding": "rtz"}),
    ("requantize", {}, {"zero_point_add": "before_round"}),
    ("requantize", {"order": "multiply_divide"}, {"precision": "float64"}),
    ("requantize", {"precision": "float64", "x_type": "int16"}, {"scale_type": "float64"}),
]


def given(op: str, flags: dict[str, str], rng: random.Random) -> dict[str, Any]:
    """Return numbers near a tie: powers of two and the like are exact ties, other scales miss by one rounding."""

    def scale() -> float:
        return rng.choice((0.5, 2.0, 0.25, rng.uniform(0.01, 0.3), rng.randint(1, 60) / 64, rng.randint(1, 99) / 100))

    zero = rng.randint(0, 9)
    if op == "quantize":
        by = scale()
        x = Fraction(rng.randint(-40, 200) * 2 + 1, 2) * Fraction(by)
        x = rounded_to(x, flags.get("x_type", "float32"))
        return {"x": float(x), "scale": by, "zero_point": zero}
    if op == "dequantize":
        if flags["x_type"] == "int32":
            return {"x": rng.randint(-(2**31), 2**31 - 1), "scale": scale(), "zero_point": rng.randint(-(2**30), 2**30)}
        return {"x": rng.randint(-128, 127), "scale": scale(), "zero_point": zero}
    x_scale = scale()
    quotient = rng.choice((0.5, 0.25, 1.5, 2.5, scale()))
    y_scale = float(rounded_to(Fraction(x_scale) / Fraction(quotient), "float32"))
    return {"x": rng.randint(-120, 120), "x_scale": x_scale, "x_zero": zero, "y_scale": y_scale, "y_zero": zero + 3}


def vectors() -> list[dict[str, Any]]:
    rng, found = random.Random(19), []
    for op, base, flip in FLIPS:
        seen = 0
        for _ in range(200_000):
            numbers = given(op, base, rng)
            pair = [{"op": op, "flags": flags, "given": numbers} for flags in (base, {**base, **flip})]
            outputs = [element(vector) for vector in pair]
            if outputs[0] == outputs[1]:
                continue
            found += [{**vector, "expected": output} for vector, output in zip(pair, outputs, strict=True)]
            seen += 1
            if seen == EACH:
                break
        assert seen, (op, base, flip)
    return found


if __name__ == "__main__":
    PATH.write_text("[\n" + ",\n".join(json.dumps(vector) for vector in vectors()) + "\n]\n")
