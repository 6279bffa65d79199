"""Models whose layers read computed shapes: for known inputs these are constants, and the layers run on kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import quantized_networks as networks
from integer_model import Model
from one_node import whole_range
from onnx import TensorProto, helper, numpy_helper
from session_comparison import RUNS, assert_equal
from unusual_models import Made, conv

from qconv.instances.load.serving import noted
from qconv.network import Layer, Network, Tensor
from qconv.network.run.runner import MOST_SHAPES
from qconv.onnx import Session, Unsupported
from qconv.onnx.known_shapes import MOST_OF_A_SHAPE, computes_shapes, deciding_inputs, with_known_shapes
from qconv.onnx.model import ReadModel, read
from qconv.onnx.ship import build

OPEN = {"shuffle": networks.open_shuffle_like, "pyramid": networks.open_pyramid_like}


def quantized(network: str) -> Any:
    return networks.quantized(OPEN[network](), "QDQ", "u8s8", per_channel=True)


def images(n: int, h: int, w: int, seed: int = 0) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal((n, 3, h, w)).astype(np.float32)}


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[str], held: dict[str, Any], version: int = 9) -> Any:
    """Return a model of opset 18. `held` are its initializers, and `outputs` may have any type and shape."""
    graph = helper.make_graph(
        nodes, "graph", inputs, [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=version)


def tensor(name: str, kind: int, *shape: int | str | None) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def known(model: Any, shapes: dict[str, tuple[int, ...]], **values: Any) -> ReadModel:
    return with_known_shapes(read(model, {}), shapes, {name: np.asarray(one) for name, one in values.items()}, {})


@pytest.mark.turns
@pytest.mark.parametrize("network", OPEN)
def test_every_layer_runs_on_kernels(network: str) -> None:
    model = quantized(network)
    session = Session(model, "cpu")
    assert "Shape" in session.explain().fallen_back, "no shape is known before the first run"
    for (n, h, w), runs in (((1, 16, 16), RUNS), ((2, 8, 12), 1), ((1, 16, 16), 1)):
        for turn in range(runs):
            fed = images(n, h, w, turn)
            assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"{n} x {h} x {w}, run {turn}")
        assert session.explain().fallen_back == {}
    assert sum(problem.op == "conv2d" for problem in session.problems) == 2 * len(
        [node for node in model.graph.node if node.op_type in ("Conv", "Gemm")]
    )


def test_a_strict_session_rejects_it_when_a_shape_is_known() -> None:
    model = networks.quantized(networks.open_shuffle_like(), "QDQ", "s8s8", per_channel=True)
    Session(quantized("shuffle"), "cpu", strict=True).run(None, images(1, 16, 16))
    session = Session(model, "cpu", strict=True, bits="onnxruntime")
    with pytest.raises(Unsupported, match=r"strict=True, but \d+ layers would run in ONNX Runtime"):
        session.run(None, images(1, 16, 16))


def test_a_prepared_session_looks_nothing_up_in_a_run() -> None:
    session = Session(quantized("shuffle"), "cpu")
    session.prepare({"x": (1, 3, 16, 32)})
    with noted() as looked_up:
        session.run(None, images(1, 16, 32))
    assert not looked_up
    with noted() as looked_up:
        session.run(None, images(1, 16, 16))
    assert looked_up


def test_a_model_without_computed_shapes_is_prepared_too() -> None:
    model = networks.quantized(networks.resnet_like(), "QDQ", "u8s8", per_channel=True)
    session = Session(model, "cpu")
    session.prepare({"x": (2, 3, 16, 16)})
    fed = {"x": networks.images(2, 9)}
    with noted() as looked_up:
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], "prepared")
    assert not looked_up
    session.run(None, {"x": networks.images(3, 9)})
    assert session.explain().fallen_back == {}


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"x": (1, 4, 16, 16)}, r"'x' cannot have the shape \(1, 4, 16, 16\); the model takes \(\?, 3, \?, \?\)"),
        ({"x": (1, 3, 16, -1)}, r"the shape of the input 'x' is .*; give a tuple of extents"),
        ({"x": "1x3"}, r"the shape of the input 'x' is '1x3'; give a tuple of extents"),
        ({"y": (1, 3)}, r"'y' is not known.*'x' was not given"),
    ],
)
def test_a_wrong_shape_is_no_shape_to_prepare_for(shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Session(quantized("pyramid"), "cpu").prepare(shapes)


def test_the_oldest_shape_is_forgotten() -> None:
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("ConstantOfShape", ["s"], ["y"])]
    session = Session(model_of(nodes, [tensor("x", TensorProto.FLOAT, "N")], ["y"], {}), "cpu")
    for extent in (*range(MOST_SHAPES + 3), MOST_SHAPES + 1):
        (y,) = session.run(None, {"x": np.ones(extent, np.float32)})
        assert y.shape == (extent,)
    assert len(session._ready) == MOST_SHAPES
    assert next(reversed(session._ready))[0] == (("x", (MOST_SHAPES + 1,)),), "the last one used stays longest"


def test_an_input_that_decides_a_shape_is_part_of_the_key() -> None:
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["sizes"]),
        helper.make_node("Reshape", ["x", "sizes"], ["y"]),
        helper.make_node("Add", ["other", "two"], ["z"]),
    ]
    inputs = [
        tensor("x", TensorProto.FLOAT, "N"),
        tensor("half", TensorProto.INT64, 2),
        tensor("other", TensorProto.INT64, 1),
    ]
    model = model_of(nodes, inputs, ["y", "z"], {"two": np.array([2], np.int64)})
    assert deciding_inputs(read(model, {}).network) == ("half",)
    session = Session(model, "cpu")
    x, other = np.arange(24, dtype=np.float32), np.array([7], np.int64)
    for half in ((2, 3), (1, 6), (3, 2), (2, 3)):
        y, z = session.run(None, {"x": x, "half": np.array(half, np.int64), "other": other})
        assert_equal(y, x.reshape(half[0] * 2, half[1] * 2), str(half))
        assert z == 9
    assert len(session._ready) == 3
    with pytest.raises(ValueError, match="the input 'half' decides shapes: give it in values, not its shape"):
        session.prepare({"x": (24,), "other": (1,), "half": (2,)})
    session.prepare({"x": (24,), "other": (1,)}, {"half": np.array([6, 1], np.int64)})
    assert len(session._ready) == 4


def test_the_scales_of_a_resize_decide_a_shape_and_no_other_floats_do() -> None:
    layers = (
        Layer("r", "Resize", ("x", "", "scales"), ("t",)),
        Layer("m", "Mul", ("factor", "factor"), ("scaled",)),
        Layer("s", "Resize", ("t", "", "scaled"), ("y",)),
    )
    tensors = {name: Tensor(name, "float32", (2,)) for name in ("x", "scales", "factor")}
    assert deciding_inputs(Network(tuple(tensors), ("y",), layers, tensors, {})) == ("scales",)


def test_a_default_that_decides_a_shape_may_be_overridden() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "to"], ["y"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Add", ["shape", "more"], ["sum"]),
    ]
    inputs = [tensor("x", TensorProto.FLOAT, "N"), *(tensor(name, TensorProto.INT64, None) for name in ("to", "more"))]
    held = {"to": np.array([2, -1], np.int64), "more": np.array([10], np.int64)}
    session = Session(model_of(nodes, inputs, ["y", "sum"], held), "cpu")
    x = np.arange(6, dtype=np.float32)
    y, total = session.run(None, {"x": x})
    assert (y.shape, total.tolist()) == ((2, 3), [16])
    y, total = session.run(None, {"x": x, "to": np.array([-1, 2], np.int64), "more": np.array([20], np.int64)})
    assert (y.shape, total.tolist()) == ((3, 2), [26])
    session.prepare({"x": (6,)})
    assert len(session._ready) == 2, "what was prepared is what ran with the defaults"


@pytest.mark.parametrize("version", [3, 9])
def test_a_shape_may_be_an_output_and_take_several_rounds(version: int) -> None:
    """The second Shape is known only after the first one's Reshape; Size, and a part of a shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["last"], start=-1),
        helper.make_node("Concat", ["minus", "last"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["rows"]),
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("Size", ["rows"], ["size"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Add", ["zeros", "rows"], ["y"]),
    ]
    held = {"minus": np.array([-1], np.int64)}
    inputs = [tensor("x", TensorProto.FLOAT, "A", "B", "C")]
    inputs += [tensor("minus", TensorProto.INT64, 1)] if version < 4 else []
    model = model_of(nodes, inputs, ["y", "shape", "size"], held, version)
    folded = known(model, {"x": (2, 3, 4)})
    assert [layer.op for layer in folded.network.layers] == ["Reshape", "Add"]
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    y, shape, size = Session(model, "cpu").run(None, {"x": x})
    assert_equal(y, x.reshape(6, 4), "y")
    assert (shape.tolist(), shape.dtype, size.tolist(), size.shape) == ([6, 4], np.int64, 24, ())


def test_random_numbers_and_graphs_are_computed_in_each_run() -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["t"])], "then", [], [tensor("t", TensorProto.INT64, 1)]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["zeros"]),
        helper.make_node("RandomNormalLike", ["zeros"], ["noise"], dtype=TensorProto.FLOAT),
        helper.make_node("If", ["is"], ["chosen"], then_branch=branch, else_branch=branch),
    ]
    model = model_of(
        nodes, [tensor("x", TensorProto.FLOAT, "N"), tensor("is", TensorProto.BOOL)], ["noise", "chosen"], {}
    )
    folded = known(model, {"x": (8,), "is": ()})
    assert [layer.op for layer in folded.network.layers] == ["RandomNormalLike", "If"]
    session = Session(model, "cpu")
    fed = {"x": np.zeros(8, np.float32), "is": np.array(True)}
    (one, chosen), (other, _) = session.run(None, fed), session.run(None, fed)
    assert (one != other).any()
    assert chosen == [8]


def test_weights_are_not_read_to_find_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of inference gets the weights' shapes alone; what follows from a shape may still read them."""
    weights = np.arange(2 * MOST_OF_A_SHAPE, dtype=np.float32)
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Slice", ["w", "zero", "s"], ["y"])]
    held = {"w": weights, "zero": np.array([0], np.int64)}
    model = model_of(nodes, [tensor("x", TensorProto.FLOAT, "N")], ["y"], held)
    inferred = []
    from qconv.onnx import known_shapes

    typed = known_shapes.typed_outputs
    monkeypatch.setattr(
        known_shapes, "typed_outputs", lambda proto, config: inferred.append(proto) or typed(proto, config)
    )
    assert_equal(Session(model, "cpu").run(None, {"x": np.zeros(5, np.float32)})[0], weights[:5], "y")
    assert inferred
    assert not any(one.name == "w" for proto in inferred for one in proto.graph.initializer)


def test_a_model_of_fixed_shapes_is_known_at_once() -> None:
    """ONNX Runtime does not fold the shape of a tensor that it cannot infer, such as that of a Reshape's target."""
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Reshape", ["x", "s"], ["y"])]
    proto = model_of(nodes, [tensor("x", TensorProto.FLOAT, 2, 3)], ["y"], {})
    assert computes_shapes(read(proto, {}).network)
    assert [layer.op for layer in known(proto, {"x": (2, 3)}).network.layers] == ["Reshape"]


@pytest.mark.parametrize("floats", [False, True])
def test_open_extents_are_made_known_only_where_a_layer_would_run_elsewhere(
    floats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of integers serve any shape; expressions are of known ones."""
    made = conv(given={"dynamic": True})
    nodes = [helper.make_node("DequantizeLinear", ["y", "y_s", "y_z"], ["d"]), helper.make_node("Abs", ["d"], ["z"])]
    proto = Made([*made.nodes, *nodes], made.feeds, made.held, ("z",), dynamic=True).proto if floats else made.proto
    seen: list[Any] = []

    def noted_shapes(model: Any, shapes: Any, *given: Any) -> Any:
        seen.append(shapes)
        return with_known_shapes(model, shapes, *given)

    monkeypatch.setattr("qconv.onnx.session.with_known_shapes", noted_shapes)
    session = Session(proto, "cpu", strict=True)
    for n in (1, 2, 1):
        fed = {name: np.repeat(x[:1], n, 0) for name, x in made.feeds.items()}
        assert_equal(session.run(None, fed)[0], networks.by_ort(proto, fed)[0], f"{n} images")
        assert session.explain().fallen_back == {}
    assert len(seen) == (2 if floats else 0)


@pytest.mark.turns
@pytest.mark.parametrize(("is_free", "op"), [(False, "DepthToSpace"), (False, "Reshape"), (True, "Flatten")])
def test_light_layers_wait_for_shapes_where_they_would_copy(is_free: bool, op: str) -> None:
    """Shapes that were not prepared run too."""
    made = Model()
    made.input(1, 8, 4, 6, open_shape=["n", 8, 4, 6])
    numbers = made.numbers()
    y = made.conv("x0", 8, 8, numbers, numbers)
    if op == "DepthToSpace":
        pooled = made.node("MaxPool", [y], kernel_shape=[1, 1])
        y = made.conv(made.node(op, [pooled], blocksize=2), 2, 4, numbers, numbers)
    elif op == "Reshape":
        y = made.conv(made.node(op, [y, made.constant(np.array([0, 4, 8, 6]))]), 4, 4, numbers, numbers)
    else:
        pooled = made.node("QLinearGlobalAveragePool", [y, *numbers, *numbers], domain="com.microsoft")
        w = made.constant(whole_range(made.rng, "uint8", (8, 5)))
        y = made.node("QLinearMatMul", [made.node(op, [pooled]), *numbers, w, *numbers, *numbers])
    model = made.made(y)
    session = Session(model, "cpu", strict=True)
    for count in (2, 3):
        fed = {"x0": np.repeat(made.fed["x0"], count, 0)}
        if count == 2:
            session.prepare({"x0": (2, 8, 4, 6)})
        with noted() as looked_up:
            assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"{count} images")
        assert bool(looked_up) == (count == 3)
    assert len(session._ready) == (1 if is_free else 2), "one of any shape, or one of each"


def test_a_shape_that_cannot_be_is_a_sentence() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "at"], ["extent"]),
        helper.make_node("ConstantOfShape", ["extent"], ["y"]),
    ]
    model = model_of(nodes, [tensor("x", TensorProto.FLOAT, None)], ["y"], {"at": np.array([3], np.int64)})
    with pytest.raises(ValueError, match=r"ONNX Runtime: .*Gather"):
        Session(model, "cpu").run(None, {"x": np.zeros(2, np.float32)})
    with pytest.raises(Unsupported, match=r"ONNX Runtime cannot compute what follows from known values \(Gather"):
        Session(model, "cpu", strict=True).run(None, {"x": np.zeros(2, np.float32)})


def test_a_model_that_is_not_taken_with_known_shapes_runs_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As onnx's own cases of AffineGrid, of whose If ONNX Runtime infers another rank."""

    def refused(*_: Any) -> Any:
        raise Unsupported("Range takes scalars")

    model = quantized("pyramid")
    monkeypatch.setattr("qconv.onnx.session.with_known_shapes", refused)
    session = Session(model, "cpu")
    for n in (1, 2):
        fed = images(n, 16, 16)
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"batch {n}")
    convolutions = [problem for problem in session.problems if problem.op == "conv2d"]
    assert len(convolutions) == len(set(convolutions)), "the one model is counted once"
    with pytest.raises(Unsupported, match="Range takes scalars"):
        Session(model, "cpu", strict=True).run(None, fed)


def test_a_built_folder_has_the_kernels_of_computed_shapes(tmp_path: Path) -> None:
    """With open extents besides the batch, `build` asks for fixed ones."""
    model = quantized("shuffle")
    with pytest.raises(Unsupported, match="extent 2 of the input 'x' is open"):
        build(model, tmp_path / "open", "cpu", batches=[1])
    for dim, extent in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], (16, 16), strict=True):
        dim.dim_value = extent
    assert not build(model, tmp_path / "built", "cpu", batches=[1, 2]).elsewhere
    session = Session(tmp_path / "built", "cpu")
    for n in (1, 2):
        fed = images(n, 16, 16)
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"batch {n}")
