"""The op conv_transpose2d: a transposed convolution of images, as the convolution of all its phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qconv.problem.transposed import PER_OUTPUT, Axis, ConvTranspose2d, size_with_outputs
from qconv.torch import convolution
from qconv.torch.arrays import empty, on_host
from qconv.torch.convolution import pads, pair
from qconv.torch.schema import Given


def fake_images(given: Given) -> Any:
    x, w = given["x"], given["w"]
    convolution.check_operand("x", x, 4)
    convolution.check_operand("w", w, 4)
    if w.shape[0] != x.shape[1]:
        raise ValueError(
            f"w has shape {tuple(w.shape)}, but x has {x.shape[1]} channels: CKRS weights have as many in front"
        )
    top, left, bottom, right = pads(given["padding"])
    windows = (pair(name, given[name]) for name in ("stride", "dilation"))
    extra = pair("output_padding", given["output_padding"], 0)
    along = zip(x.shape[2:], w.shape[2:], *windows, (top, left), (bottom, right), extra, strict=True)
    sizes = [Axis(*numbers).made for numbers in along]
    dtype = x.dtype if given["out_dtype"] is None else given["out_dtype"]
    return empty((x.shape[0], w.shape[1] * given["groups"], *sizes), dtype, x)


def convolve(given: Given) -> Any:
    return convolution.convolve_into(fake_images(given), given, as_convolution)


def as_convolution(given: Given) -> Given:
    """Return the arguments of conv2d for all phases. The filters are made on the host, once for a set of weights."""
    w, made = given["w"], _layer(given)
    numbers = {name: np.asarray(on_host(given[name])) for name in PER_OUTPUT if given.get(name) is not None}
    filters = made.filters(np.asarray(on_host(w)), numbers.get("w_zero_point", 0))
    by_phase = {name: torch.as_tensor(value) for name, value in made.by_phase(numbers).items()}
    kcrs, window = torch.as_tensor(filters.transpose(0, 3, 1, 2)), dict(made.window)
    own = {"w": kcrs, "stride": (1,), "dilation": (1,), "padding": window.pop("pad")}
    return {**given, **by_phase, **own, **window}


def _layer(given: Given) -> ConvTranspose2d:
    """Return the layer, for the smallest image of which outputs remain if `x` has no shape yet."""
    x, w, padding = given["x"], given["w"], pads(given["padding"])
    smallest = (1, w.shape[0], *(size_with_outputs(padding[at], padding[at + 2]) for at in (0, 1)))
    n, c, *sizes = x.shape if x.dim() == 4 else smallest
    (height, width), (r, s) = sizes, w.shape[2:]
    return ConvTranspose2d(
        *(n, height, width, c, w.shape[1] * given["groups"], r, s),
        stride=pair("stride", given["stride"]),
        dilation=pair("dilation", given["dilation"]),
        pad=padding,
        output_padding=pair("output_padding", given["output_padding"], 0),
        groups=given["groups"],
    )
