"""Data shared by all candidates of a problem: the rolled input sets, the poisoned output, the comparison."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import Quantization, generator
from qconv.device import Device, gpu_specs, open_device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.problem.convolution import Conv2d
from qconv.tuner.measure.verification import MOST_SETS, InputSets

PROBLEM = Conv2d(
    *(1, 6, 6, 16, 16, 3, 3),
    pad=1,
    quantization=Quantization(x_zero_point=True, w_zero_point=True, per_channel=True, bias="int32"),
)


@pytest.fixture(
    params=["cpu", pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.skipif(not gpu_specs(), reason="no GPU")])]
)
def device(request: pytest.FixtureRequest) -> Device:
    return open_device("cpu" if request.param == "cpu" else gpu_specs()[0])


def test_a_device_rolls_and_compares(device: Device) -> None:
    array = np.arange(-60, 60, dtype=np.int32).reshape(2, 60)
    there = device.upload(array)
    for by in (0, 1, 59, 121):
        assert np.array_equal(device.download(device.rolled(there, by)), np.roll(array, by))
    assert device.same(there, device.upload(array))
    other = device.zeros((2, 60), "int32")
    device.copy(there, other)
    assert np.array_equal(device.download(other), array)
    for place in ((0, 0), (1, 59)):
        other = array.copy()
        other[place] ^= 1 << 30
        assert not device.same(there, device.upload(other))
    zeros = np.zeros(3, np.float32)
    assert not device.same(device.upload(zeros), device.upload(-zeros))


def test_every_set_is_another_call_with_its_own_weights(device: Device) -> None:
    drawn = registry.draw(PROBLEM, 7)
    instance = load(generator.default(PROBLEM, device.target), device)
    input_sets = InputSets(PROBLEM, device, drawn, 3 * PROBLEM.io_bytes)
    assert input_sets.mismatch(instance) is None
    assert input_sets.replay(instance)() > 0
    assert len(input_sets._sets) == 3
    for i, (arrays, outs) in enumerate(input_sets._sets):
        rolled = tuple(np.roll(array, i) for array in drawn.arrays)
        for array, want in zip(arrays, rolled, strict=True):
            assert np.array_equal(device.download(array), want)
        (want,) = registry.compute(PROBLEM, Sample(rolled, drawn.parameters))
        assert np.array_equal(device.download(outs[0]), want)


@pytest.mark.parametrize(
    ("times", "more", "sets"),
    [(0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 40, 3), (3, 0, 3), (MOST_SETS + 5, 0, MOST_SETS)],
)
def test_launches_go_round_the_bytes_that_were_asked_for_at_least(
    times: int, more: int, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launches cover several times a set's bytes. With fewer sets, part of one would still be cached at its next
    turn."""
    cpu = open_device("cpu")
    launched: list[int] = []
    monkeypatch.setattr(type(cpu), "replay", lambda _, bounds: launched.append(len(bounds)))
    problem = Conv2d(1, 3, 3, 4, 4, 1, 1)
    input_sets = InputSets(problem, cpu, registry.draw(problem, 7), times * problem.io_bytes + more)
    input_sets.replay(load(generator.default(problem, cpu.target), cpu))
    assert launched == [sets]


def test_numbers_for_timing_are_in_timed_launches_alone() -> None:
    """Floats whose sums are exact change few bits: a GPU is faster with them."""
    device, problem = open_device("cpu"), Conv2d(1, 6, 6, 16, 16, 1, 1, quantization=Quantization(*["float16"] * 3))
    drawn = registry.draw(problem, 7)
    input_sets = InputSets(problem, device, drawn, 2 * problem.io_bytes)
    assert input_sets.mismatch(load(generator.default(problem, device.target), device)) is None
    for i, (arrays, _) in enumerate(input_sets._sets):
        for array, want in zip(arrays, drawn.timed, strict=True):
            assert np.array_equal(device.download(array), np.roll(want, i))
