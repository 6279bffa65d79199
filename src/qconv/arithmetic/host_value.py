"""C++ expressions for the run-time values of steps, for programs that launch kernels without Python. They mirror the
NumPy lines of `qconv.arithmetic.epilogue` and `qconv.arithmetic.activation`.

An expression reads `p`, the checked parameters of a convolution, and `k`, an output channel. `p` has x_scale, y_scale,
residual_scale, inner_scale, own_scale and constant_scale as doubles, and the zero points of the same as ints; per
channel w_scale(k), a double, w_zero_point(k), integer_bias(k) and constant(k), which are ints, and bias(k), a float;
number(NAME), a float that the activation reads; and table_word(k, FIRST), an int, which is word `k` of the table
counted from entry FIRST. `rounded(double)` returns the nearest int, half to even, within its range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qconv.arithmetic import channel_constant, quantized_sum
from qconv.arithmetic.activation import BY_NAME
from qconv.arithmetic.epilogue import packs_from_zero, table_begins_with_zero
from qconv.arithmetic.quantization import Quantization
from qconv.arithmetic.step import Argument
from qconv.dtypes import RANGES


def host_value(quantization: Quantization, argument: Argument) -> str:
    """Return the C++ expression of an argument. It rounds where NumPy rounds, so compile it without contraction."""
    q = quantization
    numbers = {number.name: number for number in BY_NAME[q.activation].numbers}
    if argument.name in numbers:
        number = numbers[argument.name]
        given = f'p.number("{number.name}")' if number.fixed is None else _literal(number.fixed)
        value = _in_output_units(q, given) if number.is_value else given
        return _capped(q, value) if number.name == "top" and packs_from_zero(q) else value
    values: dict[str, Callable[[Quantization], str]] = {
        "offset": _integer_bias,
        "w_zero": lambda _: "p.w_zero_point(k)",
        "x_zero": lambda _: "p.x_zero_point",
        "bias": lambda q: _real_bias(q) if _adds_real_bias(q) else _scaled_down(q),
        "inverse_scale": lambda q: f"1.0f / ({_real_scale(q)})",
        "multiplier": _multiplier,
        "scale": _real_scale,
        "residual_scale": _residual_scale,
        "residual_zero": lambda _: "p.residual_zero_point",
        "y_scale": lambda _: _single("p.y_scale"),
        "y_inverse": lambda _: "inverse_where_it_serves(p.y_scale)",
        "inverse": lambda _: f"1.0f / {_single('p.y_scale')}",
        "y_zero": lambda _: _single("p.y_zero_point"),
        "inner_scale": lambda _: _single("p.inner_scale"),
        "inner_zero": lambda _: _single("p.inner_zero_point"),
        "inner_ratio": lambda _: _ratio("inner", "y"),
        "residual_ratio": lambda _: _ratio("residual", "y"),
        "sum_offset": lambda q: _start_of_sum(*quantized_sum.operands(q), "y"),
        "own_zero": lambda _: _single("p.own_zero_point"),
        "own_ratio": lambda q: _ratio("own", channel_constant.made_by(q)),
        "constant_ratio": _constant_ratio,
        "constant_offset": _constant_offset,
        "constant": lambda _: _single("p.constant(k)"),
        "factor": lambda _: _single("p.constant(k) - p.constant_zero_point"),
        "product_ratio": lambda q: f"{_single('p.own_scale')} * {_constant_ratio(q)}",
        "product_zero": lambda q: _single(f"p.{channel_constant.made_by(q)}_zero_point"),
        "begun": lambda q: f"std::fma({_single('p.constant(k)')}, {_constant_ratio(q)}, {_constant_offset(q)})",
        "table": lambda q: f"p.table_word(k, {'p.y_zero_point' if table_begins_with_zero(q) else '0'})",
    }
    if argument.name not in values:
        raise ValueError(
            f"the value {argument.name!r} of a step has no C++ line: add it to src/qconv/arithmetic/host_value.py, "
            "as its NumPy line in src/qconv/arithmetic/epilogue.py has it"
        )
    return values[argument.name](q)


def _single(value: str) -> str:
    return f"static_cast<float>({value})"


def _literal(value: float) -> str:
    return f"{np.float32(value)!s}f"


def _kept(quantization: Quantization, scale: str) -> str:
    """Return a scale as the emulated system uses it in products."""
    single = _single(scale)
    return f"1.0f / (1.0f / {single})" if quantization.mode.scales == "twice_inverted" else single


def _real_scale(quantization: Quantization) -> str:
    return f"({_kept(quantization, 'p.x_scale')}) * {_single('p.w_scale(k)')}"


def _multiplier(quantization: Quantization) -> str:
    y_scale = "p.y_scale" if quantization.to_output_units == "multiply" else "1.0"
    if quantization.first_scale != "y_scale":
        y_scale = f"p.{quantization.first_scale}"
    if quantization.mode.multiplier == "fp64_rounded":
        return _single(f"p.x_scale * p.w_scale(k) / {y_scale}")
    if quantization.mode.multiplier == "fp32_reciprocal":
        return f"{_real_scale(quantization)} * (1.0f / {_single(y_scale)})"
    return f"{_real_scale(quantization)} / {_single(y_scale)}"


def _integer_bias(quantization: Quantization) -> str:
    if quantization.bias == "none":
        return "0"
    if quantization.bias == "int32":
        return "p.integer_bias(k)"
    return f"rounded({_scaled_down(quantization)})"


def _scaled_down(quantization: Quantization) -> str:
    scale = _real_scale(quantization)
    if quantization.mode.bias_scaling in ("reciprocal", "int32_reciprocal"):
        return f"p.bias(k) * (1.0f / ({scale}))"
    return f"p.bias(k) / ({scale})"


def _adds_real_bias(quantization: Quantization) -> bool:
    return quantization.bias_at == "real" or quantization.mode.bias_scaling == "reciprocal_fma"


def _real_bias(quantization: Quantization) -> str:
    if quantization.bias == "int32":
        return f"{_single('p.integer_bias(k)')} * ({_real_scale(quantization)})"
    return "p.bias(k)"


def _residual_scale(quantization: Quantization) -> str:
    kept = _kept(quantization, "p.residual_scale")
    return f"({kept}) / {_single('p.y_scale')}" if quantization.to_output_units == "multiply" else kept


def _ratio(of: str, made: str) -> str:
    return f"{_single(f'p.{of}_scale')} / {_single(f'p.{made}_scale')}"


def _start_of_sum(first: str, last: str, made: str) -> str:
    """Return the start value of the sum `made` of two operands, without their bytes."""
    product = f"({_ratio(first, made)}) * {_single(f'p.{first}_zero_point')}"
    both = f"std::fma({_ratio(last, made)}, {_single(f'p.{last}_zero_point')}, {product})"
    return f"{_single(f'p.{made}_zero_point')} - {both}"


def _constant_ratio(quantization: Quantization) -> str:
    return _ratio("constant", channel_constant.made_by(quantization))


def _constant_offset(quantization: Quantization) -> str:
    return _start_of_sum(*channel_constant.operands(quantization), channel_constant.made_by(quantization))


def _in_output_units(quantization: Quantization, real: str) -> str:
    """Return a number of the activation, converted to output units where one factor scales the value to them."""
    return f"{real} / {_single('p.y_scale')}" if quantization.to_output_units == "multiply" else real


def _capped(quantization: Quantization, value: str) -> str:
    if quantization.mode.order != "multiply":
        return value
    return f"std::fmin({value}, {_literal(RANGES[quantization.out_type][1])})"
