"""The epilogue, which turns an accumulator into an output element: an ordered list of steps, each a C++ line beside an
equivalent NumPy line.

The C++ lines read and write `acc` (Sum), `value` (float) and `result` (the output element, or the input of `narrow`:
see `packs` and `narrows`). They read `channel` (the parameters per output channel), `x_sum` (the sum of the window's
activations), `residual` (a float, or an int: the element or the bits of a narrow float) and the functions of `tile::`.
The NumPy lines see the same state as whole arrays, and a `Values` with the residual and with the arguments as arrays
that broadcast over the channels.

A lookup table may be the last step: the requantized value is then the index of the output. Where the output zero point
is added after the rounding, the kernel's table begins with the entry of that zero point: the rounded number is the
index, and nothing is added. Reads go through the L1 cache, which holds the table's two lines, so that no page needs
shared memory for it or a barrier that all of its warps reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from qconv.arithmetic import channel_constant
from qconv.arithmetic import quantized_sum as requantized_sum
from qconv.arithmetic.fma import fma
from qconv.arithmetic.narrow import NARROW_FLOATS, narrow
from qconv.arithmetic.parameter import ENTRIES
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.arithmetic.step import Argument, Array, Step, Values, activation
from qconv.dtypes import ELEMENT_TYPES, FLOAT8, RANGES


def _float32(value: Any) -> Array:
    return np.asarray(value, dtype=np.float32)


def real_scale(quantization: Quantization, parameters: Parameters) -> Array:
    """Return the real value of one accumulator unit: x_scale * w_scale, with one fp32 rounding."""
    return _kept(quantization, parameters.x_scale) * _float32(parameters.w_scale)


def _kept(quantization: Quantization, scale: Any) -> Array:
    """Return a scale as the emulated system uses it in products."""
    one = np.float32(1)
    return one / (one / _float32(scale)) if quantization.mode.scales == "twice_inverted" else _float32(scale)


def multiplier(quantization: Quantization, parameters: Parameters) -> Array:
    """Return x_scale * w_scale / y_scale, where y_scale is that of the first number that is rounded, or 1 if the output
    or the activation's input is real."""
    y_scale = parameters.y_scale if quantization.to_output_units == "multiply" else 1.0
    if quantization.first_scale != "y_scale":
        y_scale = getattr(parameters, quantization.first_scale)
    if quantization.mode.multiplier == "fp64_rounded":
        x, w, y = (np.asarray(v, np.float64) for v in (parameters.x_scale, parameters.w_scale, y_scale))
        return _float32(x * w / y)
    scale = real_scale(quantization, parameters)
    if quantization.mode.multiplier == "fp32_reciprocal":
        return scale * (np.float32(1) / _float32(y_scale))
    return scale / _float32(y_scale)


def integer_bias(quantization: Quantization, parameters: Parameters) -> Array:
    """Return the bias in the accumulator: as given, or an fp32 bias rounded to accumulator units."""
    if parameters.bias is None:
        return np.zeros((), np.int32)
    if quantization.bias == "int32":
        return np.asarray(parameters.bias, np.int32)
    low, high = RANGES["int32"]
    units = np.asarray(_scaled_down(quantization, parameters), np.float64)
    return np.asarray(np.clip(np.rint(units), low, high), np.int32)


def _scaled_down(quantization: Quantization, parameters: Parameters) -> Array:
    if quantization.mode.bias_scaling in ("reciprocal", "int32_reciprocal"):
        return _float32(parameters.bias) * _inverse_scale(quantization, parameters)
    return _float32(parameters.bias) / real_scale(quantization, parameters)


def _inverse_scale(quantization: Quantization, parameters: Parameters) -> Array:
    return np.float32(1) / real_scale(quantization, parameters)


def real_bias(quantization: Quantization, parameters: Parameters) -> Array:
    if quantization.bias == "int32":
        return np.asarray(parameters.bias, np.int32).astype(np.float32) * real_scale(quantization, parameters)
    return _float32(parameters.bias)


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """Return the steps of the epilogue in order."""
    chosen = list(_corrections(quantization))
    if quantization.scaled:
        chosen += _scale(quantization)
    if quantization.sums_bytes:
        chosen += channel_constant.steps(quantization)
        chosen += requantized_sum.steps(quantization) if quantization.mode.requantizes_before_residual else ()
        return (*chosen, _store_sum(quantization))
    if quantization.mode.adds_dequantized:
        chosen.append(_dequantize_own(quantization))
    if quantization.residual != "none":
        chosen.append(_residual(quantization))
    if packs_from_zero(quantization):
        chosen.append(_relu6_top(quantization))
    elif quantization.activation != "none" and not _clamped_anyway(quantization):
        chosen.append(activation(quantization.activation))
    chosen += _to_output_units(quantization)
    chosen.append(_store(quantization))
    return tuple(chosen)


def computed(quantization: Quantization, parameters: Parameters, acc: Array, residual: Array | None = None) -> Array:
    """Return the outputs of sums whose last axis is the output channel. The residual, as int32, has the same layout."""
    chosen = steps(quantization)
    values: Values = {made.name: made.value(quantization, parameters) for step in chosen for made in step.arguments}
    if residual is not None:
        values["residual"] = residual
    state = acc
    with np.errstate(over="ignore"):
        for step in chosen:
            state = step.numpy(state, values)
    return state


def _clamped_anyway(quantization: Quantization) -> bool:
    """True where a relu precedes a clamp at the same 0. It is redundant, and ptxas 13.0 would combine the two into one
    F2IP.U8.RELU, which an H200 rejects as an illegal instruction."""
    zero = quantization.y_zero_point
    return quantization.activation == "relu" and packs(quantization) and quantization.limits[0] == 0 and not zero


def packs_from_zero(quantization: Quantization) -> bool:
    """True where packing, which clamps to an unsigned byte, also applies the lower bound of relu6. An int8 qualifies if
    its largest value is clamped before, in output units."""
    is_byte = quantization.out_type == "uint8" or quantization.mode.order == "multiply"
    return quantization.activation == "relu6" and packs(quantization) and not quantization.y_zero_point and is_byte


def _relu6_top(quantization: Quantization) -> Step:
    relu6, largest = activation("relu6"), np.float32(RANGES[quantization.out_type][1])
    (top,) = relu6.arguments

    def capped(q: Quantization, parameters: Parameters) -> Array:
        value: Array = top.value(q, parameters)
        return np.minimum(value, largest) if q.mode.order == "multiply" else value

    return replace(
        relu6,
        cxx="value = tile::minimum(value, channel.top);  // 0 is the least that is packed",
        arguments=(replace(top, value=capped),),
    )


def _corrections(quantization: Quantization) -> Iterator[Step]:
    """Yield the int32 steps, modulo 2**32. The oracle subtracts the zero points from the operands instead, so that the
    NumPy lines only add the bias: sum (x - zx)(w - zw) = sum x w + [count zx zw - zx sum w + bias] - zw sum x."""
    if has_offset(quantization):
        folded = quantization.x_zero_point
        yield Step(
            "offset",
            "acc = tile::wrapping_add(acc, channel.offset);",
            (lambda acc, v: acc + v["offset"]) if quantization.bias_at == "accumulator" else (lambda acc, v: acc),
            (
                Argument(
                    "offset",
                    "int",
                    True,
                    "written by fold: the int32 bias and what x_zero_point adds" if folded else "the int32 bias",
                    integer_bias,
                ),
            ),
        )
    if quantization.w_zero_point:
        yield Step(
            "weight_zero_point",
            "acc = tile::wrapping_subtract(acc, channel.w_zero * x_sum);",
            lambda acc, v: acc,
            (
                Argument(
                    "w_zero",
                    "int",
                    quantization.per_channel,
                    "the weight zero point",
                    lambda q, parameters: np.asarray(parameters.w_zero_point, np.int32),
                ),
            ),
        )


def has_offset(quantization: Quantization) -> bool:
    return quantization.bias_at == "accumulator" or quantization.x_zero_point


TO_FLOAT = Step("to_float", "float value = static_cast<float>(acc);", lambda acc, v: acc.astype(np.float32))
TO_DOUBLE = Step("to_double", "double value = static_cast<double>(acc);", lambda acc, v: acc.astype(np.float64))


def _scale(quantization: Quantization) -> Iterator[Step]:
    mode = quantization.mode
    if mode.order != "multiply":
        yield TO_FLOAT
        yield from _real_scale(quantization)
        return
    yield TO_DOUBLE if mode.multiplier == "fp64" else TO_FLOAT
    if quantization.bias_at == "value" and mode.bias_scaling == "reciprocal_fma":
        yield Step(
            "float32_bias",
            "value = tile::fma(channel.bias, channel.inverse_scale, value);",
            lambda value, v: fma(v["bias"], v["inverse_scale"], value),
            (
                Argument("bias", "float", True, "the bias, in real units", real_bias),
                Argument("inverse_scale", "float", quantization.per_channel, "1 / (x_scale * w_scale)", _inverse_scale),
            ),
        )
    elif quantization.bias_at == "value":
        by = "* fp32(1 / (x_scale * w_scale))" if mode.bias_scaling == "reciprocal" else "/ (x_scale * w_scale)"
        yield Step(
            "float32_bias",
            "value = tile::add(value, channel.bias);",
            lambda value, v: value + v["bias"],
            (Argument("bias", "float", True, f"fp32 bias {by}", _scaled_down),),
        )
    says = "x_scale * w_scale / y_scale" if quantization.to_output_units == "multiply" else "x_scale * w_scale"
    if quantization.first_scale != "y_scale":
        says = f"x_scale * w_scale / {quantization.first_scale}"
    yield Step(
        "multiply",
        "value = tile::multiply(value, channel.multiplier);",
        lambda value, v: value * v["multiplier"],
        (Argument("multiplier", "float", quantization.per_channel, says, multiplier),),
    )


def _real_scale(quantization: Quantization) -> Iterator[Step]:
    scale = Argument("scale", "float", quantization.per_channel, "x_scale * w_scale", real_scale)
    if quantization.bias_at is None:
        yield Step(
            "scale",
            "value = tile::multiply(value, channel.scale);",
            lambda value, v: value * v["scale"],
            (scale,),
        )
        return
    bias = Argument("bias", "float", True, "the bias, in real units", real_bias)
    if quantization.mode.fma == "on":
        yield Step(
            "scale_and_bias",
            "value = tile::fma(value, channel.scale, channel.bias);",
            lambda value, v: fma(value, v["scale"], v["bias"]),
            (scale, bias),
        )
        return
    yield Step(
        "scale_and_bias",
        "value = tile::add(tile::multiply(value, channel.scale), channel.bias);",
        lambda value, v: value * v["scale"] + v["bias"],
        (scale, bias),
    )


def _dequantize_own(quantization: Quantization) -> Step:
    """Return the step that rounds the value to the output's 8-bit float, as a kernel of the convolution alone does, and
    multiplies it by its scale, as the kernel that adds the two does."""
    own, of = quantization.out_type, NARROW_FLOATS[quantization.out_type]
    return Step(
        "dequantize_own",
        f"value = tile::multiply({of.read.format(of.round.format('value'))}, channel.inner_scale);",
        lambda value, v: narrow(value, own).astype(np.float32) * v["inner_scale"],
        (Argument("inner_scale", "float", False, "the scale of its own output", lambda q, p: _float32(p.inner_scale)),),
    )


def _residual(quantization: Quantization) -> Step:
    """Return the step that adds the residual in the units of the value: the output's after the one `multiply`, else
    real."""
    in_output_units = quantization.to_output_units == "multiply"

    def scale(q: Quantization, parameters: Parameters) -> Array:
        kept = _kept(q, parameters.residual_scale)
        return kept / _float32(parameters.y_scale) if in_output_units else kept

    says = "residual_scale / y_scale" if in_output_units else "the scale of the residual"
    arguments = [Argument("residual_scale", "float", False, says, scale)]
    shifted = _residual_as_float(quantization)
    if quantization.residual_zero_point:
        shifted = "static_cast<float>(residual - channel.residual_zero)"
        zero = Argument(
            "residual_zero", "int", False, "the zero point of the residual", lambda q, p: p.residual_zero_point
        )
        arguments.append(zero)

    def real(v: Values) -> Array:
        residual = v["residual"]
        return np.asarray(residual - v["residual_zero"] if "residual_zero" in v else residual, np.float32)

    added = f"const float added = {shifted};\n    "
    if quantization.mode.residual_add == "fma":
        return Step(
            "residual",
            f"{added}value = tile::fma(added, channel.residual_scale, value);",
            lambda value, v: fma(real(v), v["residual_scale"], value),
            tuple(arguments),
        )
    return Step(
        "residual",
        f"{added}value = tile::add(value, tile::multiply(added, channel.residual_scale));",
        lambda value, v: value + real(v) * v["residual_scale"],
        tuple(arguments),
    )


def _residual_as_float(quantization: Quantization) -> str:
    """Return the C++ of a residual without a zero point."""
    residual = quantization.residual
    if residual not in NARROW_FLOATS:
        return "residual" if residual == "float32" else "static_cast<float>(residual)"
    return NARROW_FLOATS[residual].read.format(f"static_cast<{ELEMENT_TYPES[residual].bits_ctype}>(residual)")


def _inverse_where_it_serves(scale: float) -> np.float32:
    """Return 1 / scale for `tile::quotient`, or 0 where the quotient must be a division."""
    return np.float32(1) / np.float32(scale) if 2.0**-40 <= scale <= 2.0**40 else np.float32(0)


_Y_SCALE = Argument("y_scale", "float", False, "the output scale", lambda q, p: _float32(p.y_scale))


def _to_output_units(quantization: Quantization) -> tuple[Step, ...]:
    if quantization.to_output_units == "multiply_reciprocal":
        inverse = Argument("inverse", "float", False, "1 / y_scale", lambda q, p: np.float32(1) / _float32(p.y_scale))
        line = "value = tile::multiply(value, channel.inverse);"
        return (Step("multiply_reciprocal", line, lambda value, v: value * v["inverse"], (inverse,)),)
    if quantization.to_output_units == "multiply_divide":
        return (_divide(quantization),)
    return ()


def _by_scale(value: Array, v: Values) -> Array:
    quotient: Array = value / v["y_scale"]
    return quotient


def _divide(quantization: Quantization) -> Step:
    if quantization.out_type in FLOAT8:  # it keeps the sign of a zero, which `tile::quotient` loses
        return Step("divide", "value = tile::divide(value, channel.y_scale);", _by_scale, (_Y_SCALE,))
    inverse = Argument(
        "y_inverse", "float", False, "1 / y_scale, or 0", lambda q, p: _inverse_where_it_serves(p.y_scale)
    )
    # A true division is slow on GPUs, and slowest for zeros, which relu produces often.
    line = "value = tile::quotient(value, channel.y_scale, channel.y_inverse);"
    return Step("divide", line, _by_scale, (_Y_SCALE, inverse))


def _store(quantization: Quantization) -> Step:
    if quantization.requantizes:
        return _requantize(quantization)
    if quantization.out_type in NARROW_FLOATS:
        narrow_float = NARROW_FLOATS[quantization.out_type]
        result = "value" if narrows(quantization) else narrow_float.round.format("value")
        return Step("to_narrow", f"result = {result};", _narrowed(quantization.out_type))
    if quantization.out_type == "float32":
        return Step("to_float32", "result = value;", lambda value, v: value.astype(np.float32))
    return Step("to_int32", "result = acc;", lambda acc, v: acc)


def _narrowed(out_type: str) -> Callable[[Array, Values], Array]:
    narrow_type = ELEMENT_TYPES[out_type]

    def narrow(value: Array, v: Values) -> Array:
        single = value.astype(np.float32)
        if out_type in FLOAT8:  # saturating, with one NaN
            most = narrow_type.largest_finite
            return np.where(np.isnan(single), np.float32(np.nan), np.clip(single, -most, most)).astype(
                narrow_type.numpy
            )
        with np.errstate(over="ignore"):
            return single.astype(narrow_type.numpy)

    return narrow


def _half_away(value: Array) -> Array:
    whole = np.trunc(value)
    return whole + np.where(np.abs(value - whole) >= 0.5, np.sign(value), np.zeros_like(value))


ROUNDINGS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "rne": ("tile::round_small", np.rint),
    "half_away": ("tile::round_half_away", _half_away),
    "rtz": ("static_cast<int>", np.trunc),
}


def narrows(quantization: Quantization) -> bool:
    """True where floats follow the steps, and several of them are rounded to a word of narrow floats at once. Integer
    sums with outputs of 16 bits round each by itself, as the shipped winners were measured."""
    real = quantization.out_type in FLOAT8 or not quantization.types.sum.is_integer
    return quantization.out_type in NARROW_FLOATS and real


def packs(quantization: Quantization) -> bool:
    """True where the last rounding, the clamp to the output's range and the narrowing follow the steps for several
    outputs at once: GPUs have an instruction that does all three, rounding half to even. An output that is an index of
    a table becomes a byte by itself first."""
    rounds_so = quantization.mode.rounding == "rne" and quantization.mode.multiplier != "fp64"
    return quantization.requantizes and rounds_so and not quantization.table


def _requantize(quantization: Quantization) -> Step:
    low, high = quantization.limits
    cxx, rounded = ROUNDINGS[quantization.mode.rounding]
    out_type = quantization.out_type
    zero = Argument("y_zero", "float", False, "the output zero point", lambda q, p: _float32(p.y_zero_point))
    arguments = (zero,) if quantization.y_zero_point else ()
    before = quantization.y_zero_point and quantization.mode.zero_point_add == "before_round"

    def requantized(value: Array, v: Values) -> Array:
        whole = rounded(value + v["y_zero"]) if before else rounded(value) + v.get("y_zero", 0)
        return np.clip(whole, low, high).astype(out_type)

    added = "value = tile::add(value, channel.y_zero);\n    " if before else ""
    if packs(quantization):
        adds_whole = bool(arguments) and not before
        whole = "tile::rounded(value, channel.y_zero)" if adds_whole else "value"
        # The upper limit is that of the type.
        in_range = low == RANGES[out_type][0] or packs_from_zero(quantization)
        inside = whole if in_range else f"tile::maximum({whole}, {low}.0f)"
        return Step("requantize", f"{added}result = {inside};", requantized, arguments)
    # Clamping to [low - zero, high - zero] before the rounding equals clamping after it, because the bounds are
    # integers. It keeps the conversion to int in range.
    limits, behind = f"{low}.0f, {high}.0f", ""
    if arguments and not before:
        limits = f"{low}.0f - channel.y_zero, {high}.0f - channel.y_zero"
        behind = "\n        + static_cast<int>(channel.y_zero)"
    clamped = f"{cxx}(tile::clamp(value, {limits}))"
    if quantization.table:
        indexes = Step("look_up", f"{added}result = {table_entry(clamped)};", requantized, arguments)
        return look_up(quantization, indexes)
    cast = f"static_cast<Output>(\n        {clamped}{behind})" if behind else f"static_cast<Output>({clamped})"
    return Step("requantize", f"{added}result = {cast};", requantized, arguments)


def table_entry(rounded: str) -> str:
    """Return the C++ line that looks up the rounded and clamped value, without a zero point that is added after
    rounding."""
    return f"tile::load(channel.table + static_cast<unsigned char>(\n        {rounded}))"


def table_begins_with_zero(quantization: Quantization) -> bool:
    """True where the kernel's table begins with the entry of the output zero point, which a sum has added already."""
    after = quantization.y_zero_point and quantization.mode.zero_point_add == "after_round"
    return after and not quantization.sums_bytes


def _store_sum(quantization: Quantization) -> Step:
    """Return the step that makes the last sum of bytes an output."""
    if not quantization.table:
        return requantized_sum.store(quantization)
    low, high = RANGES[quantization.out_type]
    byte = f"tile::round_small(tile::clamp(value, {low}.0f, {high}.0f))"

    def rounded(value: Array, v: Values) -> Array:
        return np.clip(np.rint(value), low, high).astype(quantization.out_type)

    return look_up(quantization, Step("look_up", f"result = {table_entry(byte)};", rounded))


def look_up(quantization: Quantization, indexes: Step) -> Step:
    """Return the step that looks the output up: `table_entry` in its C++ line, the byte itself in its NumPy line."""
    from_zero = table_begins_with_zero(quantization)

    def words(q: Quantization, parameters: Parameters) -> Array:
        turned: Array = np.roll(parameters.table, -int(parameters.y_zero_point) if from_zero else 0)
        return turned.view(np.int32)

    def looked_up(value: Array, v: Values) -> Array:
        byte = indexes.numpy(value, v).astype(np.int32) - (v["y_zero"].astype(np.int32) if from_zero else 0)
        outputs: Array = v["table"].view(quantization.out_type)[byte % ENTRIES]
        return outputs

    says = f"{ENTRIES} outputs, one for each byte{', from that of y_zero on' if from_zero else ''}"
    table = Argument("table", "const Output*", False, says, words, ENTRIES // 4)
    return replace(indexes, numpy=looked_up, arguments=(*indexes.arguments, table))
