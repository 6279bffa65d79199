"""Names in reports are the model's own, where ONNX Runtime's optimizer has made other nodes of it."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from onnx import ModelProto, helper

from qconv.onnx import Session
from qconv.onnx.own_names import adopt_names


def names_of(nodes: list[Any], before: list[Any], taken: tuple[str, ...] = ()) -> list[str]:
    adopt_names(nodes, before, taken)
    return [node.name for node in nodes]


def node(name: str, x: str, y: str) -> Any:
    return helper.make_node("Relu", [x], [y], name=name)


def test_a_node_is_named_after_its_tensor() -> None:
    before = [node("first", "x", "a"), node("", "a", "b"), node("third", "b", "c")]
    assert names_of([node("fused_1", "x", "a"), node("fused_2", "a", "b"), node("third", "b", "c")], before) == [
        "first", "b", "third",
    ]  # fmt: skip


def test_what_was_added_has_the_name_of_what_it_was_made_for() -> None:
    """The parts of a function, and a copy, which is known by its name; what nobody reads is named after its maker."""
    before = [node("first", "x", "a"), node("second", "a", "b")]
    made = [
        node("first", "x", "a"), node("first/duplicated_token_0", "x", "a2"), node("_inlfunc_F", "a2", "t"),
        node("_inlfunc_G", "t", "b"), node("q_token_5", "b", "end"),
    ]  # fmt: skip
    assert names_of(made, before) == ["first", "first#2", "second#2", "second", "second#3"]


def test_a_name_is_given_once() -> None:
    assert names_of([node("f", "x", "t"), node("g", "t", "a")], [node("own", "x", "a")], ("own#2",)) == ["own#3", "own"]


@pytest.mark.parametrize("bits", ["integers", "onnxruntime"])
def test_a_report_has_no_invented_name(bits: str) -> None:
    model: ModelProto = networks.quantized(networks.NETWORKS["mobilenet_v3"](), "QDQ", "s8s8", False)
    known = {one.name for one in model.graph.node}
    rows = Session(model, "cpu", bits=bits).explain().rows
    assert {row.name.partition("#")[0] for row in rows} <= known
