"""Layers of dequantized bytes that ONNX Runtime computes in floats are convolutions of bytes, on the CPU device: with
biases of floats, and with sums and outputs that no QuantizeLinear is in front of, as models for TensorRT have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from float8_networks import Float8Network

from qconv import Conv2d
from qconv.onnx import Session

Network = Callable[[Float8Network], str]


def weights(net: Float8Network, *shape: int, axis: int | None = 0) -> str:
    return net.weights(*shape, axis=axis, dtype="int8")


def residual(net: Float8Network) -> str:
    """A residual block for TensorRT: nothing is quantized between the second convolution and the sum."""
    x = net.wide(
        net.narrow(
            net.node("Relu", net.node("Conv", net.wide(net.input(2, 8, 6, 5)), weights(net, 8, 8, 1, 1), net.bias(8)))
        )
    )
    first = net.node("Conv", x, weights(net, 16, 8, 3, 3), net.bias(16), pads=[1] * 4)
    inner = net.wide(net.narrow(net.node("Relu", first)), 2.0)
    second = net.node("Conv", inner, weights(net, 8, 16, 3, 3), net.bias(8), pads=[1] * 4)
    return net.narrow(net.node("Relu", net.node("Add", second, x)), 32.0)


def matrices(net: Float8Network) -> str:
    first = net.node("Gemm", net.wide(net.input(5, 24)), weights(net, 16, 24), net.bias(16), transB=1)
    x = net.wide(net.narrow(first), 8.0)
    return net.narrow(net.node("Add", net.node("MatMul", x, weights(net, 16, 12, axis=1)), net.bias(12)), 64.0)


def rows(net: Float8Network) -> str:
    return net.narrow(net.node("Conv", net.wide(net.input(1, 4, 20)), weights(net, 8, 4, 5), net.bias(8), pads=[2, 2]))


def of_floats(net: Float8Network) -> str:
    return net.node("Conv", net.wide(net.input(1, 8, 5, 5)), weights(net, 8, 8, 3, 3), net.bias(8))


def of_another_scale(net: Float8Network) -> str:
    """The exporter shares equal biases, so that an integer bias has the scale of another layer's products."""
    whole, scale = net.constant(net.rng.integers(-900, 900, 8, np.int32)), net.constant(np.float32(0.25))
    bias = net.node("DequantizeLinear", whole, scale)
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), weights(net, 8, 8, 3, 3, axis=None), bias))


def clamped_twice(net: Float8Network) -> str:
    """The clamp between equal conversions is not part of a convolution that has an activation."""
    x = net.node("Conv", net.wide(net.input(1, 8, 5, 5)), weights(net, 8, 8, 3, 3), net.bias(8))
    narrow = net.wide(net.narrow(net.node("LeakyRelu", x, alpha=0.25), 8.0), 8.0)
    return net.narrow(net.node("Clip", narrow, net.constant(np.float32(-64)), net.constant(np.float32(400))), 8.0)


NETWORKS: dict[str, Network] = {
    each.__name__: each for each in (residual, matrices, rows, of_floats, of_another_scale, clamped_twice)
}


def made(network: Network, dtype: str = "uint8", zero: int = 7) -> tuple[Any, dict[str, Any]]:
    net = Float8Network(dtype, zero=zero, most=25)
    return net.made(network(net)), net.fed


def problems(session: Session) -> list[Conv2d]:
    return [one for one in session.problems if isinstance(one, Conv2d)]


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 7), ("int8", 0)])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_has_the_numbers_of_floats(name: str, dtype: str, zero: int) -> None:
    model, fed = made(NETWORKS[name], dtype, zero)
    session = Session(model, "cpu", strict=True)
    assert {(one.op, one.floats) for one in session.problems if one.op in ("conv2d", "matmul")} == {("conv2d", "")}
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0])


def test_a_sum_with_dequantized_bytes_is_part_of_the_convolution() -> None:
    session = Session(made(residual)[0], "cpu")
    assert [one.quantization.residual for one in session.problems] == ["none", "none", "uint8"]
    assert [one.quantization.activation for one in problems(session)] == ["relu"] * 3
    assert [one.quantization.residual_zero_point for one in problems(session)] == [False, False, True]


def test_a_sum_stays_a_kernel_where_that_is_asked_for() -> None:
    model, fed = made(residual)
    session = Session(model, "cpu", sums_in_convolutions=False)
    assert [one.quantization.residual for one in problems(session)] == ["none"] * 3
    np.testing.assert_array_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0])


def test_floats_behind_it_are_its_output() -> None:
    (problem,) = problems(Session(made(of_floats)[0], "cpu"))
    assert problem.quantization.out_type == "float32"


def test_two_layers_may_read_one_tensor() -> None:
    net = Float8Network("uint8", zero=7, most=25)
    x = net.wide(net.input(1, 8, 5, 5))
    outputs = [
        net.narrow(net.node("Relu", net.node("Conv", x, weights(net, 8, 8, 1, 1), net.bias(8)))) for _ in range(2)
    ]
    model = net.made(*outputs)
    session = Session(model, "cpu", strict=True)
    assert [one.quantization.activation for one in problems(session)] == ["relu"] * 2
    for got, wanted in zip(session.run(None, net.fed), networks.by_ort(model, net.fed), strict=True):
        np.testing.assert_array_equal(got, wanted)


def per_input(net: Float8Network) -> str:
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), weights(net, 8, 8, 3, 3, axis=1), net.bias(8)))


def test_scales_per_input_stay_floats() -> None:
    assert not problems(Session(made(per_input)[0], "cpu"))


def test_with_the_bits_of_onnx_runtime_it_stays_floats() -> None:
    assert not problems(Session(made(of_floats)[0], "cpu", bits="onnxruntime"))
