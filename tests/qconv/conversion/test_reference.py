"""The oracle of the conversions compared with rational arithmetic and with values computed by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scalar_conversion
from conversion_calls import compute, draw

from qconv.arithmetic.narrow import narrow
from qconv.conversion import CONVERSIONS, REALS, Choose, Dequantize, Dynamic, Quantize
from qconv.conversion.reference import broadcast
from qconv.dtypes import ELEMENT_TYPES, FLOAT8

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors/quantize.json").read_text())
ZEROS = {"quantize": ("zero_point",), "dequantize": ("zero_point",), "requantize": ("x_zero_point", "y_zero_point")}


def run(vector: dict[str, Any]) -> Any:
    flags = {**vector["flags"], **dict.fromkeys(ZEROS[vector["op"]], True)}
    problem = CONVERSIONS[vector["op"]](outer=1, channels=1, inner=1, **flags)
    arrays = []
    for tensor in problem.inputs:
        arrays.append(np.full(tensor.shape, vector["given"][tensor.name]).astype(ELEMENT_TYPES[tensor.dtype].numpy))
    return compute(problem, tuple(arrays))[0].reshape(())


@pytest.mark.parametrize("number", range(len(VECTORS)))
def test_stored_vectors(number: int) -> None:
    vector = VECTORS[number]
    assert scalar_conversion.element(vector) == vector["expected"]
    assert float(run(vector)) == vector["expected"], vector


def test_the_table_of_the_contract() -> None:
    page = (Path(__file__).parents[3] / "docs/contract.md").read_text()
    head, *rows = page[page.index("| x, scale, zero point |") :].split("\n\n")[0].splitlines()
    modes = [name.strip() for name in head.strip("|").split("|")[1:]]
    for row in rows[1:]:
        given, *outputs = row.strip("|").split("|")
        x, scale, zero_point = (float(number) for number in given.split(","))
        numbers = {"x": x, "scale": scale, "zero_point": zero_point}
        assert any(vector["given"] == numbers for vector in VECTORS)
        for mode, output in zip(modes, outputs, strict=True):
            problem = Quantize.of(mode, outer=1, channels=1, inner=1, zero_point=True)
            arrays = (np.full(t.shape, numbers[t.name]).astype(ELEMENT_TYPES[t.dtype].numpy) for t in problem.inputs)
            assert compute(problem, tuple(arrays))[0].item() == int(output), (mode, row)


def test_every_flip_of_a_flag_is_seen_by_a_vector() -> None:
    """The vectors come in pairs with the same numbers, whose flags differ in one and whose outputs differ."""
    flips = set()
    for one, other in zip(VECTORS[::2], VECTORS[1::2], strict=True):
        assert one["given"] == other["given"]
        assert one["expected"] != other["expected"]
        changed = {k: v for k, v in other["flags"].items() if one["flags"].get(k) != v}
        assert len(changed) == 1
        flips |= {(one["op"], *next(iter(changed.items())))}
    for flip in (
        *itertools.product(["quantize", "requantize"], ["rounding"], ["half_away", "rtz"]),
        *itertools.product(["quantize", "requantize"], ["zero_point_add"], ["before_round"]),
        *itertools.product(["quantize", "dequantize", "requantize"], ["precision", "scale_type"], ["float64"]),
        *itertools.product(["requantize"], ["order"], ["multiply_divide", "multiply_reciprocal"]),
        *itertools.product(["quantize"], ["precision"], ["float16", "bfloat16"]),
        ("quantize", "quotient", "reciprocal"),
        ("quantize", "fma", "on"),
        ("dequantize", "subtraction", "real"),
    ):
        assert flip in flips


@pytest.mark.turns
@pytest.mark.parametrize("x_type", REALS)
def test_random_elements_in_rational_arithmetic(x_type: str) -> None:
    for quotient, rounding, add in itertools.product(
        ("divide", "reciprocal"), ("rne", "half_away", "rtz"), ("after_round", "before_round")
    ):
        flags = {"x_type": x_type, "quotient": quotient, "rounding": rounding, "zero_point_add": add}
        flags["precision"] = x_type
        problem = Quantize(1, 6, 20, zero_point=True, **flags)
        x, scale, zero = draw(problem, 5)
        (y,) = compute(problem, (x, scale, zero))
        given = scalar_conversion.Flags.of(flags)
        for (_, c, i), value in np.ndenumerate(x.astype(np.float64)):
            if np.isfinite(value) and abs(value) < 1e4 and abs(value) > 1e-5 * scale[c]:
                expected = scalar_conversion.quantize(float(value), float(scale[c]), int(zero[c]), given)
                assert y[0, c, i] == expected, (flags, value, scale[c], zero[c])


@pytest.mark.parametrize("x_type", REALS)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_random_8_bit_floats_in_rational_arithmetic(dtype: str, x_type: str) -> None:
    for quotient in ("divide", "reciprocal"):
        flags = {"x_type": x_type, "out_type": dtype, "quotient": quotient, "precision": x_type}
        x, scale = draw(Quantize(1, 6, 40, **flags), 5)
        (y,) = compute(Quantize(1, 6, 40, **flags), (x, scale))
        given = scalar_conversion.Flags.of(flags)
        for (_, c, i), value in np.ndenumerate(x.astype(np.float64)):
            if np.isfinite(value) and (abs(value) > 2.0**-20 or value == 0) and abs(value) < 1e4 * scale[c]:
                want = scalar_conversion.quantize(float(value), float(scale[c]), 0, given)
                assert float(y[0, c, i]) == want, (flags, value, scale[c])
                assert np.signbit(y[0, c, i]) == np.signbit(value)
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    x = every[np.isfinite(every)]
    back = {"x_type": dtype, "out_type": x_type, "precision": "float64" if x_type == "float64" else "float32"}
    (y,) = compute(Dequantize(1, 1, len(x), **back), (x.reshape(1, 1, -1), np.float32([0.3])))
    for value, got in zip(x.tolist(), y.ravel().astype(np.float64), strict=True):
        wanted = scalar_conversion.dequantize(value, float(np.float32(0.3)), 0, scalar_conversion.Flags.of(back))
        assert got == wanted, (back, value)


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("x_type", REALS)
def test_a_nan_stays_one_and_infinities_saturate_to_8_bit_floats(x_type: str, dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(ELEMENT_TYPES[x_type].numpy).reshape(1, 1, 4)
    (y,) = compute(Quantize(1, 1, 4, x_type=x_type, out_type=dtype), (x, np.ones(1, np.float32)))
    most = ELEMENT_TYPES[dtype].largest_finite
    assert y.view(np.uint8).ravel()[[0, 3]].tolist() == [0x7F, 0x80]
    assert y.astype(np.float32).ravel()[1:3].tolist() == [most, -most]


@pytest.mark.parametrize("out_type", ["int8", "uint8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("zero_point", [False, True])
def test_nan_becomes_low_and_infinities_saturate(zero_point: bool, out_type: str) -> None:
    problem = Quantize(1, 1, 4, out_type=out_type, zero_point=zero_point)
    x = np.array([np.nan, np.inf, -np.inf, 1e30], np.float32).reshape(1, 1, 4)
    zero = (np.array([7], np.int32),) if zero_point else ()
    (y,) = compute(problem, (x, np.ones(1, np.float32), *zero))
    assert y.reshape(-1).tolist() == [problem.low, problem.high, problem.low, problem.high]


def test_int32_is_exact_to_its_ends() -> None:
    problem = Quantize(1, 1, 3, x_type="float64", out_type="int32", zero_point=True, precision="float64")
    x = np.array([2.0**31 - 1, 2.0**32, -1.0]).reshape(1, 1, 3)
    for zero, expected in ((0, [2**31 - 1, 2**31 - 1, -1]), (-(2**31), [-1, 2**31 - 1, -(2**31)])):
        (y,) = compute(problem, (x, np.ones(1, np.float32), np.array([zero], np.int32)))
        assert y.reshape(-1).tolist() == expected


def test_blocks() -> None:
    problem = Quantize(2, 5, 3, block=2)
    assert broadcast(problem, np.arange(18)).tolist()[1][4] == [15, 16, 17]
    x, scale = draw(problem, 1)
    (y,) = compute(problem, (x, scale))
    for o, c, i in np.ndindex(problem.shape):
        alone = Quantize(1, 1, 1)
        at = (o * problem.blocks + c // 2) * problem.inner + i
        assert compute(alone, (x[o, c, i].reshape(1, 1, 1), scale[at : at + 1]))[0].item() == y[o, c, i]


def chosen(x: Any, **spec: Any) -> tuple[float, int]:
    x = np.asarray(x, np.float32).reshape(1, 1, -1)
    scale, zero = compute(Choose(1, 1, x.size, **spec), (x,))
    assert np.isfinite(scale).all()
    return float(scale[0]), int(zero[0])


MOST = float(np.finfo(np.float32).max)


def test_choices_worked_out_by_hand() -> None:
    assert chosen([0, 0]) == (float(np.float32(1.1920929e-07)), -128)
    assert chosen([0, 0], rule="onnx", out_type="uint8") == (1.0, 0)
    assert chosen([0, 0], rule="fbgemm", out_type="uint8") == (float(np.float32(0.1)), 0)
    assert chosen([-1, 254]) == (1.0, -127)
    assert chosen([-255, -3], out_type="uint8") == (1.0, 255)
    assert chosen([255, 3], out_type="uint8") == (1.0, 0)
    assert chosen([-2.5, 252.5], out_type="uint8") == (1.0, 2)
    assert chosen([-2.5, 252.5], out_type="uint8", rule="onnx") == (1.0, 2)
    # -128 - rne(-2.5) = -126, and rne(-128 + 2.5) = -126; -3.5 separates the two only with an odd low.
    assert chosen([-2.5, 251.5], low=-127) == (1.0, -125)
    assert chosen([-2.5, 251.5], low=-127, rule="onnx") == (1.0, -124)
    assert chosen([-127.5, 3], mapping="symmetric") == (1.0, 0)
    assert chosen([-127.5, 3], mapping="symmetric", out_type="uint8") == (1.0, 128)
    assert chosen([-127.5, 127], mapping="symmetric_no_clip") == (1.0, 0)
    assert chosen([-128, 12], mapping="symmetric_no_clip") == (1.0, 0)


def test_nans_are_ignored_and_infinite_ranges_are_finite() -> None:
    nan, inf = np.nan, np.inf
    assert chosen([nan, -1, 254, nan]) == (1.0, -127)
    assert chosen([nan, nan]) == chosen([0, 0])
    for rule in ("torch", "onnx"):
        assert chosen([-inf, 1], rule=rule) == (MOST, 127)
        assert chosen([-1, inf], rule=rule) == (MOST, -128)
        assert chosen([-inf, inf], rule=rule) == (MOST, 127)
    for rule, low in itertools.product(("fbgemm", "xnnpack"), (-inf, -1)):
        scale, zero = chosen([low, inf], rule=rule)
        assert (scale, zero) == (MOST, -128)
    assert chosen([-MOST, MOST], mapping="symmetric") == (float(np.float32(MOST) / np.float32(127.5)), 0)


def test_dynamic_is_choose_then_quantize() -> None:
    for seed, rule in enumerate(("torch", "onnx", "fbgemm", "xnnpack")):
        problem = Dynamic(2, 11, 30, rule=rule, x_type="float16")
        (x,) = draw(problem, seed)
        y, scale, zero = compute(problem, (x,))
        again = compute(problem.choose, (x,))
        assert (again[0] == scale).all()
        assert (again[1] == zero).all()
        assert (compute(problem.quantize, (x, scale, zero))[0] == y).all()


def scale_of(x: Any, dtype: str, **spec: Any) -> float:
    x = np.asarray(x, ELEMENT_TYPES[spec.get("x_type", "float32")].numpy).reshape(1, 1, -1)
    (scale,) = compute(Choose(1, 1, x.size, out_type=dtype, **spec), (x,))
    return float(scale[0])


def test_scales_of_8_bit_floats_worked_out_by_hand() -> None:
    nan, inf = np.nan, np.inf
    assert scale_of([-448, 3, nan], "float8_e4m3fn") == 1.0
    assert scale_of([-1, 57344.0], "float8_e5m2") == 1.0
    assert scale_of([0.1, -0.2], "float8_e4m3fn") == float(np.float32(0.2) / np.float32(448))
    assert scale_of([0, -0.0], "float8_e4m3fn") == 2.0**-126
    assert scale_of([nan, nan], "float8_e5m2") == 2.0**-126
    assert scale_of([1e-5], "float8_e4m3fn", eps=0.25) == 0.25
    assert scale_of([inf, 1], "float8_e4m3fn") == MOST
    assert scale_of([-MOST], "float8_e5m2") == float(np.float32(MOST) / np.float32(57344))
    assert scale_of([0.1], "float8_e4m3fn", x_type="float64", scale_type="float64") == 0.1 / 448
    assert scale_of([1e300], "float8_e4m3fn", x_type="float64") == MOST


@pytest.mark.parametrize("dtype", FLOAT8)
def test_dynamic_uses_the_largest_number_of_an_8_bit_float(dtype: str) -> None:
    problem = Dynamic(2, 11, 30, out_type=dtype, x_type="bfloat16")
    (x,) = draw(problem, 3)
    y, scale = compute(problem, (x,))
    assert (compute(problem.choose, (x,))[0] == scale).all()
    assert (compute(problem.quantize, (x, scale))[0].view(np.uint8) == y.view(np.uint8)).all()
    largest = np.nanmax(np.abs(y.astype(np.float32)), axis=(0, 2))
    finite = np.isfinite(np.where(np.isnan(x), 0, x).astype(np.float32)).all(axis=(0, 2))
    assert (largest[finite] == ELEMENT_TYPES[dtype].largest_finite).sum() >= finite.sum() - 2  # of zeros


def test_fp64_is_rounded_once_to_16_bits() -> None:
    # Just above the middle of two bfloat16: fp32 in between would make it a tie.
    value = np.array([1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 + 2.0**-40), 1 + 2.0**-8, np.nan, np.inf, 1e-300])
    assert narrow(value, "bfloat16").astype(np.float64)[:3].tolist() == [1 + 2.0**-7, -(1 + 2.0**-7), 1.0]
    assert np.isnan(narrow(value, "bfloat16").astype(np.float64)[3])


@pytest.mark.parametrize("dtype", FLOAT8)
def test_fp64_is_rounded_once_to_8_bits(dtype: str) -> None:
    """fp32 in between would make ties of these, and those would go down to even."""
    half_step = 2.0 ** -scalar_conversion.DIGITS[dtype][0]
    value = np.array([1 + half_step + 2.0**-40, 1 + half_step, 1e300, -np.inf])
    most = ELEMENT_TYPES[dtype].largest_finite
    assert narrow(value, dtype).astype(np.float64).tolist() == [1 + 2 * half_step, 1.0, most, -most]


@pytest.mark.parametrize("dtype", FLOAT8)
def test_samples_of_8_bit_floats_have_every_number_and_ties(dtype: str) -> None:
    problem = Quantize(1, 20, 400, out_type=dtype)
    x, scale = draw(problem, 1)
    (y,) = compute(problem, (x, scale))
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    assert set(every[np.isfinite(every)].view(np.uint8)) <= set(y.view(np.uint8).ravel())
    assert np.isnan(y).any()
    units = x.astype(np.float64) / broadcast(problem, scale)
    most = ELEMENT_TYPES[dtype].largest_finite
    assert 0.001 < (np.abs(units) > most).mean() < 0.2
    numbers = np.unique(every[np.isfinite(every)].astype(np.float64))
    assert np.isin(units, (numbers[1:] + numbers[:-1]) / 2).mean() > 0.05
    (bits,) = draw(Dequantize(1, 20, 400, x_type=dtype), 1)[:1]
    assert set(bits.view(np.uint8).ravel()) == set(every[np.isfinite(every)].view(np.uint8))


def test_samples_show_what_they_are_for() -> None:
    problem = Quantize(1, 200, 100, zero_point=True)
    x, scale, zero = draw(problem, 1)
    (y,) = compute(problem, (x, scale, zero))
    units = np.where(np.isfinite(x), x, 0).astype(np.float64) / broadcast(problem, scale)
    assert 0.02 < np.isin(y, (-128, 127)).mean() < 0.3
    assert (np.abs(units - np.trunc(units)) == 0.5).mean() > 0.05
    assert len(np.unique(y)) == 256
    assert (np.signbit(x) & (x == 0)).any()
    assert all(
        (a.view(np.uint8) == b.view(np.uint8)).all() for a, b in zip(draw(problem, 1), (x, scale, zero), strict=True)
    )
    with pytest.raises(ValueError, match=r"2 arrays for quantize.*it takes x, scale, zero_point"):
        compute(problem, (x, scale))
    with pytest.raises(ValueError, match=r"scale is float64 of shape"):
        compute(problem, (x, scale.astype(np.float64), zero))
