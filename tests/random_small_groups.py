"""Random problems and configs for groups of few channels: the families `depthwise` and `direct`.

Like `random_problems`, whose decks and quantizations these are.
"""

from __future__ import annotations

import random

from random_problems import PADS, Decks, quantization

from qconv.errors import Infeasible
from qconv.generator import FAMILIES, Plan
from qconv.problem import Conv2d
from qconv.target import Target

FILTERS = ((1, 1), (1, 3), (3, 1), (2, 2), (3, 3), (3, 3), (3, 3), (4, 5), (5, 5), (5, 5), (7, 7), (2, 9))
IMAGES = ((1, 1), (1, 7), (3, 4), (5, 5), (7, 6), (8, 8), (9, 13), (12, 12), (14, 11), (16, 17), (20, 20), (6, 40))
# (groups, input channels of a group, output channels of a group)
SHAPES = {
    "depthwise": (
        *((4, 1, 1), (8, 1, 1), (16, 1, 1), (24, 1, 1), (32, 1, 1), (48, 1, 1)),  # whole words, and wider
        *((3, 1, 1), (6, 1, 1), (21, 1, 1), (2, 1, 4), (5, 1, 2), (8, 1, 3)),  # byte by byte
    ),
    "direct": (
        *((16, 1, 1), (24, 1, 1), (48, 1, 1), (72, 1, 1), (8, 1, 2), (12, 1, 1)),
        *((8, 2, 2), (4, 4, 4), (9, 4, 4), (4, 4, 8), (4, 8, 8), (3, 8, 4)),
        *((2, 16, 16), (3, 16, 8), (2, 32, 32), (1, 16, 8), (1, 16, 24), (1, 32, 16), (1, 4, 2)),
    ),
}


def small_group_problems(family: str, seed: int, count: int) -> list[Conv2d]:
    rng = random.Random(f"{family} {seed}")
    decks = Decks(rng)
    return [_problem(rng, decks, family) for _ in range(count)]


def _problem(rng: random.Random, decks: Decks, family: str) -> Conv2d:
    groups, c, k = decks.deal("shape", SHAPES[family])
    # Filters whose weights a lane can hold.
    few = family == "direct" and (c > 8 or k > c)
    r, s = decks.deal(f"filter {few}", tuple(f for f in FILTERS if f[0] * f[1] <= 9) if few else FILTERS)
    dilation = (decks.deal("dilation_h", (1, 1, 1, 2)), decks.deal("dilation_w", (1, 1, 1, 3)))
    stride = (decks.deal("stride_h", (1, 1, 2)), decks.deal("stride_w", (1, 1, 2, 3)))
    spans = ((r - 1) * dilation[0] + 1, (s - 1) * dilation[1] + 1)
    pad = {
        "none": (0, 0, 0, 0),
        "same": (spans[0] // 2, spans[1] // 2) * 2,
        "any": tuple(rng.randint(0, 4) for _ in range(4)),
    }[decks.deal("pad", PADS)]
    h, w = decks.deal("image", IMAGES)
    return Conv2d(
        n=decks.deal("n", (1, 1, 2, 3)),
        h=max(h, spans[0] - pad[0] - pad[2]),
        w=max(w, spans[1] - pad[1] - pad[3]),
        c=groups * c,
        k=groups * k,
        r=r,
        s=s,
        stride=stride,
        dilation=dilation,
        pad=pad,  # type: ignore[arg-type]
        groups=groups,
        quantization=quantization(decks),
    )


def small_group_plan(family: str, problem: Conv2d, target: Target, seed: object) -> Plan:
    """A config at random: each value of a choice as likely as the others, where it serves."""
    rng = random.Random(f"{family} {problem} {seed}")
    chosen = FAMILIES[family]
    while True:
        values = {name: rng.choice(values) for name, values in chosen.choices.items()}
        try:
            return chosen.plan(problem, chosen.config(**values), target)
        except Infeasible:
            continue
