"""The pixel shuffle of a convolution's output, in NumPy: channels that are the pixels of blocks."""

from __future__ import annotations

import numpy as np

from qconv.op import Array
from qconv.problem.convolution import Conv2d

# The axes: images, rows, columns, groups, rows of a block, columns of a block, channels of a group. A block's rows move
# beside the rows of pixels, and its columns beside the columns.
TO_PIXELS, TO_CHANNELS = (0, 1, 4, 2, 5, 3, 6), (0, 1, 3, 5, 2, 4, 6)


def to_pixels(problem: Conv2d, array: Array) -> Array:
    """Return the output, NHWK, from the convolution's pixels with all their channels."""
    if not problem.is_shuffled:
        return array
    (down, across), (top, left, _, _), (height, width) = problem.pixel_shuffle, problem.crop, problem.y_size
    images, rows, columns, _ = array.shape
    split = array.reshape(images, rows, columns, problem.groups, down, across, problem.y_group)
    whole = split.transpose(TO_PIXELS).reshape(images, rows * down, columns * across, -1)
    return np.ascontiguousarray(whole[:, top : top + height, left : left + width])


def to_channels(problem: Conv2d, array: Array) -> Array:
    """Return an array of the output's shape by the convolution's pixels and channels. Cropped pixels are zeros."""
    if not problem.is_shuffled:
        return array
    (down, across), (top, left, bottom, right) = problem.pixel_shuffle, problem.crop
    whole = np.pad(array, ((0, 0), (top, bottom), (left, right), (0, 0)))
    split = whole.reshape(len(array), problem.oh, down, problem.ow, across, problem.groups, problem.y_group)
    return split.transpose(TO_CHANNELS).reshape(len(array), problem.oh, problem.ow, problem.k)
