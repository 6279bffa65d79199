"""The cost model of `stem_wgmma` compared with an H200, and the layers that it leaves to `stem`."""

from __future__ import annotations

import math

import pytest

from qconv import Conv2d, Mode, Quantization, generator
from qconv.generator.families.stem_wgmma import StemWgmma
from qconv.targets.target import TARGETS

SM_90A = TARGETS["sm_90a"]
BIASED = Quantization(per_channel=True, bias="int32", activation="relu")
OF_PYTORCH = Quantization(
    *("uint8", "int8", "uint8"),
    per_channel=True,
    x_zero_point=True,
    bias="float32",
    activation="relu",
    mode=Mode(order="multiply_reciprocal", bias_scaling="real"),
)


def resnet(n: int, quantization: Quantization = BIASED) -> Conv2d:
    return Conv2d(n, 224, 224, 3, 64, 7, 7, stride=2, pad=3, quantization=quantization)


def of_three(n: int, size: int, k: int) -> Conv2d:
    return Conv2d(n, size, size, 3, k, 3, 3, stride=2, pad=1, quantization=BIASED)


# Some of the 430 kernels to which the model is fitted, with their times in microseconds.
MEASURED: list[tuple[Conv2d, tuple[int, int, int], float]] = [
    (resnet(256, OF_PYTORCH), (14, 3, 1), 108.83),
    (resnet(256, OF_PYTORCH), (14, 2, 4), 136.90),
    (resnet(256, OF_PYTORCH), (8, 3, 4), 216.38),
    (resnet(128), (8, 2, 1), 71.01),
    (resnet(32), (12, 2, 4), 20.85),
    (resnet(32), (28, 2, 1), 14.72),
    (resnet(1), (14, 3, 4), 2.96),
    (of_three(32, 160, 64), (8, 2, 4), 13.61),
    (of_three(32, 160, 64), (4, 2, 1), 12.53),
    (of_three(32, 224, 32), (28, 2, 1), 11.81),
    (of_three(32, 224, 32), (14, 2, 4), 16.15),
    (of_three(32, 224, 48), (28, 2, 1), 14.02),
]
# Stored by lanes: 24 channels are not a multiple of 16.
STORED = of_three(128, 224, 24), (16, 3, 1), 78.7


def predicted(problem: Conv2d, values: tuple[int, int, int]) -> float:
    return generator.predicted_us(generator.plan(problem, StemWgmma(*values), SM_90A))


def test_times_are_near_those_that_were_measured() -> None:
    errors = [math.log(predicted(problem, values) / us) for problem, values, us in MEASURED]
    assert max(map(abs, errors)) < 0.25
    assert math.sqrt(sum(error * error for error in errors) / len(errors)) < 0.12


def test_outputs_that_lanes_store_take_longer() -> None:
    problem, values, us = STORED
    assert 0.5 < predicted(problem, values) / us < 1.2
    assert predicted(problem, values) > 1.3 * predicted(of_three(128, 224, 32), values)


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        *((resnet(n, q), "stem_wgmma") for n in (32, 128) for q in (BIASED, OF_PYTORCH)),
        (of_three(32, 160, 64), "stem_wgmma"),
        *((of_three(n, 224, k), "stem") for n in (32, 128) for k in (16, 24, 32)),
        (resnet(1), "stem"),
    ],
    ids=str,
)
def test_which_layers_it_is_for(problem: Conv2d, family: str) -> None:
    """In the measured races the other family lost."""
    assert generator.default(problem, SM_90A).config.family == family
