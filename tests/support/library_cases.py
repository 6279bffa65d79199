"""Winners to export as a library for the CPU: every family that the CPU device serves, and every other kernel with
special arguments."""

from __future__ import annotations

from dataclasses import replace

from golden_quantizations import ADDED, EVERYTHING, SUM_OF_FLOATS
from random_attentions import Sizes
from random_attentions import of as scaled_bytes
from random_expressions import map_of
from random_matmuls import of_bytes
from random_reductions import FLOATS, reduction

from qconv import Conv2d, ConvTranspose2d, FusedBlock, FusedConv2d, Mode, PooledConv2d, Quantization, generator
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.generator import Plan
from qconv.instances.load.winners import Winner
from qconv.op import Problem
from qconv.targets.target import target
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

SAME = (1, 1, 1, 1)
SLOPED = Quantization(per_channel=True, bias="float32", activation="leaky_relu", y_zero_point=True)
HALF = Quantization(out_type="float16", bias="float32")
CLAMPED = Quantization(x_zero_point=True, bias="int32", activation="clamp")
CLAMPED_SUM = Quantization(x_zero_point=True, bias="int32", activation="clamp", residual="int8")
CONSTANT_AND_TABLE = Quantization(out_type="uint8", y_zero_point=True, constant="added_first", table=True)
LOOKED_UP = Quantization(out_type="uint8", y_zero_point=True, bias="int32", table=True)
REQUANTIZED_SUM = Quantization(
    bias="int32", y_zero_point=True, residual="int8", residual_zero_point=True, inner_zero_point=True,
    activation="relu", mode=Mode(residual_add="requantized"),
)  # fmt: skip

EXPAND = Conv2d(1, 8, 8, 16, 32, 1, 1, quantization=Quantization(y_zero_point=True, bias="int32", per_channel=True))
FILTER = Conv2d(
    1, 8, 8, 32, 32, 3, 3, pad=SAME, groups=32,
    quantization=Quantization(x_zero_point=True, y_zero_point=True, activation="clamp"),
)  # fmt: skip
PROJECT = Conv2d(1, 8, 8, 32, 16, 1, 1, quantization=Quantization(x_zero_point=True, residual="int8", bias="float32"))

POOLED_STEM = PooledConv2d(
    1, 32, 32, 3, 64, 7, 7, (2, 2), pad=(3, 3, 3, 3), quantization=CLAMPED, window=3, window_stride=2, window_pad=1
)

# For libraries of one problem, which build quickly.
SMALL = Conv2d(1, 5, 5, 8, 8, 3, 3, pad=1, quantization=CLAMPED)
TURNED = Conv2d(1, 4, 4, 5, 6, 2, 3)
PHASES = ConvTranspose2d(1, 5, 6, 8, 12, 4, 3, stride=2, pad=1, quantization=CLAMPED).phases

# A map of every type, and one of bytes with constants and a table.
TYPED = map_of(
    (6, 40), "float16", ["float16*240", "int64*6", "bool*40", "int32*1"],
    "a=to_float32(add(x1[i0],to_int64(x3[0])));y=select(x2[i1],exp(x0[i0*40+i1]),sin(a))",
)  # fmt: skip
BYTES = map_of(
    (9, 32), "uint8", ["int8*192", "float32*32!", "int32*9!0..5"],
    "a=multiply(to_float32(x0[x2[i0]*32+i1]),x1[i1]);y=to_int32(minimum(maximum(round(a),0.0),255.0))",
)  # fmt: skip
SOFTMAX = reduction([7], [40], "float16", FLOATS["softmax"], "float16")

# The family, the target, the problem.
CASES: tuple[tuple[str, str, Problem], ...] = (
    ("simt", "cpu", Conv2d(1, 7, 7, 16, 24, 3, 3, pad=SAME, quantization=CLAMPED)),
    ("simt", "cpu", PHASES),
    ("simt", "cpu", Conv2d(2, 6, 5, 12, 10, 3, 3, pad=SAME, layout="nchw", quantization=EVERYTHING)),
    (
        "simt",
        "cpu",
        Conv2d(1, 5, 5, 6, 8, 3, 3, groups=2, quantization=HALF),
    ),
    ("gemv", "cpu", Conv2d(1, 1, 1, 96, 24, 1, 1, quantization=EVERYTHING)),
    ("depthwise", "cpu", Conv2d(1, 9, 8, 24, 24, 3, 3, pad=SAME, groups=24, quantization=SLOPED)),
    ("direct", "cpu.sm_80", Conv2d(1, 8, 8, 32, 32, 3, 3, pad=SAME, groups=8, quantization=ADDED)),
    ("stem", "cpu.sm_80", Conv2d(1, 12, 12, 3, 16, 3, 3, (2, 2), pad=SAME, quantization=EVERYTHING)),
    ("mma", "cpu.sm_80", Conv2d(1, 7, 7, 32, 40, 3, 3, pad=SAME, quantization=ADDED)),
    ("pointwise", "cpu.sm_80", Conv2d(1, 9, 13, 32, 16, 1, 1, quantization=EVERYTHING)),
    ("wgmma", "cpu.sm_90a", Conv2d(1, 8, 8, 128, 128, 3, 3, pad=SAME, quantization=CLAMPED_SUM)),
    ("halo", "cpu.sm_90a", Conv2d(1, 8, 8, 64, 64, 3, 3, pad=SAME, quantization=CLAMPED_SUM)),
    ("halo_split", "cpu.sm_90a", Conv2d(1, 8, 8, 128, 64, 3, 3, pad=SAME, quantization=CLAMPED_SUM)),
    ("halo", "cpu.sm_90a", Conv2d(1, 8, 8, 26, 64, 3, 3, pad=SAME, quantization=CLAMPED_SUM)),
    ("stem_wgmma", "cpu.sm_90a", Conv2d(1, 32, 32, 3, 64, 7, 7, (2, 2), pad=(3, 3, 3, 3), quantization=CLAMPED)),
    ("stem_pool", "cpu.sm_90a", POOLED_STEM),
    ("tcgen05", "cpu.sm_100a", Conv2d(1, 8, 8, 128, 128, 3, 3, pad=SAME, quantization=CLAMPED_SUM)),
    ("fused", "cpu.sm_80", FusedConv2d(EXPAND, FILTER)),
    ("block", "cpu.sm_80", FusedBlock(EXPAND, FILTER, PROJECT)),
    ("unfused", "cpu", FusedConv2d(FILTER, PROJECT)),
    ("unfused", "cpu.sm_80", FusedBlock(EXPAND, FILTER, PROJECT)),
    (
        "unfused",
        "cpu",
        PooledConv2d(1, 13, 12, 3, 16, 3, 3, 2, 1, SAME, quantization=SLOPED, window=(3, 2)),
    ),
    ("simt", "cpu", Conv2d(1, 6, 5, 12, 10, 3, 3, pad=SAME, quantization=LOOKED_UP)),
    ("pointwise", "cpu.sm_80", Conv2d(1, 9, 13, 32, 16, 1, 1, quantization=LOOKED_UP)),
    ("elementwise", "cpu", Quantize(3, 1, 40)),
    ("mma", "cpu.sm_80", Conv2d(1, 9, 9, 64, 40, 3, 3, pad=SAME, quantization=EVERYTHING)),
    ("table", "cpu", Table(1000, out_type="uint8")),
    ("concat", "cpu", Concat(24, (24, 16), (24, 20), (0, 4), (0, 1))),
    ("pooling", "cpu", MaxPool(1, 9, 8, 24, 3, 3, stride=2, pad=1)),
    ("halo", "cpu.sm_90a", Conv2d(1, 8, 8, 64, 64, 3, 3, pad=SAME, quantization=SUM_OF_FLOATS)),
    # A convolution with a fused sum, then ops between convolutions whose scales and zero points are run-time arguments.
    ("mma", "cpu.sm_80", Conv2d(1, 7, 7, 32, 40, 1, 1, quantization=REQUANTIZED_SUM)),
    ("mma", "cpu.sm_80", Conv2d(1, 7, 7, 32, 40, 1, 1, quantization=replace(REQUANTIZED_SUM, constant="added"))),
    ("mma", "cpu.sm_80", Conv2d(1, 7, 7, 32, 40, 1, 1, quantization=replace(REQUANTIZED_SUM, constant="multiplied"))),
    ("pointwise", "cpu.sm_80", Conv2d(1, 9, 13, 32, 24, 1, 1, quantization=CONSTANT_AND_TABLE)),
    ("binary", "cpu", Add(1, 1, 960)),
    ("binary", "cpu", Add(2, 9, 24, b_type="uint8", out_type="uint8", activation="relu", added_first="a")),
    ("binary", "cpu", Mul(2, 9, 24, a_type="uint8")),
    ("pooling", "cpu", AveragePool(1, 9, 8, 24, 3, 3, stride=2, pad=1, x_type="uint8")),
    ("global_pooling", "cpu", GlobalAveragePool(2, 49, 40, out_type="uint8")),
    ("argmax", "cpu", ArgMax(6, 19, 5, last=True)),
    ("shuffle", "cpu", ChannelShuffle(9, 4, 12)),
    ("nms", "cpu", NonMaxSuppression(2, 3, 20, 6)),
    ("map", "cpu", TYPED),
    ("map", "cpu", BYTES),
    ("reduce", "cpu", SOFTMAX),
    ("matmul", "cpu", of_bytes(9, 12, 10)),
    ("attention", "cpu.sm_80", scaled_bytes(Sizes((2,), 9, 11, 16, 8), out="uint8")),
    ("elementwise", "cpu", Dequantize(3, 1, 40)),
    ("elementwise", "cpu", Requantize(3, 1, 40)),
    ("elementwise", "cpu", Quantize(2, 3, 40, channels_last=True)),
    ("elementwise", "cpu", Quantize(3, 1, 40, out_type="float8_e4m3fn")),
    ("choosing", "cpu", Choose(3, 1, 40)),
    ("choosing", "cpu", Dynamic(3, 1, 40)),
    ("choosing", "cpu", Dynamic(3, 1, 40, out_type="float8_e5m2")),
)


def plan_of(family: str, name: str, problem: Problem) -> Plan:
    if family == "unfused":
        return generator.unfused_plan(problem, target(name))
    plans, _ = generator.space(problem, target(name), likely=True)
    found = next((plan for plan in plans if plan.config.family == family), None)
    assert found is not None, (
        f"{name} has no likely {family} for {problem}: choose another problem, or leave it out there"
    )
    return found


def winner_of(plan: Plan) -> Winner:
    return Winner(plan.problem, plan.config, plan.target.name, "default")


def small(name: str = "cpu") -> Winner:
    return winner_of(plan_of("simt", name, SMALL))


def plan_with_scratch() -> Plan:
    """Return a plan whose blocks add their sums in device memory, which must be zero before every launch."""
    plans, _ = generator.space(Conv2d(1, 9, 9, 64, 40, 3, 3, pad=SAME, quantization=ADDED), target("cpu.sm_80"))
    return next(plan for plan in plans if plan.scratch)


def winners() -> list[Winner]:
    return [*(winner_of(plan_of(*case)) for case in CASES), winner_of(plan_with_scratch())]


# Includes the contribution of x_zero_point at the image's borders, which a separate kernel computes.
BORDERS = Quantization(x_zero_point=True, per_channel=True, bias="int32", activation="relu6", residual="int8")


RESIDUAL = Quantization(per_channel=True, residual="int8")
# A depthwise layer, after FILTER.
WIDE = Conv2d(1, 8, 8, 32, 48, 1, 1, quantization=Quantization(x_zero_point=True, bias="float32"))


# Families whose instruction only one architecture has.
ARCHITECTURES_OWN = ("wgmma", "halo", "halo_split", "stem_wgmma", "stem_pool", "tcgen05")
# Families whose instruction has no counterpart on AMD.
NVIDIA_ALONE = ("attention", "direct", "stem", "pointwise")


def gpu_winners(plain: str, tiled: str) -> list[Winner]:
    """Return winners for two targets of one vendor, of which the second copies tiles, or is equivalent to the first."""
    large = {"block", "fused"}
    cases = [
        (family, tiled if family in large else plain, problem)
        for family, _, problem in CASES
        if family not in ARCHITECTURES_OWN
    ]
    if target(tiled).tensor_maps:
        cases.append(("wgmma", tiled, Conv2d(1, 16, 16, 128, 128, 3, 3, pad=SAME, quantization=BORDERS)))
        cases.append(("wgmma", tiled, Conv2d(1, 16, 16, 128, 136, 1, 1, quantization=RESIDUAL)))
        cases.append(("fused", tiled, FusedConv2d(FILTER, WIDE)))
    if target(plain).vendor == "amd":
        cases = [case for case in cases if case[0] not in NVIDIA_ALONE]
    # One per problem and target, which a lookup then returns.
    chosen_once = {(name, problem): (family, name, problem) for family, name, problem in cases}
    return [winner_of(plan_of(*case)) for case in chosen_once.values()]
