"""What a block of the `halo` family has in shared memory, and what the copy engine (TMA) brings there and takes."""

from __future__ import annotations

from typing import Protocol

from qconv.generator import tensor_map
from qconv.generator.halo_windows import COLUMNS, REPEATS, Windows, is_gathered
from qconv.generator.plan import at_most, ceil_div
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.generator.wgmma_slots import MBARRIER_BYTES
from qconv.problem import Conv2d
from qconv.target import Target

# Slots for the windows of so many tiles: with more, nothing more is under way.
MOST_SLOTS = 8
SUM_BYTES = 4


class Tiled(Protocol):
    """What this depends on of a config."""

    @property
    def rows(self) -> int: ...
    @property
    def consumers(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def blocks(self) -> int: ...  # that have a tile together
    @property
    def has_pixel_rows(self) -> bool: ...


def tap_bytes(problem: Conv2d) -> int:
    """What the weights of a tap take for an output channel: whole chunks."""
    return ceil_div(problem.c, CHUNK) * CHUNK


def weight_bytes(problem: Conv2d, config: Tiled) -> int:
    windows = Windows.of(problem, config.rows)
    return problem.r * problem.s * windows.slabs * config.channels * windows.row


def is_staged(problem: Conv2d) -> bool:
    """Whether outputs leave by the copy engine: bytes, in rows of whole chunks."""
    return problem.quantization.types.y.bytes == 1 and problem.k % CHUNK == 0


def is_residual_staged(problem: Conv2d, blocks: int) -> bool:
    """Whether residuals come by the copy engine: bytes as well, and with the one window of a tile, which it brings to
    the one block that has the tile."""
    if blocks > 1:
        return False
    residual, alone = problem.quantization.types.residual, Windows.of(problem, 1).strided or is_gathered(problem)
    return is_staged(problem) and residual is not None and residual.bytes == 1 and not alone


def pixel_map(problem: Conv2d, windows: Windows) -> TensorMap:
    """A slab of a window. Channels past the last are zeros, whatever the weights have there."""
    row, steps = windows.row, (windows.row_step, problem.stride[1])
    span_h, span_w = (windows.rows - 1) * steps[0] + 1, (windows.columns - 1) * steps[1] + 1
    return tensor_map.window(problem, span_h, span_w, row, steps, swizzle=row)


def weight_map(problem: Conv2d, channels: int, row: int, weight_rows: int) -> TensorMap:
    """A slab of a tap's weights, so many bytes, for a tile's channels."""
    w_type, columns = problem.quantization.types.w.name, problem.r * problem.s * tap_bytes(problem)
    return tensor_map.matrix("weights", w_type, weight_rows, columns, channels, row, swizzle=row)


def tile_map(problem: Conv2d, config: Tiled, array: str, rows: int) -> TensorMap:
    """So many rows of a tile of the outputs, or of the residuals: what lies outside of the image is not written, and
    zeros."""
    t = problem.quantization.types
    element = t.y if array == "y" else t.residual
    assert element is not None
    box = config.channels, COLUMNS, rows, 1
    swizzle = 0 if config.has_pixel_rows else config.channels
    return tensor_map.of_outputs(problem, array, element.name, box, swizzle=swizzle)


def slots(problem: Conv2d, config: Tiled, target: Target) -> int:
    """Windows have the room that weights and outputs leave."""
    of_slot = smem_bytes(problem, config, 1) - smem_bytes(problem, config, 0)
    left = target.smem_bytes - smem_bytes(problem, config, 0)
    # A slot's mbarriers are few bytes, but may begin another multiple of what a swizzle repeats after.
    windows = Windows.of(problem, config.rows).count
    found, least = min(MOST_SLOTS * windows, (left - REPEATS) // of_slot), windows + 1
    if found < least:
        at_most(smem_bytes(problem, config, least), target.smem_bytes, f"bytes of shared memory on {target.name}")
        found = least
    return found


def smem_bytes(problem: Conv2d, config: Tiled, slots: int) -> int:
    """The weights, windows with their residuals, the outputs of each consumer where they are staged, the sums that it
    gets of other blocks, and mbarriers."""
    tile = COLUMNS * config.rows * config.channels
    window = Windows.of(problem, config.rows).room + tile * is_residual_staged(problem, config.blocks)
    staged = config.consumers * tile * is_staged(problem) // config.blocks
    exchanged = config.consumers * tile * SUM_BYTES * (config.blocks > 1)
    mbarriers = 2 * slots + 1 + config.consumers * (3 if config.blocks > 1 else 1)
    weights = ceil_div(weight_bytes(problem, config), REPEATS) * REPEATS
    whole = weights + slots * window + staged + exchanged + mbarriers * MBARRIER_BYTES
    return ceil_div(whole, REPEATS) * REPEATS
