"""Workload files: a csv with one layer per row, or text with one canonical key per line.

Three sets of csv columns are accepted: name, stride, pad (peers_h200.csv); model, layer, stride_h, stride_w, pad_h,
pad_w, dil_h, dil_w (layers.csv); and those of two consecutive convolutions, with a number after each name
(fused_pairs.csv). A column output_padding makes the rows transposed convolutions. Columns named like fields of
`Quantization` give the quantization of the layer.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from qconv.arithmetic.activation import named
from qconv.arithmetic.quantization import Quantization
from qconv.op import Problem, quoted
from qconv.ops.registry import parse
from qconv.problem.chain import Chain, chain_of
from qconv.problem.convolution import Conv2d
from qconv.problem.transposed import ConvTranspose2d
from qconv.tuner.workload import Place, Refused, Workload

Row = Mapping[str, str]

EXTENTS = ("N", "H", "W", "C", "K", "R", "S", "groups")
# The column that only transposed convolutions have.
OF_TRANSPOSED = "output_padding"
# One column for both directions, or two: name_h and name_w.
TWOFOLD = ("stride", "pad")
OF_EACH = ("K", "R", "S", "stride", "pad", "dil", "groups")
PAIR = ("N", "H", "W", "C", *(f"{name}{which}" for which in (1, 2) for name in OF_EACH))
# Names of activations in the files, and the names that qconv gives them.
ACTIVATIONS = named("module")
_SWITCHES = {"": False, "0": False, "1": True}
_STATED = {field.name: field.type for field in fields(Quantization) if field.name != "mode"}


def read(path: Path, batch: int | None = None) -> Workload:
    """Read a workload. `batch` replaces N. Rows that no problem describes are kept with the reason."""
    places: list[Place] = []
    refused: list[Refused] = []
    reader = _rows if path.suffix.lower() == ".csv" else _keys
    for name, problem in reader(path):
        try:
            places.append(problem(batch))
        except ValueError as error:
            refused.append(Refused(name, str(error)))
    return Workload.of(path.name, places, refused)


Maker = Callable[[int | None], Place]


def _keys(path: Path) -> Iterator[tuple[str, Maker]]:
    """Generate the problems of a text file. An invalid line is an error; empty lines and comments from # to the end of
    a line are skipped."""
    for number, line in enumerate(_text(path).splitlines(), 1):
        key = line.partition("#")[0].strip()
        if not key:
            continue
        try:
            problem = parse(key)
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        yield (
            f"line {number}",
            lambda batch, problem=problem, name=f"line {number}": Place(  # type: ignore[misc]
                name, problem if batch is None else with_batch(problem, batch)
            ),
        )


def with_batch(problem: Problem, batch: int) -> Conv2d | Chain:
    """Return the same convolutions for `batch` images."""
    if isinstance(problem, Conv2d):
        return replace(problem, n=batch)
    if isinstance(problem, Chain):
        return chain_of([replace(one, n=batch) for one in problem.layers.values()])
    raise ValueError(f"{problem} has no batch: leave --batch out, or give convolutions alone")


def _rows(path: Path) -> Iterator[tuple[str, Maker]]:
    reader = csv.DictReader(io.StringIO(_text(path), newline=""))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise ValueError(f"{path}:{reader.line_num}: no row of a csv ({error}); mend or remove it") from None
    columns = tuple(reader.fieldnames or ())
    # A file of pairs has columns that no other file has.
    is_pairs = not {"K1", "K2"}.isdisjoint(columns)
    if missing := missing_of(columns, PAIR if is_pairs else EXTENTS, () if is_pairs else TWOFOLD):
        needed = ", ".join(PAIR if is_pairs else (*EXTENTS, *map(_spelled, TWOFOLD)))
        what = "a pair" if is_pairs else "a layer"
        raise ValueError(f"{path}: its first line names no column {', '.join(missing)}; {what} needs {needed}")
    yield from ((name_of(row), partial(_pair if is_pairs else _layer, row)) for row in rows)


def missing_of(columns: Sequence[str], needed: Sequence[str], twofold: Sequence[str]) -> list[str]:
    """Return the columns that the header lacks, as a message names them."""
    lacks = [name for name in needed if name not in columns]
    return lacks + [_spelled(name) for name in twofold if name not in columns and not set(_both(name)) <= set(columns)]


def _both(name: str) -> tuple[str, str]:
    return f"{name}_h", f"{name}_w"


def _spelled(name: str) -> str:
    return f"{name} (or {' and '.join(_both(name))})"


def _text(path: Path) -> str:
    """Read a text file without the byte order mark that spreadsheets write, which would become part of the first
    name."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is no text in UTF-8 (at byte {error.start}): give a csv of layers, a file with a key in each "
            "line, or a model whose name ends in .onnx"
        ) from None


def name_of(row: Row) -> str:
    layer = row.get("layer") or "+".join(row[name] for name in ("layer1", "layer2") if row.get(name))
    return f"{row['model']}/{layer}" if row.get("model") else row.get("name") or layer or "a row without a name"


def _layer(row: Row, batch: int | None) -> Place:
    return Place(name_of(row), convolution(row, stated(row), batch))


def _pair(row: Row, batch: int | None) -> Place:
    if row.get("between", "none") != "none":
        raise ValueError(f"{quoted(row['between'])} stands between the two: only what follows at once is one kernel")
    return Place(name_of(row), chain([row], batch))


def convolution(row: Row, quantization: Quantization, batch: int | None) -> Conv2d:
    n, h, w, c, k, r, s, groups = (_integer(row, name) for name in EXTENTS)
    sizes = (batch or n, h, w, c, k, r, s)
    gap = next((_two(row, name) for name in ("dil", "dilation") if name in row or f"{name}_h" in row), (1, 1))
    stride, pad = _two(row, "stride"), _two(row, "pad") * 2
    if OF_TRANSPOSED not in row:
        return Conv2d(*sizes, stride, gap, pad, groups, quantization=quantization)
    extra = _two(row, OF_TRANSPOSED)
    return ConvTranspose2d(*sizes, stride, gap, pad, extra, groups, quantization).phases


def chain(rows: Sequence[Row], batch: int | None) -> Chain:
    """Build a chain as networks deploy it: scales and biases per channel, the network's activation between two
    convolutions, and a residual around an inverted residual block. Each row continues with the second convolution of
    the row before."""
    n, c, h, w = batch or _integer(rows[0], "N"), *(_integer(rows[0], name) for name in ("C", "H", "W"))
    made = [_of_pair(rows[0], "1", (n, h, w, c), rows[0].get("act1") or "none")]
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        last = made[-1]
        activation = "none" if following is None else following.get("act1") or "none"
        made.append(_of_pair(row, "2", (n, last.oh, last.ow, last.k), activation))
    if len(made) == 3 and made[-1].y_shape == made[0].x_shape:
        made[-1] = replace(made[-1], quantization=replace(made[-1].quantization, residual="int8"))
    return chain_of(made)


def _of_pair(row: Row, which: str, x: tuple[int, int, int, int], activation: str) -> Conv2d:
    k, r, s, step, pad, dilation, groups = (_integer(row, f"{name}{which}") for name in OF_EACH)
    q = Quantization(per_channel=True, bias="int32", activation=_activation(activation))
    return Conv2d(*x, k, r, s, (step, step), (dilation, dilation), (pad, pad, pad, pad), groups, quantization=q)


def stated(row: Row) -> Quantization:
    """Return the quantization given by the columns, by default one scale and no bias. `bias` may be 1, as in files of
    networks."""
    given: dict[str, str | bool] = {}
    for name, kind in _STATED.items():
        text = (row.get(name) or "").strip()
        if kind == "bool":
            if text not in _SWITCHES:
                raise ValueError(f"{name}={quoted(text)} must be 0 or 1")
            given[name] = _SWITCHES[text]
        elif name == "bias" and text in _SWITCHES:
            given[name] = "int32" if _SWITCHES[text] else "none"
        elif text:
            given[name] = _activation(text) if name == "activation" else text
    return Quantization(**given)  # type: ignore[arg-type]  # each is checked there


def _activation(name: str) -> str:
    return ACTIVATIONS.get(name, name)


def _two(row: Row, name: str) -> tuple[int, int]:
    """Return the vertical and horizontal value, from two columns or from one."""
    return (_integer(row, name),) * 2 if name in row else (_integer(row, f"{name}_h"), _integer(row, f"{name}_w"))


def _integer(row: Row, name: str) -> int:
    text = (row.get(name) or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise ValueError(f"{name}={quoted(text)} must be an integer, not negative, of at most ten digits")
    return int(text)
