"""Pooling of NHWC tensors of 8 bits: the largest of a window, its average, and the average of a whole image, as ONNX
Runtime's MaxPool, QLinearAveragePool and QLinearGlobalAveragePool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from qconv.op import FULL, LARGEST, WIDEST, Tensor, alignment, checked_size, several
from qconv.parameter import check_ratio
from qconv.tensor_ops.problem import Parameters, TensorOp

# What ONNX Runtime computes fits an int32 up to this, for any bytes. No sum of a window is infinite with this scale.
MOST_OF_AVERAGE, MOST_SCALE = 2.0**20, 2.0**90
# ONNX Runtime refuses what lies beyond these.
LEAST_OF_GLOBAL, MOST_OF_GLOBAL = 2.0**-32, 256.0
# Their sum fits an int32.
MOST_PIXELS = (2**31 - 1) // 255


@dataclass(frozen=True)
class PoolParameters(Parameters):
    x_scale: Any = 1.0
    y_scale: Any = 1.0
    x_zero_point: Any = 0
    y_zero_point: Any = 0


@dataclass(frozen=True, eq=False)
class Pool(TensorOp):
    """`r` x `s` is the window, `pad` is top, left, bottom, right. With `ceil_mode`, a window that is not whole counts
    as well, if it begins before the padding behind the input does."""

    n: int
    h: int
    w: int
    c: int
    r: int
    s: int
    stride: Any = (1, 1)
    pad: Any = (0, 0, 0, 0)
    ceil_mode: bool = False
    x_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("n", "h", "w", "c", "r", "s")
    extents_of_key: ClassVar[tuple[str, ...]] = ("stride", "pad", "dilation")
    flags: ClassVar[tuple[str, ...]] = ("ceil_mode",)
    types: ClassVar[tuple[str, ...]] = ("x_type",)

    def __post_init__(self) -> None:
        self._check_fields()
        for name, length, least in (("stride", 2, 1), ("pad", 4, 0), ("dilation", 2, 1)):
            if hasattr(self, name):
                object.__setattr__(self, name, several(name, getattr(self, name), length, least))
        for name, window, before, behind in (("r", self.r, 0, 2), ("s", self.s, 1, 3)):
            if max(self.pad[before], self.pad[behind]) >= window:
                raise ValueError(
                    f"pad={','.join(map(str, self.pad))} with {name}={window}: a pad must be smaller than the window, "
                    "or some windows would hold nothing"
                )
        for name, extent, span in (("h", self._padded[0], self.spans[0]), ("w", self._padded[1], self.spans[1])):
            if extent < span:
                raise ValueError(f"the window spans {span} along {name}, but the padded input has only {extent}")
        for name, count in (("x", self.n * self._padded[0] * self._padded[1] * self.c), ("y", self.outputs_count)):
            if count > LARGEST:
                raise ValueError(f"{name} has {count} elements with its padding; at most {LARGEST}: split n")
        self._check()
        self._name_by_fields()

    @classmethod
    def of(cls, x_shape: Sequence[int], kernel: int | Sequence[int], **spec: Any) -> Self:
        """The problem of an NHWC array and a window: its height and width, or one number for both."""
        known = [entry.name for entry in fields(cls) if entry.init and entry.name not in cls.numbers]
        if strange := [name for name in spec if name not in known]:
            raise ValueError(f"{cls.op} has no {strange[0]!r}; it has {', '.join(known)}")
        n, h, w, c = x_shape
        r, s = window_of(kernel)
        return cls(n, h, w, c, r, s, **spec)

    def _check(self) -> None:
        """What only this class asks for."""

    @property
    def steps(self) -> tuple[int, int]:
        """Pixels from one of the window to its next, down and across."""
        return (1, 1)

    @property
    def spans(self) -> tuple[int, int]:
        return ((self.r - 1) * self.steps[0] + 1, (self.s - 1) * self.steps[1] + 1)

    @property
    def _padded(self) -> tuple[int, int]:
        return (self.h + self.pad[0] + self.pad[2], self.w + self.pad[1] + self.pad[3])

    def _count(self, axis: int) -> int:
        """Windows along an axis."""
        step: int = self.stride[axis]
        moves, rest = divmod(self._padded[axis] - self.spans[axis], step)
        begins_inside = (moves + 1) * step < (self.h, self.w)[axis] + self.pad[axis]
        return moves + 1 + int(self.ceil_mode and rest > 0 and begins_inside)

    @property
    def oh(self) -> int:
        return self._count(0)

    @property
    def ow(self) -> int:
        return self._count(1)

    @property
    def outputs_count(self) -> int:
        return self.n * self.oh * self.ow * self.c

    @property
    def out(self) -> str:
        """The type of the output."""
        return self.x_type

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", (self.n, self.h, self.w, self.c), self.x_type),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.n, self.oh, self.ow, self.c), self.out),)

    @property
    def extents(self) -> dict[str, int]:
        return {"outputs": min(self.outputs_count, FULL), "window": self.r * self.s}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.x_type, self.stride)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.c, WIDEST),)


def window_of(kernel: int | Sequence[int]) -> tuple[int, int]:
    # What is neither a number nor several is refused by the problem, which sees it twice then.
    values = tuple(kernel) if isinstance(kernel, Iterable) else (kernel, kernel)
    if len(values) != 2:
        raise ValueError(f"kernel={kernel!r} must be one integer or two of them, height and width")
    return (values[0], values[1])


@dataclass(frozen=True, eq=False)
class MaxPool(Pool):
    """The padding is smaller than every element."""

    op: ClassVar[str] = "max_pool"

    dilation: Any = (1, 1)

    @property
    def steps(self) -> tuple[int, int]:
        return (self.dilation[0], self.dilation[1])


class WholeImage(ValueError):
    """All that is wrong with an average pool is that its window is the image: another op computes it."""


@dataclass(frozen=True, eq=False)
class AveragePool(Pool):
    """The padding is a real zero, which is counted with `count_include_pad` only; what ceil_mode adds is counted as
    well then."""

    op: ClassVar[str] = "average_pool"
    flags: ClassVar[tuple[str, ...]] = ("ceil_mode", "count_include_pad")
    types: ClassVar[tuple[str, ...]] = ("x_type", "out_type")

    out_type: str = "int8"
    count_include_pad: bool = False

    def _check(self) -> None:
        if (self.r, self.s) == (self.h, self.w) and not any(self.pad):
            raise WholeImage(
                f"a window of {self.r}x{self.s} that is the whole image: ONNX Runtime computes it in integers, as "
                "global_average_pool: use that"
            )

    @property
    def out(self) -> str:
        return self.out_type

    @property
    def zero_points(self) -> dict[str, str]:
        """The type that each is a zero of."""
        return {"x_zero_point": self.x_type, "y_zero_point": self.out_type}

    def checked(self, parameters: dict[str, Any]) -> PoolParameters:
        numbers = PoolParameters.of(parameters, self.zero_points)
        if numbers.x_scale > MOST_SCALE:
            raise ValueError(f"x_scale={numbers.x_scale:g} must be at most {MOST_SCALE:g}, or a sum would be infinite")
        with np.errstate(all="ignore"):
            check_ratio("x_scale / y_scale", numbers.x_scale / numbers.y_scale, MOST_OF_AVERAGE)
        return numbers


@dataclass(frozen=True, eq=False)
class GlobalAveragePool(TensorOp):
    """The average of all pixels of an image, by channel."""

    op: ClassVar[str] = "global_average_pool"

    n: int
    pixels: int
    c: int
    x_type: str = "int8"
    out_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("n", "pixels", "c")

    def __post_init__(self) -> None:
        self._check_fields()
        checked_size("pixels", self.pixels, 1, MOST_PIXELS)
        count = self.n * self.pixels * self.c
        if count > LARGEST:
            raise ValueError(f"x has {count} elements; at most {LARGEST} are supported: split n")
        self._name_by_fields()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", (self.n, self.pixels, self.c), self.x_type),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.n, self.c), self.out_type),)

    @property
    def extents(self) -> dict[str, int]:
        return {"channels": min(self.n * self.c, FULL), "pixels": self.pixels}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.x_type, self.out_type)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.c, WIDEST),)

    @property
    def zero_points(self) -> dict[str, str]:
        """The type that each is a zero of."""
        return {"x_zero_point": self.x_type, "y_zero_point": self.out_type}

    def checked(self, parameters: dict[str, Any]) -> PoolParameters:
        numbers = PoolParameters.of(parameters, self.zero_points)
        with np.errstate(all="ignore"):
            ratio = numbers.x_scale / (numbers.y_scale * np.float32(self.pixels))
        if not LEAST_OF_GLOBAL <= ratio < MOST_OF_GLOBAL:
            raise ValueError(
                f"x_scale / (y_scale * pixels) = {ratio:g} in float32: it must be at least {LEAST_OF_GLOBAL:g} and "
                f"below {MOST_OF_GLOBAL:g}, as in ONNX Runtime; check the scales"
            )
        return numbers
