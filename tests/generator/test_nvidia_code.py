"""In ptxas's code for NVIDIA kernels, no barrier is in a divergent branch, no wgmma is serialized, and registers hold
initialized values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from disassembly import disassembled
from golden_cases import CASES, plan_of
from machine_code import nvidia
from mostly_slow import mostly_slow
from random_fused import TILE

from qconv import Conv2d, FusedConv2d, Quantization, generator
from qconv.device.compile import compiler_for
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.stem import Stem
from qconv.generator.families.tcgen05 import Tcgen05
from qconv.targets.target import TARGETS, Target

# One kernel of each kind with asynchronous copies and products.
FAST = {
    *("mma-body-sm_90a.cu", "mma-stem-bytes-sm_75.cu", "mma-stream-everything-sm_80.cu"),
    *("direct-depthwise-sm_90a.cu", "wgmma-body-sm_90a.cu"),
    *("fused-depthwise-pointwise-sm_90a.cu", "fused-warpgroups-sm_90a.cu", "block-inverted-residual-sm_90a.cu"),
}
GOLDEN = mostly_slow((name for name in CASES if name.endswith(".cu")), FAST)
# Loads and stores of a thread's spilled words, in configs whose many blocks per SM leave it few registers, and around
# the function that NVIDIA's compiler calls for a division.
SPILLED = {"stem-words-sm_90a.cu": 8, "fused-small-image-sm_90a.cu": 2, "nms-detector-sm_90a.cu": 14}

# A barrier in a divergent branch, one with a predicate, and one for the whole warp.
BARRIERS = Source(
    """
#define KERNEL extern "C" __global__ void
KERNEL in_a_branch(const int* __restrict__ x, int* __restrict__ y) {
    const int t = threadIdx.x;
    if (x[t] < 7) {
        y[t] = x[1];
        __syncthreads();
        y[t + 2] = x[3];
    } else {
        y[t + 9] = x[t];
    }
    y[x[t + 40]] = 7;
}
KERNEL by_a_predicate(const int* x, int* y) {
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, 7; @p bar.sync 0; }" :: "r"(x[threadIdx.x]) : "memory");
    y[threadIdx.x] = 1;
}
KERNEL behind_a_branch(const int* __restrict__ x, int* __restrict__ y) {
    const int t = threadIdx.x;
    int a = x[t];
    if (a < 7) {
        y[t] = a;
        a = x[a];
    }
    __syncthreads();
    y[t + 1] = a;
}
KERNEL in_a_branch_of_the_block(const int* __restrict__ x, int* __restrict__ y) {
    if (x[0] < 7) {
        y[threadIdx.x] = 3;
        __syncthreads();
        y[threadIdx.x + 1] = x[threadIdx.x];
    }
}
""",
    "",
    ".cu",
)
# ptxas's code for a branch that it cannot analyse: BSSY, the branch, BSYNC.
SPLIT = """
.text.kernel:
        /*0000*/                   BSSY B0, `(.L_x_1) ;
        /*0010*/              {branch} `(.L_x_0) ;
        /*0020*/                   {before} ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_0:
        /*0040*/                   BSYNC B0 ;
.L_x_1:
        /*0050*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0060*/                   EXIT ;
"""


def compiled(source: Source, target: Target) -> tuple[bytes, str]:
    try:
        compiler = compiler_for(target)
    except CompileError as error:
        pytest.skip(str(error))
    return compiler.run(source)


# Blackwell's replacement of wgmma for bytes, spelled for one CTA.
TCGEN05 = Source(
    """
extern "C" __global__ void product(unsigned sums, unsigned long long a, unsigned long long b, unsigned kind) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;"
                 " tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, p; }" :: "r"(sums), "l"(a), "l"(b), "r"(kind));
}
""",
    "",
    ".cu",
)


def test_two_blackwells_multiply_bytes_by_tcgen05() -> None:
    """As in the table of docs/gpus.md."""
    for name in ("sm_100a", "sm_110a"):
        assert "UTCIMMA" in disassembled(compiled(TCGEN05, TARGETS[name])[0])
    for name in ("sm_90a", "sm_103a", "sm_120", "sm_121"):
        with pytest.raises(CompileError, match="not supported on"):
            compiled(TCGEN05, TARGETS[name])


@pytest.mark.turns
@pytest.mark.parametrize("name", ["tcgen05-body-sm_100a.cu", "tcgen05-residual-borders-sm_100a.cu"])
def test_products_in_tensor_memory_are_asked_for_once(name: str) -> None:
    """By a lane that the compiler knows to be alone. After a comparison of lanes ptxas emits a loop."""
    plan = plan_of(name)
    source = generator.render(plan)
    elected = "if (tile::elected()) multiply_tiles"
    assert source.text.count(elected) == 1
    compared = replace(source, text=source.text.replace(elected, "if (tile::lane() == 0) multiply_tiles"))
    codes = [disassembled(compiled(one, plan.target)[0]) for one in (source, compared)]
    config = plan.config
    assert isinstance(config, Tcgen05)
    # Per 128 pixels of a tile, a slab of the reduction by 32 bytes.
    assert [code.count("UTCIMMA") for code in codes] == [config.pixels // 128 * config.slab // 32] * 2
    assert ["BRA.U.ANY" in code for code in codes] == [False, True]
    assert all("LDTM.x32" in code and "UTMALDG.4D.IM2COL" in code and "UTCBAR" in code for code in codes)


def test_filters_are_asked_for_before_the_barrier() -> None:
    """A depthwise layer's filters, in threads that wait for the previous layer. The compiler moves other loads after
    the barrier."""
    plan = plan_of("fused-slices-sm_90a.cu")
    sass = disassembled(compiled(generator.render(plan), plan.target)[0])
    kernel = sass[sass.index(".text.conv2d_conv2d") :]
    to_shared, to_second, behind = kernel.split("BAR.SYNC")[:3]
    assert to_second.count("LDG.E.128 ") >= plan.layers["second"].problem.r + 2, "filters, offsets and multipliers"
    assert "LDG.E" not in behind[: behind.index("BRA")]
    assert "LDG.E.128.CONSTANT" not in to_shared + to_second + behind


def test_filters_of_floats_are_asked_for_before_the_barrier() -> None:
    half = Quantization("float16", "float16", "float16")
    first = Conv2d(8, 28, 28, 24, 144, 1, 1, quantization=half)
    second = Conv2d(8, 28, 28, 144, 144, 3, 3, pad=1, groups=144, quantization=half)
    config = replace(TILE, first_n=2, second_m=2, second_n=1)
    plan = generator.plan(FusedConv2d(first, second), config, TARGETS["sm_90a"])
    sass = disassembled(compiled(generator.render(plan), plan.target)[0])
    _, to_second, behind = sass[sass.index(".text.conv2d_conv2d") :].split("BAR.SYNC")[:3]
    assert to_second.count("LDG.E.128 ") >= 9, "a tap of a thread's four channels each"
    assert "LDG.E" not in behind[: behind.index("BRA")]


@pytest.mark.turns
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_sources(name: str) -> None:
    plan = plan_of(name)
    cubin, log = compiled(generator.render(plan), plan.target)
    sass = disassembled(cubin)
    assert nvidia.serialized(log) == []
    assert nvidia.complaints(sass) == []
    assert len(nvidia.local_memory(sass)) <= SPILLED.get(name, 0)
    parsed = nvidia.parse(sass)
    assert set(parsed) == {launch.kernel for launch in plan.launches}
    assert all(len(code) > 10 for code, _ in parsed.values())


@pytest.mark.parametrize("name", ["sm_75", "sm_90a"])
def test_a_barrier_of_a_part_of_a_warp_is_refused(name: str) -> None:
    cubin, _ = compiled(BARRIERS, TARGETS[name])
    refused = {complaint.partition(":")[0] for complaint in nvidia.complaints(disassembled(cubin))}
    assert refused == {"in_a_branch", "by_a_predicate"}


@pytest.mark.parametrize(
    ("branch", "before", "refused"),
    [
        ("@P0 BRA", "NOP", 1),
        ("@!P0 BRA P2,", "NOP", 1),
        ("@UP0 BRA", "NOP", 0),
        ("@P0 BRA", "WARPSYNC 0xffffffff", 0),
        ("@P0 BRA", "WARPSYNC.ALL", 0),
        ("@P0 BRA", "WARPSYNC 0xff", 1),
    ],
)
def test_a_warp_is_split_from_a_branch_to_its_bsync(branch: str, before: str, refused: int) -> None:
    assert len(nvidia.complaints(SPLIT.format(branch=branch, before=before))) == refused


# Two branches in one region, of which only the second may split the warp.
COPY = """
.text.kernel:
        /*0000*/                   BSSY B0, `(.L_x_1) ;
        /*0010*/                   {copy} ;
        /*0020*/                   {between} ;
        /*0030*/              {branch} `(.L_x_0) ;
        /*0040*/                   BAR.SYNC.DEFER_BLOCKING R24, 0x80 ;
        /*0050*/               @P0 BRA `(.L_x_0) ;
        /*0060*/                   NOP ;
.L_x_0:
        /*0070*/                   BSYNC B0 ;
.L_x_1:
        /*0080*/                   EXIT ;
"""
UNIFORM = "PLOP3.LUT P1, PT, PT, PT, UP0, 0x80, 0x0"


@pytest.mark.parametrize(
    ("copy", "between", "branch", "refused"),
    [
        (UNIFORM, "LDS.128 R4, [R24]", "@P1 BRA", 0),
        (UNIFORM, "LDS.128 R4, [R24]", "@!P1 BRA", 0),
        (UNIFORM, "ISETP.NE.AND P1, PT, R4, RZ, PT", "@P1 BRA", 1),
        (UNIFORM, "R2P PR, R4, 0x7f", "@P1 BRA", 1),
        (UNIFORM, "NOP", "@P2 BRA", 1),
        (UNIFORM.replace("UP0", "P3"), "NOP", "@P1 BRA", 1),
        (f"@P4 {UNIFORM}", "NOP", "@P1 BRA", 1),
        (UNIFORM, "BRA `(.L_x_2) ;\n.L_x_2:", "@P1 BRA", 1),
    ],
)
def test_a_copy_of_a_uniform_predicate_splits_no_warp(copy: str, between: str, branch: str, refused: int) -> None:
    assert len(nvidia.complaints(COPY.format(copy=copy, between=between, branch=branch))) == refused


# A loop's exit from within two regions: the threads that break out of the inner one never come to its BSYNC.
BROKEN = """
.text.kernel:
        /*0000*/                   BSSY.RECONVERGENT B0, `(.L_x_1) ;
        /*0010*/              @!P1 BRA `(.L_x_0) ;
        /*0020*/                   BSSY.RELIABLE B1, `(.L_x_2) ;
        /*0030*/               @P2 BRA `(.L_x_3) ;
        /*0040*/              {leaves} ;
        /*0050*/              {others} `(.L_x_3) ;
        /*0060*/                   BRA `(.L_x_0) ;
.L_x_3:
        /*0070*/                   BSYNC.RELIABLE B1 ;
.L_x_2:
        /*0080*/                   NOP ;
.L_x_0:
        /*0090*/                   BSYNC.RECONVERGENT B0 ;
.L_x_1:
        /*00a0*/              @!P3 BRA `(.L_x_4) ;
        /*00b0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
.L_x_4:
        /*00c0*/                   EXIT ;
"""


@pytest.mark.parametrize(
    ("leaves", "others", "refused"),
    [
        ("@P0 BREAK.RELIABLE B1", "@!P0 BRA", 0),
        ("@!P0 BREAK.RELIABLE B1", "@P0 BRA", 0),
        ("@P0 BREAK.RELIABLE B1", "@P0 BRA", 1),
        ("@P0 BREAK.RELIABLE B2", "@!P0 BRA", 1),
        ("@P0 NOP", "@!P0 BRA", 1),
    ],
)
def test_threads_that_break_out_of_a_region_are_not_waited_for(leaves: str, others: str, refused: int) -> None:
    assert len(nvidia.complaints(BROKEN.format(leaves=leaves, others=others))) == refused


def test_serialized_wgmma_is_told_by_the_log() -> None:
    """Sums that are read while they are multiplied: ptxas waits after each product."""
    plan = plan_of("fused-warpgroups-sm_90a.cu")
    source = generator.render(plan)
    waits = '        "wgmma.wait_group.sync.aligned 0;" ::: "memory");'
    assert waits in source.text
    _, log = compiled(replace(source, text=source.text.replace(waits, '        ::: "memory");')), plan.target)
    assert nvidia.serialized(log)


def test_what_registers_cannot_hold_is_found() -> None:
    plan = plan_of("mma-body-sm_90a.cu")
    source = generator.render(plan)
    bounds = "__launch_bounds__(THREADS) conv2d_mma"
    if bounds not in source.text:
        bounds = "__launch_bounds__(THREADS)\nconv2d_mma"
    assert bounds in source.text
    text = source.text.replace(bounds, bounds.replace("(THREADS)", "(THREADS, 1024 / THREADS)"))
    assert nvidia.local_memory(disassembled(compiled(replace(source, text=text), plan.target)[0]))


PARTS = {
    "stem, 40 channels": (
        Conv2d(1, 64, 64, 3, 40, 3, 3, stride=2, pad=1),
        Stem(tile_h=8, tile_w=16, atoms=8, slabs=1, warps=4, batch=1, blocks_per_sm=3),
        "STG.E.64",
    ),
    "depthwise, 906 channels": (
        Conv2d(1, 7, 7, 906, 906, 3, 3, pad=1, groups=906),
        Depthwise(rows=2, columns=4, vector=4, run=2, threads=128),
        "STG.E.U16",
    ),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", PARTS)
def test_channels_that_fill_no_vector_move_in_the_largest_parts_that_do(name: str) -> None:
    """Byte by byte, the layer of 40 channels takes 86 us on an H200, and 16 us in words of eight."""
    (problem, config, stores), target = PARTS[name], TARGETS["sm_90a"]
    sass = disassembled(compiled(generator.render(generator.plan(problem, config, target)), target)[0])
    kernel = sass[sass.index(f".text.conv2d_{config.family}") :].split("//----")[0]
    assert stores in kernel
    assert "STG.E.U8" not in kernel
    if config.family == "depthwise":
        assert "LDG.E.U16" in kernel
        assert "LDG.E.U8" not in kernel


@pytest.mark.parametrize(("dtype", "unpacks"), [("float16", 0.0), ("bfloat16", 0.0), ("float8_e4m3fn", 0.5)])
def test_a_depthwise_layer_converts_each_float_once(dtype: str, unpacks: float) -> None:
    """Each element of a thread's input rows, not of each window; filters were converted with the weights."""
    problem = Conv2d(1, 56, 56, 48, 48, 3, 3, pad=1, groups=48, quantization=Quantization(dtype, dtype, dtype))
    plan = generator.plan(problem, Depthwise(rows=4, columns=4, vector=4, run=1, threads=128), TARGETS["sm_90a"])
    sass = disassembled(compiled(generator.render(plan), plan.target)[0])
    kernel = sass[sass.index(".text.conv2d_depthwise") :].split("//----")[0]
    elements, outputs = 6 * 6 * 4, 4 * 4 * 4
    assert kernel.count("FFMA") == 9 * outputs
    assert kernel.count("HADD2.F32") == (0 if dtype == "bfloat16" else elements)
    assert kernel.count(".UNPACK_B") == unpacks * elements
