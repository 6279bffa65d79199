"""Roles of gemv, stem and depthwise that few random plans have, each in a dedicated plan: tolerance 0."""

from __future__ import annotations

from exactness import check

from qconv import Conv2d
from qconv.device import open_device
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.stem import Stem, StemPlan
from tests.templates.test_special_sanitizers import EVERYTHING, FIRST, ROW, plan_of


def test_gemv_of_every_second_pixel_and_several_windows_a_thread() -> None:
    plan = plan_of(Conv2d(2, 5, 5, 96, 10, 1, 1, stride=2, quantization=EVERYTHING), ROW)
    check(plan, open_device(plan.target.name), seed=2)


def test_a_stem_whose_rows_no_words_divide_pads_with_the_zero_point() -> None:
    plan = plan_of(Conv2d(1, 9, 9, 3, 40, 3, 3, pad=1, quantization=EVERYTHING), FIRST)
    assert isinstance(plan, StemPlan)
    assert not plan.quads
    check(plan, open_device(plan.target.name), seed=2)


def test_a_row_of_a_tile_is_several_sixteens() -> None:
    wide = Stem(tile_h=4, tile_w=32, atoms=2, slabs=1, warps=2, batch=2, blocks_per_sm=2)
    plan = plan_of(Conv2d(1, 6, 40, 3, 16, 3, 3, pad=1, quantization=EVERYTHING), wide)
    check(plan, open_device(plan.target.name), seed=2)


def test_the_taps_of_four_neighbours_begin_at_each_of_four_places() -> None:
    four = Depthwise(rows=2, columns=4, vector=4, run=1, threads=64)
    plan = plan_of(Conv2d(1, 6, 9, 8, 8, 3, 3, pad=1, groups=8, quantization=EVERYTHING), four)
    check(plan, open_device(plan.target.name), seed=2)


def test_the_fourth_of_four_dilated_taps_is_three_dilations_away() -> None:
    one = Depthwise(rows=1, columns=1, vector=4, run=1, threads=64)
    plan = plan_of(Conv2d(1, 2, 9, 4, 4, 1, 4, dilation=(1, 2), groups=4), one)
    check(plan, open_device(plan.target.name), seed=2)
