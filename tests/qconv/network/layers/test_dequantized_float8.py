"""Layers between conversions of 8-bit floats are one convolution of these, on the CPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import float8_networks as networks
from float8_networks import E4M3, E5M2, Float8Network

from qconv.onnx import Session

pytestmark = pytest.mark.turns

Network = Callable[[Float8Network], str]


def chain(net: Float8Network) -> str:
    """A convolution, a depthwise one with a clamp, and one of pixels."""
    first = net.node("Relu", net.node("Conv", net.wide(net.input(2, 8, 7, 6)), net.weights(16, 8, 3, 3), net.bias(16)))
    x = net.wide(net.narrow(first), 4.0)
    low, high = (net.constant(np.float32(limit)) for limit in (-2, 60))
    depthwise = net.node("Conv", x, net.weights(16, 1, 3, 3), net.bias(16), group=16, pads=[1] * 4, strides=[2, 1])
    x = net.wide(net.narrow(net.node("Clip", depthwise, low, high), 8.0), 8.0)
    return net.narrow(net.node("Conv", x, net.weights(8, 16, 1, 1, axis=None)), 16.0)


def matrices(net: Float8Network) -> str:
    x = net.wide(net.input(5, 24))
    first = net.node("Gemm", x, net.weights(16, 24, axis=0), net.bias(16), transB=1)
    x = net.wide(net.narrow(net.node("Relu", first), 2.0), 2.0)
    x = net.wide(net.narrow(net.node("Gemm", x, net.weights(16, 12, axis=1), net.bias(12))), 4.0)
    return net.narrow(net.node("MatMul", x, net.weights(12, 8, axis=1)), 16.0)


def rows(net: Float8Network) -> str:
    return net.narrow(net.node("Conv", net.wide(net.input(1, 4, 20)), net.weights(8, 4, 5), net.bias(8), pads=[2, 2]))


def with_integers_for_a_bias(net: Float8Network) -> str:
    whole, scale = net.constant(net.rng.integers(-9, 9, 8, np.int32)), net.constant(np.float32(0.25))
    bias = net.node("DequantizeLinear", whole, scale)
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3), bias))


def of_both_types(net: Float8Network) -> str:
    other = E5M2 if net.dtype == E4M3 else E4M3
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3, dtype=other)))


def without_quantization(net: Float8Network) -> str:
    return net.node("Relu", net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3), net.bias(8)))


def block(net: Float8Network, behind: str = "Relu", **attributes: Any) -> str:
    """A residual block, as ONNX Runtime quantizes it: the convolution's own output is rounded before the sum."""
    x = net.wide(net.narrow(net.node("Conv", net.wide(net.input(2, 8, 6, 5)), net.weights(8, 8, 1, 1))), 4.0)
    own = net.narrow(net.node("Conv", x, net.weights(8, 8, 3, 3), net.bias(8), pads=[1] * 4), 8.0)
    return net.narrow(net.node(behind, net.node("Add", net.wide(own, 8.0), x), **attributes), 16.0)


def block_of_two(net: Float8Network) -> str:
    """A residual block with a convolution on both sides, and another block behind it without an activation."""
    x = net.wide(net.input(2, 8, 6, 5))
    sides = [
        net.wide(net.narrow(net.node("Conv", x, net.weights(12, 8, taps, taps), pads=[taps // 2] * 4), 2.0), 2.0)
        for taps in (3, 1)
    ]
    y = net.wide(net.narrow(net.node("Relu", net.node("Add", *sides)), 4.0), 4.0)
    own = net.narrow(net.node("Conv", y, net.weights(12, 12, 1, 1), net.bias(12)), 8.0)
    return net.narrow(net.node("Add", y, net.wide(own, 8.0)), 16.0)


def block_of_volumes(net: Float8Network) -> str:
    x = net.wide(net.input(1, 4, 3, 5, 4))
    own = net.narrow(net.node("Conv", x, net.weights(4, 4, 3, 3, 3), net.bias(4), pads=[1] * 6), 8.0)
    return net.narrow(net.node("Relu", net.node("Add", net.wide(own, 8.0), x)), 8.0)


def block_for_tensorrt(net: Float8Network) -> str:
    """A residual block in which nothing is quantized between the convolution and the sum."""
    x = net.wide(net.input(2, 8, 6, 5))
    own = net.node("Conv", x, net.weights(8, 8, 3, 3), net.bias(8), pads=[1] * 4)
    return net.narrow(net.node("Relu", net.node("Add", own, x)), 8.0)


BLOCKS: dict[str, Network] = {
    each.__name__: each for each in (block, block_of_two, block_of_volumes, block_for_tensorrt)
}
NETWORKS: dict[str, Network] = {
    each.__name__: each
    for each in (chain, matrices, rows, with_integers_for_a_bias, of_both_types, without_quantization)
} | BLOCKS


def made(network: Network, dtype: str = E4M3) -> tuple[Any, dict[str, Any]]:
    net = Float8Network(dtype)
    return net.made(network(net)), net.fed


def assert_same(got: Any, want: Any) -> None:
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


def _without_frames(name: str, session: Session) -> list[Any]:
    """Return the problems, without the one that lays the frames of volumes beside each other."""
    return [one for one in session.problems if one.op != "map" or name != "block_of_volumes"]


@pytest.mark.parametrize("dtype", [E4M3, E5M2])
@pytest.mark.parametrize("name", NETWORKS)
def test_it_is_the_references(name: str, dtype: str) -> None:
    model, fed = made(NETWORKS[name], dtype)
    session = Session(model, "cpu", strict=True)
    assert {(one.op, one.floats) for one in _without_frames(name, session)} == {("conv2d", dtype)}
    for _ in range(2):
        assert_same(session.run(None, fed)[0], networks.by_reference(model, fed)[0])


@pytest.mark.parametrize("name", BLOCKS)
def test_a_sum_is_part_of_the_convolution_with_equal_bits(name: str) -> None:
    """Numbers of the full range, the largest of which saturate: bits are equal where both round as often."""
    net = Float8Network(most=16)
    model = net.made(BLOCKS[name](net))
    fed = {x: net.rng.standard_normal(one.shape).astype(one.dtype) for x, one in net.fed.items()}
    folded, unfolded = (Session(model, "cpu", strict=True, sums_in_convolutions=sums) for sums in (True, False))
    assert {one.op for one in _without_frames(name, folded)} == {"conv2d"}
    assert len(folded.problems) < len(unfolded.problems)
    (got,), (want,) = folded.run(None, fed), unfolded.run(None, fed)
    if name != "block_for_tensorrt":
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


def test_the_sum_rounds_what_the_model_rounds() -> None:
    sums = {name: Session(made(network)[0], "cpu").problems[-1].quantization for name, network in BLOCKS.items()}
    assert {name: q.mode.residual_add for name, q in sums.items()} == {
        **dict.fromkeys(("block", "block_of_two", "block_of_volumes"), "dequantized"),
        "block_for_tensorrt": "multiply_add",
    }
    assert {q.residual for q in sums.values()} == {E4M3}
    assert [sums[name].activation for name in ("block", "block_of_two")] == ["relu", "none"]


def test_a_sum_may_be_of_both_types() -> None:
    net = Float8Network()
    x = net.wide(net.input(2, 8, 6, 5))
    net.dtype = E5M2
    other = net.wide(net.input(2, 8, 6, 5))
    net.dtype = E4M3
    own = net.narrow(net.node("Conv", x, net.weights(8, 8, 1, 1)), 8.0)
    y = net.narrow(net.node("Add", net.wide(own, 8.0), other), 16.0)
    model = net.made(y)
    model.graph.input[1].type.tensor_type.elem_type = networks.KINDS[E5M2]
    session = Session(model, "cpu", strict=True)
    assert [one.quantization.residual for one in session.problems] == [E5M2]
    assert_same(session.run(None, net.fed)[0], networks.by_reference(model, net.fed)[0])


def read_twice(net: Float8Network) -> tuple[str, ...]:
    x = net.wide(net.input(2, 8, 6, 5))
    own = net.narrow(net.node("Conv", x, net.weights(8, 8, 1, 1)), 8.0)
    return own, net.narrow(net.node("Add", net.wide(own, 8.0), x), 16.0)


def of_another_scale(net: Float8Network) -> tuple[str, ...]:
    x = net.wide(net.input(2, 8, 6, 5))
    own = net.narrow(net.node("Conv", x, net.weights(8, 8, 1, 1)), 8.0)
    return (net.narrow(net.node("Add", net.wide(own, 4.0), x), 16.0),)


def of_another_shape(net: Float8Network) -> tuple[str, ...]:
    own = net.narrow(net.node("Conv", net.wide(net.input(2, 8, 6, 5)), net.weights(8, 8, 1, 1)), 8.0)
    return (net.narrow(net.node("Add", net.wide(own, 8.0), net.wide(net.input(1, 8, 1, 1))), 16.0),)


def not_quantized(net: Float8Network) -> tuple[str, ...]:
    x = net.wide(net.input(2, 8, 6, 5))
    own = net.narrow(net.node("Conv", x, net.weights(8, 8, 1, 1)), 8.0)
    return (net.node("Add", net.wide(own, 8.0), x),)


def twice_bent(net: Float8Network) -> tuple[str, ...]:
    x = net.wide(net.input(2, 8, 6, 5))
    own = net.narrow(net.node("Relu", net.node("Conv", x, net.weights(8, 8, 1, 1))), 8.0)
    return (net.narrow(net.node("Relu", net.node("Add", net.wide(own, 8.0), x)), 16.0),)


def of_sigmoids(net: Float8Network) -> tuple[str, ...]:
    """Expressions compute exponentials by other steps than epilogues."""
    return (block(net, "Sigmoid"),)


@pytest.mark.parametrize(
    "network", [read_twice, of_another_scale, of_another_shape, not_quantized, twice_bent, of_sigmoids]
)
def test_other_sums_stay_kernels_of_their_own(network: Callable[[Float8Network], tuple[str, ...]]) -> None:
    net = Float8Network()
    model = net.made(*network(net))
    session = Session(model, "cpu", strict=True)
    assert {one.quantization.residual for one in session.problems if one.op == "conv2d"} == {"none"}
    for got, want in zip(session.run(None, net.fed), networks.by_reference(model, net.fed), strict=True):
        if network is not of_sigmoids:
            assert_same(got, want)


def test_a_report_says_what_is_folded() -> None:
    (row,) = Session(made(rows)[0], "cpu").explain().rows
    assert "DequantizeLinear, DequantizeLinear, Conv, QuantizeLinear folded; products of float8_e4m3fn with" in row.why
    assert row.floats == E4M3


def test_scales_per_output_and_per_tensor_are_kernels_of_their_own() -> None:
    problems = Session(made(chain)[0], "cpu").problems
    assert [one.quantization.per_channel for one in problems] == [True, True, False]
    assert [one.quantization.activation for one in problems] == ["relu", "clamp", "none"]
    assert [one.quantization.out_type for one in problems] == [E4M3] * 3


def test_input_and_weights_may_be_of_two_types() -> None:
    (problem,) = Session(made(of_both_types)[0], "cpu").problems
    assert (problem.quantization.x_type, problem.quantization.w_type) == (E4M3, E5M2)


def test_floats_of_8_bits_go_before_those_of_16() -> None:
    model, fed = made(without_quantization)
    session = Session(model, "cpu", floats="float16")
    assert [one.floats for one in session.problems] == [E4M3]
    assert_same(session.run(None, fed)[0], networks.by_reference(model, fed)[0])


def test_an_output_that_overflows_to_infinity_is_quantized_elsewhere() -> None:
    def network(net: Float8Network) -> str:
        y = net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3))
        return net.narrow(y, 0.5, saturate=0)

    session = Session(made(network)[0], "cpu")
    assert [one.quantization.out_type for one in session.problems if one.op == "conv2d"] == ["float32"]


def test_what_is_returned_is_not_folded_away() -> None:
    net = Float8Network()
    y = net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3))
    session = Session(net.made(y, net.narrow(y)), "cpu")
    assert [one.quantization.out_type for one in session.problems if one.op == "conv2d"] == ["float32"]


def per_input(net: Float8Network) -> str:
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.weights(8, 8, 3, 3, axis=1)))


def with_computed_weights(net: Float8Network) -> str:
    return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5)), net.wide(net.input(8, 8, 3, 3))))


@pytest.mark.parametrize("network", [per_input, with_computed_weights])
def test_what_kernels_do_not_take_is_no_layer_of_8_bit_floats(network: Network) -> None:
    assert not [one for one in Session(made(network)[0], "cpu").problems if one.op == "conv2d"]


def test_a_saturated_output_is_the_largest_number() -> None:
    def network(net: Float8Network) -> str:
        return net.narrow(net.node("Conv", net.wide(net.input(1, 8, 5, 5), 64.0), net.weights(8, 8, 3, 3)), 0.5)

    model, fed = made(network)
    got = Session(model, "cpu", strict=True).run(None, fed)[0].astype(np.float32)
    assert np.abs(got).max() == 448
    assert_same(got, networks.by_reference(model, fed)[0].astype(np.float32))
