"""Random problems over every parameter, small enough for the CPU device. The seed determines the problems.

Each parameter is dealt from a deck, so that no value depends on chance: a deck deals each of its values before it
repeats one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import ACTIVATIONS, BIASES, Quantization
from qconv.problem.convolution import Conv2d

MOST_OPERATIONS = 12_000_000
# Convolutions of integers have these; `random_floats` has the others.
X_TYPES, RESIDUALS = ("int8", "uint8"), ("none", "int8", "uint8")
OUT_TYPES = ("int8", "uint8", "int32", "float32", "float16", "bfloat16")

FILTERS = tuple((r, s) for r in range(1, 8) for s in range(1, 8))
# Channels per group: odd numbers, vectors of every width, more than a tile.
CHANNELS = (1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 33, 64, 100, 144)
FILTER_COUNTS = (1, 2, 3, 4, 5, 7, 8, 16, 20, 31, 32, 33, 64, 130, 160)
GROUPS = (1, 1, 1, 1, 2, 3, 4, 8, "depthwise", "depthwise")
MULTIPLIERS = (1, 2, 3)
DEPTHWISE = (1, 3, 8, 16, 21, 48, 64)
PADS = ("none", "same", "any", "any")
FLAGS = (False, True)


class Decks:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._cards: dict[str, list[Any]] = {}

    def deal(self, name: str, values: Sequence[Any]) -> Any:
        cards = self._cards.setdefault(name, [])
        if not cards:
            cards += self._rng.sample(values, len(values))
        return cards.pop()


def problems(seed: int, count: int) -> list[Conv2d]:
    rng = random.Random(f"problems {seed}")
    decks = Decks(rng)
    return [_problem(rng, decks) for _ in range(count)]


def _problem(rng: random.Random, decks: Decks) -> Conv2d:
    chosen = quantization(decks)
    groups, c, k = _channels(decks)
    r, s = decks.deal("filter", FILTERS)
    dilation = (decks.deal("dilation_h", (1, 1, 2, 3)), decks.deal("dilation_w", (1, 1, 2, 3)))
    stride = (decks.deal("stride_h", (1, 1, 2, 3)), decks.deal("stride_w", (1, 1, 2, 3)))
    spans = ((r - 1) * dilation[0] + 1, (s - 1) * dilation[1] + 1)
    kind = decks.deal("pad", PADS)
    pad = {
        "none": (0, 0, 0, 0),
        "same": (spans[0] // 2, spans[1] // 2) * 2,
        "any": tuple(rng.randint(0, 5) for _ in range(4)),
    }[kind]
    n = decks.deal("n", (1, 1, 2, 3))
    layout = decks.deal("layout", ("nhwc", "nhwc", "nchw"))
    least = (max(1, spans[0] - pad[0] - pad[2]), max(1, spans[1] - pad[1] - pad[3]))
    for extra in (24, 16, 12, 8, 5, 3, 2, 1, 0):
        problem = Conv2d(
            n=n,
            h=rng.randint(least[0], least[0] + extra),
            w=rng.randint(least[1], least[1] + extra),
            c=c,
            k=k,
            r=r,
            s=s,
            stride=stride,
            dilation=dilation,
            pad=pad,
            groups=groups,
            layout=layout,
            quantization=chosen,
        )
        if problem.operations <= MOST_OPERATIONS:
            break
        n = 1
    return problem


def _channels(decks: Decks) -> tuple[int, int, int]:
    """Return groups, c and k."""
    groups = decks.deal("groups", GROUPS)
    if groups == "depthwise":
        groups = decks.deal("depthwise", DEPTHWISE)
        return groups, groups, groups * decks.deal("multiplier", MULTIPLIERS)
    # Many groups of many channels would only be slow.
    most = 256 // groups
    return (
        groups,
        groups * min(most, decks.deal("c", CHANNELS)),
        groups * min(most, decks.deal("k", FILTER_COUNTS)),
    )


def quantization(decks: Decks) -> Quantization:
    """Deal a quantization. Contradictory values are replaced by ones that the output type allows."""
    out_type = decks.deal("out_type", ("int8", "uint8", "int8", "uint8", *OUT_TYPES))
    scaled, requantizes = out_type != "int32", out_type in ("int8", "uint8")
    w_zero_point = decks.deal("w_zero_point", FLAGS)
    bias = decks.deal("bias", BIASES)
    residual = decks.deal("residual", ("none", *RESIDUALS)) if scaled else "none"
    return Quantization(
        x_type=decks.deal("x_type", X_TYPES),
        w_type=decks.deal("w_type", X_TYPES),
        out_type=out_type,
        per_channel=decks.deal("per_channel", FLAGS) and (scaled or w_zero_point),
        x_zero_point=decks.deal("x_zero_point", FLAGS),
        w_zero_point=w_zero_point,
        y_zero_point=decks.deal("y_zero_point", FLAGS) and requantizes,
        bias="int32" if bias == "float32" and not scaled else bias,
        activation=decks.deal("activation", ACTIVATIONS) if scaled else "none",
        residual=residual,
        residual_zero_point=residual != "none" and decks.deal("residual_zero_point", FLAGS),
    )


def with_requantized_sum(q: Quantization, decks: Decks) -> Quantization:
    """Add a residual that is added to the requantized output."""
    out_type = decks.deal("sum_type", ("int8", "uint8"))
    flags = ("y_zero_point", "residual_zero_point", "inner_zero_point")
    return replace(
        q,
        **{name: decks.deal(f"sum {name}", FLAGS) for name in flags},
        out_type=out_type,
        residual=out_type,
        activation=decks.deal("sum_activation", ("none", "relu")),
        mode=Mode(residual_add=decks.deal("sum residual_add", ("requantized", "requantized_last"))),
    )


def with_constant(q: Quantization, decks: Decks, residuals: bool = True) -> Quantization:
    """Add a constant to the requantized output, and what may follow it: a relu, a residual or a table."""
    behind = decks.deal("behind", ("nothing", "relu", "table", *("residual", "residual and relu") * residuals))
    out_type = decks.deal("constant_type", ("int8", "uint8"))
    adds = behind.startswith("residual")
    flags = {name: adds and decks.deal(f"constant {name}", FLAGS) for name in _OF_RESIDUAL}
    orders = ("requantized", "requantized_last")
    return replace(
        q,
        **flags,
        y_zero_point=decks.deal("constant y_zero_point", FLAGS),
        out_type=out_type,
        constant=decks.deal("constant", ("added", "added_first", "multiplied")),
        table=behind == "table",
        residual=out_type if adds else "none",
        activation="relu" if behind.endswith("relu") else "none",
        mode=Mode(residual_add=decks.deal("constant residual_add", orders)) if adds else Mode(),
    )


_OF_RESIDUAL = ("residual_zero_point", "inner_zero_point")
