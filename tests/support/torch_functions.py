"""Functions between conversions of PT2E, exported and lowered, and their differences from PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401
from torch_networks import Difference, differences, targets

import qconv.torch

of = torch.ops.quantized_decomposed
X, Y = (0.02, 3, -128, 127, torch.int8), (0.05, -7, -128, 127, torch.int8)
EXPRESSION = "qconv.expression.default"


def integers(*shape: int, seed: int = 0) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def dq(x: Any, values: Any = X) -> Any:
    return of.dequantize_per_tensor(x, *values)


def q(x: Any, values: Any = Y) -> Any:
    return of.quantize_per_tensor(x, *values)


class Function(torch.nn.Module):  # type: ignore[misc]
    """A function as a module, with some weights as its first argument."""

    def __init__(self, body: Callable[..., Any]) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("w", torch.linspace(0.5, 1.5, 8))
        self.register_buffer("filters", integers(8, 8, 1, 1, seed=9))
        self.register_buffer("b", torch.linspace(-0.5, 0.5, 8))

    def forward(self, *inputs: Any) -> Any:
        return self.body(self, *inputs)


def conv(m: Any, x: Any) -> Any:
    """Return a convolution of 8 channels."""
    return torch.conv2d(x, of.dequantize_per_tensor(m.filters, 0.002, 0, -128, 127, torch.int8))


def program(body: Callable[..., Any], *inputs: Any, batch: bool = False) -> Any:
    """Export a function, for any batch if asked for."""
    shapes = {"inputs": tuple({0: torch.export.Dim("n", min=1, max=64)} for _ in inputs)} if batch else None
    return torch.export.export(Function(body), inputs, dynamic_shapes=shapes).module()


def lowered(body: Callable[..., Any], *inputs: Any, batch: bool = False) -> tuple[Any, list[Difference]]:
    graph = program(body, *inputs, batch=batch)
    module = qconv.torch.lower(graph)
    return module, differences(graph, module, *inputs)


def as_one_expression(body: Callable[..., Any], *inputs: Any) -> Difference:
    """Return the difference of a function that is one expression."""
    module, (found,) = lowered(body, *inputs)
    assert list(targets(module)) == [EXPRESSION], qconv.torch.explain(module)
    return found
