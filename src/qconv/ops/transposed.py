"""The op `conv_transpose2d`: a transposed convolution, as users have it. Its problem is the convolution of all phases,
which has its own key; so nothing here is measured, drawn or computed anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qconv.op import Option, read_integer, read_key
from qconv.ops import convolution
from qconv.problem.convolution import (
    FLAGS,
    QUANTIZED,
    Conv2d,
    check_nothing_left,
    read_quantization,
    read_several,
)
from qconv.problem.transposed import PLURAL, SIZES, ConvTranspose2d

# Options of a convolution that this op lacks: its channels are last, and the shuffle and the crop follow.
_WITHOUT = ("layout", "pixel_shuffle", "crop", "frames")
OUTPUT_PADDING = Option("output_padding", "More outputs at the end: one, or down,right. Default 0.", "extents")
OPTIONS = (*(option for option in convolution.OPTIONS if option.name not in _WITHOUT), OUTPUT_PADDING)
_GEOMETRY = tuple(name for name, _, _ in PLURAL)


def read(key: str) -> Conv2d:
    _, given = read_key(key, FLAGS)
    missing = [name for name in SIZES if name not in given and name != "groups"]
    if missing:
        raise ValueError(f"the key {key!r} has no {', '.join(missing)}; it needs {', '.join(SIZES[:-1])}")
    sizes: dict[str, Any] = {name: read_integer(name, given.pop(name)) for name in SIZES if name in given}
    geometry: dict[str, Any] = {name: read_several(name, given.pop(name)) for name in _GEOMETRY if name in given}
    quantization = read_quantization(given)
    check_nothing_left(key, given, (*SIZES, *_GEOMETRY, *QUANTIZED))
    return ConvTranspose2d(**sizes, **geometry, quantization=quantization).phases


def ask(given: dict[str, Any]) -> Conv2d:
    geometry = {name: given[name] for name in (*SIZES, *_GEOMETRY) if name in given}
    of_pixel = {name: 1 for name in SIZES if name != "groups"}
    others = {name: value for name, value in given.items() if name not in geometry}
    quantization = convolution.ask(of_pixel | others).quantization
    return ConvTranspose2d(**geometry, quantization=quantization).phases


OP = replace(
    convolution.OP,
    name="conv_transpose2d",
    says="Images with filters, transposed: one convolution of all phases.",
    problems=(),
    read=read,
    ask=ask,
    options=OPTIONS,
)
