"""PyTorch's quantized convolutions on the CPU: the engine, its result, and where it is an exact oracle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qconv import Conv2d, Quantization
from qconv.ops import registry


@contextmanager
def chosen(engine: str) -> Iterator[str]:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")
    if engine not in torch.backends.quantized.supported_engines:
        pytest.skip(f"this build of PyTorch has no engine {engine}")
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = engine
    yield engine
    torch.backends.quantized.engine = before


def infer(problem: Conv2d, drawn: registry.Sample) -> NDArray[Any]:
    """Return the chosen engine's output. PyTorch uses NCHW and KCRS; one row runs through its conv1d."""
    import torch

    q, values = problem.quantization, problem.checked(drawn.parameters)
    x, w, *residual = (torch.from_numpy(np.ascontiguousarray(a.transpose(0, 3, 1, 2))) for a in drawn.arrays)
    one_row = problem.h == problem.r == 1 and not residual
    if one_row:
        x, w = x.squeeze(2), w.squeeze(2)
    qx = torch._make_per_tensor_quantized_tensor(x, float(values.x_scale), int(values.x_zero_point))
    if q.per_channel:
        scales = torch.from_numpy(np.asarray(values.w_scale, np.float64))
        zeros = torch.from_numpy(np.broadcast_to(np.asarray(values.w_zero_point, np.int64), (problem.k,)).copy())
        qw = torch._make_per_channel_quantized_tensor(w, scales, zeros, 0)
    else:
        qw = torch._make_per_tensor_quantized_tensor(w, float(values.w_scale), int(values.w_zero_point))
    bias = None if values.bias is None else torch.from_numpy(values.bias)
    geometry = (problem.stride, problem.pad[:2], problem.dilation)
    name = "conv1d" if one_row else "conv2d"
    packed = getattr(torch.ops.quantized, f"{name}_prepack")(
        qw, bias, *(list(pair[1:] if one_row else pair) for pair in geometry), problem.groups
    )
    added = [
        torch._make_per_tensor_quantized_tensor(r, float(values.residual_scale), int(values.residual_zero_point))
        for r in residual
    ]
    name += ("_add" if added else "") + ("_relu" if q.activation == "relu" else "")
    operator = getattr(torch.ops.quantized, name)
    y = operator(qx, *added, packed, float(values.y_scale), int(values.y_zero_point)).int_repr().numpy()
    return np.ascontiguousarray(np.moveaxis(y, 1, -1)).reshape(problem.y_shape)


def saturates() -> bool:
    """Return true if the chosen engine adds pairs of products in int16 on this host: 16 products of 255 * 127 are
    518160, or 262136 if every pair saturates at 32767."""
    problem = Conv2d(1, 1, 1, 16, 8, 1, 1, quantization=Quantization(x_type="uint8", out_type="uint8"))
    x, w = np.full(problem.x_shape, 255, "uint8"), np.full(problem.w_shape, 127, "int8")
    y = infer(problem, registry.Sample((x, w), {"y_scale": 4096.0}))
    assert y.max() == y.min()
    assert y.max() in (64, 127)
    return bool(y.max() == 64)


def narrowed(drawn: registry.Sample) -> registry.Sample:
    """Return weights with which nothing saturates."""
    x, w, *residual = drawn.arrays
    return replace(drawn, arrays=(x, np.maximum(w >> 1, np.int8(-63)), *residual))


def is_compiled(problem: Conv2d) -> bool:
    """Return true if oneDNN has AVX2 kernels for these groups. Others run its reference, which multiplies by the scales
    one after the other and divides, an order that no flag describes."""
    widths = (problem.c_group, problem.k_group)
    return problem.groups == 1 or widths == (1, 1) or all(width % 4 == 0 for width in widths)
