"""Every computing node of a lowered graph that stays PyTorch's is named, with its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402

import qconv.torch  # noqa: E402

of = torch.ops.quantized_decomposed
BYTES = (0.02, 3, -128, 127, torch.int8)
OTHER = (0.05, 1, -128, 127, torch.int8)


class Network(torch.nn.Module):
    """A function of a convolution's output as floats, and of its input."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("w", torch.arange(-108, 108, dtype=torch.int8).reshape(8, 3, 3, 3))

    def forward(self, x: Any) -> Any:
        y = functional.conv2d(dequantized(x), of.dequantize_per_tensor(self.w, 0.01, 0, -128, 127, torch.int8))
        return self.function(y, dequantized(x))


def dequantized(x: Any, numbers: Any = BYTES) -> Any:
    return of.dequantize_per_tensor(x, *numbers)


def stays(function: Callable[[Any, Any], Any], network: type[Network] = Network) -> dict[str, str]:
    x = torch.randint(-128, 128, (2, 3, 8, 8), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    module = qconv.torch.lower(torch.export.export(network(function), (x,)))
    rows = dict(row.split(": ", 1) for row in qconv.torch.explain(module).split("\n"))
    assert rows["conv2d"].startswith("qconv.conv2d")
    return {name: says.removeprefix("PyTorch, ") for name, says in rows.items() if says.startswith("PyTorch")}


NUMBERS = "what it reads and gives are not the integers for which an op here computes"
FOUND = {
    "hardsigmoid": (lambda y, x: functional.hardsigmoid(y), "no op here computes aten.hardsigmoid.default"),
    "mul": (lambda y, x: y * y, f"{NUMBERS} aten.mul.Tensor"),
    "mean": (lambda y, x: y.mean((2, 3)), f"{NUMBERS} aten.mean.dim"),
    "cat": (lambda y, x: torch.cat([y, y], 1), f"{NUMBERS} aten.cat.default"),
    "sub": (lambda y, x: y - 1, "no op here computes aten.sub.Tensor"),
    "conv1d": (lambda y, x: functional.conv1d(x[0], x[0, :, :, :3]), "no op here computes aten.conv1d.default"),
    "upsample_nearest2d": (
        lambda y, x: functional.interpolate(y, scale_factor=2), "no op here computes aten.upsample_nearest2d.vec",
    ),
    "conv_transpose2d": (
        lambda y, x: functional.conv_transpose2d(y, y[:1, :, :3, :3].transpose(0, 1)),
        "no op here computes aten.conv_transpose2d.input",
    ),
    "relu": (lambda y, x: torch.relu(x), "it is not behind a layer that an op here computes"),
    "quantize_per_tensor": (
        lambda y, x: of.quantize_per_tensor(y * 2, 0.1, 0, 0, 65535, torch.uint16), "ops here convert float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_stays_is_named(name: str) -> None:
    function, why = FOUND[name]
    # The convolution must stay alive.
    assert stays(lambda y, x: (function(y, x), y))[name].startswith(why)


def test_what_costs_nothing_is_not_named() -> None:
    """Covers views and sizes."""
    assert stays(lambda y, x: y.flatten(1).unsqueeze(0)[:, :, : y.shape[1]].transpose(0, 1)) == {}


def test_what_is_computed_of_weights_alone_is_not_named() -> None:
    class Scaled(Network):
        def forward(self, x: Any) -> Any:
            return super().forward(x) - self.w.float().abs().sum()

    assert list(stays(lambda y, x: y, Scaled)) == ["sub"]


def test_each_of_several_is_named() -> None:
    found = stays(lambda y, x: functional.hardsigmoid(y.mean((2, 3), keepdim=True)) * y)
    assert list(found) == ["mean", "hardsigmoid", "mul"]
