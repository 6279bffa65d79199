"""The op `nms`: non-maximum suppression, the boxes that a detector keeps, like ONNX's NonMaxSuppression.

The boxes of an image are taken for each class by falling scores, of equal ones the first first. A box is kept unless
its intersection with one that is kept already, over their union, exceeds a threshold. The arithmetic is of float32, in
ONNX Runtime's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from qconv.op import FULL, LARGEST, Array, Op, Option, Sample, Tensor, checked_size
from qconv.tensor_ops.problem import TensorOp


@dataclass(frozen=True, eq=False)
class NonMaxSuppression(TensorOp):
    """The suppression of `boxes` boxes in each of several images, for each of several classes, of which at most `most`
    are kept. A box is two opposite corners, y before x, or with `center` the x and y of its center, its width and its
    height. The thresholds are that of the intersection over the union, and that which a score exceeds; NaN for any
    score. A score that is NaN is never kept.

    The first row of the output begins with the number of boxes that are kept; the rows behind it are these, each an
    image, a class and a box, and -1 where there are no more."""

    op: ClassVar[str] = "nms"

    images: int
    classes: int
    boxes: int
    most: int
    center: bool = False
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("images", "classes", "boxes", "most")
    flags: ClassVar[tuple[str, ...]] = ("center",)
    types: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        self._check_fields()
        checked_size("most", self.most, 1, self.boxes)
        scores, rows = self.images * self.classes * self.boxes, self.rows + 1
        if max(scores, 4 * self.images * self.boxes, 3 * rows) > LARGEST:
            raise ValueError(
                f"{scores} scores, {self.images * self.boxes} boxes, of which {rows} may be kept: an array has at most"
                f" {LARGEST} elements: split images"
            )
        self._name_by_fields()

    @property
    def rows(self) -> int:
        """Return the number of boxes that may be kept."""
        return self.images * self.classes * self.most

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (
            Tensor("boxes", (self.images, self.boxes, 4), "float32"),
            Tensor("scores", (self.images, self.classes, self.boxes), "float32"),
            Tensor("thresholds", (2,), "float32"),
        )

    @property
    def packed(self) -> tuple[str, ...]:
        return ("thresholds",)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.rows + 1, 3), "int64"),)

    @property
    def extents(self) -> dict[str, int]:
        return {"blocks": min(self.images * self.classes, FULL), "boxes": self.boxes, "most": self.most}

    @property
    def kinds(self) -> tuple[object, ...]:
        return (self.center,)

    @property
    def shape_class(self) -> tuple[object, ...]:
        return ()


def draw(problem: NonMaxSuppression, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw boxes of which many overlap and some are the same, some of them inside out, scores of which many are equal,
    and thresholds of every kind."""
    rng = np.random.default_rng(seed)
    shape = (problem.images, problem.boxes, 2)
    extent = np.sqrt(problem.boxes) * rng.choice((0.5, 2, 8))
    first = rng.uniform(0, extent, shape)
    size = rng.uniform(-0.2 if rng.random() < 0.3 else 0.2, 3, shape)
    boxes = np.concatenate([first, size if problem.center else first + size], -1).astype(np.float32)
    same = rng.random((problem.images, problem.boxes)) < 0.1
    boxes[same] = boxes[:, :1].repeat(problem.boxes, 1)[same]
    if rng.random() < 0.3:
        boxes = np.round(boxes)
    scores = rng.random(problem.inputs[1].shape)
    scores = np.round(scores * 16) / 16 if rng.random() < 0.5 else scores
    least = rng.choice((np.nan, 0.25, 0.5, 0.0))
    thresholds = np.array([rng.choice((0.0, 0.3, 0.5, 0.75, 1.0)), least], np.float32)
    return Sample((boxes, scores.astype(np.float32), thresholds))


def compute(problem: NonMaxSuppression, drawn: Sample) -> tuple[Array, ...]:
    y = np.full(problem.outputs[0].shape, -1, np.int64)
    kept = [row for image in range(problem.images) for row in _of_image(problem, drawn, image)]
    y[0] = len(kept), 0, 0
    y[1 : len(kept) + 1] = np.reshape(kept, (-1, 3))
    return (y,)


def _of_image(problem: NonMaxSuppression, drawn: Sample, image: int) -> Iterator[tuple[int, int, int]]:
    boxes, scores, (most_overlap, least) = drawn.arrays
    low, high = _corners(boxes[image], problem.center)
    for number, of_class in enumerate(scores[image]):
        is_left = of_class == of_class if np.isnan(least) else of_class > least
        for _ in range(problem.most):
            if not is_left.any():
                break
            best = int(np.where(is_left, of_class, -np.inf).argmax())
            best = best if is_left[best] else int(is_left.argmax())  # the scores that are left are -inf
            yield image, number, best
            is_left &= ~_overlaps(low, high, best, most_overlap)
            is_left[best] = False


def _corners(boxes: Array, center: bool) -> tuple[Array, Array]:
    """Return the lower and the higher corners."""
    one, other = boxes[:, :2], boxes[:, 2:]
    if center:
        half = other * np.float32(0.5)
        return one - half, one + half
    return np.where(other < one, other, one), np.where(one < other, other, one)


def _overlaps(low: Array, high: Array, best: int, most: np.float32) -> Array:
    """True for each box whose intersection over the union with one of them exceeds a threshold."""
    with np.errstate(all="ignore"):
        begin = np.where(low < low[best], low[best], low)
        end = np.where(high[best] < high, high[best], high)
        shared, areas = _area(begin, end), _area(low, high)
        union = areas + areas[best] - shared
        is_some = (end > begin).all(1) & (shared > 0) & (areas > 0) & (areas[best] > 0) & (union > 0)
        return np.asarray(is_some & (shared / union > most))


def _area(low: Array, high: Array) -> Array:
    sides = high - low
    return np.asarray(sides[:, 0] * sides[:, 1])


def _asked(given: dict[str, Any]) -> NonMaxSuppression:
    return NonMaxSuppression(**given)


OP = Op(
    name="nms",
    says="The boxes that a detector keeps: of those that overlap, the one of the highest score.",
    problems=(NonMaxSuppression,),
    read=NonMaxSuppression.read,
    ask=_asked,
    options=(
        Option("images", "nms: images.", "integer", required=True),
        Option("classes", "nms: classes, each of which keeps boxes of its own.", "integer", required=True),
        Option("boxes", "nms: boxes of an image.", "integer", required=True),
        Option("most", "nms: boxes that an image keeps of a class, at most.", "integer", required=True),
        Option("center", "nms: a box is its center, its width and its height, not two corners.", "switch"),
    ),
    draw=draw,
    compute=compute,
)
