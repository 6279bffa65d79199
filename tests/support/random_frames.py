"""Random convolutions of the frames of volumes, small enough for the CPU device, for the families that read them."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from random_floats import float_quantization
from random_problems import Decks, quantization
from random_special import special_plan

from qconv.arithmetic.quantization import Quantization
from qconv.generator import Plan
from qconv.problem.convolution import Conv2d
from qconv.problem.frames import Frames
from qconv.targets.target import Target

FAMILIES = ("wgmma", "halo")
# Channels of a frame: whole chunks for TMA, of all widths of rows and of one slab and several.
CHANNELS = (16, 32, 48, 64, 80, 96, 128, 144, 256)
FILTERS = ((1, 1), (3, 3), (3, 3), (1, 3), (3, 1), (2, 2))
IMAGES = ((4, 4), (5, 7), (8, 9), (9, 16), (3, 20))
MOST_OPERATIONS = 12_000_000
FLOATS = (("float16", "float16"), ("bfloat16", "bfloat16"), ("float8_e4m3fn", "float8_e5m2"))


def frame_plans(family: str, seed: int, count: int, target: Target) -> list[Plan]:
    """Return random plans of random problems. Those whose filters leave no room for a window are drawn again."""
    rng = random.Random(f"frames {family} {seed}")
    decks, of_floats = Decks(rng), Decks(rng)
    found: list[Plan] = []
    while len(found) < count:
        problem = _problem(family, rng, decks, of_floats)
        with suppress(IndexError):
            found.append(special_plan(family, problem, target, seed))
    return found


def _problem(family: str, rng: random.Random, decks: Decks, of_floats: Decks) -> Conv2d:
    frames = _frames(rng, decks)
    (r, s), (h, w) = decks.deal("filter", FILTERS), decks.deal("image", IMAGES)
    are_floats = decks.deal("floats", (False, False, True))
    chosen = float_quantization(of_floats, FLOATS, family != "halo") if are_floats else quantization(decks)
    channels = decks.deal("channels", CHANNELS)
    dilation = decks.deal("dilation", ((1, 1), (1, 1), (2, 1)))
    pad = decks.deal("pad", ((0, 0, 0, 0), (1, 1, 1, 1), (2, 0, 1, 2)))
    made = Conv2d(
        n=decks.deal("volumes", (1, 2, 3)) * frames.images,
        h=max(h, (r - 1) * dilation[0] + 1 - pad[0] - pad[2]),
        w=w,
        c=frames.taps * channels,
        k=decks.deal("k", (5, 8, 16, 24, 64, 72, 136)),
        r=r,
        s=s,
        stride=decks.deal("stride", ((1, 1), (1, 1), (2, 2), (1, 2))),
        dilation=dilation,
        pad=pad,
        frames=frames,
        quantization=_without_w_zero_point(chosen),
    )
    while made.operations > MOST_OPERATIONS and made.n > frames.images:
        made = replace(made, n=made.n - frames.images)
    return made


def _frames(rng: random.Random, decks: Decks) -> Frames:
    taps, stride, dilation = (
        decks.deal(name, values) for name, values in (("taps", (1, 2, 3, 3)), ("step", (1, 1, 2)), ("gap", (1, 1, 2)))
    )
    before, behind, span = rng.randint(0, 2), rng.randint(0, 2), (taps - 1) * dilation + 1
    depth = max(decks.deal("depth", (1, 2, 3, 5, 8)), span - before - behind)
    return Frames((depth + before + behind - span) // stride + 1, depth, taps, stride, dilation, before)


def _without_w_zero_point(q: Quantization) -> Quantization:
    return replace(q, w_zero_point=False, per_channel=q.per_channel and q.out_type != "int32")
