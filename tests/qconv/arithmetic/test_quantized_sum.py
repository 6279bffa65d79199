"""A convolution that requantizes its own output before it adds a residual: kernels on the CPU device match ONNX Runtime
as in tests/conformance/test_onnxruntime_residual.py, and unsupported cases are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import check, check_all
from random_matrix import matrix_problems
from random_problems import Decks, problems, with_requantized_sum
from random_special import SHAPES, special_plan, special_problems

from qconv import Conv2d, FusedConv2d, Mode, Quantization, generator, parse
from qconv.arithmetic.epilogue import packs, steps
from qconv.device.cpu import CpuDevice
from qconv.ops import registry
from qconv.problem.chain import Chain
from qconv.targets.target import TARGETS

REQUANTIZED = Mode(residual_add="requantized")
TARGET = {
    **dict.fromkeys(("simt", "depthwise", "gemv"), "cpu"),
    **dict.fromkeys(("mma", "direct", "stem", "pointwise"), "cpu.sm_80"),
    "wgmma": "cpu.sm_90a",
    "tcgen05": "cpu.sm_100a",
}
COUNT = 4


def plans_of(family: str) -> list[generator.Plan]:
    rng, target = random.Random(f"requantized {family}"), TARGETS[TARGET[family]]
    decks = Decks(rng)
    if family in SHAPES:
        drawn = special_problems(family, 21, COUNT)
    else:
        drawn = matrix_problems(21, COUNT, target) if family == "mma" else problems(21, COUNT)
    made = [replace(problem, quantization=with_requantized_sum(problem.quantization, decks)) for problem in drawn]
    if family in SHAPES:
        return [special_plan(family, problem, target, index) for index, problem in enumerate(made)]
    found = []
    for problem in made:
        of_family = [plan for plan in generator.space(problem, target)[0] if plan.config.family == family]
        found.append(rng.choice(of_family))
    return found


@pytest.mark.turns
@pytest.mark.parametrize("family", TARGET)
def test_the_kernels_are_the_oracle(family: str) -> None:
    check_all(plans_of(family), 0)


def test_the_last_of_a_chain_adds_it() -> None:
    first = Conv2d(1, 9, 9, 16, 16, 3, 3, pad=1, quantization=Quantization(activation="relu"))
    sums = Quantization(residual="int8", residual_zero_point=True, inner_zero_point=True, mode=REQUANTIZED)
    problem = FusedConv2d(first, Conv2d(1, 9, 9, 16, 24, 1, 1, quantization=sums))
    assert isinstance(parse(str(problem)), Chain)
    target = TARGETS["cpu.sm_80"]
    plans = [plan for plan in generator.space(problem, target)[0] if plan.config.family == "fused"]
    check(random.Random(3).choice(plans), CpuDevice(target, seed=0), seed=0)


def test_its_own_output_is_rounded_and_clamped_first() -> None:
    """Ties go to even, and saturated values are clamped before the residual is added."""
    q = Quantization(
        residual="int8", inner_zero_point=True, residual_zero_point=True, y_zero_point=True, mode=REQUANTIZED
    )
    problem = Conv2d(1, 1, 4, 1, 1, 1, 1, quantization=q)
    x = np.array([1, 3, 100, -100], "int8").reshape(1, 1, 4, 1)
    w, residual = np.full((1, 1, 1, 1), 4, "int8"), np.array([0, 0, -50, 50], "int8").reshape(1, 1, 4, 1)
    zeros = {"inner_zero_point": 10, "residual_zero_point": -1, "y_zero_point": 5}
    scales = {"x_scale": 0.5, "w_scale": 0.25, "inner_scale": 1.0, "residual_scale": 2.0, "y_scale": 1.0}
    (y,) = registry.compute(problem, registry.Sample((x, w, residual), scales | zeros))
    own = [0, 2, 50, -50]  # half to even; none of them saturates
    assert y.ravel().tolist() == [own[0] + 2 + 5, own[1] + 2 + 5, own[2] - 98 + 5, own[3] + 102 + 5]
    (y,) = registry.compute(problem, registry.Sample((x, w, residual), scales | zeros | {"inner_scale": 0.25}))
    assert y.ravel().tolist() == [8, 8, -64, 72]  # 7.5, 8.5, 29.25 - 93, -34.5 + 107


@pytest.mark.parametrize("residual_add", ["requantized", "requantized_last"])
def test_the_last_rounding_is_the_packing(residual_add: str) -> None:
    q = Quantization(out_type="uint8", residual="uint8", activation="relu", mode=Mode(residual_add=residual_add))
    assert packs(q)
    assert [step.name for step in steps(q)][-3:] == ["requantize_own", "add_requantized", "requantize"]
    assert steps(q)[-1].cxx == "result = value;", "an unsigned byte has no less than this relu's 0"
    assert "0.0f" in steps(replace(q, out_type="int8", residual="int8"))[-1].cxx
    assert steps(replace(q, y_zero_point=True))[-1].cxx == "result = tile::maximum(value, channel.y_zero);"


def checked(spec: dict[str, Any] | None = None, **given: Any) -> None:
    made = Quantization(residual="int8", mode=REQUANTIZED, **(spec or {}))
    Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=made).checked({"residual_scale": 1.0, "inner_scale": 1.0} | given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Quantization(mode=REQUANTIZED), "residual='none' and out_type='int8'.*two of uint8"),
        (lambda: Quantization(residual="uint8", mode=REQUANTIZED), "residual='uint8' and out_type='int8'"),
        (lambda: Quantization(out_type="float32", residual="int8", mode=REQUANTIZED), "make the two equal"),
        (lambda: Quantization(residual="int8", activation="relu6", mode=REQUANTIZED), "there is none or relu"),
        (lambda: Quantization(residual="int8", inner_zero_point=True), "only an output that is requantized before"),
        (lambda: replace(REQUANTIZED, rounding="rtz"), "rounding='rtz' with residual_add='requantized'.*have .*'rne'"),
        (lambda: replace(REQUANTIZED, order="multiply_divide", bias_scaling="real"), "which have order='multiply'"),
        (lambda: replace(REQUANTIZED, multiplier="fp64_rounded"), "which have multiplier='fp32_chain'"),
        (lambda: replace(REQUANTIZED, clamp="symmetric"), "which have clamp='dtype'"),
        (lambda: checked(inner_scale=None), "inner_scale was not given, but the problem rounds its output"),
        (lambda: checked(inner_scale=0.0), "inner_scale holds.*finite and positive"),
        (lambda: checked(inner_zero_point=1), "made without inner_zero_point"),
        (lambda: checked({"inner_zero_point": True}, inner_zero_point=200), "from -128 to 127"),
        (lambda: checked(inner_scale=1e-38, x_scale=1e10), "x_scale \\* w_scale / inner_scale = inf"),
        (lambda: checked(inner_scale=1e7), "inner_scale / y_scale = 1e\\+07.*check the scales"),
        (lambda: checked(residual_scale=1e7), "residual_scale / y_scale = 1e\\+07.*check the scales"),
        (
            lambda: Conv2d(1, 1, 1, 1, 1, 1, 1).checked({"inner_scale": 1.0}),
            "inner_scale was given, but the problem does not round",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
