"""Random transposed convolutions: any stride, dilation, pads, output padding and groups. The seed determines them."""

from __future__ import annotations

import random
from dataclasses import replace

from random_problems import Decks, quantization

from qconv import ConvTranspose2d


def random_layer(seed: int) -> ConvTranspose2d:
    draw = random.Random(f"transposed {seed}")
    groups = draw.choice((1, 1, 1, 2, 3))
    stride, dilation = ((draw.randint(1, 4), draw.randint(1, 3)) for _ in range(2))
    r, s = draw.randint(1, 6), draw.randint(1, 5)
    spans = [(taps - 1) * gap + 1 for taps, gap in zip((r, s), dilation, strict=True)]
    h, w = draw.randint(1, 7), draw.randint(2, 6)
    extra = tuple(draw.randrange(max(pair)) for pair in zip(stride, dilation, strict=True))
    whole = [
        step * (size - 1) + span + more for step, size, span, more in zip(stride, (h, w), spans, extra, strict=True)
    ]
    # Pads that remove whole steps in front, and inputs at the end, as long as an output is left.
    before = [draw.randint(0, min(whole[axis] - 1, 7)) for axis in (0, 1)]
    after = [draw.randint(0, min(whole[axis] - before[axis] - 1, 7)) for axis in (0, 1)]
    return ConvTranspose2d(
        *(draw.choice((1, 2)), h, w, 3 * groups, draw.choice((1, 2, 4)) * groups, r, s),
        stride=stride,
        dilation=dilation,
        pad=(before[0], before[1], after[0], after[1]),
        output_padding=extra,  # type: ignore[arg-type] # two numbers
        groups=groups,
    )


def quantized_layers(seed: int, count: int) -> list[ConvTranspose2d]:
    """Return layers with every quantization, and channels that fill no vector, vectors or slabs."""
    draw = random.Random(f"transposed layers {seed}")
    decks = Decks(draw)
    made = []
    for at in range(count):
        layer = random_layer(1000 * seed + at)
        c, k = (decks.deal(name, (1, 3, 4, 8, 16, 20, 32, 48)) * layer.groups for name in "ck")
        made.append(replace(layer, c=c, k=k, quantization=quantization(decks)))
    return made
