"""The ops `add` and `mul`: the element-wise sum and product of two quantized tensors, with their arithmetic as data,
their options, random data and oracle.

The second tensor may be smaller: `a` is seen as (outer, repeat, inner), and `b` as (outer, inner), which is broadcast
over `repeat`. A tensor of the same shape has repeat=1, a single number has outer=inner=1, one number per channel of
NHWC has outer=1, and one per image and channel (squeeze-and-excite) has outer=n.

The arithmetic is that of ONNX Runtime's QLinearAdd and QLinearMul on x86 with AVX2, operation by operation. The order
of operations, and which pairs are one fma, were found by comparing all pairs of bytes. The C++ lines read the elements
`a` and `b` as int and the kernel's `args`; they declare `value`, and the last one returns. The NumPy lines read the
same values by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from qconv.arithmetic.parameter import MOST_OF_ADD, MOST_OF_MUL, check_ratio
from qconv.arithmetic.quantized_sum import Linear, Term, offset, ratio
from qconv.arithmetic.step import Argument, Step, Values
from qconv.dtypes import RANGES
from qconv.op import FULL, LARGEST, WIDEST, Array, Op, Option, Sample, Tensor, alignment, check_choice
from qconv.sampling import operands
from qconv.tensor_ops.problem import ACTIVATIONS, BYTES, Parameters, TensorOp


@dataclass(frozen=True)
class BinaryParameters(Parameters):
    a_scale: Any = 1.0
    b_scale: Any = 1.0
    y_scale: Any = 1.0
    a_zero_point: Any = 0
    b_zero_point: Any = 0
    y_zero_point: Any = 0


class View(NamedTuple):
    outer: int
    repeat: int
    inner: int


def view_of(a_shape: Sequence[int], b_shape: Sequence[int]) -> View:
    """Return how `b` is broadcast over `a`, by NumPy's rule. Only adjacent axes may be repeated."""
    padded = (1,) * (len(a_shape) - len(b_shape)) + tuple(b_shape)
    fits = len(padded) == len(a_shape) and all(b in (1, a) for a, b in zip(a_shape, padded, strict=True))
    if not fits:
        raise ValueError(f"b has shape {tuple(b_shape)}, which does not broadcast to that of a, {tuple(a_shape)}")
    if 0 in a_shape:
        raise ValueError(f"a has shape {tuple(a_shape)} and so no element: there is nothing to compute")
    runs: list[tuple[bool, int]] = []  # (whether b is repeated along these axes, their extent)
    for a, b in zip(a_shape, padded, strict=True):
        if a == 1:
            continue
        if runs and runs[-1][0] == (b == 1):
            runs[-1] = (b == 1, runs[-1][1] * a)
        else:
            runs.append((b == 1, a))
    repeated = [at for at, (is_repeated, _) in enumerate(runs) if is_repeated]
    if len(repeated) > 1:
        raise ValueError(
            f"b of shape {tuple(b_shape)} is repeated along axes of a, {tuple(a_shape)}, that are no neighbours: put "
            "the channels last (NHWC), or compute image by image"
        )
    if not repeated:
        return View(1, 1, runs[0][1] if runs else 1)
    (at,) = repeated
    return View(runs[0][1] if at else 1, runs[at][1], runs[-1][1] if at < len(runs) - 1 else 1)


# Maps the first letter of a parameter's name when the two tensors change places.
TURNED = {"a": "b", "b": "a", "y": "y"}


def turned(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scales and zero points with the two tensors exchanged."""
    return {f"{TURNED[name[0]]}{name[1:]}": value for name, value in numbers.items()}


def begins_with_first(a_shape: Sequence[int], b_shape: Sequence[int]) -> bool:
    """True where ONNX Runtime begins the sum of tensors of these shapes with the first: where that has extent 1 along
    the last axis on which not both have extent 1."""
    pairs = list(zip(reversed(a_shape), reversed(b_shape), strict=False))
    first = next((pair for pair in pairs if pair != (1, 1)), (1, 1))
    return first[0] == 1 if pairs else not a_shape


@dataclass(frozen=True, eq=False)
class Binary(TensorOp):
    outer: int
    repeat: int
    inner: int
    a_type: str = "int8"
    b_type: str = "int8"
    out_type: str = "int8"
    activation: str = "none"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("outer", "repeat", "inner")
    types: ClassVar[tuple[str, ...]] = ("a_type", "b_type", "out_type")

    def __post_init__(self) -> None:
        self._check_fields()
        check_choice("activation", self.activation, ACTIVATIONS)
        if self.elements > LARGEST:
            raise ValueError(f"a has {self.elements} elements; at most {LARGEST} are supported: split outer")
        if self.repeat == 1:
            object.__setattr__(self, "inner", self.outer * self.inner)
            object.__setattr__(self, "outer", 1)
        self._name_by_fields()

    @property
    def elements(self) -> int:
        return self.outer * self.repeat * self.inner

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        a_shape = (self.outer, self.repeat, self.inner)
        return (Tensor("a", a_shape, self.a_type), Tensor("b", (self.outer, self.inner), self.b_type))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.outer, self.repeat, self.inner), self.out_type),)

    @property
    def extents(self) -> dict[str, int]:
        """Return the sizes that a config depends on. On a full device, more elements have no effect."""
        return {"elements": min(self.elements, FULL)}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.activation, self.a_type, self.b_type, self.out_type)

    @property
    def shape_class(self) -> tuple[object, ...]:
        """Return the properties that decide the widths of the loads."""
        return (self.repeat == 1, self.inner == 1, alignment(self.inner, WIDEST), alignment(self.repeat, WIDEST))

    @classmethod
    def of(cls, a_shape: Sequence[int], b_shape: Sequence[int], **spec: Any) -> Self:
        """Return the problem of two arrays; the second is broadcast to the shape of the first."""
        return cls(*view_of(a_shape, b_shape), **spec)

    @property
    def zero_points(self) -> dict[str, str]:
        """Return the type of each zero point."""
        return {"a_zero_point": self.a_type, "b_zero_point": self.b_type, "y_zero_point": self.out_type}

    def _numbers(self, given: dict[str, Any]) -> BinaryParameters:
        return BinaryParameters.of(given, self.zero_points)


@dataclass(frozen=True, eq=False)
class Add(Binary):
    """The sum of two tensors. `added_first` names the tensor whose product is added to the offset first, which affects
    some last bits. ONNX Runtime begins with its second input, or with the one that is a single number along the last
    axis."""

    op: ClassVar[str] = "add"

    added_first: str = "b"

    def __post_init__(self) -> None:
        check_choice("added_first", self.added_first, ("b", "a"))
        super().__post_init__()

    @property
    def kinds(self) -> tuple[object, ...]:
        return (*super().kinds, self.added_first)

    def checked(self, parameters: dict[str, Any]) -> BinaryParameters:
        numbers = self._numbers(parameters)
        for name in ("a_scale", "b_scale"):
            with np.errstate(all="ignore"):
                ratio = getattr(numbers, name) / numbers.y_scale
            check_ratio(f"{name} / y_scale", ratio, MOST_OF_ADD)
        return numbers


@dataclass(frozen=True, eq=False)
class Mul(Binary):
    op: ClassVar[str] = "mul"

    def checked(self, parameters: dict[str, Any]) -> BinaryParameters:
        numbers = self._numbers(parameters)
        with np.errstate(all="ignore"):
            ratio = numbers.a_scale * numbers.b_scale / numbers.y_scale
        check_ratio("a_scale * b_scale / y_scale", ratio, MOST_OF_MUL)
        return numbers


Value = Callable[[Any, BinaryParameters], Any]


def _real(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "float", False, says, value)


def _whole(name: str, says: str, value: Value) -> Argument:
    return Argument(name, "int", False, says, value)


def _offset(problem: Add, p: BinaryParameters) -> Any:
    a, b = Linear(p.a_scale, p.a_zero_point), Linear(p.b_scale, p.b_zero_point)
    first, last = (b, a) if problem.added_first == "b" else (a, b)
    return offset(first, last, Linear(p.y_scale, p.y_zero_point))


def _least(problem: Binary, p: BinaryParameters) -> Any:
    """Return the smallest output. A relu of the real number is a clamp at its zero point."""
    low, _ = RANGES[problem.out_type]
    return max(low, p.y_zero_point) if problem.activation == "relu" else low


A_RATIO = _real("a_ratio", "a_scale / y_scale", lambda problem, p: ratio(p.a_scale, p.y_scale))
B_RATIO = _real("b_ratio", "b_scale / y_scale", lambda problem, p: ratio(p.b_scale, p.y_scale))
OFFSET = _real("offset", "y_zero_point - (a_ratio * a_zero_point + b_ratio * b_zero_point)", _offset)
RATIO = _real("ratio", "a_scale * b_scale / y_scale", lambda problem, p: p.a_scale * p.b_scale / p.y_scale)
A_ZERO = _whole("a_zero", "the zero point of a", lambda problem, p: p.a_zero_point)
B_ZERO = _whole("b_zero", "the zero point of b", lambda problem, p: p.b_zero_point)
Y_ZERO = _real("y_zero", "the zero point of y", lambda problem, p: p.y_zero_point)
LOW = _real("low", "the least output", _least)
HIGH = _real("high", "the largest output", lambda problem, p: RANGES[problem.out_type][1])

ROUND = Step(
    "round",
    "return static_cast<Output>(tile::round_to_int(tile::clamp(value, args.low, args.high)));",
    lambda value, v: np.rint(np.clip(value, v["low"], v["high"])),
    (LOW, HIGH),
)


TERMS = {
    "a": Term("static_cast<float>(a)", lambda value, v: v["a"].astype(np.float32), A_RATIO),
    "b": Term("static_cast<float>(b)", lambda value, v: v["b"].astype(np.float32), B_RATIO),
}


def _add(added_first: str) -> tuple[Step, ...]:
    last_added = "a" if added_first == "b" else "b"
    first, last = TERMS[added_first], TERMS[last_added]
    return (
        Step(
            added_first,
            f"float value = {first.onto('args.offset', 'args')};",
            lambda value, v: first.added(value, v, v["offset"]),
            (first.ratio, OFFSET),
        ),
        Step(
            last_added,
            f"value = {last.onto('value', 'args')};",
            lambda value, v: last.added(value, v, value),
            (last.ratio,),
        ),
        ROUND,
    )


ADD = {added_first: _add(added_first) for added_first in ("a", "b")}
MUL = (
    Step(
        "product",
        "float value = static_cast<float>((a - args.a_zero) * (b - args.b_zero));",
        lambda value, v: ((v["a"].astype(np.int32) - v["a_zero"]) * (v["b"] - v["b_zero"])).astype(np.float32),
        (A_ZERO, B_ZERO),
    ),
    Step(
        "rescale",
        "value = tile::add(tile::multiply(value, args.ratio), args.y_zero);",
        lambda value, v: value * v["ratio"] + v["y_zero"],
        (RATIO, Y_ZERO),
    ),
    ROUND,
)


def steps(problem: Binary) -> tuple[Step, ...]:
    return ADD[problem.added_first] if isinstance(problem, Add) else MUL


def says(problem: Binary) -> str:
    """Return the formula of the steps, for the kernel's comment."""
    if not isinstance(problem, Add):
        return "  y = clamp(round_half_to_even((a - a_zero) * (b - b_zero) * ratio + y_zero), low, high)"
    first, last = problem.added_first, "a" if problem.added_first == "b" else "b"
    value = f"fma({last}, {last}_ratio, fma({first}, {first}_ratio, offset))"
    return f"  y = clamp(round_half_to_even({value}), low, high)"


def compute(problem: Binary, drawn: Sample) -> tuple[Array, ...]:
    """Compute the oracle: the NumPy lines in order."""
    a, b = drawn.arrays
    p = problem.checked(drawn.parameters)
    values: Values = {"a": a, "b": b.astype(np.int32)[:, np.newaxis, :]}
    for step in steps(problem):
        values |= {one.name: np.asarray(one.value(problem, p), one.dtype) for one in step.arguments}
    value = np.zeros((), np.float32)
    for step in steps(problem):
        value = step.numpy(value, values)
    return (value.astype(problem.out_type),)


# Fractions of samples whose scales are powers of two, which makes ties, and hundredths, which makes near-ties.
POWERS_OF_TWO, HUNDREDTHS = 0.25, 0.25
# The standard deviation of the outputs before rounding: some reach the ends of their type, most do not.
LEAST_SPREAD, MOST_SPREAD = 25.0, 90.0
# The least distance from its zero point of a broadcast element: with a smaller one, all its products would be alike.
LEAST_DISTANCE = 32

OPTIONS = (
    Option("shape", "add, mul: shape of a and of the output.", "extents", required=True),
    Option("b_shape", "add, mul: shape of b, which is broadcast to a's. Default: the same.", "extents"),
    Option("a_type", "add, mul: type of a. Default int8.", choices=BYTES),
    Option("b_type", "add, mul: type of b. Default int8.", choices=BYTES),
    Option("out_type", "add, mul: int8 (default), uint8.", metavar="TYPE"),
    Option("activation", "add, mul: none or relu.", choices=ACTIVATIONS),
)


def _op(kind: type[Binary], made: str) -> Op:
    return Op(
        name=kind.op,
        says=f"The {made} of two quantized tensors, the second of which may be smaller.",
        problems=(kind,),
        read=kind.read,
        ask=lambda given: _asked(kind, given),
        options=OPTIONS,
        draw=draw,
        compute=compute,
    )


def _asked(kind: type[Binary], given: dict[str, Any]) -> Binary:
    shapes = [given["shape"], given.get("b_shape", given["shape"])]
    a_shape, b_shape = ((shape,) if isinstance(shape, int) else shape for shape in shapes)
    rest = {name: value for name, value in given.items() if name not in ("shape", "b_shape")}
    return kind.of(a_shape, b_shape, **rest)


def draw(problem: Binary, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw full-range arrays, and scales with which the outputs spread over their type."""
    rng = np.random.default_rng(seed)
    a_zero = _zero_point(problem.a_type, problem, rng)
    b_zero = _zero_point(problem.b_type, problem, rng)
    a, b = (operands.uniform(tensor.dtype, tensor.shape, rng) for tensor in problem.inputs)
    if problem.repeat > 1 and isinstance(problem, Mul):
        b = _far_from(b, b_zero, problem.activation == "relu")
    kind = rng.random()
    powers = kind < POWERS_OF_TWO
    real_a, real_b = a - np.float64(a_zero), (b - np.float64(b_zero))[:, np.newaxis, :]
    share = 2.0 ** rng.integers(-2, 3) if powers else np.exp(rng.uniform(-1.2, 1.2))
    values = real_a + share * real_b if isinstance(problem, Add) else real_a * real_b
    ratio = rng.uniform(LEAST_SPREAD, MOST_SPREAD) / max(float(values.std()), 1.0)
    if powers:
        ratio = 2.0 ** np.rint(np.log2(ratio))
    low, high = RANGES[problem.out_type]
    y_zero = np.clip(np.rint((low + high) / 2 + rng.uniform(-30, 30) - ratio * values.mean()), low, high)
    y_scale = 2.0 ** rng.integers(-6, 3) if powers else np.exp(rng.uniform(-5, 1))
    if isinstance(problem, Add):
        a_scale, b_scale = ratio * y_scale, ratio * share * y_scale
    else:
        a_scale = 2.0 ** rng.integers(-6, 3) if powers else np.exp(rng.uniform(-5, 1))
        b_scale = ratio * y_scale / a_scale
    scales = {"a_scale": a_scale, "b_scale": b_scale, "y_scale": y_scale}
    if POWERS_OF_TWO <= kind < POWERS_OF_TWO + HUNDREDTHS and isinstance(problem, Add):
        unit = rng.uniform(0.2, 1.0) / min(scales.values())  # keeps all scales well above zero
        scales = {name: round(float(scale * unit), 2) for name, scale in scales.items()}
    zeros = {"a_zero_point": a_zero, "b_zero_point": b_zero, "y_zero_point": int(y_zero)}
    return Sample((a, b), {name: float(np.float32(value)) for name, value in scales.items()} | zeros)


def _zero_point(dtype: str, problem: Binary, rng: np.random.Generator) -> int:
    """Draw a zero point. A relu needs one that leaves room above."""
    low, high = RANGES[dtype]
    if problem.activation == "relu":
        return int(rng.integers(low, low + (high - low) // 4))
    return int(operands.zero_points(dtype, (), rng, False))


def _far_from(b: Array, zero: int, above: bool) -> Array:
    """Move elements near the zero point, or on the wrong side of it, to the farther end of the range."""
    low, high = RANGES[str(b.dtype)]
    end = high if above or high - zero > zero - low else low
    near = np.abs(b.astype(np.int32) - zero) < LEAST_DISTANCE
    return np.where(near | (above & (b < zero)), end, b).astype(b.dtype)


OPS = (_op(Add, "sum"), _op(Mul, "product"))
