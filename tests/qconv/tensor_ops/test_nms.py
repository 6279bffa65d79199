"""The op `nms`: its problem, its key, and what its oracle keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qconv.op import Sample
from qconv.ops import registry
from qconv.tensor_ops import NonMaxSuppression

PROBLEM = NonMaxSuppression(2, 3, 40, 7)


def kept(boxes: Any, scores: Any, overlap: float, least: float = np.nan, **spec: Any) -> list[int]:
    """Return the boxes of one image and class that are kept."""
    problem = NonMaxSuppression(1, 1, len(boxes), len(boxes), **spec)
    arrays = (np.array([boxes], np.float32), np.array([[scores]], np.float32), np.array([overlap, least], np.float32))
    (y,) = registry.compute(problem, Sample(arrays))
    return [int(box) for box in y[1 : 1 + y[0, 0], 2]]


def test_a_key_is_read_again() -> None:
    for problem in (PROBLEM, replace(PROBLEM, center=True)):
        assert registry.parse(problem.key) == problem
    assert PROBLEM.key == "nms:images=2:classes=3:boxes=40:most=7"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"most": 41}, "most=41 must be between 1 and 40"),
        ({"boxes": 0}, "boxes=0 must be between 1"),
        ({"boxes": 2**29, "images": 4}, "an array has at most 2147479551 elements: split images"),
        ({"center": 1}, "center=1 must be True or False"),
    ],
)
def test_bad_problems(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(PROBLEM, **spec)


def test_what_is_kept() -> None:
    boxes = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]
    scores = [0.9, 0.75, 0.6, 0.95, 0.5]
    assert kept(boxes, scores, 0.5) == [3, 0]
    assert kept(boxes, scores, 0.9) == [3, 0, 1, 2, 4]
    assert kept(boxes, scores, 0.9, least=0.6) == [3, 0, 1]
    inside_out = [[box[2], box[1], box[0], box[3]] for box in boxes]
    assert kept(inside_out, scores, 0.5) == [3, 0]
    assert kept([[0, 0, 0, 1], [0, 0, 0, 1]], [0.5, 0.5], 0.0) == [0, 1]  # boxes without an area


def test_a_center_and_a_size() -> None:
    boxes = [[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 10.5, 1, 1], [0.5, 0.5, -1, 1]]
    assert kept(boxes, [0.9, 0.75, 0.95, 0.8], 0.5, center=True) == [2, 0, 3]


def test_rows_of_all_images_and_classes_are_one_behind_the_other() -> None:
    drawn = registry.draw(PROBLEM, 3)
    (y,) = registry.compute(PROBLEM, drawn)
    count = y[0, 0]
    assert (y[1 : count + 1] >= 0).all()
    assert (y[count + 1 :] == -1).all()
    pairs = [tuple(row) for row in y[1 : count + 1, :2]]
    assert pairs == sorted(pairs)
    assert len(set(pairs)) == 6


def test_random_data_keeps_and_suppresses() -> None:
    problem, fractions = NonMaxSuppression(1, 2, 200, 200), []
    for seed in range(40):
        (y,) = registry.compute(problem, registry.draw(problem, seed))
        fractions.append(y[0, 0] / 400)
    assert min(fractions) < 0.2
    assert max(fractions) > 0.8
