"""Problems of the largest allowed size: near 2^31 elements of an array, or near 2^31 products per sum."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from random_conversions import conversions
from random_fused import fused_problems
from random_pooled import pooled_problems, stem_pools
from random_problems import problems
from random_special import special_problems
from random_tensor_ops import tensor_op_problems

from qconv.arithmetic.mode import Mode
from qconv.op import LARGEST, Problem
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.targets.target import TARGETS

FAMILIES = ("halo", "stem", "stem_wgmma", "gemv", "pointwise", "wgmma", "direct", "depthwise")


def grown_problems(seed: int, count: int) -> Iterator[Problem]:
    """Yield problems of every op: small ones, with one or two extents at the largest value that the problem allows."""
    rng = random.Random(f"grown {seed}")
    small: list[Problem] = [
        *problems(seed, 2 * count),
        *(one for family in FAMILIES for one in special_problems(family, seed, 1 + count // 4)),
        *conversions(seed, count),
        *tensor_op_problems(seed, count),
        *pooled_problems(seed, count // 2),
        *stem_pools(seed, count // 2),
        *fused_problems(seed, count // 4, TARGETS["sm_90a"]),
        *fused_problems(seed, count // 4, TARGETS["sm_90a"], layers=3),
    ]
    for problem in rng.sample(small, count):
        yield grown(problem, rng)


def grown(problem: Any, rng: random.Random) -> Any:
    if isinstance(problem, Conv2d) and rng.random() < 0.3:
        problem = _resized(problem, {"quantization": replace(problem.quantization, mode=Mode(correction="fp32"))})
    names = ["n"] if isinstance(problem, Chain) else _extents(problem)
    for name in rng.sample(names, min(2, len(names))):
        problem = _largest(problem, name, rng)
    return problem


def _extents(problem: Any) -> list[str]:
    return [one.name for one in fields(problem) if type(getattr(problem, one.name)) is int]


def _largest(problem: Any, name: str, rng: random.Random) -> Any:
    """Return the problem with this extent at its largest allowed value, or at a fraction of it."""
    whole = getattr(problem.first if isinstance(problem, Chain) else problem, name)
    least, most = 1, LARGEST // max(1, whole)
    while least < most:
        middle = (least + most + 1) // 2
        if _resized(problem, {name: whole * middle}) is not problem:
            least = middle
        else:
            most = middle - 1
    return _resized(problem, {name: whole * rng.choice((least, least, max(1, rng.randint(1, least))))})


def _resized(problem: Any, values: dict[str, object]) -> Any:
    """Return the problem with these values, or the same problem if its class refuses them."""
    try:
        if isinstance(problem, Chain):
            return _with(problem, {layer: _with(one, values) for layer, one in problem.layers.items()})
        return _with(problem, values)
    except ValueError:
        return problem


def _with(problem: Any, values: dict[str, object]) -> Any:
    return replace(problem, **values)
