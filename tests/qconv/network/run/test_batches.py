"""Layers whose tensors have more elements than a kernel counts: they run in batches, and give the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from integer_model import Model
from session_comparison import RUNS, assert_equal

import qconv.onnx
from qconv.errors import SlowNetwork
from qconv.onnx import Session
from qconv.problem import convolution
from qconv.tensor_ops import pooling

IMAGES, SIZE, C, K = 6, 9, 4, 8
# The elements of one image's largest tensor, with padding.
LARGEST_OF_ONE = (SIZE + 2) ** 2 * K


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets how many elements kernels count."""

    def count(most: int) -> None:
        monkeypatch.setattr(convolution, "LARGEST", most)
        monkeypatch.setattr(pooling, "LARGEST", most)

    return count


def model(images: int = IMAGES) -> tuple[Any, dict[str, Any]]:
    """Return a convolution, a sum with the input of another, and a pool, of all images at once."""
    made = Model("uint8", 7)
    numbers = [made.numbers() for _ in range(4)]
    x = made.input(images, C, SIZE, SIZE)
    first = made.conv(x, C, K, numbers[0], numbers[1], 3)
    second = made.conv(first, K, K, numbers[1], numbers[2], 1)
    both = made.add(second, numbers[2], first, numbers[1], numbers[3])
    pooled = made.node("MaxPool", [both], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return made.made(pooled), made.fed


def runs(session: Session, fed: dict[str, Any]) -> list[Any]:
    """Return the outputs of a run layer by layer, of a recorded one and of a replayed one."""
    return [session.run(None, fed)[0] for _ in range(RUNS)]


def whys(session: Session) -> list[str]:
    return [str(row.why) for row in session.explain().rows]


@pytest.mark.parametrize("images_at_a_time", [1, 2, 3])
def test_batches_give_the_bits_of_one_run(images_at_a_time: int, counting: Callable[[int], None]) -> None:
    made, fed = model()
    (want,) = Session(made, "cpu").run(None, fed)
    counting(images_at_a_time * LARGEST_OF_ONE)
    session = Session(made, "cpu")
    for got in runs(session, fed):
        assert_equal(got, want, f"{images_at_a_time} images at a time")
    count = IMAGES // images_at_a_time
    assert sum(f"{count} runs of {images_at_a_time} image" in why for why in whys(session)) >= 2
    assert not session.explain().fallen_back


def test_one_image_that_is_too_large_runs_elsewhere(counting: Callable[[int], None]) -> None:
    made, fed = model()
    (want,) = Session(made, "cpu").run(None, fed)
    counting(LARGEST_OF_ONE // 2)
    session = Session(made, "cpu")
    with pytest.warns(SlowNetwork, match="split the image into strips of rows"):
        assert_equal(session.run(None, fed)[0], want, "elsewhere")


@pytest.mark.slow
def test_batches_of_a_network_in_cpp(tmp_path: Path, counting: Callable[[int], None]) -> None:
    made, fed = model()
    (want,) = Session(made, "cpu").run(None, fed)
    counting(2 * LARGEST_OF_ONE)
    qconv.onnx.export(made, tmp_path / "network", "cpu", device="cpu", vectors=False)
    for got in runs(Session(tmp_path / "network", "cpu"), fed):
        assert_equal(got, want, "in C++")
