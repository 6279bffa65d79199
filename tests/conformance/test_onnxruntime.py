"""ONNX Runtime's QLinearConv on the CPU as an independent oracle: full-range models, tolerance 0.

Without VNNI its u8s8 kernels add pairs of products in int16, which saturates (its documentation says so and offers
`session.x64quantprecision`). The fixture `narrow` tests the host; where it saturates, u8s8 weights are drawn from [-64,
63], for which 2 * 255 * 64 still fits. u8u8 and s8s8 are exact everywhere, and use the full range.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, expected
from numpy.typing import NDArray
from random_problems import FLAGS, Decks, problems
from scales import near_ties, ties

from qconv import Conv2d, Quantization, generator
from qconv.device import Device, open_device
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.tuner.measure.verification import InputSets

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'qconv-tune[test]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'qconv-tune[test]'")

PAIRS = (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
DRAWS = 4  # models per problem: other data, scales and zero points for the same kernel
CHUNK = 13


def _problems(count: int) -> list[Conv2d]:
    """Return the geometries of the random problems, with quantizations that QLinearConv supports."""
    decks = Decks(random.Random("QLinearConv"))
    made = []
    for index, problem in enumerate(problems(seed=11, count=count)):
        x_type, w_type = PAIRS[index % len(PAIRS)]
        flags = {
            name: decks.deal(name, FLAGS) for name in ("per_channel", "x_zero_point", "w_zero_point", "y_zero_point")
        }
        bias = decks.deal("bias", ("none", "int32"))
        quantization = Quantization.of("ort", x_type=x_type, w_type=w_type, out_type=x_type, bias=bias, **flags)
        made.append(replace(problem, layout="nhwc", quantization=quantization))
    return made


PROBLEMS = _problems(130)
FIRSTS = range(0, len(PROBLEMS), CHUNK)


def infer(problem: Conv2d, drawn: registry.Sample) -> NDArray[Any]:
    """Create, load and run one model. ONNX uses NCHW and KCRS."""
    q, values = problem.quantization, problem.checked(drawn.parameters)
    channels = (problem.k,) if q.per_channel else ()
    constants = {
        "x_scale": np.float32(values.x_scale),
        "x_zero": np.dtype(q.x_type).type(values.x_zero_point),
        "w": drawn.arrays[1].transpose(0, 3, 1, 2),
        "w_scale": np.broadcast_to(np.float32(values.w_scale), channels),
        "w_zero": np.broadcast_to(np.asarray(values.w_zero_point, q.w_type), channels),
        "y_scale": np.float32(values.y_scale),
        "y_zero": np.dtype(q.out_type).type(values.y_zero_point),
    }
    if q.bias != "none":
        constants["bias"] = values.bias
    helper, type_of = onnx.helper, onnx.helper.np_dtype_to_tensor_dtype
    node = helper.make_node(
        "QLinearConv",
        ["x", *constants],
        ["y"],
        kernel_shape=(problem.r, problem.s),
        strides=problem.stride,
        dilations=problem.dilation,
        pads=problem.pad,
        group=problem.groups,
    )
    x = np.ascontiguousarray(drawn.arrays[0].transpose(0, 3, 1, 2))
    y_shape = tuple(problem.y_shape[axis] for axis in (0, 3, 1, 2))
    graph = helper.make_graph(
        [node],
        "one QLinearConv",
        [helper.make_tensor_value_info("x", type_of(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", type_of(np.dtype(q.out_type)), y_shape)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(v), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    return np.ascontiguousarray(y.transpose(0, 2, 3, 1))


@pytest.fixture(scope="module")
def narrow() -> bool:
    """Return true if this host saturates u8s8: 16 products of 255 * 127 are 518160, or 262136 if every pair saturates
    at 32767."""
    q = Quantization.of("ort", x_type="uint8", w_type="int8", out_type="uint8")
    problem = Conv2d(1, 1, 1, 16, 1, 1, 1, quantization=q)
    x, w = np.full(problem.x_shape, 255, "uint8"), np.full(problem.w_shape, 127, "int8")
    y = infer(problem, registry.Sample((x, w), {"y_scale": 4096.0}))
    assert y.item() in (64, 127)
    return bool(y.item() == 64)


def draws(index: int, narrow: bool) -> list[registry.Sample]:
    """Return two generic draws, one of ties and one of near ties."""
    problem = PROBLEMS[index]
    made = []
    for draw in range(DRAWS):
        drawn = registry.draw(problem, DRAWS * index + draw)
        if narrow and (problem.quantization.x_type, problem.quantization.w_type) == ("uint8", "int8"):
            drawn = replace(drawn, arrays=(drawn.arrays[0], drawn.arrays[1] >> 1))
        made.append(drawn)
    return [*made[:2], ties(made[2]), near_ties(problem, made[3], index)]


@pytest.mark.turns
@pytest.mark.parametrize("first", FIRSTS)
def test_the_oracle(first: int, narrow: bool) -> None:
    for index in range(first, first + CHUNK):
        for drawn in draws(index, narrow):
            assert_same(expected(PROBLEMS[index], drawn), infer(PROBLEMS[index], drawn), str(PROBLEMS[index]))


def check_kernels(first: int, narrow: bool, device: Device) -> None:
    for index in range(first, first + CHUNK):
        plan = generator.default(PROBLEMS[index], device.target)
        instance = load(plan, device)
        for drawn in draws(index, narrow):
            input_sets = InputSets(PROBLEMS[index], device, drawn, expected=(infer(PROBLEMS[index], drawn),))
            assert input_sets.mismatch(instance) is None, f"{plan.config} on {device.name}, {PROBLEMS[index]}"


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", FIRSTS)
def test_the_kernels_on_the_cpu(first: int, narrow: bool) -> None:
    check_kernels(first, narrow, open_device("cpu"))


@pytest.mark.gpu
@pytest.mark.parametrize("first", FIRSTS)
def test_the_kernels_on_a_gpu(first: int, narrow: bool, gpu: Device) -> None:
    check_kernels(first, narrow, gpu)


def test_what_the_models_cover() -> None:
    """There are at least 500 models, with every pairing and every kind of group."""
    assert DRAWS * len(PROBLEMS) >= 500
    depthwise = [p for p in PROBLEMS if p.c_group == 1 and p.groups > 1]
    assert len(depthwise) >= 15
    assert {1, 2, 3, 8} <= {p.groups for p in PROBLEMS if p not in depthwise}
    assert len({(p.quantization.x_type, p.quantization.w_type, p.quantization.per_channel) for p in PROBLEMS}) == 6
    assert any(len(set(p.pad)) > 2 for p in PROBLEMS)
