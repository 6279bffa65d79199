"""Quantize, dequantize, requantize, choose, dynamic as problems: keys, refusals, arrays, presets."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from qconv.conversion.presets import SYSTEMS
from qconv.conversion.problem import (
    CHOICES,
    CONVERSIONS,
    FLAGS,
    REALS,
    SCALED,
    Choose,
    Conversion,
    Dequantize,
    Dynamic,
    Quantize,
    Requantize,
)
from qconv.ops.registry import parse

SIZE: dict[str, Any] = {"outer": 2, "channels": 6, "inner": 5}


def test_the_key_says_sizes_and_types_and_what_differs() -> None:
    problem = Quantize(1, 64, 1024, zero_point=True, quotient="reciprocal")
    assert str(problem) == (
        "quantize:outer=1:channels=64:inner=1024:x_type=float32:out_type=int8:zero_point:quotient=reciprocal"
    )
    assert str(Choose(1, 8, 4, rule="onnx", eps=1 / 255)) == (
        "choose:outer=1:channels=8:inner=4:x_type=float32:out_type=int8:rule=onnx:eps=0.00392156862745098"
    )
    assert (
        str(Quantize(1, 1, 9, low=-127)) == "quantize:outer=1:channels=1:inner=9:x_type=float32:out_type=int8:low=-127"
    )
    assert parse("dequantize:inner=3:channels=2:outer=1") == Dequantize(1, 2, 3)
    amax = Choose(1, 1, 9, out_type="float8_e5m2")
    assert str(amax) == "choose:outer=1:channels=1:inner=9:x_type=float32:out_type=float8_e5m2"
    assert amax == Choose(1, 1, 9, out_type="float8_e5m2", rule="amax", mapping="symmetric", eps=2.0**-126)
    large = Choose(1, 1, 9, rule="onnx", eps=1e20)  # the exponent's plus sign is not a separator
    assert parse(str(large)) == large
    turned = Quantize(2, 3, 9, channels_last=True)
    assert str(turned) == "quantize:outer=2:channels=3:inner=9:x_type=float32:out_type=int8:channels_last"
    assert parse(str(turned)) == turned
    narrow = Quantize(1, 1, 9, out_type="float8_e5m2")
    assert str(narrow) == "quantize:outer=1:channels=1:inner=9:x_type=float32:out_type=float8_e5m2"
    assert parse(str(narrow)) == narrow
    assert Quantize(1, 1, 9, low=-128) == Quantize(1, 1, 9)
    assert hash(Quantize(1, 1, 9)) != hash(Dequantize(1, 1, 9))


def drawn(rng: random.Random) -> Conversion:
    """Draw any accepted problem."""
    while True:
        made = CONVERSIONS[rng.choice(sorted(CONVERSIONS))]
        fields = {name for name in made.__dataclass_fields__ if rng.random() < 0.5}
        spec: dict[str, Any] = {"outer": rng.randint(1, 9), "channels": rng.randint(1, 99), "inner": rng.randint(1, 9)}
        spec |= {name: rng.choice(CHOICES[name]) for name in CHOICES if name in fields}
        spec |= {name: rng.choice(REALS + SCALED) for name in ("x_type", "out_type") if name in fields}
        spec |= {name: True for name in FLAGS if name in fields}
        spec |= {"low": -5} if "low" in fields and "float8" not in spec.get("out_type", "") else {}
        spec |= {"eps": rng.choice((1e-5, 0.5))} if "eps" in fields else {}
        spec |= {"block": rng.randint(0, 32)} if "block" in fields else {}
        try:
            return made(**spec)
        except ValueError:
            continue


def test_keys_go_round() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        problem = drawn(rng)
        assert parse(str(problem)) == problem
        assert vars(parse(str(problem))) == vars(problem)


@pytest.mark.parametrize("mode", [mode for mode in SYSTEMS if mode != "ck"])
@pytest.mark.parametrize("op", CONVERSIONS)
def test_presets_go_round_through_their_keys(op: str, mode: str) -> None:
    if op not in SYSTEMS[mode].ops:
        with pytest.raises(ValueError, match="that system has none; use "):
            CONVERSIONS[op].of(mode, **SIZE)
        return
    has_zero_point = op in ("quantize", "dequantize") and mode != "torchao"
    for flags in ({}, {"zero_point": True} if has_zero_point else {}):
        problem = CONVERSIONS[op].of(mode, **SIZE, **flags)
        assert parse(str(problem)) == problem


E4M3 = {"out_type": "float8_e4m3fn"}
Q, D, R, C, DY = Quantize, Dequantize, Requantize, Choose, Dynamic
REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (Q, {"outer": 0}, r"outer=0 must be between 1"),
    (Q, {"channels": 1.5}, r"channels=1.5 must be an integer"),
    (Q, {"inner": True}, r"inner=True must be an integer"),
    (Q, {"block": -1}, r"block=-1 must be between 0"),
    (Q, {"outer": 2**20, "inner": 2**20}, r"the array has \d+ elements; at most"),
    (Q, {"x_type": "int8"}, r"x_type='int8' is not one of float32"),
    (Q, {"x_type": "float8"}, r"did you mean"),
    (Q, {"out_type": "float32"}, r"out_type='float32' is not one of int8"),
    (Q, {"scale_type": "float16"}, r"scale_type='float16' is not one of float32, float64"),
    (Q, {"low": -129}, r"low=-129 must be between -128 and 127"),
    (Q, {"high": 200}, r"high=200 must be between -128 and 127"),
    (Q, {"low": 5, "high": 5}, r"low=5 with high=5: low must be below high"),
    (Q, {"precision": "float16"}, r"precision='float16' with x_type='float32'"),
    (Q, {"precision": "bfloat16", "x_type": "float16"}, r"precision='bfloat16' with x_type='float16'"),
    (Q, {"quotient": "reciprocol"}, r"did you mean 'reciprocal'"),
    (Q, {"rounding": "up"}, r"rounding='up' is not one of rne, half_away, rtz"),
    (Q, {"channels_last": 1}, r"channels_last=1 must be True or False"),
    (Q, {"channels_last": True, "block": 2}, r"channels_last with block=2: transposed channels have a scale"),
    (D, {"channels_last": True, "channels": 33}, r"channels_last with channels=33: at most 32 channels are transposed"),
    (Q, {**E4M3, "zero_point": True}, r"zero_point=True with out_type='float8_e4m3fn': a float has no zero point"),
    (Q, {**E4M3, "low": -8}, r"low=-8 with out_type='float8_e4m3fn': a float saturates at its largest finite"),
    (Q, {**E4M3, "high": 8}, r"high=8 with out_type='float8_e4m3fn'"),
    (Q, {**E4M3, "rounding": "rtz"}, r"rounding='rtz' with out_type='float8_e4m3fn': a float is rounded half to even"),
    (
        Q,
        {**E4M3, "zero_point_add": "before_round"},
        r"zero_point_add='before_round' with out_type=.* has no zero point",
    ),
    (Q, {**E4M3, "fma": "on"}, r"fma='on' with out_type='float8_e4m3fn': a float has no zero point to add"),
    (D, {"x_type": "float8_e5m2", "zero_point": True}, r"zero_point=True with x_type='float8_e5m2': a float has no"),
    (R, E4M3, r"out_type='float8_e4m3fn' is not one of int8"),
    (Q, {"out_type": "float8_e4m3fnuz"}, r"a FNUZ float, as gfx942 multiplies, is another type than OCP's"),
    (D, {"x_type": "float8_e5m2fnuz"}, r"It is not served: convert to float8_e4m3fn or float8_e5m2"),
    (Q, {"zero_point": 3}, r"zero_point=3 must be True or False"),
    (Q, {"zero_point_add": "before_round"}, r"without zero_point: there is nothing to add"),
    (Q, {"zero_point": True, "fma": "on"}, r"fma='on' with quotient='divide'"),
    (D, {"x_type": "float32"}, r"x_type='float32' is not one of int8"),
    (D, {"out_type": "int8"}, r"out_type='int8' is not one of float32"),
    (D, {"precision": "float16"}, r"precision='float16' is not one of float32, float64"),
    (D, {"subtraction": "real"}, r"without zero_point: there is nothing to subtract"),
    (R, {"order": "divide"}, r"order='divide' is not one of multiply"),
    (R, {"zero_point_add": "before_round"}, r"without y_zero_point"),
    (R, {"x_zero_point": 1}, r"x_zero_point=1 must be True or False"),
    (C, {"block": 4}, r"block=4 in choose: scales are chosen per channel"),
    (C, {"out_type": "int32"}, r"a zero point is chosen in fp32"),
    (C, {"rule": "onnx", "mapping": "symmetric"}, r"that rule is asymmetric"),
    (C, {"rule": "fbgemm", "mapping": "symmetric_no_clip"}, r"that rule is asymmetric"),
    (C, {"out_type": "uint8", "mapping": "symmetric_no_clip"}, r"low must be below zero"),
    (C, {"eps": 0.0}, r"eps=0.0 must be a number from"),
    (C, {"eps": float("nan")}, r"eps=nan must be a number from"),
    (C, {"eps": "1e-5"}, r"eps='1e-5' must be a number"),
    (
        C,
        {**E4M3, "rule": "torch"},
        r"rule='torch' and mapping='symmetric' with out_type='float8_e4m3fn': a float has no",
    ),
    (C, {**E4M3, "mapping": "asymmetric"}, r"use rule amax and mapping symmetric, or leave both out"),
    (C, {**E4M3, "high": 100}, r"a float saturates at its largest finite numbers"),
    (C, {"rule": "amax"}, r"rule='amax' chooses the scale of an 8-bit float: use rule torch"),
    (DY, {**E4M3, "x_type": "float16", "precision": "float16"}, r"may be less than any number of float16"),
    (DY, {**E4M3, "zero_point_add": "before_round"}, r"a float has no zero point"),
    (DY, {"precision": "float16"}, r"precision='float16' with x_type='float32'"),
    (DY, {"fma": "on"}, r"fma='on' with"),
]


@pytest.mark.parametrize(("made", "spec", "says"), REFUSED)
def test_what_cannot_be_is_refused(made: Any, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made(**{**SIZE, **spec})


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("quantize:outer=1:channels=2", r"has no inner"),
        ("quantize:outer=1:channels=2:inner=3:rule=onnx", r"unknown field 'rule'"),
        ("quantize:outer=one:channels=2:inner=3", r"outer='one' in a problem key must be an integer"),
        ("choose:outer=1:channels=2:inner=3:eps=tiny", r"eps='tiny' in a problem key must be a number"),
        ("quantize:outer=1:channels=2:inner=3:key=x", r"unknown field 'key'"),
        ("quantize:outer=1:outer=1:channels=2:inner=3", r"stands twice"),
        ("quantize:outer=1:channels=2:inner=3:zero_point=1", r"is a flag"),
    ],
)
def test_keys_that_say_nothing_are_refused(key: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(key)


@pytest.mark.parametrize(
    ("made", "mode", "spec", "says"),
    [
        (Q, "ck", {}, r"quantize in mode 'ck' \(Composable Kernel.*that system has none; use ort"),
        (Q, "orт", {}, r"is not one of ort"),
        (Q, "ort", {"x_type": "float64"}, r"x_type='float64' in mode 'ort'"),
        (Q, "torch-fbgemm", {"x_type": "float16"}, r"x_type='float16' in mode 'torch-fbgemm'"),
        (Q, "torch-fbgemm", {"quotient": "divide"}, r"it has reciprocal"),
        (Q, "torch-cudnn", {"scale_type": "float32"}, r"it has float64"),
        (C, "migraphx", {}, r"choose in mode 'migraphx'"),
        (C, "ort", {"out_type": "int8"}, r"it has uint8"),
        (R, "torch-cudnn", {}, r"requantize in mode 'torch-cudnn'"),
        (D, "et-vulkan", {"x_type": "int16"}, r"x_type='int16' in mode 'et-vulkan'"),
    ],
)
def test_what_a_system_lacks_is_refused(made: Any, mode: str, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        made.of(mode, **{**SIZE, **spec})


def test_the_scales_of_each_granularity() -> None:
    assert [tensor.shape for tensor in Quantize(2, 6, 5, zero_point=True).inputs] == [(2, 6, 5), (6,), (6,)]
    assert Quantize(2, 1, 30).scales == 1
    blocked = Dequantize(2, 7, 5, block=3)
    assert (blocked.blocks, blocked.scales, blocked.granularity) == (3, 30, "block")
    names = [tensor.name for tensor in Requantize(1, 1, 4, x_zero_point=True, y_zero_point=True).inputs]
    assert names == ["x", "x_scale", "x_zero", "y_scale", "y_zero"]
    assert [tensor.name for tensor in Dynamic(1, 2, 3).outputs] == ["y", "scale", "zero_point"]
    assert [tensor.name for tensor in Dynamic(1, 2, 3, **E4M3).outputs] == ["y", "scale"]


def test_bytes_are_counted_once() -> None:
    assert Quantize(2, 6, 5, x_type="float16", zero_point=True).io_bytes == 60 * 2 + 6 * 4 + 6 * 4 + 60
    assert Dynamic(2, 6, 5, scale_type="float64").io_bytes == 60 * 4 + 60 + 6 * 8 + 6 * 4


def test_kinds_tell_kernels_apart_and_not_sizes() -> None:
    assert Quantize(2, 6, 5).kinds == Quantize(3, 7, 9).kinds
    some = [Quantize(2, 6, 5), Quantize(2, 1, 5), Quantize(2, 6, 5, block=2), Quantize(2, 6, 5, zero_point=True)]
    some += [Quantize(2, 6, 5, quotient="reciprocal"), Quantize(2, 6, 5, out_type="uint8")]
    assert all(a.kinds != b.kinds for a, b in itertools.combinations(some, 2))
    assert all(extent >= 1 for extent in Quantize(2, 6, 5).extents.values())


def test_dynamic_is_its_two_parts() -> None:
    dynamic = Dynamic.of("torch-fbgemm", outer=1, channels=1, inner=9, out_type="uint8")
    assert dynamic.choose == Choose(1, 1, 9, out_type="uint8", rule="fbgemm")
    assert dynamic.quantize == Quantize.of(
        "torch-fbgemm", outer=1, channels=1, inner=9, out_type="uint8", zero_point=True
    )


@pytest.mark.parametrize("op", [Quantize, Dequantize])
def test_the_integers_alone_have_their_channels_last(op: type[Conversion]) -> None:
    problem = op(2, 3, 20, channels_last=True)  # type: ignore[call-arg]
    x, scale = problem.inputs
    (y,) = problem.outputs
    shapes = (x.shape, y.shape) if op is Quantize else (y.shape, x.shape)
    assert shapes == ((2, 3, 20), (2, 20, 3))
    assert scale.shape == (3,)
    plain = op(2, 3, 20)
    assert (problem.kinds, problem.io_bytes) == (plain.kinds, plain.io_bytes)
    # No winner of one is a neighbour of the other: their kernels differ.
    assert problem.shape_class != plain.shape_class
    assert problem.shape_class != op(2, 3, 21, channels_last=True).shape_class  # type: ignore[call-arg]
