"""Tuned, bit-exact quantized convolutions: `lookup` a kernel for a problem, or call `conv2d`, `quantize`, ...

Submodules are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qconv.version import __version__

if TYPE_CHECKING:
    from qconv.arithmetic.mode import Mode
    from qconv.arithmetic.quantization import Parameters, Quantization
    from qconv.benchmark import Benchmark, bench
    from qconv.errors import (
        CacheError,
        CompileError,
        CompilerKilled,
        CompileTimeout,
        DatabaseCut,
        DatabaseError,
        DeviceError,
        Infeasible,
        KernelMissing,
        LaunchError,
        WrongOutput,
    )
    from qconv.instances.api.chain import conv2d_conv2d, conv2d_pool
    from qconv.instances.api.checked_conversion import dequantize, quantize, requantize
    from qconv.instances.api.conversion import choose_qparams, quantize_dynamic
    from qconv.instances.api.convolution import conv1d, conv2d, conv_transpose2d
    from qconv.instances.api.tensor_ops import (
        add,
        apply_table,
        argmax,
        average_pool,
        channel_shuffle,
        concat,
        global_average_pool,
        max_pool,
        mul,
        unary,
    )
    from qconv.instances.load.executable import Bound, Packed
    from qconv.instances.load.instance import Instance
    from qconv.instances.load.serving import forget, lookup
    from qconv.ops.registry import parse
    from qconv.problem.chain import FusedBlock, FusedConv2d
    from qconv.problem.convolution import Conv2d
    from qconv.problem.pooled import PooledConv2d
    from qconv.problem.transposed import ConvTranspose2d
    from qconv.shipping import Export, export
    from qconv.tuner.workloads.allocation import Budget
    from qconv.tuner.workloads.result import Result
    from qconv.tuning import tune

_HOMES = {
    "qconv.benchmark": ("Benchmark", "bench"),
    "qconv.errors": (
        *("CacheError", "CompileError", "CompileTimeout", "CompilerKilled", "DatabaseCut", "DatabaseError"),
        *("DeviceError", "Infeasible", "KernelMissing", "LaunchError", "WrongOutput"),
    ),
    "qconv.problem.chain": ("FusedBlock", "FusedConv2d"),
    "qconv.instances.api.convolution": ("conv1d", "conv2d", "conv_transpose2d"),
    "qconv.instances.api.checked_conversion": ("dequantize", "quantize", "requantize"),
    "qconv.instances.api.conversion": ("choose_qparams", "quantize_dynamic"),
    "qconv.instances.load.executable": ("Bound", "Packed"),
    "qconv.instances.api.chain": ("conv2d_conv2d", "conv2d_pool"),
    "qconv.instances.load.instance": ("Instance",),
    "qconv.instances.load.serving": ("forget", "lookup"),
    "qconv.instances.api.tensor_ops": (
        *("add", "apply_table", "argmax", "average_pool", "channel_shuffle", "concat", "global_average_pool"),
        *("max_pool", "mul", "unary"),
    ),
    "qconv.ops.registry": ("parse",),
    "qconv.arithmetic.mode": ("Mode",),
    "qconv.problem.pooled": ("PooledConv2d",),
    "qconv.problem.convolution": ("Conv2d",),
    "qconv.problem.transposed": ("ConvTranspose2d",),
    "qconv.arithmetic.quantization": ("Parameters", "Quantization"),
    "qconv.shipping": ("Export", "export"),
    "qconv.tuner.workloads.allocation": ("Budget",),
    "qconv.tuner.workloads.result": ("Result",),
    "qconv.tuning": ("tune",),
}
# Functions of other libraries that this one lacks, with a workaround for each.
_ABSENT = {
    "conv3d": (
        "the kernels index two filter axes. A filter of depth 1 is conv2d with the frames in the batch; a deeper one "
        "is the sum, over its depth, of conv2d(..., out_type='int32') of the shifted frames"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Benchmark",
    "Bound",
    "Budget",
    "CacheError",
    "CompileError",
    "CompileTimeout",
    "CompilerKilled",
    "Conv2d",
    "ConvTranspose2d",
    "DatabaseCut",
    "DatabaseError",
    "DeviceError",
    "Export",
    "FusedBlock",
    "FusedConv2d",
    "Infeasible",
    "Instance",
    "KernelMissing",
    "LaunchError",
    "Mode",
    "Packed",
    "Parameters",
    "PooledConv2d",
    "Quantization",
    "Result",
    "WrongOutput",
    "__version__",
    "add",
    "apply_table",
    "argmax",
    "average_pool",
    "bench",
    "channel_shuffle",
    "choose_qparams",
    "concat",
    "conv1d",
    "conv2d",
    "conv2d_conv2d",
    "conv2d_pool",
    "conv_transpose2d",
    "dequantize",
    "export",
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


# Hidden from type checkers, which would otherwise accept any attribute of the package.
if not TYPE_CHECKING:

    def __dir__() -> list[str]:
        return sorted(__all__)

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            why = f": {_ABSENT[name]}" if name in _ABSENT else ""
            raise AttributeError(f"module 'qconv' has no attribute {name!r}{why}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value
