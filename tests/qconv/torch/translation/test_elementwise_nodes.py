"""Functions of elements are those of PyTorch, up to one step of the output where a float is rounded."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import EXPRESSION, as_one_expression, dq, integers, lowered, q, targets  # noqa: E402

X = integers(2, 8, 5, 3)
FUNCTIONS = {
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "sigmoid": torch.sigmoid,
    "silu": functional.silu,
    "mish": functional.mish,
    "gelu": functional.gelu,
    "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "elu": functional.elu,
    "softplus": functional.softplus,
    "hardtanh": lambda x: functional.hardtanh(x, -0.5, 1.25),
    "clamp": lambda x: torch.clamp(x, max=0.5),
    "relu6": functional.relu6,
    "add": lambda x: torch.add(x, x.tanh(), alpha=2),
    "a number": lambda x: 1 - x / 3 + 2 * x - 0.25,
    "squares": lambda x: x**2 + x.abs(),
    "root": lambda x: torch.rsqrt(x * x + 0.5) + x.maximum(-x) - x.minimum(x * 0.5),
    "third": lambda x: torch.addcmul(x, x[:, :1], x, value=0.5) + torch.addcdiv(x, x, x * x + 0.5),
    "where": lambda x: torch.where((x > 0.5) & (x <= 2), x, -x.sign()),
    "compared with an integer": lambda x: torch.where(x >= 1, x, x.exp()),
    "bits": lambda x: (x * 100).to(torch.float32) + torch.where((x > 0.5) ^ (x < 0), x, 0 * x),
    "types": lambda x: (x.half() * 2).float() + (x > 0).to(torch.float32),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    found = as_one_expression(lambda m, x: q(FUNCTIONS[name](dq(x))), X)
    assert found.largest <= 1
    assert found.differing <= found.count / 50


def test_slopes_are_of_the_second_axis() -> None:
    assert as_one_expression(lambda m, x: q(functional.prelu(dq(x), m.w - 0.75)), X).largest <= 1


def test_what_is_computed_of_weights_alone_is_computed_once() -> None:
    module, (found,) = lowered(lambda m, x: q(dq(x) * (m.w.exp() + 1).reshape(8, 1, 1)), X)
    assert list(targets(module)) == [EXPRESSION]
    assert found.largest <= 1


def test_a_number_that_the_type_does_not_have_stays() -> None:
    module, found = lowered(lambda m, x: x + 1000, X)
    assert list(targets(module)) == ["aten.add.Tensor"]
    assert not found


def test_floats_beyond_integers_stay_with_pytorch() -> None:
    module, _ = lowered(lambda m, x: (dq(x) * 1e9).to(torch.int32), X)
    assert "aten.to.dtype" in list(targets(module))


def test_8_bit_floats_stay_with_pytorch() -> None:
    """PyTorch's conversion to e5m2 keeps infinities, and those of expressions saturate."""
    module, _ = lowered(lambda m, x: q(dq(x).to(torch.float8_e5m2).float() + dq(x)), X)
    assert list(targets(module)).count("aten.to.dtype") == 2


def body(m: Any, x: Any) -> Any:
    return q(torch.sigmoid(dq(x)) * dq(x))


def test_inputs_may_be_channels_last() -> None:
    module, _ = lowered(body, X)
    last = X.contiguous(memory_format=torch.channels_last)
    assert torch.equal(module(last), module(X))
    assert torch.equal(module(X.transpose(2, 3).contiguous().transpose(2, 3)), module(X)), "of neither order"
