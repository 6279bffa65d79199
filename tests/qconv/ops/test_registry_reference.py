"""The oracle compared with the definition, written as loops over exact integers and fractions, and with values computed
by hand."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qconv import Conv2d, Parameters, Quantization
from qconv.arithmetic.quantization import BIASES, OUT_TYPES
from qconv.dtypes import FLOAT8
from qconv.ops import convolution, registry

# Activations that fractions can follow; test_activation.py compares the curves with their real functions.
EXACT = ("none", "relu", "relu6", "leaky_relu", "clamp", "hardswish")

# ---- the definition, slowly ----


def accumulators(problem: Conv2d, x: Any, w: Any, x_zero: int, w_zero: list[int]) -> dict[tuple[int, ...], int]:
    """Return every output position's sum, in Python integers. Window positions outside the image add nothing."""
    sums = {}
    for n, i, j, k in itertools.product(*map(range, problem.y_shape)):
        group = k // (problem.k // problem.groups)
        total = 0
        for r, s, c in itertools.product(range(problem.r), range(problem.s), range(problem.c // problem.groups)):
            row = i * problem.stride[0] + r * problem.dilation[0] - problem.pad[0]
            column = j * problem.stride[1] + s * problem.dilation[1] - problem.pad[1]
            if 0 <= row < problem.h and 0 <= column < problem.w:
                activation = int(x[n, row, column, group * (problem.c // problem.groups) + c])
                total += (activation - x_zero) * (int(w[k, r, s, c]) - w_zero[k])
        sums[n, i, j, k] = total
    return sums


def nearest_even(value: Fraction) -> int:
    return round(value)  # Python rounds half to even


def rounded(value: Fraction, bits: int, least_exponent: int) -> Fraction:
    """Round to a binary floating-point number with `bits` significant bits; half to even."""
    if value == 0:
        return value
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, least_exponent)
    return nearest_even(value / unit) * unit


def fp32(value: Fraction) -> Fraction:
    return rounded(value, 24, -149)


# Significant bits, the exponent of the least number, the largest number, and what a larger one becomes.
NARROW = {
    "float16": (11, -24, 65504.0, float("inf")),
    "bfloat16": (8, -133, 3.3895314e38, float("inf")),
    "float8_e4m3fn": (4, -9, 448.0, 448.0),
    "float8_e5m2": (3, -16, 57344.0, 57344.0),
}


def finished(q: Quantization, acc: int, p: dict[str, Any], k: int) -> Any:
    """Return one output from its sum: each fp32 operation is exact and then rounded once."""
    if q.bias == "int32":
        acc += int(p["bias"][k])
    if q.out_type == "int32":
        return acc
    x_scale, y_scale = Fraction(float(p["x_scale"])), Fraction(float(p["y_scale"]))
    w_scale = Fraction(float(p["w_scale"][k] if q.per_channel else p["w_scale"]))
    scale = fp32(x_scale * w_scale)
    value = fp32(Fraction(acc))
    if q.bias == "float32":
        value = fp32(value + fp32(Fraction(float(p["bias"][k])) / scale))
    quantizes = q.out_type in ("int8", "uint8")
    in_units = quantizes or q.out_type in FLOAT8
    one_multiplier = in_units and q.activation != "hardswish"
    unit = y_scale if one_multiplier else Fraction(1)
    value = fp32(value * (fp32(scale / y_scale) if one_multiplier else scale))
    if q.activation in ("relu", "relu6"):
        value = max(value, Fraction(0))
    if q.activation == "relu6":
        value = min(value, fp32(Fraction(6) / unit))
    if q.activation == "leaky_relu" and value < 0:
        value = fp32(value * Fraction(float(p["slope"])))
    if q.activation == "clamp":
        low, high = (fp32(Fraction(float(p[name])) / unit) for name in ("low", "high"))
        value = min(max(value, low), high)
    if q.activation == "hardswish":
        gate = min(max(fp32(value + 3), Fraction(0)), Fraction(6))
        value = fp32(fp32(value * gate) / 6)
        value = fp32(value * fp32(1 / y_scale)) if in_units else value
    if quantizes:
        least, most = (-128, 127) if q.out_type == "int8" else (0, 255)
        return min(max(nearest_even(value) + int(p["y_zero_point"]), least), most)
    if q.out_type == "float32":
        return float(value)
    digits, least_exponent, largest, beyond = NARROW[q.out_type]
    narrow = rounded(value, digits, least_exponent)
    return float(narrow) if abs(narrow) <= largest else beyond * (1 if narrow > 0 else -1)


def tiny(rng: random.Random, **quantization: Any) -> Conv2d:
    groups = rng.choice([1, 1, 2, 3])
    r, s = rng.randint(1, 3), rng.randint(1, 3)
    dilation, pad = (rng.randint(1, 2), rng.randint(1, 3)), tuple(rng.randint(0, 3) for _ in range(4))
    least_h, least_w = (r - 1) * dilation[0] + 1 - pad[0] - pad[2], (s - 1) * dilation[1] + 1 - pad[1] - pad[3]
    return Conv2d(
        rng.randint(1, 2),
        max(1, least_h) + rng.randint(0, 3),
        max(1, least_w) + rng.randint(0, 3),
        groups * rng.randint(1, 3),
        groups * rng.randint(1, 3),
        r,
        s,
        stride=(rng.randint(1, 3), rng.randint(1, 2)),
        dilation=dilation,
        pad=pad,  # type: ignore[arg-type]
        groups=groups,
        quantization=Quantization(**quantization),
    )


BYTES = ("int8", "uint8")


@pytest.mark.turns
@pytest.mark.parametrize("out_type", OUT_TYPES)
@pytest.mark.parametrize("seed", range(12))
def test_the_oracle_is_the_definition(out_type: str, seed: int) -> None:
    rng = random.Random(f"{out_type} {seed}")
    scaled, quantizes = out_type != "int32", out_type in ("int8", "uint8")
    w_zero_point = rng.random() < 0.5
    problem = tiny(
        rng,
        x_type=rng.choice(BYTES),
        w_type=rng.choice(BYTES),
        out_type=out_type,
        per_channel=rng.random() < 0.5 and (scaled or w_zero_point),
        x_zero_point=rng.random() < 0.5,
        w_zero_point=w_zero_point,
        y_zero_point=rng.random() < 0.5 and quantizes,
        bias=rng.choice(BIASES if scaled else BIASES[:2]),
        activation=rng.choice(EXACT) if scaled else "none",
    )
    drawn = registry.draw(problem, seed)
    given = vars(problem.checked(drawn.parameters))
    w_zero = [int(zero) for zero in np.broadcast_to(given["w_zero_point"], (problem.k,))]
    sums = accumulators(problem, *drawn.arrays, int(given["x_zero_point"]), w_zero)
    got = convolution.conv2d(problem, *drawn.arrays, problem.checked(drawn.parameters))
    assert (str(got.dtype), got.shape) == (out_type, problem.y_shape)
    for where, total in sums.items():
        want = finished(problem.quantization, total, given, where[3])
        assert got[where].item() == want, f"{problem} at {where}: the sum is {total}"


# ---- by hand: 1x1 convolutions of one channel with w = 1, so that the sum is x ----


def outputs(x: list[int], *, x_type: str = "int8", w: int = 1, given: dict[str, Any], **asked: Any) -> list[Any]:
    problem = Conv2d(1, 1, len(x), 1, 1, 1, 1, quantization=Quantization(x_type=x_type, **asked))
    parameters = Parameters(**given).checked(problem.quantization, 1)
    activations = np.array(x, x_type).reshape(problem.x_shape)
    result: list[Any] = (
        convolution.conv2d(problem, activations, np.full((1, 1, 1, 1), w, "int8"), parameters).ravel().tolist()
    )
    return result


def test_a_half_rounds_to_even() -> None:
    x = [1, 3, 5, 7, -1, -3, -5, -7, 2]
    assert outputs(x, given={"x_scale": 0.5}) == [0, 2, 2, 4, 0, -2, -2, -4, 1]


def test_the_zero_point_is_added_after_rounding() -> None:
    """With an odd zero point it matters: 0.5 + 1 would round to 2, and 2.5 + 1 to 4."""
    given = {"x_scale": 0.5, "y_zero_point": 1}
    assert outputs([1, 3, 5, -1, -3], given=given, y_zero_point=True) == [1, 3, 3, 1, -1]
    given = {"x_scale": 0.5, "y_zero_point": -7}
    assert outputs([1, 3, 5, -1, -3], given=given, y_zero_point=True) == [-7, -5, -5, -7, -9]


def test_the_output_saturates() -> None:
    assert outputs([127, -127, 1, -1], w=127, given={}) == [127, -128, 127, -127]
    assert outputs([127, -127, 3, -1], w=100, given={}, out_type="uint8") == [255, 0, 255, 0]


def test_the_clamp_comes_after_the_zero_point() -> None:
    """-200 + 100 is within int8, and so is 200 - 100; 28 + 100 is not."""
    given = {"y_zero_point": 100}
    assert outputs([-100, 14, 13], w=2, given=given, y_zero_point=True) == [-100, 127, 126]
    given = {"y_zero_point": -100}
    assert outputs([100, -14, -15], w=2, given=given, y_zero_point=True) == [100, -128, -128]
    given = {"y_zero_point": 200}
    assert outputs([-100, -99, 27, 28], w=2, given=given, y_zero_point=True, out_type="uint8") == [0, 2, 254, 255]


def test_relu_is_of_the_real_value() -> None:
    """A negative value becomes a real zero, which is stored as the zero point."""
    given = {"y_zero_point": 5}
    assert outputs([-3, 0, 3], given=given, y_zero_point=True, activation="relu") == [5, 5, 8]
    given = {"y_zero_point": -5}
    assert outputs([-3, 0, 3, 127], given=given, y_zero_point=True, activation="relu") == [-5, -5, -2, 122]
    assert outputs([-3, 3], given={"x_scale": 0.5}, activation="relu", out_type="float32") == [0.0, 1.5]


def test_relu6_stops_at_six_in_units_of_the_output() -> None:
    given = {"y_scale": 0.25}  # 6 is 24
    assert outputs([-1, 1, 6, 7, 127], given=given, activation="relu6") == [0, 4, 24, 24, 24]
    given = {"y_scale": 0.25, "y_zero_point": -100}
    assert outputs([-1, 1, 6, 7], given=given, activation="relu6", y_zero_point=True) == [-100, -96, -76, -76]
    given = {"y_scale": 0.8}  # fp32(6) / fp32(0.8) = 7.5, a tie
    assert outputs([7, 5], given=given, activation="relu6") == [8, 6]
    given = {"x_scale": 0.5}
    assert outputs([-1, 11, 12, 13], given=given, activation="relu6", out_type="float32") == [0.0, 5.5, 6.0, 6.0]


def test_the_multiplier_is_a_chain_of_fp32_operations() -> None:
    """(x_scale * w_scale) / y_scale, each rounded: 2.3749998 and 7.1000004 instead of the exact 2.375 and 7.1, rounded
    once, so that the ties fall to the other side."""
    given = {"x_scale": 0.35, "w_scale": 0.95, "y_scale": 0.14}
    assert outputs([4, -4], given=given) == [9, -9]  # 9.499999; not 9.5, which is 10
    given = {"x_scale": 0.71, "w_scale": 0.8, "y_scale": 0.08}
    assert outputs([15, -15], given=given) == [107, -107]  # 106.50001; not 106.5, which is 106


def test_an_fp32_bias_is_divided_by_the_scale_and_added_before_it() -> None:
    """Multiplying by the reciprocal would give -3.4000001, adding the bias after scaling -3.3999996."""
    given = {"x_scale": 0.44, "bias": np.array([1.88], "float32")}
    assert outputs([-12], given=given, bias="float32", out_type="float32") == [float(np.float32(-3.3999999))]
    given = {"x_scale": 0.5, "bias": np.array([0.25], "float32")}  # half a unit of the accumulator
    assert outputs([1, -1, 2], given=given, bias="float32", out_type="float32") == [0.75, -0.25, 1.25]


def test_the_sum_becomes_a_float_after_the_int32_bias() -> None:
    """2**24 + 1 and 2**24 + 3 are ties of fp32."""
    given = {"bias": np.array([2**24], "int32")}
    assert outputs([0, 1, 2, 3], given=given, bias="int32", out_type="float32") == [
        16777216.0,
        16777216.0,
        16777218.0,
        16777220.0,
    ]
    assert outputs([0, 1, 2, 3], given=given, bias="int32", out_type="int32") == [2**24 + i for i in range(4)]


def test_float16_rounds_to_even_overflows_and_has_subnormals() -> None:
    base = {"bias": np.array([2048], "int32")}
    assert outputs([0, 1, 2, 3], given=base, bias="int32", out_type="float16") == [2048, 2048, 2050, 2052]
    edge = {"bias": np.array([65504], "int32")}
    assert outputs([0, 15, 16], given=edge, bias="int32", out_type="float16") == [65504, 65504, float("inf")]
    edge = {"bias": np.array([-65504], "int32")}
    assert outputs([0, -15, -16], given=edge, bias="int32", out_type="float16") == [-65504, -65504, -float("inf")]
    unit = 2.0**-25  # half of the least float16
    given = {"x_scale": unit}
    assert outputs([1, 2, 3, 5, -1], given=given, out_type="float16") == [0.0, 2 * unit, 4 * unit, 4 * unit, 0.0]


def test_int32_output_is_the_sum_itself() -> None:
    given = {"x_zero_point": -128}
    assert outputs([127, -128], w=-128, given=given, x_zero_point=True, out_type="int32") == [-32640, 0]


@pytest.mark.parametrize("x_zero", [0, 10, -128])
def test_padding_is_a_real_zero(x_zero: int) -> None:
    """One pixel of value 3 under every tap of a filter of ones: padding adds nothing, whatever the zero point."""
    q = Quantization(x_zero_point=x_zero != 0, out_type="int32")
    problem = Conv2d(1, 1, 1, 1, 1, 1, 3, pad=(0, 2, 0, 2), quantization=q)
    parameters = Parameters(x_zero_point=x_zero).checked(q, 1)
    x = np.full(problem.x_shape, 3, "int8")
    got = convolution.conv2d(problem, x, np.ones(problem.w_shape, "int8"), parameters)
    assert got.ravel().tolist() == [3 - x_zero] * 3


def test_zero_points_are_per_channel_where_asked() -> None:
    q = Quantization(w_zero_point=True, per_channel=True, out_type="int32")
    problem = Conv2d(1, 1, 1, 1, 3, 1, 1, quantization=q)
    parameters = Parameters(w_zero_point=[1, -2, 3]).checked(q, 3)
    x, w = np.full(problem.x_shape, 5, "int8"), np.zeros(problem.w_shape, "int8")
    got = convolution.conv2d(problem, x, w, parameters)
    assert got.ravel().tolist() == [-5, 10, -15]


def test_a_batch_is_its_images_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many images are computed a few at a time: here five and finally two."""
    monkeypatch.setattr(convolution, "AT_A_TIME", 2000)
    q = Quantization(per_channel=True, bias="int32", activation="relu", residual="int8")
    problem = Conv2d(37, 5, 6, 8, 12, 3, 3, pad=(1, 1, 1, 1), quantization=q)
    drawn = registry.draw(problem, 3)
    parameters = problem.checked(drawn.parameters)
    x, w, residual = drawn.arrays
    one = replace(problem, n=1)
    singly = [convolution.conv2d(one, x[i : i + 1], w, parameters, residual[i : i + 1]) for i in range(37)]
    assert np.array_equal(registry.compute(problem, drawn)[0], np.concatenate(singly))
