"""Every flag of the arithmetic, by stored vectors with ties built on purpose: random data does not exercise the
flags."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_problems import Decks, with_requantized_sum
from scalar_requantize import Case, requantize

from qconv import Conv2d, Quantization, generator, parse
from qconv.arithmetic.mode import MODE_VALUES, PRESETS, Mode
from qconv.arithmetic.quantization import ACTIVATIONS, SCALABLE
from qconv.device import Device, open_device
from qconv.dtypes import FLOAT8
from qconv.instances.load.pair import Runnable, load
from qconv.ops import registry
from qconv.tuner.measure.verification import mismatch

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors" / "requantize.json").read_text())
CASES = [Case(**{name: value for name, value in vector.items() if name != "expected"}) for vector in VECTORS]
CPU = open_device("cpu")


def legal_modes() -> list[Mode]:
    made = []
    for values in itertools.product(*MODE_VALUES.values()):
        try:
            made.append(Mode(**dict(zip(MODE_VALUES, values, strict=True))))
        except ValueError:
            continue
    return made


def spec_of(case: Case, mode: str) -> Quantization:
    bias = "int32" if case.int32_bias is not None else "float32" if case.float32_bias is not None else "none"
    residual = {} if case.residual is None else {"residual": "int8", "residual_zero_point": case.residual_zero != 0}
    return Quantization.of(mode, y_zero_point=case.y_zero != 0, bias=bias, **residual)


@lru_cache(maxsize=256)
def instance_of(quantization: Quantization, device: Device) -> Runnable:
    """Return a kernel with one output of three products: any accumulator of 15 bits is 127 (a + b) + c."""
    problem = Conv2d(1, 1, 1, 3, 1, 1, 1, quantization=quantization)
    return load(generator.default(problem, device.target), device)


def run(case: Case, quantization: Quantization, device: Device) -> tuple[int, int]:
    """Return the outputs of the kernel and of the oracle."""
    a = round(case.acc / 254)
    b = round(case.acc / 127) - a
    x = np.array([a, b, case.acc - 127 * (a + b)], np.int8).reshape(1, 1, 1, 3)
    w = np.array([127, 127, 1], np.int8).reshape(1, 1, 1, 3)
    parameters: dict[str, Any] = {name: np.float32(getattr(case, name)) for name in ("x_scale", "w_scale", "y_scale")}
    parameters["y_zero_point"] = case.y_zero
    if case.int32_bias is not None:
        parameters["bias"] = np.array([case.int32_bias], np.int32)
    if case.float32_bias is not None:
        parameters["bias"] = np.array([case.float32_bias], np.float32)
    arrays = [x, w]
    if case.residual is not None:
        parameters["residual_scale"] = np.float32(case.residual_scale)
        parameters["residual_zero_point"] = case.residual_zero
        arrays.append(np.array(case.residual, np.int8).reshape(1, 1, 1, 1))
    instance = instance_of(quantization, device)
    (wanted,) = registry.compute(instance.problem, registry.Sample(tuple(arrays), parameters))
    y = device.download(instance(*map(device.upload, arrays), **parameters))
    return int(y.item()), int(wanted.item())


def check_vectors(mode: str, device: Device) -> None:
    seen = 0
    for case, vector in zip(CASES, VECTORS, strict=True):
        if mode in vector["expected"]:
            expected = vector["expected"][mode]
            assert run(case, spec_of(case, mode), device) == (expected, expected), (mode, case)
            assert requantize(case, PRESETS[mode].mode) == expected
            seen += 1
    assert seen >= 39


@pytest.mark.turns
@pytest.mark.parametrize("mode", PRESETS)
def test_stored_vectors(mode: str) -> None:
    check_vectors(mode, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", PRESETS)
def test_stored_vectors_on_a_gpu(mode: str, gpu: Device) -> None:
    check_vectors(mode, gpu)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        *itertools.combinations(["torch-fbgemm", "torch-qnnpack", "torch-onednn", "torch-cudnn"], 2),
        *itertools.combinations(["ort", "onnx-ref", "migraphx", "rocmlir"], 2),
        *itertools.combinations(["torch-fbgemm", "migraphx", "rocmlir", "et-vulkan"], 2),
        ("ck", "ort"),
    ],
)
def test_a_vector_tells_two_systems_apart(a: str, b: str) -> None:
    shared = [v["expected"] for v in VECTORS if a in v["expected"] and b in v["expected"]]
    assert any(expected[a] != expected[b] for expected in shared)


def with_flag(flag: str, value: str) -> Mode:
    """Return the default with one flag changed, and the other flags that it requires."""
    if flag == "fma":
        return Mode(order="multiply_reciprocal", bias_scaling="real", fma=value)
    if flag == "order" and value != "multiply":
        return Mode(order=value, bias_scaling="real")
    return Mode(**{flag: value})


# Distinguished by other tests: padding by a border; the corrections agree wherever fp32 is accepted; a real bias is an
# order; requantization before the residual by tests/conformance/test_onnxruntime_residual.py; the sum of dequantized
# floats by test_epilogue.py.
TOLD_ELSEWHERE = ("real", "requantized", "requantized_last", "dequantized")
FLIPS = [
    (flag, one, other)
    for flag in MODE_VALUES
    if flag not in ("padding", "correction")
    for one, other in itertools.combinations([value for value in MODE_VALUES[flag] if value not in TOLD_ELSEWHERE], 2)
]


@pytest.mark.parametrize(("flag", "one", "other"), FLIPS)
def test_flipping_a_flag_changes_a_vector(flag: str, one: str, other: str) -> None:
    a, b = with_flag(flag, one), with_flag(flag, other)
    assert any(requantize(case, a) != requantize(case, b) for case in CASES)


def test_padding_reads_as_a_real_zero_or_as_the_stored_value_zero() -> None:
    x, w = np.full((1, 1, 1, 1), 7, np.int8), np.ones((1, 1, 3, 1), np.int8)
    outputs = {}
    for padding in MODE_VALUES["padding"]:
        q = Quantization(out_type="int32", x_zero_point=True, mode=Mode(padding=padding))
        problem = Conv2d(1, 1, 1, 1, 1, 1, 3, pad=(0, 1, 0, 1), quantization=q)
        instance = load(generator.default(problem, CPU.target), CPU)
        outputs[padding] = int(instance(x, w, x_zero_point=5).item())
        drawn = registry.Sample((x, w), {"x_zero_point": 5})
        assert mismatch(instance, drawn) is None
    assert outputs == {"zero_point": 7 - 5, "raw_zero": (7 - 5) + 2 * (0 - 5)}


def test_fp32_corrections_are_accepted_only_where_they_are_exact() -> None:
    q = Quantization.of("migraphx", x_zero_point=True)
    assert Conv2d(1, 1, 1, 514, 1, 1, 1, quantization=q).reduction == 514
    with pytest.raises(ValueError, match=r"beyond 16777216 fp32 rounds it.*at most 514 products"):
        Conv2d(1, 1, 1, 515, 1, 1, 1, quantization=q)
    assert Conv2d(1, 1, 1, 4000, 1, 1, 1, quantization=Quantization.of("migraphx"))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Mode(rounding="up"), "'up' is not one of rne"),
        (lambda: Mode(order="multiply_divide"), "a bias is real exactly where"),
        (lambda: Mode(bias_scaling="real"), "a bias is real exactly where"),
        (lambda: Mode(fma="on"), "no addition after the product"),
        (lambda: Mode(order="multiply_divide", bias_scaling="real", multiplier="fp64"), "no single multiplier"),
        (lambda: Mode(bias_scaling="reciprocal_fma", multiplier="fp64"), "that fma is one of fp32"),
        (lambda: Mode(scales="twice_inverted", multiplier="fp64_rounded"), "it inverts in fp32"),
        (lambda: Quantization.of("ort", residual="int8"), "adds none in its convolution"),
        (lambda: Quantization.of("torch"), "mode='torch' is not one of"),
        (lambda: Quantization.of("decomposed"), "no integer kernel can honour it"),
        (lambda: Quantization.of("torch-cudnn", x_zero_point=True), "that system has none"),
        (lambda: Quantization.of("torch-cudnn", per_channel=True), "one weight scale"),
        (lambda: Quantization.of("ck", bias="float32"), "it has none, int32"),
        (lambda: Quantization.of("ck", x_type="uint8"), "it has int8"),
    ],
)
def test_what_cannot_be_honoured_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_fbgemm_divides_the_bias_where_there_is_a_scale_per_channel() -> None:
    assert Quantization.of("torch-fbgemm").mode.bias_scaling == "reciprocal_fma"
    assert Quantization.of("torch-fbgemm", per_channel=True).mode == Mode()


def check_random_modes(seed: int, device: Device) -> None:
    rng = random.Random(f"modes {seed}")
    modes = legal_modes()
    for index in range(12):
        out_type = rng.choice(["int8", "uint8", "int8", "float32", "float16", "bfloat16"])
        mode = rng.choice(modes)
        quantization = Quantization(
            out_type=out_type,
            per_channel=rng.random() < 0.5,
            x_zero_point=rng.random() < 0.5,
            w_zero_point=rng.random() < 0.3,
            y_zero_point=out_type in ("int8", "uint8") and rng.random() < 0.7,
            bias=rng.choice(["none", "int32", "float32"]),
            activation=rng.choice(SCALABLE if mode.multiplier == "fp64" else ACTIVATIONS),
            residual="none" if mode.multiplier == "fp64" else rng.choice(("none", "int8", "uint8")),
            mode=replace(mode, residual_add="multiply_add"),
        )
        if mode.requantizes_before_residual:
            quantization = with_requantized_sum(quantization, Decks(rng))
        if mode.adds_dequantized:
            types = {"out_type": rng.choice(FLOAT8), "residual": rng.choice(("int8", "uint8"))}
            quantization = replace(quantization, y_zero_point=False, **types)
        quantization = replace(quantization, mode=mode)
        problem = Conv2d(1, 5, 6, rng.choice([3, 8, 16]), 20, 3, 3, pad=(1, 1, 0, 1), quantization=quantization)
        assert parse(str(problem)) == problem
        plan = rng.choice(generator.space(problem, device.target)[0])
        assert mismatch(load(plan, device), registry.draw(problem, index)) is None, problem


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(4))
def test_random_modes_on_random_problems(seed: int) -> None:
    check_random_modes(seed, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(16))
def test_random_modes_on_a_gpu(seed: int, gpu: Device) -> None:
    check_random_modes(seed, gpu)
