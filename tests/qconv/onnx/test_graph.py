"""Models through the backend compared with ONNX Runtime bit for bit; refusals by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from qconv.device import gpu_specs

pytest.importorskip("onnx", reason="onnx is not installed")

import onnx
import onnx.reference

import qconv.onnx

OPSET = 21
DEVICES = ["CPU", pytest.param("CUDA", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    constants: dict[str, Any] | None = None,
    opset: int = OPSET,
    shapes: bool = True,
) -> Any:
    """Return a model with the output types that ONNX itself infers."""
    helper = onnx.helper
    shown = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape if shapes else [None] * array.ndim
        )
        for name, array in inputs.items()
    ]
    held = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", shown, [], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    inferred = {value.name: value for value in onnx.shape_inference.infer_shapes(made).graph.value_info}
    for name in outputs:
        output = made.graph.output.add()
        output.CopyFrom(inferred[name])
        if not output.type.tensor_type.HasField("shape"):  # ONNX's checker requires one, with unknown sizes
            rank = next(iter(inputs.values())).ndim
            output.type.tensor_type.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(rank))
    return made


def by_ort(model: Any, inputs: dict[str, Any]) -> list[Any]:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def assert_same(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    assert len(got) == len(wanted)
    for mine, theirs in zip(got, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert mine.tobytes() == theirs.tobytes()


def conv_model(
    rng: Any,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    x_type: str = "uint8",
    w_type: str = "uint8",
    y_type: str = "uint8",
    per_channel: bool = True,
    bias: bool = True,
    constant: bool = True,
    **attributes: Any,
) -> tuple[Any, dict[str, Any]]:
    """Return a model with powers of two as scales and odd zero points: ties."""

    def whole(shape: tuple[int, ...], dtype: str) -> Any:
        # This CPU may lack VNNI, where ONNX Runtime saturates uint8 * int8: the weights are small.
        limits = (-63, 64) if dtype == "int8" and x_type == "uint8" else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
        return rng.integers(*limits, shape).astype(dtype)

    k = w_shape[0]
    x = whole(x_shape, x_type)
    rest = {
        "x_scale": np.float32(0.5),
        "x_zero": np.asarray(7, x_type),
        "w": whole(w_shape, w_type),
        "w_scale": np.exp2(rng.integers(-4, 0, k)).astype("float32") if per_channel else np.float32(0.25),
        "w_zero": whole((k,), w_type) // 8 if per_channel else np.asarray(3, w_type),
        "y_scale": np.float32(np.exp2(np.ceil(np.log2(np.prod(w_shape[1:]))) + 3)),
        "y_zero": np.asarray(5, y_type),
    }
    if bias:
        rest["bias"] = rng.integers(-9999, 9999, k).astype("int32")
    rest = {name: np.asarray(array) for name, array in rest.items()}
    node = onnx.helper.make_node("QLinearConv", ["x", *rest], ["y"], **attributes)
    if constant:
        return model_of([node], {"x": x}, ["y"], rest), {"x": x}
    return model_of([node], {"x": x, **rest}, ["y"], shapes=False), {"x": x, **rest}


@pytest.mark.turns
@pytest.mark.parametrize(
    ("types", "x_shape", "w_shape", "given"),
    [
        (("uint8", "uint8", "uint8"), (2, 8, 9, 7), (12, 8, 3, 3), {"pads": [1, 2, 0, 1]}),
        (("int8", "int8", "int8"), (1, 6, 8, 8), (4, 3, 3, 2), {"group": 2, "strides": [2, 1], "per_channel": False}),
        (("uint8", "int8", "uint8"), (1, 5, 8, 9), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1], "bias": False}),
        (("uint8", "uint8", "uint8"), (1, 3, 9, 9), (4, 3, 3, 3), {"dilations": [2, 3], "constant": False}),
        (("uint8", "uint8", "uint8"), (1, 3, 10, 7), (4, 3, 4, 2), {"auto_pad": "SAME_UPPER", "strides": [3, 2]}),
        (("int8", "int8", "int8"), (1, 3, 10, 7), (4, 3, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [1, 2]}),
        (("uint8", "uint8", "uint8"), (1, 3, 10, 7), (4, 3, 2, 3), {"auto_pad": "VALID", "kernel_shape": [2, 3]}),
        (("uint8", "uint8", "uint8"), (2, 6, 15), (4, 3, 4), {"group": 2, "pads": [2, 1], "strides": [2]}),
        (("int8", "int8", "int8"), (1, 4, 9), (3, 4, 2), {"auto_pad": "SAME_LOWER", "dilations": [1]}),
    ],
    ids=["pads", "groups", "depthwise", "dilated", "same-upper", "same-lower", "valid", "one-axis", "one-axis-same"],
)
def test_qlinearconv_is_onnx_runtime(
    types: tuple[str, str, str], x_shape: Any, w_shape: Any, given: dict[str, Any], device: str
) -> None:
    model, inputs = conv_model(np.random.default_rng(1), x_shape, w_shape, *types, **given)
    assert_same(qconv.onnx.run_model(model, list(inputs.values()), device), by_ort(model, inputs))


@pytest.mark.parametrize("types", [("int8", "uint8", "int8"), ("uint8", "int8", "int8"), ("int8", "int8", "uint8")])
def test_every_pairing_of_types_is_the_oracle(types: tuple[str, str, str]) -> None:
    """ONNX Runtime lacks some of them."""
    from qconv import Conv2d, Quantization
    from qconv.ops import convolution

    model, inputs = conv_model(np.random.default_rng(2), (1, 4, 6, 6), (4, 4, 3, 3), *types)
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    names = {"x_scale": "x_scale", "w_scale": "w_scale", "y_scale": "y_scale", "bias": "bias"}
    names |= {"x_zero": "x_zero_point", "w_zero": "w_zero_point", "y_zero": "y_zero_point"}
    flags = dict.fromkeys(("per_channel", "x_zero_point", "w_zero_point", "y_zero_point"), True)
    chosen = dict(zip(("x_type", "w_type", "out_type"), types, strict=True))
    quantization = Quantization.of("ort", **chosen, bias="int32", **flags)
    problem = Conv2d(1, 6, 6, 4, 4, 3, 3, layout="nchw", quantization=quantization)
    values = problem.checked({names[name]: array for name, array in held.items() if name in names})
    (y,) = qconv.onnx.run_model(model, inputs)
    assert y.tobytes() == convolution.conv2d(problem, inputs["x"], held["w"], values).tobytes()


def test_convinteger_of_one_axis(device: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 256, (2, 3, 11)).astype("uint8")
    w = rng.integers(-128, 128, (4, 3, 3)).astype("int8")
    inputs = {"x": x, "w": w, "x_zero": np.uint8(9), "w_zero": np.array([1, -2, 0, 5], "int8")}
    node = onnx.helper.make_node("ConvInteger", list(inputs), ["y"], pads=[1, 1], strides=[2])
    (y,) = qconv.onnx.run_model(model_of([node], inputs, ["y"]), inputs, device)
    padded = np.pad(x.astype(int) - 9, ((0, 0), (0, 0), (1, 1)))
    wide = w.astype(int) - inputs["w_zero"][:, None, None]
    wanted = np.stack([np.einsum("ncs,kcs->nk", padded[:, :, at : at + 3], wide) for at in range(0, 11, 2)], 2)
    assert_same([y], [wanted.astype("int32")])


def chain(rng: Any) -> tuple[Any, dict[str, Any]]:
    """Return a chain of floats in and out, with a convolution in between, and a Constant among the nodes."""
    make = onnx.helper.make_node
    zero = onnx.numpy_helper.from_array(np.asarray(128, "uint8"))
    nodes = [
        make("Constant", [], ["zero"], value=zero),
        make("Constant", [], ["scale"], value_float=0.03125),
        make("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        make(
            "QLinearConv", ["q", "scale", "zero", "w", "w_scale", "w_zero", "y_scale", "zero", "b"], ["c"], pads=[1] * 4
        ),
        make("DequantizeLinear", ["c", "y_scale", "zero"], ["y"]),
    ]
    constants = {
        "w": rng.integers(0, 256, (8, 4, 3, 3)).astype("uint8"),
        "w_scale": rng.uniform(0.001, 0.01, 8).astype("float32"),
        "w_zero": rng.integers(0, 256, 8).astype("uint8"),
        "y_scale": np.asarray(0.0625, "float32"),
        "b": rng.integers(-999, 999, 8).astype("int32"),
    }
    x = rng.normal(size=(2, 4, 7, 7)).astype("float32")
    return model_of(nodes, {"x": x}, ["y", "c"], constants), {"x": x}


def test_several_nodes_in_one_graph(device: str) -> None:
    rng = np.random.default_rng(4)
    model, inputs = chain(rng)
    prepared = qconv.onnx.prepare(model, device)
    for _ in range(2):
        assert_same(prepared.run([inputs["x"]]), by_ort(model, inputs))
        inputs = {"x": rng.normal(size=(2, 4, 7, 7)).astype("float32")}


def test_dynamic_quantization_before_a_convolution(device: str) -> None:
    """The zero point is known only at run time."""
    rng = np.random.default_rng(5)
    make = onnx.helper.make_node
    nodes = [
        make("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]),
        make("ConvInteger", ["q", "w", "q_zero", "w_zero"], ["y"], pads=[1] * 4),
    ]
    constants = {"w": rng.integers(0, 256, (4, 3, 3, 3)).astype("uint8"), "w_zero": np.asarray(9, "uint8")}
    for low in (-1.0, 0.0):
        x = rng.uniform(low, 2, (1, 3, 6, 6)).astype("float32")
        model = model_of(nodes, {"x": x}, ["y", "q", "q_scale", "q_zero"], constants)
        assert_same(qconv.onnx.run_model(model, [x], device), by_ort(model, {"x": x}))


def linear(op: str, arrays: Sequence[Any], opset: int = OPSET, **attributes: Any) -> Any:
    inputs = dict(zip(("x", "scale", "zero"), map(np.asarray, arrays), strict=False))
    node = onnx.helper.make_node(op, list(inputs), ["y"], **attributes)
    return model_of([node], inputs, ["y"], opset=opset), inputs


@pytest.mark.turns
@pytest.mark.parametrize("out_type", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantize_and_dequantize_per_axis(axis: int, out_type: str, device: str) -> None:
    rng = np.random.default_rng(6)
    x = (rng.integers(-99, 99, (4, 5, 6)) / 4).astype("float32")
    scale = np.exp2(rng.integers(-3, 1, x.shape[axis])).astype("float32")
    zero = rng.integers(0, 100, x.shape[axis]).astype(out_type)
    model, inputs = linear("QuantizeLinear", (x, scale, zero), axis=axis)
    (q,) = qconv.onnx.run_model(model, inputs, device)
    assert_same([q], by_ort(model, inputs))
    model, inputs = linear("DequantizeLinear", (q, scale, zero), axis=axis)
    assert_same(qconv.onnx.run_model(model, inputs, device), by_ort(model, inputs))


@pytest.mark.parametrize("real", ["float16", "bfloat16"])
def test_sixteen_bit_reals(real: str, device: str) -> None:
    """The quotient is rounded to their type, as in the specification and in ONNX's reference."""
    rng = np.random.default_rng(7)
    kind = np.dtype(ml_dtypes.bfloat16) if real == "bfloat16" else np.dtype(real)
    x, scale = rng.normal(size=(6, 40)).astype(kind), rng.uniform(0.01, 0.05, 40).astype(kind)
    zero = rng.integers(-9, 9, 40).astype("int8")
    model, inputs = linear("QuantizeLinear", (x, scale, zero), axis=1)
    (q,) = qconv.onnx.run_model(model, inputs, device)
    assert_same([q], onnx.reference.ReferenceEvaluator(model).run(None, inputs))
    model, inputs = linear("QuantizeLinear", (x, scale, zero), opset=23, axis=1, precision=onnx.TensorProto.FLOAT)
    # In fp32, because the reference of an older onnx has no precision attribute.
    quotient = np.rint(x.astype("float32") / scale.astype("float32"))
    wanted = np.clip(quotient + zero, -128, 127).astype("int8")
    assert_same(qconv.onnx.run_model(model, inputs, device), [wanted])
    model, inputs = linear("DequantizeLinear", (q, scale, zero), opset=23, axis=1)
    (y,) = qconv.onnx.run_model(model, inputs, device)
    wide = ((q.astype(int) - zero) * scale.astype("float64")).astype("float32")
    assert_same([y], [wide.astype(kind)])


def test_int32_is_dequantized(device: str) -> None:
    x = np.arange(-5, 7, dtype="int32").reshape(3, 4) * 1000003
    model, inputs = linear("DequantizeLinear", (x, np.float32(0.01)))
    assert_same(qconv.onnx.run_model(model, inputs, device), by_ort(model, inputs))


def test_one_node_alone(device: str) -> None:
    node = onnx.helper.make_node("QuantizeLinear", ["x", "s", ""], ["y"])
    x = np.arange(6, dtype="float32")[::2]
    assert_same(qconv.onnx.run_node(node, [x, np.float32(2)], device), [np.array([0, 1, 2], "uint8")])


def test_inputs_with_a_default_may_be_left_out() -> None:
    model, inputs = linear("QuantizeLinear", (np.ones(4, "float32"), np.float32(0.5)))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(0.25, "float32"), "scale"))
    prepared = qconv.onnx.prepare(model)
    x = inputs["x"]
    assert [int(prepared.run(given)[0][0]) for given in ([x], [x, np.float32(0.5)], {"x": x})] == [4, 2, 4]


def test_devices() -> None:
    assert qconv.onnx.supports_device("CPU")
    assert qconv.onnx.supports_device("CUDA") == ("cuda:0" in gpu_specs())
    assert not qconv.onnx.supports_device("CUDA:99")
    assert not qconv.onnx.supports_device("OPENVINO")
    model, _ = chain(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"device='CUDA:99' is not here; there is CPU"):
        qconv.onnx.prepare(model, "CUDA:99")


X8 = np.zeros((1, 2, 4, 4), "uint8")
W8 = np.zeros((2, 2, 3, 3), "uint8")


def node_model(op: str, arrays: Sequence[Any], opset: int = OPSET, domain: str = "", **attributes: Any) -> Any:
    names = [f"in{index}" for index in range(len(arrays))]
    node = onnx.helper.make_node(op, names, ["y"], domain=domain, **attributes)
    made = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, map(np.asarray, arrays), strict=True)
    ]
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [None])
    opsets = [onnx.helper.make_opsetid(name, opset) for name in dict.fromkeys(("", domain))]
    return onnx.helper.make_model(onnx.helper.make_graph([node], "g", made, [y]), opset_imports=opsets)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (
            lambda: node_model("Relu", [np.zeros(2, "float32")]),
            "op Relu is not supported; this backend runs QLinearConv",
        ),
        (lambda: node_model("QLinearConv", [X8], domain="com.microsoft"), "op com.microsoft.QLinearConv"),
        (lambda: node_model("ConvInteger", [X8[None], W8[None]]), "x has 5 dimensions; supported are 4"),
        (lambda: node_model("ConvInteger", [X8, W8], auto_pad="SAME"), "auto_pad='SAME'; supported are NOTSET"),
        (lambda: node_model("ConvInteger", [X8, W8], auto_pad="VALID", pads=[1] * 4), "ONNX allows one only"),
        (lambda: node_model("ConvInteger", [X8, W8], axis=1), "(?s)not take it for a valid model.*axis"),
        (lambda: node_model("ConvInteger", [X8.astype("int16"), W8]), "x is int16; supported are int8, uint8"),
        (lambda: node_model("ConvInteger", [X8, W8, np.int8(0)]), "x_zero_point is int8, but x is uint8"),
        (
            lambda: node_model("QuantizeLinear", [np.zeros(3, "int32"), np.float32(1)]),
            "x is int32; supported are float32",
        ),
        (
            lambda: node_model("QuantizeLinear", [np.zeros(3, "float32"), np.float16(1)], 23),
            "divides float32 in float16",
        ),
        (
            lambda: node_model("QuantizeLinear", [np.zeros(3, "float32"), np.float32(1)], output_dtype=22),
            "output_dtype=int4; supported are int8",
        ),
        (lambda: node_model("QuantizeLinear", [np.zeros(3, "float64"), np.float32(1)]), "'in0' is double"),
        (
            lambda: node_model("QuantizeLinear", [np.zeros(3, "float32"), np.float32(1)], 99),
            "the model is of opset 99",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(made: Callable[[], Any], says: str) -> None:
    model = made()
    assert not qconv.onnx.is_compatible(model)
    with pytest.raises(qconv.onnx.Unsupported, match=says):
        qconv.onnx.prepare(model)


def test_parameters_of_a_wrong_size_are_refused() -> None:
    rng = np.random.default_rng(0)
    for name, says in (("w_zero", "w_zero_point has shape"), ("x_scale", "x_scale has shape"), ("bias", "bias has")):
        model, inputs = conv_model(rng, (1, 2, 4, 4), (3, 2, 1, 1), constant=False)
        inputs[name] = np.ones(2, inputs[name].dtype)
        for declared in model.graph.input:
            if declared.name == name and not declared.type.tensor_type.shape.dim:
                declared.type.tensor_type.shape.dim.add()
        with pytest.raises(ValueError, match=f"QLinearConv: {says}"):
            qconv.onnx.run_model(model, inputs)


def test_a_wrong_input_is_refused() -> None:
    model, inputs = linear("QuantizeLinear", (np.ones((2, 3), "float32"), np.ones(4, "float32")), axis=1)
    prepared = qconv.onnx.prepare(model)
    for given, says in (
        (inputs, r"QuantizeLinear: scale has shape \(4,\); x of shape \(2, 3\) with axis=1"),
        ([inputs["x"]], "1 inputs were given; the model takes 2: x, scale"),
        ({"x": inputs["x"]}, "the input 'scale' was not given"),
        ({**inputs, "z": inputs["x"]}, "the input 'z' is not known"),
        ({**inputs, "x": inputs["x"].astype("float64")}, "the input 'x' is float64; the model takes float32"),
        ({**inputs, "x": inputs["x"][:1]}, r"the input 'x' has shape \(1, 3\); the model takes \(2, 3\)"),
    ):
        with pytest.raises(ValueError, match=says):
            prepared.run(given)
