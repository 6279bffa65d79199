"""The cost model of pointwise: bank conflicts in shared memory, and times of an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.generator.families.pointwise import Pointwise, swapped_bit, wavefronts
from qconv.targets.target import target

# (input channels, output channels, image, config, us): N=32, requantized to int8; the protocol is the tuner's.
MEASURED = (
    (80, 80, 80, (2, 1, 2, 2, 8, 1, 1), 12.01),
    (24, 58, 56, (1, 1, 4, 4, 4, 2, 0), 4.51),
    (16, 64, 112, (2, 1, 4, 4, 8, 2, 0), 9.61),
    (144, 24, 56, (2, 1, 3, 2, 4, 3, 1), 6.82),
    (64, 256, 56, (1, 1, 8, 4, 16, 1, 1), 11.11),
    (64, 256, 56, (4, 1, 2, 2, 4, 2, 1), 17.74),
    (256, 256, 56, (1, 1, 8, 2, 12, 1, 1), 26.05),
    (104, 104, 56, (1, 1, 4, 4, 12, 1, 1), 10.33),
    (48, 32, 160, (4, 1, 2, 2, 8, 1, 0), 18.93),
)


@pytest.mark.parametrize(("c", "k", "image", "values", "took_us"), MEASURED)
def test_a_time_is_predicted(c: int, k: int, image: int, values: tuple[int, ...], took_us: float) -> None:
    plan = generator.plan(Conv2d(32, image, image, c, k, 1, 1), Pointwise(*values), target("sm_90a"))
    assert 0.7 < generator.predicted_us(plan) / took_us < 1.4


def test_parameters_of_channels_take_time() -> None:
    """1x1 of 64 to 256 channels over 56x56 at N=128 took 51.6 us with a bias, and 60.4 with both zero points."""
    layer, config = Conv2d(128, 56, 56, 64, 256, 1, 1), Pointwise(2, 1, 4, 2, 8, 2, 1)
    bias = Quantization("uint8", "int8", "uint8", per_channel=True, bias="int32")
    plain, biased, with_zero_points = (
        generator.predicted_us(generator.plan(replace(layer, quantization=q), config, target("sm_90a")))
        for q in (Quantization(), bias, replace(bias, x_zero_point=True, y_zero_point=True))
    )
    assert biased == pytest.approx(51.6, rel=0.1)
    assert with_zero_points == pytest.approx(60.4, rel=0.1)
    assert plain < 0.9 * biased


def test_rows_of_64_bytes_lie_on_all_banks() -> None:
    assert wavefronts(64, 16, 16, 0) == 4
    assert wavefronts(128, 16, 16, 0) == 8


@pytest.mark.parametrize("channels", [48, 80, 96, 112, 160])
def test_rows_that_change_places_do_not_meet_on_a_bank(channels: int) -> None:
    swapped = swapped_bit(channels, 16)
    assert swapped > 0
    assert wavefronts(channels, 16, 16, swapped) == 4


def test_words_of_rows_of_128_bytes_meet_on_the_same_banks() -> None:
    assert wavefronts(128, 4, 4, 0) == 8
    assert wavefronts(80, 4, 4, 0) == 1
