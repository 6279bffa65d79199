"""Runs like the one before: the bits of a checked run, for other arrays of the same form, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import onnx
import pytest
from integer_model import Model
from session_comparison import assert_equal

from qconv.network.run.recorded import Recorded
from qconv.onnx import Session

IMAGES, C, SIZE = 2, 4, 7


def model(size: int = SIZE) -> Any:
    """Return two convolutions, whose outputs are both outputs of the network."""
    made = Model("uint8", 3)
    numbers = [made.numbers() for _ in range(3)]
    x = made.input(IMAGES, C, size, size, open_shape=["n", C, size, size])
    first = made.conv(x, C, 8, numbers[0], numbers[1], 3)
    second = made.conv(first, 8, 5, numbers[1], numbers[2], 1)
    return made.made(first, second)


def images(seed: int, count: int = IMAGES, size: int = SIZE) -> Any:
    return np.random.default_rng(seed).integers(0, 255, (count, C, size, size), np.uint8, endpoint=True)


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the repeated runs."""
    seen: list[int] = []
    repeat = Recorded.repeat

    def counted(self: Recorded, arrays: Any) -> Any:
        seen.append(len(arrays))
        return repeat(self, arrays)

    monkeypatch.setattr(Recorded, "repeat", counted)
    return seen


def wanted_of(x: Any) -> list[Any]:
    return Session(model(), "cpu").run(None, {"x0": x})


def ready() -> Session:
    """Return a session whose next run may be a repeated one."""
    session = Session(model(), "cpu")
    for seed in range(3):
        session.run(None, {"x0": images(seed)})
    return session


def test_other_images_of_the_same_form(repeated: list[int]) -> None:
    session = ready()
    before = [len(repeated)]
    made = [session.run(None, {"x0": images(seed)}) for seed in (7, 8, 9)]
    assert len(repeated) == before[0] + 3
    for seed, got in zip((7, 8, 9), made, strict=True):
        for one, want in zip(got, wanted_of(images(seed)), strict=True):
            assert_equal(one, want, f"images {seed}")


OTHERS: dict[str, Callable[[Any], Any]] = {
    "more images": lambda x: np.concatenate([x, x]),
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "reversed": lambda x: x[::-1],
    "masked": lambda x: np.ma.masked_array(x),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_another_form_is_checked(other: Callable[[Any], Any], repeated: list[int]) -> None:
    session, x = ready(), other(images(5))
    count = len(repeated)
    for one, want in zip(session.run(None, {"x0": x}), wanted_of(np.ascontiguousarray(x)), strict=True):
        assert_equal(one, want, "another form")
    assert len(repeated) == count


def test_other_outputs_and_a_list_of_inputs_are_checked(repeated: list[int]) -> None:
    session, x = ready(), images(5)
    count, names = len(repeated), session.output_names
    want = wanted_of(x)
    assert_equal(session.run([names[1]], {"x0": x})[0], want[1], "one output")
    assert_equal(session.run(None, [x])[0], want[0], "a list")
    assert len(repeated) == count
    m = session.run_on_device(None, {"x0": x})[1]
    count = len(repeated)
    session.run(None, {"x0": images(6)}, {names[1]: m})
    assert_equal(m, wanted_of(images(6))[1], "a buffer")
    assert len(repeated) == count


BAD = {
    "type": ({"x0": images(1).astype(np.int8)}, "is int8; the model takes uint8"),
    "shape": ({"x0": images(1)[:, :3]}, "has shape"),
    "name": ({"x": images(1)}, "x0"),
    "one more": ({"x0": images(1), "z": images(1)}, "z"),
    "nothing": ({}, "x0"),
    "no array": ({"x0": "images"}, "x0"),
}


@pytest.mark.parametrize(("feeds", "says"), BAD.values(), ids=BAD)
def test_bad_inputs_are_told_as_ever(feeds: dict[str, Any], says: str) -> None:
    session = ready()
    with pytest.raises(ValueError, match=says):
        session.run(None, feeds)
    assert_equal(session.run(None, {"x0": images(4)})[0], wanted_of(images(4))[0], "the next run")


def test_what_it_gave_before_stays(repeated: list[int]) -> None:
    """The channels of a single pixel are as they lie: no launch that moves them makes a copy."""
    session = Session(model(1), "cpu")
    given = [images(seed, size=1) for seed in range(6)]
    made = [session.run_on_device(None, {"x0": x}) for x in given]
    assert len(repeated) >= 2
    for x, got in zip(given, made, strict=True):
        for one, want in zip(got, Session(model(1), "cpu").run(None, {"x0": x}), strict=True):
            assert_equal(one, want, "kept")


def test_a_sequence_of_tensors_runs_elsewhere_again_and_again(repeated: list[int]) -> None:
    """Such an input has no form, and its layers no recording."""
    sequence = onnx.helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = onnx.helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)
    graph = onnx.helper.make_graph([node], "sequence", [sequence], [y])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    session = Session(made, "cpu")
    for count in (1, 2, 2, 2):
        (got,) = session.run(None, {"s": [np.ones(3, np.float32)] * count})
        assert got.tolist() == [1.0] * 3 * count
    assert not repeated


def test_threads_of_two_forms() -> None:
    session, wrong = ready(), []
    wants = {count: [wanted_of(images(seed, count)) for seed in range(4)] for count in (1, 2)}

    def work(count: int) -> None:
        for number in range(40):
            seed = number % 4
            made = session.run(None, {"x0": images(seed, count)})
            are_equal = (np.array_equal(*pair) for pair in zip(made, wants[count][seed], strict=True))
            wrong.extend([] if all(are_equal) else [number])

    threads = [Thread(target=work, args=(count,)) for count in (1, 2, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.gpu
def test_arrays_of_the_gpu_are_repeated(repeated: list[int]) -> None:
    import cupy

    session = Session(model(), "cuda:0")
    arrays = [cupy.asarray(images(seed)) for seed in range(6)]
    for seed, x in enumerate(arrays):
        for one, want in zip(session.run_on_device(None, {"x0": x}), wanted_of(images(seed)), strict=True):
            assert_equal(cupy.asnumpy(one), want, f"images {seed}")
    assert len(repeated) >= 2
    count = len(repeated)
    got = session.run(None, {"x0": arrays[1][::-1]})
    assert_equal(got[0], wanted_of(images(1)[::-1].copy())[0], "reversed")
    assert len(repeated) == count
