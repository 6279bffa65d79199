"""The convolution problem `Conv2d`: shapes, layout and quantization. `str(problem)` is its canonical key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.errors import TooManyImages
from qconv.op import (
    LARGEST,
    WIDEST,
    Problem,
    Tensor,
    alignment,
    check_choice,
    checked_size,
    quoted,
    read_integer,
    several,
)
from qconv.problem.frames import Frames

LAYOUTS = ("nhwc", "nchw")
# The fields that are several numbers, with how many and the least.
PLURAL = (("stride", 2, 1), ("dilation", 2, 1), ("pad", 4, 0), ("pixel_shuffle", 2, 1), ("crop", 4, 0))
W_LAYOUTS = ("krsc", "kcrs")
EXACT_IN_FP32 = 2**24
# Channels per step of the reduction. A multiple of it leaves no remainder.
WHOLE_STEP = 64


@dataclass(frozen=True, eq=False)
class Conv2d(Problem):
    """NHWC activations * KRSC weights -> NHWK; with layout nchw, NCHW * KCRS -> NKHW. A residual has the output's
    layout.

    `stride` and `dilation` are (vertical, horizontal); `pad` is (top, left, bottom, right).

    With `pixel_shuffle` (down, across), each pixel of the convolution becomes a block of down x across pixels of the
    output: in each group, the channels of the block's first pixel come first, row by row. `crop` (top, left, bottom,
    right) removes pixels from the edges of that output. So all phases of a transposed convolution are one problem.

    With `frames`, `x` is volumes, each of NHWC frames, and the channels of an image are those of several frames side by
    side. So a filter of three axes is one problem, without a copy of its input."""

    op: ClassVar[str] = "conv2d"
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
    groups: int = 1
    layout: str = "nhwc"
    pixel_shuffle: tuple[int, int] = (1, 1)
    crop: tuple[int, int, int, int] = (0, 0, 0, 0)
    frames: Frames | None = None
    quantization: Quantization = field(default_factory=Quantization)
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

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
            groups: int = 1,
            layout: str = "nhwc",
            pixel_shuffle: int | tuple[int, int] = 1,
            crop: int | tuple[int, int, int, int] = 0,
            frames: Sequence[int] | None = None,
            quantization: Quantization = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name in ("n", "h", "w", "c", "k", "r", "s", "groups"):
            object.__setattr__(self, name, checked_size(name, getattr(self, name), 1))
        for name, length, least in PLURAL:
            object.__setattr__(self, name, several(name, getattr(self, name), length, least))
        check_choice("layout", self.layout, LAYOUTS)
        if not isinstance(self.quantization, Quantization):
            raise ValueError(f"quantization={self.quantization!r} must be a qconv.Quantization")
        if self.frames is not None:
            object.__setattr__(self, "frames", Frames.checked(self.frames))
        self._check_geometry()
        self._name(_key(self))

    def _check_geometry(self) -> None:
        for name, size in (("c", self.c), ("k", self.k)):
            if size % self.groups:
                raise ValueError(
                    f"{name}={size} is not a multiple of groups={self.groups}; every group has {name}/groups channels"
                )
        spans = (
            ("h", self.h + self.pad[0] + self.pad[2], (self.r - 1) * self.dilation[0] + 1, "r"),
            ("w", self.w + self.pad[1] + self.pad[3], (self.s - 1) * self.dilation[1] + 1, "s"),
        )
        for name, padded, span, filter_name in spans:
            if padded > LARGEST:
                raise ValueError(f"{name} with its padding is {padded}; at most {LARGEST} is supported")
            if padded < span:
                raise ValueError(
                    f"the filter spans {span} along {name} ({filter_name} and its dilation) but the padded input has "
                    f"only {padded}; pad more or use a smaller {filter_name} or dilation"
                )
        self._check_shuffle()
        self._check_frames()
        self._check_offsets()
        self._check_sums()

    def _check_shuffle(self) -> None:
        if not self.is_shuffled:
            return
        down, across = self.pixel_shuffle
        if self.layout != "nhwc":
            raise ValueError(f"layout={self.layout!r} with a pixel shuffle or a crop: only nhwc has them")
        if self.k_group % (down * across):
            raise ValueError(
                f"k={self.k} with groups={self.groups} gives {self.k_group} channels a group, which is no multiple of "
                f"the {down * across} pixels of pixel_shuffle={down},{across}"
            )
        for axis, made, ends in zip("hw", self.y_size, (self.crop[::2], self.crop[1::2]), strict=True):
            if made < 1:
                whole = made + sum(ends)
                raise ValueError(
                    f"crop={','.join(map(str, self.crop))} removes {sum(ends)} of {whole} outputs along {axis}; at "
                    f"most {whole - 1} can be removed"
                )

    def _check_frames(self) -> None:
        if self.frames is None:
            return
        if self.layout != "nhwc" or self.groups != 1:
            raise ValueError(
                f"layout={self.layout!r} and groups={self.groups} with frames: only nhwc and one group have them; copy "
                "the frames of an image side by side"
            )
        for name, size, part in (("n", self.n, "images"), ("c", self.c, "taps")):
            if size % getattr(self.frames, part):
                raise ValueError(f"{name}={size} is no multiple of frames.{part}={getattr(self.frames, part)}")

    def _check_sums(self) -> None:
        """Check that all elements can be counted, and that sums of integers do not overflow."""
        images = "split n" if self.n > 1 else "split the image into strips of rows"
        outputs = images if self.k == 1 else "split n or k" if self.n > 1 else "split k"
        of_images = TooManyImages if self.n > 1 else ValueError
        for has, count, remedy, kind in (
            ("the input has", max(self.n * self.h * self.w * self.c, prod(self.x_shape)), images, of_images),
            ("the output has", self.n * self.oh * self.ow * self.k, outputs, of_images),
            ("the weights have", self.k * self.reduction, "split k", ValueError),
        ):
            if count > LARGEST:
                raise kind(f"{has} {count} elements; at most {LARGEST} are supported: {remedy}")
        q = self.quantization
        if not q.types.sum.is_integer:
            return
        worst, (_, most) = self.reduction * q.largest_product, q.types.sum.range
        if worst > most:
            raise ValueError(
                f"a sum of r*s*c/groups={self.reduction} products can reach {worst}, more than an {q.types.sum.name} "
                f"accumulator holds ({most}); use at most {most // q.largest_product} products (more groups, or split "
                f"the channels and add {q.types.sum.name} outputs)"
            )
        if q.mode.correction == "fp32" and (q.x_zero_point or q.w_zero_point) and worst > EXACT_IN_FP32:
            raise ValueError(
                f"correction='fp32' with zero points: a sum of {self.reduction} products can reach {worst}, beyond "
                f"{EXACT_IN_FP32} fp32 rounds it, and an integer kernel cannot round like that; use at most "
                f"{EXACT_IN_FP32 // q.largest_product} products, where both corrections are the same, or "
                "correction='int32'"
            )

    def _check_offsets(self) -> None:
        """Check that int32 holds the offset of every element, including those in the padding. A dilation cannot be too
        large, because the filter must fit into the padded input; a stride can, if there is only one output."""
        height, width = self.h + self.pad[0] + self.pad[2], self.w + self.pad[1] + self.pad[3]
        padded = self.n * height * width * self.c
        if padded > LARGEST >= self.n * self.h * self.w * self.c:
            raise TooManyImages(
                f"the input with pad={','.join(map(str, self.pad))} has {padded} elements; at most {LARGEST} are "
                "supported: use smaller pads, or split n"
            )
        for step, elements, extent in ((self.stride[0], width * self.c, height), (self.stride[1], self.c, width)):
            if step * elements > LARGEST:
                raise ValueError(
                    f"stride={step} is a step of {step * elements} elements; at most {LARGEST} are supported: give "
                    f"{extent}, the padded extent, for one output"
                )

    @property
    def tap_steps(self) -> tuple[int, int]:
        """Return the pixels between a filter's taps, down and across. An axis with a single tap has 1: kernels compute
        steps past the last tap, for which its dilation may be too large."""
        return self.dilation[0] if self.r > 1 else 1, self.dilation[1] if self.s > 1 else 1

    @cached_property
    def oh(self) -> int:
        span = (self.r - 1) * self.dilation[0] + 1
        return (self.h + self.pad[0] + self.pad[2] - span) // self.stride[0] + 1

    @cached_property
    def ow(self) -> int:
        span = (self.s - 1) * self.dilation[1] + 1
        return (self.w + self.pad[1] + self.pad[3] - span) // self.stride[1] + 1

    @property
    def is_shuffled(self) -> bool:
        """True where a pixel of the output is not the convolution's pixel of the same number."""
        return self.pixel_shuffle != (1, 1) or any(self.crop)

    @cached_property
    def y_size(self) -> tuple[int, int]:
        """Return the height and the width of the output."""
        (down, across), (top, left, bottom, right) = self.pixel_shuffle, self.crop
        return self.oh * down - top - bottom, self.ow * across - left - right

    @property
    def y_group(self) -> int:
        """Return the output's channels of a group."""
        return self.k_group // (self.pixel_shuffle[0] * self.pixel_shuffle[1])

    @property
    def c_group(self) -> int:
        return self.c // self.groups

    @property
    def k_group(self) -> int:
        return self.k // self.groups

    @cached_property
    def reduction(self) -> int:
        """Return the number of products per output element."""
        return self.r * self.s * self.c_group

    @cached_property
    def pixels(self) -> int:
        return self.n * self.oh * self.ow

    @property
    def x_shape(self) -> tuple[int, ...]:
        if self.frames is None:
            return self._laid_out(self.h, self.w, self.c)
        return (self.n // self.frames.images * self.frames.depth, self.h, self.w, self.frame_c)

    @property
    def frame_c(self) -> int:
        """Return the channels of a frame, or of an image without frames."""
        return self.c if self.frames is None else self.c // self.frames.taps

    @property
    def w_shape(self) -> tuple[int, ...]:
        if self.layout == "nchw":
            return (self.k, self.c_group, self.r, self.s)
        return (self.k, self.r, self.s, self.c_group)

    @property
    def y_shape(self) -> tuple[int, ...]:
        return self._laid_out(*self.y_size, self.y_group * self.groups)

    def _laid_out(self, h: int, w: int, channels: int) -> tuple[int, ...]:
        return (self.n, channels, h, w) if self.layout == "nchw" else (self.n, h, w, channels)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        q = self.quantization
        residual = () if q.residual == "none" else (Tensor("residual", self.y_shape, q.residual),)
        x_type, w_type = q.types.x.array_type, q.types.w.array_type
        return (Tensor("x", self.x_shape, x_type), Tensor("w", self.w_shape, w_type), *residual)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.y_shape, self.quantization.out_type),)

    @property
    def operations(self) -> int:
        return 2 * self.pixels * self.k * self.reduction

    @property
    def floats(self) -> str:
        types = self.quantization.types
        return "" if types.sum.is_integer else types.x.name

    @property
    def pixel_bytes(self) -> int:
        """Bytes of an input pixel."""
        return self.c * self.quantization.types.x.bytes

    @property
    def frame_bytes(self) -> int:
        """Bytes of a pixel of a frame."""
        return self.frame_c * self.quantization.types.x.bytes

    @property
    def x_bytes(self) -> int:
        """Bytes of the input, without frames that no image has."""
        read = self.n if self.frames is None else self.n // self.frames.images * self.frames.seen
        return read * self.h * self.w * self.frame_bytes

    @property
    def taps(self) -> int:
        """Return the pixels of frames that a filter covers."""
        return self.r * self.s * (1 if self.frames is None else self.frames.taps)

    @cached_property
    def io_bytes(self) -> int:
        t = self.quantization.types
        of_output = t.y.bytes + (t.residual.bytes if t.residual else 0)
        w_bytes = self.k * self.reduction * t.w.bytes
        return self.x_bytes + w_bytes + self.pixels * self.k * of_output

    @property
    def extents(self) -> dict[str, int]:
        """Return the extents of the implicit GEMM."""
        return {name: getattr(self, name) for name in ("pixels", "k_group", "reduction", "groups")}

    @property
    def kinds(self) -> tuple[object, ...]:
        q = self.quantization
        return self.layout, q.x_type, q.w_type, q.out_type, q.w_zero_point

    @property
    def shape_class(self) -> tuple[object, ...]:
        q = self.quantization
        depthwise = self.c_group == self.k_group == 1 < self.groups
        if depthwise:  # no reduction over channels: vectors span groups
            channels: tuple[int, ...] = (alignment(self.c, WIDEST),)
        else:
            channels = (alignment(self.c_group, WHOLE_STEP), alignment(self.k_group, WHOLE_STEP))
        return (
            self.layout,
            q.types.y.bytes,
            q.w_zero_point,
            self.groups > 1,
            *channels,
            self.r * self.s > 1,
            self.stride,
            *((self.pixel_shuffle,) if self.is_shuffled else ()),
            *((self.frames.taps, self.frames.stride) if self.frames is not None else ()),
        )

    @property
    def packed(self) -> tuple[str, ...]:
        return ("w",)

    @property
    def arithmetic(self) -> Quantization:
        return self.quantization

    def relayout(self, named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        layout = named.pop("w_layout", None)
        if layout is None:
            return {}
        check_choice("w_layout", layout, W_LAYOUTS)
        if layout == W_LAYOUTS[LAYOUTS.index(self.layout)]:
            return {}
        return {"w": (0, 2, 3, 1) if layout == "kcrs" else (0, 3, 1, 2)}

    def checked(self, parameters: dict[str, Any]) -> Parameters:
        try:
            return Parameters(**parameters).checked(self.quantization, self.k)
        except TypeError as error:
            raise ValueError(f"{error}; the parameters are {', '.join(Parameters.__dataclass_fields__)}") from None


_SIZES = ("n", "h", "w", "c", "k", "r", "s")
_TYPES = ("x_type", "w_type", "out_type")
_ZERO_POINTS = ("x_zero_point", "w_zero_point", "y_zero_point", "residual_zero_point", "inner_zero_point")
FLAGS = ("per_channel", *_ZERO_POINTS, "table", "promoted_sums")
_CHOICES = ("bias", "activation", "residual", "constant")
_MODES = tuple(flag.name for flag in fields(Mode))
# The fields of a key that are of the quantization, without the flags of its mode.
QUANTIZED = (*_TYPES, *FLAGS, *_CHOICES)


def _key(problem: Conv2d) -> str:
    """Return the key: sizes and types always, everything else where it differs from the default, in a fixed order."""
    parts = ["conv2d"]
    parts += [f"{name}={getattr(problem, name)}" for name in _SIZES]
    for name, _, least in PLURAL:
        values = getattr(problem, name)
        if any(value != least for value in values):
            parts.append(f"{name}={','.join(map(str, values))}")
    if problem.frames is not None:
        parts.append(f"frames={','.join(map(str, problem.frames))}")
    if problem.groups != 1:
        parts.append(f"groups={problem.groups}")
    if problem.layout != "nhwc":
        parts.append(f"layout={problem.layout}")
    return ":".join([*parts, *_quantization_parts(problem.quantization)])


# Thousands of layers, whose keys are read from databases, share few quantizations.
@lru_cache(maxsize=256)
def _quantization_parts(quantization: Quantization) -> tuple[str, ...]:
    parts = [f"{name}={getattr(quantization, name)}" for name in _TYPES]
    parts += [name for name in FLAGS if getattr(quantization, name)]
    parts += [f"{name}={value}" for name in _CHOICES if (value := getattr(quantization, name)) != "none"]
    for flag in fields(Mode):
        value = getattr(quantization.mode, flag.name)
        if value != flag.default:
            parts.append(f"{flag.name}={value}")
    return tuple(parts)


def read_several(name: str, text: str | bool) -> int | tuple[int, ...]:
    values = tuple(read_integer(name, part) for part in str(text).split(","))
    return values[0] if len(values) == 1 else values


def read_conv2d(key: str, given: dict[str, str | bool], others: tuple[str, ...] = ()) -> Conv2d:
    """Return the convolution of a key's fields. `others` are additional fields of this op's keys, for the message."""
    sizes: dict[str, int | tuple[int, ...]] = {}
    for name in (*_SIZES, "groups"):
        if name in given:
            sizes[name] = read_integer(name, given.pop(name))
        elif name != "groups":
            raise ValueError(f"the key {quoted(key)} has no {name}; it needs {', '.join(_SIZES)}")
    for name, _, _ in PLURAL:
        if name in given:
            sizes[name] = read_several(name, given.pop(name))
    frames = read_several("frames", given.pop("frames")) if "frames" in given else None
    layout = str(given.pop("layout", "nhwc"))
    quantization = read_quantization(given)
    plural = (name for name, _, _ in PLURAL)
    check_nothing_left(key, given, (*_SIZES, "groups", *plural, "frames", "layout", *QUANTIZED, *_MODES, *others))
    return Conv2d(layout=layout, frames=frames, quantization=quantization, **sizes)  # type: ignore[arg-type]


def read_quantization(given: dict[str, str | bool]) -> Quantization:
    """Return the quantization of a key, and remove its fields."""
    modes = tuple((name, str(given.pop(name))) for name in _MODES if name in given)
    return _quantization(tuple((name, given.pop(name)) for name in QUANTIZED if name in given), modes)


def check_nothing_left(key: str, given: Mapping[str, str | bool], known: Sequence[str]) -> None:
    if given:
        names = ", ".join(known)
        raise ValueError(f"unknown field {quoted(next(iter(given)))} in the key {quoted(key)}; it has {names}")


@lru_cache(maxsize=256)
def _quantization(quantized: tuple[tuple[str, str | bool], ...], modes: tuple[tuple[str, str], ...]) -> Quantization:
    return Quantization(mode=Mode(**dict(modes)), **dict(quantized))  # type: ignore[arg-type]
