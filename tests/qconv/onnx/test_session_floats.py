"""Sessions whose float layers multiply floats of 16 bits, on the CPU device: against ONNX Runtime with the same
roundings, and against its fp32 within a bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import float_networks as networks
from float_networks import FloatNetwork, Network
from onnx import TensorProto, helper, numpy_helper

from qconv.onnx import Session
from qconv.onnx.ship import build

pytestmark = pytest.mark.turns

TYPES = tuple(networks.NARROW)


def made(network: Network, narrow: str | None = None) -> tuple[Any, dict[str, Any]]:
    net = FloatNetwork(narrow)
    outputs = network(net)
    return net.made(*outputs), net.fed


def one_conv(**attributes: Any) -> Network:
    return lambda net: [net.conv(net.input(1, 8, 6, 6), 8, 8, 3, 3, **attributes)]


def why(session: Session, op: str) -> str:
    return next(row.why for row in session.explain().rows if row.op == op)


def convolutions(session: Session) -> list[Any]:
    return [problem for problem in session.problems if problem.op == "conv2d"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", networks.NETWORKS)
def test_every_rounding_is_the_references(name: str, dtype: str) -> None:
    network = networks.NETWORKS[name]
    model, fed = made(network)
    session = Session(model, "cpu", strict=True, floats=dtype)
    assert {problem.quantization.x_type for problem in convolutions(session)} == {dtype}
    assert not [problem for problem in session.problems if problem.op == "matmul"]
    want = networks.by_onnxruntime(made(network, dtype)[0], fed)
    for _ in range(2):  # the second run is recorded
        for got, expected in zip(session.run(None, fed), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_the_reference_rounds() -> None:
    model, fed = made(networks.residual)
    exact = networks.by_onnxruntime(model, fed)[0]
    for dtype in TYPES:
        assert (networks.by_onnxruntime(made(networks.residual, dtype)[0], fed)[0] != exact).mean() > 0.3


@pytest.mark.parametrize("dtype", TYPES)
def test_layers_beside_each_other_have_no_cast_between_them(dtype: str) -> None:
    session = Session(made(networks.products)[0], "cpu", floats=dtype)
    assert [row.op for row in session.explain().rows] == ["Cast", "Gemm", "Gemm", "Cast"]


@pytest.mark.parametrize("dtype", TYPES)
def test_what_is_folded_has_the_bits_of_layers_by_themselves(dtype: str) -> None:
    """The outputs of the convolution are whole numbers that both types hold."""

    def network(net: FloatNetwork) -> list[str]:
        x = net.input(1, 8, 6, 6)
        w = net.constant(net.rng.integers(-1, 2, (8, 8, 1, 1)).astype(np.float32))
        return [net.node("Relu", net.node("Add", net.node("Mul", x, x), net.node("Conv", x, w)))]

    model, fed = made(network)
    folded, unfused = (Session(model, "cpu", floats=dtype, sums_in_convolutions=sums) for sums in (None, False))
    assert [one.quantization.residual for one in convolutions(folded)] == [dtype]
    assert [one.quantization.residual for one in convolutions(unfused)] == ["none"]
    assert "Conv, Add, Relu folded; products of" in why(folded, "Conv")
    np.testing.assert_array_equal(folded.run(None, fed)[0], unfused.run(None, fed)[0])
    np.testing.assert_array_equal(folded.run(None, fed)[0], networks.by_onnxruntime(model, fed)[0])


# An op or two behind a convolution, and the activation that the kernel has for them.
BENT = {
    "silu": lambda net, y: net.node("Mul", y, net.node("Sigmoid", y)),
    "hardswish": lambda net, y: net.node("HardSwish", y),
    "sigmoid": lambda net, y: net.node("Sigmoid", y),
    "tanh": lambda net, y: net.node("Tanh", y),
    "leaky_relu": lambda net, y: net.node("LeakyRelu", y, alpha=0.1),
    "relu6": lambda net, y: net.node("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6))),
    "clamp": lambda net, y: net.node("Clip", y, "", net.constant(np.float32(1.5))),
    "relu": lambda net, y: net.node("Clip", y, net.constant(np.float32(0))),
    "gelu": lambda net, y: net.node("Gelu", y, domain="com.microsoft"),
}


@pytest.mark.parametrize("activation", BENT)
def test_an_activation_is_folded(activation: str) -> None:
    """Within the rounding of the output to float16: the kernels' functions are within a few units of fp32."""

    def network(net: FloatNetwork) -> list[str]:
        return [BENT[activation](net, net.conv(net.input(1, 8, 6, 6), 8, 8, 3, 3))]

    model, fed = made(network)
    session = Session(model, "cpu", strict=True, floats="float16")
    (problem,) = convolutions(session)
    assert problem.quantization.activation == activation
    want = networks.by_onnxruntime(model, fed)[0]
    np.testing.assert_allclose(session.run(None, fed)[0], want, rtol=2.0**-11 * 1.01, atol=1e-6)


def test_a_gate_with_other_numbers_is_no_hardswish() -> None:
    def network(net: FloatNetwork) -> list[str]:
        y = net.conv(net.input(1, 8, 6, 6), 8, 8, 3, 3)
        return [net.node("Mul", y, net.node("HardSigmoid", y, alpha=0.2, beta=0.5))]

    model, fed = made(network)
    session = Session(model, "cpu", floats="float16")
    assert [one.quantization.activation for one in convolutions(session)] == ["none"]
    np.testing.assert_allclose(session.run(None, fed)[0], networks.by_onnxruntime(model, fed)[0], rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_random_data_are_within_the_roundings_of_the_operands(dtype: str, digits: int) -> None:
    """Each factor is off by half a unit of its last digit, and so is the output."""

    def network(net: FloatNetwork) -> list[str]:
        w = net.constant((net.rng.standard_normal((16, 8, 3, 3)) / 8).astype(np.float32))
        return [net.node("Conv", net.input(2, 8, 9, 9), w, pads=[1] * 4)]

    model, fed = made(network)
    fed = {name: np.random.default_rng(1).standard_normal(x.shape).astype(np.float32) for name, x in fed.items()}
    got = Session(model, "cpu", floats=dtype).run(None, fed)[0]
    magnitudes, _ = made(network)
    (w,) = magnitudes.graph.initializer
    w.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(w)), w.name))
    (most,) = networks.by_onnxruntime(magnitudes, {name: np.abs(x) for name, x in fed.items()})
    error = np.abs(got - networks.by_onnxruntime(model, fed)[0])
    assert error.max() > 0
    assert (error <= most * 3.1 * 2.0**-digits).all()


def test_a_sum_belongs_to_the_later_of_two_convolutions() -> None:
    def network(net: FloatNetwork) -> list[str]:
        x = net.input(1, 8, 6, 6)
        return [net.node("Add", net.conv(x, 8, 8, 3, 3), net.conv(x, 8, 8, 1, 1))]

    session = Session(made(network)[0], "cpu", floats="float16")
    assert [(one.r, one.quantization.residual) for one in convolutions(session)] == [(3, "none"), (1, "float16")]


def test_what_is_read_twice_or_returned_is_not_folded_away() -> None:
    def network(net: FloatNetwork) -> list[str]:
        y = net.conv(net.input(1, 8, 6, 6), 8, 8, 3, 3)
        other = net.conv(net.input(1, 8, 6, 6), 8, 8, 1, 1)
        return [y, net.node("Relu", y), net.node("Relu", other), net.node("Tanh", other)]

    model, fed = made(network)
    session = Session(model, "cpu", floats="float16")
    assert {one.quantization.activation for one in convolutions(session)} == {"none"}
    for got, want in zip(session.run(None, fed), networks.by_onnxruntime(model, fed), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=1e-3)


def test_a_sum_that_broadcasts_is_an_expression() -> None:
    def network(net: FloatNetwork) -> list[str]:
        x, row = net.input(2, 8, 6, 6), net.constant(np.arange(48, dtype=np.float32).reshape(1, 8, 1, 6))
        added = net.node("Add", net.conv(x, 8, 8, 3, 3, bias=False), row)
        return [added, net.node("Add", net.conv(x, 8, 8, 1, 1), net.input(2, 8, 1, 1))]

    model, fed = made(network)
    session = Session(model, "cpu", floats="float16")
    assert [(one.quantization.bias, one.quantization.residual) for one in convolutions(session)] == [
        ("none", "none"),
        ("float32", "none"),
    ]
    for got, want in zip(session.run(None, fed), networks.by_onnxruntime(model, fed), strict=True):
        np.testing.assert_array_equal(got, want)


def halves() -> tuple[Any, dict[str, Any]]:
    """Return a model that is in float16 itself."""
    w = np.random.default_rng(2).integers(-3, 4, (8, 8, 3, 3)).astype(np.float16)
    kinds = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1, 8, 6, 6]) for name in "xy"]
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)
    graph = helper.make_graph([node], "halves", kinds[:1], kinds[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": np.random.default_rng(3).integers(-3, 4, (1, 8, 6, 6)).astype(np.float16)}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_model_of_halves_is_rounded_for_bfloat16_alone(dtype: str) -> None:
    """ONNX Runtime brings it to fp32 and back."""
    model, fed = halves()
    session = Session(model, "cpu", floats=dtype)
    assert any("to_" in str(problem) for problem in session.problems) == (dtype == "bfloat16")
    want = Session(model, "cpu").run(None, fed)[0]
    assert session.run(None, fed)[0].dtype == np.float16
    np.testing.assert_allclose(session.run(None, fed)[0], want, rtol=0 if dtype == "float16" else 2.0**-8)


def test_the_report_says_the_type_and_that_bits_depend_on_the_config() -> None:
    session = Session(made(networks.products)[0], "cpu", floats="bfloat16")
    rows = session.explain().rows
    assert [row.floats for row in rows] == ["", "bfloat16", "bfloat16", ""]
    assert [row.may_differ for row in rows] == [True] * 4
    assert "products of bfloat16 with sums in fp32, in the order of the kernel's config, rounded once" in rows[1].why
    explanation = session.explain()
    assert explanation.float_share == 1.0
    assert explanation.float_causes == ()
    assert explanation.advice == ""
    in_fp32 = Session(made(networks.products)[0], "cpu").explain()
    assert {row.floats for row in in_fp32.rows if row.operations} == {"float32"}
    assert "100.0 % of the multiplications are in floats" in in_fp32.advice


def computed_weights(net: FloatNetwork) -> list[str]:
    x = net.input(1, 8, 6, 6)
    return [net.node("Conv", x, net.input(8, 8, 3, 3))]


def large_weights(net: FloatNetwork) -> list[str]:
    return [net.node("Conv", net.input(1, 8, 6, 6), net.constant(np.full((8, 8, 1, 1), 7e4, np.float32)))]


def scaled(net: FloatNetwork) -> list[str]:
    return [net.node("Gemm", net.input(4, 8), net.weights(8, 8), alpha=0.5)]


def matrix_on_the_left(net: FloatNetwork) -> list[str]:
    return [net.node("MatMul", net.weights(6, 4), net.input(4, 8))]


def of_batches(net: FloatNetwork) -> list[str]:
    return [net.node("MatMul", net.input(2, 4, 8), net.weights(2, 8, 3))]


@pytest.mark.parametrize(
    ("network", "op", "says"),
    [
        (computed_weights, "Conv", "not in float16: the kernels need a constant w: 'x1' is computed"),
        (large_weights, "Conv", "not in float16: its weights reach 70000, and float16 holds 65504"),
        (scaled, "Gemm", "not in float16: transA or alpha is given"),
        (matrix_on_the_left, "MatMul", "not in float16: its input 'c0' is a constant"),
        (of_batches, "MatMul", "not in float16: w has 3 dimensions; the kernels read 2"),
    ],
)
def test_what_kernels_do_not_take_is_an_expression_and_says_why(network: Network, op: str, says: str) -> None:
    model, fed = made(network)
    session = Session(model, "cpu", strict=True, floats="float16")
    assert says in why(session, op)
    assert {problem.op for problem in session.problems} == {"matmul"}
    np.testing.assert_array_equal(session.run(None, fed)[0], Session(model, "cpu").run(None, fed)[0])


def test_layers_in_keep_are_float32() -> None:
    model, fed = made(networks.products)
    names = [node.name for node in model.graph.node if node.op_type == "Gemm"]
    session = Session(model, "cpu", floats="bfloat16", keep={names[1]})
    assert [(row.op, row.floats) for row in session.explain().rows][1:] == [("Gemm", "bfloat16"), ("Gemm", "float32")]
    assert "float32 as asked for by keep" in session.explain().rows[2].why
    assert session.explain().advice.startswith("14.3 % of the multiplications are in floats")
    both = Session(model, "cpu", floats="bfloat16", keep=names)
    np.testing.assert_array_equal(both.run(None, fed)[0], Session(model, "cpu").run(None, fed)[0])


def test_shapes_may_be_known_with_the_inputs() -> None:
    model, fed = made(networks.residual)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.dim[0].dim_param = "N"
    session = Session(model, "cpu", floats="float16")
    want = Session(made(networks.residual)[0], "cpu", floats="float16").run(None, fed)
    for got, expected in zip(session.run(None, fed), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert convolutions(session)


def test_a_shape_that_is_inferred_wrongly_is_refused_by_a_sentence() -> None:
    """A last window of padding alone does not exist."""

    def network(net: FloatNetwork) -> list[str]:
        pads = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}
        return [net.conv(net.node("MaxPool", net.input(1, 4, 7, 7), **pads), 4, 4, 1, 1)]

    model, fed = made(network)
    with pytest.raises(ValueError, match="onnx infers a wrong shape for this model; leave floats out, or correct"):
        Session(model, "cpu", floats="float16").run(None, fed)


@pytest.mark.parametrize(
    ("says", "given"),
    [
        ("floats='int4' is not one of 'float32', 'float16', 'bfloat16'", {"floats": "int4"}),
        ("floats=3 is not one of", {"floats": 3}),
        ("keep='fc' must be a set of names of layers: write {'fc'}", {"floats": "float16", "keep": "fc"}),
        ("keep=7 must be a set of names", {"floats": "float16", "keep": 7}),
        (r"keep=\[1\] must have the names of layers, which are strings", {"floats": "float16", "keep": [1]}),
        ("keep names layers that stay float32, and floats='float32' keeps all", {"keep": {"conv0"}}),
        (
            r"keep has 'conv1', the name of no layer \(did you mean 'conv0'\?\)",
            {"floats": "float16", "keep": {"conv1"}},
        ),
        ("floats='float16' with bits='onnxruntime'", {"floats": "float16", "bits": "onnxruntime"}),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(says: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=says):
        Session(made(one_conv())[0], "cpu", **given)


def test_a_folder_has_the_type_of_its_floats(tmp_path: Path) -> None:
    model, fed = made(networks.residual)
    fed = {name: array / np.float32(3) for name, array in fed.items()}  # which float16 rounds
    folder = tmp_path / "model.qconv"
    assert not build(model, folder, "cpu", floats="float16", keep=["conv0"]).elsewhere
    want = Session(model, "cpu", floats="float16", keep=["conv0"]).run(None, fed)
    for got, expected in zip(Session(folder, "cpu").run(None, fed), want, strict=True):
        np.testing.assert_array_equal(got, expected)
    others: tuple[dict[str, Any], ...] = ({"floats": "float16"}, {})
    for other in others:
        assert not np.array_equal(Session(model, "cpu", **other).run(None, fed)[0], want[0])
    with pytest.raises(ValueError, match="has its own config, bits, floats and choices: leave floats out"):
        Session(folder, "cpu", floats="float16")
