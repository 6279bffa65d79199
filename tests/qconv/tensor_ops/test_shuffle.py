"""A channel shuffle as a problem: its key, its refusals, its oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.op import Sample
from qconv.ops import registry
from qconv.ops.registry import parse
from qconv.tensor_ops import ChannelShuffle


def test_its_key() -> None:
    problem = ChannelShuffle(49, 2, 58, "uint8")
    assert str(problem) == "channel_shuffle:rows=49:groups=2:width=58:x_type=uint8"
    assert parse(str(problem)) == problem == ChannelShuffle.of(49, 116, 2, "uint8")
    assert problem.io_bytes == 2 * 49 * 116


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ChannelShuffle(0, 2, 5), "rows=0 must be between 1"),
        (lambda: ChannelShuffle(1, 65, 5), "groups=65 must be between 1 and 64"),
        (lambda: ChannelShuffle(2**20, 2, 2**12), "x has 8589934592 elements"),
        (lambda: ChannelShuffle(1, 2, 5, "int32"), "x_type='int32' is not one of int8, uint8"),
        (lambda: ChannelShuffle.of(1, 10, 3, "int8"), "groups=3 does not divide 10 channels"),
        (lambda: ChannelShuffle.of(1, 10, 0, "int8"), "groups=0 must be between 1 and 64"),
    ],
)
def test_what_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_one_of_each_group_in_turn() -> None:
    x = np.arange(12, dtype=np.int8).reshape(2, 3, 2)
    (y,) = registry.compute(ChannelShuffle(2, 3, 2), Sample((x,)))
    assert y.reshape(2, 6).tolist() == [[0, 2, 4, 1, 3, 5], [6, 8, 10, 7, 9, 11]]
    assert len(np.unique(registry.draw(ChannelShuffle(99, 3, 20), 1).arrays[0])) == 256
