"""Random integer ops between convolutions, small enough for the CPU device. The seed determines the problems."""

from __future__ import annotations

import random
from typing import Any

from qconv.op import Problem
from qconv.tensor_ops import (
    Add,
    ArgMax,
    AveragePool,
    Binary,
    ChannelShuffle,
    Concat,
    GlobalAveragePool,
    MaxPool,
    Mul,
    NonMaxSuppression,
    Table,
)
from qconv.tensor_ops.pooling import Pool
from qconv.tensor_ops.problem import ACTIVATIONS, BYTES

# Whole vectors and odd sizes, one row and many.
SIZES = (1, 1, 2, 3, 5, 8, 16, 24, 33, 64, 130)
LONG = (1023, 4096, 9999, 20_001)

# Parameters for uint8 with which another order of an add's operations, or one more rounding, changes hundreds of the
# outputs.
_NAMES = ("a_scale", "b_scale", "y_scale", "a_zero_point", "b_zero_point", "y_zero_point")
TELLING = [
    dict(zip(_NAMES, numbers, strict=True))
    for numbers in (
        (0.09, 0.27, 0.06, 100, 90, 95),
        (0.36, 0.18, 0.04, 232, 58, 210),
        (0.30, 0.42, 0.12, 100, 217, 197),
        (0.36, 0.48, 0.08, 135, 146, 50),
        (0.30, 0.54, 0.12, 116, 118, 191),
    )
]

# Likewise for a sigmoid, where one entry of a table changes.
TELLING_SIGMOID = [
    {"x_scale": x_scale, "x_zero_point": zero, "y_scale": 0.004, "y_zero_point": 0}
    for x_scale, zero in ((0.035, 0), (0.146, 178))
]


def binary_problems(seed: int, count: int) -> list[Binary]:
    rng = random.Random(f"binary {seed}")
    return [_binary(rng, (Add, Mul)[index % 2]) for index in range(count)]


def _binary(rng: random.Random, kind: type[Binary]) -> Binary:
    outer, repeat, inner = (rng.choice(SIZES) for _ in range(3))
    if rng.random() < 0.3:
        outer, repeat, inner = 1, 1, rng.choice(LONG)
    a_type, b_type, out_type = (rng.choice(BYTES) for _ in range(3))
    more: dict[str, Any] = {"added_first": rng.choice("ab")} if kind is Add else {}
    return kind(min(outer, 8), repeat, inner, a_type, b_type, out_type, activation=rng.choice(ACTIVATIONS), **more)


def pools(seed: int, count: int) -> list[Pool]:
    """Return windows of up to 3x3 in every position, with smaller pads."""
    rng = random.Random(f"pools {seed}")
    return [_pool(rng, (MaxPool, AveragePool)[index % 2]) for index in range(count)]


def _pool(rng: random.Random, kind: type[Pool]) -> Pool:
    r, s = rng.randint(1, 3), rng.randint(1, 3)
    geometry: dict[str, Any] = {
        "stride": (rng.randint(1, 3), rng.randint(1, 3)),
        "pad": tuple(rng.randint(0, window - 1) for window in (r, s, r, s)),
        "ceil_mode": rng.random() < 0.5,
        "x_type": rng.choice(BYTES),
    }
    if kind is MaxPool:
        geometry["dilation"] = (rng.randint(1, 2), rng.randint(1, 2))
    else:
        geometry |= {"count_include_pad": rng.random() < 0.5, "out_type": geometry["x_type"]}
    return kind(rng.randint(1, 3), rng.randint(5, 12), rng.randint(5, 12), rng.choice((3, 8, 16, 20)), r, s, **geometry)


def global_pools(seed: int, count: int) -> list[GlobalAveragePool]:
    rng = random.Random(f"global pools {seed}")
    sizes = ((1, 1, 5), (3, 49, 33), (2, 64, 48), (1, 900, 16), (5, 7, 130))
    return [GlobalAveragePool(*rng.choice(sizes), *([rng.choice(BYTES)] * 2)) for _ in range(count)]


def argmaxes(seed: int, count: int) -> list[ArgMax]:
    """Return axes whose elements are contiguous, and axes whose elements are far apart."""
    rng = random.Random(f"argmaxes {seed}")
    lengths, inners = (*SIZES, 200, 1000), (1, 1, 1, 3, 8, 16, 20)
    return [
        ArgMax(rng.choice(SIZES), rng.choice(lengths), rng.choice(inners), rng.random() < 0.5, rng.choice(BYTES))
        for _ in range(count)
    ]


def shuffles(seed: int, count: int) -> list[ChannelShuffle]:
    rng = random.Random(f"shuffles {seed}")
    groups, widths = (1, 2, 2, 3, 4, 8, 17, 64), (1, 2, 3, 8, 20, 29, 32)
    return [
        ChannelShuffle(rng.choice(SIZES), rng.choice(groups), rng.choice(widths), rng.choice(BYTES))
        for _ in range(count)
    ]


def suppressions(seed: int, count: int) -> list[NonMaxSuppression]:
    """Return fewer boxes than threads and more, of which few or all may be kept."""
    rng = random.Random(f"suppressions {seed}")
    return [_suppression(rng) for _ in range(count)]


def _suppression(rng: random.Random) -> NonMaxSuppression:
    boxes = rng.choice((*SIZES, 300, 700))
    most = rng.choice((1, min(boxes, 7), boxes))
    return NonMaxSuppression(rng.randint(1, 3), rng.randint(1, 4), boxes, most, rng.random() < 0.4)


def concats(seed: int, count: int) -> list[Concat]:
    """Return one to four slices, of whole vectors and odd sizes, in rows that are aligned and not, copied and looked
    up."""
    rng = random.Random(f"concats {seed}")
    return [_concat(rng) for _ in range(count)]


def _concat(rng: random.Random) -> Concat:
    unit = rng.choice((1, 2, 4, 8, 16))
    beside = rng.choice((unit, unit, 1, 2))  # elements of which there are some before and behind a slice
    slices = []
    for _ in range(rng.randint(1, 4)):
        width, before = unit * rng.randint(1, 5), beside * rng.choice((0, 0, 1, 3))
        behind = beside * rng.choice((0, 0, 2))
        slices.append((width, before + width + behind, before, rng.random() < 0.4))
    return Concat.of(rng.choice(SIZES), slices, rng.choice(BYTES))


def tensor_op_problems(seed: int, count: int) -> list[Problem]:
    """Return every op between convolutions."""
    tables = [Table(size, x_type) for size in LONG for x_type in BYTES]
    every = [
        *binary_problems(seed, count),
        *pools(seed, count),
        *global_pools(seed, count),
        *concats(seed, count),
        *argmaxes(seed, count),
        *shuffles(seed, count),
        *suppressions(seed, count),
        *tables,
    ]
    return random.Random(f"tensor ops {seed}").sample(every, count)
