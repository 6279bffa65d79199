"""The activations approximate their real functions, and kernels have the oracle's bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mostly_slow import mostly_slow
from numpy.typing import NDArray

from qconv import Conv2d, Parameters, Quantization, generator, parse
from qconv.arithmetic import activation
from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import ACTIVATIONS, OUT_TYPES, SCALABLE
from qconv.device import Device, open_device
from qconv.dtypes import ELEMENT_TYPES, RANGES
from qconv.instances.load.pair import Runnable, load
from qconv.ops import convolution, registry
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
CURVES = tuple(name for name in ACTIVATIONS if name not in SCALABLE)
SCALED_TYPES = tuple(name for name in OUT_TYPES if name != "int32")
MODES = {
    "multiply": Mode(),
    "fp64_rounded": Mode(multiplier="fp64_rounded"),
    "multiply_divide": Mode(order="multiply_divide", bias_scaling="real"),
    "multiply_reciprocal": Mode(order="multiply_reciprocal", bias_scaling="real", fma="on"),
}
EVERY_MODE = range(len(MODES))
GIVEN: dict[str, dict[str, float]] = {"leaky_relu": {"slope": 0.1}, "clamp": {"low": -1.0, "high": 2.0}}
EXTREMES = (0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 1.2e-38, 1e-20, 86.9, -87.1, 1e30, -1e30, 3.4e38, -3.4e38)


def sigmoid(x: float) -> float:
    e = math.exp(-abs(x))
    return 1 / (1 + e) if x > 0 else e / (1 + e)


@dataclass(frozen=True)
class Curve:
    """The real function in fp64, and the activation's error bound in contract.md."""

    real: Callable[[float], float]
    error: float  # absolute, or relative to |x| if that exceeds 1
    from_zero: bool = True  # f(0) = 0: small values have small relative errors


REAL = {
    "sigmoid": Curve(sigmoid, 1e-7, from_zero=False),
    "silu": Curve(lambda x: x * sigmoid(x), 1.6e-7),
    "tanh": Curve(math.tanh, 1e-7),
    "hardswish": Curve(lambda x: x * min(max(x + 3, 0), 6) / 6, 1.6e-7),
    "gelu": Curve(lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2)), 1.2e-7),
}


def test_every_curve_is_compared_with_its_real_function() -> None:
    assert set(CURVES) == set(REAL)


def computed(name: str, x: Any) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        return activation.BY_NAME[name].numpy(np.asarray(x, np.float32), {})


DENSE = np.concatenate([np.linspace(-20, 20, 80_001), np.linspace(-0.7, 0.7, 20_001), np.linspace(-120, 120, 4_001)])


@pytest.mark.parametrize("name", CURVES)
def test_it_is_near_the_real_function(name: str) -> None:
    x = np.concatenate([DENSE, EXTREMES[:-2]]).astype(np.float32)
    got = computed(name, x).astype(np.float64)
    want = np.array([REAL[name].real(float(value)) for value in x])
    off = np.abs(got - want) / np.maximum(1, np.abs(x.astype(np.float64)))
    assert off.max() <= REAL[name].error, f"{off.max()} at {x[off.argmax()]}"


@pytest.mark.parametrize("name", [name for name, curve in REAL.items() if curve.from_zero])
def test_small_values_have_small_relative_errors(name: str) -> None:
    x = np.concatenate([np.logspace(-37, -0.3, 20_001), -np.logspace(-37, -0.3, 20_001)]).astype(np.float32)
    want = np.array([REAL[name].real(float(value)) for value in x])
    assert (np.abs(computed(name, x) / want - 1)).max() <= 6e-7


def test_exponential() -> None:
    x = np.linspace(-87, 87, 200_001).astype(np.float32)
    assert np.abs(activation.exponential(x) / np.exp(x.astype(np.float64)) - 1).max() <= 1e-7
    ends = activation.exponential(np.array([-np.inf, -88, 88, np.inf], np.float32))
    assert np.array_equal(ends, activation.exponential(np.array([-87, -87, 87, 87], np.float32)))


@pytest.mark.parametrize("name", CURVES)
def test_there_is_no_nan_and_no_denormal(name: str) -> None:
    around = np.array([sign * 2.0**e for e in range(-149, 128) for sign in (1, -1, 1.9, -1.9)]).astype(np.float32)
    got = computed(name, np.concatenate([around, np.array([*EXTREMES, np.inf, -np.inf], np.float32)]))
    assert not np.isnan(got).any()
    assert ((got == 0) | (np.abs(got) >= np.finfo(np.float32).tiny)).all()


def instance_of(problem: Conv2d, device: Device) -> Runnable:
    return load(generator.default(problem, device.target), device)


def check_against_the_oracle(name: str, out_type: str, device: Device, modes: Sequence[int] = EVERY_MODE) -> None:
    for index in modes:
        mode = list(MODES.values())[index]
        q = Quantization(
            out_type=out_type,
            per_channel=index % 2 == 0,
            y_zero_point=out_type in ("int8", "uint8") and index < 2,
            bias=("float32", "int32", "none", "float32")[index],
            activation=name,
            mode=mode,
        )
        problem = Conv2d(2, 9, 9, 16, 24, 3, 3, pad=1, quantization=q)
        assert parse(str(problem)) == problem
        assert mismatch(instance_of(problem, device), registry.draw(problem, index)) is None, problem


def mode_of(name: str, out_type: str) -> int:
    """Return a mode, so that every pair of an activation, an output type and a mode occurs."""
    return (ACTIVATIONS.index(name) + SCALED_TYPES.index(out_type)) % len(MODES)


KERNELS = {f"{name}-{out_type}": (name, out_type) for name in ACTIVATIONS for out_type in SCALED_TYPES}


@pytest.mark.turns
@pytest.mark.parametrize("kernel", mostly_slow(KERNELS, list(KERNELS)[::2]))
def test_the_kernel_is_the_oracle(kernel: str) -> None:
    name, out_type = KERNELS[kernel]
    check_against_the_oracle(name, out_type, CPU, (mode_of(name, out_type),))


def test_every_two_occur_together() -> None:
    chosen = {(name, out_type): mode_of(name, out_type) for name in ACTIVATIONS for out_type in SCALED_TYPES}
    for at, values in enumerate((ACTIVATIONS, SCALED_TYPES)):
        assert {(key[at], mode) for key, mode in chosen.items()} == {(v, mode) for v in values for mode in EVERY_MODE}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("out_type", SCALED_TYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_kernel_is_the_oracle_in_the_other_modes(name: str, out_type: str) -> None:
    """The steps of the epilogue are independent: a failure only here needs three of them together."""
    check_against_the_oracle(name, out_type, CPU, [mode for mode in EVERY_MODE if mode != mode_of(name, out_type)])


def outputs(name: str, values: list[float], device: Device) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the activation of fp32 values, by the kernel and by the oracle: the sums are 0, the bias is the value."""
    q = Quantization(
        out_type="float32", bias="float32", activation=name, mode=Mode(order="multiply_divide", bias_scaling="real")
    )
    problem = Conv2d(1, 1, 1, 1, len(values), 1, 1, quantization=q)
    x, w = np.zeros(problem.x_shape, np.int8), np.zeros(problem.w_shape, np.int8)
    given: dict[str, Any] = {"bias": np.array(values, np.float32), **GIVEN.get(name, {})}
    got = device.download(instance_of(problem, device)(device.upload(x), device.upload(w), **given))
    return got, convolution.conv2d(problem, x, w, Parameters(**given).checked(q, problem.k))


def check_values(name: str, device: Device) -> None:
    values = [*EXTREMES, *np.linspace(-20, 20, 4001), *np.logspace(-38, 38, 999), *-np.logspace(-38, 38, 999)]
    got, want = outputs(name, values, device)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


@pytest.mark.parametrize("name", [*CURVES, "leaky_relu"])
def test_every_value_gives_the_same_bits(name: str) -> None:
    check_values(name, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_on_a_gpu(name: str, gpu: Device) -> None:
    for out_type in SCALED_TYPES:
        check_against_the_oracle(name, out_type, gpu)
    if name in (*CURVES, "leaky_relu"):
        check_values(name, gpu)


@pytest.mark.parametrize("out_type", ["int8", "uint8"])
@pytest.mark.parametrize("name", CURVES)
def test_a_requantized_curve_is_within_one_quantum_of_the_real_one(name: str, out_type: str) -> None:
    q = Quantization(out_type=out_type, y_zero_point=True, bias="float32", activation=name)
    problem = Conv2d(1, 8, 8, 16, 24, 3, 3, quantization=q)
    drawn = registry.draw(problem, 11)
    p = problem.checked(drawn.parameters)
    got = convolution.conv2d(problem, *drawn.arrays, p)
    value = convolution.accumulate(problem, *drawn.arrays, p) * float(p.x_scale) * float(p.w_scale)
    curve = np.vectorize(REAL[name].real)(value + np.asarray(p.bias, np.float64))
    want = np.clip(np.rint(curve / float(p.y_scale)) + int(p.y_zero_point), *RANGES[out_type])
    assert np.abs(got.astype(np.int64) - want).max() <= 1
    assert len(np.unique(got)) > 8


def test_a_slope_of_zero_is_relu_even_where_the_value_overflows() -> None:
    q = Quantization(out_type="float32", activation="leaky_relu")
    problem = Conv2d(1, 1, 3, 1, 1, 1, 1, quantization=q)
    x = np.array([-100, 0, 100], np.int8).reshape(problem.x_shape)
    given = {"x_scale": 1e18, "w_scale": 1e20, "slope": 0.0}
    y = instance_of(problem, CPU)(x, np.ones(problem.w_shape, np.int8), **given)
    assert y.ravel().tolist() == [0.0, 0.0, math.inf]


def test_what_overflows_below_is_next_to_nothing() -> None:
    """Minus infinity times zero is not a number: these curves are clamped at their end."""
    x = np.array([-100, 0, 100], np.int8)
    for name in ("hardswish", "silu", "gelu"):
        problem = Conv2d(1, 1, 3, 1, 1, 1, 1, quantization=Quantization(out_type="float32", activation=name))
        given = {"x_scale": 1e18, "w_scale": 1e20}
        y = instance_of(problem, CPU)(x.reshape(problem.x_shape), np.ones(problem.w_shape, np.int8), **given)
        low, middle, high = y.ravel().tolist()
        assert -1e-30 < low <= 0.0, name
        assert (middle, high) == (0.0, math.inf), name


def test_bfloat16_rounds_to_even_and_overflows() -> None:
    q = Quantization(out_type="bfloat16", bias="float32")
    values = [257, 259, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8 + 2**-20), 3.39e38, 3.4e38, -3.4e38, 1e-40, -0.0]
    problem = Conv2d(1, 1, 1, 1, len(values), 1, 1, quantization=q)
    x, w = np.zeros(problem.x_shape, np.int8), np.zeros(problem.w_shape, np.int8)
    y = instance_of(problem, CPU)(x, w, bias=np.array(values, np.float32))
    assert str(y.dtype) == "bfloat16"
    bits = np.array(values, np.float32).view(np.uint32).astype(np.uint64)
    by_hand = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    by_hand[-1] = 0  # 0 + -0.0
    assert y.view(np.uint16).ravel().tolist() == by_hand.tolist()
    assert y.ravel()[:4].astype(np.float64).tolist() == [256, 260, 1, 1 + 2**-6]


def test_another_librarys_bfloat16_tensor_is_refused_if_nothing_reads_it() -> None:
    class Tensor:
        dtype = "torch.bfloat16"

    with pytest.raises(ValueError, match=r"out \(Tensor\) is not an array the CPU device can read"):
        CPU.adopt("out", Tensor())


def test_every_output_type_has_a_numpy_dtype() -> None:
    for name, element_type in ELEMENT_TYPES.items():
        assert str(element_type.numpy) == element_type.array_type, name
        assert CPU.empty((2,), element_type.array_type).nbytes == 2 * element_type.bytes


def clamped(**given: Any) -> Parameters:
    return Parameters(**given).checked(Quantization(activation="clamp"), 1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Quantization(activation="gelu", mode=Mode(multiplier="fp64")), "multiplier='fp64'.*fp32_chain or"),
        (lambda: Quantization.of("onnx-ref", activation="silu"), "activation='silu' with multiplier='fp64'"),
        (lambda: Quantization(out_type="int32", activation="tanh"), "activation='tanh' with out_type='int32'"),
        (lambda: clamped(low=1.0), "needs high"),
        (lambda: clamped(low=2.0, high=1.0), "low=2.0 is above high=1.0"),
        (lambda: clamped(low=0.0, high=math.inf), "high=inf.*must be finite"),
        (lambda: clamped(low=0.0, high=1.0, slope=0.5), "slope=0.5 was given, but activation='clamp'"),
        (lambda: clamped(low="a", high=1.0), "low='a' must be a number"),
        (lambda: Parameters().checked(Quantization(activation="leaky_relu"), 1), "needs slope"),
        (lambda: Parameters(slope=1e39).checked(Quantization(activation="leaky_relu"), 1), "must be finite"),
    ],
)
def test_what_cannot_be_honoured_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
