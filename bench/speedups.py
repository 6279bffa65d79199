"""The speed-ups of the committed suites, and the picture of README.

    python bench/speedups.py            # draws docs/speedups.svg; needs matplotlib: pip install '.[bench]'

It is made from the rows of bench/results that were measured on today's kernels, and the same rows give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from current import is_current

Row = dict[str, Any]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "nvidia-h200"
PICTURE = ROOT / "docs" / "speedups.svg"
DEVICE = "NVIDIA H200"

CUTLASS = "the faster of CUTLASS's sm80 and sm90 kernels (published figures)"
CUDNN = "the faster of cuDNN 9.19's int8 and fp16"
CUDNN_FP16 = "cuDNN 9.19 fp16"
CUDNN_HALVES = "the faster of cuDNN 9.19's fp16 and bf16"
TUNED = "the same layers after 24 trials"
TWO_KERNELS = "this project's fastest separate kernels, tuned as long"


def _over_cutlass(row: Row) -> float:
    published = (row.get("cutlass_sm80_us"), row.get("cutlass_sm90_us"))
    return min(float(us) for us in published if us) / float(row["time_us"])


def _tuned_over_best_peer(row: Row) -> float:
    return float(row["best_peer_us"]) / float(row["times_us"]["tuned"])


def _field(name: str) -> Callable[[Row], float]:
    return lambda row: float(row[name])


@dataclass(frozen=True)
class Comparison:
    """Many layers compared with one peer: the speed-up of each."""

    what: str
    peer: str
    suites: tuple[str, ...]
    ratio: Callable[[Row], float]
    drawn: str = ""  # the name in the picture; empty: in a table only
    fused: bool = False  # several convolutions in one kernel

    @property
    def rows(self) -> list[Row]:
        return [row for suite in self.suites for row in current_rows(suite)]

    @property
    def left_out(self) -> int:
        """Rows of which a kernel has changed since they were measured."""
        return sum(len(document(suite)["rows"]) for suite in self.suites) - len(self.rows)

    @property
    def ratios(self) -> list[float]:
        return [self.ratio(row) for row in self.rows]

    @property
    def mean(self) -> float:
        return statistics.geometric_mean(self.ratios)

    @property
    def is_known(self) -> bool:
        return bool(self.rows)


@cache
def document(suite: str) -> Row:
    found: Row = json.loads((RESULTS / f"{suite}.json").read_text())
    return found


def current_rows(suite: str) -> list[Row]:
    """The rows of a suite that were measured on today's kernels."""
    device = document(suite)["device"]
    if device["name"] != DEVICE:
        raise ValueError(f"{suite}.json was measured on {device['name']}; the picture shows the {DEVICE}")
    return [row for row in document(suite)["rows"] if is_current(row, device["target"])]


def _fused(what: str, drawn: str, *suites: str) -> tuple[Comparison, Comparison]:
    return (
        Comparison(what, CUDNN_FP16, suites, _field("over_best_peer"), drawn, fused=True),
        Comparison(what, TWO_KERNELS, suites, _field("over_unfused"), fused=True),
    )


DENSE = "dense layers of ResNet-50, VGG-16, MobileNet and a U-Net, 60 trials"
OTHERS = "dense and 1x1 layers of 15 other networks, N=32"
EVERY = "dense and 1x1 layers of 16 networks, N=32"
UNTUNED = "layers of all kinds, N=32, as `lookup` serves them where nobody tuned their networks"
COMPARISONS = (
    Comparison(DENSE, CUTLASS, ("dense",), _over_cutlass, "dense layers, over CUTLASS"),
    Comparison(DENSE, CUDNN, ("dense",), _field("over_best_peer"), "dense layers, over cuDNN int8 and fp16"),
    Comparison(
        "all different depthwise, grouped and first layers of 16 networks, N=32, as `lookup` serves them",
        CUDNN_FP16,
        ("special_untuned",),
        _field("over_best_peer"),
        "depthwise, grouped, first layers, over cuDNN fp16",
    ),
    Comparison("1x1 layers of seven other networks, N=32, 20 trials", CUDNN, ("pointwise",), _field("over_best_peer")),
    Comparison(f"{EVERY}, 24 trials", CUDNN, ("untuned",), _tuned_over_best_peer),
    Comparison(
        "the same, as `lookup` serves them where nobody tuned their networks",
        CUDNN,
        ("untuned",),
        _field("over_best_peer"),
        "untuned layers, over cuDNN int8 and fp16",
    ),
    Comparison(f"{OTHERS}, 24 trials", CUDNN, ("other_networks",), _tuned_over_best_peer),
    Comparison("the same, as `lookup` serves them", CUDNN, ("other_networks",), _field("over_best_peer")),
    Comparison(
        "the dense layers in fp16, 24 trials",
        CUDNN_HALVES,
        ("dense_fp16",),
        _field("over_best_peer"),
        "fp16 dense layers, over cuDNN fp16 and bf16",
    ),
    Comparison(
        "the dense layers in fp8 (e4m3), 24 trials",
        CUDNN_FP16,
        ("dense_fp8",),
        _field("over_best_peer"),
        "fp8 dense layers, over cuDNN fp16",
    ),
    Comparison(
        "depthwise, grouped and first layers in fp16, N=32, as `lookup` serves them",
        CUDNN_FP16,
        ("special_fp16",),
        _field("over_best_peer"),
        "fp16 depthwise, grouped and first layers, over cuDNN fp16",
    ),
    Comparison(UNTUNED, TUNED, ("untuned_no_peers",), _field("now_over_tuned")),
    *_fused(
        "depthwise and 1x1, all different pairs of 16 networks, N=32, 24 trials",
        "depthwise + 1x1 pairs, over cuDNN fp16",
        "pairs_dw_pw_n32",
    ),
    *_fused("the same, N=128, 20 trials", "", "pairs_dw_pw_n128"),
    *_fused("the same, N=128, 48 trials", "", "pairs_dw_pw_n128_48_trials"),
    *_fused(
        "3x3 and 1x1, all different pairs, N=32, 12 trials",
        "3x3 + 1x1 pairs, over cuDNN fp16",
        "pairs_dense_pw_n32",
        "pairs_dense_pw_n32_rest",
    ),
    *_fused("the same, N=128", "", "pairs_dense_pw_n128"),
    *_fused(
        "1x1 and depthwise, all different pairs of 16 networks, N=32, 24 trials",
        "1x1 + depthwise pairs, over cuDNN fp16",
        "pairs_pw_dw_n32",
    ),
    *_fused(
        "1x1, depthwise and 1x1, of MobileNetV1, V2 and V3, N=32, 24 trials",
        "1x1 + depthwise + 1x1, over cuDNN fp16",
        "blocks_n32",
    ),
    *_fused("seven of them, N=1", "", "blocks_n1"),
    *_fused("3x3 and 1x1 of ResNet-50 in fp16, N=32, 12 trials", "", "pairs_fp16"),
    *_fused("depthwise and 1x1 of MobileNetV2 in fp16, N=32, 8 trials", "", "pairs_fp16_dw_pw"),
    *_fused(
        "the two convolutions of Composable Kernel's example 41, in fp16, bf16 and fp8, N=128, 24 trials",
        "",
        "ck_float16",
        "ck_bfloat16",
        "ck_float8_e4m3fn",
    ),
)


def shown() -> list[Comparison]:
    return [each for each in COMPARISONS if each.drawn and each.is_known]


def label(comparison: Comparison) -> str:
    """Return the text at a row's right end: the geometric mean of its points."""
    return f"{comparison.mean:.2f}x"


def name(comparison: Comparison) -> str:
    return f"{len(comparison.ratios)} {comparison.drawn}"


def points(at: int) -> str:
    """Return the id of a comparison's points in the SVG."""
    return f"points-{at}"


def draw(path: Path) -> None:
    """Draw one line per comparison: one point per layer, a bar at the geometric mean."""
    import matplotlib

    comparisons = shown()
    matplotlib.use("Agg")
    # Fixed salt, text as text, one font: the same rows give the same bytes.
    settings: Any = {"svg.hashsalt": "qconv", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 10}
    with matplotlib.rc_context(settings):
        from matplotlib import pyplot

        # Narrow, with the names above the points: a phone shows it at two thirds of its size.
        figure, axes = pyplot.subplots(figsize=(5.6, 0.6 + 0.52 * len(comparisons)), layout="constrained")
        figure.patch.set_facecolor("white")
        for at, comparison in enumerate(comparisons):
            ratios = comparison.ratios
            axes.plot(ratios, [at] * len(ratios), "o", gid=points(at), color="tab:blue", alpha=0.35, mew=0, ms=5)
            axes.plot([comparison.mean], [at], "|", color="black", markersize=15, markeredgewidth=2)
        for across, up, words in ((0, 0.42, name), (1.01, 0, label)):
            for at, comparison in enumerate(comparisons):
                axes.text(across, at - up, words(comparison), va="center", transform=axes.get_yaxis_transform())
        axes.axvline(1, color="tab:red", linewidth=1, zorder=0)
        axes.set_yticks([])
        axes.set_ylim(len(comparisons) - 0.5, -0.7)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:g}x"))
        axes.set_xlabel(f"times as fast, {DEVICE} (right of 1x is faster); bar: geometric mean")
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=PICTURE, help="default: %(default)s")
    options = parser.parse_args()
    draw(options.out)
    print(options.out)


if __name__ == "__main__":
    main()
