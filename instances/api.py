"""The one-liner: shapes and types are read off the arrays, the kernel is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qconv.instances.lookup import lookup
from qconv.problem import Conv2d
from qconv.quantization import Quantization


def conv2d(
    x: Any,
    w: Any,
    *,
    stride: int | Sequence[int] = 1,
    dilation: int | Sequence[int] = 1,
    pad: int | Sequence[int] = 0,
    groups: int = 1,
    x_scale: Any = 1.0,
    w_scale: Any = 1.0,
    y_scale: Any = 1.0,
    x_zero_point: Any = 0,
    w_zero_point: Any = 0,
    y_zero_point: Any = 0,
    bias: Any = None,
    activation: str = "none",
    slope: Any = None,
    low: Any = None,
    high: Any = None,
    residual: Any = None,
    residual_scale: Any = None,
    residual_zero_point: Any = 0,
    out_type: str = "int8",
    mode: str | None = None,
    out: Any = None,
    stream: Any = None,
    device: str | None = None,
) -> Any:
    """Quantized convolution of NHWC `x` with KRSC `w`; the result is NHWK.

    The arrays are NumPy or CuPy arrays, or anything with `__dlpack__` or `__cuda_array_interface__`; the kernel runs
    where they are. Scales given per output channel, and zero points other than 0, choose the kernel. leaky_relu needs
    `slope`, clamp `low` and `high`, in real units. A `residual` of the output's shape is added before the activation.
    `mode` names the system whose arithmetic it shall have; by default ONNX Runtime's.
    """
    n, h, width, c = _shape("x", x, "NHWC")
    k, r, s, c_group = _shape("w", w, "KRSC")
    if isinstance(groups, int) and groups > 0 and c_group * groups != c:
        raise ValueError(
            f"w has {c_group} channels a group, but x has {c} channels in groups={groups}: c/groups={c / groups:g}"
        )
    spec: dict[str, Any] = {
        "x_type": _type(x),
        "w_type": _type(w),
        "out_type": out_type,
        "per_channel": _is_array(w_scale) or _is_array(w_zero_point),
        "x_zero_point": _is_nonzero(x_zero_point),
        "w_zero_point": _is_nonzero(w_zero_point),
        "y_zero_point": _is_nonzero(y_zero_point),
        "bias": _bias(bias),
        "activation": activation,
        "residual": "none" if residual is None else _type(residual),
        "residual_zero_point": _is_nonzero(residual_zero_point),
    }
    quantization = Quantization(**spec) if mode is None else Quantization.of(mode, **spec)
    geometry: dict[str, Any] = {"stride": stride, "dilation": dilation, "pad": pad, "groups": groups}
    problem = Conv2d(n, h, width, c, k, r, s, quantization=quantization, **geometry)
    instance = lookup(problem, device or _device_of(x))
    arrays = (x, w) if residual is None else (x, w, residual)
    return instance(
        *arrays, out=out, stream=stream, x_scale=x_scale, w_scale=w_scale, y_scale=y_scale,
        x_zero_point=x_zero_point, w_zero_point=w_zero_point, y_zero_point=y_zero_point, bias=bias,
        slope=slope, low=low, high=high, residual_scale=residual_scale, residual_zero_point=residual_zero_point,
    )  # fmt: skip


def _shape(name: str, array: Any, layout: str) -> tuple[int, int, int, int]:
    shape = getattr(array, "shape", None)
    if shape is None or len(shape) != 4:
        raise ValueError(
            f"{name} must be an array of four dimensions, {layout}; it is {type(array).__name__} {shape or ''}"
        )
    a, b, c, d = (int(extent) for extent in shape)
    return a, b, c, d


def _type(array: Any) -> str:
    return str(getattr(array, "dtype", type(array).__name__)).removeprefix("torch.")


def _bias(bias: Any) -> str:
    if bias is None:
        return "none"
    dtype = _type(bias) if hasattr(bias, "dtype") else str(np.asarray(bias).dtype)
    return "int32" if "int" in dtype else "float32"


def _is_array(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return isinstance(value, (list, tuple)) or (shape is not None and len(shape) > 0)


def _is_nonzero(value: Any) -> bool:
    return _is_array(value) or bool(value != 0)


def _device_of(array: Any) -> str:
    """Where the array lies: the kernel runs there."""
    if hasattr(array, "__cuda_array_interface__"):
        from qconv.device import gpu

        device = getattr(array, "device", None)
        index = getattr(device, "id", getattr(device, "index", 0))
        return f"{gpu.KIND}:{index or 0}"
    if hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        if int(kind) in (2, 10):  # kDLCUDA, kDLROCM
            return f"{'cuda' if int(kind) == 2 else 'hip'}:{index}"
    return "cpu"
