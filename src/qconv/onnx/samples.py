"""Sample inputs of a model from the files of a folder: arrays (.npy, .npz) and images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from qconv.network import Tensor
from qconv.onnx.model import tensor_of
from qconv.onnx.tensor import Unsupported

ARRAYS = (".npy", ".npz")
IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
GREY, COLOR = 1, 3


@dataclass(frozen=True)
class Pixels:
    """How an image becomes an input: resized to `size` (height, width), which may be that of the model, then
    (pixel / 255 - mean) / std per channel. Inputs of integers take the pixels as they are."""

    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def __post_init__(self) -> None:
        if self.size is not None and min(self.size) < 1:
            raise ValueError(f"the size {self.size} must be a height and a width of at least 1")
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (GREY, COLOR) or not np.isfinite(numbers).all():
                raise ValueError(f"{name}={numbers} must be one finite number, or {COLOR}: one per channel")
        if min(self.std) <= 0:
            raise ValueError(f"std={self.std} must be above 0: pixels are divided by it")

    def array(self, file: Path, wanted: Tensor) -> Any:
        """Read an image as an array with a batch of 1."""
        channels, is_last, size = _image_axes(wanted)
        size = self.size or size
        if size is None:
            raise ValueError(f"{file}: the input {wanted} has no fixed height and width: give the size of images")
        from PIL import Image, UnidentifiedImageError

        try:
            with Image.open(file) as opened:
                image = opened.convert("L" if channels == GREY else "RGB").resize(
                    (size[1], size[0]), Image.Resampling.BILINEAR
                )
        except (UnidentifiedImageError, OSError) as error:
            raise ValueError(f"{file} cannot be read as an image ({error}): remove or replace it") from None
        pixels = np.asarray(image).reshape(*size, channels)
        if np.dtype(wanted.dtype).kind == "f":
            mean, std = (np.asarray(numbers, np.float32) for numbers in (self.mean, self.std))
            pixels = ((pixels.astype(np.float32) / 255 - mean) / std).astype(wanted.dtype)
        return (pixels if is_last else pixels.transpose(2, 0, 1))[None]


def _with_open_extents(given: Tensor) -> Tensor:
    """Return the tensor with None for extents that some exporters write as -1 or 0."""
    return replace(
        given, shape=None if given.shape is None else tuple(one if one and one > 0 else None for one in given.shape)
    )


def _image_axes(wanted: Tensor) -> tuple[int, bool, tuple[int, int] | None]:
    """Return the channels of an input of images, whether they are last, and the height and width if both are fixed."""
    shape = wanted.shape or ()
    for at, is_last in ((1, False), (3, True)):
        if len(shape) == 4 and (channels := shape[at]) in (GREY, COLOR):
            height, width = shape[1:3] if is_last else shape[2:]
            return channels, is_last, None if height is None or width is None else (height, width)
    raise ValueError(f"the input {wanted} does not take images, which have 1 or 3 channels: give its arrays, as .npy")


@dataclass(frozen=True)
class Samples:
    """The files of a folder, in the order of their names, as inputs of a model. A model with a fixed batch gets as many
    samples at a time; those that are left over are not used."""

    inputs: tuple[Tensor, ...]
    files: tuple[Path, ...]
    pixels: Pixels

    @classmethod
    def of(cls, model: onnx.ModelProto, folder: Path, pixels: Pixels, most: int | None = None) -> Samples:
        """Find the files. Raise ValueError where there are none."""
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}: give one with the inputs as .npy, .npz or images")
        suffixes = (*ARRAYS, *IMAGES)
        files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
        if not files:
            raise ValueError(f"{folder} has no samples: give a folder with files {', '.join(suffixes)}")
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = (tensor_of(value) for value in model.graph.input if value.name not in held)
        return cls(tuple(map(_with_open_extents, inputs)), tuple(files[:most]), pixels)

    @property
    def images(self) -> int:
        return sum(file.suffix.lower() in IMAGES for file in self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the inputs of one run after the other. Raise ValueError for a file that does not fit."""
        waiting: list[dict[str, Any]] = []
        ran = False
        for file in self.files:
            given = {one.name: self._array(file, one, array) for one, array in self._arrays(file).items()}
            batch = self._batch
            if batch is None or all(one.may_be(given[one.name].shape) for one in self.inputs):
                ran = True
                yield given
                continue
            waiting += ({name: array[at : at + 1] for name, array in given.items()} for at in range(_rows_of(given)))
            while len(waiting) >= batch:
                ran = True
                yield {one.name: np.concatenate([row[one.name] for row in waiting[:batch]]) for one in self.inputs}
                del waiting[:batch]
        if not ran:
            raise ValueError(
                f"the model takes {self._batch} samples at a time, and there are {len(waiting)}: give more"
            )

    @property
    def _batch(self) -> int | None:
        shape = self.inputs[0].shape
        return shape[0] if shape else None

    def _arrays(self, file: Path) -> Mapping[Tensor, Any]:
        """Return the contents of a file by the inputs of the model."""
        suffix = file.suffix.lower()
        if suffix == ".npz":
            arrays = _loaded(file)
            if missing := [one.name for one in self.inputs if one.name not in arrays]:
                has = ", ".join(arrays) or "nothing"
                raise ValueError(
                    f"{file} has {has}, and no {', '.join(missing)}: name its arrays as the model's inputs"
                )
            return {one: arrays[one.name] for one in self.inputs}
        if len(self.inputs) != 1:
            names = ", ".join(one.name for one in self.inputs)
            raise ValueError(f"{file} has one array, and the model takes {names}: give .npz files with these names")
        (one,) = self.inputs
        return {one: self.pixels.array(file, one) if suffix in IMAGES else _loaded(file)}

    def _array(self, file: Path, wanted: Tensor, array: Any) -> Any:
        """Return an array of a file as the model takes it, but for the batch."""
        shape, axes = array.shape, wanted.shape
        if axes is not None and len(shape) == len(axes) - 1:
            array = array[None]
        fits = axes is None or (
            array.ndim == len(axes) and wanted.may_be((axes[0] or 0, *array.shape[1:]) if axes else ())
        )
        if not fits:
            raise ValueError(f"{file} has an array of shape {shape}; the model takes {wanted}: give such arrays")
        if not np.can_cast(array.dtype, np.dtype(wanted.dtype), "same_kind"):
            raise ValueError(f"{file} has {array.dtype}; the model takes {wanted}: convert it")
        return array.astype(wanted.dtype, copy=False)


def _loaded(file: Path) -> Any:
    """Return the array of a file, or arrays by their names. Objects, which are programs, are not loaded."""
    try:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            return {name: content[name] for name in content.files}
    except Exception:  # zipfile and numpy raise many kinds for damaged files
        raise ValueError(f"{file} has no arrays that numpy.load reads: write it with numpy.save or savez") from None


def _rows_of(given: Mapping[str, Any]) -> int:
    rows = {array.shape[0] for array in given.values() if array.ndim}
    if len(rows) != 1:
        raise Unsupported(f"inputs have batches of {sorted(rows)}: give arrays with one number of samples")
    return int(rows.pop())


def shown(samples: Samples) -> Sequence[str]:
    """Describe how the samples are read."""
    said = [f"{len(samples)} files of samples"]
    if samples.images and any(np.dtype(one.dtype).kind == "f" for one in samples.inputs):
        given = ", ".join(map(str, samples.pixels.mean)), ", ".join(map(str, samples.pixels.std))
        said.append(f"images are read as (pixel / 255 - mean) / std with mean {given[0]} and std {given[1]}")
    return said
