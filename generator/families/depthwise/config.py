"""The config of `depthwise`, and its search space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qconv.generator.plan import Config


@dataclass(frozen=True)
class Depthwise(Config):
    family: ClassVar[str] = "depthwise"
    rows: int  # output rows per thread
    columns: int  # output columns per thread
    vector: int  # channels per thread
    run: int  # neighbouring outputs that use the same words of pixels; 1 for floats
    threads: int


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (1, 2, 4, 7, 8, 14),
    "columns": (1, 2, 4, 8),
    "vector": (2, 4, 8, 16),
    "run": (1, 2),
    "threads": (64, 128, 256),
}
LIKELY: dict[str, tuple[int, ...]] = {"threads": (128,)}
