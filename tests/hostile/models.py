"""ONNX models: a session accepts the models that ONNX Runtime accepts and returns its bits, or refuses them by name."""

from __future__ import annotations

import contextlib
import io
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
import onnxruntime
import quantized_networks as networks
from one_node import drawn, model_of, node_of, whole_range
from onnx import ModelProto, TensorProto, helper

from qconv.onnx import Pixels, Samples, Session, shapes
from qconv.onnx.tensor import Unsupported
from tests.hostile.judge import REFUSALS, Refused, Surface, Wrong, check_sentence, judge
from tests.hostile.mutations import VALUES, WORDS, of_bytes

# One in this many accepted models is run, because running may compile kernels.
RUN = 40
TYPES = tuple(range(18))
FIELDS = ("name", "op_type", "domain")


def _convolution(rng: Any) -> tuple[ModelProto, dict[str, Any]]:
    arrays = {"x": whole_range(rng, "uint8", (1, 4, 5, 5)), "xs": np.float32(0.02), "xz": np.uint8(3)}
    arrays |= {"w": whole_range(rng, "int8", (6, 4, 3, 3)), "ws": np.float32(0.01), "wz": np.int8(0)}
    arrays |= {"ys": np.float32(0.5), "yz": np.uint8(100)}
    made, feeds = node_of("QLinearConv", arrays, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return made, feeds


@cache
def _valid() -> tuple[bytes, ...]:
    """Return models of one op, and a network in each of its formats."""
    rng = np.random.default_rng(0)
    add = model_of("QLinearAdd", [drawn(rng, "uint8", (1, 3, 4, 4))] * 2, drawn(rng, "uint8", (1, 3, 4, 4)))[0]
    network = networks.resnet_like()
    found = [_convolution(rng)[0], add, networks.quantized(network, "QOperator", "u8u8", False)]
    found.append(networks.quantized(networks.mobilenet_like(), "QDQ", "u8s8", True))
    return tuple(model.SerializeToString() for model in found)


def draw(rng: Random) -> bytes:
    content = rng.choice(_valid())
    if rng.random() < 0.3:
        return of_bytes(rng, content)
    model = ModelProto.FromString(content)
    for _ in range(rng.choice((1, 1, 2))):
        with contextlib.suppress(ValueError, TypeError, AttributeError, IndexError, UnicodeEncodeError):
            rng.choice((_alter_node, _alter_attribute, _alter_constant, _alter_graph))(rng, model.graph)
    return bytes(model.SerializeToString())


def _alter_node(rng: Random, graph: Any) -> None:
    node = rng.choice(graph.node)
    names = [name for other in graph.node for name in (*other.input, *other.output)] + [*WORDS[:8]]
    way = rng.randrange(6)
    if way == 0:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif way == 1:
        del node.input[rng.randrange(len(node.input)) :]
    elif way == 2:
        node.output[rng.randrange(len(node.output))] = rng.choice(names)
    elif way == 3:
        setattr(node, rng.choice(FIELDS), rng.choice([getattr(rng.choice(graph.node), FIELDS[1]), *WORDS]))
    elif way == 4:
        graph.node.remove(node)
    else:
        graph.node.append(node)


def _alter_attribute(rng: Random, graph: Any) -> None:
    node = rng.choice([node for node in graph.node if node.attribute])
    attribute = rng.choice(node.attribute)
    if rng.random() < 0.3:
        node.attribute.remove(attribute)
        return
    value = rng.choice([*VALUES, [-1, 0], [1, 1, 1, 1], [2**31, 1], [3], ["SAME_UPPER"], "VALID", 2**62, [0, 0, 0, 0]])
    attribute.CopyFrom(helper.make_attribute(attribute.name, value))


def _alter_constant(rng: Random, graph: Any) -> None:
    constant = rng.choice(graph.initializer)
    way = rng.randrange(5)
    if way == 0:
        constant.data_type = rng.choice(TYPES)
    elif way == 1:
        constant.dims[rng.randrange(len(constant.dims))] = rng.choice((-1, 0, 1, 2, 2**31, 2**62))
    elif way == 2:
        constant.raw_data = of_bytes(rng, constant.raw_data)
    elif way == 3:
        constant.name = rng.choice(WORDS)
    else:
        graph.initializer.remove(constant)


def _alter_graph(rng: Random, graph: Any) -> None:
    shown = rng.choice([*graph.input, *graph.output])
    tensor = shown.type.tensor_type
    way = rng.randrange(4)
    if way == 0:
        tensor.elem_type = rng.choice(TYPES)
    elif way == 1:
        tensor.shape.dim[rng.randrange(len(tensor.shape.dim))].dim_value = rng.choice((-1, 0, 1, 2, 7, 2**31, 2**62))
    elif way == 2:
        tensor.ClearField("shape")
    else:
        shown.name = rng.choice(WORDS)


def take(given: bytes) -> None:
    """Check that ONNX Runtime accepts what a session accepts; some models are also run, and must give the same bits."""
    try:
        session = Session(given, "cpu")
    except MemoryError as error:  # ONNX Runtime's error for a constant that is too large
        raise Refused from error
    if any(not row.why for row in session.explain().rows):
        raise Wrong("a layer runs somewhere, and nobody says why")
    with contextlib.suppress(ValueError):
        for refused in shapes.workload_of(ModelProto.FromString(given), "model.onnx", 1).refused:
            check_sentence(refused.reason)
    if crc32(given) % RUN == 0:
        _run(session, given)


def _run(session: Session, given: bytes) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    theirs = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    feeds = {}
    for shown in theirs.get_inputs():
        shape = [extent if isinstance(extent, int) else 1 for extent in shown.shape]
        if int(np.prod(shape)) > 10**6 or shown.type not in KINDS:
            return
        feeds[shown.name] = (rng.random(shape) * 100).astype(KINDS[shown.type])
    try:
        wanted = theirs.run(None, feeds)
    except Exception:
        ours = judge(Surface("", lambda rng: b"", lambda _: _fails(session, feeds), 0, (ValueError, Unsupported)), b"")
        if ours != "refused":
            raise Wrong("ONNX Runtime fails where we give an answer") from None
        return
    for got, expected in zip(session.run(None, feeds), wanted, strict=True):
        if not np.array_equal(got, expected, equal_nan=got.dtype.kind == "f"):
            raise Wrong("another output than ONNX Runtime's")


def _fails(session: Session, feeds: dict[str, Any]) -> None:
    session.run(None, feeds)


@cache
def _samples() -> tuple[bytes, ...]:
    """Return a file of one array, and one of several by their names."""
    one, several = io.BytesIO(), io.BytesIO()
    np.save(one, np.ones((2, 3, 4), np.float32))
    np.savez(several, x=np.ones((3, 4), np.float32), other=np.zeros(2))
    return one.getvalue(), several.getvalue()


def draw_sample(rng: Random) -> bytes:
    return of_bytes(rng, rng.choice(_samples()))


def take_sample(given: bytes) -> None:
    """Check that a file of samples gives arrays that the model takes."""
    shape: list[str | int] = ["N", 3, 4]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "one", ends[:1], ends[1:]))
    with tempfile.TemporaryDirectory() as folder:
        name = "sample.npz" if given.startswith(b"PK") else "sample.npy"
        Path(folder, name).write_bytes(given)
        for feeds in Samples.of(model, Path(folder), Pixels()):
            if feeds["x"].dtype != np.float32 or feeds["x"].shape[1:] != (3, 4):
                raise Wrong(f"the model takes float32 of (N, 3, 4); {feeds['x'].dtype} of {feeds['x'].shape} was given")


KINDS = {f"tensor({name})": dtype for name, dtype in (("float", "float32"), ("uint8", "uint8"), ("int8", "int8"))}
SURFACES = (
    Surface("models", draw, take, cases=2_000, refusals=(*REFUSALS, Unsupported)),
    Surface("samples", draw_sample, take_sample, cases=5_000),
)
