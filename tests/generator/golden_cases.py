"""The generated files that are kept in tests/golden: between them every vendor, path and option of a kernel page."""

from __future__ import annotations

from dataclasses import replace

from qconv import Conv2d, Quantization, generator
from qconv.generator import Plan
from qconv.generator.simt import Simt
from qconv.target import TARGETS

STEM = Conv2d(1, 224, 224, 3, 64, 7, 7, stride=2, pad=3)
BODY = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1)
ODD = Conv2d(2, 9, 5, 21, 33, 2, 5, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=3)
GROUPED = Conv2d(1, 14, 14, 64, 96, 3, 3, pad=1, groups=8)
DEPTHWISE = Conv2d(1, 56, 56, 48, 48, 3, 3, pad=1, groups=48)

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
BIASED = Quantization(per_channel=True, bias="int32", activation="relu")

WIDE = Simt(tile_m=128, tile_n=64, tile_k=64, thread_m=8, thread_n=4, stages=2)

# Name of the file -> problem, quantization, target and config (None: the default).
CASES: dict[str, tuple[Conv2d, Quantization, str, Simt | None]] = {
    "body-sm_90a.cu": (BODY, BIASED, "sm_90a", WIDE),
    "body-everything-sm_80.cu": (BODY, EVERYTHING, "sm_80", None),
    "stem-bytes-sm_75.cu": (STEM, Quantization(), "sm_75", None),
    "grouped-float16-sm_120.cu": (GROUPED, HALF, "sm_120", None),
    "depthwise-int32-sm_100a.cu": (DEPTHWISE, WHOLE, "sm_100a", None),
    "body-et-vulkan-sm_90a.cu": (BODY, Quantization.of("et-vulkan", bias="float32", y_zero_point=True), "sm_90a", WIDE),
    "body-gelu-sm_90a.cu": (BODY, GELU, "sm_90a", WIDE),
    "body-residual-sm_90a.cu": (BODY, ADDED, "sm_90a", WIDE),
    "body-gfx942.hip": (BODY, BIASED, "gfx942", WIDE),
    "stem-everything-gfx90a.hip": (STEM, EVERYTHING, "gfx90a", None),
    "grouped-float32-gfx1100.hip": (GROUPED, REAL, "gfx1100", None),
    "odd-float16-gfx1100.hip": (ODD, HALF, "gfx1100", None),
    "body-everything-cpu.cpp": (BODY, EVERYTHING, "cpu", WIDE),
    "odd-int32-cpu.cpp": (ODD, WHOLE, "cpu", None),
    "grouped-onnx-ref-cpu.cpp": (GROUPED, Quantization.of("onnx-ref", bias="int32", y_zero_point=True), "cpu", None),
    "depthwise-float16-cpu.cpp": (DEPTHWISE, HALF, "cpu", None),
}


def plan_of(name: str) -> Plan:
    problem, quantization, target, config = CASES[name]
    asked = replace(problem, quantization=quantization)
    if config is None:
        return generator.default(asked, TARGETS[target])
    return generator.plan(asked, config, TARGETS[target])
