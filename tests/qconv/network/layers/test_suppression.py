"""NonMaxSuppression in a session: the boxes are ONNX Runtime's, in its order."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from qconv.onnx import Session

RNG = np.random.default_rng(64)
NAMES = ("boxes", "scores", "most", "overlap", "least")


def scene(images: int, classes: int, count: int, center: bool = False) -> dict[str, Any]:
    """Return boxes of which many overlap, and scores of which many are equal."""
    first = RNG.uniform(0, np.sqrt(count), (images, count, 2))
    size = RNG.uniform(0.2, 3, (images, count, 2))
    boxes = np.concatenate([first, size if center else first + size], -1).astype(np.float32)
    return {"boxes": boxes, "scores": (np.round(RNG.random((images, classes, count)) * 50) / 50).astype(np.float32)}


def model_of(
    feeds: dict[str, Any], held: dict[str, Any], behind: tuple[Any, ...] = (), output: str = "y", **attributes: Any
) -> Any:
    names = [name if name in held or name in feeds else "" for name in NAMES]
    while not names[-1]:
        names.pop()
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    graph = helper.make_graph(
        [helper.make_node("NonMaxSuppression", names, ["y"], **attributes), *behind],
        "suppression",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(output, TensorProto.INT64, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def limits(most: int, overlap: float | None = None, least: float | None = None) -> dict[str, Any]:
    held = {"most": np.array([most])}
    floats = {"overlap": overlap, "least": least}
    return held | {name: np.array([each], np.float32) for name, each in floats.items() if each is not None}


def by_onnxruntime(model: onnx.ModelProto, feeds: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


@pytest.mark.turns
@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(
    "held", [limits(5), limits(9999, 0.5), limits(30, 0.3, 0.4), limits(200, 0.0, 0.98), limits(50, 1.0)]
)
def test_the_boxes_are_those_of_onnxruntime(held: dict[str, Any], center: int) -> None:
    for images, classes, count in ((1, 1, 1), (2, 3, 60), (1, 2, 400)):
        feeds = scene(images, classes, count, bool(center))
        model = model_of(feeds, held, center_point_box=center)
        got = Session(model, "cpu", strict=True).run(None, feeds)[0]
        wanted = by_onnxruntime(model, feeds)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_every_run_has_a_count_of_its_own() -> None:
    """Runs are recorded, and their outputs cut to what they kept."""
    feeds = scene(1, 2, 80)
    model = model_of(feeds, limits(40, 0.4, 0.5))
    session, counts = Session(model, "cpu", strict=True), set()
    for share in (1, 0.9, 0.7, 0.0, 1):
        given = {**feeds, "scores": feeds["scores"] * np.float32(share)}
        got = session.run(None, given)[0]
        np.testing.assert_array_equal(got, by_onnxruntime(model, given))
        np.testing.assert_array_equal(session.run_on_device(None, given)[0], got)
        counts.add(len(got))
    assert 0 in counts
    assert len(counts) > 2


def test_scores_below_zero_count_without_a_threshold() -> None:
    feeds = scene(1, 1, 30)
    feeds["scores"] -= np.float32(2)
    model = model_of(feeds, limits(30, 0.5))
    got = Session(model, "cpu", strict=True).run(None, feeds)[0]
    assert len(got) > 5
    np.testing.assert_array_equal(got, by_onnxruntime(model, feeds))


def test_limits_may_be_fed() -> None:
    """They are host inputs: each set of them has a model of its own."""
    feeds = scene(1, 2, 50) | limits(7, 0.5, 0.3)
    model = model_of(feeds, {})
    session = Session(model, "cpu")
    for most, overlap in ((7, 0.5), (3, 0.5), (7, 0.1), (50, 0.9)):
        given = feeds | limits(most, overlap, 0.3)
        np.testing.assert_array_equal(session.run(None, given)[0], by_onnxruntime(model, given))
        assert not session.explain().fallen_back


@pytest.mark.parametrize("name", ["boxes", "scores"])
def test_one_of_the_two_may_be_constant(name: str) -> None:
    feeds = scene(1, 2, 50)
    held = limits(9, 0.5) | {name: feeds.pop(name)}
    model = model_of(feeds, held)
    np.testing.assert_array_equal(Session(model, "cpu", strict=True).run(None, feeds)[0], by_onnxruntime(model, feeds))


def test_layers_behind_get_what_was_kept() -> None:
    """Their shapes are not known before the run is over, so that they run elsewhere."""
    feeds = scene(1, 1, 50)
    behind = (helper.make_node("Gather", ["y", "two"], ["g"], axis=1),)
    model = model_of(feeds, limits(9, 0.5) | {"two": np.array(2)}, behind, "g")
    session = Session(model, "cpu")
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, feeds)[0], by_onnxruntime(model, feeds))
    assert dict(session.explain().fallen_back) == {"Gather": 1}


def test_the_reason_of_what_runs_elsewhere() -> None:
    feeds = scene(1, 1, 20)
    for held, says in (({}, "it keeps no box"), (limits(0), "it keeps no box")):
        model = model_of(feeds, held)
        session = Session(model, "cpu")
        assert session.run(None, feeds)[0].shape == (0, 3)
        assert says in str(session.explain())


def test_onnxruntimes_bits_leave_it_there() -> None:
    feeds = scene(1, 1, 20)
    session = Session(model_of(feeds, limits(5)), "cpu", bits="onnxruntime")
    np.testing.assert_array_equal(session.run(None, feeds)[0], by_onnxruntime(model_of(feeds, limits(5)), feeds))
    assert session.explain().fallen_back
