"""The basis of choices between kernels: the times of lookup's choices."""

from __future__ import annotations

from pathlib import Path

import pytest
from stored_times import store

from qconv import Conv2d, PooledConv2d, generator
from qconv.device import open_device
from qconv.generator.cost_units import CLOCK_MHZ, LAUNCH, MEMORY
from qconv.instances.load import expected
from qconv.instances.load.expected import Expectations, spared_us
from qconv.problem.chain import FusedConv2d
from qconv.tensor_ops import Add

DEVICE = open_device("cpu")
PROBLEM = Conv2d(1, 6, 6, 8, 8, 3, 3, pad=1)


def test_what_was_measured_and_what_is_predicted(tmp_path: Path) -> None:
    best = generator.default(PROBLEM, DEVICE.target)
    store(tmp_path / "times.sqlite", DEVICE, [(best, 7.0)])
    times = Expectations(DEVICE, str(tmp_path / "times.sqlite"))
    tuned, other, again = times.of([PROBLEM, Add(1, 1, 1000), PROBLEM])
    assert tuned is again
    assert tuned is not None
    assert (tuned.measured_us, tuned.predicted_us) == (7.0, generator.predicted_us(best))
    # The costs of a sum only rank configs and are not times; the time of a copy of its bytes is one.
    assert other is not None
    assert other.measured_us is None
    assert other.predicted_us == pytest.approx((3000 / DEVICE.target.processors / MEMORY + LAUNCH) / CLOCK_MHZ)


def test_an_older_template_was_measured_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = generator.default(PROBLEM, DEVICE.target)
    store(tmp_path / "times.sqlite", DEVICE, [(best, 7.0)], digest="0" * 32)
    (old,) = Expectations(DEVICE, str(tmp_path / "times.sqlite")).of([PROBLEM])
    assert old is not None
    assert old.measured_us is None


def test_few_times_are_kept_and_each_answer_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expected, "MOST_TIMES", 2)
    times = Expectations(DEVICE)
    sums = [Add(1, 1, count) for count in (100, 200, 300, 400)]
    first = times.of(sums)
    assert len(times._found) == 2
    assert times.of(sums) == first
    assert times.of([sums[3]])[0] is times.of([sums[3]])[0]


def test_the_one_kernel_that_a_lookup_need_not_choose(tmp_path: Path) -> None:
    device = open_device("cpu.sm_80")
    pair = FusedConv2d(Conv2d(1, 8, 8, 16, 32, 1, 1), Conv2d(1, 8, 8, 32, 16, 1, 1))
    kernels = [plan for plan in generator.cheapest(pair, device.target, generator.RANKED) if not plan.parts]
    store(tmp_path / "times.sqlite", device, [(generator.unfused_plan(pair, device.target), 7.0)])
    times = Expectations(device, str(tmp_path / "times.sqlite"))
    (several,) = times.of([pair])
    assert several is not None
    assert not several.is_one_kernel
    assert times.one_kernel_us(pair) == min(one.us for one in generator.expected(kernels))
    assert times.one_kernel_us(PooledConv2d(1, 9, 9, 3, 8, 1, 1, window=2)) is None


def test_what_two_convolutions_in_one_kernel_spare() -> None:
    pair = FusedConv2d(PROBLEM, Conv2d(1, 6, 6, 8, 4, 1, 1))
    bytes_of_mid = 36 * 8
    clocks = LAUNCH + 2 * bytes_of_mid / DEVICE.target.processors / MEMORY
    assert spared_us(pair, DEVICE.target) == pytest.approx(clocks / CLOCK_MHZ)
