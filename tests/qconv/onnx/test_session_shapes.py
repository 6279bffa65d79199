"""Many shapes in one session: what is kept is limited, what is dropped is gone at once, and threads and other sessions
change no bit."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from integer_model import Model
from onnx import TensorProto, helper, numpy_helper

from qconv.instances.load.executable import Packed
from qconv.network.expressions.expressed import Running
from qconv.network.run import runner
from qconv.network.run.recorded import Recorded
from qconv.onnx import Session, session
from qconv.onnx.ready import ReadyModel

LIMIT, THREADS, TURNS = 3, 4, 40
SHAPES = [(1, 4, 3), (2, 4, 3), (2, 4, 5), (1, 4, 7), (3, 4, 2), (2, 4, 8)]
LIVE = (Packed, ReadyModel, Recorded, Running)


def flattened_softmax() -> Any:
    """Return a model whose images of any number and width are rows of a softmax, by a computed shape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["count"], axis=0),
        helper.make_node("Concat", ["count", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["rows"]),
        helper.make_node("Softmax", ["rows"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4, "w"])], [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.array([value]), name) for name, value in (("first", 0), ("rest", -1))],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def drawn(shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).standard_normal(shape).astype(np.float32)}


def live() -> Counter[str]:
    """Count the objects that have memory of a device or a recording. It reads every object of the process, which takes
    a fifth of a second behind other tests."""
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in LIVE)


@contextmanager
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_SHAPES", LIMIT)
    monkeypatch.setattr(session, "MOST_SHAPES", LIMIT)


def test_shapes_beyond_the_limit_leave_nothing_behind(few: None) -> None:
    """Reference counts alone free what is dropped: an arena on a GPU does not wait for the garbage collector."""
    one = Session(flattened_softmax(), "cpu")
    wanted = {shape: Session(flattened_softmax(), "cpu").run(None, drawn(shape, 1))[0] for shape in SHAPES}
    with no_collection():
        before = live()
        for number in range(4 * 3 * len(SHAPES)):
            shape = SHAPES[number // 3 % len(SHAPES)]  # the second is recorded, the third replays it
            (got,) = one.run(None, drawn(shape, 1))
            assert np.array_equal(got, wanted[shape]), f"run {number}, {shape}"
            if number + 1 == 3 * LIMIT:
                full = live() - before
        assert len(one._ready) == LIMIT
        assert full["ReadyModel"] == full["Recorded"] == LIMIT
        assert live() - before == full
        del one
        assert not live() - before


def test_a_network_of_any_shape_keeps_few(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MOST_RECORDINGS", LIMIT)
    model = networks.quantized(networks.mobilenet_like(), "QDQ", "u8s8", per_channel=True)
    one = Session(model, "cpu")
    batches = [1, 2, 3, 4]
    wanted = {count: Session(model, "cpu").run(None, {"x": networks.images(count, 1)}) for count in batches}
    with no_collection():
        before = live()
        for number in range(4 * len(batches)):
            count = batches[number // 2 % len(batches)]
            assert np.array_equal(one.run(None, {"x": networks.images(count, 1)}), wanted[count])
            if number + 1 == 2 * len(batches):
                full = live() - before
        assert full["Recorded"] == LIMIT
        assert live() - before == full


def test_what_is_lowered_for_each_shape_leaves_nothing_behind(few: None) -> None:
    """The bytes of a reshape whose shapes are known are an expression that has no kernel, and frees itself too."""
    made = Model()
    made.input(1, 8, 4, 6, open_shape=["n", 8, 4, 6])
    numbers = made.numbers()
    y = made.node("Reshape", [made.conv("x0", 8, 8, numbers, numbers), made.constant(np.array([0, 8, -1, 2]))])
    model = made.made(made.conv(y, 8, 4, numbers, numbers))
    one = Session(model, "cpu")
    with no_collection():
        before = live()
        for number in range(2 * 4 * LIMIT):
            x = np.repeat(made.fed["x0"], number // 2 % (2 * LIMIT) + 1, 0)
            (got,) = one.run(None, {"x0": x})
            assert np.array_equal(got, networks.by_ort(model, {"x0": x})[0]), f"run {number}"
            if number + 1 == 2 * LIMIT:
                full = live() - before
        assert full["ReadyModel"] == full["Running"] == LIMIT
        assert live() - before == full


def test_threads_may_run_one_session(few: None) -> None:
    """Each with other shapes, in another order."""
    one = Session(flattened_softmax(), "cpu")
    wanted = {shape: Session(flattened_softmax(), "cpu").run(None, drawn(shape, 1))[0] for shape in SHAPES}

    def turns(thread: int) -> int:
        rng = np.random.default_rng(thread)
        for turn in range(TURNS):
            shape = SHAPES[rng.integers(len(SHAPES))]
            assert np.array_equal(one.run(None, drawn(shape, 1))[0], wanted[shape]), f"thread {thread}, turn {turn}"
            if turn % 8 == 0:
                assert one.explain().rows
                assert one.problems
        return thread

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(turns, range(THREADS))) == list(range(THREADS))


class Raced(Session):
    """A session in which another thread runs with other shapes between the choice of a model and its run."""

    other: ReadyModel | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        is_raced = name == "_last" and self.other is not None
        super().__setattr__(name, self.other if is_raced else value)


def test_a_run_keeps_its_model_while_another_thread_takes_the_next() -> None:
    one = Raced(flattened_softmax(), "cpu")
    first, second = SHAPES[:2]
    (wanted,) = one.run(None, drawn(first, 1))
    one.run(None, drawn(second, 1))
    one.other = one._last
    assert np.array_equal(one.run(None, drawn(first, 1))[0], wanted)


def test_two_sessions_of_a_model_share_nothing_that_a_run_writes() -> None:
    model = networks.quantized(networks.mobilenet_like(), "QDQ", "u8s8", per_channel=True)
    sessions = [Session(model, "cpu") for _ in range(2)]
    inputs = [{"x": networks.images(2, seed)} for seed in range(3)]
    wanted = [Session(model, "cpu").run(None, given)[0] for given in inputs]

    def turns(of: Session) -> bool:
        return all(
            np.array_equal(of.run(None, given)[0], want)
            for _ in range(3)
            for given, want in zip(inputs, wanted, strict=True)
        )

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(turns, sessions))
