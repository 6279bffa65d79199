"""A byte for each channel beside the convolution's own output, which is rounded and clamped to a byte first: their sum
as ONNX Runtime's QLinearAdd computes it, as exporters write the bias of a product, or their product as QLinearMul does,
as they write the scale of a residual branch. The bits are those of the two kernels one after the other."""

from __future__ import annotations

import numpy as np

from qconv.arithmetic.fma import fma
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.arithmetic.quantized_sum import Term, linear, ratio, start, step_of, to_byte
from qconv.arithmetic.step import Argument, Array, Step


def made_by(quantization: Quantization) -> str:
    """Return the tensor that the two make: what the residual is added to, or the output."""
    return "inner" if quantization.mode.requantizes_before_residual else "y"


def operands(quantization: Quantization) -> tuple[str, str]:
    """Return the first and the last operand of the sum."""
    return ("constant", "own") if quantization.constant == "added_first" else ("own", "constant")


def _ratio(of: str) -> Argument:
    def value(q: Quantization, p: Parameters) -> np.float32:
        return ratio(linear(p, of).scale, linear(p, made_by(q)).scale)

    return Argument(f"{of}_ratio", "float", False, f"{of}_scale / the scale of the sum with the constant", value)


OWN_ZERO = Argument(
    "own_zero", "float", False, "the zero point of its own output", lambda q, p: np.float32(p.own_zero_point)
)
OWN = Term("value", lambda value, v: value, _ratio("own"))
CONSTANT = Term("channel.constant", lambda value, v: np.asarray(v["constant"], np.float32), _ratio("constant"))
BYTE = Argument(
    "constant", "float", True, "the constant of the channel", lambda q, p: np.asarray(p.constant, np.float32)
)
OFFSET = Argument(
    "constant_offset",
    "float",
    False,
    "what the zero points add to the sum with the constant",
    lambda q, p: start(p, operands(q), made_by(q)),
)


def _begun(quantization: Quantization, parameters: Parameters) -> Array:
    byte, scale = np.asarray(parameters.constant, np.float32), CONSTANT.ratio.value(quantization, parameters)
    return fma(byte, scale, OFFSET.value(quantization, parameters))


# The sum that the constant begins, before the output is added: one number for each channel.
BEGUN = Argument("begun", "float", True, "constant_ratio * constant, and what the zero points add", _begun)
FACTOR = Argument(
    "factor",
    "float",
    True,
    "the constant of the channel without its zero point",
    lambda q, p: np.asarray(p.constant - p.constant_zero_point, np.float32),
)


def _product_ratio(quantization: Quantization, parameters: Parameters) -> np.float32:
    both = np.float32(parameters.own_scale) * np.float32(parameters.constant_scale)
    return ratio(both, linear(parameters, made_by(quantization)).scale)


PRODUCT_RATIO = Argument(
    "product_ratio", "float", False, "own_scale * constant_scale / the scale of the product", _product_ratio
)
PRODUCT_ZERO = Argument(
    "product_zero",
    "float",
    False,
    "the zero point of the product",
    lambda q, p: np.float32(linear(p, made_by(q)).zero_point),
)
ADD_LAST = step_of("add_constant", (OWN, CONSTANT), OFFSET, (OWN.ratio, CONSTANT.ratio, OFFSET, BYTE))
ADD_FIRST = Step(
    "add_constant",
    f"value = {OWN.onto('channel.begun', 'channel')};",
    lambda value, v: OWN.added(value, v, v["begun"]),
    (OWN.ratio, BEGUN),
)
# Exact up to the ratio: the factors are differences of bytes.
MULTIPLY = Step(
    "multiply_constant",
    "value = tile::multiply(tile::add(value, -channel.own_zero), channel.factor);\n"
    "    value = tile::add(tile::multiply(value, channel.product_ratio), channel.product_zero);",
    lambda value, v: (value - v["own_zero"]) * v["factor"] * v["product_ratio"] + v["product_zero"],
    (FACTOR, PRODUCT_RATIO, PRODUCT_ZERO),
)
WAYS = {"added": ADD_LAST, "added_first": ADD_FIRST, "multiplied": MULTIPLY}


def steps(quantization: Quantization) -> tuple[Step, ...]:
    """Return the steps behind what makes units of `own_scale`; none without a constant."""
    if quantization.constant == "none":
        return ()
    return to_byte("requantize_own", quantization, OWN_ZERO), WAYS[quantization.constant]
