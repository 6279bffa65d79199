"""Problems and their random data as calls of `torch.ops.qconv`: NCHW tensors in, NHWC arrays out."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qconv.op import Problem
from qconv.ops.registry import Sample
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d

# Axes of NHWC in the order of NCHW.
NCHW = (0, 3, 1, 2)


def images(array: Any) -> Any:
    """Return NHWC or KRSC data as a channels_last tensor of the same memory."""
    return torch.from_numpy(np.ascontiguousarray(array)).permute(NCHW)


def nhwc(y: Any) -> Any:
    """Return the output as an array. It must be channels_last."""
    assert y.is_contiguous(memory_format=torch.channels_last)
    y = y.permute(0, 2, 3, 1)
    return y.view(torch.int16).numpy() if y.dtype == torch.bfloat16 else y.numpy()


def bits(array: Any) -> Any:
    return array.view(np.int16) if array.dtype.name == "bfloat16" else array


def arguments(problem: Problem, drawn: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a chain's `default` overload; for a single convolution, all named ones."""
    convolutions: dict[str, Any] = problem.layers if isinstance(problem, Chain) else {"": problem}
    named: dict[str, Any] = {}
    parameters = {**drawn.parameters}
    for layer, one in convolutions.items():
        before = f"{layer}_" if layer else ""
        named |= {f"{before}{name}": getattr(one, name) for name in ("stride", "dilation", "groups")}
        named |= {f"{before}padding": one.pad, f"{before}activation": one.quantization.activation}
        for name in ("w_scale", "bias", "w_zero_point"):
            if (value := parameters.pop(f"{before}{name}", None)) is not None:
                named[f"{before}{name}"] = torch.from_numpy(np.array(value))
        named.setdefault(f"{before}w_scale", torch.tensor(1.0, dtype=torch.float64))
    named |= {name: np.asarray(value).item() for name, value in parameters.items() if value is not None}
    for name, one in zip(("mid_dtype", "mid2_dtype"), list(convolutions.values())[:-1], strict=False):
        named[name] = getattr(torch, one.quantization.out_type)
    (y,) = problem.outputs
    named["out_dtype"] = getattr(torch, y.dtype)
    return tuple(images(array) for array in drawn.arrays), named


def pooled_call(problem: PooledConv2d, drawn: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a pooled call; a window stride equal to the window is omitted."""
    args, every = conv2d_call(problem, drawn)
    named = {name: value for name, value in every.items() if not name.startswith("residual_")}
    named |= {"window": problem.window, "window_padding": problem.window_pad, "ceil_mode": problem.ceil_mode}
    return args, named | ({} if problem.window_stride == problem.window else {"window_stride": problem.window_stride})


def conv2d_call(problem: Conv2d, drawn: Sample) -> tuple[tuple[Any, ...], dict[str, Any]]:
    (x, w, *residual), named = arguments(problem, drawn)
    taken = (named.pop("w_scale"), named.pop("bias", None))
    return (x, w, *taken, *residual), named
