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


FOUND = {
    "cumsum": (lambda y, x: y.cumsum(1), "no op here computes aten.cumsum.default"),
    "conv_transpose2d": (
        lambda y, x: functional.conv_transpose2d(y, y[:1, :, :3, :3].transpose(0, 1)),
        "x is not dequantized from 8 bits with one constant scale",
    ),
    "matmul": (lambda y, x: y @ y, "no op here computes aten.matmul.default"),
    "conv1d": (lambda y, x: functional.conv1d(x[0], x[0, :, :, :3]), "x is not dequantized from 8 bits"),
    "adaptive_avg_pool2d": (
        lambda y, x: functional.adaptive_avg_pool2d(y, 4),
        "its windows have different sizes (6 to 4, 6 to 4); expressions average equal ones",
    ),
    "upsample_nearest2d": (
        lambda y, x: functional.interpolate(y, size=(74, 74)),
        "it resizes 6 to 74, for which ONNX's rounding chooses other elements",
    ),
    "hardsigmoid": (
        lambda y, x: functional.hardsigmoid(y.double()),
        "aten.hardsigmoid.default gives torch.float64; expressions have float16, bfloat16, float32, int8",
    ),
    "softplus": (lambda y, x: functional.softplus(y, beta=2), "its beta is not 1, or its threshold is below 20"),
    "quantize_per_tensor": (
        lambda y, x: of.quantize_per_tensor(y, 0.1, 0, -(2**31), 2**31 - 1, torch.int32),
        "its integers are int32; expressions convert int8, uint8, int16, uint16",
    ),
    "dequantize_per_tensor": (
        lambda y, x: of.dequantize_per_tensor.tensor(
            x.to(torch.int8), y.amax(), torch.zeros((), dtype=torch.int64), -128, 127, torch.int8
        ),
        "the graph computes its scale or its zero point",
    ),
    "relu": (
        lambda y, x: torch.cumsum(torch.relu(torch.cumsum(y, 1)), 1),
        "it is between floats that PyTorch computes, whose compiler joins it with them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_stays_is_named(name: str) -> None:
    function, why = FOUND[name]
    # The convolution must stay alive.
    found = stays(lambda y, x: (function(y, x), y))
    assert why in found[next(each for each in found if each.startswith(name))]


def test_what_costs_nothing_is_not_named() -> None:
    """Covers views and sizes."""
    assert stays(lambda y, x: y.flatten(1).unsqueeze(0)[:, :, : y.shape[1]].transpose(0, 1)) == {}


def test_what_is_computed_of_weights_alone_is_not_named() -> None:
    class Scaled(Network):
        def forward(self, x: Any) -> Any:
            return super().forward(x) @ self.w.float().flatten()[:36].reshape(6, 6).cumprod(1)

    assert list(stays(lambda y, x: y, Scaled)) == ["matmul"]


def test_each_of_several_is_named() -> None:
    found = stays(lambda y, x: y.cumsum(1).sort(1)[0].cumprod(1))
    assert list(found) == ["cumsum", "sort", "cumprod"]


def test_what_an_expression_computes_is_not_named() -> None:
    assert stays(lambda y, x: functional.hardsigmoid(y.mean((2, 3), keepdim=True)) * y) == {}
