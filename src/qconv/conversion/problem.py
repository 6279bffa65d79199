"""The conversion problems: real numbers to integers or 8-bit floats, back, from one scale to another, and the choice of
a scale and a zero point.

An array is seen as (outer, channels, inner). Scales are device arrays, never host parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, ClassVar, Self

import numpy as np

from qconv.arithmetic.mode import MODE_VALUES
from qconv.conversion.presets import system_flags
from qconv.dtypes import ELEMENT_TYPES, FLOAT8, INTEGERS, RANGES
from qconv.op import FULL, LARGEST, WIDEST, Problem, Tensor, alignment, check_choice, checked_size, quoted, read_integer

LEAST_EPS, MOST_EPS = 2.0**-126, 2.0**126
# torch, xnnpack, amax: the smallest scale. onnx: the scale of an all-zero range. fbgemm: the small-scale cut-off.
EPS = {"torch": 1.1920929e-07, "onnx": 1.0, "fbgemm": 6.1e-05, "xnnpack": 1.1920929e-07, "amax": LEAST_EPS}
# The choice of a zero point requires that the steps of a range are exact in fp32.
MOST_STEPS = 2**24
# A transposing thread keeps all channels of its pixels in registers.
MOST_TURNED = 32


def check_precision(precision: str, x_type: str) -> None:
    if precision in ("float16", "bfloat16") and precision != x_type:
        raise ValueError(
            f"precision={precision!r} with x_type={x_type!r}: only 16-bit numbers have a 16-bit quotient; use "
            f"x_type={precision!r}, or precision float32 or float64"
        )


def check_added(name: str, there: bool, added: str) -> None:
    if added != "after_round" and not there:
        raise ValueError(f"zero_point_add={added!r} without {name}: there is nothing to add; leave it out")


def check_float8(name: str, dtype: str, given: dict[str, object]) -> None:
    """Refuse the fields that integers alone have. `given` are those that differ from their defaults."""
    if given:
        field_name, value = next(iter(given.items()))
        raise ValueError(
            f"{field_name}={value!r} with {name}={dtype!r}: {_LACKS[field_name]}; leave {field_name} out, or use an "
            "integer type"
        )


_LACKS = {
    "zero_point": "a float has no zero point",
    "low": "a float saturates at its largest finite numbers",
    "high": "a float saturates at its largest finite numbers",
    "rounding": "a float is rounded half to even",
    "zero_point_add": "a float has no zero point",
    "fma": "a float has no zero point to add",
}


def check_channels_last(channels: int, block: int) -> None:
    if block:
        raise ValueError(f"channels_last with block={block}: transposed channels have a scale each, not a block")
    if channels > MOST_TURNED:
        raise ValueError(
            f"channels_last with channels={channels}: at most {MOST_TURNED} channels are transposed; convert without, "
            "and transpose the integers"
        )


def check_fma(quotient: str, zero_point_add: str, precision: str) -> None:
    if (quotient, zero_point_add, precision) != ("reciprocal", "before_round", "float32"):
        raise ValueError(
            f"fma='on' with quotient={quotient!r}, zero_point_add={zero_point_add!r} and precision={precision!r}: only "
            "an fp32 product to which the zero point is added before the rounding can be fused; use reciprocal, "
            "before_round and float32, or leave fma off"
        )


def check_range(low: int, high: int) -> None:
    if high - low > MOST_STEPS:
        raise ValueError(
            f"low={low} with high={high}: a zero point is chosen in fp32, which is exact for at most {MOST_STEPS} "
            "steps; give a narrower low and high"
        )


def rule_and_mapping(out_type: str) -> tuple[str, str]:
    """Return the default rule and mapping, which are the only ones of an 8-bit float."""
    return ("amax", "symmetric") if out_type in FLOAT8 else ("torch", "asymmetric")


def check_amax(out_type: str, rule: str, mapping: str, precision: str) -> None:
    """Check how the scale of an 8-bit float is chosen, and with which precision it is divided by."""
    if (rule, mapping) != rule_and_mapping(out_type):
        raise ValueError(
            f"rule={rule!r} and mapping={mapping!r} with out_type={out_type!r}: a float has no zero point, and its "
            "scale is the largest magnitude divided by the type's largest number; use rule amax and mapping symmetric, "
            "or leave both out"
        )
    if precision == "float16":
        raise ValueError(
            f"precision='float16' with out_type={out_type!r}: a scale that is chosen may be less than any number of "
            "float16; use precision float32"
        )


def check_mapping(rule: str, mapping: str, low: int, high: int) -> None:
    if rule == "amax":
        raise ValueError(
            "rule='amax' chooses the scale of an 8-bit float: use rule torch with mapping symmetric for an integer, or "
            f"an out_type of {' or '.join(FLOAT8)}"
        )
    if rule != "torch" and mapping != "asymmetric":
        raise ValueError(f"rule={rule!r} with mapping={mapping!r}: that rule is asymmetric; use rule torch")
    if mapping == "symmetric_no_clip" and not low < 0 < high:
        raise ValueError(
            f"mapping='symmetric_no_clip' with low={low} and high={high}: it divides by both, so low must be below "
            "zero and high above; use mapping symmetric or a signed range"
        )


def check_eps(eps: object) -> float:
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.floating) or not LEAST_EPS <= eps <= MOST_EPS:
        raise ValueError(f"eps={eps!r} must be a number from {LEAST_EPS} to {MOST_EPS}, where fp32 is normal")
    return float(eps)


REALS = ("float32", "float16", "bfloat16", "float64")
# The types that real numbers are quantized to.
SCALED = (*INTEGERS, *FLOAT8)
WIDE = ("float32", "float64")
LONG_RUN = 2**10

# Points on which systems disagree; the first value of each is the default. `rounding`, `zero_point_add` and `order` are
# Mode's.
CHOICES: dict[str, tuple[str, ...]] = {
    "scale_type": WIDE,
    # The type to which the quotient or product is rounded.
    "precision": REALS,
    # x / scale; or x * (1 / scale), with the reciprocal computed once in the scale's type and rounded to the precision.
    "quotient": ("divide", "reciprocal"),
    "rounding": MODE_VALUES["rounding"],
    "zero_point_add": MODE_VALUES["zero_point_add"],
    # x * (1 / scale) + zero_point as two operations, or as one fma.
    "fma": MODE_VALUES["fma"],
    # q - zero computed exactly and then rounded to the precision; or both rounded to it first.
    "subtraction": ("integer", "real"),
    # value * (x_scale / y_scale); (value * x_scale) / y_scale; (value * x_scale) * (1 / y_scale).
    "order": MODE_VALUES["order"],
    "mapping": ("asymmetric", "symmetric", "symmetric_no_clip"),
    # The system whose choice of scale and zero point is used. amax: the scale of an 8-bit float.
    "rule": ("torch", "onnx", "fbgemm", "xnnpack", "amax"),
}
FLAGS = ("zero_point", "x_zero_point", "y_zero_point", "channels_last")
_ALWAYS = ("outer", "channels", "inner", "x_type", "out_type")
_NUMBERS = ("outer", "channels", "inner", "block", "low", "high")


@dataclass(frozen=True, eq=False)
class Conversion(Problem):
    """A conversion. With `block` 0 there is one scale per channel: per tensor is channels=1, per token is outer=1,
    channels=tokens. With `block` > 0, `block` neighbouring channels share a scale at each (outer, inner), as in
    ONNX."""

    outer: int
    channels: int
    inner: int
    block: int = 0
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    allowed: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        for name in ("outer", "channels", "inner"):
            object.__setattr__(self, name, checked_size(name, getattr(self, name), 1))
        object.__setattr__(self, "block", checked_size("block", self.block, 0))
        for flag in fields(self):
            value = getattr(self, flag.name, None)
            if flag.name in self.allowed:
                check_choice(flag.name, value, self.allowed[flag.name])
            elif flag.name in CHOICES:
                check_choice(flag.name, value, CHOICES[flag.name])
            elif flag.name in FLAGS and not isinstance(value, bool):
                raise ValueError(f"{flag.name}={value!r} must be True or False; zero points are arrays of the call")
        for name, count in (("the array", self.elements), ("the array of scales", self.scales)):
            if count > LARGEST:
                raise ValueError(f"{name} has {count} elements; at most {LARGEST} are supported: split outer")
        if self.is_turned:
            check_channels_last(self.channels, self.block)
        self._check()
        self._name(self._key())

    def _check(self) -> None:
        """Check the fields of a subclass."""

    @property
    def elements(self) -> int:
        return self.outer * self.channels * self.inner

    @property
    def blocks(self) -> int:
        """Return the number of scales along the channels."""
        return -(-self.channels // self.block) if self.block else self.channels

    @property
    def scales(self) -> int:
        return self.outer * self.blocks * self.inner if self.block else self.channels

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.outer, self.channels, self.inner)

    @property
    def is_turned(self) -> bool:
        """True where the integers have their channels last and the real numbers do not."""
        return getattr(self, "channels_last", False)

    @property
    def integer_shape(self) -> tuple[int, int, int]:
        return (self.outer, self.inner, self.channels) if self.is_turned else self.shape

    @property
    def granularity(self) -> str:
        return "block" if self.block else "tensor" if self.channels == 1 else "channel"

    @property
    def io_bytes(self) -> int:
        return sum(prod(tensor.shape) * ELEMENT_TYPES[tensor.dtype].bytes for tensor in (*self.inputs, *self.outputs))

    @property
    def extents(self) -> dict[str, int]:
        """Return the sizes that a config depends on. On a full device, more elements and longer runs of one scale have
        no effect."""
        if self.is_turned:
            return {"elements": min(self.elements, FULL), "channels": self.channels}
        return {"elements": min(self.elements, FULL), "run": min(self.inner * max(self.block, 1), LONG_RUN)}

    @property
    def shape_class(self) -> tuple[object, ...]:
        if self.is_turned:
            return ("channels_last", alignment(self.inner, WIDEST), alignment(self.channels, WIDEST))
        return super().shape_class

    @property
    def kinds(self) -> tuple[object, ...]:
        left = (*_NUMBERS, "channels_last", "key", "_hash")
        flags = (name for name in (entry.name for entry in fields(self)) if name not in left)
        return (self.granularity, *(getattr(self, name) for name in flags))

    def _scale(self, name: str) -> Tensor:
        return Tensor(name, (self.scales,), getattr(self, "scale_type", ""))

    def _zero(self, name: str) -> Tensor:
        return Tensor(name, (self.scales,), "int32")

    def _set_range(self) -> None:
        """Set `low` and `high` of the output to the type's limits, unless given. Floats have none."""
        out_type = getattr(self, "out_type", "")
        if out_type in FLOAT8:
            check_float8("out_type", out_type, self._differing(*_LACKS))
            return
        least, most = RANGES[out_type]
        for name, default in (("low", least), ("high", most)):
            given = getattr(self, name)
            number = default if given is None else checked_size(name, given, least, most)
            object.__setattr__(self, name, number)
        if self.low >= self.high:  # type: ignore[attr-defined]
            raise ValueError(
                f"low={self.low} with high={self.high}: low must be below high; "  # type: ignore[attr-defined]
                f"{out_type} holds {least} to {most}"
            )

    def _defaults(self) -> dict[str, Any]:
        """Return the defaults of the fields, which a key omits."""
        defaults = {entry.name: entry.default for entry in fields(self) if entry.init}
        if "low" in defaults:
            defaults["low"], defaults["high"] = RANGES.get(getattr(self, "out_type", ""), (None, None))
        return defaults

    def _differing(self, *names: str) -> dict[str, object]:
        """Return those of the fields that differ from their defaults."""
        defaults = self._defaults()
        return {name: getattr(self, name) for name in names if getattr(self, name, None) != defaults.get(name)}

    def _key(self) -> str:
        """Return the key: sizes and types always, everything else where it differs from the default, in a fixed
        order."""
        parts = [self.op]
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if name in _ALWAYS or value != default:
                parts.append(name if value is True else f"{name}={value!r}" if name == "eps" else f"{name}={value}")
        return ":".join(parts)

    @classmethod
    def read(cls, given: dict[str, str | bool]) -> Self:
        """Return the problem of a key, from the fields that `op.read_key` returned."""
        values = cls.values(given)
        for name in ("outer", "channels", "inner"):
            if name not in values:
                raise ValueError(f"a key of {cls.op} has no {name}; it needs outer, channels and inner")
        return cls(**values)

    @classmethod
    def values(cls, given: dict[str, str | bool]) -> dict[str, Any]:
        """Convert the fields of a key to their types."""
        known = [entry.name for entry in fields(cls) if entry.init]
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name not in known:
                raise ValueError(f"unknown field {quoted(name)} in a key of {cls.op}; it has {', '.join(known)}")
            values[name] = read_integer(name, text) if name in _NUMBERS else _real(text) if name == "eps" else text
        return values

    @classmethod
    def of(cls, mode: str, **spec: Any) -> Self:
        """Return the problem as the named system computes it. Features that the system lacks are rejected."""
        return cls(**system_flags(cls.op, mode, spec))


def _real(text: str | bool) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"eps={quoted(text)} in a problem key must be a number, as in eps=1e-05") from None


@dataclass(frozen=True, eq=False)
class Quantize(Conversion):
    """Real to integer: round(x / scale) + zero_point, clamped; a NaN becomes `low`. Real to an 8-bit float: x / scale,
    rounded half to even and saturated; a NaN stays one. With `channels_last`, y is (outer, inner, channels): NCHW
    becomes NHWC."""

    op: ClassVar[str] = "quantize"
    allowed: ClassVar[dict[str, tuple[str, ...]]] = {"x_type": REALS, "out_type": SCALED}

    x_type: str = "float32"
    out_type: str = "int8"
    zero_point: bool = False
    low: int | None = None
    high: int | None = None
    scale_type: str = "float32"
    precision: str = "float32"
    quotient: str = "divide"
    rounding: str = "rne"
    zero_point_add: str = "after_round"
    fma: str = "off"
    channels_last: bool = False

    def _check(self) -> None:
        self._set_range()
        check_precision(self.precision, self.x_type)
        check_added("zero_point", self.zero_point, self.zero_point_add)
        if self.fma == "on":
            check_fma(self.quotient, self.zero_point_add, self.precision)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        zero = (self._zero("zero_point"),) if self.zero_point else ()
        return (Tensor("x", self.shape, self.x_type), self._scale("scale"), *zero)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.integer_shape, self.out_type),)


@dataclass(frozen=True, eq=False)
class Dequantize(Conversion):
    """Integer or 8-bit float to real: (x - zero_point) * scale in the precision, then rounded once to the output type.
    With `channels_last`, x is (outer, inner, channels): NHWC becomes NCHW."""

    op: ClassVar[str] = "dequantize"
    allowed: ClassVar[dict[str, tuple[str, ...]]] = {"x_type": SCALED, "out_type": REALS, "precision": WIDE}

    x_type: str = "int8"
    out_type: str = "float32"
    zero_point: bool = False
    scale_type: str = "float32"
    precision: str = "float32"
    subtraction: str = "integer"
    channels_last: bool = False

    def _check(self) -> None:
        if self.x_type in FLOAT8:
            check_float8("x_type", self.x_type, self._differing("zero_point"))
        if self.subtraction != "integer" and not self.zero_point:
            raise ValueError(
                f"subtraction={self.subtraction!r} without zero_point: there is nothing to subtract; leave it out"
            )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        zero = (self._zero("zero_point"),) if self.zero_point else ()
        return (Tensor("x", self.integer_shape, self.x_type), self._scale("scale"), *zero)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.shape, self.out_type),)


@dataclass(frozen=True, eq=False)
class Requantize(Conversion):
    """Integer to integer of another scale. The subtraction of x_zero is exact; both sides have the same granularity."""

    op: ClassVar[str] = "requantize"
    allowed: ClassVar[dict[str, tuple[str, ...]]] = {"x_type": INTEGERS, "out_type": INTEGERS, "precision": WIDE}

    x_type: str = "int8"
    out_type: str = "int8"
    x_zero_point: bool = False
    y_zero_point: bool = False
    low: int | None = None
    high: int | None = None
    scale_type: str = "float32"
    precision: str = "float32"
    order: str = "multiply"
    rounding: str = "rne"
    zero_point_add: str = "after_round"

    def _check(self) -> None:
        self._set_range()
        check_added("y_zero_point", self.y_zero_point, self.zero_point_add)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        x_zero = (self._zero("x_zero"),) if self.x_zero_point else ()
        y_zero = (self._zero("y_zero"),) if self.y_zero_point else ()
        return (Tensor("x", self.shape, self.x_type), self._scale("x_scale"), *x_zero, self._scale("y_scale"), *y_zero)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.shape, self.out_type),)


@dataclass(frozen=True, eq=False)
class Choose(Conversion):
    """The scale and zero point of each channel, from its smallest and largest element; of 8-bit floats the scale alone.
    NaNs are ignored."""

    op: ClassVar[str] = "choose"
    allowed: ClassVar[dict[str, tuple[str, ...]]] = {"x_type": REALS, "out_type": SCALED}

    x_type: str = "float32"
    out_type: str = "int8"
    low: int | None = None
    high: int | None = None
    scale_type: str = "float32"
    mapping: str | None = None
    rule: str | None = None
    eps: float | None = None

    def __post_init__(self) -> None:
        for name, default in zip(("rule", "mapping"), rule_and_mapping(self.out_type), strict=True):
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        super().__post_init__()

    def _check(self) -> None:
        self._set_range()
        if self.block:
            raise ValueError(
                f"block={self.block} in {self.op}: scales are chosen per channel; leave it out, and reshape so that "
                "each block is a channel"
            )
        assert self.rule is not None
        assert self.mapping is not None
        if self.out_type in FLOAT8:
            check_amax(self.out_type, self.rule, self.mapping, getattr(self, "precision", ""))
        else:
            assert self.low is not None
            assert self.high is not None
            check_range(self.low, self.high)
            check_mapping(self.rule, self.mapping, self.low, self.high)
        object.__setattr__(self, "eps", check_eps(EPS[self.rule] if self.eps is None else self.eps))

    def _defaults(self) -> dict[str, Any]:
        assert self.rule is not None
        rule, mapping = rule_and_mapping(self.out_type)
        return {**super()._defaults(), "rule": rule, "mapping": mapping, "eps": EPS[self.rule]}

    @property
    def has_zero_point(self) -> bool:
        return self.out_type not in FLOAT8

    @property
    def extents(self) -> dict[str, int]:
        return {"channels": min(self.channels, FULL >> 10), "count": self.outer * self.inner}

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", self.shape, self.x_type),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        zero = (self._zero("zero_point"),) if self.has_zero_point else ()
        return (self._scale("scale"), *zero)


@dataclass(frozen=True, eq=False)
class Dynamic(Choose):
    """Choose, followed by Quantize of the same array with the result."""

    op: ClassVar[str] = "dynamic"

    precision: str = "float32"
    quotient: str = "divide"
    rounding: str = "rne"
    zero_point_add: str = "after_round"
    fma: str = "off"

    def _check(self) -> None:
        super()._check()
        check_precision(self.precision, self.x_type)
        if self.fma == "on":
            check_fma(self.quotient, self.zero_point_add, self.precision)

    @property
    def choose(self) -> Choose:
        return Choose(**{entry.name: getattr(self, entry.name) for entry in fields(Choose) if entry.init})

    @property
    def quantize(self) -> Quantize:
        own = {entry.name for entry in fields(self)}
        shared = (entry.name for entry in fields(Quantize) if entry.init and entry.name in own)
        return Quantize(zero_point=self.has_zero_point, **{name: getattr(self, name) for name in shared})

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", self.shape, self.out_type), *super().outputs)


CONVERSIONS: dict[str, type[Conversion]] = {
    problem.op: problem for problem in (Quantize, Dequantize, Requantize, Choose, Dynamic)
}
