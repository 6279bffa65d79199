"""Simulated devices: a rugged time for every config of a space, as of real kernels, and an artificial large space."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from qconv.generator import Config

Times = NDArray[np.float64]


@dataclass(frozen=True)
class Artificial(Config):
    family: ClassVar[str] = "artificial"
    tile_m: int
    tile_n: int
    tile_k: int
    warps_m: int
    warps_n: int
    pipeline_stages: int
    swizzle: int
    splits: int


CHOICES: dict[str, tuple[int, ...]] = {
    "tile_m": (16, 32, 64, 128, 256),
    "tile_n": (16, 32, 64, 128, 256),
    "tile_k": (16, 32, 64, 128),
    "warps_m": (1, 2, 4),
    "warps_n": (1, 2, 4),
    "pipeline_stages": (2, 3, 4, 5),
    "swizzle": (0, 1),
    "splits": (1, 2),
}


def artificial() -> tuple[list[Config], list[float]]:
    """Return about five thousand configs that "fit", cheapest first by a crude cost model, and their costs."""
    every = (Artificial(*values) for values in itertools.product(*CHOICES.values()))
    configs = [
        c
        for c in every
        if 2048 <= c.tile_m * c.tile_n <= 32768
        and c.tile_k * (c.tile_m + c.tile_n) * c.pipeline_stages <= 100 * 1024
        and c.tile_m >= 16 * c.warps_m
        and c.tile_n >= 16 * c.warps_n
    ]

    def cost(c: Artificial) -> float:
        return (1 + 64 / c.tile_m + 64 / c.tile_n) * (1 + 0.3 * abs(math.log2(c.tile_k / 64)))

    configs.sort(key=cost)
    return list(configs), [cost(c) for c in configs]


def rugged_us(
    configs: Sequence[Config], costs: Sequence[float], seed: int, choices: Mapping[str, Sequence[int]]
) -> Times:
    """Return times made of a part of the cost, the effect of each field and of pairs of fields, cliffs, and noise."""
    rng = np.random.default_rng(seed)
    places = np.array([[list(choices[name]).index(getattr(c, name)) for name in choices] for c in configs])
    sizes = [len(values) for values in choices.values()]
    time = 0.5 * np.log(np.asarray(costs))
    for column, size in enumerate(sizes):
        time += rng.normal(0, 0.25, size)[places[:, column]]
    for one, other in itertools.combinations(range(len(sizes)), 2):
        if rng.random() < 0.5:
            time += rng.normal(0, 0.2, (sizes[one], sizes[other]))[places[:, one], places[:, other]]
    for _ in range(3):
        one, other = rng.choice(len(sizes), 2, replace=False)
        over = places[:, one] + places[:, other] >= sizes[one] + sizes[other] - 3
        time += rng.uniform(0.3, 1.0) * over
    us: Times = 100.0 * np.exp(time + rng.normal(0, 0.07, len(configs)))
    return us
