"""Random convolutions followed by a max pool, small enough for the CPU device. The seed determines the problems.

The convolutions are those of `random_problems`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from random_problems import Decks, problems
from random_special import special_problems

from qconv.arithmetic.quantization import Quantization
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d

WINDOWS = ((3, 3), (2, 2), (3, 2), (1, 1), (2, 3), (1, 4))
STRIDES = (1, 2, 2, 3)
BYTES = ("int8", "uint8")


Draw = Callable[[int, int], list[Conv2d]]  # takes a seed and a count
Behind = Callable[[Conv2d, random.Random, Decks], PooledConv2d | None]


def pooled_problems(seed: int, count: int) -> list[PooledConv2d]:
    return _found(f"pooled {seed}", count, problems, _with_pool)


def stem_pools(seed: int, count: int) -> list[PooledConv2d]:
    """Return first layers followed by a pool, as one kernel computes them: stride 2 and monotonic activations."""
    return _found(f"stem_pool {seed}", count, partial(special_problems, "stem_wgmma"), _with_pairs)


def _found(seed: str, count: int, draw: Draw, behind: Behind) -> list[PooledConv2d]:
    """Draw until `count` of the convolutions can be followed by a pool."""
    rng = random.Random(seed)
    decks = Decks(rng)
    found: list[PooledConv2d] = []
    while len(found) < count:
        for convolution in draw(rng.randint(0, 10**6), count - len(found)):
            if (made := behind(convolution, rng, decks)) is not None:
                found.append(made)
    return found


def _with_pool(convolution: Conv2d, rng: random.Random, decks: Decks) -> PooledConv2d | None:
    """Add a pool, or return None if the output is smaller than the window."""
    q = _of_bytes(convolution.quantization, decks.deal("out_type", BYTES))
    window = decks.deal("window", WINDOWS)
    pads = tuple(rng.randint(0, size - 1) for size in window * 2) if decks.deal("pads", (True, False)) else 0
    strides = decks.deal("stride_h", STRIDES), decks.deal("stride_w", STRIDES)
    of_pool = {"window_stride": strides, "window_pad": pads, "ceil_mode": decks.deal("ceil_mode", (True, False))}
    plain = replace(convolution, layout="nhwc", quantization=q)
    try:
        return PooledConv2d.over(plain, window=window, **of_pool)
    except ValueError:
        return None


def _of_bytes(q: Quantization, out_type: str) -> Quantization:
    if not q.requantizes:  # its scales and its mode may be impossible for bytes
        q = Quantization(q.x_type, q.w_type, x_zero_point=q.x_zero_point, w_zero_point=q.w_zero_point)
    return replace(q, out_type=out_type, residual="none", residual_zero_point=False)


def _with_pairs(convolution: Conv2d, rng: random.Random, decks: Decks) -> PooledConv2d | None:
    """Add windows of two or three pixels that begin with a lane's pair, or return None if the output is smaller than
    one."""
    activation = decks.deal("activation", ("none", "relu", "clamp"))
    channels = 16 * -(-convolution.k // 16)
    q = replace(_of_bytes(convolution.quantization, decks.deal("out_type", BYTES)), activation=activation, table=False)
    window = decks.deal("pairs", ((3, 3), (3, 3), (2, 2), (3, 2), (2, 3)))
    first = [decks.deal("first", (0, 1)) if size == 3 else 0 for size in window]
    pads = (*first, *(rng.randint(0, size - 1) for size in window))
    of_pool = {"window_stride": 2, "window_pad": pads, "ceil_mode": decks.deal("ceil", (True, False))}
    try:
        return PooledConv2d.over(replace(convolution, k=channels, quantization=q), window=window, **of_pool)
    except ValueError:
        return None
