"""The elements of the drawings of configs: boxes, grids and named extents, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

# The drawings are shown on white and on black: lines have the colour of the text, fills are translucent.
FILL = {"none": ("none", "0"), "one": ("#3b82f6", "0.35"), "two": ("#f59e0b", "0.45"), "three": ("#22c55e", "0.4")}
STYLE = "svg:root{color:#1f2328;background:transparent}@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}"


class Canvas:
    def __init__(self, width: int, height: int, title: str) -> None:
        self._size, self._title, self._parts = (width, height), title, list[str]()

    def box(self, x: float, y: float, w: float, h: float, fill: str = "none", dashed: bool = False) -> None:
        colour, opacity = FILL[fill]
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{colour}" fill-opacity="{opacity}" '
            f'stroke="currentColor"{dash}/>'
        )

    def grid(self, x: float, y: float, columns: int, rows: int, cell: float, marked: Sequence[int] = ()) -> None:
        """Draw a grid. Cells are numbered row by row; `marked` cells belong to one owner."""
        for at in range(columns * rows):
            fill = "two" if at in marked else "none"
            self.box(x + at % columns * cell, y + at // columns * cell, cell, cell, fill)

    def text(self, x: float, y: float, text: str, anchor: str = "start", code: bool = False) -> None:
        family = "ui-monospace,monospace" if code else "system-ui,sans-serif"
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-family="{family}" font-size="12" '
            f'fill="currentColor">{escape(text)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, arrow: bool = False) -> None:
        end = ' marker-end="url(#tip)"' if arrow else ""
        self._parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="currentColor" stroke-width="1"{end}/>'
        )

    def across(self, x1: float, x2: float, y: float, field: str) -> None:
        """Draw the horizontal extent of a field, with its name above."""
        self.line(x1, y, x2, y)
        for x in (x1, x2):
            self.line(x, y - 4, x, y + 4)
        self.text((x1 + x2) / 2, y - 6, field, "middle", code=True)

    def down(self, x: float, y1: float, y2: float, field: str, left: bool = True) -> None:
        """Draw the vertical extent of a field, with its name beside it."""
        self.line(x, y1, x, y2)
        for y in (y1, y2):
            self.line(x - 4, y, x + 4, y)
        self.text(x - 8 if left else x + 8, (y1 + y2) / 2 + 4, field, "end" if left else "start", code=True)

    def field(self, x: float, y: float, name: str, says: str) -> None:
        """Write a field that has no extent: its name, and what it does."""
        self.text(x, y, name, code=True)
        self.text(x + 7.4 * len(name) + 8, y, says)

    def svg(self) -> str:
        width, height = self._size
        tip = '<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        tip += '<path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        head += f'height="{height}" role="img" aria-label="{escape(self._title)}">'
        return "\n".join([head, f"<style>{STYLE}</style>", f"<defs>{tip}</defs>", *self._parts, "</svg>"]) + "\n"
