"""The quantization of one convolution: types, granularity, zero points, bias, activation and rounding.

A `Quantization` says which parameters exist. Their values are run-time data (`Parameters`), so that one tuned kernel
serves every layer of the same shape.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.mode import Mode, preset
from qconv.arithmetic.parameter import (
    HAS_ONE,
    MOST_OF_ADD,
    MOST_OF_MUL,
    ROUNDS,
    check_activation_parameter,
    check_bias,
    check_constant,
    check_ratio,
    check_residual_scale,
    check_scale,
    check_scale_of_sum,
    check_table,
    check_zero_points,
)
from qconv.dtypes import ELEMENT_TYPES, FLOAT8, RANGES, ElementType, Types
from qconv.op import changed_fields, check_choice

# Types with an accumulator type.
X_TYPES = tuple(name for name, element_type in ELEMENT_TYPES.items() if element_type.sums is not None)
OUT_TYPES = ("int8", "uint8", "int32", "float32", "float16", "bfloat16", *FLOAT8)
BIASES = ("none", "int32", "float32")
RESIDUALS = ("none", "int8", "uint8", "float16", "bfloat16", *FLOAT8, "float32")
ACTIVATIONS = tuple(BY_NAME)
# The op of the requantized output and a byte for each channel: none; QLinearAdd, with the output or the constant as its
# first operand; QLinearMul.
CONSTANTS = ("none", "added", "added_first", "multiplied")
# Activations that commute with a positive scale, so that the value may be in any units.
SCALABLE = tuple(name for name, activation in BY_NAME.items() if activation.scales)


@dataclass(frozen=True)
class Quantization:
    x_type: str = "int8"
    w_type: str = "int8"
    out_type: str = "int8"
    per_channel: bool = False
    x_zero_point: bool = False
    w_zero_point: bool = False
    y_zero_point: bool = False
    bias: str = "none"
    activation: str = "none"
    residual: str = "none"
    residual_zero_point: bool = False
    inner_zero_point: bool = False
    constant: str = "none"  # a byte for each channel, added to the requantized output or multiplied with it
    table: bool = False  # the requantized value is the index of the output in a table of 256
    promoted_sums: bool = False  # sums of at most 128 products of 8-bit floats are added up in fp32
    mode: Mode = field(default_factory=Mode)

    def __repr__(self) -> str:
        return changed_fields(self)

    def __post_init__(self) -> None:
        self._check_operands()
        check_choice("out_type", self.out_type, OUT_TYPES)
        check_choice("bias", self.bias, BIASES)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("residual", self.residual, RESIDUALS)
        check_choice("constant", self.constant, CONSTANTS)
        if not isinstance(self.mode, Mode):
            raise ValueError(f"mode={self.mode!r} must be a qconv.Mode")
        zeros = ("x_zero_point", "w_zero_point", "y_zero_point", "residual_zero_point", "inner_zero_point")
        for name in ("per_channel", *zeros, "table", "promoted_sums"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ValueError(f"{name}={value!r} must be True or False; the value itself is given at run time")
        if self.y_zero_point and not self.requantizes:
            raise ValueError(
                f"y_zero_point=True with out_type={self.out_type!r}: only int8 and uint8 outputs have a zero point; "
                "leave it out or choose out_type int8 or uint8"
            )
        self._check_sums()
        if self.residual_zero_point and self.residual == "none":
            raise ValueError(
                "residual_zero_point=True with residual='none': there is nothing to subtract it from; leave it out or "
                "choose residual int8 or uint8"
            )
        if self.residual_zero_point and not self.types.residual_is_integer:
            raise ValueError(
                f"residual_zero_point=True with residual={self.residual!r}: only integers have a zero point; leave it "
                "out, or choose residual int8 or uint8"
            )
        self._check_inner()
        self._check_constant()
        self._check_table()
        if self.residual != "none" and self.mode.multiplier == "fp64":
            raise ValueError(
                f"residual={self.residual!r} with multiplier='fp64': it is added in fp32; use another multiplier"
            )
        if self.sees_real and self.mode.multiplier == "fp64":
            raise ValueError(
                f"activation={self.activation!r} with multiplier='fp64': it is computed in fp32, of the real value; "
                f"use multiplier fp32_chain or fp64_rounded, or one of {', '.join(SCALABLE)}"
            )
        if self.out_type == "int32":
            for name, unset in (("bias", "float32"), ("activation", None), ("residual", None)):
                value = getattr(self, name)
                if value == unset or (unset is None and value != "none"):
                    raise ValueError(
                        f"{name}={value!r} with out_type='int32': int32 output is the accumulator itself, before any "
                        "scale; use bias none or int32, activation none and residual none, or another out_type"
                    )
            if self.per_channel and not self.w_zero_point:
                raise ValueError(
                    "per_channel=True with out_type='int32' has nothing per channel to apply (no scale is used); "
                    "leave per_channel out, or give w_zero_point"
                )

    def _check_operands(self) -> None:
        """Check that both operand types have the same accumulator type, and that only integers have zero points."""
        for name in ("x_type", "w_type"):
            given, operands = getattr(self, name), [t.name for t in ELEMENT_TYPES.values() if t.sums is not None]
            check_choice(name, given, tuple(operands))
            if getattr(self, f"{name[0]}_zero_point") and not ELEMENT_TYPES[given].is_integer:
                raise ValueError(
                    f"{name[0]}_zero_point=True with {name}={given!r}: only integers have a zero point; leave it out, "
                    "or choose an integer type"
                )
        x, w = ELEMENT_TYPES[self.x_type], ELEMENT_TYPES[self.w_type]
        if x.sums != w.sums:
            raise ValueError(
                f"x_type={x.name!r} with w_type={w.name!r}: their products add up in {x.sums} and {w.sums}; choose "
                "types whose products add up in the same type"
            )

    def _check_sums(self) -> None:
        """Check that the epilogue supports this accumulator type: integers are corrected modulo 2**32, and no integers
        are added to real sums."""
        sums, given = self.types.sum, f"with x_type={self.x_type!r}, whose products add up in {self.types.sum.name}"
        if sums.is_integer and sums.bits != 32:
            raise ValueError(f"{given}: only int32 sums are corrected and scaled; choose a type that adds up in int32")
        if not self.scaled and self.out_type != sums.name:
            raise ValueError(
                f"out_type={self.out_type!r} {given}: the sums have another type; choose an output that is scaled"
            )
        if self.promoted_sums and (sums.is_integer or self.types.x.bytes > 1):
            raise ValueError(
                f"promoted_sums=True {given}: only sums of 8-bit floats have instructions that keep fewer bits; leave "
                "it out"
            )
        if sums.is_integer and self.residual != "none" and not self.types.residual_is_integer:
            raise ValueError(
                f"residual={self.residual!r} {given}: integer sums take a residual of int8 or uint8; choose one"
            )
        if not sums.is_integer and (self.bias in RANGES or self.bias_at == "accumulator"):
            raise ValueError(
                f"bias={self.bias!r} and bias_scaling={self.mode.bias_scaling!r} {given}: real sums take no integers; "
                "choose a float32 bias that is not rounded"
            )

    def _check_inner(self) -> None:
        """Check that an inner zero point belongs to an output requantized before the residual, and that the sum takes
        both operands."""
        chosen = f"residual_add={self.mode.residual_add!r}"
        if self.mode.adds_dequantized and (self.out_type not in FLOAT8 or self.residual == "none"):
            raise ValueError(
                f"residual={self.residual!r} and out_type={self.out_type!r} with {chosen}: the output is rounded to an "
                f"8-bit float before the residual is added; choose a residual and an out_type of {' or '.join(FLOAT8)}"
            )
        if not self.mode.requantizes_before_residual:
            if self.inner_zero_point:
                raise ValueError(
                    f"inner_zero_point=True with {chosen}: only an output that is requantized before the residual is "
                    "added has one; leave it out, or choose residual_add requantized or requantized_last"
                )
            return
        if self.out_type not in ("int8", "uint8") or self.residual != self.out_type:
            raise ValueError(
                f"residual={self.residual!r} and out_type={self.out_type!r} with {chosen}: QLinearAdd adds two tensors "
                "of int8, or two of uint8, and gives that type; make the two equal, or use another residual_add"
            )
        if self.activation not in ("none", "relu"):
            raise ValueError(
                f"activation={self.activation!r} with {chosen}: behind QLinearAdd there is none or relu; use one of "
                "these, or another residual_add"
            )

    def _check_constant(self) -> None:
        """Check that an output to which a constant is added is requantized as QLinearConv requantizes it."""
        if self.constant == "none":
            return
        chosen = f"constant={self.constant!r}"
        if not self.requantizes:
            raise ValueError(
                f"{chosen} with out_type={self.out_type!r}: QLinearAdd and QLinearMul are of bytes; leave it out, or "
                "choose out_type int8 or uint8"
            )
        self.mode.check_sums_bytes(chosen)
        if self.residual != "none" and not self.mode.requantizes_before_residual:
            raise ValueError(
                f"residual={self.residual!r} with {chosen} and residual_add={self.mode.residual_add!r}: what the "
                "constant makes is bytes; use residual_add requantized or requantized_last"
            )
        if self.activation not in ("none", "relu") or (self.table and self.activation != "none"):
            raise ValueError(
                f"activation={self.activation!r} with {chosen}{' and a table' * self.table}: behind a constant there "
                "is none or relu, and a table has both; use one of these"
            )

    def _check_table(self) -> None:
        if self.table and not self.requantizes:
            raise ValueError(
                f"table=True with out_type={self.out_type!r}: an output is looked up by its byte; leave it out, or "
                "choose out_type int8 or uint8"
            )
        if self.table and self.mode.requantizes_before_residual:
            raise ValueError(
                f"table=True with residual_add={self.mode.residual_add!r}: no kernel has a table after QLinearAdd; "
                "look the sum up by a kernel of its own, the op table"
            )

    @cached_property
    def types(self) -> Types:
        x = ELEMENT_TYPES[self.x_type]
        assert x.sums is not None
        return Types(
            x=x,
            w=ELEMENT_TYPES[self.w_type],
            y=ELEMENT_TYPES[self.out_type],
            sum=ELEMENT_TYPES[x.sums],
            residual=ELEMENT_TYPES.get(self.residual),
        )

    @classmethod
    def of(cls, mode: str, **spec: Any) -> Quantization:
        """Return a quantization as the named system computes it. Features that the system lacks are rejected, even
        where the system itself would ignore them."""
        chosen = preset(mode)
        flags = chosen.per_channel_mode if spec.get("per_channel") and chosen.per_channel_mode else chosen.mode
        made = cls(mode=flags, **spec)
        for name in ("x_zero_point", "w_zero_point", "y_zero_point"):
            if getattr(made, name) and name not in chosen.zero_points:
                raise ValueError(f"{name} in mode {mode!r} ({chosen.says}): that system has none; leave it out")
        if made.bias not in chosen.biases:
            raise ValueError(f"bias={made.bias!r} in mode {mode!r} ({chosen.says}): it has {', '.join(chosen.biases)}")
        for name in ("x_type", "w_type"):
            if getattr(made, name) not in chosen.types:
                raise ValueError(f"{name}={getattr(made, name)!r} in mode {mode!r}: it has {', '.join(chosen.types)}")
        if made.per_channel and not chosen.per_channel:
            raise ValueError(f"per_channel in mode {mode!r} ({chosen.says}): it has one weight scale for all channels")
        if made.residual != "none" and not chosen.residual:
            raise ValueError(
                f"residual={made.residual!r} in mode {mode!r} ({chosen.says}): that system adds none in its "
                "convolution; leave out the mode, or give a qconv.Mode"
            )
        return made

    @property
    def requantizes(self) -> bool:
        return self.out_type in ("int8", "uint8")

    @property
    def sums_bytes(self) -> bool:
        """True where the convolution's own output becomes a byte before a QLinearAdd or a QLinearMul reads it."""
        return self.constant != "none" or self.mode.requantizes_before_residual

    @property
    def first_scale(self) -> str:
        """The parameter that is the unit of the first number that is rounded."""
        if self.constant != "none":
            return "own_scale"
        return "inner_scale" if self.mode.rounds_before_residual else "y_scale"

    @property
    def has_y_scale(self) -> bool:
        """True where the output has a scale: an integer, or a float of 8 bits, whose range is small."""
        return self.requantizes or self.out_type in FLOAT8

    @property
    def sees_real(self) -> bool:
        """True where the activation needs the real value rather than a multiple of it."""
        return not BY_NAME[self.activation].scales

    @property
    def to_output_units(self) -> str:
        """How a real value is converted to output units: not at all, as part of the one `multiply`, or by its own step
        after the activation."""
        if not self.has_y_scale:
            return "none"
        if self.mode.adds_dequantized:
            return "multiply_divide"
        if self.mode.order == "multiply" and self.sees_real:
            return "multiply_reciprocal"
        return self.mode.order

    @property
    def limits(self) -> tuple[int, int]:
        """Return the bounds to which a requantized output is clamped."""
        low, high = self.types.y.range
        return (low + 1, high) if self.mode.clamp == "symmetric" and low < 0 else (low, high)

    @property
    def bias_at(self) -> str | None:
        """The point at which the bias is added: to the integer `accumulator`, to the `value` before it is multiplied,
        or as a `real` number."""
        if self.bias == "none":
            return None
        if self.mode.order != "multiply":
            return "real"
        rounded = self.mode.bias_scaling in ("int32", "int32_reciprocal")
        return "accumulator" if self.bias == "int32" or rounded else "value"

    @property
    def scaled(self) -> bool:
        return self.out_type != "int32"

    @property
    def largest_product(self) -> int:
        """Return max |x - zx| * |w - zw|: the most that one product adds to the accumulator, for integers."""

        def largest(operand: ElementType, shifted: bool) -> int:
            low, high = operand.range
            return high - low if shifted else operand.largest

        return largest(self.types.x, self.x_zero_point) * largest(self.types.w, self.w_zero_point)


@dataclass(frozen=True)
class Parameters:
    """The run-time values: scales and zero points (scalars, or one per output channel for the weights), the bias, and
    the numbers of the activation: `slope` of leaky_relu, `low` and `high` of clamp, in real units. A residual has a
    scale and a zero point as well, and so does (`inner`) an output that is rounded before the residual is added. A
    `constant` has a byte for each channel, a scale and a zero point, and so has (`own`) the output in front of it.
    `table` has an output for each byte."""

    x_scale: Any = 1.0
    w_scale: Any = 1.0
    y_scale: Any = 1.0
    x_zero_point: Any = 0
    w_zero_point: Any = 0
    y_zero_point: Any = 0
    bias: Any = None
    slope: Any = None
    low: Any = None
    high: Any = None
    residual_scale: Any = None
    residual_zero_point: Any = 0
    inner_scale: Any = None
    inner_zero_point: Any = 0
    own_scale: Any = None
    own_zero_point: Any = 0
    constant: Any = None
    constant_scale: Any = None
    constant_zero_point: Any = 0
    table: Any = None

    def __repr__(self) -> str:
        return changed_fields(self)

    def checked(self, quantization: Quantization, k: int) -> Parameters:
        """Return these values as arrays of the right types. Raise ValueError for any that is wrong or unused."""
        q = quantization
        channels = (k,) if q.per_channel else ()
        checked: dict[str, Any] = {}
        for name, shape, used in (
            ("x_scale", (), q.scaled),
            ("w_scale", channels, q.scaled),
            ("y_scale", (), q.has_y_scale),
        ):
            checked[name] = check_scale(name, getattr(self, name), shape, used)
        for name, shape, dtype in (
            ("x_zero_point", (), q.x_type),
            ("w_zero_point", channels, q.w_type),
            ("y_zero_point", (), q.out_type),
            ("residual_zero_point", (), q.residual),
            ("inner_zero_point", (), q.out_type),
        ):
            checked[name] = check_zero_points(name, getattr(self, name), shape, dtype, getattr(q, name))
        checked["residual_scale"] = check_residual_scale(self.residual_scale, q.residual, checked["y_scale"])
        checked["inner_scale"] = check_scale_of_sum(
            "inner_scale", self.inner_scale, q.mode.rounds_before_residual, ROUNDS
        )
        checked |= _checked_constant(self, q, k)
        checked["table"] = check_table(self.table, q.out_type, q.table)
        checked["bias"] = check_bias(self.bias, q.bias, k)
        for name in ("slope", "low", "high"):
            checked[name] = check_activation_parameter(name, getattr(self, name), q.activation)
        if checked["low"] is not None and checked["low"] > checked["high"]:
            raise ValueError(f"low={self.low!r} is above high={self.high!r}: clamp needs low <= high; swap them")
        _check_products(q, checked)
        for name, scale in _inverted(q, checked):
            with np.errstate(all="ignore"):
                inverse = np.float32(1) / np.float32(scale)
            if not np.isfinite(inverse).all():
                raise ValueError(
                    f"{name} holds {np.min(scale)}, whose inverse is infinite in float32, and this mode multiplies by "
                    "it; scale the layer up"
                )
        return Parameters(**checked)


def _checked_constant(given: Parameters, quantization: Quantization, k: int) -> dict[str, Any]:
    """Return the checked parameters of a constant and of the output in front of it."""
    used = quantization.constant != "none"
    checked: dict[str, Any] = {"constant": check_constant(given.constant, quantization.out_type, k, used)}
    for name in ("own", "constant"):
        checked[f"{name}_scale"] = check_scale_of_sum(f"{name}_scale", getattr(given, f"{name}_scale"), used, HAS_ONE)
        zero = getattr(given, f"{name}_zero_point")
        if not used and np.any(zero):
            raise ValueError(f"{name}_zero_point={zero!r} was given, but the problem has no constant: leave it out")
        checked[f"{name}_zero_point"] = check_zero_points(f"{name}_zero_point", zero, (), quantization.out_type, used)
    return checked


def _check_products(quantization: Quantization, checked: dict[str, Any]) -> None:
    """Check that the quotients of scales, each of which is finite and positive, are finite and positive as well."""
    rounded = quantization.mode.rounds_before_residual
    unit = quantization.first_scale
    with np.errstate(all="ignore"):
        x_scale, w_scale, y_scale = (np.float32(checked[name]) for name in ("x_scale", "w_scale", unit))
        multiplier = np.asarray(x_scale * w_scale / y_scale)
    if not (np.isfinite(multiplier) & (multiplier > 0)).all():
        raise ValueError(
            f"x_scale * w_scale / {unit} = {multiplier.min()}..{multiplier.max()} in float32: it must be finite "
            "and positive, or every output would be the same; check the three scales"
        )
    if rounded:
        _check_sum(checked, ("inner_scale", "residual_scale"), "y_scale")
    made = "inner_scale" if rounded else "y_scale"  # by the constant and the output in front of it
    if quantization.constant == "multiplied":
        with np.errstate(all="ignore"):
            ratio = np.float32(checked["own_scale"]) * np.float32(checked["constant_scale"]) / np.float32(checked[made])
        check_ratio(f"own_scale * constant_scale / {made}", ratio, MOST_OF_MUL)
    elif quantization.constant != "none":
        _check_sum(checked, ("own_scale", "constant_scale"), made)


def _check_sum(checked: dict[str, Any], operands: tuple[str, str], made: str) -> None:
    """Check the scales of two operands beside that of their sum."""
    for name in operands:
        with np.errstate(all="ignore"):
            ratio = np.float32(checked[name]) / np.float32(checked[made])
        check_ratio(f"{name} / {made}", ratio, MOST_OF_ADD)


def _inverted(quantization: Quantization, checked: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the scales by whose inverse this mode multiplies."""
    mode, made = quantization.mode, []
    if mode.scales == "twice_inverted":
        made += [(name, checked[name]) for name in ("x_scale", "residual_scale") if checked[name] is not None]
    if mode.multiplier == "fp32_reciprocal" or quantization.to_output_units == "multiply_reciprocal":
        made.append(("y_scale", checked["y_scale"]))
    if quantization.bias == "float32" and "reciprocal" in mode.bias_scaling:
        with np.errstate(all="ignore"):
            made.append(("x_scale * w_scale", np.float32(checked["x_scale"]) * np.float32(checked["w_scale"])))
    return made
