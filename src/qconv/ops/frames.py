"""The frames of volumes as the channels of images, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv.op import Array
from qconv.problem.convolution import Conv2d


def beside_each_other(problem: Conv2d, x: Array, x_zero_point: Any) -> Array:
    """Return the images of a convolution, NHWC: of volumes, the frames of each image side by side."""
    frames = problem.frames
    if frames is None:
        return x
    padding = np.asarray(x_zero_point if problem.quantization.mode.padding == "zero_point" else 0)
    volumes = x.reshape(-1, frames.depth, *x.shape[1:])
    made = np.full((len(volumes), frames.images, problem.h, problem.w, frames.taps, problem.frame_c), padding, x.dtype)
    for image in range(frames.images):
        for tap in range(frames.taps):
            if (frame := frames.frame(image, tap)) is not None:
                made[:, image, :, :, tap] = volumes[:, frame]
    return made.reshape(problem.n, problem.h, problem.w, problem.c)
