"""Tuned, bit-exact quantized convolutions: `lookup` a kernel for a problem, or call `conv2d`, `quantize`, ...

Nothing heavy is imported until it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qconv.errors import (
        CacheError,
        CompileError,
        CompileTimeout,
        DatabaseError,
        DeviceError,
        Infeasible,
        KernelMissing,
        LaunchError,
    )
    from qconv.fused import FusedBlock, FusedConv2d
    from qconv.instances.api import conv1d, conv2d, conv3d, conv_transpose2d
    from qconv.instances.conversion_api import choose_qparams, dequantize, quantize, quantize_dynamic, requantize
    from qconv.instances.executable import Bound, Packed
    from qconv.instances.fused_api import conv2d_conv2d
    from qconv.instances.instance import Instance
    from qconv.instances.serving import forget, lookup
    from qconv.instances.tensor_ops_api import (
        add,
        apply_table,
        average_pool,
        concat,
        global_average_pool,
        max_pool,
        mul,
        unary,
    )
    from qconv.keys import parse
    from qconv.mode import Mode
    from qconv.problem import Conv2d
    from qconv.quantization import Parameters, Quantization
    from qconv.tuner.allocation import Budget
    from qconv.tuning import tune

__version__ = "0.1.0"

_HOMES = {
    "qconv.errors": (
        *("CacheError", "CompileError", "CompileTimeout", "DatabaseError", "DeviceError"),
        *("Infeasible", "KernelMissing", "LaunchError"),
    ),
    "qconv.fused": ("FusedBlock", "FusedConv2d"),
    "qconv.instances.api": ("conv1d", "conv2d", "conv3d", "conv_transpose2d"),
    "qconv.instances.conversion_api": (
        *("choose_qparams", "dequantize", "quantize", "quantize_dynamic", "requantize"),
    ),
    "qconv.instances.executable": ("Bound", "Packed"),
    "qconv.instances.fused_api": ("conv2d_conv2d",),
    "qconv.instances.instance": ("Instance",),
    "qconv.instances.serving": ("forget", "lookup"),
    "qconv.instances.tensor_ops_api": (
        *("add", "apply_table", "average_pool", "concat", "global_average_pool", "max_pool", "mul", "unary"),
    ),
    "qconv.keys": ("parse",),
    "qconv.mode": ("Mode",),
    "qconv.problem": ("Conv2d",),
    "qconv.quantization": ("Parameters", "Quantization"),
    "qconv.tuner.allocation": ("Budget",),
    "qconv.tuning": ("tune",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Bound",
    "Budget",
    "CacheError",
    "CompileError",
    "CompileTimeout",
    "Conv2d",
    "DatabaseError",
    "DeviceError",
    "FusedBlock",
    "FusedConv2d",
    "Infeasible",
    "Instance",
    "KernelMissing",
    "LaunchError",
    "Mode",
    "Packed",
    "Parameters",
    "Quantization",
    "__version__",
    "add",
    "apply_table",
    "average_pool",
    "choose_qparams",
    "concat",
    "conv1d",
    "conv2d",
    "conv2d_conv2d",
    "conv3d",
    "conv_transpose2d",
    "dequantize",
    "forget",
    "global_average_pool",
    "lookup",
    "max_pool",
    "mul",
    "parse",
    "quantize",
    "quantize_dynamic",
    "requantize",
    "tune",
    "unary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'qconv' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
