"""The ops `quantize`, `dequantize`, `requantize`, `choose` and `dynamic`. They share a grammar and options; each has
its random data and its oracle."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from qconv.conversion import reference, sample
from qconv.conversion.presets import SYSTEMS
from qconv.conversion.problem import FLAGS, Choose, Conversion, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.view import Axis, view_of
from qconv.op import Array, Op, Option, Sample, read_key

OPTIONS = (
    Option("x_type", "Conversions: int8, uint8, int16, uint16, int32, or a float type.", metavar="TYPE"),
    Option("out_type", "Conversions: like --x-type.", metavar="TYPE"),
    Option("mode", "The system whose arithmetic is used. Default: ort's.", choices=tuple(SYSTEMS)),
    Option("shape", "Conversions: shape of the array, INT,INT,...", "extents", required=True),
    Option("axis", "Conversions: the axis with a scale per index, or token. Default: one scale."),
    Option("block", "Conversions: neighbours along the axis that share a scale.", "integer"),
    Option("set", "Any other field of a conversion's key.", "texts", metavar="NAME[=VALUE]"),
)


def _op(
    kind: type[Conversion],
    says: str,
    draw: Callable[[Any, int, dict[str, int]], Sample],
    compute: Callable[[Any, Sample], tuple[Array, ...]],
) -> Op:
    return Op(
        name=kind.op,
        says=says,
        problems=(kind,),
        read=lambda key: kind.read(read_key(key, FLAGS)[1]),
        ask=lambda given: _asked(kind, given),
        options=OPTIONS,
        draw=draw,
        compute=compute,
        instead="--set NAME=VALUE sets any field of its key",
    )


def _asked(kind: type[Conversion], given: dict[str, Any]) -> Conversion:
    shape = given["shape"]
    view = view_of((shape,) if isinstance(shape, int) else shape, _axis(given.get("axis")), given.get("block", 0))
    _, told = read_key(":".join((kind.op, *given.get("set", ()))), FLAGS)
    types = {name: given[name] for name in ("x_type", "out_type") if name in given}
    spec = view.sizes | types | kind.values(told)
    return kind.of(given["mode"], **spec) if "mode" in given else kind(**spec)


def _axis(text: str | None) -> Axis:
    if text is None or text == "token":
        return text
    for part in text.split(","):
        if not re.fullmatch(r"-?\d{1,10}", part, re.ASCII):
            raise ValueError(f"--axis {part!r} is not an integer")
    return [int(part) for part in text.split(",")]


OPS = (
    _op(Quantize, "Real numbers to integers: round(x / scale) + zero_point.", sample.quantize, reference.elementwise),
    _op(Dequantize, "Integers to real numbers: (x - zero_point) * scale.", sample.dequantize, reference.elementwise),
    _op(Requantize, "Integers of one scale to those of another.", sample.requantize, reference.elementwise),
    _op(Choose, "The scale and the zero point for the range of an array.", sample.choose, reference.choose),
    _op(Dynamic, "Both in one: a scale is chosen, then the array quantized.", sample.choose, reference.dynamic),
)
