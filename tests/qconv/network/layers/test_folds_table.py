"""A function of a convolution's output is folded into it if no bit changes, and is left alone otherwise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from one_node import whole_range
from session_comparison import RUNS, assert_equal
from stored_times import one_kernel, store

from qconv import generator
from qconv.device import open_device
from qconv.instances.load.serving import forget
from qconv.network import Choices, IntegerConvolution, find_regions, fold_tables_behind, read_layer
from qconv.network.layers.folds import with_table
from qconv.network.layers.table import Tabulated
from qconv.onnx import Session

# Kernels for several convolutions need matrix instructions, which the plain CPU device does not have.
DEVICE = open_device("cpu.sm_80")


@pytest.fixture(autouse=True)
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "times.sqlite"))
    forget()
    yield tmp_path / "times.sqlite"
    forget()


def function(model: Model, x: str, x_is: Any, y_is: Any, *ops: str) -> str:
    """Add float ops between a dequantization and a quantization."""
    name = model.node("DequantizeLinear", [x, *x_is])
    for op in ops:
        name = model.node(op, [name])
    return model.node("QuantizeLinear", [name, *y_is])


def quantized(model: Model, op: str, x: str, x_is: Any, y_is: Any, **attributes: Any) -> str:
    return model.node(op, [x, *x_is, *y_is], domain="com.microsoft", **attributes)


def ran(model: Model, *outputs: str, device: str = "cpu", **choice: bool | None) -> dict[str, str]:
    """Return the explanation of each layer, after checking that three runs had the bits of ONNX Runtime."""
    made = model.made(*outputs)
    session = Session(made, device, **({"tables_in_convolutions": True} | choice))
    for turn in range(RUNS):
        fed = {name: np.roll(array, turn, -1) for name, array in model.fed.items()}
        for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return {row.name: row.why for row in session.explain().rows}


@pytest.mark.turns
@pytest.mark.parametrize("what", ["QLinearSigmoid", "QLinearLeakyRelu", "HardSigmoid", "Sigmoid, Tanh"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_convolution_and_a_function_are_one_layer(dtype: str, what: str) -> None:
    for seed, (c, k, size) in enumerate([(8, 16, 3), (3, 5, 1)]):
        model = Model(dtype, seed)
        x = model.input(2, c, 6, 7)
        own_is, y_is = model.numbers(), model.numbers()
        own = model.conv(x, c, k, model.numbers(), own_is, size)
        if what.startswith("Q"):
            ops = (f"com.microsoft.{what}",)
            y = quantized(model, what, own, own_is, y_is)
        else:
            ops = ("DequantizeLinear", *what.split(", "), "QuantizeLinear")
            y = function(model, own, own_is, y_is, *what.split(", "))
        said = ran(model, y)
        assert list(said) == [own]
        assert said[own].startswith(f"QLinearConv, {', '.join(ops)} folded, which changes no bit")


def test_a_clamp_stays_in_front_of_the_table() -> None:
    """The sigmoid of a clamped number differs from that of the number."""
    model = Model("uint8", 12)
    own_is, y_is = model.numbers((0.1, 128)), model.numbers((0.004, 3))
    own = model.conv(model.input(2, 8, 6, 7), 8, 16, model.numbers(), own_is, 3)
    clamped = function(model, own, own_is, own_is, "Relu")
    said = ran(model, quantized(model, "QLinearSigmoid", clamped, own_is, y_is))
    ops = ("QLinearConv", "DequantizeLinear", "Relu", "QuantizeLinear", "com.microsoft.QLinearSigmoid")
    assert list(said) == [own]
    assert said[own].startswith(f"{', '.join(ops)} folded, which changes no bit")


def test_bytes_without_a_scale() -> None:
    """ONNX's Relu of int8: the table is of bytes alone."""
    model = Model("int8", 3)
    own = model.conv(model.input(2, 4, 5, 5), 4, 8, model.numbers(), model.numbers())
    assert list(ran(model, model.node("Relu", [own]))) == [own]


def test_a_product_of_matrices_and_a_function() -> None:
    model = Model("int8", 4)
    x, own_is = model.input(5, 16), model.numbers()
    w = model.constant(whole_range(model.rng, "int8", (16, 12)))
    w_is = model.constant(np.float32(0.004)), model.constant(np.int8(0))
    own = model.node("QLinearMatMul", [x, *model.numbers(), w, *w_is, *own_is])
    assert list(ran(model, quantized(model, "QLinearSigmoid", own, own_is, model.numbers()))) == [own]


def test_the_layer_that_reads_it_has_the_scale_of_the_table() -> None:
    """Two consecutive tables are folded as one; a convolution after a table reads the table's output."""
    model = Model("uint8", 5)
    a_is, b_is, c_is, d_is, e_is = (model.numbers() for _ in range(5))
    a = model.conv(model.input(2, 8, 5, 6), 8, 16, model.numbers(), a_is)
    b = quantized(model, "QLinearSigmoid", a, a_is, b_is)
    c = quantized(model, "QLinearLeakyRelu", b, b_is, c_is, alpha=0.3)
    d = model.conv(c, 16, 8, c_is, d_is, 3)
    said = ran(model, quantized(model, "QLinearLeakyRelu", d, d_is, e_is, alpha=-1.0))
    assert list(said) == [a, d]
    assert all(why.startswith("QLinearConv, com.microsoft.") for why in said.values())


def test_a_sum_behind_a_function_stays() -> None:
    """Even if both have one scale: it would add the table's output, which the epilogue does not support."""
    model = Model("uint8", 6)
    x, x_is = model.input(2, 8, 5, 6), model.numbers()
    a_is = b_is = model.numbers()
    a = model.conv(x, 8, 8, x_is, a_is)
    b = quantized(model, "QLinearSigmoid", a, a_is, b_is)
    y = model.add(b, b_is, x, x_is, model.numbers())
    for sums in (True, None):
        assert list(ran(model, y, sums_in_convolutions=sums)) == [a, y]


@pytest.mark.parametrize("what", ["read twice", "an output", "behind a sum"])
def test_what_is_left_alone(what: str) -> None:
    model = Model()
    x, x_is, own_is, y_is = model.input(2, 4, 5, 5), *(model.numbers() for _ in range(3))
    own = model.conv(x, 4, 4, x_is, own_is)
    if what == "behind a sum":
        sum_is = model.numbers()
        own, own_is = model.add(own, own_is, x, x_is, sum_is), sum_is
    outputs = [function(model, own, own_is, y_is, "HardSigmoid")]
    if what == "read twice":
        outputs.append(model.node("MaxPool", [own], kernel_shape=[2, 2]))
    if what == "an output":
        outputs.append(own)
    said = ran(model, *outputs, sums_in_convolutions=True)
    assert len(said) >= 2
    assert not any(why.startswith("QLinearConv") and "HardSigmoid" in why for why in said.values())


@pytest.mark.turns
@pytest.mark.parametrize("count", [2, 3])
def test_the_end_of_a_chain(count: int, times: Path) -> None:
    """Expand, filter and project in one kernel, with a function after the last; none after the others."""
    model = Model("int8", count)
    x_is, a_is, b_is, c_is, y_is = (model.numbers() for _ in range(5))
    a = model.conv(model.input(1, 16, 5, 6), 16, 32, x_is, a_is)
    b = model.depthwise(a, 32, a_is, b_is, 3)
    c = model.conv(b, 32, 16, b_is, c_is)
    y = function(model, c, c_is, y_is, "HardSigmoid")
    session = Session(model.made(y), DEVICE.spec, tables_in_convolutions=None)
    (region,) = session._described.runner._regions.values()
    plain, shapes = region.problems([array.shape for array in model.fed.values()])
    for fusion in region.fusions:
        wanted = (fusion.begin, fusion.end) == (3 - count, 4)
        plan = one_kernel(fusion.problem(shapes), DEVICE.target)
        store(times, DEVICE, [(plan, 5.0 if wanted else 1000.0)])
    store(times, DEVICE, [(generator.default(one, DEVICE.target), 10.0) for one in plain])
    forget()
    *_, why = ran(model, y, device=DEVICE.spec, tables_in_convolutions=None).values()
    ops = ["QLinearConv"] * count + ["DequantizeLinear", "HardSigmoid", "QuantizeLinear folded"]
    assert why.startswith(", ".join(ops))
    assert f"one kernel measured at 5.00 us, {10 * (count + 1)}.00 us unfused" in why


def test_a_function_within_a_chain_parts_it() -> None:
    model = Model("int8", 8)
    x_is, a_is, b_is, c_is = (model.numbers() for _ in range(4))
    a = model.conv(model.input(1, 16, 5, 6), 16, 32, x_is, a_is)
    b = function(model, a, a_is, b_is, "HardSigmoid")
    c = model.depthwise(b, 32, b_is, c_is, 3)
    said = ran(model, c, device=DEVICE.spec, fused_convolutions=True)
    assert len(said) == 2


def test_whichever_was_measured_to_be_faster(times: Path) -> None:
    model = Model("int8", 7)
    x_is, own_is, y_is = (model.numbers() for _ in range(3))
    own = model.conv(model.input(2, 16, 6, 6), 16, 24, x_is, own_is, 3)
    y = function(model, own, own_is, y_is, "HardSigmoid")
    said = ran(model, y, tables_in_convolutions=None)
    assert "one kernel predicted at" in said[own]
    session = Session(model.made(y), "cpu", tables_in_convolutions=None)
    session.run(None, model.fed)
    with_table, *alone = sorted(session.problems, key=lambda one: ":table" not in str(one))
    assert [one.op for one in alone] == ["conv2d", "table"]
    target = open_device("cpu")
    tens = [(generator.default(one, target.target), 10.0) for one in alone]
    for time_us, ops in ((21.0, {"QLinearConv": 1, "HardSigmoid": 1}), (19.0, {"QLinearConv": 1})):
        store(times, target, [*tens, (generator.default(with_table, target.target), time_us)])
        forget()
        session = Session(model.made(y), "cpu", sums_in_convolutions=True)
        rows = session.explain().rows
        assert Counter(row.op for row in rows) == ops
        (why,) = (row.why for row in rows if row.op == "QLinearConv")
        assert f"one kernel measured at {time_us:.2f} us, 20.00 us unfused" in why
    never = Session(model.made(y), "cpu", tables_in_convolutions=False)
    assert all("one kernel" not in row.why for row in never.explain().rows)


def test_the_pass_alone() -> None:
    model = Model("uint8", 9)
    own_is = model.numbers()
    own = model.conv(model.input(1, 4, 5, 5), 4, 8, model.numbers(), own_is)
    y = quantized(model, "QLinearSigmoid", own, own_is, model.numbers())
    network = Session(model.made(y), "cpu")._model.network
    served = {layer.name: read_layer(layer, network) for layer in network.layers}
    made, folded = fold_tables_behind(network, served)
    assert [(layer.name, layer.outputs) for layer in made.layers] == [(own, (y,))]
    assert (set(folded), folded[own].y) == ({own}, y)
    assert find_regions(made, folded, Choices())[1] == folded
    (region,) = find_regions(network, served, Choices(sums=False, chains=False))[1].values()
    assert [(one.begin, one.end) for one in region.fusions] == [(0, 2)]  # type: ignore[union-attr]
    assert find_regions(network, served, Choices(tables=False))[1] == served
    # Bytes of one type that become the other, and a table after a table.
    convolution, table = served[own], served[y]
    assert isinstance(convolution, IntegerConvolution)
    assert isinstance(table, Tabulated)
    assert with_table(network, convolution, table) is not None
    assert with_table(network, convolution, replace(table, table=table.table.view("int8"))) is None
    assert with_table(network, replace(convolution, parameters=folded[own].parameters), table) is None  # type: ignore[attr-defined]
