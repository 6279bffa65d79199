"""The ops of `torch.ops.qconv`, made known to PyTorch: schemas, kernels, and what each gives without computing it.

They are defined by `torch.library.Library`, not by `custom_op`, which has no overloads and costs twice the host time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from qconv.instances import tensor_ops_api
from qconv.torch import conversion, convolution, elementwise
from qconv.torch.arrays import number_of
from qconv.torch.schema import Overload, overloads

Function = Callable[[Mapping[str, Any]], Any]
# Op -> what computes it, and what gives an output of the same shape, type and layout.
OPS: Mapping[str, tuple[Function, Function]] = {
    "conv2d": (convolution.convolve, convolution.fake_images),
    "linear": (convolution.multiply, convolution.fake_rows),
    "conv2d_conv2d": (convolution.convolve, convolution.fake_images),
    "conv2d_block": (convolution.convolve, convolution.fake_images),
    "add": (elementwise.combine(tensor_ops_api.add), elementwise.fake_sum),
    "mul": (elementwise.combine(tensor_ops_api.mul), elementwise.fake_sum),
    "max_pool2d": (elementwise.max_pool, elementwise.fake_pool),
    "avg_pool2d": (elementwise.average_pool, elementwise.fake_pool),
    "global_avg_pool2d": (elementwise.global_average, elementwise.fake_global),
    "quantize": (conversion.quantize, conversion.fake_quantized),
    "dequantize": (conversion.dequantize, conversion.fake_real),
}
LIBRARY = torch.library.Library("qconv", "DEF")


def define() -> None:
    of_op: dict[str, list[Overload]] = {}
    for overload in overloads():
        LIBRARY.define(overload.schema, tags=(torch.Tag.pt2_compliant_tag,))
        of_op.setdefault(overload.op, []).append(overload)
    for op, every in of_op.items():
        packet = getattr(torch.ops.qconv, op)
        defaults = {each.name: each.default_value for each in packet.default._schema.arguments}
        numbers = {each.name for each in packet.default._schema.arguments if str(each.real_type).startswith(NUMBERS)}
        compute, fake = OPS[op]
        for overload in every:
            names = [each.name for each in getattr(packet, overload.name or "default")._schema.arguments]
            known = names, defaults, numbers if overload.name == "tensor" else set[str]()
            for key in ("CPU", "CUDA"):
                LIBRARY.impl(overload.qualified, partial(_called, compute, *known), key)
            without = partial(_called, fake, *known[:2], set[str]())
            torch.library.register_fake(f"qconv::{overload.qualified}", without, lib=LIBRARY)


NUMBERS = ("float", "int", "Optional[float]", "Optional[int]")


def _called(
    function: Function, names: list[str], defaults: Mapping[str, Any], numbers: set[str], *values: Any, **named: Any
) -> Any:
    """By the names of the schema; None is as if it was not given."""
    supplied = {**dict(zip(names, values, strict=False)), **named}
    given = dict(defaults)
    for name, value in supplied.items():
        if value is not None:
            given[name] = number_of(name, value) if name in numbers else value
    return function(given)
