"""A picture of one suite: every layer's floor, our time and the peers', as PNG and SVG beside the JSON.

    python bench/plot.py bench/results/nvidia-h200/dense.json [--out FOLDER]

Needs matplotlib: pip install '.[bench]'.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

# Name -> marker and colour; what is not listed gets a grey diamond.
STYLES = {
    "floor": ("|", "black"),
    "ours": ("o", "tab:red"),
    "cudnn_int8": ("s", "tab:green"),
    "cudnn_fp16": ("^", "tab:blue"),
    "cutlass_sm80": ("v", "tab:purple"),
    "cutlass_sm90": ("<", "tab:pink"),
    "simt": ("x", "tab:gray"),
}
OTHER = ("D", "lightgray")


def series(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Name -> a time for each row, or None where it has none; what no row has is left out."""
    names = ["floor", "ours", *dict.fromkeys(name for row in rows for name in row.get("peers", {}))]
    # Of another run, by the same protocol: the csv's.
    names += [name for name in ("cutlass_sm80", "cutlass_sm90") if any(row.get(f"{name}_us") for row in rows)]

    def time_of(name: str, row: dict[str, Any]) -> float | None:
        if name == "ours":
            return row["time_us"]
        return row.get("peers", {}).get(name) or row.get(f"{name}_us")

    found = {name: [time_of(name, row) for row in rows] for name in names}
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    import matplotlib

    matplotlib.use("Agg")
    # The same document gives the same bytes.
    matplotlib.rcParams.update({"svg.hashsalt": "qconv", "svg.fonttype": "none"})
    from matplotlib import pyplot

    rows = document["rows"]
    figure, axes = pyplot.subplots(figsize=(9, 1.6 + 0.26 * len(rows)), layout="constrained")
    at = range(len(rows))
    for name, values in series(rows).items():
        marker, colour = STYLES.get(name, OTHER)
        shown = [(value, place) for value, place in zip(values, at, strict=True) if value is not None]
        size = {"floor": 11, "ours": 8}.get(name, 6)
        line = {"marker": marker, "color": colour, "markersize": size, "zorder": 3 if name == "ours" else 2}
        axes.plot(*zip(*shown, strict=True), linestyle="", label=name, **line)
    axes.set_yticks(at, [row["name"] for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
    axes.set_xlabel("microseconds a launch, cold cache (less is better)")
    axes.grid(axis="both", color="0.9")
    axes.set_axisbelow(True)
    axes.set_title(f"{document['suite']} on {document['device']['name']}", fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{document['suite']}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else {})
    pyplot.close(figure)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, help="default: beside the JSON")
    options = parser.parse_args()
    for path in options.results:
        for made in draw(json.loads(path.read_text()), options.out or path.parent):
            print(made)


if __name__ == "__main__":
    main()
