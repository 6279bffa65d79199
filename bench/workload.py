"""Lists of layers with what a comparison needs beside the problem: one csv row, one convolution.

`qconv.tuner.listing` says which columns there are; kind, bias and times (`*_us`) are read here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qconv import Conv2d, Quantization
from qconv.tuner.listing import convolution, name_of

# Computed here, from the problem or in the same run: the csv's are of another day.
OURS = ("floor_us", "best_peer_us")


@dataclass(frozen=True)
class Layer:
    name: str
    model: str | None
    problem: Conv2d
    biased: bool
    kind: str = ""  # as the csv calls it: dw, grouped, stem, ...
    published: dict[str, float] = field(default_factory=dict)  # times in the csv, by their columns: cutlass_sm80_us


def plain(row: dict[str, str]) -> Quantization:
    """One scale and no bias: what every peer has."""
    return Quantization()


def layer_of(row: dict[str, str], quantized: Callable[[dict[str, str]], Quantization], batch: int | None) -> Layer:
    return Layer(
        name=name_of(row),
        model=row.get("model"),
        problem=convolution(row, quantized(row), batch),
        biased=row.get("bias") == "1",
        kind=row.get("kind", ""),
        published={
            name: float(text) for name, text in row.items() if name.endswith("_us") and text and name not in OURS
        },
    )


def read(
    path: Path,
    *,
    only: str = "",
    models: str = "",
    kinds: str = "",
    batch: int | None = None,
    quantized: Callable[[dict[str, str]], Quantization] = plain,
) -> list[Layer]:
    """`only`, `models` and `kinds` are regular expressions over the names of layers, of models and of kinds; `batch`
    replaces N."""
    with path.open(newline="") as lines:
        layers = [layer_of(row, quantized, batch) for row in csv.DictReader(lines)]

    def wanted(layer: Layer) -> bool:
        return bool(
            re.search(only, layer.name) and re.search(models, layer.model or "") and re.search(kinds, layer.kind)
        )

    return [layer for layer in layers if wanted(layer)]


def distinct(layers: list[Layer]) -> dict[Conv2d, list[Layer]]:
    """The layers of every problem, in the order of the list: equal problems are measured once."""
    same: dict[Conv2d, list[Layer]] = {}
    for layer in layers:
        same.setdefault(layer.problem, []).append(layer)
    return same
