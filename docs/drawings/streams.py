"""Drawings of the families that process elements in order, a few per thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from canvas import Canvas


def stream(name: str, fields: Sequence[str], more: Callable[[Canvas], None] | None = None) -> Canvas:
    """Draw elements in order: the ones that a thread loads at once, and its loads in flight."""
    c = Canvas(760, 190 if more is None else 290, name)
    c.text(40, 22, "elements in order; coloured: those of one thread")
    for at in range(16):
        c.box(40 + 40 * at, 60, 40, 26, "two" if at % 8 == 0 else "none")
        for part in range(1, 4):
            c.line(40 + 40 * at + 10 * part, 60, 40 + 40 * at + 10 * part, 86)
    c.across(40, 80, 50, "vector")
    c.across(40, 360, 108, "threads")
    if "unroll" in fields:
        c.across(40, 680, 140, "unroll")
        c.text(40, 166, "unroll: rounds loaded before the first is used")
    if more is not None:
        more(c)
    return c


def elementwise() -> Canvas:
    return stream("elementwise", ("unroll",))


def binary() -> Canvas:
    return stream("binary", ("unroll",))


def concat() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one vector, joined from loads of a row that is not aligned")
        for at in range(4):
            c.box(40 + 60 * at, 236, 60, 24, "two")
        c.across(40, 100, 226, "load")

    return stream("concat", ("unroll",), more)


def pooling() -> Canvas:
    return stream("pooling", ())


def choosing() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one channel, cut into slices; each is reduced by one team")
        for at in range(4):
            c.box(40 + 150 * at, 224, 150, 24, "three" if at == 0 else "none")
        c.across(40, 640, 216, "slices")
        c.across(40, 190, 268, "team")

    return stream("choosing", ("unroll",), more)


def table() -> Canvas:
    def more(c: Canvas) -> None:
        c.field(40, 200, "rounds", "repetitions per filling of the table")
        for at in range(3):
            c.box(40 + 150 * at, 236, 144, 24, "three")
            c.text(112 + 150 * at, 252, "table of 256", "middle")
        c.across(40, 484, 228, "copies")

    return stream("table", ("unroll",), more)


def global_pooling() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one image: pixels by vectors of channels")
        c.grid(120, 222, 12, 3, 20, (0, 12, 24))
        c.across(120, 360, 216, "lanes")

    return stream("global_pooling", ("unroll",), more)


def argmax() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one axis, shared by the threads of a team, which then compare their largest elements")
        for at in range(12):
            c.box(40 + 40 * at, 236, 40, 24, "three" if at % 4 == 0 else "none")
        c.across(40, 200, 228, "team")

    return stream("argmax", ("unroll",), more)


def map() -> Canvas:
    return stream("map", ("unroll",))


def reduce() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one row; its columns are folded in an order that the threads of a team do not change")
        for at in range(12):
            c.box(40 + 40 * at, 236, 40, 24, "three" if at % 4 == 0 else "none")
        c.across(40, 200, 228, "team")
        c.field(540, 236, "across", "vectors of rows")
        c.field(540, 258, "keep", "results in registers")

    return stream("reduce", ("unroll",), more)


def maps() -> Canvas:
    return stream("map", ("unroll",))


def shuffle() -> Canvas:
    def more(c: Canvas) -> None:
        c.text(40, 188, "one output pixel with two groups: a thread has a vector of each")
        for at in range(16):
            c.box(40 + 40 * at, 236, 40, 24, "two" if at < 8 and at % 2 == 0 else "three" if at < 8 else "none")
        c.across(40, 360, 228, "vector")

    return stream("shuffle", ("unroll",), more)


def nms() -> Canvas:
    c = Canvas(760, 190, "nms")
    c.text(40, 22, "the boxes of a class of an image; coloured: those of one thread")
    for at in range(16):
        c.box(40 + 40 * at, 60, 40, 26, "two" if at % 8 == 0 else "none")
    c.across(40, 360, 108, "threads")
    c.text(40, 166, "a round: drop what the last box kept suppresses, then keep the best that is left")
    return c
