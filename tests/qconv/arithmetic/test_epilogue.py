"""A relu or a relu6 whose zeros the output's own clamp produces is left to the clamp."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import check

from qconv import Conv2d, Mode, Quantization, generator, parse
from qconv.arithmetic.epilogue import packs, packs_from_zero, steps
from qconv.arithmetic.mode import PRESETS
from qconv.arithmetic.quantization import Parameters
from qconv.device.cpu import CpuDevice
from qconv.dtypes import FLOAT8
from qconv.ops import registry
from qconv.targets.target import TARGETS


def names(q: Quantization) -> list[str]:
    return [step.name for step in steps(q)]


@pytest.mark.parametrize("mode", PRESETS)
def test_no_relu_is_followed_by_a_packed_clamp_at_the_same_zero(mode: str) -> None:
    """ptxas combines the two into F2IP.U8.RELU, which is an illegal instruction on an H200."""
    for out_type in ("int8", "uint8"):
        q = Quantization.of(mode, out_type=out_type, activation="relu")
        assert ("relu" in names(q)) == (out_type == "int8" or not packs(q))


def test_a_relu_at_another_zero_stays() -> None:
    assert "relu" in names(Quantization(out_type="uint8", y_zero_point=True, activation="relu"))


def test_what_is_left_out_changes_nothing() -> None:
    q = Quantization(out_type="uint8", activation="relu")
    values = np.array([-np.inf, -1e9, -0.5, -0.0, 0.0, 0.5, 1.5, 254.5, 1e9, np.inf], np.float32)
    last = steps(q)[-1]
    assert np.array_equal(last.numpy(values, {}), last.numpy(np.maximum(values, 0), {}))


@pytest.mark.parametrize("mode", PRESETS)
def test_the_zero_of_relu6_is_left_to_a_packing_that_has_it(mode: str) -> None:
    for out_type in ("int8", "uint8"):
        q = Quantization.of(mode, out_type=out_type, activation="relu6")
        (relu6,) = (step for step in steps(q) if step.name == "relu6")
        assert ("maximum" in relu6.cxx) != packs_from_zero(q)
        assert packs_from_zero(q) == (packs(q) and (out_type == "uint8" or q.mode.order == "multiply"))
        assert not packs_from_zero(replace(q, y_zero_point=True))


@pytest.mark.parametrize("y_scale", [0.5, 6 / 127, 0.01])
def test_an_int8_is_clamped_to_its_largest_before_it_is_packed_as_an_unsigned_byte(y_scale: float) -> None:
    q = Quantization(out_type="int8", activation="relu6")
    (relu6,) = (step for step in steps(q) if step.name == "relu6")
    (top,) = relu6.arguments
    parameters = Parameters(y_scale=y_scale)
    assert top.value(q, parameters) == min(np.float32(6) / np.float32(y_scale), np.float32(127))


E4M3 = "float8_e4m3fn"
SUM = Mode(residual_add="dequantized")
DEVICE = CpuDevice(TARGETS["cpu.sm_90a"], seed=0)


def of_floats(mode: Mode = SUM, **spec: Any) -> Quantization:
    return Quantization(**{"x_type": E4M3, "w_type": E4M3, "out_type": E4M3, "residual": E4M3, **spec}, mode=mode)


def outputs(quantization: Quantization, x: list[float], residual: list[float], **scales: float) -> list[float]:
    problem = Conv2d(1, 1, len(x), 1, 1, 1, 1, quantization=quantization)
    assert parse(str(problem)) == problem
    of_x, of_residual = (
        np.array(values, np.float32).reshape(problem.y_shape).astype(quantization.types.x.numpy)
        for values in (x, residual)
    )
    w = np.ones((1, 1, 1, 1), np.float32).astype(of_x.dtype)
    (y,) = registry.compute(problem, registry.Sample((of_x, w, of_residual), scales))
    return [float(each) for each in y.ravel()]


def test_an_8_bit_float_is_rounded_before_it_is_dequantized_and_added() -> None:
    """17 and 19 are ties of e4m3, and 480 is beyond its largest number."""
    x, residual = [17, 19, 480, 1, -9], [1, 3, -448, 12, 8]
    scales = {"x_scale": 1.0, "inner_scale": 1.0, "residual_scale": 1.0, "y_scale": 1.0}
    assert outputs(of_floats(x_type="float16", w_type="float16"), x, residual, **scales) == [16, 24, 0, 13, -1]
    once = {name: scale for name, scale in scales.items() if name != "inner_scale"}
    assert outputs(of_floats(Mode(), x_type="float16", w_type="float16"), x, residual, **once) == [18, 22, 32, 13, -1]


def test_the_sum_has_real_units_and_three_scales() -> None:
    q = of_floats(activation="relu6")
    scales = {"x_scale": 2.0, "inner_scale": 4.0, "residual_scale": 0.5, "y_scale": 0.25}
    assert outputs(q, [1, 3, -1, 2], [2, 1, 8, 8], **scales) == [12, 24, 8, 24]  # 2+1, 6+0.5, -2+4, 4+4


def checked(quantization: Quantization, **given: float) -> None:
    problem = Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=quantization)
    problem.checked({"inner_scale": 1.0, "residual_scale": 1.0, "y_scale": 1.0} | given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: of_floats(residual="none"), "residual='none' and out_type='float8_e4m3fn'.*choose a residual"),
        (lambda: of_floats(out_type="float16"), "out_type='float16' with residual_add='dequantized': .*8-bit float"),
        (lambda: of_floats(replace(SUM, order="multiply_divide", bias_scaling="real")), "order='multiply'; use it"),
        (lambda: of_floats(replace(SUM, multiplier="fp32_reciprocal")), "QuantizeLinear and DequantizeLinear, which"),
        (lambda: of_floats(residual_zero_point=True), "only integers have a zero point"),
        (lambda: checked(of_floats(Mode())), "inner_scale was given, but the problem does not round"),
        (lambda: checked(of_floats(), inner_scale=1e-40), "inner_scale = inf"),
        (lambda: checked(of_floats(), inner_scale=1e7), "inner_scale / y_scale = 1e\\+07"),
    ],
)
def test_a_sum_that_no_kernel_has_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


SHAPES = {
    "simt": Conv2d(1, 5, 6, 16, 20, 3, 3, pad=1),
    "mma": Conv2d(2, 5, 6, 32, 24, 3, 3, pad=1),
    "wgmma": Conv2d(2, 9, 8, 144, 272, 1, 1),
    "halo": Conv2d(1, 10, 9, 64, 64, 3, 3, pad=1),
}


def plan_of(family: str, residual: str) -> generator.Plan:
    q = of_floats(residual=residual, activation="relu", bias="float32")
    plans, _ = generator.space(replace(SHAPES[family], quantization=q), DEVICE.target)
    return random.Random(family).choice([plan for plan in plans if plan.config.family == family])


@pytest.mark.parametrize("residual", FLOAT8)
@pytest.mark.parametrize("family", SHAPES)
def test_the_kernels_add_what_they_have_rounded(family: str, residual: str) -> None:
    check(plan_of(family, residual), DEVICE, seed=1)


@pytest.mark.parametrize("family", ["wgmma", "halo"])
def test_residuals_of_8_bit_floats_come_with_the_window(family: str) -> None:
    plan = plan_of(family, E4M3)
    assert "byte_as_int<Residual>" in generator.render(plan).text
    check(plan, DEVICE, seed=2)


def test_what_is_rounded_before_the_sum_varies() -> None:
    problem = replace(SHAPES["simt"], quantization=of_floats())
    for seed in range(4):
        drawn = registry.draw(problem, seed)
        own = {"inner_scale": drawn.parameters["inner_scale"] * np.float32(1.5)}
        one, other = (
            registry.compute(problem, replace(drawn, parameters=drawn.parameters | given))[0] for given in ({}, own)
        )
        assert len(np.unique(one.astype(np.float32))) > 20
        assert (one.view(np.uint8) != other.view(np.uint8)).any(), "another scale rounds otherwise"
