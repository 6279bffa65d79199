"""Convolutions that can be fused into one layer; test_arrange.py checks the bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from integer_model import Model
from one_node import whole_range
from overlaps import asked_to_overlap

from qconv.device import open_device
from qconv.network import IntegerConvolution, Layer, Network, Tensor, read_layer
from qconv.network.graph.value import Value
from qconv.network.run.chained import chain
from qconv.onnx import Session


def convolutions(model: Model, *outputs: str) -> list[IntegerConvolution]:
    choice = {"sums_in_convolutions": True, "tables_in_convolutions": True, "fused_convolutions": False}
    session = Session(model.made(*outputs), "cpu", **choice)
    return [one for one in session._described.runner._served.values() if isinstance(one, IntegerConvolution)]


@pytest.mark.parametrize(("scale", "zero_point"), [(0.05, 3), (0.06, 3), (0.05, 4)])
def test_what_is_between_them_is_read_as_it_was_written(scale: float, zero_point: int) -> None:
    model = Model()
    x = model.input(1, 4, 5, 5)
    mid = model.conv(x, 4, 8, model.numbers(), model.numbers((0.05, 3)))
    y = model.conv(mid, 8, 4, model.numbers((scale, zero_point)), model.numbers())
    made = chain(convolutions(model, y))
    assert (made is not None) == ((scale, zero_point) == (0.05, 3))
    if made is not None:
        assert (made.inputs, made.y) == ((x,), y)
        assert [part.op for part in made.layer.parts] == ["QLinearConv"] * 2
        assert set(made.layer.inputs) & {x, mid} == {x}
        given = made.parameters(made.problem((1, 4, 5, 5)))
        assert (float(given["mid_scale"]), int(given["mid_zero_point"])) == (np.float32(0.05), 3)


@pytest.mark.parametrize("zero_point", [3, 4])
def test_sums_are_of_bytes_with_the_same_zero_point_and_any_scale(zero_point: int) -> None:
    """ConvInteger has no scales, neither of its input nor of its sums, which end a chain."""
    model = Model()
    mid = model.conv(model.input(1, 4, 5, 5), 4, 8, model.numbers(), model.numbers((0.05, 3)))
    (first,) = convolutions(model, mid)
    held = {"w": np.ones((4, 8, 1, 1), np.uint8), "w_z": np.asarray(zero_point, np.uint8)}
    layer = Layer("sums", "ConvInteger", (mid, "w", "w_z"), ("y",))
    second = read_layer(layer, Network((mid,), ("y",), (layer,), {mid: Tensor(mid, "uint8")}, held))
    assert isinstance(second, IntegerConvolution)
    assert (chain([first, second]) is not None) == (zero_point == 3)
    assert chain([replace(second, y=first.x), first]) is None


@pytest.mark.parametrize("gains", [False, True])
def test_its_launch_overlaps_where_that_gains(gains: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, device = Model(), open_device("cpu.sm_90a")
    mid = model.numbers()
    y = model.conv(model.conv(model.input(1, 4, 5, 5), 4, 8, model.numbers(), mid), 8, 4, mid, model.numbers())
    made = chain(convolutions(model, y))
    assert made is not None
    asked = asked_to_overlap(gains, monkeypatch)
    prepared = made.prepare([(1, 4, 5, 5)], device)
    prepared(Value(device, channels_last=device.upload(np.zeros((1, 5, 5, 4), "uint8"))))
    assert asked
    assert set(asked) == {gains}


def test_a_sum_is_the_last_ones() -> None:
    model = Model()
    x, residual = model.input(1, 4, 5, 5), model.input(1, 4, 5, 5)
    a_is, b_is = model.numbers(), model.numbers()
    a = model.conv(x, 4, 4, model.numbers(), a_is)
    b = model.add(a, a_is, residual, model.numbers(), b_is)
    y = model.conv(b, 4, 4, b_is, model.numbers())
    first, second = convolutions(model, y)
    assert first.added is not None
    assert chain([first, second]) is None


def test_a_table_is_the_last_ones() -> None:
    """Its output has its own scale and zero point, for which a chain has no parameter."""
    model = Model()
    a_is = model.numbers()
    a = model.conv(model.input(1, 4, 5, 5), 4, 4, model.numbers(), a_is)
    b = model.node("QLinearSigmoid", [a, *a_is, *a_is], domain="com.microsoft")
    first, second = convolutions(model, model.conv(b, 4, 4, a_is, model.numbers()))
    assert first.has_table
    assert chain([first, second]) is None


def test_a_convolution_of_one_axis_is_no_part_of_one() -> None:
    model = Model()
    x, x_is = model.input(1, 4, 9), model.numbers()
    for _ in range(2):
        w, y_is = model.constant(whole_range(model.rng, "uint8", (4, 4, 3))), model.numbers()
        x = model.node("QLinearConv", [x, *x_is, w, *model.numbers((0.004, 0)), *y_is], kernel_shape=[3])
        x_is = y_is
    assert [one.axes for one in convolutions(model, x)] == [1, 1]
    assert chain(convolutions(model, x)) is None


def test_a_product_of_matrices_is_no_part_of_one() -> None:
    model, held = Model(), []
    x, x_is = model.input(5, 4), model.numbers()
    for _ in range(2):
        w: Any = model.constant(np.eye(4, dtype="uint8"))
        y_is = model.numbers()
        x = model.node("QLinearMatMul", [x, *x_is, w, *model.numbers((1.0, 0)), *y_is])
        x_is = y_is
        held.append(x)
    assert chain(convolutions(model, x)) is None
