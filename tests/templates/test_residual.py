"""The residual: an array of the output's shape that is added between the scale and the activation."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, check, expected, run
from mostly_slow import mostly_slow
from random_special import special_plan
from scalar_requantize import Case, requantize

import qconv
from qconv import Conv2d, Mode, Quantization, generator, parse
from qconv.arithmetic.mode import PRESETS
from qconv.arithmetic.quantization import ACTIVATIONS
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.simt import Simt
from qconv.instances.load.pair import load
from qconv.ops import convolution, registry
from qconv.targets.target import TARGETS
from tests.templates.test_fences import LATE, finding

CPU = open_device("cpu")
REAL = {"bias_scaling": "real"}
MODES = {
    "multiply": Mode(),
    "multiply, fma": Mode(residual_add="fma", bias_scaling="reciprocal_fma"),
    "multiply_divide": Mode(order="multiply_divide", **REAL),
    "multiply_reciprocal": Mode(order="multiply_reciprocal", **REAL, zero_point_add="before_round"),
    "torch-onednn": PRESETS["torch-onednn"].mode,
}
SHAPES = {
    "vectors": Conv2d(2, 5, 6, 16, 20, 3, 3, pad=1),
    "odd channels": Conv2d(1, 7, 5, 5, 21, 2, 3, stride=(2, 1)),
    "grouped": Conv2d(2, 5, 4, 24, 54, 2, 3, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=3),
    "depthwise": Conv2d(1, 6, 6, 8, 16, 3, 3, pad=1, groups=8),
}
OUT_TYPES = ("int8", "uint8", "float32", "float16", "bfloat16")
LAYOUTS = ("nhwc", "nchw")
# Every mode with every shape, in one of the two layouts; the long tests cover the other.
FAST = {f"{mode}-{shape}-{LAYOUTS[(i + j) % 2]}" for i, mode in enumerate(MODES) for j, shape in enumerate(SHAPES)}


@pytest.mark.turns
@pytest.mark.parametrize("case", mostly_slow(map("-".join, itertools.product(MODES, SHAPES, LAYOUTS)), FAST))
def test_the_kernel_is_the_oracle(case: str) -> None:
    """Each out type, and between them every activation, in a random config."""
    mode, shape, layout = case.rsplit("-", 2)
    rng = random.Random(f"residual {mode} {shape} {layout}")
    activations = rng.sample(ACTIVATIONS, len(OUT_TYPES))
    for out_type, activation in zip(OUT_TYPES, activations, strict=True):
        quantization = Quantization(
            out_type=out_type,
            per_channel=rng.random() < 0.5,
            x_zero_point=rng.random() < 0.5,
            w_zero_point=rng.random() < 0.3,
            y_zero_point=out_type in ("int8", "uint8") and rng.random() < 0.7,
            bias=rng.choice(["none", "int32", "float32"]),
            activation=activation,
            residual=rng.choice(["int8", "uint8"]),
            residual_zero_point=rng.random() < 0.5,
            mode=MODES[mode],
        )
        problem = replace(SHAPES[shape], layout=layout, quantization=quantization)
        assert parse(str(problem)) == problem
        plans, _ = generator.space(problem, CPU.target)
        check(rng.choice(plans), CPU, seed=1)


# Outputs of the residual's size and larger; channels by 16, 4, 2 and 1; several tiles per block.
IN_SMEM = {
    "pointwise": (Conv2d(1, 20, 20, 64, 80, 1, 1), Conv2d(2, 7, 13, 27, 58, 1, 1), Conv2d(1, 9, 13, 32, 21, 1, 1)),
    "wgmma": (Conv2d(2, 9, 8, 144, 272, 1, 1), Conv2d(3, 8, 8, 64, 48, 3, 3, stride=2), Conv2d(1, 7, 8, 32, 20, 1, 1)),
}


@pytest.mark.turns
@pytest.mark.parametrize("family", IN_SMEM)
def test_residuals_in_shared_memory(family: str) -> None:
    """Random configs with the residual in shared memory, and where that is impossible."""
    rng = random.Random(f"shared memory {family}")
    target = TARGETS["cpu.sm_90a"]
    for problem in IN_SMEM[family]:
        for out_type in ("uint8", "float16"):
            requantized = out_type == "uint8"
            quantization = Quantization(
                out_type=out_type,
                per_channel=True,
                bias="int32",
                activation="relu",
                residual="uint8" if requantized else "int8",
                residual_zero_point=requantized,
                inner_zero_point=requantized,
                mode=Mode(residual_add=rng.choice(["requantized", "requantized_last"]) if requantized else "fma"),
            )
            plan = special_plan(family, replace(problem, quantization=quantization), target, rng.random())
            assert finding(plan, generator.render(plan).text, LATE) is None


@pytest.mark.turns
@pytest.mark.parametrize("residual_add", ["multiply_add", "fma"])
@pytest.mark.parametrize("order", ["multiply", "multiply_divide", "multiply_reciprocal"])
def test_the_oracle_is_rational_arithmetic(order: str, residual_add: str) -> None:
    """Near ties: the residual's scale is a power of two times the output's, except for its rounding."""
    rng = np.random.default_rng([len(order), len(residual_add)])
    scaling = {} if order == "multiply" else REAL
    mode = Mode(order=order, residual_add=residual_add, **scaling)
    quantization = Quantization(y_zero_point=True, residual="int8", residual_zero_point=True, mode=mode)
    problem = Conv2d(1, 16, 16, 3, 2, 1, 1, quantization=quantization)
    for seed in range(4):
        drawn = registry.draw(problem, seed)
        scales = {
            name: np.float32(value * rng.uniform(1, 2)) for name, value in drawn.parameters.items() if "_s" in name
        }
        scales["residual_scale"] = np.float32(scales["y_scale"] * 2.0**-seed)
        drawn = replace(drawn, parameters=drawn.parameters | scales)
        values = problem.checked(drawn.parameters)
        acc, residual = convolution.accumulate(problem, *drawn.arrays[:2], values).ravel(), drawn.arrays[2].ravel()
        zeros = {"y_zero": int(values.y_zero_point), "residual_zero": int(values.residual_zero_point)}
        floats = {name: float(scale) for name, scale in scales.items()}
        want = [
            requantize(Case(int(a), residual=int(r), **zeros, **floats), mode)
            for a, r in zip(acc, residual, strict=True)
        ]
        assert expected(problem, drawn).ravel().tolist() == want


def one_output(quantization: Quantization, acc: int, residual: int, **parameters: Any) -> Any:
    problem = Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=quantization)
    arrays = (
        np.full((1, 1, 1, 1), acc, "int8"),
        np.ones((1, 1, 1, 1), "int8"),
        np.full((1, 1, 1, 1), residual, "int8"),
    )
    drawn = registry.Sample(arrays, parameters)
    y = run(load(generator.default(problem, CPU.target), CPU), drawn)
    assert_same(y, expected(problem, drawn), str(problem))
    return y.item()


@pytest.mark.turns
@pytest.mark.parametrize("mode", MODES)
def test_it_is_added_before_the_activation_in_real_units(mode: str) -> None:
    made = Quantization(activation="relu", residual="int8", residual_zero_point=True, mode=MODES[mode])
    scales = {"x_scale": 0.5, "y_scale": 0.25, "residual_scale": 2.0, "residual_zero_point": 3}
    assert one_output(made, 40, 1, **scales) == (40 * 0.5 + (1 - 3) * 2) / 0.25
    assert one_output(made, 40, -10, **scales) == 0
    swish = replace(made, activation="hardswish")
    assert one_output(swish, 4, 4, **scales) == (4 * 0.5 + 2) / 0.25
    real = replace(swish, out_type="float32")
    assert one_output(real, 4, -1, **scales | {"y_scale": 1.0}) == 0
    assert one_output(real, 4, 5, **scales | {"y_scale": 1.0}) == 6


def test_it_is_an_array_of_the_call() -> None:
    quantization = Quantization("uint8", residual="uint8", residual_zero_point=True)
    problem = Conv2d(2, 4, 4, 8, 12, 3, 3, quantization=quantization)
    assert str(problem).endswith(":out_type=int8:residual_zero_point:residual=uint8")
    assert [(t.name, t.shape, t.dtype) for t in problem.inputs][2:] == [("residual", (2, 2, 2, 12), "uint8")]
    assert problem.packed == ("w",)
    assert problem.io_bytes == replace(problem, quantization=Quantization("uint8")).io_bytes + 96
    drawn = registry.draw(problem, 0)
    x, w, residual = drawn.arrays
    want = expected(problem, drawn)
    instance = load(generator.default(problem, CPU.target), CPU)
    packed = instance.pack(w, **drawn.parameters)
    assert packed(x, residual).tobytes() == want.tobytes()
    assert instance(x, w=w, residual=residual, **drawn.parameters).tobytes() == want.tobytes()
    given = dict(drawn.parameters)
    assert qconv.conv2d(x, w, residual=residual, **given).tobytes() == want.tobytes()
    with pytest.raises(ValueError, match=r"residual has shape \(1, 2, 2, 12\); this problem takes \(2, 2, 2, 12\)"):
        instance(x, w, residual[:1], **drawn.parameters)
    with pytest.raises(ValueError, match="residual has type int8; this problem takes uint8"):
        instance(x, w, residual.view("int8"), **drawn.parameters)
    with pytest.raises(ValueError, match="this problem takes x, w, residual"):
        instance(x, w, **drawn.parameters)


def test_it_may_be_the_output_itself() -> None:
    """A thread reads the residual before it writes there."""
    problem = Conv2d(1, 9, 9, 8, 24, 3, 3, quantization=Quantization(residual="int8"))
    drawn = registry.draw(problem, 3)
    instance = load(generator.default(problem, CPU.target), CPU)
    out = drawn.arrays[2].copy()
    instance(*drawn.arrays[:2], out, out=out, **drawn.parameters)
    assert out.tobytes() == expected(problem, drawn).tobytes()


@pytest.mark.parametrize(("k", "layout", "bytes_"), [(16, "nhwc", 4), (18, "nhwc", 1), (16, "nchw", 1)])
def test_it_is_read_as_the_output_is_written(k: int, layout: str, bytes_: int) -> None:
    problem = Conv2d(1, 8, 8, 16, k, 3, 3, layout=layout, quantization=Quantization(residual="uint8"))
    plan = generator.plan(problem, Simt(32, 16, 32, 4, 4, 1), TARGETS["cpu"])
    assert plan.alignment["residual"] == bytes_
    assert (
        "residual"
        not in generator.plan(
            replace(problem, quantization=Quantization()), Simt(32, 16, 32, 4, 4, 1), TARGETS["cpu"]
        ).alignment
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Quantization(residual="float32"), "residual='float32'.*integer sums take a residual of int8 or uint8"),
        (lambda: Quantization(out_type="int32", residual="int8"), "the accumulator itself.*residual none"),
        (lambda: Quantization(residual="int8", mode=Mode(multiplier="fp64")), "it is added in fp32"),
        (lambda: Quantization(residual_zero_point=True), "nothing to subtract it from"),
        (lambda: Quantization.of("torch-fbgemm", residual="int8"), "adds none in its convolution"),
        (lambda: checked(residual_scale=None), "residual_scale was not given"),
        (lambda: checked("none", residual_scale=1.0), "residual_scale was given, but the problem has residual='none'"),
        (lambda: checked(residual_scale=-1.0), "must be finite and positive"),
        (lambda: checked(residual_scale=1.0, residual_zero_point=1), "made without residual_zero_point"),
        (lambda: checked(residual_scale=1e30, x_scale=1e-8, y_scale=1e-8), "its product would be infinite"),
        (lambda: checked(mode="torch-onednn", residual_scale=1e-39), "whose inverse is infinite"),
    ],
)
def test_what_cannot_be_honoured_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        make()
    assert not isinstance(refused.value, Infeasible)


def checked(residual: str = "int8", mode: str | None = None, **parameters: Any) -> None:
    made = Quantization(residual=residual) if mode is None else Quantization.of(mode, residual=residual)
    Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=made).checked(parameters)
