"""Lists of layers with the data that a comparison needs beside the problem: one csv row, one convolution.

`qconv.tuner.workloads.listing` documents the columns; kind, bias and times (`*_us`) are read here.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from filters import add_filters

from qconv import Conv2d, Quantization
from qconv.tuner.workloads.listing import convolution, name_of

# Computed here, from the problem or in the same run: the csv's values are of another day.
OURS = ("floor_us", "best_peer_us")


@dataclass(frozen=True)
class Layer:
    name: str
    model: str | None
    problem: Conv2d
    biased: bool
    kind: str = ""  # the csv's name: dw, grouped, stem, ...
    published: dict[str, float] = field(default_factory=dict)  # times in the csv, by their columns: cutlass_sm80_us

    def is_chosen(self, only: str, models: str, kinds: str) -> bool:
        return are_found((self.name, only), (self.model or "", models), (self.kind, kinds))


def are_found(*texts: tuple[str, str]) -> bool:
    """Return true if each regular expression is found in its text."""
    return all(re.search(pattern, text) for text, pattern in texts)


def plain(row: dict[str, str]) -> Quantization:
    """Return a quantization with one scale and no bias, which every peer supports."""
    return Quantization()


def typed(types: str | None) -> Callable[[dict[str, str]], Quantization]:
    """Return the quantization of these types of x, w and y ("float16,float16,float16"), or the plain one."""
    if types is None:
        return plain
    x_type, w_type, out_type = types.split(",")
    return lambda row: Quantization(x_type, w_type, out_type)


def layer_of(row: dict[str, str], quantized: Callable[[dict[str, str]], Quantization], batch: int | None) -> Layer:
    quantization = quantized(row)
    are_bytes = quantization.types.sum.is_integer  # as the times that the csv has were measured
    return Layer(
        name=name_of(row),
        model=row.get("model"),
        problem=convolution(row, quantization, batch),
        biased=row.get("bias") == "1",
        kind=row.get("kind", ""),
        published={
            name: float(text)
            for name, text in row.items()
            if are_bytes and name.endswith("_us") and text and name not in OURS
        },
    )


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser for a script that takes such lists, with the options that select layers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=Path, nargs="+")
    parser.add_argument("--models", default="", metavar="REGEX", help="over the names of the models")
    add_filters(parser, "layers", "'^(dw|grouped|stem)$'")
    return parser


def read(
    path: Path,
    *,
    only: str = "",
    models: str = "",
    kinds: str = "",
    batch: int | None = None,
    quantized: Callable[[dict[str, str]], Quantization] = plain,
) -> list[Layer]:
    """Return the layers whose names, models and kinds match the regular expressions; `batch` replaces N. Other layers
    need not make a valid problem at this batch."""
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [
        layer_of(row, quantized, batch)
        for row in rows
        if are_found((name_of(row), only), (row.get("model") or "", models), (row.get("kind", ""), kinds))
    ]


def pair_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of fused_pairs.csv, or of a list like it, with nothing between the two convolutions."""
    with path.open(newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["between"] == "none"]


def chosen_by(options: argparse.Namespace, quantized: Callable[[dict[str, str]], Quantization] = plain) -> list[Layer]:
    """Return the layers that the options of `parser_of` select, of all lists."""
    named = {"only": options.only, "models": options.models, "kinds": options.kinds}
    paths = options.layers
    return [layer for path in paths for layer in read(path, **named, batch=options.batch, quantized=quantized)]


def distinct(layers: list[Layer]) -> dict[Conv2d, list[Layer]]:
    """Return the layers of every problem, in the order of the list: equal problems are measured once."""
    same: dict[Conv2d, list[Layer]] = {}
    for layer in layers:
        same.setdefault(layer.problem, []).append(layer)
    return same
