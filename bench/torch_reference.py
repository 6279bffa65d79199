"""A second oracle: the output of a layer in plain PyTorch, on any device.

It is written from the contract and imports nothing of qconv.ops or qconv.arithmetic: an error there would have to be
repeated here to stay unnoticed. It knows the default mode only, without activation and residual.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from qconv import Conv2d, Quantization

TYPES = {"int8": torch.int8, "uint8": torch.uint8}


def output(problem: Conv2d, x: Tensor, w: Tensor, parameters: dict[str, Any]) -> Tensor:
    """Return y as the kernel must write it: NHWK from x as NHWC and w as KRSC."""
    q = problem.quantization
    covered = Quantization(
        *(q.x_type, q.w_type, q.out_type, q.per_channel, q.x_zero_point, q.w_zero_point, q.y_zero_point, q.bias)
    )
    if q != covered or q.out_type not in TYPES or q.bias == "float32" or problem.layout != "nhwc":
        raise ValueError(f"{problem}: this reference knows int8 and uint8 outputs in the default mode, NHWC")
    sums = accumulate(problem, x, w, parameters)
    if (bias := parameters.get("bias")) is not None:
        sums = sums + torch.as_tensor(bias, dtype=torch.int64, device=x.device)
    if int(sums.abs().max()) >= 2**31:
        raise ValueError(f"{problem}: a sum passes the int32 range")
    x_scale, w_scale, y_scale = (
        torch.as_tensor(parameters[name], dtype=torch.float32) for name in ("x_scale", "w_scale", "y_scale")
    )
    multiplier = (x_scale * w_scale / y_scale).to(x.device)
    # int64 to fp32 rounds to nearest, ties to even, as int32 does; torch.round rounds ties to even.
    rounded = torch.round(sums.to(torch.float32) * multiplier)
    limits = torch.iinfo(TYPES[q.out_type])
    # In float64, so that the sum with the zero point is exact before the clamp.
    shifted = rounded.to(torch.float64) + float(parameters.get("y_zero_point", 0))
    return shifted.clamp(limits.min, limits.max).to(TYPES[q.out_type])


def accumulate(problem: Conv2d, x: Tensor, w: Tensor, parameters: dict[str, Any]) -> Tensor:
    """Return the sums as int64. In float64 they are exact in any order, because they are integers far below 2**53. They
    are one matrix product of unfolded windows, because a library's float64 convolution may use a transform that rounds.
    """
    groups, inner = problem.groups, problem.reduction
    real_x = x.to(torch.float64).permute(0, 3, 1, 2) - float(parameters.get("x_zero_point", 0))
    zero = torch.as_tensor(parameters.get("w_zero_point", 0), dtype=torch.float64, device=w.device)
    real_w = w.to(torch.float64).permute(0, 3, 1, 2) - zero.reshape(-1, 1, 1, 1)
    matrix = real_w.reshape(groups, problem.k_group, inner)
    top, left, bottom, right = problem.pad
    images = []
    for image in real_x.split(1):  # one at a time: the windows of a batch may not fit in memory
        # After the subtraction, so that padding is a real zero.
        padded = torch.nn.functional.pad(image, (left, right, top, bottom))
        windows = torch.nn.functional.unfold(
            padded, (problem.r, problem.s), dilation=problem.dilation, stride=problem.stride
        )
        sums = matrix @ windows.reshape(groups, inner, -1)
        images.append(sums.reshape(problem.k, problem.oh, problem.ow).permute(1, 2, 0))
    return torch.stack(images).to(torch.int64)
