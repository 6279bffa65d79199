"""The common part of suites of layers beside peers: options, a run through all layers, and how much faster."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from network_timing import Row
from report import Report


def parser_of(description: str | None, layers: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="?", type=Path, default=layers)
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="begin no layer after that time")
    parser.add_argument("--most", type=int, help="the largest extent of an image, and the most images")
    parser.add_argument("--device")
    parser.add_argument("--commit", help="where there is no checkout")
    return parser


def mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def over_peer(rows: Sequence[Row]) -> Row:
    over = [row["over_peer"] for row in rows if row.get("over_peer")]
    return {
        "rows": len(rows),
        "verified": sum(row["verified"] for row in rows),
        "over_peer": mean(over),
        "least_over_peer": min(over, default=None),
    }


def measure(
    report: Report,
    layers: Iterable[tuple[str, Callable[[], Row]]],
    summary: Callable[[Sequence[Row]], Row],
    shown: Sequence[str],
    until: float,
) -> None:
    """Measure the layers until a time of the clock, and write each row. Exit with the names of wrong ones."""
    rows: list[Row] = []
    for name, measured in layers:
        if time.monotonic() > until:
            print("the time is over", file=sys.stderr)
            break
        rows.append({"name": name, **measured()})
        report.write(rows, summary(rows))
        print(json.dumps({key: rows[-1].get(key) for key in ("name", *shown)}), flush=True)
    print(json.dumps(summary(rows)))
    if wrong := [row["name"] for row in rows if not row["verified"]]:
        sys.exit(f"these differ from what was expected: {', '.join(wrong)}")
