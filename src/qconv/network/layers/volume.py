"""Filters with three axes as filters of images. The axes are D, H and W; frames are the images along D.

A filter of one frame filters all frames as images. A filter of one pixel per frame filters images of D rows, each of
the pixels of a frame. For others, the channels of an image are those of the frames under the filter, side by side. A
kernel reads these where they lie, or they are copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qconv.network.graph.reading import Array
from qconv.network.graph.value import Shape
from qconv.network.layers.frames import CopiedFrames
from qconv.network.layers.window import sides
from qconv.problem.frames import Frames


@dataclass(frozen=True)
class Images:
    """The images of one input. `shape` is NHWC, and `window` describes the filter on them. Without `frames`, they are
    the input itself."""

    shape: Shape
    window: Mapping[str, Any]
    frames: CopiedFrames | None = None


@dataclass(frozen=True)
class Volume:
    """A filter of `taps`, TRS. `is_of_time`: it has one pixel per frame."""

    taps: tuple[int, int, int]
    attributes: Mapping[str, Any]

    @property
    def is_of_time(self) -> bool:
        strides, pads = (tuple(self.attributes.get(name) or ()) for name in ("strides", "pads"))
        moves = any(stride != 1 for stride in strides[1:]) or any((*pads[1:3], *pads[4:6]))
        # The pixels of a frame are not those of an image of time, so that they cannot be blocks of it.
        is_shuffled = "pixel_shuffle" in self.attributes
        return self.taps[0] > 1 and self.taps[1:] == (1, 1) and not moves and not is_shuffled

    @property
    def taps_of_images(self) -> tuple[int, int]:
        """The height and width of the filter of the images."""
        t, r, s = self.taps
        return (t, 1) if self.is_of_time else (r, s)

    def filters(self, w: Array) -> Array:
        """Return the filters of the images, KCRS, of weights KCTRS."""
        by_frame = w if self.is_of_time else np.ascontiguousarray(w.transpose(0, 2, 1, 3, 4))
        return by_frame.reshape(len(w), -1, *self.taps_of_images)

    def images(self, x_shape: Shape) -> Images:
        """Return the images of an input of this shape, with the channels after N."""
        n, c, depth, *pixels = x_shape
        given = sides(self.attributes, (depth, *pixels), self.taps)
        stride, dilation, pad = given["stride"], given["dilation"], given["pad"]
        if self.is_of_time:
            window = {"stride": (stride[0], 1), "dilation": (dilation[0], 1), "pad": (pad[0], 0, pad[3], 0)}
            return Images((n, depth, prod(pixels), c), window)
        window = {"stride": stride[1:], "dilation": dilation[1:], "pad": (*pad[1:3], *pad[4:6])}
        count = _places(depth, self.taps[0], stride[0], dilation[0], (pad[0], pad[3]))
        shape = (n * count, *pixels, self.taps[0] * c)
        if self.taps[0] == stride[0] == 1 and count == depth:
            return Images(shape, window)
        groups = int(self.attributes.get("group", 1))
        seen = (n, depth, prod(pixels), c)
        frames = Frames(count, depth, self.taps[0], stride[0], dilation[0], pad[0])
        return Images(shape, window, CopiedFrames(seen, frames, groups))

    def y_shape(self, x_shape: Shape, of_images: Shape) -> Shape:
        """Return the shape of the output with the channels last. `of_images` is that of the convolution of images."""
        n, _, _, *pixels = x_shape
        images, h, w, k = of_images
        return (n, h, *pixels, k) if self.is_of_time else (n, images // n, h, w, k)


def _places(depth: int, taps: int, stride: int, dilation: int, pads: tuple[int, int]) -> int:
    """Return the number of places of a filter along the frames."""
    span = (taps - 1) * dilation + 1
    if min(stride, dilation) < 1 or min(pads) < 0:
        raise ValueError(
            f"strides={stride}, dilations={dilation} and pads={pads} along the frames: strides and dilations are 1 or "
            "more, pads 0 or more"
        )
    if depth + sum(pads) < span:
        raise ValueError(
            f"the filter spans {span} frames, but the padded input has only {depth + sum(pads)}: pad more, or use a "
            "smaller filter or dilation"
        )
    return (depth + sum(pads) - span) // stride + 1
