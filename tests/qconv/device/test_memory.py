"""The allocations of recorded work, as a device records them and serves them from an arena."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.device.memory import Allocation, OtherWork, Placed, Placement, Trace, wish
from qconv.network.run.memory import place

DEVICE = CpuDevice(open_device("cpu").target)


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


class Kept:
    """A place that keeps its allocations."""

    def __call__(self, allocations: Sequence[Allocation]) -> Placement:
        self.allocations = tuple(allocations)
        self.placement = place(allocations)
        return self.placement


def test_what_is_taken_and_given_back_is_written_down() -> None:
    def work() -> list[Any]:
        a = DEVICE.empty((3, 5), "int32")
        view = a.reshape(5, 3)[1:]
        del a
        b = DEVICE.exchanged(DEVICE.zeros((1, 4, 6), "int8"))
        DEVICE.empty((0, 7), "float32")
        del view
        return [DEVICE.contiguous(b), DEVICE.contiguous(b.transpose(1, 0, 2)), DEVICE.contiguous(b[:, ::2])]

    kept = Kept()
    DEVICE.record(work, kept)
    # The view keeps its base; the zeros are freed as soon as they are transposed.
    assert kept.allocations == (
        Allocation(60, 3), Allocation(24, 3), Allocation(24, None), Allocation(12, None)
    )  # fmt: skip


def test_the_arena_answers_and_outputs_lie_by_themselves() -> None:
    seen: list[int] = []

    def work() -> list[Any]:
        a = DEVICE.empty((1000,), "int8")
        a[...] = 3
        b = DEVICE.empty((1000,), "int8", (address(a),))
        b[...] = a + 1
        seen[:] = [address(a), address(b)]
        del a
        c = DEVICE.empty((1000,), "int8")
        c[...] = b * 2
        return [c]

    kept = Kept()
    (made,), again = DEVICE.record(work, kept)
    assert kept.allocations[1] == Allocation(1000, 3, (0,))
    made[...] = 0
    again()
    assert (made == 8).all()
    assert seen[0] == seen[1]
    assert seen[0] % 256 == 0
    assert kept.placement.offsets == (0, 0, None)


def test_other_work_is_done_with_memory_of_its_own() -> None:
    sizes = iter([10, 20, 30, 40])

    def work() -> list[Any]:
        size = next(sizes)
        a = DEVICE.empty((size,), "int8")
        a[...] = size
        b = DEVICE.empty((1,), "int8")
        b[...] = a[-1:]
        return [b]

    (made,), again = DEVICE.record(work, place)
    again()
    assert made[0] == 30  # 20 was refused
    placed = Placed(place([Allocation(8, 1)]))
    assert placed.take(8) == 0
    with pytest.raises(OtherWork, match=r"allocation 1 is of 8 B; when the work was traced, it was none"):
        placed.take(8)
    with pytest.raises(OtherWork, match=r"allocation 0 is of 9 B; when the work was traced, it was 8 B"):
        Placed(place([Allocation(8, 1)])).take(9)


def test_a_wish_is_of_what_is_in_use() -> None:
    trace = Trace()
    trace.take(16, 4)
    trace.wish([16, 99])
    trace.take(32, 4)
    trace.take(40, 4)
    trace.give(16)
    trace.wish([16])
    trace.take(48, 4)
    trace.take(64, 4)
    assert trace.allocations == (
        Allocation(4, 3), Allocation(4, None, (0,)), *[Allocation(4, None)] * 3
    )  # fmt: skip
    wish([16])  # without a trace it has no effect
    np.testing.assert_array_equal(DEVICE.zeros((2,), "int8"), [0, 0])
