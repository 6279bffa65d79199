"""The golden files of several convolutions in one kernel."""

from __future__ import annotations

from dataclasses import replace

from golden_quantizations import EVERYTHING, GIVES, SIGNED_MID, conv

from qconv import Conv2d, FusedBlock, FusedConv2d
from qconv.generator.families.fused.config import Block, Fused
from qconv.problem.chain import Chain

SEPARABLE = Conv2d(32, 56, 56, 144, 144, 3, 3, pad=(1, 1, 1, 1), groups=144)
PROJECT = Conv2d(32, 56, 56, 144, 24, 1, 1)
SMALL = Conv2d(32, 14, 14, 384, 384, 3, 3, pad=(1, 1, 1, 1), groups=384)
SMALL_PROJECT = Conv2d(32, 14, 14, 384, 64, 1, 1)
SMALL_WIDEN = Conv2d(32, 14, 14, 384, 768, 1, 1)
SMALL_EXPAND = Conv2d(32, 14, 14, 64, 384, 1, 1)
EXPAND = Conv2d(32, 56, 56, 24, 144, 1, 1)
SQUARE_96 = Conv2d(4, 28, 28, 96, 96, 3, 3, pad=(1, 1, 1, 1))
WIDEN = Conv2d(4, 28, 28, 96, 192, 1, 1)
HALVED_96, HALVED_WIDEN = Conv2d(4, 28, 28, 96, 96, 3, 3, (2, 2), pad=(1, 1, 1, 1)), Conv2d(4, 14, 14, 96, 192, 1, 1)

PAIR = Fused(
    tile_h=8, tile_w=14, warps=4, blocks_per_sm=2, teams=1, cluster_blocks=1, weights_in_smem=0, on_wgmma=0,
    first_m=2, first_n=2, second_m=2, second_n=2,
)  # fmt: skip

CASES: dict[str, tuple[Chain, str, Fused]] = {
    "fused-depthwise-pointwise-sm_90a.cu": (
        FusedConv2d(conv(SEPARABLE, GIVES), conv(PROJECT, replace(GIVES, x_type="uint8", x_zero_point=True))),
        "sm_90a",
        PAIR,
    ),
    "fused-small-image-sm_90a.cu": (
        FusedConv2d(conv(SMALL, replace(SIGNED_MID, activation="relu6")), conv(SMALL_PROJECT, SIGNED_MID)),
        "sm_90a",
        replace(
            PAIR,
            tile_h=4,
            warps=16,
            blocks_per_sm=1,
            weights_in_smem=1,
            on_wgmma=1,
            first_m=4,
            second_m=1,
            second_n=4,
        ),
    ),
    "fused-cluster-sm_90a.cu": (
        FusedConv2d(conv(SEPARABLE, SIGNED_MID), conv(PROJECT, SIGNED_MID)),
        "sm_90a",
        replace(PAIR, cluster_blocks=2, weights_in_smem=1, second_n=1),
    ),
    "fused-warpgroups-sm_90a.cu": (
        FusedConv2d(conv(SQUARE_96, SIGNED_MID), conv(WIDEN, replace(SIGNED_MID, residual="int8"))),
        "sm_90a",
        replace(
            PAIR,
            tile_w=8,
            teams=3,
            weights_in_smem=2,
            on_wgmma=2,
            blocks_per_sm=1,
            first_m=1,
            first_n=4,
            second_m=1,
            second_n=8,
        ),
    ),
    "fused-streamed-sm_90a.cu": (
        FusedConv2d(conv(SMALL, replace(SIGNED_MID, activation="hardswish")), conv(SMALL_WIDEN, SIGNED_MID)),
        "sm_90a",
        replace(PAIR, tile_h=14, warps=16, blocks_per_sm=1, on_wgmma=1, first_m=4, second_m=1, second_n=8),
    ),
    "fused-stride-2-sm_90a.cu": (
        FusedConv2d(conv(HALVED_96, SIGNED_MID), conv(HALVED_WIDEN, SIGNED_MID)),
        "sm_90a",
        replace(
            PAIR,
            tile_w=8,
            weights_in_smem=2,
            on_wgmma=2,
            blocks_per_sm=1,
            first_m=1,
            first_n=4,
            second_m=1,
            second_n=8,
        ),
    ),
    "fused-teams-cpu.sm_90a.cpp": (
        FusedConv2d(conv(SEPARABLE, SIGNED_MID), conv(PROJECT, SIGNED_MID)),
        "cpu.sm_90a",
        replace(PAIR, teams=2, weights_in_smem=1, on_wgmma=1, second_m=1, second_n=2),
    ),
    "fused-pointwise-depthwise-gfx942.hip": (
        FusedConv2d(conv(EXPAND, SIGNED_MID), conv(SEPARABLE, SIGNED_MID)),
        "gfx942",
        replace(PAIR, first_n=4, second_n=1),
    ),
    "fused-slices-sm_90a.cu": (
        FusedConv2d(conv(EXPAND, SIGNED_MID), conv(SEPARABLE, SIGNED_MID)),
        "sm_90a",
        replace(PAIR, cluster_blocks=2, weights_in_smem=1, on_wgmma=1, first_m=1, first_n=4, second_n=1),
    ),
    "fused-whole-images-sm_90a.cu": (
        FusedConv2d(conv(SMALL_EXPAND, GIVES), conv(SMALL, replace(SIGNED_MID, x_type="uint8", x_zero_point=True))),
        "sm_90a",
        replace(
            PAIR,
            tile_h=14,
            warps=16,
            blocks_per_sm=1,
            cluster_blocks=4,
            weights_in_smem=1,
            on_wgmma=1,
            first_m=1,
            first_n=4,
            second_n=1,
        ),
    ),
    "fused-dense-everything-cpu.sm_80.cpp": (
        FusedConv2d(conv(SQUARE_96, GIVES), conv(SQUARE_96, replace(EVERYTHING, residual="int8"))),
        "cpu.sm_80",
        replace(PAIR, first_m=2, second_m=1),
    ),
    "block-inverted-residual-sm_90a.cu": (
        FusedBlock(
            conv(EXPAND, SIGNED_MID), conv(SEPARABLE, SIGNED_MID), conv(PROJECT, replace(SIGNED_MID, residual="int8"))
        ),
        "sm_90a",
        Block(
            **vars(
                replace(
                    PAIR, blocks_per_sm=1, teams=2, weights_in_smem=2, on_wgmma=1, first_n=4, second_m=4, second_n=1
                )
            ),
            third_m=1,
            third_n=3,
        ),
    ),
}
