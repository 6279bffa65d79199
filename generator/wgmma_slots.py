"""What a block of the `wgmma` family has in shared memory: slots of pixels, of weights and of residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from qconv.generator.plan import at_most, ceil_div
from qconv.generator.tensor_map import CHUNK
from qconv.problem import Conv2d
from qconv.target import Target

# A consumer has two instructions of 64 output channels for each run of 32 bytes of the reduction.
CHANNELS = 128
# Bytes of a pixel, and of a channel's weights, that are multiplied together: what a swizzle of 128 bytes exchanges.
SLAB = 128
MBARRIER_BYTES = 8
# Slots that pixels have beyond those of the weights: with more, nothing more is under way.
MORE_PIXEL_SLOTS = 2
# Tiles of so many slabs are multiplied before the next tile of residuals has come: two are under way then.
FEW_SLABS = 4


class Sized(Protocol):
    """What the slots depend on of a config."""

    @property
    def consumers(self) -> int: ...
    @property
    def pixels(self) -> int: ...  # of a consumer
    @property
    def weight_slots(self) -> int: ...
    @property
    def pixel_rings(self) -> int: ...
    @property
    def weight_rings(self) -> int: ...
    @property
    def ahead(self) -> int: ...  # slots of pixels that the first consumer may be done with, and the second not


@dataclass(frozen=True)
class Slots:
    """Slots of each ring; each consumer has a ring of residuals."""

    pixels: int
    residuals: int
    smem_bytes: int


def why_residual_is_not_staged(problem: Conv2d) -> str | None:
    """Why the epilogue reads the residual in device memory, four channels or one at a time, and not a tile of it."""
    residual = problem.quantization.types.residual
    if residual is None:
        return "there is none"
    if problem.k * residual.bytes % CHUNK:
        return f"k={problem.k}: the copy engine moves rows of whole {CHUNK} bytes; pad the output channels"
    return None


def slots(problem: Conv2d, config: Sized, slabs: int, target: Target) -> Slots:
    """Pixels have as many slots as there is room for beside weights and residuals."""
    residuals = 1 if why_residual_is_not_staged(problem) is None else 0
    pixels = _pixel_slots(config, residuals, target)
    if residuals and slabs <= FEW_SLABS and _pixel_slots(config, 2, target) >= max(2, config.ahead + 1):
        residuals, pixels = 2, _pixel_slots(config, 2, target)
    if pixels < 2:
        least = _bytes_of_slots(config, 2, residuals) + 1024
        at_most(least, target.smem_bytes, f"bytes of shared memory on {target.name}")
    whole = ceil_div(_bytes_of_slots(config, pixels, residuals) + MBARRIER_BYTES, 1024) * 1024
    return Slots(pixels, residuals, whole)


def _pixel_slots(config: Sized, residuals: int, target: Target) -> int:
    # The last bytes: an mbarrier that is no slot's, and the end of a multiple of what a swizzle repeats after.
    left = target.smem_bytes - 1024 - _bytes_of_slots(config, 0, residuals)
    return min(left // (config.pixel_rings * _slot(config.pixels)), config.weight_slots + MORE_PIXEL_SLOTS)


def _slot(rows: int) -> int:
    return rows * SLAB + 2 * MBARRIER_BYTES


def _bytes_of_slots(config: Sized, pixels: int, residuals: int) -> int:
    as_pixels = config.pixel_rings * pixels + config.consumers * residuals
    return as_pixels * _slot(config.pixels) + config.weight_rings * config.weight_slots * _slot(CHANNELS)
