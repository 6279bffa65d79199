"""The cost model of `tcgen05`, which is not fitted to measurements: consequences of the data sheet, and its choices."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qconv import Conv2d, Quantization, generator
from qconv.generator import cost_units
from qconv.generator.families.tcgen05 import PRODUCTS, Tcgen05
from qconv.targets.target import TARGETS

SM_100A = TARGETS["sm_100a"]
LARGE = Conv2d(256, 28, 28, 512, 512, 3, 3, pad=1)


def us(problem: Conv2d, *values: int) -> float:
    return generator.predicted_us(generator.plan(problem, Tcgen05(*values), SM_100A))


def test_the_rate_is_the_data_sheets() -> None:
    """4.5 POPS of a B200, at about the clock for which its rate is given."""
    assert 2 * PRODUCTS * SM_100A.processors * 1.85e9 == pytest.approx(4.5e15, rel=0.02)
    # Tiles with few channels per pixel load too slowly for that.
    products = LARGE.pixels * LARGE.k * LARGE.reduction / SM_100A.processors / PRODUCTS / cost_units.CLOCK_MHZ
    assert products < us(LARGE, 128, 256, 2, 128, 4) < us(LARGE, 128, 128, 2, 128, 6) < us(LARGE, 128, 64, 2, 128, 8)


def test_slots_hide_what_copies_take() -> None:
    assert us(LARGE, 128, 128, 2, 128, 6) <= us(LARGE, 128, 128, 2, 128, 3) < us(LARGE, 128, 128, 2, 128, 2)


def test_two_warpgroups_write_sooner_where_writing_is_longer() -> None:
    short = Conv2d(64, 28, 28, 128, 256, 1, 1)
    assert us(short, 128, 128, 2, 128, 6) < 0.8 * us(short, 128, 128, 1, 128, 6)
    assert us(LARGE, 128, 128, 2, 128, 6) > 0.97 * us(LARGE, 128, 128, 1, 128, 6)


def test_residuals_are_waited_for() -> None:
    short = Conv2d(64, 28, 28, 128, 256, 1, 1)
    added = replace(short, quantization=Quantization(residual="int8"))
    assert us(added, 128, 128, 2, 128, 6) > 1.3 * us(short, 128, 128, 2, 128, 6)


def test_few_channels_come_in_short_slabs() -> None:
    """Half of a slab of 128 bytes would be zeros, which are multiplied too."""
    few = replace(LARGE, c=64, k=64, n=64)
    plans = generator.cheapest(few, SM_100A, 1000)
    found = [plan.config for plan in plans if isinstance(plan.config, Tcgen05)]
    assert found[0].slab == 64
    whole = replace(few, c=128)
    assert us(whole, 128, 64, 2, 64, 8) >= us(whole, 128, 64, 2, 128, 8)


def test_waves_are_whole() -> None:
    """One more tile than SMs takes another wave."""
    tiles = [Conv2d(n, 16, 8, 1024, 128, 3, 3, pad=1) for n in (SM_100A.processors, SM_100A.processors + 1)]
    full, more = (us(problem, 128, 128, 2, 128, 6) for problem in tiles)
    assert more > 1.5 * full


@pytest.mark.parametrize(("name", "family"), [("sm_100a", "tcgen05"), ("sm_103a", "mma"), ("sm_120", "mma")])
def test_what_serves_a_large_layer(name: str, family: str) -> None:
    assert generator.default(LARGE, TARGETS[name]).config.family == family


def test_small_images_are_left_to_warps() -> None:
    assert generator.default(Conv2d(1, 7, 7, 512, 512, 3, 3, pad=1), SM_100A).config.family == "mma"
