"""A chart of `charts` as a PNG, drawn by matplotlib from its SVG: most converters know no CSS variables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from qconv.tuner.charts import STYLE

DPI = 288  # three pixels for one of the SVG
POINTS = 0.75  # of a pixel of the SVG
ANCHORS: Mapping[str, Any] = {"start": "left", "middle": "center", "end": "right"}
COLOURS = dict(re.findall(r"--(\w+):(#\w+)", STYLE))


def write(svg: str, path: Path) -> None:
    """In the light colours, as the SVG alone has them."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ValueError(
            f"PNG figures need matplotlib, which is not here ({missing}): pip install matplotlib, or take --format svg"
        ) from None
    root = ElementTree.fromstring(svg)
    _, _, wide, high = (float(number) for number in root.attrib["viewBox"].split())
    figure = Figure(figsize=(wide / 96, high / 96), dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, wide), ylim=(high, 0))
    axes.axis("off")
    for order, element in enumerate(root):
        artist = artist_of(element.tag.partition("}")[2], element.attrib, element.text or "")
        artist.set(zorder=order, clip_on=False)
        axes.add_artist(artist)
    figure.savefig(path, metadata={"Software": None})


def artist_of(tag: str, of: Mapping[str, str], text: str) -> Any:
    """What matplotlib draws for one element; coordinates are the SVG's."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Rectangle
    from matplotlib.text import Text

    if tag == "text":
        turned = re.match(r"rotate\((-?\d+)", of.get("transform", ""))
        return Text(
            *(float(of["x"]), float(of["y"]), text),
            color=colour(of["fill"]),
            fontsize=float(of["font-size"]) * POINTS,
            horizontalalignment=ANCHORS[of["text-anchor"]],
            verticalalignment="baseline",
            rotation=-float(turned.group(1)) if turned else 0.0,
            rotation_mode="anchor",
            parse_math=False,  # a reason may have dollars
        )
    if tag == "circle":
        centre, inside = (float(of["cx"]), float(of["cy"])), (colour(of["fill"]), float(of["fill-opacity"]))
        return Circle(centre, float(of["r"]), facecolor=inside, edgecolor=colour(of["stroke"]), linewidth=POINTS)
    if tag == "rect":
        corner = float(of["x"]), float(of["y"])
        return Rectangle(corner, float(of["width"]), float(of["height"]), facecolor=colour(of["fill"]))
    if tag == "line":
        points = [(float(of["x1"]), float(of["y1"])), (float(of["x2"]), float(of["y2"]))]
    elif tag == "polyline":
        points = [(float(x), float(y)) for x, y in (point.split(",") for point in of["points"].split())]
    else:
        raise ValueError(f"a chart has no <{tag}>: draw it in {__name__} as well")
    across, down = zip(*points, strict=True) if points else ((math.nan,), (math.nan,))
    width, opacity = float(of.get("stroke-width", 1)), float(of.get("stroke-opacity", 1))
    return Line2D(across, down, color=colour(of["stroke"]), linewidth=width * POINTS, alpha=opacity)


def colour(said: str) -> str:
    """`var(--mark)` is the page's light colour; `var(--card, #fff)`, which only the page has, what stands behind it."""
    name, _, otherwise = said.removeprefix("var(--").removesuffix(")").partition(", ")
    return COLOURS.get(name) or otherwise
