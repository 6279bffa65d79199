"""A library as an operator of ONNX Runtime: a session with its nodes has the oracle's bits, and what is wrong with a
node is a sentence."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from built_library import SUPPORT, build, builds
from library_cases import BYTES, CASES, FILTER, PROJECT, SMALL, plan_of, plan_with_scratch, small, winner_of

from qconv import Conv2d, FusedConv2d, Quantization
from qconv.instances.library.vectors import given
from qconv.instances.library.write import write
from qconv.op import Array, Problem, Sample
from qconv.ops import registry
from qconv.ops.registry import op_of

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = [builds, pytest.mark.slow, pytest.mark.thirds]

CHAIN = FusedConv2d(FILTER, PROJECT)
BEHIND = Conv2d(1, 5, 5, 8, 6, 1, 1, quantization=Quantization(per_channel=True, bias="float32", out_type="float32"))
SERVED: dict[str, Problem] = {
    "parameters": SMALL,
    "a chain with a residual": CHAIN,
    "scratch memory": plan_with_scratch().problem,
    "constants of an expression": BYTES,
    "values per channel": BEHIND,
    "two outputs": next(problem for family, _, problem in CASES if family == "choosing"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    plans = [plan_of("unfused", "cpu", CHAIN), plan_of("map", "cpu", BYTES), plan_of("simt", "cpu", BEHIND)]
    plans += [plan_with_scratch(), plan_of("choosing", "cpu", SERVED["two outputs"])]
    write([small(), *map(winner_of, plans)], folder)
    header = f"-DQCONV_ONNXRUNTIME_INCLUDE={SUPPORT / 'stub_onnxruntime'}"
    flags = ("-DBUILD_SHARED_LIBS=ON", "-DQCONV_PREBUILT=ON", "-DQCONV_BUILD_TESTS=OFF")
    return build(folder, *flags, "-DQCONV_BUILD_ONNXRUNTIME_OP=ON", header)


def node(problem: Problem, drawn: Sample, names: Mapping[str, str], **changed: Any) -> Any:
    """Return a node for a problem. `names` maps its tensors to the graph's."""
    values = {name: value.tolist() for name, value in given(drawn).items()}
    tensors = [tensor.name for tensor in problem.inputs if tensor.name not in problem.packed] + list(problem.packed)
    outputs = [names.get(tensor.name, tensor.name) for tensor in problem.outputs]
    attributes = {"key": str(problem)} | values | changed
    present = {name: value for name, value in attributes.items() if value is not None}
    inputs = [names.get(name, name) for name in tensors]
    return onnx.helper.make_node("Kernel", inputs, outputs, domain="qconv", **present)


def value_info(name: str, array: Array) -> Any:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def session(built: Path, nodes: list[Any], inputs: Mapping[str, Array], outputs: Mapping[str, Array], kept: Any) -> Any:
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in kept.items()]
    ends = [[value_info(*one) for one in arrays.items()] for arrays in (inputs, outputs)]
    graph = onnx.helper.make_graph(nodes, "graph", *ends, initializers)
    imports = [onnx.helper.make_opsetid("", 20), onnx.helper.make_opsetid("qconv", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(built / "libqconv_onnxruntime.so"))
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def single(rounded: Sample) -> Sample:
    """Return a sample with scales that are fp32, as attributes are."""
    values = {
        name: np.float32(value) if value is not None and np.asarray(value).dtype.kind == "f" else value
        for name, value in rounded.parameters.items()
    }
    return Sample(rounded.arrays, values)


def parts(problem: Problem, drawn: Sample) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the arrays by name: the inputs, and those that are packed."""
    arrays = dict(zip((tensor.name for tensor in problem.inputs), drawn.arrays, strict=True))
    kept = {name: arrays.pop(name) for name in problem.packed}
    return arrays, kept


def one_node(built: Path, problem: Problem, drawn: Sample, **changed: Any) -> Any:
    inputs, kept = parts(problem, drawn)
    outputs = {t.name: a for t, a in zip(problem.outputs, op_of(problem).compute(problem, drawn), strict=True)}
    return session(built, [node(problem, drawn, {}, **changed)], inputs, outputs, kept), inputs, list(outputs.values())


@pytest.mark.parametrize("problem", SERVED.values(), ids=SERVED)
def test_a_node_has_the_bits_of_the_oracle(built: Path, problem: Problem) -> None:
    drawn = single(registry.draw(problem, 3))
    running, inputs, wanted = one_node(built, problem, drawn)
    for _ in range(2):
        for got, right in zip(running.run(None, inputs), wanted, strict=True):
            assert np.array_equal(got.view(np.uint8), right.view(np.uint8))


def test_a_key_may_be_spelled_in_any_way(built: Path) -> None:
    drawn = single(registry.draw(SMALL, 3))
    spelled = "conv2d:bias=int32:x_zero_point:activation=clamp:pad=1:n=1:h=5:w=5:c=8:k=8:r=3:s=3"
    running, inputs, (wanted,) = one_node(built, SMALL, drawn, key=spelled)
    assert np.array_equal(running.run(None, inputs)[0], wanted)


def test_types_between_nodes_are_inferred(built: Path) -> None:
    """The model does not say what the tensor between the two is."""
    one, two = (single(registry.draw(problem, 4)) for problem in (SMALL, BEHIND))
    (middle,) = op_of(SMALL).compute(SMALL, one)
    (wanted,) = op_of(BEHIND).compute(BEHIND, Sample((middle, *two.arrays[1:]), two.parameters))
    nodes = [node(SMALL, one, {"y": "middle"}), node(BEHIND, two, {"x": "middle", "w": "w2"})]
    kept = {"w": one.arrays[1], "w2": two.arrays[1]}
    running = session(built, nodes, {"x": one.arrays[0]}, {"y": wanted}, kept)
    assert np.array_equal(running.run(None, {"x": one.arrays[0]})[0], wanted)


def test_threads_run_one_session(built: Path) -> None:
    """A kernel with scratch memory: each run has a workspace of its own."""
    problem = SERVED["scratch memory"]
    drawn = single(registry.draw(problem, 5))
    running, inputs, (wanted,) = one_node(built, problem, drawn)
    right: list[bool] = []

    def work() -> None:
        right.extend(np.array_equal(running.run(None, inputs)[0], wanted) for _ in range(5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 20


def test_what_is_wrong_with_a_node_is_said(built: Path) -> None:
    drawn = single(registry.draw(SMALL, 6))
    wrong = {
        "QCONV_NO_KERNEL: this library has no kernel for conv2d:n=1": {"key": "conv2d:n=1"},
        "QCONV_BAD_ARGUMENT: the key has nn, which is no field of conv2d": {"key": "conv2d:nn=1"},
        "bias was not given, and this problem needs it": {"bias": None},
        "x_zero_point holds 300": {"x_zero_point": 300},
        "there is no CPU device 3": {"device": 3},
    }
    for says, changed in wrong.items():
        with pytest.raises(Exception, match=says):
            one_node(built, SMALL, drawn, **changed)
    inputs, kept = parts(SMALL, drawn)
    (y,) = op_of(SMALL).compute(SMALL, drawn)
    with pytest.raises(Exception, match="input 1 is w, which is packed when the session is made: give it as an init"):
        session(built, [node(SMALL, drawn, {})], inputs | kept, {"y": y}, {})
    changed = {"w": np.zeros((8, 3, 3, 4), np.int8)}
    with pytest.raises(
        Exception, match=r"w has shape \(8, 3, 3, 4\) and type 3 of ONNX Runtime; the kernel takes \(8, 3"
    ):
        session(built, [node(SMALL, drawn, {})], inputs, {"y": y}, changed)


def test_an_onnxruntime_that_is_too_old_is_refused(built: Path) -> None:
    """It has no interface of the version that is asked for, and a first one whose first function makes a status."""
    said: list[str] = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def create_status(code: int, text: bytes) -> int:
        said.append(f"{code} {text.decode()}")
        return 64

    first = (ctypes.c_void_p * 100)(ctypes.cast(create_status, ctypes.c_void_p))

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def get_api(version: int) -> int | None:
        return ctypes.addressof(first) if version == 1 else None

    base = (ctypes.c_void_p * 2)(ctypes.cast(get_api, ctypes.c_void_p))
    register = ctypes.CDLL(str(built / "libqconv_onnxruntime.so")).RegisterCustomOps
    register.restype = ctypes.c_void_p
    assert register(None, base) == 64
    assert said == ["1 this ONNX Runtime is older than 1.17: install a newer one"]
