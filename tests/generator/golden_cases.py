"""The generated files that are kept in tests/golden: between them every vendor, path and option of a kernel page."""

from __future__ import annotations

from dataclasses import replace

from qconv import Conv2d, Quantization, generator
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.generator import Config, Plan
from qconv.generator.choosing import Choosing
from qconv.generator.simt import Simt
from qconv.op import Problem
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

FUSED = Quantization.of("et-vulkan", bias="float32", y_zero_point=True)
WIDER = Quantization.of("onnx-ref", bias="int32", y_zero_point=True)
CHANNELS = {"outer": 8, "channels": 64, "inner": 196}

WIDE = Simt(tile_m=128, tile_n=64, tile_k=64, thread_m=8, thread_n=4, stages=2)
SLICED = Choosing(threads=256, team=256, vector=4, unroll=2, slices=16)


def conv(problem: Conv2d, quantization: Quantization) -> Conv2d:
    return replace(problem, quantization=quantization)


# Name of the file -> problem, target and config (None: the default).
CASES: dict[str, tuple[Problem, str, Config | None]] = {
    "body-sm_90a.cu": (conv(BODY, BIASED), "sm_90a", WIDE),
    "body-everything-sm_80.cu": (conv(BODY, EVERYTHING), "sm_80", None),
    "stem-bytes-sm_75.cu": (STEM, "sm_75", None),
    "stem-nchw-everything-sm_90a.cu": (replace(STEM, layout="nchw", quantization=EVERYTHING), "sm_90a", None),
    "grouped-float16-sm_120.cu": (conv(GROUPED, HALF), "sm_120", None),
    "depthwise-int32-sm_100a.cu": (conv(DEPTHWISE, WHOLE), "sm_100a", None),
    "body-et-vulkan-sm_90a.cu": (conv(BODY, FUSED), "sm_90a", WIDE),
    "body-gelu-sm_90a.cu": (conv(BODY, GELU), "sm_90a", WIDE),
    "body-residual-sm_90a.cu": (conv(BODY, ADDED), "sm_90a", WIDE),
    "body-gfx942.hip": (conv(BODY, BIASED), "gfx942", WIDE),
    "stem-everything-gfx90a.hip": (conv(STEM, EVERYTHING), "gfx90a", None),
    "grouped-float32-gfx1100.hip": (conv(GROUPED, REAL), "gfx1100", None),
    "odd-float16-gfx1100.hip": (conv(ODD, HALF), "gfx1100", None),
    "body-everything-cpu.cpp": (conv(BODY, EVERYTHING), "cpu", WIDE),
    "odd-int32-cpu.cpp": (conv(ODD, WHOLE), "cpu", None),
    "grouped-onnx-ref-cpu.cpp": (conv(GROUPED, WIDER), "cpu", None),
    "depthwise-float16-cpu.cpp": (conv(DEPTHWISE, HALF), "cpu", None),
    "quantize-tensor-sm_90a.cu": (Quantize(1, 1, 2**20, zero_point=True), "sm_90a", None),
    "quantize-channel-sm_80.cu": (Quantize.of("torch-fbgemm", zero_point=True, **CHANNELS), "sm_80", None),
    "dequantize-block-gfx942.hip": (Dequantize(64, 4096, 1, block=32, out_type="float16"), "gfx942", None),
    "requantize-token-gfx1100.hip": (Requantize(1, 512, 768, x_zero_point=True, y_zero_point=True), "gfx1100", None),
    "choose-tensor-sm_90a.cu": (Choose(1, 1, 2**24, mapping="symmetric"), "sm_90a", None),
    "dynamic-token-sm_90a.cu": (Dynamic(1, 512, 4096, x_type="bfloat16"), "sm_90a", None),
    "dynamic-tensor-cpu.cpp": (Dynamic.of("ort", outer=1, channels=1, inner=2**20), "cpu", SLICED),
}


def plan_of(name: str) -> Plan:
    problem, target, config = CASES[name]
    if config is None:
        return generator.default(problem, TARGETS[target])
    return generator.plan(problem, config, TARGETS[target])
