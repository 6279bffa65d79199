"""Nodes become one expression, or are left to ops of their own or to PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import EXPRESSION, Y, conv, dq, integers, lowered, of, q, targets  # noqa: E402

import qconv.torch  # noqa: E402

X = integers(2, 8, 6, 4)


def test_squeeze_and_excite_is_a_kernel_before_and_one_behind_its_convolutions() -> None:
    def body(m: Any, x: Any) -> Any:
        real = dq(x)
        squeezed = q(real.mean((2, 3), keepdim=True) * 0.5)
        gate = q(conv(m, dq(squeezed, Y)))
        return q(real * functional.hardsigmoid(dq(gate, Y)))

    module, found = lowered(body, X)
    assert list(targets(module)) == [EXPRESSION, "qconv.conv2d.scalar", EXPRESSION]
    assert qconv.torch.explain(module).split("\n")[1:] == [
        "quantize_per_tensor: qconv.expression, mean, mul as one expression",
        "quantize_per_tensor_2: qconv.expression, hardsigmoid, mul as one expression",
    ]
    assert max(one.largest for one in found) <= 1


def test_a_shuffle_of_a_concatenation_is_read_by_each_half() -> None:
    def body(m: Any, x: Any) -> Any:
        both = torch.cat([dq(x), dq(x, Y)], 1)
        one, other = functional.channel_shuffle(both, 2).chunk(2, 1)
        return q(conv(m, dq(q(one), Y))), q(conv(m, dq(q(other), Y)))

    module, found = lowered(body, X)
    assert sorted(targets(module)) == ["qconv.conv2d.scalar"] * 2 + [EXPRESSION] * 2
    assert max(one.largest for one in found) <= 1


def test_bytes_that_several_read_are_made_once() -> None:
    def body(m: Any, x: Any) -> Any:
        y = q(x, (0.02, 3, *Y[2:]))
        return dq(y).tanh(), conv(m, dq(y))

    module, found = lowered(body, X.float())
    assert sorted(targets(module)) == ["qconv.conv2d.scalar", EXPRESSION, "qconv.quantize.scalar"]
    assert [one.differing for one in found if "quantize.scalar" in one.op] == [0]
    (node,) = (node for node in module.graph.nodes if str(node.target) == EXPRESSION)
    assert '["QuantizeLinear"' not in node.kwargs["program"]


def test_floats_that_pytorch_computes_stay() -> None:
    module, _ = lowered(lambda m, x: torch.cumsum(dq(x), 1).tanh().cumsum(1), X)
    assert list(targets(module)) == [
        "qconv.dequantize.scalar",
        *["aten.cumsum.default", "aten.tanh.default"],
        "aten.cumsum.default",
    ]
    assert "tanh: PyTorch, it is between floats that PyTorch computes" in qconv.torch.explain(module)


def test_images_stay_channels_last_between_convolutions() -> None:
    def body(m: Any, x: Any) -> Any:
        return q(conv(m, dq(q(torch.tanh(dq(q(conv(m, dq(x))), Y))), Y)))

    module, _ = lowered(body, X)
    (node,) = (node for node in module.graph.nodes if str(node.target) == EXPRESSION)
    assert node.kwargs["program"].endswith('"channels_last":true}')


def test_a_reshape_of_images_is_a_kernel_where_it_moves_elements() -> None:
    def body(m: Any, x: Any) -> Any:
        flat = q(dq(q(conv(m, dq(x))), Y).flatten(1)).reshape(2, -1, 8)
        rows = of.dequantize_per_tensor(m.filters[:, :, 0, 0], 0.1, 0, -128, 127, torch.int8)
        return functional.linear(dq(flat, Y), rows)

    of_pixels, _ = lowered(body, X)
    of_channels, _ = lowered(body, integers(2, 8, 1, 1))
    assert EXPRESSION in list(targets(of_pixels))
    assert EXPRESSION not in list(targets(of_channels))


def test_memory_that_is_written_stays() -> None:
    def body(m: Any, x: Any) -> Any:
        real = dq(x)
        part = real[:, 2:4]
        part.zero_()
        return q(real.tanh())

    module, _ = lowered(body, X)
    assert torch.equal(module(X)[:, 2:4], q(torch.zeros(2, 2, 6, 4)))


def test_a_tensor_within_a_node_belongs_to_it() -> None:
    """A conversion of types in front of a fold may be a kernel of its own."""

    def body(m: Any, x: Any) -> Any:
        y = dq(x)
        for _ in range(7):
            y = torch.tanh(y) * 1.5 - torch.sigmoid(y)
        return q(y.to(torch.float16).sum(1, dtype=torch.float32))

    module, found = lowered(body, X)
    assert set(targets(module)) == {EXPRESSION}
    assert found[-1].largest <= 2


def test_bfloat16_within_an_expression() -> None:
    def body(m: Any, x: Any) -> Any:
        y = dq(x).to(torch.bfloat16)
        return q((y * y.tanh()).float())

    module, _ = lowered(body, X)
    assert list(targets(module)) == [EXPRESSION]
    assert torch.equal(module(X), body(None, X))


def test_dynamic_images() -> None:
    def body(m: Any, x: Any) -> Any:
        return q(functional.interpolate(dq(x), scale_factor=2.0, mode="nearest").flatten(2).tanh()[:, :, 1:])

    module, _ = lowered(body, X, batch=True)
    assert list(targets(module)) == [EXPRESSION]
    assert torch.equal(module(torch.cat([X, X])), module(X).repeat(2, 1, 1))
