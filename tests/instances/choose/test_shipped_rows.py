"""A GPU without shipped winners uses measurements from GPUs of its generation."""

from __future__ import annotations

import pytest

from qconv import Conv2d, generator
from qconv.generator import Expected
from qconv.instances.choose import shipped
from qconv.instances.choose import shipped as elsewhere
from qconv.instances.choose.lookup import choose
from qconv.instances.choose.shipped import SCALED, SPEEDS, UNSCALED, scaled
from qconv.targets.target import target
from qconv.tune_db.layered import Layered
from qconv.tune_db.text import TextLayer

HOPPER = target("sm_90a")
H200 = shipped.layer("NVIDIA H200")


class H100:
    name, target = "NVIDIA H100 80GB HBM3", HOPPER


def known() -> Conv2d:
    return next(one for one in H200.problems("NVIDIA H200", "sm_90a") if isinstance(one, Conv2d) and one.r == 3)


def test_the_winner_of_another_gpu_is_a_neighbours() -> None:
    assert isinstance(H200, TextLayer)
    problem = known()
    winner = H200.best(problem, "NVIDIA H200", "sm_90a")
    assert winner is not None
    choice = choose(problem, H100(), Layered([shipped.layer(H100.name)]))
    assert (choice.plan.config, choice.origin, choice.toolchain) == (winner.config, "nearest", None)
    assert "on NVIDIA H200, 0.0 doublings away" in choice.reason


@pytest.mark.parametrize("name", ["sm_80", "gfx942", "cpu", "cpu.sm_90a"])
def test_another_generation_is_not_asked(name: str) -> None:
    there = shipped.layer("some other device")
    assert list(there.near(known(), "some other device", "sm_90a", 4.0))
    assert list(there.near(known(), "some other device", name, 4.0)) == []
    assert list(there.ranked(known(), "some other device", name)) == []


def test_times_are_scaled_by_bandwidth_and_by_clock() -> None:
    """Copies scale with bandwidth, long multiplications with the clock."""
    copies, multiplies = Conv2d(32, 56, 56, 64, 64, 1, 1), Conv2d(32, 28, 28, 512, 512, 3, 3, pad=1)
    slow, (fast,) = SPEEDS["NVIDIA H100 PCIe"], [SPEEDS[elsewhere.FITTED_TO]]
    by_bytes, by_clock = fast.tb_per_s / slow.tb_per_s, fast.clock_mhz / slow.clock_mhz
    ratios = []
    for problem in (copies, multiplies):
        plan = generator.cheapest(problem, HOPPER, 1)[0]
        expected = Expected(generator.predicted_us(plan), 0.1)
        assert scaled(expected, plan, elsewhere.FITTED_TO) == expected
        assert scaled(expected, plan, "NVIDIA H1000") == Expected(expected.us, UNSCALED)
        there = scaled(expected, plan, "NVIDIA H100 PCIe")
        assert there.spread == SCALED
        ratios.append(there.us / expected.us)
    assert by_clock < ratios[1] < ratios[0] < by_bytes
