"""Frames of a volume side by side in the channels: with them, a filter of several frames is one of a single image. Few
families read the frames where they lie; for the others, a kernel copies them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.expression.function import COMPUTED
from qconv.expression.index import Axis, Index
from qconv.expression.map import Map
from qconv.expression.node import Guard, Load, text_of
from qconv.expression.problem import Operand
from qconv.problem.frames import Frames

# Bytes that a thread writes at once where it reads them one by one.
WORD = 4


@dataclass(frozen=True)
class CopiedFrames:
    """A copy of the frames under a filter at each of its places. `shape` is N, D, H * W, C. The channels of a group
    stay together: they are ordered by group, tap and channel. A frame of the padding is one of zero points."""

    says: ClassVar[str] = "the frames under its filter are copied side by side"

    shape: tuple[int, int, int, int]
    frames: Frames
    groups: int

    @property
    def made(self) -> tuple[int, int, int, int]:
        n, _, pixels, c = self.shape
        return (n, self.frames.images, pixels, self.frames.taps * c)

    def problem(self, dtype: str) -> Map:
        """Return the copy. The zero point is an operand, so that layers of one shape share a kernel."""
        n, depth, pixels, c = self.shape
        extents = (n, self.frames.images, *self._extents)
        shape = tuple(extent for extent in extents if extent > 1)
        axes = (Index.of(Axis(f"i{at}", extent)) for at, extent in enumerate(shape))
        image, place, *parts = (next(axes) if extent > 1 else Index() for extent in extents)
        tap, within = self._element(*parts)
        frame = place * self.frames.stride + tap * self.frames.dilation - self.frames.before
        at = (image * depth + frame) * pixels * c + within
        guard = Guard(frame, depth)
        x, computed = Operand(dtype, n * depth * pixels * c), COMPUTED[dtype]
        if not guard.is_needed:
            return Map((x,), dtype, text_of(Load("x0", at, computed)), shape)
        root = Load("x0", at, computed, (guard,), Load("x1", Index(), computed))
        return Map((x, Operand(dtype, 1, is_constant=True)), dtype, text_of(root), shape)

    @property
    def _extents(self) -> tuple[int, ...]:
        """The axes of a frame of the output. The last one is of neighbours in memory: with one tap all of them, else
        the channels of a group. Where these are not whole words, it is of a few pixels with all taps, so that words are
        written."""
        _, _, pixels, c = self.shape
        if self.frames.taps == 1:
            return (pixels * c,)
        if c // self.groups % WORD == 0:
            return (pixels, self.groups, self.frames.taps, c // self.groups)
        few = next((few for few in (1, 2, 4) if few * self.frames.taps * c % WORD == pixels % few == 0), 1)
        return (pixels // few, few * self.frames.taps * c)

    def _element(self, *parts: Index) -> tuple[Index, Index]:
        """Return the tap of an element of a frame of the output, and its place in the frame that it is read from."""
        c = self.shape[-1]
        along = c // self.groups
        if len(parts) == 1:
            return Index(), parts[0]
        if len(parts) == 4:
            pixel, group, tap, channel = parts
            return tap, pixel * c + group * along + channel
        pixels, element = parts
        row, rest = element // (self.frames.taps * c), element % (self.frames.taps * c)
        pixel = pixels * (self._extents[-1] // (self.frames.taps * c)) + row
        group, tap, channel = rest // (self.frames.taps * along), rest // along % self.frames.taps, rest % along
        return tap, pixel * c + group * along + channel
