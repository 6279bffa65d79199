"""The cost model of wgmma compared with an H200, and its choices for the layers of the suite `dense`."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from qconv import Conv2d, Mode, Quantization, generator
from qconv.generator.families.wgmma import Wgmma
from qconv.ops.registry import parse
from qconv.targets.target import target
from tests.generator.test_cost import RESULTS

SM_90A = target("sm_90a")
# (images, their height and width, input and output channels, filter), config, us: requantized to int8, with `same`
# padding; the protocol is the tuner's.
MEASURED = (
    ((32, 28, 128, 512, 1), (2, 0, 192, 4, 2), 8.69),  # rn50_l2_1x1b
    ((32, 28, 128, 512, 1), (2, 0, 128, 4, 2), 8.75),  # rn50_l2_1x1b
    ((32, 14, 256, 256, 3), (1, 0, 96, 7, 0), 7.89),  # rn50_l3_3x3
    ((32, 14, 256, 256, 3), (1, 0, 96, 2, 0), 15.95),  # rn50_l3_3x3
    ((32, 14, 1024, 256, 1), (2, 1, 48, 7, 2), 6.04),  # rn50_l3_1x1c
    ((32, 14, 1024, 256, 1), (2, 1, 48, 7, 0), 5.61),  # rn50_l3_1x1c
    ((32, 14, 1024, 256, 1), (1, 0, 96, 7, 0), 5.87),  # rn50_l3_1x1c
    ((32, 7, 512, 512, 3), (1, 0, 48, 9, 0), 9.30),  # rn50_l4_3x3
    ((32, 7, 512, 512, 3), (1, 0, 48, 2, 0), 26.98),  # rn50_l4_3x3
    ((32, 7, 512, 512, 3), (1, 0, 96, 7, 0), 11.27),  # rn50_l4_3x3
    ((256, 28, 128, 128, 3), (2, 1, 192, 4, 0), 43.71),  # rn50_l2_3x3_b256
    ((256, 28, 128, 128, 3), (2, 1, 192, 2, 1), 65.48),  # rn50_l2_3x3_b256
    ((256, 28, 128, 128, 3), (2, 1, 128, 6, 2), 43.15),  # rn50_l2_3x3_b256
    ((1, 28, 128, 128, 3), (1, 0, 16, 9, 0), 3.87),  # rn50_l2_3x3_b1
    ((32, 56, 256, 256, 3), (2, 0, 192, 4, 2), 75.00),  # vgg_conv3
    ((32, 56, 256, 256, 3), (2, 0, 192, 4, 3), 75.58),  # vgg_conv3
    ((32, 56, 256, 256, 3), (2, 1, 192, 4, 2), 74.68),  # vgg_conv3
    ((32, 56, 256, 256, 3), (2, 1, 128, 6, 2), 74.62),  # vgg_conv3
    ((32, 28, 512, 512, 3), (2, 0, 192, 4, 2), 70.44),  # vgg_conv4
    ((32, 28, 512, 512, 3), (2, 0, 192, 2, 1), 76.67),  # vgg_conv4
    ((32, 28, 512, 512, 3), (2, 1, 192, 2, 1), 95.77),  # vgg_conv4
    ((8, 128, 256, 256, 3), (2, 0, 144, 4, 2), 95.83),  # unet_big
    ((8, 128, 256, 256, 3), (2, 0, 144, 4, 0), 98.25),  # unet_big
    ((8, 128, 256, 256, 3), (2, 0, 144, 2, 1), 117.56),  # unet_big
    ((8, 128, 256, 256, 3), (2, 1, 144, 2, 1), 150.72),  # unet_big
    ((256, 56, 64, 64, 3), (2, 1, 192, 4, 2), 166.83),  # rn50_l1_3x3_b256
    ((256, 56, 64, 64, 3), (2, 1, 128, 2, 1), 240.10),  # rn50_l1_3x3_b256
    ((128, 56, 32, 192, 1), (2, 0, 192, 4, 2), 67.94),  # mbv2_pw_expand
)


def predicted(shape: tuple[int, ...], values: tuple[int, ...]) -> float:
    n, image, c, k, r = shape
    problem = Conv2d(n, image, image, c, k, r, r, pad=r // 2)
    return generator.predicted_us(generator.plan(problem, Wgmma(*values), SM_90A))


@pytest.mark.parametrize(("shape", "values", "took_us"), MEASURED)
def test_a_time_is_predicted(shape: tuple[int, ...], values: tuple[int, ...], took_us: float) -> None:
    assert 0.72 < predicted(shape, values) / took_us < 1.3


def test_times_are_predicted_on_the_whole() -> None:
    off = [math.log(predicted(shape, values) / took_us) for shape, values, took_us in MEASURED]
    assert abs(sum(off) / len(off)) < 0.07
    assert sum(one**2 for one in off) / len(off) < 0.13**2


def test_residuals_in_device_memory_are_waited_for() -> None:
    """520 channels are not whole chunks of TMA; without a residual it makes no difference."""

    def us(k: int, residual: str) -> float:
        problem = Conv2d(128, 28, 28, 128, k, 1, 1, quantization=Quantization(residual=residual))
        return generator.predicted_us(generator.plan(problem, Wgmma(2, 0, 192, 3, 2), SM_90A))

    assert us(512, "none") < us(512, "int8") < 2 * us(512, "none")
    assert us(520, "int8") - us(520, "none") > 3 * (us(512, "int8") - us(512, "none"))


def us(problem: Conv2d, *values: int) -> float:
    return generator.predicted_us(generator.plan(problem, Wgmma(*values), SM_90A))


# 1x1 of 255 channels at N=32: (image, input channels), config, us.
ODD = (
    ((80, 128), (2, 1, 64, 4, 2), 96.67),
    ((80, 128), (2, 0, 144, 4, 2), 102.7),
    ((80, 128), (1, 0, 192, 3, 0), 68.69),
    ((40, 256), (2, 1, 64, 4, 2), 29.2),
    ((20, 512), (2, 1, 128, 4, 0), 11.62),
)


@pytest.mark.parametrize(("shape", "values", "took_us"), ODD)
def test_outputs_that_lanes_store_one_by_one_take_longer(
    shape: tuple[int, int], values: tuple[int, ...], took_us: float
) -> None:
    image, c = shape
    odd, whole = (us(Conv2d(32, image, image, c, k, 1, 1), *values) for k in (255, 256))
    assert 0.7 < odd / took_us < 1.25
    assert odd > 1.2 * whole


def test_each_step_of_the_epilogue_takes_time() -> None:
    """1x1 of 64 to 256 channels over 56x56 at N=128 took 54.4 us with a bias, and 63.5 with both zero points; another
    config 87.7 with a residual."""
    bias = Quantization("uint8", "int8", "uint8", per_channel=True, bias="int32")
    zero_points = replace(bias, x_zero_point=True, y_zero_point=True)
    residual = replace(bias, residual="uint8", mode=Mode(residual_add="requantized_last"))
    layer, values = Conv2d(128, 56, 56, 64, 256, 1, 1), (2, 1, 192, 3, 2)
    assert us(replace(layer, quantization=bias), *values) == pytest.approx(54.4, rel=0.1)
    assert us(replace(layer, quantization=zero_points), *values) == pytest.approx(63.5, rel=0.1)
    assert us(replace(layer, quantization=residual), 2, 1, 128, 3, 2) == pytest.approx(87.7, rel=0.12)


def test_rows_that_a_stride_passes_over_do_not_come() -> None:
    """It took 64.0 us, and was predicted at 87.6 by the bytes of the whole image."""
    assert us(Conv2d(32, 100, 100, 512, 1024, 1, 1, stride=2), 2, 1, 128, 6, 2) == pytest.approx(64.0, rel=0.2)


def test_layers_of_many_channels_are_left_to_it() -> None:
    """Layers of the suite whose images fill the GPU, or go to halo, which uses warpgroups too. For 576 to 96 channels
    on 14x14, the fastest measured kernel is mma's."""
    chosen = {}
    for row in json.loads((RESULTS / "dense.json").read_text())["rows"]:
        problem = parse(row["problem"])
        assert isinstance(problem, Conv2d)
        if min(problem.c, problem.k) >= 128 and problem.n > 1 and problem.groups == 1:
            chosen[row["name"]] = generator.default(problem, SM_90A).config.family
    assert set(chosen.values()) == {"wgmma", "halo"}
    assert len(chosen) > 15
