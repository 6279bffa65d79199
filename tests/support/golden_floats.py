"""Reviewed sources of convolutions of floats: every matrix instruction of theirs, a warpgroup's, and a chain."""

from __future__ import annotations

from dataclasses import replace

from golden_quantizations import conv

from qconv import Conv2d, FusedBlock, FusedConv2d, Quantization
from qconv.dtypes import ELEMENT_TYPES
from qconv.generator import Config
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.direct import Direct
from qconv.generator.families.fused.config import Block, Fused
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.mma.config import Mma
from qconv.generator.families.simt import Simt
from qconv.generator.families.stem import Stem
from qconv.generator.families.stem_wgmma import StemWgmma
from qconv.generator.families.wgmma import Wgmma
from qconv.problem.chain import Chain

DEPTHWISE = Conv2d(1, 56, 56, 48, 48, 3, 3, pad=1, groups=48)
# Two filters of a channel, and channels that fill no vector.
MULTIPLIED = Conv2d(2, 9, 5, 5, 10, 2, 3, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=5)
BODY = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1)
GROUPED = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, groups=32)
GROUPS = Direct(tile_h=14, tile_w=16, slabs=2, warps=4, batch=2, blocks_per_sm=3)
FIRST = Conv2d(8, 224, 224, 3, 64, 7, 7, stride=2, pad=3)
TILE = Mma(0, 64, 64, 64, 32, 32, 2, 1, 1, 0, 0, 0, 1, 0)
PAIR = Fused(
    tile_h=4,
    tile_w=14,
    warps=8,
    blocks_per_sm=1,
    teams=1,
    cluster_blocks=1,
    weights_in_smem=0,
    on_wgmma=0,
    first_m=2,
    first_n=4,
    second_m=2,
    second_n=4,
)


def real(dtype: str, out_type: str | None = None) -> Quantization:
    return Quantization(
        dtype, dtype, out_type or ELEMENT_TYPES[dtype].array_type, per_channel=True, bias="float32", activation="relu"
    )


def _of_instructions(target: str, *dtypes: str, instructions: int = 1) -> dict[str, tuple[Conv2d, str, Config]]:
    suffix = "hip" if target.startswith("gfx") else "cu"
    return {
        f"mma-{dtype}-{number}-{target}.{suffix}": (conv(BODY, real(dtype)), target, replace(TILE, instruction=number))
        for dtype in dtypes
        for number in range(instructions)
    }


CHAIN: Chain = FusedConv2d(
    conv(Conv2d(8, 28, 28, 128, 512, 1, 1), real("float16")), conv(Conv2d(8, 28, 28, 512, 128, 1, 1), real("float16"))
)
SEPARABLE: Chain = FusedConv2d(
    conv(Conv2d(8, 56, 56, 144, 144, 3, 3, pad=1, groups=144), real("float16")),
    conv(Conv2d(8, 56, 56, 144, 24, 1, 1), real("float16")),
)
INVERTED: Chain = FusedBlock(
    conv(Conv2d(8, 28, 28, 24, 144, 1, 1), real("bfloat16")),
    conv(Conv2d(8, 28, 28, 144, 144, 3, 3, pad=1, groups=144), real("bfloat16")),
    conv(Conv2d(8, 28, 28, 144, 24, 1, 1), real("bfloat16")),
)
CASES: dict[str, tuple[Conv2d | Chain, str, Config]] = {
    "simt-float32-sm_75.cu": (conv(BODY, real("float32")), "sm_75", Simt(64, 64, 32, 4, 8, 2)),
    "depthwise-float16-sm_90a.cu": (conv(DEPTHWISE, real("float16")), "sm_90a", Depthwise(8, 4, 4, 1, 128)),
    "depthwise-float8-gathered-gfx950.hip": (
        conv(MULTIPLIED, replace(real("float8_e4m3fn"), residual="float32")),
        "gfx950",
        Depthwise(2, 2, 4, 1, 64),
    ),
    "direct-float16-sm_90a.cu": (conv(GROUPED, real("float16")), "sm_90a", GROUPS),
    # Two warps divide the output channels of a group.
    "direct-parts-bfloat16-cpu.sm_80.cpp": (
        conv(replace(GROUPED, groups=4), replace(real("bfloat16", "int8"), residual="bfloat16")),
        "cpu.sm_80",
        replace(GROUPS, tile_h=8, tile_w=8, batch=1, blocks_per_sm=2),
    ),
    **_of_instructions("sm_89", "bfloat16", "float8_e4m3fn"),
    **_of_instructions("gfx908", "float16", instructions=2),
    **_of_instructions("gfx90a", "bfloat16", instructions=2),
    **_of_instructions("gfx950", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", instructions=2),
    **_of_instructions("gfx1201", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    **_of_instructions("sm_80", "tfloat32"),
    "wgmma-tfloat32-sm_90a.cu": (conv(BODY, real("tfloat32")), "sm_90a", Wgmma(2, 1, 64, 4, 0)),
    "wgmma-float16-sm_90a.cu": (conv(BODY, real("float16")), "sm_90a", Wgmma(2, 1, 128, 4, 1)),
    "wgmma-float8-cpu.sm_90a.cpp": (conv(BODY, real("float8_e4m3fn", "float16")), "cpu.sm_90a", Wgmma(1, 0, 48, 4, 0)),
    "halo-float16-sm_90a.cu": (conv(replace(BODY, c=64, k=64), real("float16")), "sm_90a", Halo(14, 3, 64)),
    "stem-float16-sm_90a.cu": (conv(FIRST, real("float16")), "sm_90a", Stem(16, 16, 2, 2, 8, 2, 2)),
    "stem-bfloat16-gathered-sm_80.cu": (
        conv(replace(FIRST, w=225, c=1), real("bfloat16")),
        "sm_80",
        Stem(8, 16, 4, 2, 4, 2, 2),
    ),
    "stem-wgmma-float16-sm_90a.cu": (conv(FIRST, real("float16")), "sm_90a", StemWgmma(8, 3, 1)),
    "stem-wgmma-bfloat16-direct-cpu.sm_90a.cpp": (
        conv(replace(FIRST, c=4, k=21), real("bfloat16", "float32")),
        "cpu.sm_90a",
        StemWgmma(4, 2, 4),
    ),
    "fused-float16-sm_90a.cu": (CHAIN, "sm_90a", PAIR),
    "fused-depthwise-float16-sm_90a.cu": (SEPARABLE, "sm_90a", replace(PAIR, warps=4, blocks_per_sm=4, first_n=1)),
    "block-bfloat16-gfx942.hip": (
        INVERTED,
        "gfx942",
        Block(**vars(replace(PAIR, first_n=3, second_n=1)), third_m=1, third_n=1),
    ),
}
