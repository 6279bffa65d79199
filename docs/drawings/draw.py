"""Draw the fields of every family's config, one picture per family.

    python docs/drawings/draw.py

`tests/docs/test_drawings.py` compares the pictures with this script, and each with the fields of its config.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import streams
from canvas import Canvas
from streams import (
    argmax,
    binary,
    choosing,
    concat,
    elementwise,
    global_pooling,
    maps,
    nms,
    pooling,
    reduce,
    shuffle,
    table,
)
from warpgroups import halo, halo_split, stem_pool, stem_wgmma, tcgen05, wgmma

HERE = Path(__file__).parent


CONVOLUTION = (
    "weights: the reduction by output channels",
    "pixels by the reduction",
    "the output: pixels by channels",
)


def product(
    c: Canvas, m: tuple[str, ...], n: tuple[str, ...], step: str, says: tuple[str, str, str] = CONVOLUTION
) -> None:
    """Draw a matrix product: a block's tile, and in it a warp's or a thread's."""
    left, top, cell = 230, 120, 14
    c.text(left + 108, 18, says[0], "middle")
    c.box(left, 40, 216, 66)
    c.box(left + 42, 66, 84, 20, "three")
    c.text(120, 104, says[1], "middle")
    c.box(40, top, 160, 168)
    c.box(110, top + 28, 24, 112, "three")
    c.across(110, 134, top + 164, step)
    c.box(left, top, 216, 168)
    c.box(left + 42, top + 28, 84, 112, "one")
    c.grid(left + 42, top + 28, 3, 2, cell, range(6))
    c.across(left + 42, left + 126, top + 188, n[0])
    c.across(left + 42, left + 84, top + 22, n[1])
    c.down(left + 234, top + 28, top + 140, m[0], left=False)
    c.down(left + 138, top + 28, top + 56, m[1], left=False)
    c.text(left + 108, top + 214, says[2], "middle")


def stages(c: Canvas, x: float, y: float, field: str = "pipeline_stages") -> None:
    """Draw buffers in shared memory: one is read while the others are filled."""
    for at, (fill, says) in enumerate((("one", "multiplied"), ("three", "being copied"), ("three", "being copied"))):
        c.box(x, y + 26 * at, 90, 22, fill)
        c.text(x + 100, y + 26 * at + 16, says)
    c.down(x - 8, y, y + 74, field)


def simt() -> Canvas:
    c = Canvas(860, 350, "simt")
    product(c, ("tile_m", "thread_m"), ("tile_n", "thread_n"), "tile_k")
    stages(c, 670, 150)
    c.text(670, 140, "shared memory")
    return c


def mma() -> Canvas:
    c = Canvas(860, 620, "mma")
    product(c, ("tile_m", "warp_m"), ("tile_n", "warp_n"), "tile_k")
    stages(c, 670, 150)
    c.text(670, 140, "shared memory")
    c.field(480, 260, "instruction", "one product of a warp")
    c.field(480, 284, "prefetch_fragments", "registers, one product early")
    c.field(480, 308, "staged", "outputs leave as whole rows")
    c.text(40, 362, "split: blocks that share a tile")
    for at in range(3):
        c.box(40 + 56 * at, 392, 56, 24, ("one", "two", "three")[at])
    c.across(40, 208, 386, "split")
    c.text(40, 436, "the reduction of one tile")
    c.text(300, 368, "tiles by waves of blocks")
    c.grid(300, 380, 8, 2, 18)
    for at in range(3):
        c.box(300 + 18 * at, 416, 18, 18, "two")
    c.field(360, 431, "split_last_wave", "n blocks per SM")
    c.text(40, 480, "persistent blocks")
    for at in range(2):
        for tile in range(3):
            c.box(40 + 46 * tile, 492 + 28 * at, 46, 22, "one" if at else "two")
    c.field(40, 570, "persist", "n blocks per SM, whole tiles")
    c.field(40, 592, "stream_k", "equal shares of steps instead")
    c.text(400, 476, "the order of tiles")
    c.grid(400, 508, 6, 4, 20, (0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20))
    c.across(400, 460, 502, "tile_swizzle_width")
    for at in range(3):
        c.line(410 + 20 * at, 514, 410 + 20 * at, 582, arrow=True)
    return c


def image(c: Canvas, x: float, y: float, rows: str, columns: str, whose: str) -> None:
    """Draw an output image, and a tile of it."""
    c.text(x, y - 26, whose)
    c.grid(x, y, 10, 8, 16, [row * 10 + column for row in (2, 3, 4) for column in (3, 4, 5, 6)])
    c.across(x + 48, x + 112, y - 6, columns)
    c.down(x - 8, y + 32, y + 80, rows)


def channels(c: Canvas, x: float, y: float, count: int, field: str, says: str) -> None:
    """Draw a run of channels, cut into parts."""
    for at in range(count):
        c.box(x + 44 * at, y, 44, 24, "three" if at == 0 else "none")
    c.across(x, x + 44 * count, y - 8, field)
    c.text(x, y + 42, says)


def blocks(c: Canvas, x: float, y: float, inner: str, says: str, outer: str = "blocks_per_sm") -> None:
    """Draw the blocks of an SM, each with its warps."""
    for at in range(2):
        c.box(x + 150 * at, y, 140, 56, dashed=True)
        for warp in range(4):
            c.box(x + 150 * at + 10 + 31 * warp, y + 16, 26, 24, "one" if at == 0 else "none")
    c.across(x, x + 290, y - 8, outer)
    c.across(x + 10, x + 129, y + 74, inner)
    c.text(x, y + 96, says)


def sixteens(c: Canvas, x: float, y: float, field: str = "batch") -> None:
    """Draw the groups of 16 pixels that a warp multiplies at a time."""
    for at in range(3):
        c.box(x + 70 * at, y, 70, 20, "two")
        c.text(x + 70 * at + 35, y + 14, "16 pixels", "middle")
    c.across(x, x + 210, y - 8, field)


def depthwise() -> Canvas:
    c = Canvas(760, 240, "depthwise")
    image(c, 90, 60, "rows", "columns", "outputs of one thread")
    channels(c, 330, 60, 6, "vector", "channels of one thread")
    for at in range(4):
        c.box(330 + 44 * at, 150, 44, 24, "two" if at < 2 else "none")
    c.across(330, 418, 142, "run")
    c.text(330, 192, "neighbours that use the same words of the input")
    c.field(330, 222, "threads", "threads of a block, each with such a patch")
    return c


def direct() -> Canvas:
    c = Canvas(760, 300, "direct")
    image(c, 90, 60, "tile_h", "tile_w", "outputs of one block")
    channels(c, 330, 60, 4, "slabs", "a block's channels, slab by slab")
    sixteens(c, 330, 150)
    blocks(c, 330, 202, "warps", "")
    return c


def stem() -> Canvas:
    c = Canvas(780, 320, "stem")
    image(c, 90, 60, "tile_h", "tile_w", "outputs of one block")
    channels(c, 330, 60, 4, "slabs", "a block's channels, slab by slab")
    for at in range(3):
        c.box(560 + 60 * at, 60, 60, 24, "two")
        c.text(590 + 60 * at, 76, "8", "middle")
    c.across(560, 740, 52, "atoms")
    c.text(560, 102, "groups of 8 channels in a slab")
    sixteens(c, 330, 160)
    blocks(c, 330, 222, "warps", "")
    return c


def gemv() -> Canvas:
    c = Canvas(700, 210, "gemv")
    c.text(40, 24, "one window, shared by the threads of a row")
    for at in range(8):
        c.box(40 + 40 * at, 56, 40, 24, "one" if at == 0 else "none")
    c.across(40, 360, 48, "lanes")
    c.text(430, 24, "outputs of one thread")
    c.grid(440, 56, 4, 3, 24, range(12))
    c.across(440, 536, 48, "channels")
    c.down(432, 56, 128, "pixels")
    c.line(60, 84, 60, 124, arrow=True)
    c.text(76, 110, "sums meet in shared memory")
    c.field(40, 160, "threads", "threads of a block: several such rows")
    return c


def pointwise() -> Canvas:
    c = Canvas(780, 360, "pointwise")
    c.text(40, 24, "pixels in their order; a warp streams units of them")
    for at in range(4):
        c.box(40 + 170 * at, 56, 170, 26, ("one", "three", "three", "none")[at])
        for part in range(1, 3):
            c.line(40 + 170 * at + 57 * part, 56, 40 + 170 * at + 57 * part, 82)
    c.across(40, 210, 48, "batches")
    c.across(40, 550, 104, "pipeline_stages")
    sixteens(c, 40, 150)
    for at in range(3):
        c.box(330 + 60 * at, 150, 60, 20, "three")
        c.text(360 + 60 * at, 164, "8", "middle")
    c.across(330, 510, 142, "atoms")
    c.text(330, 190, "groups of 8 output channels")
    blocks(c, 40, 234, "warps", "")
    c.field(370, 264, "weights_in_smem", "1: in shared memory; 0: in registers")
    return c


def chain(layers: int, name: str) -> Canvas:
    words = ("first", "second", "third")[:layers]
    c = Canvas(820, 340 + 78 * layers, name)
    image(c, 90, 60, "tile_h", "tile_w", "outputs of the last convolution")
    c.text(330, 24, "a block: teams of warps, each with tiles of its own")
    blocks(c, 330, 66, "warps", "warps per team", "teams")
    c.field(330, 200, "blocks_per_sm", "blocks per SM")
    c.field(330, 222, "cluster_blocks", "blocks that compute one tile together")
    c.text(40, 262, "the convolutions; the tensor between two stays in shared memory")
    for at, word in enumerate(words):
        y = 296 + 78 * at
        c.box(120, y, 170, 36, "one" if at < layers - 1 else "two")
        c.text(205, y + 22, f"the {word}", "middle")
        c.grid(400, y - 4, 4, 2, 20, range(8))
        c.down(390, y - 4, y + 36, f"{word}_m")
        c.across(400, 480, y - 12, f"{word}_n")
        if at:
            c.line(205, y - 42, 205, y - 2, arrow=True)
    last = 296 + 78 * (layers - 1) + 36
    c.down(530, 296, last, "on_wgmma", left=False)
    c.text(538, (296 + last) / 2 + 20, "how many, counted from the last")
    c.down(30, 296, last, "", left=False)
    c.field(40, last + 36, "weights_in_smem", "how many, counted from the last, keep their weights in shared memory")
    return c


def fused() -> Canvas:
    return chain(2, "fused")


def block() -> Canvas:
    return chain(3, "block")


def unfused() -> Canvas:
    c = Canvas(640, 130, "unfused")
    for x, name in ((40, "first"), (360, "second")):
        c.box(x, 44, 160, 40, "one" if name == "first" else "two")
        c.text(x + 80, 68, "a kernel", "middle")
        c.across(x, x + 160, 34, name)
    c.line(200, 64, 354, 64, arrow=True)
    c.text(277, 54, "in device memory", "middle")
    c.text(40, 112, "each has a config of its own")
    return c


def matmul() -> Canvas:
    says = ("the right factor: k by n", "the left factor: m by k", "the output: m by n")
    c = slabs_of("matmul", "thread", says)
    c.field(600, 240, "threads", "copy slabs;")
    c.text(600, 262, "those with outputs multiply")
    return c


def matmul_mma() -> Canvas:
    says = ("the right factor in fp16: k by n", "the left factor: m by k", "the output: m by n")
    c = slabs_of("matmul_mma", "warp", says)
    c.text(600, 240, "sums in fp32, as long as")
    c.text(600, 262, "they are exact, then in int32")
    return c


def attention() -> Canvas:
    c = Canvas(860, 330, "attention")
    c.text(40, 24, "a block: rows of one batch")
    blocks(c, 40, 66, "warps", "")
    c.field(40, 150, "sharing", "warps have 16 rows")
    c.text(40, 172, "and divide the keys")
    c.text(330, 24, "in shared memory, in fp16: rows, keys and values, in slabs of a row")
    for at, (fill, says) in enumerate((("two", "rows"), ("one", "keys"), ("three", "values"))):
        y = 56 + 40 * at
        for part in range(4):
            c.box(400 + 90 * part, y, 90, 24, fill)
        c.text(390, y + 16, says, "end")
    c.across(400, 490, 48, "slab")
    c.text(40, 210, "in registers: a lane's scores become its weights, which are its factors of the second product")
    for x, fill, says in ((40, "one", "scores"), (240, "three", "weights"), (440, "two", "outputs")):
        c.box(x, 226, 140, 32, fill)
        c.text(x + 70, 246, says, "middle")
    for x in (180, 380):
        c.line(x, 242, x + 56, 242, arrow=True)
    c.field(40, 296, "resident", "blocks that share an SM, for which a lane keeps to fewer registers")
    return c


def slabs_of(name: str, part: str, says: tuple[str, str, str]) -> Canvas:
    """Draw a product in tiles, divided among parts, with its slabs in shared memory."""
    c = Canvas(860, 350, name)
    product(c, ("tile_m", f"{part}_m"), ("tile_n", f"{part}_n"), "slab", says)
    c.text(600, 140, "slabs in shared memory")
    for at, (fill, state) in enumerate((("one", "multiplied"), ("three", "on its way"))):
        c.box(600, 150 + 26 * at, 90, 22, fill)
        c.text(700, 166 + 26 * at, state)
    return c


DRAWINGS: dict[str, Callable[[], Canvas]] = {
    draw.__name__: draw
    for draw in (
        *(simt, mma, depthwise, direct, stem, stem_wgmma, stem_pool, gemv, pointwise, wgmma, halo, halo_split),
        *(tcgen05, fused, block, unfused),
        *(elementwise, choosing, binary, table, concat, pooling, global_pooling, argmax, shuffle, nms),
        *(streams.map, matmul, matmul_mma, attention, reduce),
    )
} | {"map": maps}  # a function of that name would hide Python's

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (HERE / f"{name}.svg").write_text(draw().svg())
