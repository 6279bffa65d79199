"""Lists of layers: one csv row, one convolution.

Two kinds of columns are read: name, stride, pad (peers_h200.csv), and model, layer, stride_h, stride_w, pad_h, pad_w,
dil_h, dil_w, bias, kind (layers.csv). Both have N, H, W, C, K, R, S, groups.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from qconv import Conv2d, Quantization

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
    def pair(name: str, both: str) -> tuple[int, int]:
        return (int(row[both]),) * 2 if both in row else (int(row[f"{name}_h"]), int(row[f"{name}_w"]))

    n, h, w, c, k, r, s, groups = (int(row[name]) for name in ("N", "H", "W", "C", "K", "R", "S", "groups"))
    model = row.get("model")
    return Layer(
        name=f"{model}/{row['layer']}" if model else row["name"],
        model=model,
        problem=Conv2d(
            *(batch or n, h, w, c, k, r, s),
            stride=pair("stride", "stride"),
            dilation=pair("dil", "dil") if "dil_h" in row else (1, 1),
            pad=pair("pad", "pad") * 2,
            groups=groups,
            quantization=quantized(row),
        ),
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
