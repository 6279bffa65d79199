"""Small charts (points or lines on axes, and bars) as SVG whose colours are the page's CSS variables, or as PNG.

PNG is drawn by matplotlib from the SVG, because most converters do not support CSS variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

WIDTH, HEIGHT = 520, 330
LEFT, RIGHT, TOP, BOTTOM = 80, 18, 22, 58
# Style of a chart outside the page: the page's light colours.
STYLE = (
    "svg{background:#fff;--ink:#1c2430;--muted:#667085;--line:#e4e7ec;--mark:#2563eb;--second:#d97706;"
    "font-family:system-ui,sans-serif}"
)


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`. A logarithmic one has one tick per decade."""

    label: str
    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Map a value to a position between 0 and 1."""
        if self.log:
            return (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        step = 10 ** math.floor(math.log10(self.high - self.low))
        for finer in (5.0, 2.0):
            if (self.high - self.low) / step < 4:
                step = step / finer if finer == 2.0 else step / 2.0
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [self.low + i * step for i in range(count + 1)]


@dataclass
class Plane:
    """Two axes and the marks on them, from back to front."""

    x: Axis
    y: Axis
    says: str  # description of the picture, for readers who cannot see it
    marks: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        across, up = self.x.place(x), self.y.place(y)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def line(self, points: Sequence[tuple[float, float]], colour: str, width: float = 2, opacity: float = 1) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.at(*point) for point in points))
        self.marks.append(
            f'<polyline points="{path}" fill="none" stroke="var(--{colour})" stroke-width="{width}" '
            f'stroke-opacity="{opacity}" stroke-linejoin="round"/>'
        )

    def point(self, x: float, y: float, says: str, colour: str = "mark") -> None:
        across, down = self.at(x, y)
        self.marks.append(
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="5" fill="var(--{colour})" fill-opacity="0.75" '
            f'stroke="var(--card, #fff)"><title>{escape(says)}</title></circle>'
        )

    def word(self, x: float, y: float, says: str, anchor: str = "start") -> None:
        across, down = self.at(x, y)
        self.marks.append(_text(across, down - 8, says, anchor))

    def svg(self) -> str:
        parts = [_head(self.says, HEIGHT)]
        for value in self.y.ticks():
            _, down = self.at(self.x.low, value)
            end = WIDTH - RIGHT
            parts.append(f'<line x1="{LEFT}" x2="{end}" y1="{down:.1f}" y2="{down:.1f}" stroke="var(--line)"/>')
            parts.append(_text(LEFT - 8, down + 4, _number(value), "end"))
        for value in self.x.ticks():
            across, _ = self.at(value, self.y.low)
            parts.append(_text(across, HEIGHT - BOTTOM + 22, _number(value), "middle"))
        parts += self.marks
        parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x.label, "middle"))
        middle = (TOP + HEIGHT - BOTTOM) / 2
        turned = f'transform="rotate(-90 20 {middle})"'
        parts.append(_text(20, middle, self.y.label, "middle", turned))
        return "".join([*parts, "</svg>"])


@dataclass(frozen=True)
class Bar:
    name: str
    value: float
    says: str


def bars(rows: Sequence[Bar], says: str) -> str:
    """Draw a bar per row, with its name above and its value behind it."""
    most, step = max((row.value for row in rows), default=1.0) or 1.0, 40
    parts = [_head(says, step * max(len(rows), 1))]
    for i, row in enumerate(rows):
        top = i * step
        wide = max(2.0, (WIDTH - 80) * row.value / most)
        parts.append(_text(0, top + 16, row.name, "start"))
        parts.append(f'<rect x="0" y="{top + 22}" width="{wide:.1f}" height="12" rx="3" fill="var(--mark)"/>')
        parts.append(_text(wide + 8, top + 33, row.says, "start"))
    return "".join([*parts, "</svg>"])


def alone(svg: str) -> str:
    """Return the SVG as a file of its own, in the light colours."""
    head, rest = svg.split(">", 1)
    return f"{head}><style>{STYLE}</style>{rest}\n"


def _head(says: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(says)}">'
    )


def _text(x: float, y: float, says: str, anchor: str, more: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="13" fill="var(--muted)" {more}>'
        f"{escape(says)}</text>"
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


DPI = 384  # four pixels per pixel of the SVG
POINTS = 0.75  # points per pixel of the SVG
ANCHORS: Mapping[str, Any] = {"start": "left", "middle": "center", "end": "right"}
COLOURS = dict(re.findall(r"--(\w+):(#\w+)", STYLE))


def write(svg: str, path: Path) -> None:
    """Write a chart as PNG, in the light colours."""
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
    """Return the matplotlib artist of an SVG element, in the SVG's coordinates."""
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
            parse_math=False,  # a reason may contain dollar signs
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
    """Resolve a CSS colour: `var(--mark)` to the page's light colour, and `var(--card, #fff)`, which only the page
    defines, to its fallback."""
    name, _, otherwise = said.removeprefix("var(--").removesuffix(")").partition(", ")
    return COLOURS.get(name) or otherwise
