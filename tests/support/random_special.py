"""Random problems and configs for the families that serve certain layers only: `depthwise` and `direct` (groups of few
channels), `stem` (images of few channels), `gemv` (few pixels), `pointwise` (1x1 filters at every pixel), `wgmma`,
`tcgen05`, `halo` and `halo_split` (one group, pixels of a multiple of 16 bytes), and `stem_wgmma` (images of three or
four channels, stride 2).

The decks and quantizations are those of `random_problems`.
"""

from __future__ import annotations

import random
from dataclasses import replace
from math import gcd

from random_problems import PADS, Decks, quantization

from qconv.errors import Infeasible
from qconv.generator import FAMILIES, Config, Plan
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

FILTERS = ((1, 1), (1, 3), (3, 1), (2, 2), (3, 3), (3, 3), (3, 3), (4, 5), (5, 5), (5, 5), (7, 7), (2, 9))
IMAGES = ((1, 1), (1, 7), (3, 4), (5, 5), (7, 6), (8, 8), (9, 13), (12, 12), (14, 11), (16, 17), (20, 20), (6, 40))
# Tiles of `halo` have up to 28 rows.
TALL = ((30, 11), (28, 8), (31, 9))
# Tiles of a cluster's blocks have at least four rows.
OF_CLUSTERS = ((9, 13), (12, 12), (14, 11), (16, 17), (20, 20), (28, 8), (31, 9))
_WHOLE_SIXTEENS = (
    *((1, 128, 128), (1, 256, 256), (1, 128, 384)),  # whole slabs and whole tiles
    *((1, 16, 8), (1, 48, 40), (1, 144, 136), (1, 64, 260), (1, 272, 132)),
    *((1, 32, 21), (1, 160, 130), (1, 80, 1), (1, 128, 257)),  # outputs written one by one
)
# Families that take these.
SIXTEENS = ("wgmma", "tcgen05", "halo", "halo_split")
# Families that do not compute the window sums that a weight zero point needs.
WITHOUT_WINDOW_SUMS = (*SIXTEENS, "stem_wgmma")
# (groups, input channels of a group, output channels of a group)
SHAPES = {
    "depthwise": (
        *((4, 1, 1), (8, 1, 1), (16, 1, 1), (24, 1, 1), (32, 1, 1), (48, 1, 1)),  # whole words, and wider
        *((3, 1, 1), (6, 1, 1), (21, 1, 1), (2, 1, 4), (5, 1, 2), (8, 1, 3)),  # byte by byte
    ),
    "direct": (
        *((16, 1, 1), (24, 1, 1), (48, 1, 1), (136, 1, 1), (8, 1, 2), (12, 1, 1)),
        *((8, 2, 2), (4, 4, 4), (36, 4, 4), (4, 4, 8), (4, 8, 8), (3, 8, 4)),
        *((2, 16, 16), (3, 16, 8), (2, 32, 32), (1, 16, 8), (1, 16, 24), (1, 32, 16), (1, 4, 2)),
    ),
    "stem": (
        *((1, 3, 16), (1, 3, 24), (1, 3, 33), (1, 3, 64), (1, 4, 12), (1, 4, 96)),
        *((1, 1, 8), (1, 1, 40), (1, 2, 16), (1, 2, 5)),
    ),
    "gemv": (
        *((1, 96, 24), (1, 32, 130), (1, 24, 8), (1, 480, 20), (1, 1152, 48), (1, 4, 96)),
        *((1, 6, 144), (1, 33, 17), (1, 3, 5), (1, 130, 31)),  # byte by byte
    ),
    "pointwise": (
        *((1, 16, 64), (1, 32, 16), (1, 64, 24), (1, 80, 80), (1, 128, 21), (1, 96, 40), (1, 144, 8)),  # 16 at once
        *((1, 24, 58), (1, 40, 20), (1, 20, 33), (1, 36, 1)),  # by eight, by four
        *((1, 58, 58), (1, 27, 12), (1, 3, 5), (1, 130, 17), (1, 1, 2)),  # pixels that are not word-aligned
    ),
    "wgmma": _WHOLE_SIXTEENS,
    "tcgen05": _WHOLE_SIXTEENS,
    # Few output channels are columns of an instruction.
    "halo": (
        *_WHOLE_SIXTEENS,
        *((1, 64, 80), (1, 32, 16), (1, 48, 32), (1, 80, 36), (1, 96, 112), (1, 32, 108), (1, 16, 144)),
        # Pixels that lanes load: by eight channels, by four, and unaligned.
        *(
            (1, 24, 24),
            (1, 104, 80),
            (1, 36, 112),
            (1, 148, 96),
            (1, 26, 48),
            (1, 18, 26),
            (1, 35, 16),
            (1, 5, 33),
            (1, 24, 112),
        ),
    ),
    # Parts of 32 to 128 channels; the last may have fewer.
    "halo_split": (
        (1, 64, 64),
        (1, 128, 40),
        (1, 176, 128),
        (1, 256, 130),
        (1, 240, 21),
        (1, 144, 8),
        (1, 80, 136),
        (1, 1024, 24),
    ),
    "stem_wgmma": ((1, 3, 64), (1, 3, 32), (1, 3, 21), (1, 3, 130), (1, 4, 16), (1, 4, 48), (1, 4, 96), (1, 4, 7)),
}
# Shapes of floats alone: groups of whole chunks, and groups whose output channels several warps divide among them.
OF_FLOATS = {
    "direct of floats": (
        *SHAPES["direct"],
        *((2, 24, 8), (3, 24, 24), (5, 12, 8), (2, 16, 48), (1, 32, 64), (1, 16, 128), (2, 8, 24), (12, 2, 4)),
    )
}
# Filters whose weights fit in a lane's registers or in shared memory.
FEW_TAPS = tuple(f for f in FILTERS if f[0] * f[1] <= 9)


def special_problems(family: str, seed: int, count: int) -> list[Conv2d]:
    rng = random.Random(f"{family} {seed}")
    decks = Decks(rng)
    return [_problem(rng, decks, family) for _ in range(count)]


def _problem(rng: random.Random, decks: Decks, family: str) -> Conv2d:
    groups, c, k = decks.deal("shape", (SHAPES | OF_FLOATS)[family])
    if family == "gemv":
        return _few_pixels(decks, c, k)
    if family == "pointwise":
        h, w = decks.deal("image", IMAGES)
        return Conv2d(decks.deal("n", (1, 1, 2, 3)), h, w, c, k, 1, 1, quantization=quantization(decks))
    if family == "stem_wgmma":
        return _of_cells(rng, decks, c, k)
    sixteens = family in SIXTEENS
    few = sixteens or (family.startswith("direct") and (c > 8 or k > c))
    r, s = decks.deal(f"filter {few}", FEW_TAPS if few else FILTERS)
    if family == "halo" and c > 256:
        r, s = 1, 1
    if family == "halo_split" and c > 512:  # a taller window of them does not fit
        r = 1
    if family == "halo" and c % 16 and r * s == 1:  # left to pointwise
        r, s = 3, 2
    dilation = (decks.deal("dilation_h", (1, 1, 1, 2)), decks.deal("dilation_w", (1, 1, 1, 3)))
    stride = (decks.deal("stride_h", (1, 1, 2)), decks.deal("stride_w", (1, 1, 2, 3)))
    spans = ((r - 1) * dilation[0] + 1, (s - 1) * dilation[1] + 1)
    pad = {
        "none": (0, 0, 0, 0),
        "same": (spans[0] // 2, spans[1] // 2) * 2,
        "any": tuple(rng.randint(0, 4) for _ in range(4)),
    }[decks.deal("pad", PADS)]
    images = {"halo": (*IMAGES, *TALL), "halo_split": OF_CLUSTERS}.get(family, IMAGES[:8] if sixteens else IMAGES)
    h, w = decks.deal("image", images)
    drawn = Conv2d(
        n=decks.deal("n", (1, 1, 2, 3)) * (4 // gcd(c, 4) if family == "halo" else 1),  # whole words
        h=max(h, spans[0] - pad[0] - pad[2]),
        w=max(w, spans[1] - pad[1] - pad[3]),
        c=groups * c,
        k=groups * k,
        r=r,
        s=s,
        stride=stride,
        dilation=dilation,
        pad=pad,
        groups=groups,
        quantization=quantization(decks),
    )
    if family == "halo" and c % 16 and decks.deal("one tap", (False, False, False, True)):
        drawn = _one_tap(drawn)
    return _without_w_zero_point(drawn) if sixteens else drawn


def _one_tap(problem: Conv2d) -> Conv2d:
    """Make one pixel hold all columns of the filter, with rows a stride apart."""
    columns, (top, _, bottom, _) = max(problem.stride[1], 2), problem.pad
    width, pad = problem.w + -problem.w % columns, (top, 0, bottom, 0)
    return replace(problem, w=width, r=1, s=columns, stride=(2, columns), dilation=(1, 1), pad=pad)


def _without_w_zero_point(problem: Conv2d) -> Conv2d:
    q = problem.quantization
    return replace(problem, quantization=replace(q, w_zero_point=False, per_channel=q.per_channel and q.scaled))


def _of_cells(rng: random.Random, decks: Decks, c: int, k: int) -> Conv2d:
    """Return a problem with stride 2, rows of a multiple of 16 bytes, and no residual."""
    r, s = decks.deal("filter", FILTERS)
    same = decks.deal("pad", PADS) == "same"
    top, left, bottom, right = (r // 2, s // 2) * 2 if same else [rng.randint(0, 4) for _ in range(4)]
    h, w = decks.deal("height", (7, 12, 20, 33)), decks.deal(f"width {c}", (16, 32, 48, 20 if c == 4 else 64))
    n, without = decks.deal("n", (1, 2, 3)), quantization(decks)
    while without.residual != "none":
        without = quantization(decks)
    return _without_w_zero_point(
        Conv2d(n, max(h, r), w, c, k, r, s, stride=(2, 2), pad=(top, left, bottom, right), quantization=without)
    )


def _few_pixels(decks: Decks, c: int, k: int) -> Conv2d:
    """Return a problem with one tap, or with one window as large as the image."""
    h, w = decks.deal("few", ((1, 1), (1, 1), (1, 7), (3, 4), (5, 5), (2, 2)))
    whole = decks.deal("whole", (False, False, True))
    n = decks.deal("n", (1, 1, 2, 3, 9, 20))
    stride = 1 if whole else decks.deal("stride", (1, 1, 2))
    r, s = (h, w) if whole else (1, 1)
    return Conv2d(n, h, w, c, k, r, s, stride=(stride, stride), quantization=quantization(decks))


def special_plan(family: str, problem: Conv2d, target: Target, seed: object) -> Plan:
    """Return a random plan in which each value of a choice is equally likely, where it is feasible."""
    rng = random.Random(f"{family} {problem} {seed}")
    chosen = FAMILIES[family]
    for _ in range(300):
        made = _plan(family, problem, chosen.config(**{n: rng.choice(v) for n, v in chosen.choices.items()}), target)
        if made is not None:
            return made
    # Small problems have few configs.
    all_of_them = (_plan(family, problem, config, target) for config in chosen.configs(problem, target))
    return rng.choice([plan for plan in all_of_them if plan is not None])


def _plan(family: str, problem: Conv2d, config: Config, target: Target) -> Plan | None:
    try:
        return FAMILIES[family].plan(problem, config, target)
    except Infeasible:
        return None
