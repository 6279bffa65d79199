"""Drawings of the families that multiply by warpgroups or through tensor memory."""

from __future__ import annotations

from canvas import Canvas


def wgmma() -> Canvas:
    c = Canvas(820, 360, "wgmma")
    c.box(40, 50, 120, 60, "one")
    c.text(100, 84, "producers", "middle")
    c.line(160, 80, 214, 80, arrow=True)
    for at in range(4):
        c.box(220, 40 + 24 * at, 110, 20, "three")
    c.text(220, 152, "rings in shared memory")
    c.down(348, 40, 132, "weight_slots", left=False)
    c.line(465, 80, 520, 80, arrow=True)
    for at in range(2):
        c.box(530, 40 + 60 * at, 150, 44, "two")
        c.text(605, 66 + 60 * at, "a warpgroup", "middle")
    c.down(690, 40, 144, "consumers", left=False)
    c.text(40, 200, "one tile, two consumers")
    for at, (x, says) in enumerate(((40, "split_pixels = 1"), (260, "split_pixels = 0"))):
        c.box(x, 214, 90, 90)
        c.box(x, 214, *((90, 45) if at == 0 else (45, 90)), "two")
        c.text(x, 326, says, code=True)
    c.down(32 + 110, 214, 259, "pixels", left=False)
    c.text(480, 200, "slabs of channels, in time")
    for at in range(2):
        for slab in range(3):
            c.box(480 + 60 * slab + 60 * at, 214 + 34 * at, 60, 26, "two" if at else "one")
    c.across(480, 540, 290, "lag")
    return c


def halo() -> Canvas:
    c = Canvas(860, 330, "halo")
    c.text(40, 26, "a window of the input")
    c.grid(40, 44, 10, 8, 16, ())
    c.grid(56, 60, 8, 6, 16, range(48))
    c.down(222, 60, 156, "rows", left=False)
    c.text(40, 196, "the tile that reads it: eight pixels wide")
    c.line(290, 108, 340, 108, arrow=True)
    for at in range(4):
        c.box(346, 56 + 28 * at, 90, 22, "three")
    c.text(346, 196, "windows in shared memory")
    c.line(440, 108, 490, 108, arrow=True)
    for at in range(2):
        c.box(496, 56 + 62 * at, 150, 44, "two" if at else "one")
        c.text(571, 82 + 62 * at, "writes" if at else "multiplies", "middle")
    c.down(656, 56, 162, "consumers", left=False)
    c.text(496, 196, "warpgroups, in turn")
    c.text(40, 244, "weights of all taps, which stay in shared memory")
    for at in range(9):
        c.box(40 + 56 * at, 258, 50, 22, "none")
    c.across(40, 90, 300, "channels")
    return c


def halo_split() -> Canvas:
    c = Canvas(860, 300, "halo_split")
    c.text(40, 26, "the input channels of a window")
    for at in range(4):
        c.box(40, 44 + 40 * at, 150, 32, "one" if at == 0 else "none")
    c.down(200, 44, 196, "split", left=False)
    c.line(290, 118, 340, 118, arrow=True)
    c.text(346, 26, "a tile in each block of a cluster")
    for at in range(4):
        c.box(346, 44 + 40 * at, 130, 32, "two" if at == 0 else "three")
    c.down(486, 44, 196, "consumers", left=False)
    c.across(346, 476, 214, "channels")
    c.line(570, 118, 610, 118, arrow=True)
    c.text(616, 26, "summed rows of the tile")
    for at in range(4):
        c.box(616, 44 + 40 * at, 150, 32, "one" if at == 0 else "none")
    c.down(776, 44, 196, "rows", left=False)
    c.text(
        40,
        262,
        "each block multiplies its own channels, receives its own rows' sums from all, and finishes their outputs",
    )
    return c


def stem_wgmma() -> Canvas:
    c = Canvas(860, 330, "stem_wgmma")
    c.text(40, 26, "pixels of an image with three channels")
    c.grid(40, 44, 12, 8, 16, ())
    for row in range(4):
        for column in range(6):
            c.box(40 + 32 * column, 44 + 32 * row, 32, 32, "one" if row < 2 and column < 2 else "none")
    c.text(40, 196, "2x2 pixels are a cell of 16 bytes")
    c.line(250, 108, 310, 108, arrow=True)
    for at in range(4):
        c.box(316, 44 + 32 * at, 110, 24, "three")
        c.text(371, 61 + 32 * at, "a warp", "middle")
    c.down(436, 44, 76, "team", left=False)
    c.text(316, 196, "producers of a tile's cells")
    c.line(490, 108, 530, 108, arrow=True)
    for at in range(2):
        c.box(536, 56 + 62 * at, 150, 44, "two" if at else "one")
        c.text(611, 82 + 62 * at, "writes" if at else "multiplies", "middle")
    c.down(696, 56, 162, "consumers", left=False)
    c.text(536, 196, "warpgroups, in turn")
    c.grid(40, 232, 8, 4, 16, range(32))
    c.down(178, 232, 296, "rows", left=False)
    c.text(230, 270, "a tile of outputs: eight pixels wide")
    return c


def stem_pool() -> Canvas:
    c = Canvas(900, 300, "stem_pool")
    c.text(40, 26, "sums of a convolution, eight pixels wide; a tile goes from left to right")
    c.grid(72, 44, 8, 9, 20, ())
    for row in range(4):
        for column in range(4):
            c.box(72 + 40 * column, 64 + 40 * row, 40, 40, "one" if (row + column) % 2 == 0 else "none")
    for row in range(9):
        c.box(52, 44 + 20 * row, 20, 20, "two")
    c.down(242, 44, 224, "windows", left=False)
    c.text(40, 246, "the last column of the previous tile")
    c.line(316, 134, 376, 134, arrow=True)
    c.text(316, 124, "largest")
    c.grid(386, 94, 4, 4, 20, range(16))
    c.text(386, 196, "sums of windows")
    c.line(476, 134, 526, 134, arrow=True)
    c.text(476, 124, "finish")
    c.grid(536, 94, 4, 4, 20, range(16))
    c.text(536, 196, "outputs")
    for at in range(4):
        c.box(640, 54 + 40 * at, 110, 30, "three")
        c.text(695, 74 + 40 * at, "a warp", "middle")
    c.down(760, 54, 204, "team", left=False)
    c.text(640, 236, "producers of a tile's cells")
    return c


def tcgen05() -> Canvas:
    c = Canvas(860, 330, "tcgen05")
    c.box(40, 50, 90, 40, "one")
    c.text(85, 74, "fetches", "middle")
    c.line(130, 70, 176, 70, arrow=True)
    for at in range(4):
        c.box(180, 34 + 20 * at, 110, 16, "three")
    c.across(180, 290, 26, "slab")
    c.text(180, 136, "slabs in shared memory")
    c.down(306, 34, 110, "slots", left=False)
    c.line(370, 70, 412, 70, arrow=True)
    c.box(416, 50, 90, 40, "one")
    c.text(461, 74, "multiplies", "middle")
    c.line(506, 70, 546, 70, arrow=True)
    for at in range(2):
        c.box(550, 40 + 34 * at, 80, 26, "two" if at else "none")
    c.text(550, 136, "accumulators in tensor memory")
    c.line(630, 54, 670, 54, arrow=True)
    for at in range(2):
        c.box(674, 36 + 40 * at, 90, 32, "two")
        c.text(719, 57 + 40 * at, "writes", "middle")
    c.down(774, 36, 108, "writers", left=False)
    c.text(40, 184, "one tile: its pixels by its channels, in strips of 128 by 32")
    c.grid(120, 214, 4, 2, 40, (0, 2, 5, 7))
    c.across(120, 280, 206, "channels")
    c.down(110, 214, 294, "pixels")
    c.text(310, 258, "coloured: those of the first epilogue warpgroup")
    return c
