"""Rows as a table on the terminal, with geometric means."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

Row = dict[str, Any]

# Column -> its value for a row; None is an empty cell. Ratios above 1 mean that we are faster.
RATIOS: dict[str, Callable[[Row], float | None]] = {
    "of floor": lambda row: _over(row.get("floor_us"), row["time_us"]),
    "x best peer": lambda row: _over(row.get("best_peer_us"), row["time_us"]),
    "x sm80": lambda row: _over(row.get("cutlass_sm80_us"), row["time_us"]),
    "x simt": lambda row: _over(row.get("peers", {}).get("simt"), row["time_us"]),
}


def _over(theirs: float | None, ours: float) -> float | None:
    return None if theirs is None else theirs / ours


def means(rows: Iterable[Row]) -> dict[str, float]:
    """Return the geometric mean of each ratio, over the rows that have it."""
    kept = list(rows)
    found = {name: [value for row in kept if (value := ratio(row)) is not None] for name, ratio in RATIOS.items()}
    return {name: statistics.geometric_mean(values) for name, values in found.items() if values}


def table(title: str, rows: list[Row]) -> Table:
    shown = Table(title=title)
    shown.add_column("layer", no_wrap=True)
    for name in ("us", "TOPS", *RATIOS):
        shown.add_column(name, justify="right", no_wrap=True)
    for name in ("best peer", "verified", "config"):
        shown.add_column(name)
    for row in rows:
        best = f"{row['best_peer']} {row['best_peer_us']:.2f}" if row.get("best_peer") else "none"
        config = " ".join(str(value) for value in row["config"].values())
        verified = "yes" if row["verified"] else "NO"
        shown.add_row(row["name"], f"{row['time_us']:.2f}", f"{row['tops']:.1f}", *_ratios(row), best, verified, config)
    average = means(rows)
    shown.add_section()
    shown.add_row("geometric mean", "", "", *(_percent(name, average.get(name)) for name in RATIOS), "", "", "")
    return shown


def _ratios(row: Row) -> list[str]:
    return [_percent(name, ratio(row)) for name, ratio in RATIOS.items()]


def _percent(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if name == "of floor" else f"{value:.2f}"


def show(title: str, rows: list[Row]) -> None:
    # In a pipe, rich assumes 80 columns and folds every name.
    console = Console()
    Console(width=None if console.is_terminal else 200).print(table(title, rows))
