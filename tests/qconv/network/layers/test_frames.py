"""Frames beside each other, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import whole_range
from session_comparison import assert_equal

from qconv.device import open_device
from qconv.network import Value
from qconv.network.layers.copied import BehindCopy
from qconv.network.layers.frames import CopiedFrames
from qconv.problem.frames import Frames

ZERO_POINT = 77


def copied(
    shape: tuple[int, int, int, int], count: int, taps: int, stride: int, dilation: int, before: int, groups: int
) -> CopiedFrames:
    return CopiedFrames(shape, Frames(count, shape[1], taps, stride, dilation, before), groups)


FRAMES = {
    "neighbours": copied((2, 5, 6, 4), 5, 3, 1, 1, 1, 1),
    "behind each other": copied((1, 6, 5, 8), 3, 2, 2, 1, 0, 1),
    "causal": copied((1, 4, 3, 3), 4, 3, 1, 1, 2, 1),
    "dilated": copied((1, 7, 3, 4), 4, 3, 2, 3, 2, 1),
    "groups": copied((2, 4, 3, 6), 4, 3, 1, 1, 1, 2),
    "groups of words": copied((1, 4, 3, 8), 4, 3, 1, 1, 1, 2),
    "a channel in each group": copied((1, 4, 2, 5), 2, 3, 1, 1, 0, 5),
    "some of them": copied((2, 6, 5, 3), 3, 1, 2, 1, 0, 3),
    "one more in front": copied((1, 2, 3, 2), 3, 1, 1, 1, 1, 1),
    "four pixels in a row of words": copied((1, 3, 8, 3), 3, 3, 1, 1, 1, 1),
    "two pixels in a row of words": copied((2, 3, 6, 6), 2, 3, 1, 1, 0, 3),
    "words of two channels": copied((1, 3, 5, 6), 3, 2, 1, 1, 1, 1),
    "depthwise words": copied((1, 4, 3, 8), 4, 3, 1, 1, 1, 8),
    "one of one": copied((1, 1, 1, 1), 1, 3, 1, 1, 1, 1),
}  # fmt: skip


def beside(made_of: CopiedFrames, x: Any) -> Any:
    """Return the frames of each place by a loop over places and taps."""
    (n, depth, pixels, c), frames, groups = made_of.shape, made_of.frames, made_of.groups
    made = np.full((n, frames.images, pixels, groups, frames.taps, c // groups), ZERO_POINT, x.dtype)
    for place in range(frames.images):
        for tap in range(frames.taps):
            at = place * frames.stride + tap * frames.dilation - frames.before
            if 0 <= at < depth:
                made[:, place, :, :, tap] = x[:, at].reshape(n, pixels, groups, -1)
    return made.reshape(made_of.made)


class Kept:
    """A layer of images that gives back what it reads."""

    why, problems = "as it is", ()

    def __call__(self, *inputs: Value) -> Value:
        return inputs[0]


@pytest.mark.turns
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_every_frame_is_where_the_filter_reads_it(name: str, dtype: str) -> None:
    frames, device = FRAMES[name], open_device("cpu")
    x = whole_range(np.random.default_rng(0), dtype, frames.shape)
    prepared = BehindCopy(frames, dtype, ZERO_POINT, Kept(), device)
    y = prepared(Value(device, channels_last=device.upload(x)))
    assert_equal(device.download(y.channels_last), beside(frames, x), name)
    assert prepared.why.startswith("as it is; the frames under its filter are copied")


def test_zero_points_are_read_where_there_is_padding() -> None:
    assert FRAMES["causal"].problem("uint8").packed == ("x1",)
    assert FRAMES["behind each other"].problem("uint8").packed == ()


@pytest.mark.parametrize("name", [name for name in FRAMES if "words" in name])
def test_words_are_written(name: str) -> None:
    assert FRAMES[name].problem("int8").shape[-1] % 4 == 0
