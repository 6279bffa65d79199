"""Conversions per tensor and per channel, of whole and narrow ranges."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch_functions import as_one_expression, dq, integers, lowered, of, q, targets  # noqa: E402

X = integers(2, 8, 6, 4)
KINDS = {
    "uint8": (0.03, 9, 0, 255, torch.uint8),
    "a narrow range": (0.005, 4, -100, 90, torch.int8),
    "int16": (0.0003, 5, -(2**15), 2**15 - 1, torch.int16),
}


@pytest.mark.parametrize("name", KINDS)
def test_numbers(name: str) -> None:
    found = as_one_expression(lambda m, x: q(torch.tanh(dq(x)), KINDS[name]), X)
    assert found.largest <= 1
    assert found.differing <= found.count / 100


def test_a_scale_per_channel() -> None:
    def body(m: Any, x: Any) -> Any:
        scales, zeros = m.w * 0.02, (m.b * 8).to(torch.int64)
        real = of.dequantize_per_channel(x, scales, zeros, 1, -128, 127, torch.int8)
        return of.quantize_per_channel(torch.tanh(real), scales, zeros, 1, -128, 127, torch.int8)

    found = as_one_expression(body, X)
    assert found.largest <= 1
    assert found.differing <= found.count / 100


def test_a_tie_may_go_to_the_neighbour() -> None:
    """PyTorch multiplies by the reciprocal of a scale, and the expression divides by the scale."""
    halves = (0.35, 0, -128, 127, torch.int8)
    x = torch.arange(-128, 128).to(torch.int8).reshape(2, 1, 16, 8)
    found = as_one_expression(lambda m, x: q(dq(x, halves) * 0.5, halves), x)
    assert found.largest == 1


def test_a_computed_scale_stays() -> None:
    def body(m: Any, x: Any) -> Any:
        scale = dq(x).amax() * 0.01
        zero = torch.zeros((), dtype=torch.int64)
        return of.quantize_per_tensor.tensor(dq(x).tanh(), scale, zero, -128, 127, torch.int8)

    module, _ = lowered(body, X)
    assert "quantized_decomposed.quantize_per_tensor.tensor" in list(targets(module))
