"""Options of commands that read samples from a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import progress
from qconv.op import quoted

if TYPE_CHECKING:
    from qconv.onnx.samples import Samples

Command = Callable[..., Any]


def sample_options(command: Command) -> Command:
    """Pass `data`, `size`, `mean`, `std` and `most`, of which `samples_of` makes samples."""
    for option in (
        click.option("--limit", "most", type=click.IntRange(1), help="At most this many files, the first by name."),
        click.option("--std", metavar="S[,S,S]", help="Of images. Default: 0.229,0.224,0.225."),
        click.option("--mean", metavar="M[,M,M]", help="Of images: (pixel / 255 - mean) / std. Default: ImageNet's."),
        click.option("--size", metavar="HxW", help="Of images, where the model has no size of its own."),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            required=True,
            metavar="FOLDER",
            help="Samples: .npy (one input), .npz (inputs by name) or images.",
        ),
    ):
        command = option(command)
    return command


def samples_of(
    model: Path, data: Path, size: str | None, mean: str | None, std: str | None, most: int | None
) -> Samples:
    """Return the samples for the inputs of a model, after saying how they are read."""
    from qconv.onnx.model import loaded, source_of
    from qconv.onnx.samples import Pixels, Samples, shown

    given: dict[str, Any] = {}
    if size is not None:
        found = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", size, re.ASCII)
        if found is None:
            raise ValueError(f"--size {quoted(size)} must be a height and a width, such as 224x224")
        given["size"] = (int(found[1]), int(found[2]))
    given |= {name: _numbers(name, text) for name, text in (("mean", mean), ("std", std)) if text is not None}
    samples = Samples.of(loaded(source_of(model)), data, Pixels(**given), most)
    progress.say(*shown(samples))
    return samples


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--{name} {quoted(text)} must be numbers with commas between, such as 0.5,0.5,0.5") from None
