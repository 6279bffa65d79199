"""Tensor maps: descriptions of arrays from which TMA copies whole tiles at the request of one thread.

A plan declares a map as a `Field` of the kernel's arguments. The device encodes it when it knows the array's address:
NVIDIA's driver as an opaque CUtensorMap, the CPU device as a plain struct. Dimensions are ordered from the innermost,
as in the driver. Elements outside the array read as zero and are not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import Infeasible
from qconv.problem.convolution import Conv2d
from qconv.problem.frames import Frames

TENSOR_MAP_BYTES = 128
TENSOR_MAP_ALIGNMENT = 64
CHUNK = 16  # bytes that TMA moves together: arrays and copies begin and end at multiples of it

SWIZZLES = (0, 32, 64, 128)
L2_PROMOTIONS = (0, 64, 128, 256)
MOST_BOX = 256
MOST_PIXELS = 1024
MOST_ELEMENT_STRIDE = 8
# Ranges of a pixel box's corners, and the largest offset of a tap, by the number of spatial dimensions.
CORNERS = {1: (-(2**15), 2**15 - 1), 2: (-(2**7), 2**7 - 1), 3: (-(2**4), 2**4 - 1)}
MOST_OFFSET = {1: 2**16 - 1, 2: 2**8 - 1, 3: 2**5 - 1}


@dataclass(frozen=True)
class PixelBox:
    """The base pixels of an im2col copy. They advance by `element_strides` along the innermost spatial dimension, then
    along the next, then over the images. The box bounds the position of the filter's first tap."""

    lower: tuple[int, ...]  # offset of the box's first pixel from the array's first: minus the leading pads
    upper: tuple[int, ...]  # offset of the box's last pixel from the array's last: trailing pads minus filter span
    channels: int  # channels of every pixel, per copy
    pixels: int  # pixels per copy


@dataclass(frozen=True)
class TensorMap:
    """A tensor map with either a `box` or a `pixel_box`. Raises Infeasible where TMA has no such copy."""

    array: str  # the caller's array by name, or a workspace by its field's path
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]  # bytes, per dimension but the innermost, which is contiguous
    box: tuple[int, ...] = ()  # extent of a tile in the array; every `element_strides`-th element of it is copied
    pixel_box: PixelBox | None = None
    element_strides: tuple[int, ...] = ()  # default: 1 in every dimension
    swizzle: int = 0  # bytes per row whose 16-byte chunks are permuted, to spread columns over banks
    l2_promotion: int = 128  # bytes that are fetched into L2 together

    def __post_init__(self) -> None:
        if not self.element_strides:
            object.__setattr__(self, "element_strides", (1,) * self.rank)
        self._check_array()
        self._check_element_strides()
        if (self.pixel_box is None) != bool(self.box):
            self._refuse("a box and a pixel box", "a copy has one of them", "leave one out")
        if self.pixel_box is None:
            self._check_box(self.box)
        else:
            self._check_pixel_box(self.pixel_box)
        self._check_row()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_TYPES[self.dtype].bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of one copy in shared memory, innermost dimension first."""
        if self.pixel_box is not None:
            return self.pixel_box.channels, self.pixel_box.pixels
        return tuple(-(-extent // step) for extent, step in zip(self.box, self.element_strides, strict=True))

    @property
    def bytes(self) -> int:
        """Bytes of one copy, as an mbarrier has to expect them, including the zeros outside the array."""
        return prod(self.shape) * self.element_bytes

    def _refuse(self, value: str, rule: str, remedy: str) -> None:
        raise Infeasible(f"the tensor map of {self.array}: {value}: {rule}; {remedy}")

    def _check_array(self) -> None:
        if self.dtype not in ELEMENT_TYPES:
            self._refuse(f"element type {self.dtype}", f"it is one of {', '.join(ELEMENT_TYPES)}", "use one of these")
        if not 1 <= self.rank <= 5 or len(self.strides) != self.rank - 1:
            sizes = f"{self.rank} dimensions with {len(self.strides)} strides"
            self._refuse(sizes, "it has 1 to 5, and a stride for each but the innermost", "merge or split them")
        for extent in self.dims:
            if not 1 <= extent <= 2**32:
                self._refuse(f"a dimension of {extent}", "dimensions are 1 to 2^32", "split the array")
        if self.dims[0] * self.element_bytes % CHUNK:
            # A store writes whole chunks, even past the array's edge.
            self._refuse(f"rows of {self.dims[0]} {self.dtype}", f"they are multiples of {CHUNK} bytes", "pad them")
        for stride in self.strides:
            if stride % CHUNK or not 0 < stride < 2**40:
                rule = "strides are multiples of 16 bytes below 2^40"
                self._refuse(f"a stride of {stride} bytes", rule, "pad the channels to a multiple of 16 bytes")
        if self.swizzle not in SWIZZLES or self.l2_promotion not in L2_PROMOTIONS:
            value = f"swizzle {self.swizzle}, L2 promotion {self.l2_promotion}"
            self._refuse(value, f"they are one of {SWIZZLES} and of {L2_PROMOTIONS}", "use these")

    def _check_element_strides(self) -> None:
        if len(self.element_strides) != self.rank or self.element_strides[0] != 1:
            rule = "there is one for each dimension, 1 for the innermost"
            self._refuse(f"element strides {self.element_strides}", rule, "give as many")
        for step in self.element_strides:
            if not 1 <= step <= MOST_ELEMENT_STRIDE:
                rule = f"they are 1 to {MOST_ELEMENT_STRIDE}"
                self._refuse(f"an element stride of {step}", rule, "copy without strides, or by other means")

    def _check_box(self, box: tuple[int, ...]) -> None:
        if len(box) != self.rank:
            self._refuse(f"a box of {len(box)} dimensions", f"the array has {self.rank}", "give as many")
        for extent in box:
            if not 1 <= extent <= MOST_BOX:
                self._refuse(f"a box of {extent} elements", f"an extent is 1 to {MOST_BOX}", "use smaller tiles")

    def _check_pixel_box(self, pixel_box: PixelBox) -> None:
        spatial = self.rank - 2
        if spatial not in CORNERS or len(pixel_box.lower) != spatial or len(pixel_box.upper) != spatial:
            sizes = f"{self.rank} dimensions, corners of {len(pixel_box.lower)} and {len(pixel_box.upper)}"
            self._refuse(sizes, "im2col has 3 to 5, and corners of 2 less", "use a tile")
        least, most = CORNERS[spatial]
        for corner in (*pixel_box.lower, *pixel_box.upper):
            if not least <= corner <= most:
                rule = f"with {spatial} spatial dimensions it is {least} to {most}"
                self._refuse(f"a pixel box's corner at {corner}", rule, "use a tile, or smaller pads and dilations")
        for extent, lower, upper in zip(self.dims[1:-1], pixel_box.lower, pixel_box.upper, strict=True):
            if extent + upper - lower < 1:
                self._refuse(f"a pixel box of {extent + upper - lower} pixels", "it has one at least", "pad more")
        if not 1 <= pixel_box.channels <= MOST_BOX or not 1 <= pixel_box.pixels <= MOST_PIXELS:
            value = f"{pixel_box.channels} channels of {pixel_box.pixels} pixels"
            self._refuse(value, f"at most {MOST_BOX} of {MOST_PIXELS} are copied at once", "use smaller tiles")

    def _check_row(self) -> None:
        """Check that rows are as wide as the swizzle. The driver also accepts narrower rows, but leaves gaps between
        them."""
        row = self.shape[0] * self.element_bytes
        if row % CHUNK:
            self._refuse(f"rows of {row} bytes", "they are multiples of 16 bytes", "copy more channels")
        if self.swizzle not in (0, row):
            remedy = f"swizzle by {row}" if row in SWIZZLES else "copy rows of as many, or do not swizzle"
            self._refuse(f"rows of {row} bytes", f"a swizzle of {self.swizzle} has rows of as many", remedy)


def im2col(problem: Conv2d, channels: int, pixels: int, swizzle: int = 0) -> TensorMap:
    """Map an im2col copy of `channels` channels of `pixels` pixels per tap, in the order of the outputs. `load_im2col`
    takes the pixel of the filter's first tap (see `first_tap`) and the offset of the tap from it; of frames, in five
    dimensions."""
    down, across = problem.dilation
    top, left, bottom, right = problem.pad
    span_h, span_w = (problem.r - 1) * down, (problem.s - 1) * across
    most = MOST_OFFSET[rank_of_x(problem) - 2]
    if max(span_h, span_w) > most:
        raise Infeasible(
            f"a filter that spans {max(span_h, span_w)} pixels: im2col reaches taps at most {most} away; use a tile"
        )
    along = _along_frames(problem.frames)
    lower, upper = (-left, -top, *along.lower), (right - span_w, bottom - span_h, *along.upper)
    steps = (1, problem.stride[1], problem.stride[0], *along.step, 1)
    return _of_x(problem, (), PixelBox(lower, upper, channels, pixels), steps, swizzle)


class AlongFrames(NamedTuple):
    """The part of a pixel box along the frames of a volume; without frames, nothing."""

    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    step: tuple[int, ...] = ()


def _along_frames(frames: Frames | None) -> AlongFrames:
    if frames is None:
        return AlongFrames()
    if frames.span > (most := MOST_OFFSET[3]):
        raise Infeasible(f"a filter that spans {frames.span} frames: im2col reaches at most {most}; copy them")
    last = (frames.images - 1) * frames.stride - frames.before
    return AlongFrames((-frames.before,), (last + 1 - frames.depth,), (frames.stride,))


def first_tap(problem: Conv2d, pixel: int) -> tuple[int, int, int]:
    """Return the coordinates w, h and n of the filter's first tap, for the output pixel with this index among all
    images."""
    image, of_image = divmod(pixel, problem.oh * problem.ow)
    row, column = divmod(of_image, problem.ow)
    return column * problem.stride[1] - problem.pad[1], row * problem.stride[0] - problem.pad[0], image


def matrix(
    array: str, dtype: str, rows: int, columns: int, box_rows: int, box_columns: int, swizzle: int = 0
) -> TensorMap:
    """Map a tile of a row-major matrix, such as the weights: output channels by reduction."""
    dims = columns, rows
    return TensorMap(array, dtype, dims, _strides(dims, dtype), (box_columns, box_rows), swizzle=swizzle)


def window(
    problem: Conv2d, rows: int, columns: int, channels: int, steps: tuple[int, int] = (1, 1), swizzle: int = 0
) -> TensorMap:
    """Map a tile of `rows` x `columns` input pixels, such as a tile of outputs with its halo (`input_span` in
    generator/convolution.py). `steps` are the strides between copied pixels. `load_tile` takes channel, column, row and
    image (or frame and volume) of the first pixel, which may lie outside the image."""
    down, across = steps
    images = (1,) * (rank_of_x(problem) - 3)
    return _of_x(problem, (channels, columns, rows, *images), None, (1, across, down, *images), swizzle)


def of_outputs(problem: Conv2d, array: str, dtype: str, box: tuple[int, ...], swizzle: int = 0) -> TensorMap:
    """Map a tile of an array with the outputs' shape: channels, columns, rows, images. `store_tile` takes the
    coordinates of its first element, in this order."""
    dims = problem.y_shape[::-1]
    return TensorMap(array, dtype, dims, _strides(dims, dtype), box, swizzle=swizzle)


def rank_of_x(problem: Conv2d) -> int:
    """Return how many dimensions the input's tensor map has."""
    return len(_dims_of_x(problem))


def _dims_of_x(problem: Conv2d) -> tuple[int, ...]:
    frames = problem.frames
    images = (problem.n,) if frames is None else (frames.depth, problem.n // frames.images)
    return (problem.frame_c, problem.w, problem.h, *images)


def _strides(dims: tuple[int, ...], dtype: str) -> tuple[int, ...]:
    """Return the strides of an array without gaps."""
    return tuple(prod(dims[:at]) * ELEMENT_TYPES[dtype].bytes for at in range(1, len(dims)))


def _of_x(
    problem: Conv2d, box: tuple[int, ...], pixel_box: PixelBox | None, steps: tuple[int, ...], swizzle: int
) -> TensorMap:
    if problem.layout != "nhwc":
        raise Infeasible(f"layout {problem.layout}: pixels are copied with their channels together; use nhwc")
    dims, dtype = _dims_of_x(problem), problem.quantization.x_type
    return TensorMap("x", dtype, dims, _strides(dims, dtype), box, pixel_box, steps, swizzle)
