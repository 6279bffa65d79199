"""A session compared with ONNX Runtime bit for bit: whole quantized networks, and the session's other features."""

from __future__ import annotations

import copy
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import quantized_networks as networks
from foreign import Foreign
from session_comparison import assert_equal, compare

import qconv
from qconv.conversion import Quantize
from qconv.device import Device
from qconv.device.cpu import CpuDevice
from qconv.errors import SlowNetwork
from qconv.onnx import Session, Unsupported
from qconv.onnx.asked_shapes import with_batch

# As quantize_static makes them, with and without the settings with which ONNX Runtime folds int8 on every processor.
QUANTIZED = [
    (form, types, per_channel, config)
    for form in networks.FORMATS
    for types in networks.TYPES
    for per_channel in (False, True)
    for config in (({}, networks.INT8_ALLOWED) if (form, types) == ("QDQ", "s8s8") else ({},))
]


# Layers in the fallback although ONNX Runtime has folded all convolutions: in the format QOperator, quantize_static
# leaves global pools in floats, and with them the functions of bytes that they read.
FLOAT_POOLS = {
    "squeeze_excite": {"DequantizeLinear": 1, "Div": 1, "GlobalAveragePool": 1, "QuantizeLinear": 1},
    "mobilenet_v3": {
        **dict.fromkeys(("DequantizeLinear", "HardSigmoid", "Mul", "GlobalAveragePool", "QuantizeLinear"), 3),
        "Flatten": 1,
    },
}


# Sums and tables that are part of the preceding convolutions.
FOLDED = {
    ("resnet", "QDQ"): 2,
    ("squeeze_excite", "QOperator"): 4,
    ("resnext", "QOperator"): 3,
    ("mobilenet_v3", "QDQ"): 10,
    ("mobilenet_v3", "QOperator"): 7,
}
NEVER = dict.fromkeys(
    ("sums_in_convolutions", "tables_in_convolutions", "pools_in_convolutions", "fused_convolutions"), False
)


def fallen_back(network: str, form: str) -> dict[str, int]:
    return FLOAT_POOLS.get(network, {}) if form == "QOperator" else {}


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(("form", "types", "per_channel", "config"), QUANTIZED)
@pytest.mark.parametrize("network", list(networks.NETWORKS))
def test_every_format_of_a_network(
    network: str, form: str, types: str, per_channel: bool, config: dict[str, str]
) -> None:
    model = networks.quantized(networks.NETWORKS[network](), form, types, per_channel)
    compare(model, config, {"x": networks.images(2, 9)}, in_convolutions=True)
    session, count = compare(model, config, {"x": networks.images(2, 9)})
    here = Counter(row.op for row in session.explain().rows if row.runs_on == "qconv")
    convolutions, matrices = (
        sum(node.op_type in (op, quantized) for node in model.graph.node)
        for op, quantized in (("Conv", "QLinearConv"), ("Gemm", "QGemm"))
    )
    if (form, types) != ("QDQ", "s8s8") or config:
        assert (here["QLinearConv"], here["com.microsoft.QGemm"]) == (convolutions, matrices)
        assert session.explain().fallen_back == fallen_back(network, form)
        assert count >= convolutions + 3
    else:  # some of them in floats, as in ONNX Runtime
        assert 3 <= here["QLinearConv"] < convolutions


@pytest.mark.turns
@pytest.mark.parametrize("form", networks.FORMATS)
def test_no_kernel_turns_the_images_but_the_one_that_quantizes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transposition used to be the second launch of a network."""
    model = networks.quantized(networks.NETWORKS["resnext"](), form, "u8s8", per_channel=True)
    turned = []
    exchanged = CpuDevice.exchanged
    monkeypatch.setattr(CpuDevice, "exchanged", lambda *given: turned.append(given) or exchanged(*given))
    session = Session(model, "cpu")
    for turn in range(3):
        fed = {"x": np.roll(networks.images(2, 9), turn, -1)}
        assert_equal(session.run(None, fed)[0], networks.by_ort(model, fed)[0], f"run {turn}")
    assert not turned
    first = session.problems[0]
    assert isinstance(first, Quantize)
    assert (first.shape, first.channels_last) == ((2, 3, networks.SIZE**2), True)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("network", "form", "types"),
    [
        ("resnet", "QDQ", "u8s8"),
        ("squeeze_excite", "QOperator", "s8s8"),
        ("resnext", "QOperator", "s8s8"),
        ("mobilenet_v3", "QDQ", "u8u8"),
        ("mobilenet_v3", "QOperator", "u8s8"),
    ],
)
def test_a_network(network: str, form: str, types: str) -> None:
    model = networks.quantized(networks.NETWORKS[network](), form, types, per_channel=True)
    feeds = {"x": networks.images(2, 9)}
    kernels = {}
    for in_convolutions in (True, False):
        session, count = compare(model, {}, feeds, in_convolutions=in_convolutions)
        explanation = session.explain()
        assert explanation.fallen_back == fallen_back(network, form)
        sums = "QLinearConv, com.microsoft.QLinearAdd folded"
        folded = sum(row.why.startswith(sums) for row in explanation.rows)
        assert (folded > 0) == in_convolutions
        kernels[in_convolutions] = len(session.problems)
        assert count >= 9
    assert kernels[False] - kernels[True] == FOLDED[network, form]
    # A division by a constant, between quantized tensors.
    whys = [row.why for row in explanation.rows if row.op == "Div" and row.runs_on == "qconv"]
    assert len(whys) == (2 if network == "squeeze_excite" else 0)
    assert all("DequantizeLinear, Div, QuantizeLinear folded" in why for why in whys)


@pytest.mark.turns
@pytest.mark.parametrize("types", networks.TYPES)
@pytest.mark.parametrize("form", networks.FORMATS)
def test_shuffled_channels(form: str, types: str) -> None:
    """All of it runs here, and each shuffle is one layer with channels-last tensors."""
    model = networks.quantized(networks.shuffle_like(), form, types, per_channel=True)
    config = networks.INT8_ALLOWED if (form, types) == ("QDQ", "s8s8") else {}
    session, count = compare(model, config, {"x": networks.images(2, 9)})
    explanation = session.explain()
    assert explanation.fallen_back == {}
    whys = [row.why for row in explanation.rows if row.why.startswith("Reshape, Transpose, Reshape folded")]
    assert len(whys) == 3
    assert all(" which changes no bit; shuffle, " in why for why in whys)
    assert count >= 15


@pytest.mark.gpu
@pytest.mark.parametrize("form", networks.FORMATS)
@pytest.mark.parametrize("network", list(networks.NETWORKS))
def test_a_network_on_a_gpu(network: str, form: str, gpu: Device) -> None:
    model = networks.quantized(networks.NETWORKS[network](), form, "u8s8", per_channel=True)
    for in_convolutions in (False, True):
        compare(model, {}, {"x": networks.images(3, 9)}, gpu.spec, in_convolutions)


@pytest.fixture(scope="module")
def model() -> Any:
    return networks.quantized(networks.mobilenet_like(), "QOperator", "u8s8", per_channel=False)


@pytest.fixture(scope="module")
def session(model: Any) -> Session:
    return Session(model, "cpu")


def test_any_batch_in_turn(model: Any, session: Session) -> None:
    for count in (1, 2, 1):
        feeds = {"x": networks.images(count, count)}
        assert_equal(session.run(["gemm17"], feeds)[0], networks.by_ort(model, feeds)[0], f"{count} images")


@pytest.mark.slow
def test_what_a_session_runs_can_be_tuned(model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tunes all of its kernels, for the shapes that have run; a new session then uses the winners."""
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "tune.sqlite"))
    x = networks.images(2, 5)
    session = Session(model, "cpu", **NEVER)
    session.run(None, {"x": x})
    ops = Counter(problem.op for problem in session.problems)
    here = [row for row in session.explain().rows if row.runs_on == "qconv"]
    assert sum(ops.values()) == sum("no kernel" not in row.why for row in here)
    assert ops["conv2d"] == sum(row.op in ("QLinearConv", "com.microsoft.QGemm") for row in here)
    qconv.tune(session.problems, 3, device="cpu")
    tuned = Session(model, "cpu", **NEVER)
    assert_equal(tuned.run(None, {"x": x})[0], session.run(None, {"x": x})[0], "tuned")
    reasons = [row.why for row in tuned.explain().rows if row.op == "QLinearConv"]
    assert reasons
    assert all("kept in a network's race" in why for why in reasons), reasons


def test_a_clamp_that_onnxruntime_leaves_is_folded() -> None:
    """With symmetric activations, the outputs of a convolution and of the following Relu have one scale."""
    model = networks.quantized(networks.resnet_like(), "QOperator", "s8s8", True, ActivationSymmetric=True)
    session, _ = compare(model, {}, {"x": networks.images(1, 4)})
    folded = [row for row in session.explain().rows if "Relu, QuantizeLinear folded" in row.why]
    # After the additions it is a table; before the pool, which is in floats, it stays.
    assert Counter(row.op for row in folded) == {"QLinearConv": 2, "Relu": 2}
    assert session.explain().fallen_back["Relu"] == 1


def test_what_runs_where_and_why(session: Session) -> None:
    session.run(None, {"x": networks.images(2, 0)})
    explanation = session.explain()
    assert not explanation.fallen_back
    rows = {row.op: row for row in explanation.rows}
    assert rows["Flatten"].why == "no kernel: the same bytes in another shape"
    assert rows["QuantizeLinear"].bytes_in == 4 * 2 * 3 * networks.SIZE**2
    assert rows["com.microsoft.QGemm"].bytes_out == 0
    assert rows["DequantizeLinear"].bytes_out == 4 * 2 * networks.CLASSES
    assert explanation.crossing_bytes == 4 * 2 * (3 * networks.SIZE**2 + networks.CLASSES)
    assert "13 of 13 layers run on qconv's kernels; elsewhere: nothing" in str(explanation)


@pytest.fixture(scope="module")
def partly() -> Any:
    """Return a model of which some layers run in the fallback with ONNX Runtime's bits."""
    return networks.quantized(networks.squeeze_excite_like(), "QOperator", "u8s8", per_channel=False)


def test_strict_names_all_that_would_fall_back(partly: Any) -> None:
    fallen = Session(partly, "cpu", bits="onnxruntime").explain().fallen_back
    assert fallen["GlobalAveragePool"] == 1
    with pytest.raises(Unsupported) as raised:
        Session(partly, "cpu", strict=True, bits="onnxruntime")
    said = str(raised.value)
    assert f"{sum(fallen.values())} layers would run in ONNX Runtime" in said
    for op in fallen:
        assert op in said


def test_strict_takes_what_runs_here_as_a_whole() -> None:
    nodes = [onnx.helper.make_node("ConvInteger", ["x", "w", "z"], ["y"])]
    held = {"w": np.ones((2, 3, 1, 1), np.int8), "z": np.uint8(3)}
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, [1, 3, 2, 2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)
    constants = [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    session = Session(model, "cpu", strict=True)
    # Its shape is known, so the kernel was chosen before the first run.
    assert "simt" in session.explain().rows[0].why
    (got,) = session.run(None, {"x": np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2)})
    np.testing.assert_array_equal(got, [[[[3, 6], [9, 12]]] * 2])


def test_strict_holds_for_every_shape() -> None:
    nodes = [onnx.helper.make_node("ConvInteger", ["x", "w"], ["y"])]
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, ["N", 3, 2, 2])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)
    w = onnx.numpy_helper.from_array(np.ones((2, 3, 1, 1), np.int8), "w")
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [w])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    empty = {"x": np.zeros((0, 3, 2, 2), np.uint8)}
    assert Session(model, "cpu").run(None, empty)[0].shape == (0, 2, 2, 2)
    with pytest.raises(Unsupported, match=r"for inputs of these shapes ConvInteger \(y\) would run in ONNX Runtime"):
        Session(model, "cpu", strict=True).run(None, empty)


def test_why_a_float_convolution_stays_one() -> None:
    model = networks.quantized(networks.resnet_like(), "QDQ", "s8s8", per_channel=False)
    rows = [row for row in Session(model, "cpu", bits="onnxruntime").explain().rows if row.op == "Conv"]
    assert rows
    assert all('bits="integers" makes it an integer layer' in row.why for row in rows)


@pytest.mark.turns
@pytest.mark.parametrize("network", ["resnet", "mobilenet"])
def test_int8_activations_are_integer_layers_by_default(network: str) -> None:
    """They are those of ONNX Runtime with the setting that allows it, on every processor."""
    model = networks.quantized(networks.NETWORKS[network](), "QDQ", "s8s8", per_channel=True)
    feeds = {"x": networks.images(2, 9)}
    for given in ({}, {"bits": "integers"}, {"bits": "onnxruntime", "config": networks.INT8_ALLOWED}):
        session = Session(model, "cpu", strict=True, **given)
        assert_equal(session.run(None, feeds)[0], networks.by_ort(model, feeds, networks.INT8_ALLOWED)[0], str(given))
        assert "matmul" not in {problem.op for problem in session.problems}, "a product of floats"
    floats = Session(model, "cpu", config={"session.qdqisint8allowed": "0"}, bits="onnxruntime")
    assert_equal(floats.run(None, feeds)[0], networks.by_ort(model, feeds)[0], "in floats")
    assert floats.explain().fallen_back["Conv"] > 0
    with pytest.raises(ValueError, match="bits='floats' is not one of 'integers', 'onnxruntime'"):
        Session(model, "cpu", bits="floats")


def test_a_setting_overrides_bits() -> None:
    """ONNX Runtime leaves some convolutions of int8 in floats then, which kernels of expressions compute."""
    model = networks.quantized(networks.NETWORKS["resnet"](), "QDQ", "s8s8", per_channel=True)
    for config, convolutions in (({}, True), ({"session.qdqisint8allowed": "0"}, False)):
        layers = Session(model, "cpu", config=config)._model.network.layers
        assert any(layer.op == "QLinearConv" for layer in layers)
        assert all(layer.op != "Conv" for layer in layers) == convolutions


def test_the_bytes_of_an_open_batch_are_those_of_the_last_run(model: Any) -> None:
    session = Session(model, "cpu")
    assert session.explain().crossing_bytes is None
    for count in (2, 1):
        feeds = {"x": networks.images(count, 0)}
        (y,) = session.run(None, feeds)
        assert session.explain().crossing_bytes == feeds["x"].nbytes + y.nbytes


def test_a_session_warns_once_about_what_runs_elsewhere(model: Any, partly: Any) -> None:
    whole, part = Session(model, "cpu"), Session(partly, "cpu", bits="onnxruntime")
    feeds = [{"x": networks.images(count, 0)} for count in (1, 1, 2)]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for fed in feeds:
            whole.run(None, fed)
        assert not given
        for fed in feeds:
            part.run(None, fed)
    (said,) = given
    assert (said.category, Path(said.filename)) == (SlowNetwork, Path(__file__))
    assert re.match(
        r"\d+ of \d+ layers, with \d+\.\d % of the multiplications, run elsewhere, in \d parts, and \d+ B",
        str(said.message),
    )
    assert "no kernel here computes" in str(said.message)


def test_causes_carry_what_follows_from_them(partly: Any) -> None:
    """Conversions beside a layer of floats are no causes, and multiplications stand first."""
    session = Session(partly, "cpu", bits="onnxruntime")
    session.run(None, {"x": networks.images(1, 0)})
    explanation = session.explain()
    assert not any("come from elsewhere" in one.why or "read elsewhere" in one.why for one in explanation.causes)
    weights = [(one.operations, one.bytes) for one in explanation.causes]
    assert weights == sorted(weights, reverse=True)
    assert sum(one.operations for one in explanation.causes) == sum(
        row.operations or 0 for row in explanation.rows if row.runs_on != "qconv"
    )


def test_a_profile_gives_an_explanation_its_times(session: Session, partly: Any) -> None:
    feeds = {"x": networks.images(1, 0)}
    assert all(row.measured_us is None for row in session.explain().rows)
    assert all(row.measured_us for row in session.explain(session.profile(feeds)).rows)
    part = Session(partly, "cpu", bits="onnxruntime")
    explanation = part.explain(profile := part.profile(feeds))
    assert explanation.measured_us == pytest.approx(profile.total_us)


def test_random_feeds_are_of_the_known_shapes(model: Any) -> None:
    (x,) = Session(with_batch(model, 2), "cpu").random_feeds(seed=1).values()
    assert (x.shape, x.dtype) == (networks.images(2, 0).shape, np.float32)
    assert np.unique(x).size > x.size // 2
    with pytest.raises(ValueError, match="the shape of its input 'x' is unknown before the first run"):
        Session(model, "cpu").random_feeds()


def test_a_profile_has_every_step(session: Session, partly: Any) -> None:
    feeds = {"x": networks.images(1, 0)}
    profile = session.profile(feeds)
    assert Counter(row.runs_on for row in profile.rows) == {"qconv": 13}
    assert all(row.time_us > 0 for row in profile.rows)
    assert str(profile).endswith("us  in all")
    # Fallback layers are one step if they are one subgraph.
    rows = Session(partly, "cpu", bits="onnxruntime").profile(feeds).rows
    assert any(row.runs_on == "fallback" and row.op.endswith(" layers") for row in rows)


def test_a_path_and_bytes_are_taken_as_a_model_is(model: Any, tmp_path: Path) -> None:
    feeds = {"x": networks.images(1, 1)}
    (wanted,) = networks.by_ort(model, feeds)
    onnx.save(model, tmp_path / "model.onnx")
    onnx.save(
        copy.deepcopy(model),
        tmp_path / "apart.onnx",
        save_as_external_data=True,
        location="apart.bin",
        size_threshold=0,
    )
    for given in (str(tmp_path / "model.onnx"), tmp_path / "apart.onnx", model.SerializeToString()):
        assert_equal(Session(given, "CPU").run(None, feeds)[0], wanted, type(given).__name__)


def test_no_name_at_all_is_every_output(session: Session) -> None:
    """As in ONNX Runtime."""
    feeds = {"x": networks.images(1, 2)}
    assert [y.tolist() for y in session.run([], feeds)] == [y.tolist() for y in session.run(None, feeds)]


def test_arrays_of_other_libraries_are_taken(model: Any, session: Session) -> None:
    x = networks.images(1, 2)
    (got,) = session.run_on_device(None, {"x": Foreign(x)})
    assert_equal(got, networks.by_ort(model, {"x": x})[0], "of DLPack")


def test_an_array_of_another_library_is_copied_where_vectors_do_not_reach_it(session: Session) -> None:
    x = networks.images(1, 2)
    odd = np.empty(x.size + 1, np.float32)[1:].reshape(x.shape)
    odd[:] = x
    assert odd.ctypes.data % 16
    held = session._fed("x", Foreign(odd)).on_device
    assert held.ctypes.data % 16 == 0
    assert_equal(held, x, "copied")


def test_what_is_fed_replaces_a_default() -> None:
    floats = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "b", "y")]
    one = onnx.numpy_helper.from_array(np.ones(2, np.float32), "b")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "b"], ["y"])], "g", floats[:2], floats[2:], [one]
    )
    session = Session(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9))
    x, b = np.float32([1, 2]), np.float32([5, 7])
    assert session.run(None, {"x": x})[0].tolist() == [2, 3]
    assert session.run(None, {"x": x, "b": b})[0].tolist() == [6, 9]


def test_arrays_may_be_given_in_order_or_by_name(session: Session) -> None:
    x = networks.images(1, 0)
    wanted = session.run(None, {"x": x})[0].tolist()
    assert [session.run(None, [x])[0].tolist(), session(x)[0].tolist(), session(x=x)[0].tolist()] == [wanted] * 3
    with pytest.raises(ValueError, match="the input 'x' was given twice, in order and by name"):
        session(x, x=x)


def test_its_repr_says_what_it_takes_and_gives(session: Session) -> None:
    assert repr(session) == f"<Session: x float32(?, 3, 16, 16) to gemm17 on {session.device.name}>"
    ready = session._described
    report, lowered = session.explain(), session._lowered
    assert repr(ready.network) == f"<Network: x to gemm17 by {len(ready.network.layers)} layers>"
    assert (
        repr(report)
        == f"<Explanation: {len(report.rows)} of {len(report.rows)} layers on kernels; print it for the report>"
    )
    assert repr(lowered) == f"<Lowered: {len(lowered.served)} layers on kernels, 0 elsewhere, of {lowered.network!r}>"


@pytest.mark.parametrize(
    ("says", "names", "feeds"),
    [
        ("the input 'x' was not given; the model takes x", None, {}),
        ("the input 'z' is not known; the model takes x", None, {"x": networks.images(1, 0), "z": 1}),
        ("the input 'x' is float64; the model takes float32", None, {"x": networks.images(1, 0).astype(float)}),
        (r"'x' has shape \(1, 3, 16\); the model takes \(\?, 3, 16, 16\)", None, {"x": networks.images(1, 0)[:, :, 0]}),
        ("the output 'z' is not known; the model gives gemm17", ["z"], {"x": networks.images(1, 0)}),
        ("output_names='gemm17' must be a list of names, or None for all: write \\['gemm17'\\]", "gemm17", {}),
        ("output_names=3 must be a list of names", 3, {}),
        ("feeds are arrays by the names of inputs, or a list of arrays; int was given: write {'x': array}", None, 1),
        ("2 arrays were given; the model takes x: leave some out", None, [1, 2]),
    ],
)  # fmt: skip
def test_a_wrong_call_is_refused(session: Session, says: str, names: Any, feeds: Any) -> None:
    with pytest.raises(ValueError, match=says):
        session.run(names, feeds)


@pytest.mark.parametrize(
    ("says", "given"),
    [
        ("there is no file '/nowhere/model.onnx'", "/nowhere/model.onnx"),
        ("there is no file ''; give the path of an ONNX model", ""),
        ("a model is a path, bytes or an onnx.ModelProto; int was given", 3),
        ("does not take the model", b"no protobuf at all"),
    ],
)
def test_what_is_no_model_is_refused(says: str, given: Any) -> None:
    with pytest.raises(ValueError, match=says):
        Session(given, "cpu")
