"""Lowered networks that take integers give the same outputs as with the floats that quantize to them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_networks import targets  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.integer_input import IntegerInput  # noqa: E402

of = torch.ops.quantized_decomposed
X, Y = (0.02, 3, -128, 127, torch.int8), (0.3, -7, -128, 127, torch.int8)


def integers(x: Any) -> Any:
    return of.quantize_per_tensor(x, *X)


class Convolution(torch.nn.Module):
    """A convolution with or without a second reader of its input."""

    def __init__(self, is_read_twice: bool) -> None:
        super().__init__()
        self.is_read_twice = is_read_twice
        drawn = torch.Generator().manual_seed(1)
        self.register_buffer("w", torch.randint(-128, 128, (8, 8, 3, 3), dtype=torch.int8, generator=drawn))

    def forward(self, x: Any) -> Any:
        w = of.dequantize_per_tensor(self.w, 0.002, 0, -128, 127, torch.int8)
        y = functional.conv2d(of.dequantize_per_tensor(integers(x), *X), w, padding=1)
        return of.quantize_per_tensor(y + x if self.is_read_twice else y, *Y)


def lowered(is_read_twice: bool = False) -> tuple[Any, Any]:
    x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(3))
    return qconv.torch.lower(torch.export.export(Convolution(is_read_twice), (x,))), x


def test_integers_give_what_their_real_numbers_gave() -> None:
    network, x = lowered()
    module, found = qconv.torch.with_integer_inputs(network)
    assert list(found.values()) == [IntegerInput("int8", 0.02, 3)]
    assert "qconv.quantize.scalar" in targets(network)
    assert "qconv.quantize.scalar" not in targets(module)
    assert torch.equal(module(integers(x)), network(x))
    assert qconv.torch.explain(module) == qconv.torch.explain(network)


def test_an_input_that_has_to_stay_is_named() -> None:
    network, _ = lowered(is_read_twice=True)
    with pytest.raises(ValueError, match=r"no input can take integers: 'x' is read by .*qconv\.expression"):
        qconv.torch.with_integer_inputs(network)


def test_an_input_may_be_asked_for_its_size() -> None:
    class Rows(Convolution):
        def forward(self, x: Any) -> Any:
            return super().forward(x).reshape(x.size(0), -1)

    x = torch.randn(2, 8, 6, 6, generator=torch.Generator().manual_seed(3))
    batch = torch.export.Dim("n", min=1, max=9)
    network = qconv.torch.lower(torch.export.export(Rows(False), (x,), dynamic_shapes=({0: batch},)))
    assert "aten.sym_size.int" in targets(network)
    module, found = qconv.torch.with_integer_inputs(network)
    assert list(found) == ["x"]
    for images in (x, x[:1], x.repeat(3, 1, 1, 1)):
        assert torch.equal(module(integers(images)), network(images))
