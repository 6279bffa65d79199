"""Float layers around quantized ones match an InferenceSession, which uses blocked channels for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import float_islands
import quantized_networks as networks
from float_islands import Islands
from onnx import TensorProto, helper, numpy_helper
from unusual_models import Made, conv

from qconv.onnx import Session
from qconv.onnx.blocked import DOMAIN, REORDERS, in_blocks
from qconv.onnx.model import read, rewritten
from qconv.onnx.options import EXACT_SUMS

MORE_CHANNELS = (8, 12, 4, 16, 20, 3)


def check(proto: Any, feeds: Any) -> Session:
    session = Session(proto, "cpu", bits="onnxruntime")
    # A float convolution that happens to lie between DequantizeLinear and QuantizeLinear gets weights of 8 bits from
    # ONNX Runtime itself, whatever those of the model have.
    wanted = networks.by_ort(proto, feeds, EXACT_SUMS)
    for name, got, one in zip(session.output_names, session.run(None, feeds), wanted, strict=True):
        np.testing.assert_array_equal(got, one, err_msg=name)
    return session


def with_open(proto: Any, names: str) -> Any:
    """Make these extents of x dynamic. ONNX Runtime identifies equal ones by their names; "?" has none."""
    for dim, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, names, strict=True):
        if name != "C":
            dim.Clear()
            dim.dim_param = name.strip("?")
    return proto


# Models whose floats differ if each part decides its layouts alone; in the others, only if no batch has a name.
@pytest.mark.parametrize(("seed", "rounds", "is_open"), [(27, 2, False), (31, 2, True), (30, 1, True)])
def test_a_model_of_islands(seed: int, rounds: int, is_open: bool) -> None:
    made = Islands(seed).made(rounds)
    proto = made.proto
    if is_open:
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    check(proto, made.feeds)


def test_by_default_the_floats_are_expressions() -> None:
    """Their sums are in an order of their own: floats differ by at most 1e-6 of the largest, and no byte does here."""
    made = Islands(27).made(2)
    session = Session(made.proto, "cpu", strict=True)
    for got, wanted in zip(session.run(None, made.feeds), networks.by_ort(made.proto, made.feeds), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("extents", ["NCHW", "?C??"])
@pytest.mark.parametrize("channels", [float_islands.CHANNELS, MORE_CHANNELS])
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_models_of_islands(seed: int, channels: tuple[int, ...], extents: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float_islands, "CHANNELS", channels)
    made = Islands(seed).made(4)
    check(with_open(made.proto, extents), made.feeds)


def test_an_integer_behind_the_floats() -> None:
    """At scales for which the average and the float next to it are on opposite sides of a tie."""
    made = Islands(27).made(2)
    average = next(node.output[0] for node in made.nodes if node.op_type == "GlobalAveragePool")
    (reals,) = (
        value
        for name, value in zip(made.outputs, networks.by_ort(made.proto, made.feeds), strict=True)
        if name == average
    )
    largest = reals.flat[np.abs(reals).argmax()]
    for beside in (np.nextafter(largest, np.float32(np.inf)), np.nextafter(largest, np.float32(-np.inf))):
        scale = np.float32((float(largest) + float(beside)) / 2 / 20.5)
        nodes = [*made.nodes, helper.make_node("QuantizeLinear", [average, "o_s", "o_z"], ["o"])]
        held = {**made.held, "o_s": scale, "o_z": np.int8(0)}
        check(Made(nodes, made.feeds, held, ("o",)).proto, made.feeds)


def within_a_branch() -> Made:
    """A convolution after a quantized one, in only one of two graphs of an If."""
    made = conv(w_shape=(16, 4, 3, 3))
    w = numpy_helper.from_array(np.random.default_rng(2).standard_normal((16, 16, 3, 3)).astype(np.float32), "w_within")
    gives = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    node = helper.make_node
    averaged = [node("Conv", ["d", "w_within"], ["v"]), node("GlobalAveragePool", ["v"], ["z"])]
    branches = {
        "then_branch": helper.make_graph(averaged, "then", [], gives, [w]),
        "else_branch": helper.make_graph([node("Identity", ["d"], ["z"])], "else", [], gives),
    }
    nodes = [*made.nodes, node("DequantizeLinear", ["y", "y_s", "y_z"], ["d"]), node("If", ["yes"], ["o"], **branches)]
    return Made(nodes, {**made.feeds, "yes": np.array(True)}, made.held, ("o",))


def test_a_convolution_within_a_branch() -> None:
    made = within_a_branch()
    check(made.proto, made.feeds)


def test_layers_in_blocks_have_the_names_of_those_in_whose_place_they_stand() -> None:
    """Users look for these names. Only the layers that convert floats to blocks are new."""
    proto = Islands(27).made(2).proto
    for node in proto.graph.node:
        node.name = f"{node.op_type} that makes {node.output[0]}"
    model = read(rewritten(proto.SerializeToString(), {}), {})
    before, after = ({layer.name: layer for layer in one.network.layers} for one in (model, in_blocks(model, {})))
    added = [layer for name, layer in after.items() if name not in before]
    assert all(layer.op in REORDERS for layer in added)
    assert any(layer.op == f"{DOMAIN}.Conv" for layer in after.values()) == bool(added)


def test_a_model_without_float_convolutions_and_pools_is_as_it_was() -> None:
    model = read(rewritten(conv().proto.SerializeToString(), {}), {})
    assert in_blocks(model, {}) is model


def test_a_tensor_that_is_called_as_one_that_onnxruntime_adds() -> None:
    made = Islands(27).made(2)
    renamed = {"t0": "reorder", "t1": "reorder_token_1", "t3": "reorder_token_3", "t4": "reorder_token_5"}
    for node in made.nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    outputs = tuple(renamed.get(name, name) for name in made.outputs)
    check(Made(made.nodes, made.feeds, made.held, outputs).proto, made.feeds)
