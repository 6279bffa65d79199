"""Pixels with zeros behind their channels: tensor maps and wide loads read whole chunks of a pixel."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from qconv.expression.function import COMPUTED, INT
from qconv.expression.index import Axis, Index
from qconv.expression.map import Map
from qconv.expression.node import Guard, Load, Number, text_of
from qconv.expression.problem import Operand
from qconv.generator.plan import ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.network.graph.value import Shape
from qconv.problem.convolution import Conv2d

# Bytes of a pixel that families without tensor maps load at once at least.
WORD = 4


@dataclass(frozen=True)
class Widened:
    """A copy of images, NHWC, with as many `channels`. Those behind their own are zeros."""

    says: ClassVar[str] = "its pixels are copied with zeros behind their channels"

    shape: Shape
    channels: int

    @classmethod
    def of(cls, problem: Conv2d) -> Widened | None:
        """Return the copy with which pixels are whole chunks. None where they are, and where a copy cannot pay: a
        pixel of few bytes becomes twice as large, and a single tap of whole words is read as fast."""
        size = problem.quantization.types.x.bytes
        is_plain = problem.layout == "nhwc" and problem.groups == 1 and not problem.quantization.w_zero_point
        is_read = problem.r * problem.s == 1 and problem.pixel_bytes % WORD == 0
        if not is_plain or is_read or problem.pixel_bytes % CHUNK == 0 or problem.pixel_bytes < CHUNK:
            return None
        return cls(problem.x_shape, ceil_div(problem.pixel_bytes, CHUNK) * CHUNK // size)

    @property
    def made(self) -> Shape:
        return (*self.shape[:-1], self.channels)

    def problem(self, dtype: str) -> Map:
        pixels, c = prod(self.shape[:-1]), self.shape[-1]
        pixel, channel = Index.of(Axis("i0", pixels)), Index.of(Axis("i1", self.channels))
        computed = COMPUTED[dtype]
        zero = Number(0, INT) if computed == INT else Number(0.0, computed)
        root = Load("x0", pixel * c + channel, computed, (Guard(channel, c),), zero)
        return Map((Operand(dtype, pixels * c),), dtype, text_of(root), (pixels, self.channels))
