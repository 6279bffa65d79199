"""Tile swizzle: tiles of pixels in strips, of which the last may be narrower than the others."""

from __future__ import annotations

from exactness import check

from qconv import Conv2d
from qconv.device import open_device
from qconv.generator.families.mma import plan as mma
from qconv.generator.families.mma.config import Mma

# 17 tiles of 32 pixels are two strips of eight and one of a single tile; the weights are large enough for strips to
# pay.
RAGGED = Conv2d(1, 17, 32, 512, 1024, 1, 1)
CONFIG = Mma(
    instruction=0,
    tile_m=32,
    tile_n=256,
    tile_k=64,
    warp_m=32,
    warp_n=64,
    pipeline_stages=2,
    prefetch_fragments=0,
    split=1,
    split_last_wave=0,
    persist=0,
    stream_k=0,
    tile_swizzle_width=8,
    staged=0,
)


def test_the_last_strip_is_as_wide_as_what_is_left() -> None:
    device = open_device("cpu.sm_80")
    plan = mma.plan(RAGGED, CONFIG, device.target)
    tiles, width = plan.shape.tiles_m, plan.config.tile_swizzle_width
    assert tiles % width != 0, f"{tiles} tiles are whole strips of {width}: the last one is as wide as the others"
    check(plan, device, seed=0)
