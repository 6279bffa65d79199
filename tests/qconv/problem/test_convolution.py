"""Problems and their keys; malformed ones are refused with the value and the rule."""

from __future__ import annotations

import contextlib
import math
import random
import string
from typing import Any

import numpy as np
import pytest
from random_problems import problems

from qconv import Conv2d, Parameters, Quantization, parse

SIZES: dict[str, Any] = {"n": 1, "h": 8, "w": 8, "c": 4, "k": 4, "r": 3, "s": 3}
KEY = "conv2d:n=1:h=8:w=8:c=4:k=4:r=3:s=3"


def conv2d(**given: Any) -> Conv2d:
    return Conv2d(**SIZES | given)


class TestKey:
    @pytest.mark.parametrize("seed", range(5))
    def test_reads_back_as_the_same_problem(self, seed: int) -> None:
        for problem in problems(seed, 100):
            key = str(problem)
            again = parse(key)
            assert (again, hash(again), str(again)) == (problem, hash(problem), key)
            assert again.quantization == problem.quantization
            assert (again.stride, again.dilation, again.pad) == (problem.stride, problem.dilation, problem.pad)

    def test_says_what_differs_from_the_defaults_and_the_types_always(self) -> None:
        assert str(conv2d()) == f"{KEY}:x_type=int8:w_type=int8:out_type=int8"
        q = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")
        problem = conv2d(stride=2, dilation=(1, 2), pad=(0, 1, 2, 3), groups=2, quantization=q)
        assert str(problem) == (
            f"{KEY}:stride=2,2:dilation=1,2:pad=0,1,2,3:groups=2:x_type=uint8:w_type=int8:out_type=uint8"
            ":per_channel:x_zero_point:w_zero_point:y_zero_point:bias=int32:activation=relu6"
        )

    @pytest.mark.parametrize(
        "key",
        [
            KEY,
            f"  {KEY}\n",
            "conv2d:s=3:r=3:k=4:c=4:w=8:h=8:n=1",
            f"{KEY}:stride=1:dilation=1,1:pad=0,0,0,0:groups=1:layout=nhwc",
            f"{KEY}:out_type=int8:bias=none:activation=none:rounding=rne:fma=off:pad=0",
        ],
    )
    def test_defaults_and_order_are_free(self, key: str) -> None:
        assert parse(key) == conv2d()

    def test_says_the_flags_of_the_mode_that_differ(self) -> None:
        problem = conv2d(quantization=Quantization.of("et-vulkan", bias="float32"))
        flags = "order=multiply_reciprocal:bias_scaling=real:fma=on"
        assert str(problem) == f"{KEY}:x_type=int8:w_type=int8:out_type=int8:bias=float32:{flags}"
        assert parse(str(problem)) == problem

    def test_one_number_stands_for_all(self) -> None:
        assert parse(f"{KEY}:pad=1:stride=2") == conv2d(pad=(1, 1, 1, 1), stride=(2, 2)) == conv2d(pad=1, stride=2)

    def test_is_what_is_compared(self) -> None:
        assert conv2d() != conv2d(pad=1)
        assert conv2d() != str(conv2d())
        assert conv2d(pad=[1, 2, 3, 4]) == conv2d(pad=(1, 2, 3, 4))
        assert len({conv2d(), conv2d(groups=1), conv2d(pad=1), conv2d(quantization=Quantization())}) == 2

    def test_random_text_raises_value_error_only(self) -> None:
        rng = random.Random(0)
        words = [*str(problems(0, 1)[0]).split(":"), "conv2d", "n=", "=", "n", ",", "pad=1,2", "n=1e9", "n=٣", "\0"]
        words += ["rounding=rtz", "layout=chwn", "per_channel=1", "groups=0", "n=99999999999", "x_type=", "bias"]
        accepted = 0
        for _ in range(20_000):
            if rng.random() < 0.3:
                text = "".join(rng.choices(string.printable + "é²٣", k=rng.randrange(40)))
            else:
                text = ":".join(rng.choices(words, k=rng.randrange(20)))
            with contextlib.suppress(ValueError):
                parse(text)
                accepted += 1
        assert accepted == 0  # no such text has all the sizes

    def test_a_damaged_key_is_refused_or_another_valid_problem(self) -> None:
        rng = random.Random(1)
        for problem in problems(3, 300):
            key = list(str(problem))
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(key))
                key[at : at + rng.randint(0, 2)] = rng.choice("0123456789:=,abc-+. _")
            try:
                again = parse("".join(key))
            except ValueError:
                continue
            assert parse(str(again)) == again


def test_derived_sizes() -> None:
    problem = conv2d(n=2, h=9, w=7, c=6, k=12, r=3, s=2, stride=(2, 1), dilation=(1, 3), pad=(1, 0, 2, 1), groups=3)
    # Rows: (9 + 3 - 3) // 2 + 1; columns: (7 + 1 - 4) // 1 + 1.
    assert (problem.oh, problem.ow, problem.pixels) == (5, 5, 50)
    assert (problem.c_group, problem.k_group, problem.reduction) == (2, 4, 12)
    assert (problem.x_shape, problem.w_shape, problem.y_shape) == ((2, 9, 7, 6), (12, 3, 2, 2), (2, 5, 5, 12))
    assert problem.operations == 2 * 50 * 12 * 12
    assert problem.io_bytes == 2 * 9 * 7 * 6 + 12 * 12 + 50 * 12
    for out_type, width in (("uint8", 1), ("float16", 2), ("bfloat16", 2), ("float32", 4), ("int32", 4)):
        assert conv2d(quantization=Quantization(out_type=out_type)).io_bytes == 256 + 144 + 36 * 4 * width


# The requested values, and the parts of the refusal: the value, and the rule or the remedy.
PROBLEMS: list[tuple[dict[str, Any], list[str]]] = [
    ({"n": 0}, ["n=0", "between 1 and"]),
    ({"h": -1}, ["h=-1", "between 1 and"]),
    ({"w": 2**31}, ["w=2147483648", "between 1 and"]),
    ({"c": 4.0}, ["c=4.0", "integer"]),
    ({"k": "4"}, ["k='4'", "integer"]),
    ({"r": True}, ["r=True", "integer"]),
    ({"s": None}, ["s=None", "integer"]),
    ({"groups": 0}, ["groups=0", "between 1 and"]),
    ({"groups": 3}, ["c=4", "multiple of groups=3"]),
    ({"c": 6, "groups": 3}, ["k=4", "multiple of groups=3"]),
    ({"stride": 0}, ["stride=0", "between 1 and"]),
    ({"stride": (1, 2, 3)}, ["stride=(1, 2, 3)", "one integer or 2"]),
    ({"stride": (1, 1.5)}, ["stride=1.5", "integer"]),
    ({"dilation": (0, 1)}, ["dilation=0", "between 1 and"]),
    ({"dilation": "1,1"}, ["dilation='1,1'", "one integer or 2"]),
    ({"pad": (1, 1)}, ["pad=(1, 1)", "one integer or 4"]),
    ({"pad": (0, 0, 0, -1)}, ["pad=-1", "between 0 and"]),
    ({"pad": None}, ["pad=None", "one integer or 4"]),
    ({"r": 9}, ["spans 9 along h", "only 8", "pad more"]),
    ({"s": 3, "dilation": (1, 4)}, ["spans 9 along w", "only 8"]),
    ({"pad": (2**31 - 5000, 0, 5000, 0)}, ["h with its padding", "at most"]),
    ({"pad": (2**27, 0, 0, 0)}, ["pad=134217728,0,0,0 has 4294967552 elements", "smaller pads"]),
    ({"stride": 2**30}, ["stride=1073741824", "at most 2147479551", "give 8"]),
    ({"stride": (1, 2**29)}, ["stride=536870912", "at most 2147479551", "give 8"]),
    ({"layout": "chwn"}, ["layout='chwn'", "nhwc, nchw"]),
    ({"quantization": None}, ["quantization=None", "Quantization"]),
    ({"n": 2**15, "h": 2**8, "w": 2**8}, ["the input has 8589934592 elements", "at most"]),
    ({"n": 2**15, "h": 2**6, "w": 2**6, "k": 64, "c": 1}, ["the output has", "at most", "split n or k"]),
    ({"n": 1, "h": 2**13, "w": 2**12, "k": 128, "c": 1}, ["the output has", ": split k"]),
    ({"n": 1, "h": 2**13, "w": 2**13, "k": 1, "c": 64}, ["the input has", "split the image into strips of rows"]),
    ({"n": 2, "h": 2**13, "w": 2**13, "k": 1, "c": 64}, ["the input has", ": split n"]),
    ({"n": 1, "h": 8, "w": 8, "k": 2**16, "c": 2**16, "r": 1, "s": 1}, ["the weights have", ": split k"]),
    ({"c": 2**15, "k": 2**15}, ["the weights have 9663676416 elements", "at most"]),
    ({"c": 2**20, "h": 3, "w": 3, "r": 3, "s": 3}, ["products can reach 154618822656", "int32", "at most 131071"]),
]


@pytest.mark.parametrize(("given", "says"), PROBLEMS, ids=[str(given) for given, _ in PROBLEMS])
def test_a_malformed_problem_is_refused(given: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - what it says is checked below
        conv2d(**given)
    for part in says:
        assert part in str(refused.value)


def test_the_accumulator_limit_is_exact() -> None:
    """131071 products of -128 * -128 fit an int32, one more does not; unsigned and shifted bytes are larger."""
    for q, most in (
        (Quantization(), 131071),
        (Quantization(x_type="uint8"), 65793),
        (Quantization(x_zero_point=True), 65793),
        (Quantization(x_type="uint8", w_zero_point=True), 33025),
    ):
        sizes = {"h": 1, "w": 1, "r": 1, "s": 1, "quantization": q}
        assert conv2d(c=most, **sizes).reduction == most
        with pytest.raises(ValueError, match=rf"use at most {most} products"):
            conv2d(c=most + 1, **sizes)


QUANTIZATIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"x_type": "int4"}, ["x_type='int4'", "int8, uint8"]),
    ({"x_type": "unit8"}, ["x_type='unit8'", "did you mean 'uint8'"]),
    ({"w_type": None}, ["w_type=None", "int8, uint8"]),
    ({"out_type": "int16"}, ["out_type='int16'", "float16"]),
    ({"bias": True}, ["bias=True", "none, int32, float32"]),
    ({"activation": "swish"}, ["activation='swish'", "none, relu, relu6"]),
    ({"per_channel": 1}, ["per_channel=1", "True or False"]),
    ({"x_zero_point": 128}, ["x_zero_point=128", "True or False", "at run time"]),
    ({"mode": "rne"}, ["mode='rne'", "qconv.Mode"]),
    ({"y_zero_point": True, "out_type": "float32"}, ["y_zero_point=True", "out_type='float32'", "int8 and uint8"]),
    ({"out_type": "int32", "bias": "float32"}, ["bias='float32'", "out_type='int32'"]),
    ({"out_type": "int32", "activation": "relu"}, ["activation='relu'", "out_type='int32'"]),
    ({"out_type": "int32", "per_channel": True}, ["per_channel=True", "out_type='int32'", "w_zero_point"]),
]


@pytest.mark.parametrize(("given", "says"), QUANTIZATIONS, ids=[str(given) for given, _ in QUANTIZATIONS])
def test_a_malformed_quantization_is_refused(given: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Quantization(**given)
    for part in says:
        assert part in str(refused.value)


KEYS: list[tuple[str, list[str]]] = [
    ("", ["''", "known: conv2d"]),
    ("conv3d:n=1", ["'conv3d'", "known: conv2d"]),
    ("conv2d", ["has no n", "n, h, w, c, k, r, s"]),
    (KEY.replace(":k=4", ""), ["has no k"]),
    (f"{KEY}:n=2", ["'n' stands twice"]),
    (f"{KEY}:", ["''", "needs a value"]),
    (f"{KEY}:pad", ["'pad'", "needs a value"]),
    (f"{KEY}:per_channel=true", ["'per_channel=true'", "takes no value"]),
    (f"{KEY}:color=red", ["unknown field 'color'"]),
    (f"{KEY}:pad=1,2", ["pad=(1, 2)", "one integer or 4"]),
    (f"{KEY}:pad=1,,1,1", ["pad=''", "integer"]),
    (KEY.replace("h=8", "h=8.0"), ["h='8.0'", "integer"]),
    (KEY.replace("h=8", "h=0x8"), ["h='0x8'", "integer"]),
    (KEY.replace("h=8", "h=٨"), ["h='٨'", "integer"]),
    (KEY.replace("h=8", "h=" + "9" * 5000), ["integer of at most ten digits"]),
    (f"{KEY}:out_type=int9", ["out_type='int9'", "did you mean 'int8'"]),
    (f"{KEY}:rounding=up", ["rounding='up'", "rne, half_away, rtz"]),
    (f"{KEY}:order=multiply_divide", ["order='multiply_divide'", "bias_scaling='divide'", "change one of the two"]),
    (f"{KEY}:fma=on", ["fma='on'", "order='multiply'"]),
    (f"{KEY}:groups=3", ["multiple of groups=3"]),
]


@pytest.mark.parametrize(("key", "says"), KEYS, ids=[key[:80] for key, _ in KEYS])
def test_a_malformed_key_is_refused(key: str, says: list[str]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        parse(key)
    for part in says:
        assert part in str(refused.value)
    assert len(str(refused.value)) < 6000


FULL = Quantization("uint8", "int8", "int8", True, True, True, True, "int32")
PLAIN = Quantization()
REAL = Quantization(out_type="float32", bias="float32")
WHOLE = Quantization(out_type="int32")
BIAS = {"bias": [1, 2, 3]}

PARAMETERS: list[tuple[Quantization, dict[str, Any], list[str]]] = [
    (PLAIN, {"x_scale": 0}, ["x_scale", "0.0", "finite and positive"]),
    (PLAIN, {"w_scale": -0.5}, ["w_scale", "-0.5", "finite and positive"]),
    (PLAIN, {"y_scale": math.nan}, ["y_scale", "nan", "finite and positive"]),
    (PLAIN, {"x_scale": 1e39}, ["x_scale", "inf", "float32"]),
    (PLAIN, {"x_scale": "1"}, ["x_scale='1'", "number"]),
    (PLAIN, {"w_scale": [0.1, 0.2, 0.3]}, ["w_scale has shape (3,)", "per_channel"]),
    (PLAIN, {"x_scale": 1e-30, "w_scale": 1e-30}, ["x_scale * w_scale / y_scale", "finite and positive"]),
    (PLAIN, {"x_scale": 1e30, "y_scale": 1e-30}, ["x_scale * w_scale / y_scale", "finite and positive"]),
    (PLAIN, {"x_zero_point": 3}, ["x_zero_point=3", "made without x_zero_point"]),
    (PLAIN, {"y_zero_point": -1}, ["y_zero_point=-1", "made without y_zero_point"]),
    (PLAIN, {"bias": [1, 2, 3]}, ["bias was given", "bias='none'"]),
    (FULL, BIAS | {"w_scale": [0.1, 0.2]}, ["w_scale has shape (2,)", "a scalar or 3 values"]),
    (FULL, BIAS | {"x_zero_point": 256}, ["x_zero_point=256", "0 to 255", "uint8"]),
    (FULL, BIAS | {"x_zero_point": -1}, ["x_zero_point=-1", "0 to 255"]),
    (FULL, BIAS | {"w_zero_point": 128}, ["w_zero_point=128", "-128 to 127"]),
    (FULL, BIAS | {"w_zero_point": [1, 2, 300]}, ["w_zero_point=[1, 2, 300]", "-128 to 127"]),
    (FULL, BIAS | {"y_zero_point": 1.0}, ["y_zero_point=1.0", "integers"]),
    (FULL, {}, ["bias was not given", "bias='int32'"]),
    (FULL, {"bias": [1, 2]}, ["bias has shape (2,)", "(3,)"]),
    (FULL, {"bias": 1}, ["bias has shape ()", "(3,)"]),
    (FULL, {"bias": [1.0, 2.0, 3.0]}, ["int32 integers, not float64", "bias='float32'"]),
    (FULL, {"bias": [1, 2, 2**31]}, ["int32 integers"]),
    (REAL, {"bias": [1, 2, 3]}, ["floats, not int64", "bias='int32'"]),
    (REAL, {"bias": [1.0, math.inf, 3.0]}, ["bias holds 1.0..inf", "finite"]),
    (REAL, {"bias": [1.0, 2.0, 1e300]}, ["bias holds 1.0..inf as float32", "finite"]),
    (REAL, {"bias": [1.0, 2.0, 3.0], "y_scale": 0.5}, ["y_scale=0.5", "no use"]),
    (WHOLE, {"x_scale": 0.5}, ["x_scale=0.5", "no use"]),
]


@pytest.mark.parametrize(("q", "given", "says"), PARAMETERS, ids=[str(given) for _, given, _ in PARAMETERS])
def test_wrong_parameters_are_refused(q: Quantization, given: dict[str, Any], says: list[str]) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        Parameters(**given).checked(q, 3)
    for part in says:
        assert part in str(refused.value)


def test_right_parameters_become_arrays_of_the_kernel_s_types() -> None:
    checked = Parameters(
        x_scale=0.5, w_scale=[0.1, 0.2, 0.3], y_scale=np.float64(2), x_zero_point=7, w_zero_point=-3,
        y_zero_point=np.int8(1), bias=[1, 2, 3],
    ).checked(FULL, 3)  # fmt: skip
    assert checked.w_scale.dtype == np.float64
    assert checked.w_zero_point.tolist() == [-3, -3, -3]
    assert (checked.x_zero_point.dtype, checked.bias.dtype) == (np.int32, np.int32)
    one = Parameters(x_scale=[0.5], w_scale=[[0.25]][0], bias=np.ones(3)).checked(REAL, 3)
    assert (one.x_scale.shape, one.w_scale.shape, one.bias.dtype) == ((), (), np.float32)


def test_a_shuffled_output() -> None:
    problem = Conv2d(2, 5, 6, 8, 12, 2, 2, pixel_shuffle=(2, 3), crop=(1, 0, 2, 4))
    assert str(problem) == (
        "conv2d:n=2:h=5:w=6:c=8:k=12:r=2:s=2:pixel_shuffle=2,3:crop=1,0,2,4:x_type=int8:w_type=int8:out_type=int8"
    )
    assert parse(str(problem)) == problem
    assert (problem.oh, problem.ow, problem.k) == (4, 5, 12)
    assert problem.y_shape == (2, 2 * 4 - 3, 3 * 5 - 4, 2)
    assert problem.shape_class != Conv2d(2, 5, 6, 8, 12, 2, 2).shape_class


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pixel_shuffle": 3}, "k=4 with groups=1 gives 4 channels a group, which is no multiple of the 9 pixels"),
        ({"pixel_shuffle": 2, "groups": 2}, "k=4 with groups=2 gives 2 channels a group"),
        ({"crop": (0, 2, 0, 4)}, "crop=0,2,0,4 removes 6 of 6 outputs along w; at most 5 can be removed"),
        ({"crop": 1, "layout": "nchw"}, "layout='nchw' with a pixel shuffle or a crop: only nhwc has them"),
        ({"pixel_shuffle": (1, 2, 3)}, "pixel_shuffle=.* must be one integer or 2 of them"),
    ],
)
def test_a_shuffle_that_is_none(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        conv2d(**change)
