"""Transposed convolutions, as the convolution of all their phases.

An output at stride * m + phase adds up the inputs at m, m - 1, ... times the taps phase, stride + phase, ... of the
filter. So each phase is a convolution with stride 1, and all phases are the channels of one, whose `pixel_shuffle`
moves them to their pixels. A filter whose size is no multiple of the stride, or that has gaps, is filled up with taps
that contribute nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qconv.arithmetic.quantization import Quantization
from qconv.op import LARGEST, Array, checked_size, several
from qconv.problem.convolution import Conv2d

SIZES = ("n", "h", "w", "c", "k", "r", "s", "groups")
PLURAL = (("stride", 2, 1), ("dilation", 2, 1), ("pad", 4, 0), ("output_padding", 2, 0))


@dataclass(frozen=True)
class Axis:
    """The geometry along one axis. `before` and `after` are the outputs that the pads remove."""

    size: int
    taps: int
    stride: int
    gap: int
    before: int
    after: int
    extra: int

    @property
    def span(self) -> int:
        return (self.taps - 1) * self.gap + 1

    @property
    def made(self) -> int:
        return self.stride * (self.size - 1) + self.span - self.before - self.after + self.extra

    @property
    def taps_of_phase(self) -> int:
        return -(-self.span // self.stride)

    @property
    def skipped(self) -> int:
        """Return the whole steps at the front that the pad removes, which the convolution does not compute."""
        return min(self.before // self.stride, self.taps_of_phase - 1)

    @property
    def pads(self) -> tuple[int, int]:
        """Return the pads of the convolution: it makes every step of which an output remains."""
        front = self.taps_of_phase - 1 - self.skipped
        steps = -(-(self.before - self.stride * self.skipped + self.made) // self.stride)
        return front, max(0, steps - self._steps(front))

    @property
    def crop(self) -> tuple[int, int]:
        """Return the outputs that are removed at both ends of the convolution's."""
        front = self.before - self.stride * self.skipped
        return front, self.stride * self._steps(sum(self.pads)) - front - self.made

    def _steps(self, pads: int) -> int:
        return self.size + pads - self.taps_of_phase + 1


def size_with_outputs(before: int, behind: int, wanted: int = 0) -> int:
    """Return the size of an axis of which at least these outputs remain behind the pads, whatever the filter."""
    return 1 + before + behind + wanted


@dataclass(frozen=True)
class ConvTranspose2d:
    """A transposed convolution of NHWC activations. Weights are CKRS, as in ONNX and PyTorch: K is the channels of a
    group. `pad` (top, left, bottom, right) and `output_padding` (down, right) are those of ONNX and PyTorch.

    `phases` is the problem that kernels serve; `filters` and `by_phase` give its weights and parameters."""

    n: int
    h: int
    w: int
    c: int
    k: int
    r: int
    s: int
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: tuple[int, int, int, int] = (0, 0, 0, 0)
    output_padding: tuple[int, int] = (0, 0)
    groups: int = 1
    quantization: Quantization = field(default_factory=Quantization)

    if TYPE_CHECKING:
        # One number may stand for both directions, or for all four sides; the fields are always tuples.
        def __init__(
            self,
            n: int,
            h: int,
            w: int,
            c: int,
            k: int,
            r: int,
            s: int,
            stride: int | tuple[int, int] = 1,
            dilation: int | tuple[int, int] = 1,
            pad: int | tuple[int, int, int, int] = 0,
            output_padding: int | tuple[int, int] = 0,
            groups: int = 1,
            quantization: Quantization = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in SIZES:
            object.__setattr__(self, name, checked_size(name, getattr(self, name), 1))
        for name, length, least in PLURAL:
            object.__setattr__(self, name, several(name, getattr(self, name), length, least))
        for name, size in (("c", self.c), ("k", self.k)):
            if size % self.groups:
                raise ValueError(f"{name}={size} is not a multiple of groups={self.groups}")
        for name, axis in zip("hw", self.axes, strict=True):
            if not 1 <= axis.made <= LARGEST:
                pads = f"pad={axis.before},{axis.after} along {name}"
                raise ValueError(f"{pads} leaves {axis.made} outputs; there must be 1 to {LARGEST}")
            if axis.extra >= max(axis.stride, axis.gap):
                raise ValueError(
                    f"output_padding={axis.extra} along {name} must be less than its stride, {axis.stride}, or its "
                    f"dilation, {axis.gap}"
                )

    @cached_property
    def axes(self) -> tuple[Axis, Axis]:
        top, left, bottom, right = self.pad
        h = Axis(self.h, self.r, self.stride[0], self.dilation[0], top, bottom, self.output_padding[0])
        w = Axis(self.w, self.s, self.stride[1], self.dilation[1], left, right, self.output_padding[1])
        return h, w

    @cached_property
    def phases(self) -> Conv2d:
        h, w = self.axes
        return Conv2d(
            *(self.n, self.h, self.w, self.c, self.k * h.stride * w.stride, h.taps_of_phase, w.taps_of_phase),
            **self.window,
            groups=self.groups,
            quantization=self.quantization,
        )

    @property
    def window(self) -> dict[str, Any]:
        """Return the pads, the pixel shuffle and the crop of the convolution."""
        ends = [(axis.pads, axis.crop) for axis in self.axes]
        (top, bottom), (left, right) = (pads for pads, _ in ends)
        (above, below), (before, behind) = (crop for _, crop in ends)
        crop = (above, before, below, behind)
        return {"pad": (top, left, bottom, right), "pixel_shuffle": self.stride, "crop": crop}

    def filters(self, w: Array, zero_point: Any = 0) -> Array:
        """Return the filters of all phases, KRSC, from weights, CKRS. Taps that contribute nothing are zero points."""
        if w.shape != (self.c, self.k // self.groups, self.r, self.s):
            wanted = (self.c, self.k // self.groups, self.r, self.s)
            raise ValueError(f"w has shape {w.shape}; it must be {wanted}: C, K of a group, R, S")
        rows, columns = (axis.taps_of_phase for axis in self.axes)
        height, width = (axis.span for axis in self.axes)
        (high, wide), (down, across) = self.stride, self.dilation
        zero = np.broadcast_to(np.asarray(zero_point, w.dtype).reshape(-1), (self.k,))
        of_group = zero.reshape(self.groups, 1, -1, 1, 1)
        split = (self.groups, self.c // self.groups, self.k // self.groups)
        filled = np.broadcast_to(of_group, (*split, rows * high, columns * wide)).copy()
        filled[..., :height:down, :width:across] = w.reshape(*split, self.r, self.s)
        # A later tap of a phase meets an earlier input, so a filter of the convolution is reversed.
        by_phase = filled.reshape(*split, rows, high, columns, wide)[:, :, :, ::-1, :, ::-1]
        ordered = by_phase.transpose(0, 4, 6, 2, 3, 5, 1)
        return np.ascontiguousarray(ordered.reshape(self.phases.k, rows, columns, -1))

    def by_phase(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the convolution: those with one number per output have it for each phase."""
        count = self.stride[0] * self.stride[1]

        def repeated(value: Any) -> Any:
            array = np.asarray(value)
            if array.size == 1 or array.shape != (self.k,):
                return value
            return np.tile(array.reshape(self.groups, 1, -1), (1, count, 1)).reshape(-1)

        return {name: repeated(value) if name in PER_OUTPUT else value for name, value in parameters.items()}


# The parameters that may have one number per output.
PER_OUTPUT = ("bias", "w_scale", "w_zero_point", "constant")
