"""A picture of one suite: every layer's floor, our time and the peers', as PNG and SVG next to the JSON.

    python bench/plot.py bench/results/nvidia-h200/dense.json [--out FOLDER]

Needs matplotlib: pip install '.[bench]'.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

# Name -> marker and colour; others get a grey diamond.
STYLES = {
    "floor": ("|", "black"),
    "ours": ("o", "tab:red"),
    "cudnn_int8": ("s", "tab:green"),
    "cudnn_fp16": ("^", "tab:blue"),
    "cutlass_sm80": ("v", "tab:purple"),
    "cutlass_sm90": ("<", "tab:pink"),
    "simt": ("x", "tab:gray"),
}
# Peers that are not measured here: times from the csv, of another run with the same protocol.
ELSEWHERE = ("cutlass_sm80", "cutlass_sm90")
OTHER = ("D", "lightgray")


def series(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Return name -> one time per row, or None if it has none; names without any time are left out."""
    found = {"floor": [row.get("floor_us") for row in rows], "ours": [row["time_us"] for row in rows]}
    for name in dict.fromkeys(name for row in rows for name in row.get("peers", {})):
        found[name] = [row.get("peers", {}).get(name) for row in rows]
    for name in ELSEWHERE:
        found[name] = [row.get(f"{name}_us") for row in rows]
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def draw(document: dict[str, Any], folder: Path) -> list[Path]:
    import matplotlib

    matplotlib.use("Agg")
    # Make the SVG reproducible.
    matplotlib.rcParams.update({"svg.hashsalt": "qconv", "svg.fonttype": "none"})
    from matplotlib import pyplot

    rows = document["rows"]
    figure, axes = pyplot.subplots(figsize=(9, 1.6 + 0.26 * len(rows)), layout="constrained")
    at = range(len(rows))
    for name, values in series(rows).items():
        marker, colour = STYLES.get(name, OTHER)
        shown = [(value, place) for value, place in zip(values, at, strict=True) if value is not None]
        size = {"floor": 11, "ours": 9}.get(name, 5)
        # A ring, so that a peer at the same place is visible inside it.
        ring: dict[str, Any] = {"fillstyle": "none", "markeredgewidth": 1.8, "zorder": 3} if name == "ours" else {}
        label = f"{name} (another run)" if name in ELSEWHERE else name
        line: dict[str, Any] = {"marker": marker, "color": colour, "markersize": size, "label": label, "linestyle": ""}
        axes.plot(*zip(*shown, strict=True), **(line | ring))
    axes.set_yticks(at, [row["name"] for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}"))
    axes.set_xlabel("microseconds a launch, cold cache (less is better)")
    axes.grid(axis="both", color="0.9")
    axes.set_axisbelow(True)
    axes.set_title(f"{document['suite']} on {document['device']['name']}", fontsize=10)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
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
