"""A max pool of a convolution's output is folded into it if no bit changes, and is left alone otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks
from integer_model import Model
from session_comparison import RUNS, assert_equal
from stored_times import store

from qconv import PooledConv2d, generator
from qconv.device import open_device
from qconv.instances.load.expected import Expectations, LookupTime
from qconv.instances.load.serving import forget
from qconv.network import Choices, IntegerConvolution, Region, find_regions, read_layer
from qconv.network.graph.served import Served
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.folds import with_pool, with_sum, with_table
from qconv.network.layers.pooling import QuantizedPool
from qconv.network.layers.table import Tabulated
from qconv.network.run.chained import chain
from qconv.onnx import Session
from qconv.onnx.ship import build
from qconv.op import Problem
from qconv.tensor_ops import GlobalAveragePool

POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}


@pytest.fixture(autouse=True)
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "times.sqlite"))
    forget()
    yield tmp_path / "times.sqlite"
    forget()


@pytest.fixture
def one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two kernels count as one, so that pools that no kernel serves here are folded too."""
    monkeypatch.setattr(LookupTime, "is_one_kernel", True)


def ran(model: Model, *outputs: str, **choice: bool | None) -> Session:
    """Return a session after checking that three of its runs had the bits of ONNX Runtime."""
    made = model.made(*outputs)
    session = Session(made, "cpu", **({"pools_in_convolutions": True, "fused_convolutions": False} | choice))
    for turn in range(RUNS):
        fed = {name: np.roll(array, turn, -1) for name, array in model.fed.items()}
        for name, got, want in zip(outputs, session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, f"{name}, run {turn}")
    return session


def said(session: Session) -> dict[str, str]:
    return {row.name: row.why for row in session.explain().rows}


def stem(dtype: str = "uint8", seed: int = 0, size: int = 3, **pool: Any) -> tuple[Model, str, str]:
    """Return a model of a convolution and a pool, and their names."""
    model = Model(dtype, seed)
    own = model.conv(model.input(2, 3, 9, 10), 3, 8, model.numbers(), model.numbers(), size)
    return model, own, model.node("MaxPool", [own], **(pool or POOL))


@pytest.mark.turns
@pytest.mark.parametrize(
    "pool",
    [
        POOL,
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 2], "strides": [1, 3], "pads": [2, 0, 1, 1], "dilations": [1, 1]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_convolution_and_a_pool_are_one_layer(dtype: str, pool: dict[str, Any], one_kernel: None) -> None:
    for seed, size in enumerate((3, 1)):
        model, own, y = stem(dtype, seed, size, **pool)
        session = ran(model, y)
        assert list(said(session)) == [own]
        assert said(session)[own].startswith("QLinearConv, MaxPool folded, which changes no bit; one kernel predicted")
        assert [type(one) for one in session.problems[:1]] == [PooledConv2d]
        assert [row.name for row in session.profile(model.fed).rows] == [own]


def test_where_no_kernel_is_for_both_they_stay_two() -> None:
    model, own, y = stem()
    for choice in (None, True, False):
        session = ran(model, y, pools_in_convolutions=choice)
        assert list(said(session)) == [own, y]
        assert [one.op for one in session.problems] == ["conv2d", "max_pool"]
        assert not any("one kernel" in why for why in said(session).values())


@pytest.mark.parametrize(("ratio", "is_near"), [(1.29, True), (1.31, False), (None, False)])
def test_a_kernel_that_is_nearly_as_fast_is_worth_measuring(
    ratio: float | None, is_near: bool, times: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers lookups that return two kernels: otherwise the single kernel would never be measured."""

    def one_kernel_us(self: Expectations, problem: Problem) -> float | None:
        (several,) = self.of([problem])
        assert several is not None
        return None if ratio is None else ratio * several.predicted_us

    monkeypatch.setattr(Expectations, "one_kernel_us", one_kernel_us)
    model, own, y = stem(seed=9)
    for choice in (None, True):
        session = ran(model, y, pools_in_convolutions=choice)
        assert list(said(session)) == [own, y]
        assert [one.op for one in session.problems] == ["conv2d", "max_pool"] + ["conv2d_pool"] * is_near
    if is_near:
        measured(times, session, 19.0)
        assert [one.op for one in ran(model, y).problems] == ["conv2d", "max_pool"]


def test_a_clamp_in_front_and_layers_behind(one_kernel: None) -> None:
    """The clamp belongs to the convolution. The reader of the pool begins its own region."""
    model = Model("int8", 1)
    own_is, y_is, z_is = model.numbers(), model.numbers(), model.numbers()
    own = model.conv(model.input(2, 3, 9, 10), 3, 8, model.numbers(), own_is, 3)
    real = model.node("Relu", [model.node("DequantizeLinear", [own, *own_is])])
    pool = model.node("MaxPool", [model.node("QuantizeLinear", [real, *own_is])], **POOL)
    behind = model.conv(pool, 8, 8, own_is, y_is, 3)
    z = model.add(behind, y_is, pool, own_is, z_is)
    session = ran(model, z, sums_in_convolutions=None)
    assert list(said(session)) == [own, behind]
    ops = ("QLinearConv", "DequantizeLinear", "Relu", "QuantizeLinear", "MaxPool folded")
    assert said(session)[own].startswith(", ".join(ops))
    assert "activation=relu" in str(session.problems[0])


def test_the_last_of_a_chain_has_no_pool(one_kernel: None) -> None:
    model = Model("int8", 2)
    mid_is = model.numbers()
    a = model.conv(model.input(1, 8, 6, 6), 8, 8, model.numbers(), mid_is)
    b = model.conv(a, 8, 8, mid_is, model.numbers(), 3)
    y = model.node("MaxPool", [b], **POOL)
    session = ran(model, y, fused_convolutions=None)
    assert list(said(session)) in ([a, b], [b, y])
    (region,) = session._described.runner._regions.values()
    assert [(one.begin, one.end) for one in region.fusions] == [(0, 2), (1, 3)]
    # The pool ends the region.
    assert [one.layer.name for one in region.elements] == [a, b, y]


@pytest.mark.parametrize("what", ["read twice", "an output", "behind a sum", "behind a table", "gaps", "average"])
def test_what_is_left_alone(what: str, one_kernel: None) -> None:
    model = Model("uint8", 3)
    x, x_is, own_is, z_is = model.input(2, 4, 9, 9), *(model.numbers() for _ in range(3))
    own = model.conv(x, 4, 4, x_is, own_is)
    if what == "behind a sum":
        own = model.add(own, own_is, x, x_is, z_is)
    if what == "behind a table":
        own = model.node("QLinearSigmoid", [own, *own_is, *z_is], domain="com.microsoft")
    if what == "average":
        pool = {"kernel_shape": [2, 2], "domain": "com.microsoft"}
        outputs = [model.node("QLinearAveragePool", [own, *own_is, *z_is], **pool)]
    else:
        outputs = [model.node("MaxPool", [own], **({**POOL, "dilations": [2, 2]} if what == "gaps" else POOL))]
    if what == "read twice":
        outputs.append(model.conv(own, 4, 4, own_is, z_is))
    if what == "an output":
        outputs.append(own)
    for always in (True, None):
        session = ran(model, *outputs, sums_in_convolutions=always, tables_in_convolutions=always)
        assert not any("Pool folded" in why for why in said(session).values())
        assert len(said(session)) == len(outputs) + 1 - (what == "an output")


def measured(times: Path, session: Session, time_us: float) -> PooledConv2d:
    """Store invented times: `time_us` for both kernels, and 10 us for each alone; return the problem of both."""
    *alone, pooled = session.problems
    assert [one.op for one in session.problems] == ["conv2d", "max_pool", "conv2d_pool"]
    assert isinstance(pooled, PooledConv2d)
    device = open_device("cpu")
    tens = [(generator.default(one, device.target), 10.0) for one in alone]
    plan = generator.unfused_plan(pooled, device.target, lambda one: generator.default(one, device.target).config)
    store(times, device, [*tens, (plan, time_us)])
    forget()
    return pooled


def test_whichever_was_measured_to_be_faster(one_kernel: None, times: Path) -> None:
    model, own, y = stem(seed=4)
    first = ran(model, y, pools_in_convolutions=None)
    assert list(said(first)) == [own, y]
    # A pair is predicted to take the sum of its parts: not clearly less, but worth measuring.
    assert "with what follows, one kernel predicted at" in said(first)[own]
    for time_us, ops in ((21.0, {"QLinearConv": 1, "MaxPool": 1}), (19.0, {"QLinearConv": 1})):
        pooled = measured(times, first, time_us)
        session = ran(model, y, pools_in_convolutions=None)
        assert Counter(row.op for row in session.explain().rows) == ops
        assert f"one kernel measured at {time_us:.2f} us, 20.00 us unfused" in said(session)[own]
        assert pooled in session.problems
        assert list(said(ran(model, y, pools_in_convolutions=False))) == [own, y]


@pytest.mark.slow
def test_a_folder_that_was_built_has_it(one_kernel: None, times: Path, tmp_path: Path) -> None:
    model, own, y = stem(seed=8)
    made, device = model.made(y), open_device("cpu")
    measured(times, Session(made, "cpu"), 19.0)
    (plan,) = build(made, tmp_path / "built", "cpu", device=device.name).plans
    assert own in {step.layer for step in plan.programs[0].steps}
    session = Session(tmp_path / "built", "cpu")
    for _ in range(RUNS):
        assert_equal(session.run(None, model.fed)[0], networks.by_ort(made, model.fed)[0], "built")


@pytest.mark.parametrize("form", networks.FORMATS)
def test_the_pool_of_a_network(form: str, one_kernel: None) -> None:
    """In QDQ models the pool is between integers once ONNX Runtime has rewritten the model."""
    made, fed = networks.quantized(networks.resnet_like(), form, "u8s8", per_channel=True), {"x": networks.images(2, 9)}
    session = Session(made, "cpu", pools_in_convolutions=True, fused_convolutions=False)
    for _ in range(RUNS):
        for got, want in zip(session.run(None, fed), networks.by_ort(made, fed), strict=True):
            assert_equal(got, want, form)
    assert sum("MaxPool folded, which changes no bit" in why for why in said(session).values()) == 1


def read(model: Model, *outputs: str) -> tuple[Any, dict[str, Served]]:
    network = Session(model.made(*outputs), "cpu")._model.network
    return network, {layer.name: read_layer(layer, network) for layer in network.layers}


def test_the_pass_alone() -> None:
    model, own, y = stem(seed=5)
    network, served = read(model, y)
    convolution, pool = served[own], served[y]
    assert isinstance(convolution, IntegerConvolution)
    assert isinstance(pool, QuantizedPool)
    (region,) = find_regions(network, served, Choices(sums=False, chains=False))[1].values()
    assert [(one.begin, one.end) for one in region.fusions] == [(0, 2)]  # type: ignore[union-attr]
    assert find_regions(network, served, Choices(pools=False))[1] == served
    made = with_pool(network, convolution, pool)
    assert made is not None
    assert (made.layer.outputs, made.y, made.inputs) == ((y,), y, convolution.inputs)
    shape = (2, 3, 9, 10)
    assert made.made_shape(shape, made.problem(shape)) == (2, 8, 5, 5)
    table = {**convolution.parameters, "table": np.arange(256, dtype=np.uint8)}
    gaps = {**pool.attributes, "dilations": [2, 1]}
    kinds = {"kind": GlobalAveragePool}
    refused: Sequence[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"parameters": table}, {}), ({"pooled": pool}, {}), ({"axes": 1}, {}), ({"out_type": "int8"}, {}),
        ({}, {"attributes": gaps}), ({}, kinds), ({}, {"x": "another"}),
        ({}, {"attributes": {**pool.attributes, "kernel_shape": [3]}}), ({}, {"layer": convolution.layer}),
    ]  # fmt: skip
    for of_convolution, of_pool in refused:
        given = replace(convolution, **of_convolution), replace(pool, **of_pool)
        assert with_pool(network, *given) is None, (of_convolution, of_pool)


def test_shapes_of_a_region() -> None:
    model, own, y = stem(seed=7)
    (region,) = find_regions(*read(model, y), Choices())[1].values()
    assert isinstance(region, Region)
    (x,) = region.inputs
    problems, shapes = region.problems([(2, 3, 9, 10)])
    assert [one.op for one in problems] == ["conv2d", "max_pool"]
    assert shapes == {x: (2, 3, 9, 10), own: (2, 8, 9, 10), y: (2, 8, 5, 5)}


def test_nothing_is_folded_behind_a_pool() -> None:
    """A sum, a table or a convolution would apply to the pool's output."""
    model = Model("uint8", 6)
    x, own_is, y_is = model.input(1, 4, 5, 5), model.numbers(), model.numbers()
    own = model.conv(x, 4, 4, model.numbers(), own_is)
    other = model.conv(x, 4, 4, model.numbers(), own_is)
    ends = [
        model.add(own, own_is, x, model.numbers(), y_is),
        model.node("QLinearSigmoid", [other, *own_is, *y_is], domain="com.microsoft"),
    ]
    pooled = model.node("MaxPool", [x], **POOL)
    network, served = read(model, *ends, pooled)
    convolution, table_of, add, table, pool = (served[name] for name in (own, other, *ends, pooled))
    assert isinstance(convolution, IntegerConvolution)
    assert isinstance(table_of, IntegerConvolution)
    assert isinstance(add, QuantizedBinary)
    assert isinstance(table, Tabulated)
    assert isinstance(pool, QuantizedPool)
    assert with_sum(network, convolution, add) is not None
    assert with_sum(network, replace(convolution, pooled=pool), add) is None
    assert with_table(network, table_of, table) is not None
    assert with_table(network, replace(table_of, pooled=pool), table) is None
    next_one = replace(convolution, parameters={**convolution.parameters, **of_x(convolution)})
    assert chain([convolution, next_one]) is not None
    assert chain([replace(convolution, pooled=pool), next_one]) is None
    assert chain([convolution, replace(next_one, pooled=pool)]) is None


def of_x(convolution: IntegerConvolution) -> dict[str, Any]:
    """Return the scale and the zero point with which a reader must read the output."""
    return {f"x_{what}": convolution.parameters[f"y_{what}"] for what in ("scale", "zero_point")}
