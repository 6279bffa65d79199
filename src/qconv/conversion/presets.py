"""Systems by name: the conversions of each, their types and their flags."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from qconv.dtypes import FLOAT8, INTEGERS

Values = tuple[str, ...]


@dataclass(frozen=True)
class System:
    """A system: for each op that it has, the values of its flags, the default first."""

    says: str
    ops: dict[str, dict[str, Values]]
    x_types: Values = ("float32",)  # the real types
    q_types: Values = ("int8", "uint8")
    # The system divides float16 and bfloat16 in their own type.
    own_precision: bool = False
    eps: float | None = None


_Ops = dict[str, dict[str, Values]]
_RECIPROCAL: dict[str, Values] = {"quotient": ("reciprocal",)}
_ONNX: _Ops = {
    "quantize": {},
    "dequantize": {},
    "requantize": {"order": ("multiply_divide",)},
    "choose": {"rule": ("onnx",), "out_type": ("uint8",)},
    "dynamic": {"rule": ("onnx",), "out_type": ("uint8",)},
}
# Measured on torch 2.13 (x86, AVX2, every engine): x * (1 / scale) + zero_point, then rounded. The compiler fused the
# product and the sum per tensor, but not per channel.
_FUSED: dict[str, Values] = {**_RECIPROCAL, "zero_point_add": ("before_round",), "fma": ("on", "off")}
_TORCH_CPU: _Ops = {
    "quantize": _FUSED,
    "dequantize": {},
    "choose": {"rule": ("fbgemm",)},
    "dynamic": {"rule": ("fbgemm",), **_FUSED},
}
# torchao divides the largest magnitude of a 16-bit array in 16 bits, for which there is no flag.
_AMAX: dict[str, Values] = {"x_type": ("float32",), "rule": ("amax",), "mapping": ("symmetric",)}
_SYMMETRIES = ("asymmetric", "symmetric", "symmetric_no_clip")

SYSTEMS: dict[str, System] = {
    "ort": System("ONNX Runtime on the CPU", _ONNX, ("float32", "float16"), (*INTEGERS, *FLOAT8)),
    "onnx-ref": System(
        "the ReferenceEvaluator of the onnx package",
        _ONNX,
        ("float32", "float16", "bfloat16"),
        (*INTEGERS, *FLOAT8),
        own_precision=True,
        eps=1 / 255,
    ),
    "torch-fbgemm": System("torch.quantize_per_tensor on the CPU", _TORCH_CPU),
    "torch-qnnpack": System("torch.quantize_per_tensor on the CPU, engine qnnpack", _TORCH_CPU),
    "torch-onednn": System("torch.quantize_per_tensor on the CPU, engines onednn and x86", _TORCH_CPU),
    "torch-cudnn": System(
        "torch.quantize_per_tensor on CUDA: the scale is a double",
        {
            "quantize": {"scale_type": ("float64",), "precision": ("float64",)},
            "dequantize": {"scale_type": ("float64",), "precision": ("float64",)},
        },
    ),
    "decomposed": System(
        "torch.ops.quantized_decomposed, per tensor and per channel",
        {
            "quantize": {
                **_RECIPROCAL,
                "scale_type": ("float64", "float32"),
                "precision": ("float32", "float64"),
            },
            # The system subtracts and multiplies 16-bit outputs in 16 bits, for which there is no flag.
            "dequantize": {
                "out_type": ("float32", "float64"),
                "subtraction": ("real", "integer"),
                "scale_type": ("float64", "float32"),
            },
            "requantize": {"order": ("multiply_reciprocal",), "scale_type": ("float64", "float32")},
            "choose": {"rule": ("torch",), "mapping": _SYMMETRIES, "scale_type": ("float64", "float32")},
            "dynamic": {
                **_RECIPROCAL,
                "rule": ("torch",),
                "mapping": _SYMMETRIES,
                "scale_type": ("float64", "float32"),
                "precision": ("float32", "float64"),
            },
        },
        ("float32", "float16", "bfloat16", "float64"),
        INTEGERS,
    ),
    "decomposed-token": System(
        "torch.ops.quantized_decomposed, per token: the zero point is added before the rounding",
        {
            "quantize": {
                **_RECIPROCAL,
                "zero_point_add": ("before_round",),
                "scale_type": ("float32", "float64"),
                "precision": ("float32", "float64"),
            },
            "dequantize": {"scale_type": ("float32", "float64"), "precision": ("float32", "float64")},
            "choose": {"rule": ("xnnpack",), "out_type": ("int8",)},
            "dynamic": {
                **_RECIPROCAL,
                "rule": ("xnnpack",),
                "out_type": ("int8",),
                "zero_point_add": ("before_round",),
            },
        },
        ("float32", "float16", "bfloat16", "float64"),
        INTEGERS,
    ),
    "migraphx": System(
        "MIGraphX quantizelinear and dequantizelinear",
        {"quantize": {}, "dequantize": {"subtraction": ("real",)}, "requantize": {"order": ("multiply_divide",)}},
        ("float32", "float16", "float64"),
        own_precision=True,
    ),
    "rocmlir": System(
        "rocMLIR, from MIGraphX's dialect",
        {
            "quantize": _RECIPROCAL,
            "dequantize": {"subtraction": ("real",)},
            "requantize": {"order": ("multiply_reciprocal",)},
        },
        ("float32", "float16"),
        own_precision=True,
    ),
    "et-vulkan": System(
        "ExecuTorch Vulkan; its shader leaves ties open, here they go to even",
        {
            "quantize": _RECIPROCAL,
            "dequantize": {},
            "requantize": {"order": ("multiply_reciprocal",)},
            # choose_qparams_affine. The older per-tensor and per-token shaders use fbgemm's rule in fp32, which has no
            # flag.
            "choose": {"rule": ("torch",), "mapping": _SYMMETRIES},
            "dynamic": {**_RECIPROCAL, "rule": ("torch",), "mapping": _SYMMETRIES},
        },
        ("float32", "float16", "float64"),
        ("int8", "uint8", "int32"),
    ),
    "torchao": System(
        "torchao's quantize_affine_float8 and its kin",
        {
            "quantize": {},
            "dequantize": {},
            "choose": _AMAX,
            "dynamic": _AMAX,
        },
        ("float32", "float16", "bfloat16"),
        FLOAT8,
    ),
    "ck": System("Composable Kernel, which has kernels of the convolution only", {}),
}


# The values of flags that a system does not set, with the ops that have the flag.
_PLAIN: dict[str, tuple[Values, Values]] = {
    "rounding": (("quantize", "requantize", "dynamic"), ("rne",)),
    "scale_type": (("quantize", "dequantize", "requantize", "choose", "dynamic"), ("float32",)),
    "zero_point_add": (("quantize", "requantize", "dynamic"), ("after_round",)),
    "quotient": (("quantize", "dynamic"), ("divide",)),
    "fma": (("quantize", "dynamic"), ("off",)),
    "subtraction": (("dequantize",), ("integer",)),
    "mapping": (("choose", "dynamic"), ("asymmetric",)),
}
# Flags that require a zero point.
_OF_ZERO = {
    "zero_point_add": {"quantize": "zero_point", "requantize": "y_zero_point"},
    "subtraction": {"dequantize": "zero_point"},
    "fma": {"quantize": "zero_point"},
}


def system_flags(op: str, mode: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return `spec` with the flags of the system `mode`. Raise ValueError where they conflict."""
    if mode not in SYSTEMS:
        near = difflib.get_close_matches(str(mode), SYSTEMS, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"mode={mode!r} is not one of {', '.join(SYSTEMS)}{hint}")
    system = SYSTEMS[mode]
    if op not in system.ops:
        has = ", ".join(name for name, other in SYSTEMS.items() if op in other.ops)
        raise ValueError(f"{op} in mode {mode!r} ({system.says}): that system has none; use {has}")
    known = _types(op, system)
    known |= {name: values for name, (ops, values) in _PLAIN.items() if op in ops}
    known |= system.ops[op]
    if op != "choose":
        known["precision"] = _precisions(op, system, spec)
    chosen = dict(spec)
    for name, values in known.items():
        asks = _OF_ZERO.get(name, {}).get(op)
        if asks is not None and name not in spec and not spec.get(asks, False):
            continue
        per_tensor = spec.get("channels", 1) == 1
        value = chosen.setdefault(name, values[0] if per_tensor or name != "fma" else values[-1])
        if value not in values:
            raise ValueError(
                f"{name}={value!r} in mode {mode!r} ({system.says}): it has {', '.join(values)}; leave {name} out"
            )
    if system.eps is not None and op in ("choose", "dynamic"):
        chosen.setdefault("eps", system.eps)
    return chosen


def _types(op: str, system: System) -> dict[str, Values]:
    if op == "requantize":
        return {"x_type": system.q_types, "out_type": system.q_types}
    if op == "dequantize":
        return {"x_type": system.q_types, "out_type": system.x_types}
    return {"x_type": system.x_types, "out_type": system.q_types}


def _precisions(op: str, system: System, spec: dict[str, Any]) -> Values:
    """Return the precisions of an op: fp64 for fp64 arrays, 16 bits for systems that compute in a 16-bit type."""
    named = system.ops[op].get("precision", ("float32",))
    real = spec.get("out_type" if op == "dequantize" else "x_type")
    if op == "requantize" or real is None:
        return named
    if real == "float64":
        return ("float64",)
    in_16_bits = system.own_precision and real in ("float16", "bfloat16") and op != "dequantize"
    return (str(real),) if in_16_bits else named
