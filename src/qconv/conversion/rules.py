"""Which flags of a conversion cannot be honoured together."""

from __future__ import annotations

import numpy as np

# torch and xnnpack: the least scale. onnx: the scale of a range that is only zero. fbgemm: the small-scale cut-off.
EPS = {"torch": 1.1920929e-07, "onnx": 1.0, "fbgemm": 6.1e-05, "xnnpack": 1.1920929e-07}
LEAST_EPS, MOST_EPS = 2.0**-126, 2.0**126
# Ranges of at most so many steps are exact in fp32, which the choice of a zero point relies on.
MOST_STEPS = 2**24
# A thread has all channels of its pixels in registers, if they change places.
MOST_TURNED = 32


def check_precision(precision: str, x_type: str) -> None:
    if precision in ("float16", "bfloat16") and precision != x_type:
        raise ValueError(
            f"precision={precision!r} with x_type={x_type!r}: a 16-bit quotient is that of 16-bit numbers; use "
            f"x_type={precision!r}, or precision float32 or float64"
        )


def check_added(name: str, there: bool, added: str) -> None:
    if added != "after_round" and not there:
        raise ValueError(f"zero_point_add={added!r} without {name}: there is nothing to add; leave it out")


def check_channels_last(channels: int, block: int) -> None:
    if block:
        raise ValueError(
            f"channels_last with block={block}: channels that change places have a scale each, not a block"
        )
    if channels > MOST_TURNED:
        raise ValueError(
            f"channels_last with channels={channels}: at most {MOST_TURNED} channels change places; convert without, "
            "and transpose the integers"
        )


def check_fma(quotient: str, zero_point_add: str, precision: str) -> None:
    if (quotient, zero_point_add, precision) != ("reciprocal", "before_round", "float32"):
        raise ValueError(
            f"fma='on' with quotient={quotient!r}, zero_point_add={zero_point_add!r} and precision={precision!r}: only "
            "an fp32 product to which the zero point is added before the rounding can be fused; use reciprocal, "
            "before_round and float32, or leave fma off"
        )


def check_range(low: int, high: int) -> None:
    if high - low > MOST_STEPS:
        raise ValueError(
            f"low={low} with high={high}: a zero point is chosen in fp32, which is exact for at most {MOST_STEPS} "
            "steps; give a narrower low and high"
        )


def check_mapping(rule: str, mapping: str, low: int, high: int) -> None:
    if rule != "torch" and mapping != "asymmetric":
        raise ValueError(f"rule={rule!r} with mapping={mapping!r}: that rule is asymmetric; use rule torch")
    if mapping == "symmetric_no_clip" and not low < 0 < high:
        raise ValueError(
            f"mapping='symmetric_no_clip' with low={low} and high={high}: it divides by both, so low must be below "
            "zero and high above; use mapping symmetric or a signed range"
        )


def check_eps(eps: object) -> float:
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.floating) or not LEAST_EPS <= eps <= MOST_EPS:
        raise ValueError(f"eps={eps!r} must be a number from {LEAST_EPS} to {MOST_EPS}, where fp32 is normal")
    return float(eps)
