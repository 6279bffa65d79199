"""Samples from a folder: arrays and images, as the inputs of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper

from qconv.onnx.samples import Pixels, Samples

FLOAT = TensorProto.FLOAT
IMAGENET, GREY = Pixels(), Pixels(mean=(0.5,), std=(0.5,))


def model(*shapes: list[Any], dtype: int = FLOAT) -> Any:
    """Return a model with inputs x0, x1, ... of these shapes."""
    inputs = [helper.make_tensor_value_info(f"x{at}", dtype, shape) for at, shape in enumerate(shapes)]
    nodes = [helper.make_node("Identity", ["x0"], ["y"])]
    return helper.make_model(
        helper.make_graph(nodes, "one", inputs, [helper.make_tensor_value_info("y", dtype, shapes[0])])
    )


def feeds(of: Any, folder: Path, pixels: Pixels = IMAGENET) -> list[dict[str, Any]]:
    return list(Samples.of(of, folder, pixels))


def save(path: Path, *shape: int, dtype: str = "float32", first: int = 0) -> Any:
    array = np.arange(first, first + int(np.prod(shape))).reshape(shape).astype(dtype)
    np.save(path, array)
    return array


def test_a_sample_without_a_batch_gets_one(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    one, two = save(tmp_path / "a.npy", 3, 4), save(tmp_path / "deep/b.npy", 2, 3, 4)
    (tmp_path / "readme.txt").write_text("no sample")
    given = feeds(model(["N", 3, 4]), tmp_path)
    assert [each["x0"].shape for each in given] == [(1, 3, 4), (2, 3, 4)]
    assert np.array_equal(given[0]["x0"][0], one)
    assert np.array_equal(given[1]["x0"], two)


def test_a_fixed_batch_gets_as_many_samples(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"{number}.npy", 2, first=10 * number)
    expected = [[[0, 1], [10, 11]], [[20, 21], [30, 31]]]
    assert [each["x0"].tolist() for each in feeds(model([2, 2]), tmp_path)] == expected
    save(tmp_path / "left_over.npy", 2)
    assert [each["x0"].tolist() for each in feeds(model([2, 2]), tmp_path)] == expected


def test_extents_of_minus_one_are_open(tmp_path: Path) -> None:
    save(tmp_path / "0.npy", 1, 3, 7)
    assert feeds(model([-1, 3, -1]), tmp_path)[0]["x0"].shape == (1, 3, 7)


def test_several_inputs_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "0.npz", x0=np.float32([[1, 2]]), x1=np.float64([[3]]), other=0)
    (given,) = feeds(model(["N", 2], ["N", 1]), tmp_path)
    assert {name: (array.tolist(), str(array.dtype)) for name, array in given.items()} == {
        "x0": ([[1.0, 2.0]], "float32"),
        "x1": ([[3.0]], "float32"),
    }


@pytest.mark.parametrize(
    ("shape", "dtype", "pixels", "given", "expected"),
    [
        (["N", 3, 2, 4], FLOAT, Pixels(), (1, 3, 2, 4), (0.2 - 0.485) / 0.229),
        (["N", 3, "H", "W"], FLOAT, Pixels(size=(5, 6)), (1, 3, 5, 6), (0.2 - 0.485) / 0.229),
        (["N", 2, 4, 3], FLOAT, Pixels(mean=(0.0,), std=(1.0,)), (1, 2, 4, 3), 0.2),
        (["N", 1, 2, 4], FLOAT, GREY, (1, 1, 2, 4), (0.2 - 0.5) / 0.5),
        (["N", 2, 4, 3], TensorProto.UINT8, Pixels(), (1, 2, 4, 3), 51),
    ],
)
def test_an_image_is_resized_and_scaled(
    tmp_path: Path, shape: list[Any], dtype: int, pixels: Pixels, given: tuple[int, ...], expected: float
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    image.new("RGB", (9, 7), (51, 51, 51)).save(tmp_path / "grey.png")
    (one,) = feeds(model(shape, dtype=dtype), tmp_path, pixels)
    assert one["x0"].shape == given
    assert one["x0"].flat[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("shapes", "files", "says"),
    [
        ([["N", 3]], {}, "has no samples: give a folder with files .npy, .npz"),
        ([["N", 3]], {"a.npy": (2, 4)}, r"a.npy has an array of shape \(2, 4\); the model takes x0 float32\(\?, 3\)"),
        ([["N", 3]], {"a.npy": ()}, r"a.npy has an array of shape \(\)"),
        ([["N", 3], ["N", 1]], {"a.npy": (1, 3)}, "a.npy has one array, and the model takes x0, x1: give .npz files"),
        ([[4, 3]], {"a.npy": (3,)}, "the model takes 4 samples at a time, and there are 1: give more"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, shapes: list[list[Any]], files: dict[str, tuple[int, ...]], says: str
) -> None:
    for name, shape in files.items():
        save(tmp_path / name, *shape)
    with pytest.raises(ValueError, match=says):
        feeds(model(*shapes), tmp_path)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no folder"):
        feeds(model(["N", 3]), tmp_path / "none")
    np.savez(tmp_path / "0.npz", other=0)
    with pytest.raises(ValueError, match=r"0\.npz has other, and no x0: name its arrays as the model's inputs"):
        feeds(model(["N", 3]), tmp_path)
    (tmp_path / "0.npz").unlink()
    (tmp_path / "0.npy").write_text("no array")
    with pytest.raises(ValueError, match=r"0.npy has no arrays that numpy.load reads"):
        feeds(model(["N", 3]), tmp_path)
    np.save(tmp_path / "0.npy", np.complex64([[1, 2, 3]]))
    with pytest.raises(ValueError, match=r"0\.npy has complex64; the model takes x0"):
        feeds(model(["N", 3]), tmp_path)


def test_a_damaged_image_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed")
    (tmp_path / "0.png").write_text("no image")
    with pytest.raises(ValueError, match=r"0\.png cannot be read as an image"):
        feeds(model(["N", 3, 4, 4]), tmp_path)
    with pytest.raises(ValueError, match="has no fixed height and width: give the size of images"):
        feeds(model(["N", 3, "H", 4]), tmp_path)
    with pytest.raises(ValueError, match="does not take images, which have 1 or 3 channels: give its arrays"):
        feeds(model(["N", 5]), tmp_path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"size": (0, 3)}, "must be a height and a width of at least 1"),
        ({"mean": (0.1, 0.2)}, "must be one finite number, or 3"),
        ({"std": (float("nan"),)}, "must be one finite number, or 3"),
        ({"std": (0.0,)}, "must be above 0: pixels are divided by it"),
    ],
)
def test_wrong_pixels_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pixels(**given)
