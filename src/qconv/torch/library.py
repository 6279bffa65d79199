"""Registration of the ops of `torch.ops.qconv` with PyTorch: schemas, kernels and fake kernels.

They are defined by `torch.library.Library` rather than `custom_op`, which has no overloads and costs twice the host
time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from qconv.torch import conversion, convolution, elementwise, expression, transposed
from qconv.torch.arrays import number_of
from qconv.torch.schema import Given, Overload, overloads

Function = Callable[[Given], Any]


def _computed(op: str, fake: Function, *names: str) -> tuple[Function, Function]:
    return elementwise.computed(elementwise.CALLS[op], fake, *names), fake


# Maps an op to its kernel, and to a function that returns an output with the same shape, type and layout.
OPS: Mapping[str, tuple[Function, Function]] = {
    "conv2d": (convolution.convolve, convolution.fake_images),
    "conv_transpose2d": (transposed.convolve, transposed.fake_images),
    "linear": (convolution.multiply, convolution.fake_rows),
    "conv2d_pool": (elementwise.convolve_and_pool, elementwise.fake_pooled),
    "conv2d_conv2d": (convolution.convolve, convolution.fake_images),
    "conv2d_block": (convolution.convolve, convolution.fake_images),
    "add": _computed("add", elementwise.fake_sum, "a", "b"),
    "mul": _computed("mul", elementwise.fake_sum, "a", "b"),
    "max_pool2d": _computed("max_pool2d", elementwise.fake_pool, "x"),
    "avg_pool2d": _computed("avg_pool2d", elementwise.fake_pool, "x"),
    "global_avg_pool2d": _computed("global_avg_pool2d", elementwise.fake_global, "x"),
    "expression": (expression.express, expression.fake_expression),
    "quantize": (conversion.quantize, conversion.fake_quantized),
    "dequantize": (conversion.dequantize, conversion.fake_real),
}
LIBRARY = torch.library.Library("qconv", "DEF")


def define() -> None:
    every = overloads()
    for overload in every:
        LIBRARY.define(overload.schema, tags=(torch.Tag.pt2_compliant_tag,))
    for overload in every:
        compute, fake = OPS[overload.op]
        arguments = _arguments(overload)
        for key in ("CPU", "CUDA"):
            LIBRARY.impl(overload.qualified, partial(_compute, compute, arguments), key)
        # Outputs have no gradients, like those of argmax.
        LIBRARY.impl(overload.qualified, torch.library.fallthrough_kernel, "Autograd")
        torch.library.register_fake(f"qconv::{overload.qualified}", partial(_fake, fake, arguments), lib=LIBRARY)


@dataclass(frozen=True)
class Arguments:
    """The argument names of an overload in order, and the defaults of all arguments from the overload `default`.
    `numbers` are those that may be passed as tensors."""

    names: tuple[str, ...]
    defaults: Mapping[str, Any]
    numbers: frozenset[str]

    def given(self, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return all arguments by name. None counts as omitted."""
        supplied = {**dict(zip(self.names, values, strict=False)), **named}
        return {**self.defaults, **{name: value for name, value in supplied.items() if value is not None}}


def _arguments(overload: Overload) -> Arguments:
    packet = getattr(torch.ops.qconv, overload.op)
    schema = packet.default._schema.arguments
    names = tuple(each.name for each in getattr(packet, overload.name or "default")._schema.arguments)
    numbers = [text.split(" ", 1)[1].split("=")[0] for text in overload.named if text.startswith("Tensor?")]
    real = {each.name for each in schema if "Tensor" not in str(each.real_type)}
    return Arguments(names, {each.name: each.default_value for each in schema}, frozenset(numbers) & real)


def given_of(overload: Any, values: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a kernel would receive from this call of an overload."""
    op, _, name = overload.name().removeprefix("qconv::").partition(".")
    return _arguments(next(each for each in overloads() if (each.op, each.name) == (op, name))).given(values, named)


def _compute(function: Function, arguments: Arguments, *values: Any, **named: Any) -> Any:
    given = arguments.given(values, named)
    return function(given | {name: number_of(name, given[name]) for name in arguments.numbers})


def _fake(function: Function, arguments: Arguments, *values: Any, **named: Any) -> Any:
    return function(arguments.given(values, named))
