"""The PyTorch front end: importing it defines `torch.ops.qconv`. Only this package imports torch.

Images are PyTorch's NCHW tensors, ideally channels_last in memory, which is the kernels' NHWC; contiguous ones are
copied. Outputs are channels_last. CPU tensors run on the CPU device, CUDA tensors on their GPU, on PyTorch's current
stream. Weights are packed once: `packing` describes when they are packed again.
"""

from __future__ import annotations

from qconv.torch.chains import alternatives, fuse
from qconv.torch.integer_inputs import with_integer_inputs
from qconv.torch.library import define
from qconv.torch.lowering import explain, lower
from qconv.torch.packing import forget
from qconv.torch.ship import export
from qconv.torch.tuning import problems, tune

define()

__all__ = ["alternatives", "explain", "export", "forget", "fuse", "lower", "problems", "tune", "with_integer_inputs"]
