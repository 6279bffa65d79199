"""The quantizations of the golden files."""

from __future__ import annotations

from dataclasses import replace

from qconv import Conv2d, Quantization
from qconv.arithmetic.mode import Mode

EVERYTHING = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")
HALF = Quantization("int8", "uint8", "float16", x_zero_point=True, bias="float32", activation="relu")
WHOLE = Quantization("uint8", "uint8", "int32", x_zero_point=True, w_zero_point=True)
REAL = Quantization(out_type="float32", per_channel=True, w_zero_point=True)
GELU = Quantization(per_channel=True, y_zero_point=True, bias="float32", activation="gelu")
ADDED = Quantization.of(
    "torch-onednn",
    x_type="uint8",
    out_type="uint8",
    per_channel=True,
    x_zero_point=True,
    y_zero_point=True,
    bias="float32",
    activation="relu",
    residual="uint8",
    residual_zero_point=True,
)
SUM = Quantization(
    *("uint8", "int8", "uint8"),
    per_channel=True,
    x_zero_point=True,
    y_zero_point=True,
    bias="int32",
    activation="relu",
    residual="uint8",
    residual_zero_point=True,
    inner_zero_point=True,
    mode=Mode(residual_add="requantized_last"),
)
SUM_OF_FLOATS = Quantization(
    *("float8_e4m3fn",) * 3,
    per_channel=True,
    bias="float32",
    activation="relu",
    residual="float8_e4m3fn",
    mode=Mode(residual_add="dequantized"),
)
LOOKED_UP = Quantization(
    "uint8", "int8", "uint8", per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32", table=True
)
GIVES = Quantization("int8", "int8", "uint8", True, y_zero_point=True, bias="int32", activation="relu6")
SIGNED_MID = Quantization(per_channel=True, bias="int32", activation="relu")


def conv(problem: Conv2d, quantization: Quantization) -> Conv2d:
    return replace(problem, quantization=quantization)
