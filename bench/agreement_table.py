"""The table of docs/networks.md from the rows of `zoo_agreement.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

HEAD = (
    "network", "types", "inputs", "outputs", "floats", "decided alike", "layers alone", "their floats", "nudged",
    "by default",
)  # fmt: skip
# The bounds: the fraction of integers that may differ, the largest difference of floats over their range, and the least
# fraction of a trained network's decisions that are alike.
INTEGERS, FLOATS, ALIKE = 1e-4, 1e-3, 0.995
NOTHING = "-"


def rates(counts: list[int]) -> str:
    """Return the fractions that differ by one and by more."""
    elements, by_one, by_more = counts
    if not elements:
        return NOTHING
    return f"{by_one / elements:.1e}, {by_more / elements:.1e}" if by_one + by_more else "0"


def float_of(largest: float | None) -> str:
    return NOTHING if largest is None else f"{largest:.1e}" if largest else "0"


def alike_of(row: Row) -> str:
    return f"{100 * row['same'] / row['decisions']:.2f} %" if row["decisions"] else NOTHING


def alone_of(row: Row) -> list[int]:
    """Return the counts of all integer layers together."""
    return [sum(each) for each in zip(*row["layers"].values(), strict=True)]


def itself(row: Row, name: str) -> str:
    return f"{rates(row[name]['outputs'])}; {alike_of(row[name])}" if name in row else NOTHING


def line(row: Row) -> str:
    floats = max(row["of_floats"].values(), default=None)
    cells = (
        row["name"], row["types"], row["inputs"], rates(row["outputs"]), float_of(row["largest"]), alike_of(row),
        rates(alone_of(row)), float_of(floats), itself(row, "nudged"), itself(row, "by_default"),
    )  # fmt: skip
    return of_cells(map(str, cells))


def of_cells(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def misses(row: Row) -> Iterator[str]:
    """Yield how a row misses the bounds of its outputs."""
    elements, by_one, by_more = row["outputs"]
    if by_more or by_one > INTEGERS * elements:
        yield "outputs"
    if (row["largest"] or 0.0) > FLOATS:
        yield "floats"
    if row["trained"] and row["same"] < ALIKE * row["decisions"]:
        yield "decisions"


def layers_beyond(row: Row) -> list[str]:
    """Return the kinds of layers that miss the bounds by themselves."""
    integers = [op for op, (count, one, more) in row["layers"].items() if more or one > max(1.0, INTEGERS * count)]
    return integers + [op for op, largest in row["of_floats"].items() if largest > FLOATS]


def agreement(path: Path) -> str:
    """Return the table, and sentences that name the rows within the bounds and beyond."""
    rows = [row for row in json.loads(path.read_text())["rows"] if "missing" not in row]
    lines = [line(row) for row in sorted(rows, key=lambda row: (not row["trained"], row["types"] == "s8s8"))]
    beyond = [f"{row['name']} {row['types']} ({', '.join(misses(row))})" for row in rows if [*misses(row)]]
    alone = [f"{row['name']} {row['types']}: {', '.join(layers_beyond(row))}" for row in rows if layers_beyond(row)]
    said = f"Within the bounds: {len(rows) - len(beyond)} of {len(rows)}; beyond: {', '.join(beyond) or 'none'}."
    head = [of_cells(HEAD), of_cells("---" for _ in HEAD)]
    return "\n".join([*head, *lines, "", f"{said} Layers beyond them by themselves: {'; '.join(alone) or 'none'}."])
