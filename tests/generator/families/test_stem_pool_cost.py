"""The cost model of `stem_pool` compared with an H200, and the layers that it leaves to two kernels."""

from __future__ import annotations

import math

import pytest

from qconv import Conv2d, PooledConv2d, Quantization, generator
from qconv.generator.families.stem_pool import StemPool
from qconv.targets.target import TARGETS

SM_90A = TARGETS["sm_90a"]
OF_ONNX = Quantization("uint8", "int8", "uint8", per_channel=True, x_zero_point=True, bias="int32")
BIASED = Quantization(per_channel=True, bias="int32", activation="relu")


def resnet(n: int, quantization: Quantization = OF_ONNX, window: int = 3) -> PooledConv2d:
    convolution = Conv2d(n, 224, 224, 3, 64, 7, 7, stride=2, pad=3, quantization=quantization)
    return PooledConv2d.over(convolution, window=window, window_stride=2, window_pad=window - 2)


# Data to which the model is fitted: rows of windows, warps per team, and microseconds.
MEASURED: list[tuple[PooledConv2d, int, int, float]] = [
    (resnet(256), 14, 1, 94.2),
    (resnet(256), 14, 4, 100.4),
    (resnet(256), 12, 1, 111.2),
    (resnet(256), 8, 1, 109.0),
    (resnet(256), 8, 4, 120.0),
    (resnet(32), 14, 1, 25.7),
    (resnet(32), 14, 4, 26.8),
    (resnet(32), 8, 1, 18.3),
    (resnet(32), 8, 4, 19.5),
    (resnet(32, BIASED, 2), 8, 1, 15.6),
    (resnet(32, BIASED, 2), 8, 4, 16.6),
]


def test_times_are_near_those_that_were_measured() -> None:
    errors = [
        math.log(generator.predicted_us(generator.plan(problem, StemPool(windows, team), SM_90A)) / us)
        for problem, windows, team, us in MEASURED
    ]
    assert max(map(abs, errors)) < 0.1
    assert math.sqrt(sum(error * error for error in errors) / len(errors)) < 0.05


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        *((resnet(n), "stem_pool") for n in (32, 128, 256)),
        *((resnet(n), "unfused") for n in (1, 8)),
        (resnet(32, BIASED, 2), "stem_pool"),
    ],
    ids=str,
)
def test_which_layers_it_is_for(problem: PooledConv2d, family: str) -> None:
    """At one image and at eight, the two kernels took 4.4 and 8.3 us, and one kernel 11 and more."""
    assert generator.default(problem, SM_90A).config.family == family
