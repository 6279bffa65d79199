"""The ops `max_pool`, `average_pool` and `global_average_pool` of 8-bit NHWC tensors, with their arithmetic as data,
their options, random data and oracles.

The arithmetic is that of ONNX Runtime's MaxPool, QLinearAveragePool and QLinearGlobalAveragePool, operation by
operation: each line of C++ beside its NumPy line, from the sum of a window or an image to the output. The C++ lines
read `sum` (float for a window, int for an image), the kernel's `args` and, for a window, `taps`, the number of elements
counted; the last one returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from qconv.arithmetic.parameter import check_ratio
from qconv.arithmetic.step import Argument, Step, Values
from qconv.dtypes import RANGES
from qconv.errors import TooManyImages
from qconv.op import FULL, LARGEST, WIDEST, Array, Op, Option, Sample, Tensor, alignment, checked_size, several
from qconv.sampling import operands
from qconv.tensor_ops.problem import Parameters, TensorOp

# Up to these, ONNX Runtime's result fits an int32 for any bytes, and no sum of a window is infinite.
MOST_OF_AVERAGE, MOST_SCALE = 2.0**20, 2.0**90
# ONNX Runtime rejects ratios outside of these bounds.
LEAST_OF_GLOBAL, MOST_OF_GLOBAL = 2.0**-32, 256.0
# The sum of this many bytes fits an int32.
MOST_PIXELS = (2**31 - 1) // 255


@dataclass(frozen=True)
class PoolParameters(Parameters):
    x_scale: Any = 1.0
    y_scale: Any = 1.0
    x_zero_point: Any = 0
    y_zero_point: Any = 0


@dataclass(frozen=True, eq=False)
class Pool(TensorOp):
    """A pool with a window of `r` x `s`; `pad` is (top, left, bottom, right). With `ceil_mode`, an incomplete window
    counts as well if it begins before the padding behind the input."""

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
                raise TooManyImages(f"{name} has {count} elements with its padding; at most {LARGEST}: split n")
        self._check()
        self._name_by_fields()

    @classmethod
    def of(cls, x_shape: Sequence[int], kernel: int | Sequence[int], **spec: Any) -> Self:
        """Return the problem for an NHWC array and a window: its height and width, or one number for both."""
        known = [entry.name for entry in fields(cls) if entry.init and entry.name not in cls.numbers]
        if strange := [name for name in spec if name not in known]:
            raise ValueError(f"{cls.op} has no {strange[0]!r}; it has {', '.join(known)}")
        n, h, w, c = x_shape
        r, s = window_of(kernel)
        return cls(n, h, w, c, r, s, **spec)

    def _check(self) -> None:
        """Check the fields of a subclass."""

    @property
    def steps(self) -> tuple[int, int]:
        """Return the pixels between neighbouring elements of the window, down and across."""
        return (1, 1)

    @property
    def spans(self) -> tuple[int, int]:
        return ((self.r - 1) * self.steps[0] + 1, (self.s - 1) * self.steps[1] + 1)

    @property
    def _padded(self) -> tuple[int, int]:
        return (self.h + self.pad[0] + self.pad[2], self.w + self.pad[1] + self.pad[3])

    def _count(self, axis: int) -> int:
        """Return the number of windows along an axis."""
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
        """Return the type of the output."""
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
    # The problem checks the elements; a scalar is duplicated so that it does.
    values = tuple(kernel) if isinstance(kernel, Iterable) else (kernel, kernel)
    if len(values) != 2:
        raise ValueError(f"kernel={kernel!r} must be one integer or two of them, height and width")
    return (values[0], values[1])


@dataclass(frozen=True, eq=False)
class MaxPool(Pool):
    """The maximum of each window. Padding is smaller than every element."""

    op: ClassVar[str] = "max_pool"

    dilation: Any = (1, 1)

    @property
    def steps(self) -> tuple[int, int]:
        return (self.dilation[0], self.dilation[1])


class WholeImage(ValueError):
    """The window of an average pool is the whole image, which another op computes. All else about the problem is
    valid."""


@dataclass(frozen=True, eq=False)
class AveragePool(Pool):
    """The average of each window. Padding is a real zero and counts only with `count_include_pad`, which then includes
    the part that `ceil_mode` adds."""

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
        """Return the type of each zero point."""
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
    """The average of all pixels of an image, per channel."""

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
            raise TooManyImages(f"x has {count} elements; at most {LARGEST} are supported: split n")
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
        """Return the type of each zero point."""
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


def _scale(problem: GlobalAveragePool, p: PoolParameters) -> np.float32:
    scale: np.float32 = p.x_scale / (p.y_scale * np.float32(problem.pixels))
    return scale


X_SCALE = Argument("x_scale", "float", False, "the scale of x", lambda problem, p: p.x_scale)
X_ZERO = Argument("x_zero", "int", False, "the zero point of x", lambda problem, p: p.x_zero_point)
Y_SCALE = Argument("y_scale", "float", False, "the scale of y", lambda problem, p: p.y_scale)
Y_ZERO = Argument("y_zero", "float", False, "the zero point of y", lambda problem, p: p.y_zero_point)
SCALE = Argument("scale", "float", False, "x_scale / (y_scale * pixels)", _scale)
OFFSET = Argument("offset", "int", False, "-x_zero * pixels", lambda problem, p: -p.x_zero_point * problem.pixels)
LOWEST = Argument(
    "lowest", "float", False, "the least output, less zero", lambda pr, p: RANGES[pr.out_type][0] - p.y_zero_point
)
HIGHEST = Argument(
    "highest", "float", False, "the largest output, less zero", lambda pr, p: RANGES[pr.out_type][1] - p.y_zero_point
)
ZERO = Argument("zero", "int", False, "the zero point of y", lambda problem, p: p.y_zero_point)
LOW = Argument("low", "float", False, "the least output", lambda problem, p: RANGES[problem.out_type][0])
HIGH = Argument("high", "float", False, "the largest output", lambda problem, p: RANGES[problem.out_type][1])

# The contribution of an element to the sum of a window.
REAL = Step(
    "real",
    "return tile::multiply(args.x_scale, static_cast<float>(x - args.x_zero));",
    lambda x, v: v["x_scale"] * (x.astype(np.int32) - v["x_zero"]).astype(np.float32),
    (X_SCALE, X_ZERO),
)
OF_WINDOW = (
    Step(
        "average",
        "float value = tile::divide(sum, static_cast<float>(taps));",
        lambda value, v: value / v["taps"].astype(np.float32),
    ),
    Step(
        "quantize",
        "value = tile::add(tile::divide(value, args.y_scale), args.y_zero);",
        lambda value, v: value / v["y_scale"] + v["y_zero"],
        (Y_SCALE, Y_ZERO),
    ),
    Step(
        "round",
        "return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));",
        lambda value, v: np.rint(np.clip(value, v["low"], v["high"])),
        (LOW, HIGH),
    ),
)
OF_IMAGE = (
    Step(
        "rescale",
        "const float value = tile::multiply(static_cast<float>(sum + args.offset), args.scale);",
        lambda value, v: (value + v["offset"]).astype(np.float32) * v["scale"],
        (OFFSET, SCALE),
    ),
    Step(
        "round",
        "const int rounded = tile::round_to_int(tile::clamp(value, args.lowest, args.highest));",
        lambda value, v: np.rint(np.clip(value, v["lowest"], v["highest"])).astype(np.int32),
        (LOWEST, HIGHEST),
    ),
    Step("zero", "return static_cast<Output>(rounded + args.zero);", lambda value, v: value + v["zero"], (ZERO,)),
)


def arguments(problem: AveragePool | GlobalAveragePool) -> tuple[Argument, ...]:
    steps = (REAL, *OF_WINDOW) if isinstance(problem, AveragePool) else OF_IMAGE
    return tuple(argument for step in steps for argument in step.arguments)


# Bounds of the standard deviation of the outputs, for windows of independent elements.
LEAST_SPREAD, MOST_SPREAD = 25.0, 60.0
POWERS_OF_TWO = 0.25

_IMAGE = (
    Option("n", "images", "integer", required=True),
    Option("h", "input height", "integer", required=True),
    Option("w", "input width", "integer", required=True),
    Option("c", "input channels", "integer", required=True),
)
_X_TYPE = Option("x_type", "Pools: int8 (default), uint8.", metavar="TYPE")
_OUT_TYPE = Option("out_type", "Average pools: int8 (default), uint8.", metavar="TYPE")
_WINDOW = (
    Option("r", "filter height", "integer", required=True),
    Option("s", "filter width", "integer", required=True),
    Option("stride", "One, or vertical,horizontal. Default 1.", "extents"),
    Option("pad", "One, or top,left,bottom,right. Default 0.", "extents"),
    Option("ceil_mode", "Pools: incomplete windows at the end count as well.", "switch"),
)


def compute_max(problem: MaxPool, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    y = np.full(problem.outputs[0].shape, RANGES[problem.x_type][0], problem.x_type)
    for tap in _taps(problem, x, RANGES[problem.x_type][0]):
        y = np.maximum(y, tap)
    return (y,)


def compute_average(problem: AveragePool, drawn: Sample) -> tuple[Array, ...]:
    """Compute the oracle: fp32 sums in the order of the window's rows. The position of the padding's zeros has no
    effect."""
    (x,) = drawn.arrays
    values = _values(problem, drawn.parameters)
    real = REAL.numpy(x, values)
    sums = np.zeros(problem.outputs[0].shape, np.float32)
    for tap in _taps(problem, real, 0):
        sums = sums + tap
    if problem.count_include_pad:
        taps = np.asarray(problem.r * problem.s)
    else:
        taps = sum(_taps(problem, np.ones((1, problem.h, problem.w, 1), np.int32), 0), np.zeros((), np.int32))
    for step in OF_WINDOW:
        sums = step.numpy(sums, values | {"taps": taps})
    return (sums.astype(problem.out_type),)


def compute_global(problem: GlobalAveragePool, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    values, sums = _values(problem, drawn.parameters), x.sum(axis=1, dtype=np.int32)
    for step in OF_IMAGE:
        sums = step.numpy(sums, values)
    return (sums.astype(problem.out_type),)


def _values(problem: AveragePool | GlobalAveragePool, parameters: dict[str, Any]) -> Values:
    p = problem.checked(parameters)
    return {one.name: np.asarray(one.value(problem, p), one.dtype) for one in arguments(problem)}


def _taps(problem: Pool, x: Array, padding: int) -> Iterator[Array]:
    """Yield, for each element of the window row by row, the input at that element for all windows."""
    (top, left, _, _), (down, across) = problem.pad, problem.stride
    heights = (problem.oh - 1) * down + problem.spans[0] - top - problem.h
    widths = (problem.ow - 1) * across + problem.spans[1] - left - problem.w
    pads = ((0, 0), (top, max(heights, 0)), (left, max(widths, 0)), (0, 0))
    padded = np.pad(x, pads, constant_values=padding)
    for r in range(problem.r):
        for s in range(problem.s):
            row, column = r * problem.steps[0], s * problem.steps[1]
            rows = slice(row, row + (problem.oh - 1) * down + 1, down)
            yield padded[:, rows, column : column + (problem.ow - 1) * across + 1 : across]


def draw_max(problem: MaxPool, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw bytes that are mostly small, so that a maximum of many is not always the end of the range."""
    rng = np.random.default_rng(seed)
    low, high = RANGES[problem.x_type]
    uniform = rng.random(problem.inputs[0].shape) ** np.sqrt(problem.r * problem.s)
    return Sample(((low + np.floor(uniform * (high - low + 1))).astype(problem.x_type),))


def draw_average(problem: AveragePool | GlobalAveragePool, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw full-range bytes, and scales with which the averages spread over the output's type. A quarter of the scales
    are powers of two, and as many hundredths, which make ties."""
    rng = np.random.default_rng(seed)
    x = operands.uniform(problem.x_type, problem.inputs[0].shape, rng)
    window = problem.pixels if isinstance(problem, GlobalAveragePool) else problem.r * problem.s
    x_zero = int(operands.zero_points(problem.x_type, (), rng, False))
    (x_low, x_high), (low, high) = RANGES[problem.x_type], RANGES[problem.out_type]
    ratio = rng.uniform(LEAST_SPREAD, MOST_SPREAD) / 74 * np.sqrt(window)
    kind = rng.random()
    y_scale = 2.0 ** rng.integers(-6, 3) if kind < POWERS_OF_TWO else round(float(rng.uniform(0.02, 0.6)), 2)
    ratio = 2.0 ** np.rint(np.log2(ratio)) if kind < POWERS_OF_TWO else ratio
    x_scale = ratio * y_scale
    if POWERS_OF_TWO <= kind < 2 * POWERS_OF_TWO:
        x_scale = max(round(float(x_scale), 2), 0.01)
    # Place the mean of x where the output's range has room.
    mean = ((x_low + x_high) / 2 - x_zero) * x_scale / y_scale
    y_zero = np.clip(np.rint((low + high) / 2 + rng.uniform(-20, 20) - mean), low, high)
    if not low < y_zero + mean < high:
        x_zero = int((x_low + x_high + 1) // 2)
        y_zero = (low + high + 1) // 2
    scales = {"x_scale": float(np.float32(x_scale)), "y_scale": float(np.float32(y_scale))}
    return Sample((x,), scales | {"x_zero_point": x_zero, "y_zero_point": int(y_zero)})


def _asked_global(given: dict[str, Any]) -> GlobalAveragePool:
    rest = {name: value for name, value in given.items() if name not in ("h", "w")}
    return GlobalAveragePool(pixels=given["h"] * given["w"], **rest)


OPS = (
    Op(
        name="max_pool",
        says="The largest element of each window, by channel.",
        problems=(MaxPool,),
        read=MaxPool.read,
        ask=lambda given: MaxPool(**given),
        options=(
            *(*_IMAGE, *_WINDOW, _X_TYPE),
            Option("dilation", "One, or vertical,horizontal. Default 1.", "extents"),
        ),
        draw=draw_max,
        compute=compute_max,
    ),
    Op(
        name="average_pool",
        says="The average of each window, by channel.",
        problems=(AveragePool,),
        read=AveragePool.read,
        ask=lambda given: AveragePool(**given),
        options=(
            *(*_IMAGE, *_WINDOW, _X_TYPE, _OUT_TYPE),
            Option("count_include_pad", "average_pool: the padding counts as well.", "switch"),
        ),
        draw=draw_average,
        compute=compute_average,
    ),
    Op(
        name="global_average_pool",
        says="The average of each image, by channel.",
        problems=(GlobalAveragePool,),
        read=GlobalAveragePool.read,
        ask=_asked_global,
        options=(*_IMAGE, _X_TYPE, _OUT_TYPE),
        draw=draw_average,
        compute=compute_global,
    ),
)
