"""The arithmetic of requantization, as one flag per point on which systems disagree, and the systems as named presets.

The default is ONNX Runtime's: (acc + bias) * multiplier in fp32 without fma, rounded half to even, then the output zero
point added, then clamped to the type.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from qconv.op import changed_fields, check_choice

# The first value of each flag is the default.
MODE_VALUES: dict[str, tuple[str, ...]] = {
    # Rounding of the last real number to an integer: half to even, half away from zero, towards zero.
    "rounding": ("rne", "half_away", "rtz"),
    # The output zero point is added to the integer, or to the real number before it is rounded.
    "zero_point_add": ("after_round", "before_round"),
    # (acc + bias) * m; or (acc * s + bias) / y_scale; or (acc * s + bias) * (1 / y_scale), with s = x_scale * w_scale.
    "order": ("multiply", "multiply_divide", "multiply_reciprocal"),
    # An fp32 bias in accumulator units: bias / s, or bias * (1 / s); either rounded to an int32; or the product with 1
    # / s and its sum with acc as one fma. The two other orders add it unchanged after the scale (`real`), and an int32
    # bias as bias * s.
    "bias_scaling": ("divide", "reciprocal", "int32", "real", "int32_reciprocal", "reciprocal_fma"),
    # m = x_scale * w_scale / y_scale: computed in fp32; in fp64 and rounded to fp32; in fp32, but multiplied in fp64;
    # or in fp32 with 1 / y_scale as a factor.
    "multiplier": ("fp32_chain", "fp64_rounded", "fp64", "fp32_reciprocal"),
    # The zero points of the operands are subtracted in int32, or the sum and the correction are each rounded to fp32
    # first.
    "correction": ("int32", "fp32"),
    # acc * s + bias as two operations, or as one fma.
    "fma": ("off", "on"),
    # The range of the output type, or that range without its lowest value.
    "clamp": ("dtype", "symmetric"),
    # The stored value of padding: x_zero_point, which is a real zero, or 0.
    "padding": ("zero_point", "raw_zero"),
    # The scales of x and of the residual: as given, or 1 / (1 / scale) in fp32, for a system that stores the inverses.
    "scales": ("as_given", "twice_inverted"),
    # value + residual * residual_scale as two operations, or as one fma. Or the value is first requantized to the
    # output's type with its own scale, and then added by QLinearAdd, as its first operand or as its last. Or it is
    # rounded to the output's 8-bit float with its own scale, and both are dequantized and added.
    "residual_add": ("multiply_add", "fma", "requantized", "requantized_last", "dequantized"),
}
# Flags that must keep their defaults where the value is rounded to the output's type before another one is added.
SET_BY_SUM = ("rounding", "zero_point_add", "order", "multiplier", "clamp", "scales")


@dataclass(frozen=True)
class Mode:
    """The arithmetic of one system. Combinations of flags that cannot be honoured together are rejected."""

    rounding: str = "rne"
    zero_point_add: str = "after_round"
    order: str = "multiply"
    bias_scaling: str = "divide"
    multiplier: str = "fp32_chain"
    correction: str = "int32"
    fma: str = "off"
    clamp: str = "dtype"
    padding: str = "zero_point"
    scales: str = "as_given"
    residual_add: str = "multiply_add"

    def __repr__(self) -> str:
        return changed_fields(self)

    def __post_init__(self) -> None:
        for flag in fields(self):
            check_choice(flag.name, getattr(self, flag.name), MODE_VALUES[flag.name])
        if (self.order == "multiply") == (self.bias_scaling == "real"):
            raise ValueError(
                f"order={self.order!r} with bias_scaling={self.bias_scaling!r}: a bias is real exactly where it is "
                "added after the scale, which is in multiply_divide and multiply_reciprocal; change one of the two"
            )
        if self.order != "multiply" and self.multiplier != "fp32_chain":
            raise ValueError(
                f"multiplier={self.multiplier!r} with order={self.order!r}: this order has no single multiplier; "
                "leave it at fp32_chain"
            )
        if self.fma == "on" and self.order == "multiply":
            raise ValueError(
                "fma='on' with order='multiply': (acc + bias) * m has no addition after the product to fuse; "
                "leave it off or use another order"
            )
        if self.bias_scaling == "reciprocal_fma" and self.multiplier == "fp64":
            raise ValueError(
                "bias_scaling='reciprocal_fma' with multiplier='fp64': that fma is one of fp32, and here the sum is "
                "fp64; use bias_scaling='reciprocal' or another multiplier"
            )
        if self.scales == "twice_inverted" and self.multiplier == "fp64_rounded":
            raise ValueError(
                "scales='twice_inverted' with multiplier='fp64_rounded': it inverts in fp32, and this multiplier takes "
                "the scales in fp64; leave the scales as_given or use another multiplier"
            )
        self._check_sum()

    def _check_sum(self) -> None:
        if self.requantizes_before_residual:
            self.check_sums_bytes(f"residual_add={self.residual_add!r}")
        elif self.adds_dequantized:
            self._check_set_by(f"residual_add={self.residual_add!r}", "QuantizeLinear and DequantizeLinear")

    def check_sums_bytes(self, chosen: str) -> None:
        """Check that this is the arithmetic of a QLinearConv and a QLinearAdd, which `chosen` needs."""
        self._check_set_by(chosen, "QLinearConv and QLinearAdd")

    def _check_set_by(self, chosen: str, ops: str) -> None:
        for name in SET_BY_SUM:
            value, default = getattr(self, name), MODE_VALUES[name][0]
            if value != default:
                raise ValueError(
                    f"{name}={value!r} with {chosen}: that is ONNX Runtime's {ops}, which have {name}={default!r}; use "
                    f"it, or another {chosen.split('=')[0]}"
                )

    @property
    def rounds_before_residual(self) -> bool:
        """True where the convolution's own output is rounded to its type before the residual is added."""
        return self.requantizes_before_residual or self.adds_dequantized

    @property
    def requantizes_before_residual(self) -> bool:
        """True where a QLinearAdd adds the convolution's own output of 8 bits to the residual."""
        return self.residual_add in ("requantized", "requantized_last")

    @property
    def adds_dequantized(self) -> bool:
        """True where the convolution's own output, an 8-bit float, is dequantized and added to the residual."""
        return self.residual_add == "dequantized"

    @property
    def begins_with_own(self) -> bool:
        """True where the convolution's own output is the first operand of the QLinearAdd."""
        return self.residual_add == "requantized"


@dataclass(frozen=True)
class Preset:
    """A system: its flags, and the features that it supports."""

    mode: Mode
    says: str
    zero_points: tuple[str, ...] = ("x_zero_point", "w_zero_point", "y_zero_point")
    biases: tuple[str, ...] = ("none", "int32", "float32")
    types: tuple[str, ...] = ("int8", "uint8")
    per_channel: bool = True
    residual: bool = False
    per_channel_mode: Mode | None = None  # for a system that computes differently with a weight scale per channel


PRESETS: dict[str, Preset] = {
    "ort": Preset(Mode(), "ONNX Runtime QLinearConv on the CPU", biases=("none", "int32")),
    "onnx-ref": Preset(
        Mode(multiplier="fp64", zero_point_add="before_round"),
        "the ReferenceEvaluator of the onnx package",
        biases=("none", "int32"),
    ),
    "torch-fbgemm": Preset(
        Mode(bias_scaling="reciprocal_fma"),
        "PyTorch quantized conv, engine fbgemm",
        biases=("none", "float32"),
        per_channel_mode=Mode(),
    ),
    "torch-qnnpack": Preset(
        Mode(bias_scaling="int32_reciprocal", multiplier="fp32_reciprocal"),
        "PyTorch quantized conv, engine qnnpack",
        biases=("none", "float32"),
    ),
    "torch-onednn": Preset(
        Mode(
            order="multiply_reciprocal",
            bias_scaling="real",
            zero_point_add="before_round",
            scales="twice_inverted",
            residual_add="fma",
        ),
        "PyTorch quantized conv, engines onednn and x86, up to AVX-VNNI",
        zero_points=("x_zero_point", "y_zero_point"),
        biases=("none", "float32"),
        residual=True,
    ),
    "torch-cudnn": Preset(
        Mode(bias_scaling="reciprocal", multiplier="fp64_rounded"),
        "PyTorch quantized conv on CUDA, through cuDNN",
        zero_points=(),
        biases=("none", "float32"),
        types=("int8",),
        per_channel=False,
    ),
    "migraphx": Preset(
        Mode(order="multiply_divide", bias_scaling="real", correction="fp32"), "MIGraphX, quantized convolution"
    ),
    "rocmlir": Preset(
        Mode(order="multiply_reciprocal", bias_scaling="real", correction="fp32"), "rocMLIR, from MIGraphX's dialect"
    ),
    "ck": Preset(
        Mode(rounding="rtz"),
        "Composable Kernel, example 40",
        zero_points=(),
        biases=("none", "int32"),
        types=("int8",),
    ),
    "et-vulkan": Preset(
        Mode(order="multiply_reciprocal", bias_scaling="real", fma="on"),
        "ExecuTorch Vulkan, the tiled conv; its shader leaves ties open, here they go to even",
        zero_points=("x_zero_point", "y_zero_point"),
        biases=("none", "float32"),
        types=("int8",),
    ),
}


def preset(name: str) -> Preset:
    if name == "decomposed":
        raise ValueError(
            "mode 'decomposed' dequantizes both operands and convolves in fp32, whose sums depend on their order: no "
            "integer kernel can honour it; it is a mode of quantize and dequantize only"
        )
    check_choice("mode", name, tuple(PRESETS))
    return PRESETS[name]
