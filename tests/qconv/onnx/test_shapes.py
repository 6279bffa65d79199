"""The convolutions of a model as problems, and the chains that they form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qconv import Conv2d, FusedBlock, FusedConv2d, PooledConv2d, Quantization
from qconv.onnx.shapes import read, workload_of
from qconv.tuner.workload import Workload


def tensor(name: str, shape: tuple[int, ...], dtype: Any = np.float32, value: int = 0) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(shape, value, dtype), name)


def model(
    nodes: list[Any], constants: list[Any], x: list[Any], y: str = "y", x_type: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", x_type, x)]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=y)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(name, 17) for name in ("", "somebody")])


def problems(workload: Workload, role: str = "layer") -> list[Any]:
    return [entry.problem for entry in workload.entries if entry.role == role]


def inverted_residual(batch: Any = "N") -> onnx.ModelProto:
    """Expand, filter, project; the first and last are followed by an activation, and the input is added at the end."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "expand"),
        helper.make_node("Clip", ["a", "zero", "six"], ["a6"]),
        helper.make_node("Conv", ["a6", "w2"], ["d"], "filter", pads=[1, 1, 1, 1], strides=[2, 2], group=48),
        helper.make_node("Relu", ["d"], ["dr"]),
        helper.make_node("Conv", ["dr", "w3"], ["p"], "project"),
        helper.make_node("Conv", ["p", "w4"], ["q"], "again", auto_pad="SAME_UPPER", dilations=[1, 2]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    shapes = {"w1": (48, 8, 1, 1), "w2": (48, 1, 3, 3), "w3": (16, 48, 1, 1), "w4": (16, 16, 2, 3)}
    constants = [tensor(name, shape) for name, shape in shapes.items()]
    limits = [tensor("zero", ()), tensor("six", (), value=6), tensor("b1", (48,))]
    return model(nodes, [*constants, *limits], [batch, 8, 14, 10])


def test_a_model_that_is_not_quantized_is_read_as_it_will_be() -> None:
    workload = workload_of(inverted_residual(), "m", batch=4)
    q = Quantization(per_channel=True)
    expand, depthwise, project, again = problems(workload)
    deployed = Quantization(per_channel=True, bias="int32", activation="relu6")
    assert expand == Conv2d(4, 14, 10, 8, 48, 1, 1, quantization=deployed)
    assert depthwise == Conv2d(
        *(4, 14, 10, 48, 48, 3, 3),
        stride=2,
        pad=1,
        groups=48,
        quantization=Quantization(per_channel=True, activation="relu"),
    )
    assert project == Conv2d(4, 7, 5, 48, 16, 1, 1, quantization=q)
    # SAME_UPPER puts the odd row of its padding below.
    assert again == Conv2d(4, 7, 5, 16, 16, 2, 3, dilation=(1, 2), pad=(0, 2, 1, 2), quantization=q)
    assert [entry.places for entry in workload.layers] == [("expand",), ("filter",), ("project",), ("again",)]


def test_three_axes_are_images() -> None:
    """The workload has the images that a session convolves, and no kernel of several layers."""
    taps = {"w1": (12, 3, 3, 7, 7), "w2": (8, 12, 3, 1, 1), "w3": (8, 2, 1, 3, 3), "w4": (4, 8, 1, 1, 1)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[2, 3, 3, 0, 3, 3], strides=[1, 2, 2]),
        helper.make_node("Conv", ["a", "w2"], ["b"], pads=[1, 0, 0, 1, 0, 0], strides=[2, 1, 1]),
        helper.make_node("Conv", ["b", "w3"], ["c"], pads=[0, 1, 1, 0, 1, 1], group=4),
        helper.make_node("Conv", ["c", "w4"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["y"], kernel_shape=[2, 2, 2]),
    ]
    read = workload_of(model(nodes, [tensor(name, shape) for name, shape in taps.items()], [2, 3, 8, 12, 10]), "m")
    q = Quantization(per_channel=True)
    assert problems(read) == [
        Conv2d(16, 12, 10, 9, 12, 7, 7, stride=2, pad=3, quantization=q),
        Conv2d(2, 8, 30, 12, 8, 3, 1, stride=(2, 1), pad=(1, 0, 1, 0), quantization=q),
        Conv2d(8, 6, 5, 8, 8, 3, 3, pad=1, groups=4, quantization=q),
        Conv2d(8, 6, 5, 8, 4, 1, 1, quantization=q),
    ]
    assert not problems(read, "fusion")
    assert not read.refused


def test_what_feeds_one_convolution_alone_may_be_fused_with_it() -> None:
    """Two and three convolutions; not those whose output has another reader, such as the addition after the
    projection."""
    workload = workload_of(inverted_residual(), "m", batch=4)
    expand, depthwise, project, _ = problems(workload)
    assert set(problems(workload, "fusion")) == {
        FusedConv2d(expand, depthwise),
        FusedBlock(expand, depthwise, project),
        FusedConv2d(depthwise, project),
    }
    entries = list(workload.entries)
    for entry in entries:
        for part in entry.problem.parts:
            assert part in [other.problem for other in entries], "parts are tuned as well"


def test_what_the_model_gives_as_well_is_not_fused() -> None:
    """A fused kernel does not write the tensor between its convolutions."""
    made = inverted_residual()
    made.graph.output.append(onnx.ValueInfoProto(name="a6"))
    workload = workload_of(made, "m", batch=4)
    _, depthwise, project, _ = problems(workload)
    assert problems(workload, "fusion") == [FusedConv2d(depthwise, project)]


def pooled(*, quantize: bool, **pool: Any) -> onnx.ModelProto:
    """Return Conv, Relu and MaxPool, with the pool between quantization and dequantization."""
    chain = [helper.make_node("Conv", ["x", "w"], ["c"], "conv", strides=[2, 2], pads=[1, 1, 1, 1])]
    chain.append(helper.make_node("Relu", ["c"], ["r"]))
    if quantize:
        chain.append(helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"]))
        chain.append(helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]))
    named: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    chain.append(helper.make_node("MaxPool", ["d" if quantize else "r"], ["y"], "pool", **(named | pool)))
    constants = [tensor("w", (8, 3, 3, 3)), tensor("s", (), value=1), tensor("z", (), np.uint8, 3)]
    return model(chain, constants, [1, 3, 16, 20])


@pytest.mark.parametrize("quantize", [False, True])
def test_a_convolution_and_the_pool_behind_it_may_be_fused(quantize: bool) -> None:
    workload = workload_of(pooled(quantize=quantize, ceil_mode=1), "m")
    (alone,) = problems(workload)
    assert alone.quantization.out_type == ("uint8" if quantize else "int8")
    assert alone.quantization.activation == "relu"
    problem = PooledConv2d.over(alone, window=3, window_stride=2, window_pad=1, ceil_mode=True)
    assert problems(workload, "fusion") == [problem]
    assert problems(workload, "part") == [problem.rest]
    (place,) = (entry.places for entry in workload.entries if entry.problem == problem)
    assert place == ("conv+pool",)


@pytest.mark.parametrize("pool", [{"dilations": [2, 2]}, {"kernel_shape": [9, 99]}, {"auto_pad": "VALID"}])
def test_pools_that_are_none_of_these(pool: dict[str, Any]) -> None:
    model = pooled(quantize=False, **pool)
    assert problems(workload_of(model, "m"), "fusion") == []
    with_indices = pooled(quantize=False)
    with_indices.graph.node[-1].output.append("indices")
    assert problems(workload_of(with_indices, "m"), "fusion") == []


def test_an_open_batch_is_asked_for_and_a_fixed_one_is_not_changed() -> None:
    with pytest.raises(ValueError, match=r"has no convolution to tune.*\(N, 8, 14, 10\): give --batch"):
        workload_of(inverted_residual(), "m")
    assert problems(workload_of(inverted_residual(2), "m"))[0].n == 2
    with pytest.raises(ValueError, match="batch=4, but the model's input 'x' has 2 images"):
        workload_of(inverted_residual(2), "m", batch=4)


def quantized(x_zero: int = 3, y_zero: int = 0) -> onnx.ModelProto:
    """Return DequantizeLinear, Conv, Relu, QuantizeLinear, as written by ONNX Runtime's quantize_static."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "zx"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "sw"], ["bf"], axis=0),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], "conv", pads=[0, 1, 2, 3]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "zy"], ["y"]),
    ]
    constants = [
        *(tensor("s", (), value=1), tensor("zx", (), np.uint8, x_zero), tensor("zy", (), np.uint8, y_zero)),
        *(tensor("sw", (6,), value=1), tensor("w", (6, 4, 3, 3), np.int8), tensor("zw", (6,), np.int8)),
        tensor("b", (6,), np.int32),
    ]
    return model(nodes, constants, [1, 4, 9, 9], x_type=TensorProto.UINT8)


def test_a_zero_point_in_a_file_that_is_not_there_may_be_any() -> None:
    made = quantized(0, 0)
    (zero,) = (each for each in made.graph.initializer if each.name == "zx")
    zero.ClearField("raw_data")
    zero.data_location = TensorProto.EXTERNAL
    zero.external_data.add(key="location", value="zeros.bin")
    (found,) = problems(workload_of(made, "m"))
    assert (found.quantization.x_zero_point, found.quantization.y_zero_point) == (True, False)


@pytest.mark.parametrize(("x_zero", "y_zero"), [(3, 0), (0, 128)])
def test_what_surrounds_a_convolution_says_its_types(x_zero: int, y_zero: int) -> None:
    (found,) = problems(workload_of(quantized(x_zero, y_zero), "m"))
    assert found == Conv2d(
        *(1, 9, 9, 4, 6, 3, 3),
        pad=(0, 1, 2, 3),
        quantization=Quantization(
            *("uint8", "int8", "uint8"),
            per_channel=True,
            x_zero_point=x_zero != 0,
            y_zero_point=y_zero != 0,
            bias="int32",
            activation="relu",
        ),
    )


def test_quantized_convolutions_behind_ops_that_onnx_does_not_know() -> None:
    """QLinearAdd is ONNX Runtime's own op: its output has the shape of its inputs."""
    q = ["x", "s", "zx", "w", "s", "zw", "s", "zx", "b"]
    added = helper.make_node("QLinearAdd", ["c", "s", "zx", "x", "s", "zx", "s", "zx"], ["a"], domain="com.microsoft")
    nodes = [
        helper.make_node("QLinearConv", q, ["c"], "one", pads=[1, 1, 1, 1]),
        added,
        helper.make_node("QLinearConv", ["a", *q[1:8]], ["y"], "two", pads=[1, 1, 1, 1]),
        helper.make_node("ConvInteger", ["a", "w"], ["z"], "three"),
    ]
    constants = [
        *(tensor("s", (), value=1), tensor("zx", (), np.uint8, 1), tensor("zw", (), np.int8)),
        *(tensor("w", (4, 4, 3, 3), np.int8), tensor("b", (4,), np.int32)),
    ]
    made = model(nodes, constants, [1, 4, 8, 8], x_type=TensorProto.UINT8)
    one, two, three = problems(workload_of(made, "m"))
    types = {"x_type": "uint8", "out_type": "uint8", "x_zero_point": True, "y_zero_point": True}
    geometry = (1, 8, 8, 4, 4, 3, 3)
    assert one == Conv2d(*geometry, pad=1, quantization=Quantization(bias="int32", **types))
    assert two == Conv2d(*geometry, pad=1, quantization=Quantization(**types))
    assert three == Conv2d(*geometry, quantization=Quantization("uint8", "int8", "int32"))


def test_what_is_no_problem_is_named_and_the_others_are_tuned() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "good"),
        helper.make_node("Strange", ["a"], ["b"], domain="somebody"),
        helper.make_node("Conv", ["b", "w"], ["y"], "unknown"),
    ]
    workload = workload_of(model(nodes, [tensor("w", (4, 4, 3, 3))], [1, 4, 8, 8]), "m")
    assert [entry.places for entry in workload.entries] == [("good",)]
    assert [refused.place for refused in workload.refused] == ["unknown"]
    assert "does not know the shape of its input 'b'" in workload.refused[0].reason


def test_a_sequence_has_one_axis_along_w(tmp_path: Path) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], "c", strides=[2], pads=[1, 2])]
    onnx.save(model(nodes, [tensor("w", (4, 4, 3))], [1, 4, 9]), tmp_path / "m.onnx")
    (found,) = problems(read(tmp_path / "m.onnx"))
    wanted = Conv2d(1, 1, 9, 4, 4, 1, 3, stride=(1, 2), pad=(0, 1, 0, 2), quantization=Quantization(per_channel=True))
    assert found == wanted


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("not a model")
    with pytest.raises(ValueError, match="is no ONNX model"):
        read(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "shape"),
    [
        ("QLinearMul", ["x", "s", "z", "x", "s", "z", "s", "z"], {}, (6, 8, 8)),
        ("QLinearSigmoid", ["x", "s", "z", "s", "z"], {}, (6, 8, 8)),
        ("QLinearConcat", ["s", "z", "x", "s", "z", "x", "s", "z"], {"axis": 1}, (12, 8, 8)),
        ("QLinearGlobalAveragePool", ["x", "s", "z", "s", "z"], {"channels_last": 0}, (6, 1, 1)),
        ("QLinearAveragePool", ["x", "s", "z", "s", "z"], {"kernel_shape": [2, 2], "strides": [2, 2]}, (6, 4, 4)),
    ],
)
def test_ops_of_onnx_runtime_have_known_shapes(
    op: str, inputs: list[str], attributes: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    channels, height, width = shape
    quantized = helper.make_node("QLinearConv", ["a", "s", "z", "w", "s", "z", "s", "z"], ["y"], "c")
    nodes = [helper.make_node(op, inputs, ["a"], domain="com.microsoft", **attributes), quantized]
    constants = [tensor("s", (), value=1), tensor("z", (), np.uint8), tensor("w", (5, channels, 1, 1), np.uint8)]
    (found,) = problems(workload_of(model(nodes, constants, [3, 6, 8, 8], x_type=TensorProto.UINT8), "m"))
    assert (found.n, found.c, found.h, found.w, found.k) == (3, channels, height, width, 5)
