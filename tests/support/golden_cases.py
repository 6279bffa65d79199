"""The generated files kept in tests/golden: together they cover every vendor, path and option of a kernel page."""

from __future__ import annotations

from dataclasses import replace

import golden_chains
import golden_floats
from golden_quantizations import ADDED, EVERYTHING, GELU, HALF, LOOKED_UP, REAL, SUM, SUM_OF_FLOATS, WHOLE, conv
from random_attentions import Sizes
from random_attentions import of as attention_of_bytes
from random_expressions import TYPICAL as EXPRESSIONS
from random_matmuls import attention, convolution, of_bytes, transposed
from random_reductions import FLOATS, pixels_outside, reduction

from qconv import Conv2d, ConvTranspose2d, Quantization, generator
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.generator import Config, Plan
from qconv.generator.families.conversion.choosing import Choosing
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.direct import Direct
from qconv.generator.families.gemv import Gemv
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.halo.split import HaloSplit
from qconv.generator.families.mma.config import Mma
from qconv.generator.families.pointwise import Pointwise
from qconv.generator.families.simt import Simt
from qconv.generator.families.stem import Stem
from qconv.generator.families.stem_pool import StemPool
from qconv.generator.families.stem_wgmma import StemWgmma
from qconv.generator.families.tcgen05 import Tcgen05
from qconv.generator.families.tensor_ops.table import TableConfig
from qconv.generator.families.wgmma import Wgmma
from qconv.op import Problem
from qconv.problem.pooled import PooledConv2d
from qconv.targets.target import TARGETS
from qconv.tensor_ops import (
    Add,
    ArgMax,
    AveragePool,
    ChannelShuffle,
    Concat,
    GlobalAveragePool,
    MaxPool,
    Mul,
    NonMaxSuppression,
    Table,
)

POINTWISE = Conv2d(32, 28, 28, 512, 1024, 1, 1)
STEM = Conv2d(1, 224, 224, 3, 64, 7, 7, stride=(2, 2), pad=(3, 3, 3, 3))
BODY = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=(1, 1, 1, 1))
ODD = Conv2d(2, 9, 5, 21, 33, 2, 5, stride=(1, 2), dilation=(2, 1), pad=(0, 2, 1, 2), groups=3)
PHASES = ConvTranspose2d(8, 28, 28, 128, 64, 4, 4, stride=2, pad=1).phases
# 3x3x3 over two volumes of eight frames of 128 channels.
VOLUMES = Conv2d(16, 28, 28, 384, 128, 3, 3, pad=(1, 1, 1, 1), frames=(8, 8, 3, 1, 1, 1))
GROUPED = Conv2d(1, 14, 14, 64, 96, 3, 3, pad=(1, 1, 1, 1), groups=8)
SQUEEZE = Conv2d(2, 1, 1, 960, 240, 1, 1)
DEPTHWISE = Conv2d(1, 56, 56, 48, 48, 3, 3, pad=(1, 1, 1, 1), groups=48)

BIASED = Quantization(per_channel=True, bias="int32", activation="relu")
POOLED = PooledConv2d.over(replace(STEM, quantization=BIASED), window=3, window_stride=2, window_pad=1)

# Types that MFMA can multiply.
SIGNED = replace(EVERYTHING, x_type="int8")
SIGNED_HALF = replace(HALF, w_type="int8")

FUSED = Quantization.of("et-vulkan", bias="float32", y_zero_point=True)
WIDER = Quantization.of("onnx-ref", bias="int32", y_zero_point=True)
CHANNELS = {"outer": 8, "channels": 64, "inner": 196}

WIDE = Simt(tile_m=128, tile_n=64, tile_k=64, thread_m=8, thread_n=4, pipeline_stages=2)
SQUARE = Simt(tile_m=64, tile_n=64, tile_k=32, thread_m=4, thread_n=4, pipeline_stages=2)
FEW = Simt(tile_m=16, tile_n=4, tile_k=32, thread_m=1, thread_n=1, pipeline_stages=2)
TALL = Depthwise(rows=8, columns=4, vector=4, run=2, threads=128)
TILE = Direct(tile_h=8, tile_w=16, slabs=2, warps=4, batch=2, blocks_per_sm=3)
FIRST = Stem(tile_h=16, tile_w=16, atoms=4, slabs=2, warps=4, batch=1, blocks_per_sm=4)
UNITS = Pointwise(batch=2, batches=1, atoms=2, pipeline_stages=3, warps=4, blocks_per_sm=2, weights_in_smem=0)
ROW = Gemv(pixels=1, channels=2, lanes=16, threads=128)
WORDS = Halo(14, 3, 64)
TOGETHER = Halo(8, 2, 48)
SMALL_IMAGE = Conv2d(4, 7, 7, 512, 512, 3, 3, pad=(1, 1, 1, 1))
LARGE_TILE = Wgmma(consumers=2, split_pixels=0, pixels=192, weight_slots=3, lag=2)
SLICED = Choosing(threads=256, team=256, vector=4, unroll=2, slices=16)


BLOCK = Mma(
    instruction=0,
    tile_m=64,
    tile_n=64,
    tile_k=64,
    warp_m=32,
    warp_n=32,
    pipeline_stages=2,
    prefetch_fragments=0,
    split=1,
    split_last_wave=0,
    persist=0,
    stream_k=0,
    tile_swizzle_width=1,
    staged=0,
)
# For targets with asynchronous copies.
DEEP = replace(BLOCK, pipeline_stages=4, prefetch_fragments=1)


# Name of the file -> problem, target and config (None: the default).
CASES: dict[str, tuple[Problem, str, Config | None]] = {
    "simt-body-sm_90a.cu": (conv(BODY, BIASED), "sm_90a", WIDE),
    "simt-body-everything-sm_80.cu": (conv(BODY, EVERYTHING), "sm_80", Simt(32, 32, 64, 4, 4, 2)),
    "simt-stem-bytes-sm_75.cu": (STEM, "sm_75", SQUARE),
    "simt-stem-nchw-everything-sm_90a.cu": (replace(STEM, layout="nchw", quantization=EVERYTHING), "sm_90a", SQUARE),
    "simt-grouped-float16-sm_120.cu": (conv(GROUPED, HALF), "sm_120", FEW),
    "simt-depthwise-int32-sm_100a.cu": (conv(DEPTHWISE, WHOLE), "sm_100a", Simt(64, 4, 16, 2, 4, 2)),
    "simt-body-et-vulkan-sm_90a.cu": (conv(BODY, FUSED), "sm_90a", WIDE),
    "simt-body-gelu-sm_90a.cu": (conv(BODY, GELU), "sm_90a", WIDE),
    "simt-body-residual-sm_90a.cu": (conv(BODY, ADDED), "sm_90a", WIDE),
    "simt-phases-residual-sm_75.cu": (conv(PHASES, ADDED), "sm_75", WIDE),
    "mma-phases-sm_80.cu": (conv(PHASES, BIASED), "sm_80", DEEP),
    "mma-phases-gfx1100.hip": (conv(PHASES, BIASED), "gfx1100", None),
    "wgmma-phases-sm_90a.cu": (conv(PHASES, BIASED), "sm_90a", LARGE_TILE),
    "halo-phases-sm_90a.cu": (conv(PHASES, BIASED), "sm_90a", WORDS),
    "wgmma-frames-sm_90a.cu": (
        conv(replace(VOLUMES, k=192), replace(EVERYTHING, w_zero_point=False)),
        "sm_90a",
        LARGE_TILE,
    ),
    "halo-frames-sm_90a.cu": (
        conv(replace(VOLUMES, c=192, k=64), replace(EVERYTHING, w_zero_point=False)),
        "sm_90a",
        Halo(14, 3, 64),
    ),
    "simt-body-gfx942.hip": (conv(BODY, BIASED), "gfx942", WIDE),
    "simt-stem-everything-gfx90a.hip": (conv(STEM, EVERYTHING), "gfx90a", SQUARE),
    "simt-grouped-float32-gfx1100.hip": (conv(GROUPED, REAL), "gfx1100", FEW),
    "simt-odd-float16-gfx1100.hip": (conv(ODD, HALF), "gfx1100", FEW),
    "simt-body-everything-cpu.cpp": (conv(BODY, EVERYTHING), "cpu", WIDE),
    "simt-odd-int32-cpu.cpp": (conv(ODD, WHOLE), "cpu", None),
    "simt-grouped-onnx-ref-cpu.cpp": (conv(GROUPED, WIDER), "cpu", None),
    "depthwise-float16-cpu.cpp": (conv(DEPTHWISE, HALF), "cpu", None),
    "depthwise-rows-sm_90a.cu": (conv(DEPTHWISE, BIASED), "sm_90a", TALL),
    "depthwise-table-gfx942.hip": (conv(DEPTHWISE, replace(BIASED, table=True)), "gfx942", TALL),
    "depthwise-everything-gfx942.hip": (conv(DEPTHWISE, EVERYTHING), "gfx942", TALL),
    "depthwise-gathers-sm_75.cu": (
        conv(replace(DEPTHWISE, c=24, groups=24, r=5, s=5), ADDED),
        "sm_75",
        replace(TALL, run=1),
    ),
    "direct-depthwise-sm_90a.cu": (conv(DEPTHWISE, BIASED), "sm_90a", TILE),
    "direct-residual-sm_80.cu": (conv(GROUPED, ADDED), "sm_80", TILE),
    "direct-everything-cpu.sm_80.cpp": (conv(GROUPED, EVERYTHING), "cpu.sm_80", TILE),
    "stem-words-sm_90a.cu": (conv(STEM, BIASED), "sm_90a", FIRST),
    "stem-words-residual-sm_80.cu": (
        conv(replace(STEM, c=1, w=222, r=5, s=20), ADDED),
        "sm_80",
        replace(FIRST, tile_w=8, atoms=2, batch=2, blocks_per_sm=2),
    ),
    "stem-words-everything-cpu.sm_80.cpp": (conv(STEM, EVERYTHING), "cpu.sm_80", replace(FIRST, atoms=2)),
    "gemv-squeeze-sm_90a.cu": (conv(SQUEEZE, BIASED), "sm_90a", ROW),
    "gemv-everything-gfx1100.hip": (conv(SQUEEZE, EVERYTHING), "gfx1100", replace(ROW, channels=1, pixels=2)),
    "gemv-bytes-cpu.cpp": (conv(replace(SQUEEZE, c=30, k=10), ADDED), "cpu", replace(ROW, lanes=4, threads=32)),
    "pointwise-registers-sm_90a.cu": (conv(replace(POINTWISE, c=24, k=58), BIASED), "sm_90a", UNITS),
    "pointwise-residual-sm_80.cu": (
        conv(replace(POINTWISE, c=96, k=80), ADDED),
        "sm_80",
        replace(UNITS, batch=1, batches=2, atoms=10, weights_in_smem=1),
    ),
    "pointwise-table-sm_90a.cu": (conv(golden_chains.EXPAND, LOOKED_UP), "sm_90a", UNITS),
    "pointwise-odd-everything-cpu.sm_80.cpp": (conv(replace(POINTWISE, c=27, k=21), EVERYTHING), "cpu.sm_80", UNITS),
    "wgmma-body-sm_90a.cu": (conv(replace(BODY, k=256), BIASED), "sm_90a", LARGE_TILE),
    "wgmma-residual-borders-sm_90a.cu": (
        conv(BODY, ADDED),
        "sm_90a",
        replace(LARGE_TILE, split_pixels=1, pixels=192, weight_slots=4),
    ),
    "wgmma-requantized-sum-sm_90a.cu": (conv(replace(BODY, k=256), SUM), "sm_90a", LARGE_TILE),
    "wgmma-dequantized-sum-sm_90a.cu": (conv(replace(BODY, k=256), SUM_OF_FLOATS), "sm_90a", LARGE_TILE),
    "wgmma-odd-cpu.sm_90a.cpp": (
        conv(replace(BODY, c=80, k=21, n=1), HALF),
        "cpu.sm_90a",
        replace(LARGE_TILE, consumers=1, pixels=48, lag=0),
    ),
    "halo-body-sm_90a.cu": (conv(replace(BODY, c=64, k=64), BIASED), "sm_90a", Halo(28, 2, 64)),
    "halo-residual-borders-sm_90a.cu": (conv(replace(BODY, c=64, k=80), ADDED), "sm_90a", Halo(14, 3, 64)),
    "halo-dequantized-sum-sm_90a.cu": (conv(replace(BODY, c=64, k=64), SUM_OF_FLOATS), "sm_90a", Halo(28, 2, 64)),
    "halo-pixel-rows-sm_90a.cu": (conv(replace(BODY, c=80, k=80), BIASED), "sm_90a", Halo(16, 2, 80)),
    "halo-pixel-rows-direct-sm_90a.cu": (conv(replace(BODY, c=64, k=36), BIASED), "sm_90a", Halo(8, 3, 48)),
    "halo-stride-sm_90a.cu": (conv(replace(BODY, c=80, k=64, stride=(2, 2)), BIASED), "sm_90a", Halo(14, 3, 64)),
    "halo-gathered-copies-sm_90a.cu": (conv(replace(BODY, c=24, k=24), BIASED), "sm_90a", Halo(16, 2, 32)),
    "halo-gathered-words-sm_90a.cu": (conv(replace(BODY, w=29, c=26, k=64, stride=(2, 2)), BIASED), "sm_90a", WORDS),
    "halo-columns-together-sm_90a.cu": (conv(replace(BODY, c=24, k=48, stride=(2, 2)), ADDED), "sm_90a", TOGETHER),
    "halo-split-sm_90a.cu": (conv(SMALL_IMAGE, ADDED), "sm_90a", HaloSplit(8, 2, 64, 4)),
    "halo-odd-cpu.sm_90a.cpp": (conv(replace(BODY, c=80, k=21, n=1), HALF), "cpu.sm_90a", Halo(2, 2, 64)),
    "stem-wgmma-body-sm_90a.cu": (conv(STEM, BIASED), "sm_90a", StemWgmma(16, 3, 1)),
    "stem-wgmma-odd-cpu.sm_90a.cpp": (conv(replace(STEM, c=4, k=21, n=1), HALF), "cpu.sm_90a", StemWgmma(8, 2, 4)),
    "stem-pool-body-sm_90a.cu": (POOLED, "sm_90a", StemPool(14, 1)),
    "stem-pool-odd-cpu.sm_90a.cpp": (replace(POOLED, c=4, k=48, window_pad=0), "cpu.sm_90a", StemPool(4, 4)),
    "tcgen05-body-sm_100a.cu": (conv(replace(BODY, k=256), BIASED), "sm_100a", Tcgen05(128, 256, 2, 128, 4)),
    "tcgen05-residual-borders-sm_100a.cu": (conv(BODY, ADDED), "sm_100a", Tcgen05(256, 64, 2, 64, 6)),
    "tcgen05-odd-cpu.sm_100a.cpp": (
        conv(replace(BODY, c=80, k=21, n=1), HALF),
        "cpu.sm_100a",
        Tcgen05(128, 32, 1, 128, 3),
    ),
    "mma-body-sm_90a.cu": (conv(BODY, BIASED), "sm_90a", replace(DEEP, tile_m=128, tile_n=128, warp_n=64)),
    "mma-cluster-residual-sm_90a.cu": (conv(BODY, ADDED), "sm_90a", replace(DEEP, tile_m=128, split=4)),
    "mma-tail-everything-sm_120.cu": (
        conv(BODY, EVERYTHING),
        "sm_120",
        replace(DEEP, pipeline_stages=3, prefetch_fragments=0, split=4, split_last_wave=1),
    ),
    "mma-persist-staged-sm_100a.cu": (
        conv(POINTWISE, BIASED),
        "sm_100a",
        replace(DEEP, persist=1, tile_swizzle_width=8, staged=1),
    ),
    "mma-stream-everything-sm_80.cu": (conv(BODY, EVERYTHING), "sm_80", replace(DEEP, persist=1, stream_k=1)),
    "mma-scratch-float16-sm_86.cu": (
        conv(BODY, HALF),
        "sm_86",
        replace(DEEP, tile_m=128, split=2, prefetch_fragments=0),
    ),
    "mma-nchw-everything-sm_89.cu": (
        replace(STEM, layout="nchw", quantization=EVERYTHING),
        "sm_89",
        replace(DEEP, tile_k=32),
    ),
    "mma-stem-bytes-sm_75.cu": (STEM, "sm_75", replace(BLOCK, tile_k=32)),
    "mma-32x32x8-everything-gfx908.hip": (conv(BODY, SIGNED), "gfx908", BLOCK),
    "mma-16x16x16-scratch-gfx90a.hip": (
        conv(BODY, SIGNED_HALF),
        "gfx90a",
        replace(BLOCK, instruction=1, tile_m=128, tile_n=128, warp_m=64, warp_n=64, split=4),
    ),
    "mma-32x32x16-stream-gfx942.hip": (
        conv(BODY, BIASED),
        "gfx942",
        replace(BLOCK, tile_m=32, tile_n=32, persist=1, stream_k=1),
    ),
    "mma-16x16x32-staged-gfx942.hip": (conv(BODY, BIASED), "gfx942", replace(BLOCK, instruction=1, staged=1)),
    "mma-32x32x32-gfx950.hip": (conv(BODY, BIASED), "gfx950", BLOCK),
    "mma-16x16x64-odd-gfx950.hip": (conv(ODD, SIGNED_HALF), "gfx950", replace(BLOCK, instruction=1)),
    "mma-everything-gfx1100.hip": (conv(BODY, EVERYTHING), "gfx1100", BLOCK),
    "mma-residual-gfx1201.hip": (conv(BODY, ADDED), "gfx1201", replace(BLOCK, tile_k=128, staged=1)),
    "mma-odd-stream-cpu.sm_80.cpp": (
        conv(ODD, EVERYTHING),
        "cpu.sm_80",
        replace(DEEP, tile_m=32, tile_n=16, tile_k=32, warp_m=16, warp_n=16, pipeline_stages=2, persist=1, stream_k=1),
    ),
    "mma-bytes-cpu.gfx1100.cpp": (STEM, "cpu.gfx1100", replace(BLOCK, tile_k=32)),
    **golden_chains.CASES,
    **golden_floats.CASES,
    "elementwise-quantize-tensor-sm_90a.cu": (Quantize(1, 1, 2**20, zero_point=True), "sm_90a", None),
    "elementwise-quantize-channel-sm_80.cu": (Quantize.of("torch-fbgemm", zero_point=True, **CHANNELS), "sm_80", None),
    "elementwise-dequantize-block-gfx942.hip": (Dequantize(64, 4096, 1, block=32, out_type="float16"), "gfx942", None),
    "elementwise-quantize-channels-last-sm_90a.cu": (
        Quantize(128, 3, 224 * 224, out_type="uint8", zero_point=True, channels_last=True),
        "sm_90a",
        None,
    ),
    "elementwise-dequantize-channels-last-gfx942.hip": (
        Dequantize(8, 21, 56 * 56, zero_point=True, channels_last=True),
        "gfx942",
        None,
    ),
    "elementwise-requantize-token-gfx1100.hip": (
        Requantize(1, 512, 768, x_zero_point=True, y_zero_point=True),
        "gfx1100",
        None,
    ),
    "elementwise-quantize-float8-sm_90a.cu": (
        Quantize(64, 256, 4096, x_type="bfloat16", out_type="float8_e4m3fn"),
        "sm_90a",
        None,
    ),
    "elementwise-dequantize-float8-gfx1201.hip": (
        Dequantize(64, 4096, 1, block=32, x_type="float8_e5m2", out_type="float16"),
        "gfx1201",
        None,
    ),
    "choosing-choose-tensor-sm_90a.cu": (Choose(1, 1, 2**24, mapping="symmetric"), "sm_90a", None),
    "choosing-dynamic-token-sm_90a.cu": (Dynamic(1, 512, 4096, x_type="bfloat16"), "sm_90a", None),
    "choosing-dynamic-float8-sm_90a.cu": (
        Dynamic(1, 512, 4096, x_type="bfloat16", out_type="float8_e4m3fn"),
        "sm_90a",
        None,
    ),
    "binary-add-relu-sm_90a.cu": (Add(1, 1, 32 * 56 * 56 * 256, activation="relu"), "sm_90a", None),
    "binary-mul-channels-of-images-gfx942.hip": (Mul(32, 28 * 28, 120, "uint8", "uint8", "uint8"), "gfx942", None),
    "binary-add-number-cpu.cpp": (Add(1, 999, 1, out_type="uint8"), "cpu", None),
    "table-copies-sm_90a.cu": (
        Table(2**24),
        "sm_90a",
        TableConfig(threads=256, vector=16, unroll=4, rounds=4, copies=32),
    ),
    "concat-scales-sm_90a.cu": (Concat(32 * 28 * 28, (128, 96, 32), tables=(0, 1, 1), x_type="uint8"), "sm_90a", None),
    "concat-narrow-loads-sm_90a.cu": (Concat(32 * 28 * 28, (96,), (195,), (99,)), "sm_90a", None),
    "concat-slice-gfx942.hip": (Concat(32 * 28 * 28, (24,), (128,), (40,)), "gfx942", None),
    "pooling-max-sm_90a.cu": (MaxPool(32, 112, 112, 64, 3, 3, stride=2, pad=1), "sm_90a", None),
    "pooling-average-gfx1100.hip": (
        AveragePool(8, 28, 28, 96, 3, 3, stride=2, pad=1, ceil_mode=True, count_include_pad=True),
        "gfx1100",
        None,
    ),
    "global-pooling-sm_80.cu": (GlobalAveragePool(32, 49, 2048, "uint8", "uint8"), "sm_80", None),
    "reduce-softmax-sm_90a.cu": (reduction((8192,), (4096,), "float16", FLOATS["softmax"], "float16"), "sm_90a", None),
    "reduce-normalization-gfx942.hip": (
        reduction((6304,), (768,), "float32", FLOATS["normalization"], "float32"),
        "gfx942",
        None,
    ),
    "reduce-mean-of-pixels-sm_80.cu": (
        reduction((32, 2048), (49,), "int8", FLOATS["mean"], "float32", pixels_outside),
        "sm_80",
        None,
    ),
    "reduce-positions-cpu.cpp": (reduction((9,), (1000,), "float32", "y=argmax_of(x)", "int32"), "cpu", None),
    "shuffle-two-groups-sm_90a.cu": (ChannelShuffle(128 * 28 * 28, 2, 64), "sm_90a", None),
    "shuffle-three-groups-cpu.cpp": (ChannelShuffle(999, 3, 20, "uint8"), "cpu", None),
    "argmax-classes-sm_90a.cu": (ArgMax(32 * 56 * 56, 20, x_type="uint8"), "sm_90a", None),
    "argmax-last-gfx942.hip": (ArgMax(64, 21, 3136, last=True), "gfx942", None),
    "nms-detector-sm_90a.cu": (NonMaxSuppression(1, 80, 8400, 300), "sm_90a", None),
    "nms-centers-gfx942.hip": (NonMaxSuppression(8, 1, 1000, 1000, center=True), "gfx942", None),
    "map-halves-sm_90a.cu": (EXPRESSIONS["a sum of halves"], "sm_90a", None),
    "map-bytes-through-gelu-sm_80.cu": (EXPRESSIONS["bytes through a gelu"], "sm_80", None),
    "map-groups-sm_90a.cu": (EXPRESSIONS["a normalization of groups"], "sm_90a", None),
    "map-padded-image-gfx942.hip": (EXPRESSIONS["a padded image"], "gfx942", None),
    "map-comparison-gfx1100.hip": (EXPRESSIONS["a comparison of integers"], "gfx1100", None),
    "map-rows-of-table-cpu.cpp": (EXPRESSIONS["rows of a table"], "cpu", None),
    "matmul-convolution-sm_90a.cu": (convolution(8, (56, 56), 64, 64, (3, 3), stride=2, pad=1), "sm_90a", None),
    "matmul-attention-sm_80.cu": (attention(12, 197, 64), "sm_80", None),
    "matmul_mma-bytes-sm_90a.cu": (of_bytes(197, 192, 300), "sm_90a", None),
    "attention-heads-beside-each-other-sm_90a.cu": (
        attention_of_bytes(Sizes((2, 3), 49, 49, 32, 32), beside=True, mask=True, by="table", out="uint8"),
        "sm_90a",
        None,
    ),
    "attention-ragged-cpu.sm_80.cpp": (attention_of_bytes(Sizes((1,), 19, 21, 20, 7), "int8"), "cpu.sm_80", None),
    "matmul-bytes-gfx1100.hip": (of_bytes(32, 1000, 512), "gfx1100", None),
    "matmul-transposed-convolution-gfx942.hip": (transposed(1, (14, 14), 32, 16, 4, 2), "gfx942", None),
    "choosing-dynamic-tensor-cpu.cpp": (Dynamic.of("ort", outer=1, channels=1, inner=2**20), "cpu", SLICED),
}


def plan_of(name: str) -> Plan:
    problem, target, config = CASES[name]
    if config is None:
        return generator.default(problem, TARGETS[target])
    return generator.plan(problem, config, TARGETS[target])
