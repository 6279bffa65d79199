"""Plans: the configs that can serve a problem, and the values derived from them."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace

import pytest
from mostly_slow import mostly_slow
from plan_checks import check_tiles_of_persistent, check_units_of_pointwise, is_covered
from random_matrix import constants, matrix_plan, matrix_problems
from random_problems import problems

from qconv import Conv2d, FusedConv2d, Quantization, generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.direct import Direct
from qconv.generator.families.gemv import Gemv
from qconv.generator.families.halo.plan import HaloPlan
from qconv.generator.families.mma.config import CHOICES, Mma
from qconv.generator.families.mma.plan import MmaPlan
from qconv.generator.families.pointwise import Pointwise, PointwisePlan
from qconv.generator.families.simt import Simt
from qconv.generator.families.stem import Stem, StemPlan
from qconv.generator.families.stem_wgmma import StemWgmma
from qconv.generator.persistent import PersistentPlan
from qconv.ops.registry import parse
from qconv.targets.target import TARGETS, Target

PROBLEMS = {
    "pointwise": Conv2d(1, 14, 14, 64, 64, 1, 1),
    "3x3": Conv2d(8, 14, 14, 32, 48, 3, 3, pad=1, quantization=Quantization(x_zero_point=True)),
    "stem": Conv2d(1, 32, 32, 3, 16, 7, 7, stride=2, pad=3),
    "depthwise": Conv2d(1, 14, 14, 32, 32, 3, 3, pad=1, groups=32),
    "grouped, odd": Conv2d(
        2, 9, 5, 21, 33, 2, 5, pad=(0, 2, 1, 2), groups=3, quantization=Quantization(out_type="int32")
    ),
    "one output": Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=Quantization(out_type="float16")),
}
# The limits of an emulated architecture are those of its GPU, whose spaces the fast suite checks.
EVERY_TARGET = mostly_slow(TARGETS, {name for name in TARGETS if not name.startswith("cpu.")})
WARP_SUMS = 128  # per lane, at most
OUT_BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4, "float16": 2, "bfloat16": 2}


@pytest.mark.turns
@pytest.mark.parametrize("name", EVERY_TARGET)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_feasible_config_keeps_the_limits(problem: Conv2d, name: str) -> None:
    target = TARGETS[name]
    plans, rejected = generator.space(problem, target)
    assert plans
    assert len({plan.config for plan in plans}) == len(plans)
    assert not {plan.config for plan in plans} & {rejection.config for rejection in rejected}
    for plan in plans:
        check(plan, problem, target)
    for plan in plans[:: 1 + len(plans) // 300]:
        assert generator.plan(problem, plan.config, target) == plan


def check(plan: Plan, problem: Conv2d, target: Target) -> None:
    assert (plan.problem, plan.target) == (problem, target)
    for launch in plan.launches:
        assert 0 < launch.threads <= target.threads_per_block
        assert launch.threads % target.warp_size == 0
        assert launch.smem_bytes <= target.smem_bytes
        assert all(extent > 0 for extent in launch.grid)
        assert launch.grid[0] < 2**31
        assert max(launch.grid[1:]) <= target.grid_y_max
    spreads = isinstance(plan.config, (Depthwise, Direct, Stem, Pointwise))  # the filters, into words or matrices
    if isinstance(plan, MmaPlan):
        check_blocks_of_mma(plan)
    elif isinstance(plan.config, Depthwise):
        check_threads_of_depthwise(plan, plan.config)
    elif isinstance(plan.config, (Direct, Stem)):
        check_blocks_of_tiles(plan, plan.config)
    elif isinstance(plan.config, Gemv):
        check_threads_of_gemv(plan, plan.config)
    elif isinstance(plan, PointwisePlan):
        check_units_of_pointwise(plan)
    elif isinstance(plan, PersistentPlan):
        check_tiles_of_persistent(plan)
    else:
        assert isinstance(plan.config, Simt)
        check_blocks_of_simt(plan, plan.config)
    if not isinstance(plan, PersistentPlan):  # its launches are counted by its own check
        assert len(plan.prepare) == problem.quantization.x_zero_point + spreads
    assert all(launch.grid == (problem.k, 1, 1) for launch in plan.prepare if launch.kernel == "conv2d_fold")
    if isinstance(plan, PointwisePlan) or (isinstance(plan, HaloPlan) and plan.gathers):
        return  # whole units or words begin there, whatever the channels
    # Every address at which a load or a store of that width can begin is a multiple of it.
    out_bytes = OUT_BYTES[problem.quantization.out_type]
    in_channels, out_channels = (problem.c, problem.k) if spreads else (problem.c_group, problem.k_group)
    if isinstance(plan.config, (Stem, StemWgmma)):
        in_channels *= problem.w  # rows are read, not pixels
    if isinstance(plan, HaloPlan):
        in_channels = plan.reshaped.c
    assert in_channels % plan.alignment["x"] == 0
    assert problem.reduction % plan.alignment["w"] == 0
    assert out_channels * out_bytes % plan.alignment["y"] == 0
    assert plan.alignment["y"] % out_bytes == 0


def check_blocks_of_simt(plan: Plan, config: Simt) -> None:
    """Check that every output has a thread, and that no block is empty."""
    problem = plan.problem
    assert isinstance(problem, Conv2d)
    along_m, along_n, one = plan.main.grid
    assert is_covered(problem.pixels, along_m, config.tile_m)
    tiles_n = along_n // problem.groups
    assert along_n == tiles_n * problem.groups
    assert is_covered(problem.k_group, tiles_n, config.tile_n)
    assert one == 1


def check_threads_of_depthwise(plan: Plan, config: Depthwise) -> None:
    """Check that every output has a thread, and that no block is empty."""
    problem, known = plan.problem, constants(plan)
    assert isinstance(problem, Conv2d)
    assert is_covered(problem.oh, known["TILES_H"], config.rows)
    assert is_covered(problem.ow, known["TILES_W"], config.columns)
    assert is_covered(problem.k, known["VECTORS"], config.vector)
    assert known["UNITS"] == problem.n * known["TILES_H"] * known["TILES_W"] * known["VECTORS"]
    assert is_covered(known["UNITS"], plan.main.grid[0], config.threads)


def check_threads_of_gemv(plan: Plan, config: Gemv) -> None:
    """Check that every output has a thread, and that no block is empty."""
    problem, known = plan.problem, constants(plan)
    assert isinstance(problem, Conv2d)
    of_block = config.threads // config.lanes * config.channels
    assert known["OUTPUTS"] == of_block * config.pixels <= config.threads
    assert is_covered(problem.k, known["K_BLOCKS"], of_block)
    rows = plan.main.grid[0] // known["K_BLOCKS"]
    assert rows * known["K_BLOCKS"] == plan.main.grid[0]
    assert is_covered(problem.pixels, rows, config.pixels)


def check_blocks_of_tiles(plan: Plan, config: Direct | Stem) -> None:
    """Check that every output is in a tile, every slab has a warp, and every block has tiles, all of the same slabs."""
    problem, known = plan.problem, constants(plan)
    assert isinstance(problem, Conv2d)
    assert is_covered(problem.oh, known["TILES_H"], config.tile_h)
    assert is_covered(problem.ow, known["TILES_W"], config.tile_w)
    assert is_covered(problem.k, known["ALL_SLABS"], known["SLAB_K"])
    assert is_covered(known["ALL_SLABS"], known["SLAB_TILES"], config.slabs)
    assert known["TILES"] == problem.n * known["TILES_H"] * known["TILES_W"] * known["SLAB_TILES"]
    assert plan.main.grid == (known["GRID_BLOCKS"], 1, 1)
    assert known["GRID_BLOCKS"] <= known["TILES"]
    assert known["GRID_BLOCKS"] % known["SLAB_TILES"] == 0
    assert config.warps % config.slabs == 0


def check_blocks_of_mma(plan: MmaPlan) -> None:
    """Check that every step of every tile has a block, and that every block has some."""
    problem, config, shape = plan.problem, plan.config, plan.shape
    assert is_covered(problem.pixels, shape.tiles_m, config.tile_m)
    assert is_covered(problem.k_group, shape.tiles_n, config.tile_n)
    assert is_covered(problem.reduction, shape.steps, config.tile_k)
    assert plan.main.grid == (plan.blocks, 1, 1)
    tiles = shape.tiles_m * shape.tiles_n * problem.groups
    if config.persist:
        blocks = config.persist * plan.target.processors
        assert plan.blocks == blocks <= tiles * (shape.steps if config.stream_k else 1)
    else:
        assert plan.blocks == plan.whole + (tiles - plan.whole) * config.split
        assert config.split <= shape.steps
        if plan.combine == "cluster":
            assert plan.blocks % config.split == plan.whole % config.split == 0
    assert plan.main.threads * WARP_SUMS >= config.tile_m * config.tile_n
    assert bool(plan.scratch) == (plan.combine == "scratch")


def test_the_struct_has_what_the_quantization_needs() -> None:
    def names(**quantization: object) -> list[str]:
        plan = generator.default(
            Conv2d(1, 4, 4, 4, 4, 1, 1, quantization=Quantization(**quantization)),  # type: ignore[arg-type]
            TARGETS["cpu"],
        )
        size = sum(8 if field.is_pointer else 4 for field in plan.fields)
        assert size <= plan.argument_bytes < size + 8
        assert plan.argument_bytes % 8 == 0
        pointers = [field.is_pointer for field in plan.fields]
        assert pointers == sorted(pointers, reverse=True)
        return [field.name for field in plan.fields]

    assert names(out_type="int32") == ["x", "w", "y"]
    assert names() == ["x", "w", "y", "multiplier"]
    assert names(bias="int32", per_channel=True) == ["x", "w", "y", "offset", "multiplier"]
    assert names(bias="float32", activation="relu6", y_zero_point=True) == [
        *("x", "w", "y", "bias", "multiplier", "top", "y_zero")
    ]
    assert names(bias="int32", x_zero_point=True, w_zero_point=True) == [
        *("x", "w", "y", "offset", "int32_bias", "w_zero", "multiplier", "x_zero")
    ]


def test_arguments_lie_where_c_puts_them() -> None:
    """In a chain, the pointers of the second convolution follow the scalars of the first."""
    chain = FusedConv2d(
        Conv2d(1, 14, 14, 32, 32, 3, 3, pad=1, groups=32), Conv2d(1, 14, 14, 32, 32, 1, 1, quantization=Quantization())
    )
    plan = generator.default(chain, TARGETS["sm_80"])
    types = [(field.path, ctypes.c_void_p if field.is_pointer else ctypes.c_int32) for field in plan.fields]
    arguments = type("Arguments", (ctypes.Structure,), {"_fields_": types})
    assert plan.offsets == tuple(getattr(arguments, path).offset for path, _ in types)
    assert plan.argument_bytes == ctypes.sizeof(arguments)
    assert plan.argument_bytes > sum(field.size_bytes for field in plan.fields), "no field lies behind a gap"


BASE = Simt(tile_m=64, tile_n=64, tile_k=32, thread_m=4, thread_n=4, pipeline_stages=1)
LARGE = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1)
SMALL = Conv2d(1, 3, 3, 16, 16, 1, 1)
SMALL_MEMORY = replace(TARGETS["sm_80"], smem_bytes=4096)

SM_80, GFX90A = TARGETS["sm_80"], TARGETS["gfx90a"]
REFUSED: list[tuple[str, Conv2d, Target, dict[str, int], list[str]]] = [
    ("an unknown value", LARGE, SM_80, {"tile_m": 48}, ["tile_m=48", "16, 32, 64, 128"]),
    ("a tile that threads do not divide", LARGE, SM_80, {"tile_n": 4, "thread_n": 8}, ["tile_n=4", "thread_n=8"]),
    ("narrow threads", LARGE, SM_80, {"thread_m": 2}, ["thread_m=2", "at most 256 outputs"]),
    ("half a warp", LARGE, GFX90A, {"tile_m": 16, "tile_n": 32}, ["32 threads", "64"]),
    ("too many threads", LARGE, SM_80, {"tile_m": 128}, ["threads of a block: 512", "at most 256"]),
    ("shared memory", LARGE, SMALL_MEMORY, {}, ["shared memory on sm_80: 4352", "at most 4096"]),
    ("tile_m past the problem", SMALL, SM_80, {"tile_n": 16}, ["tile_m (the problem has 9): 64", "at most 17"]),
    ("tile_n past the problem", SMALL, SM_80, {"tile_m": 16}, ["tile_n (the problem has 16): 64", "at most 31"]),
    ("too narrow a tile_k", LARGE, SM_80, {"tile_k": 16}, ["tile_k=16", "1152", "at least 32"]),
]


@pytest.mark.parametrize(
    ("problem", "target", "given", "says"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_an_infeasible_config_says_the_value_and_the_limit(
    problem: Conv2d, target: Target, given: dict[str, int], says: list[str]
) -> None:
    with pytest.raises(Infeasible) as refused:
        generator.plan(problem, replace(BASE, **given), target)
    for part in says:
        assert part in str(refused.value)
    assert refused.value.excess > 0


def test_every_rejection_says_a_number_and_by_how_much() -> None:
    for target in (TARGETS["sm_75"], TARGETS["gfx90a"]):
        for problem in PROBLEMS.values():
            for rejection in generator.space(problem, target)[1]:
                assert any(character.isdigit() for character in rejection.reason)
                with pytest.raises(Infeasible) as refused:
                    generator.plan(problem, rejection.config, target)
                assert str(refused.value) == rejection.reason
                assert math.isfinite(refused.value.excess)


def test_too_many_groups_for_the_grid_say_so() -> None:
    problem = Conv2d(1, 1, 1, 2 * 65536, 65536, 1, 1, groups=65536)
    with pytest.raises(Infeasible, match=r"no kernel can serve conv2d:.* on gfx906; for instance: "):
        generator.default(problem, TARGETS["gfx906"])


@pytest.mark.turns
@pytest.mark.parametrize("name", EVERY_TARGET)
def test_there_is_always_a_default(name: str) -> None:
    target = TARGETS[name]
    # Each problem on several targets, each target with another part of them.
    for problem in problems(seed=4, count=200)[list(TARGETS).index(name) % 6 :: 6]:
        plan = generator.default(problem, target)
        check(plan, problem, target)


def test_the_space_is_sorted_by_the_cost_model_and_the_default_is_one_of_the_likely() -> None:
    plans, _ = generator.space(PROBLEMS["3x3"], TARGETS["sm_90a"])
    costs = [generator.cost(plan) for plan in plans]
    assert costs == sorted(costs)
    likely, _ = generator.space(PROBLEMS["3x3"], TARGETS["sm_90a"], likely=True)
    assert generator.default(PROBLEMS["3x3"], TARGETS["sm_90a"]) in likely[: len(generator.FAMILIES) * generator.RANKED]
    assert {plan.config for plan in likely} < {plan.config for plan in plans}
    again, _ = generator.space(parse(str(PROBLEMS["3x3"])), TARGETS["sm_90a"])
    assert again == plans


def test_the_default_is_a_likely_one_where_any_of_them_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    target, simt = TARGETS["gfx906"], generator.FAMILIES["simt"]
    for likely, among in (({"tile_m": (16,)}, {16}), ({"thread_m": (3,)}, set(simt.choices["tile_m"]))):
        monkeypatch.setitem(generator.FAMILIES, "simt", replace(simt, likely=likely))
        config = generator.default(PROBLEMS["3x3"], target).config
        assert isinstance(config, Simt)
        assert config.tile_m in among
    # The searched values stay complete.
    assert {plan.config.as_dict()["tile_m"] for plan in generator.space(PROBLEMS["3x3"], target)[0]} != {16}


@pytest.mark.turns
@pytest.mark.parametrize("name", ["sm_75", "sm_90a", "gfx942", "gfx1201", "cpu.sm_80"])
def test_no_feasible_config_is_left_out(name: str) -> None:
    """Feasible configs are adjacent: each neighbour of a config that `plan` accepts is in the space."""
    target, mma = TARGETS[name], generator.FAMILIES["mma"]
    for index, problem in enumerate(matrix_problems(10, 8, target)):
        listed = set(mma.configs(problem, target))
        for seed in range(6):
            config = matrix_plan(problem, target, (index, seed)).config
            for field, values in CHOICES.items():
                for value in values:
                    beside = replace(config, **{field: value})
                    try:
                        generator.plan(problem, beside, target)
                    except Infeasible:
                        continue
                    assert beside in listed, f"{beside} for {problem}"


@pytest.mark.parametrize("target", [t for t in TARGETS.values() if not t.instructions], ids=lambda target: target.name)
def test_without_matrix_instructions_dot_products_serve_everything(target: Target) -> None:
    """gfx906 and gfx1030 have only dot products, and the CPU has neither."""
    assert {plan.config.family for plan in generator.space(LARGE, target)[0]} == {"simt"}
    for problem in problems(seed=12, count=40):
        assert generator.default(problem, target).config.family in ("simt", "depthwise", "gemv")
    with pytest.raises(
        Infeasible, match=rf"{target.name} has no matrix instruction that multiplies .*: the family simt serves it"
    ):
        generator.plan(LARGE, TILE, target)


def test_matrix_instructions_can_be_left_unused() -> None:
    """A search, or a target, can be restricted to the family simt."""
    target = TARGETS["sm_90a"]
    assert generator.default(LARGE, target).config.family in ("wgmma", "halo")
    assert {plan.config.family for plan in generator.space(LARGE, target)[0]} >= {"simt", "mma", "wgmma", "halo"}
    of_warps = replace(target, generation=replace(target.generation, warpgroup=None))
    assert generator.default(LARGE, of_warps).config.family == "mma"
    of_threads = replace(of_warps, generation=replace(of_warps.generation, instructions=()))
    assert generator.default(LARGE, of_threads).config.family == "simt"


TILE = Mma(
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
SIGNED, UNSIGNED = Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1), Quantization("uint8", "int8")
SM_75, GFX942 = TARGETS["sm_75"], TARGETS["gfx942"]
REFUSED_OF_MMA: list[tuple[str, Conv2d, Target, dict[str, int], list[str]]] = [
    ("an unknown value", SIGNED, SM_80, {"tile_m": 48}, ["tile_m=48", "16, 32, 64, 128, 256"]),
    ("an instruction too many", SIGNED, SM_80, {"instruction": 1}, ["instruction=1", "sm_80 has 1", "simt"]),
    (
        "unsigned bytes",
        replace(SIGNED, quantization=UNSIGNED),
        GFX942,
        {},
        ["gfx942 has no matrix instruction that multiplies uint8 by int8 with sums in int32: the family simt serves"],
    ),
    ("a huge filter", Conv2d(1, 32, 32, 3, 16, 20, 20, pad=1), SM_80, {"tile_n": 16}, ["20x20", "32", "simt"]),
    ("a tile that warps do not divide", SIGNED, SM_80, {"tile_n": 32, "warp_n": 64}, ["tile_n=32", "warp_n=64"]),
    ("a warp that instructions do not divide", SIGNED, GFX942, {"warp_n": 16}, ["warp_n=16", "32"]),
    ("half a fragment", SIGNED, TARGETS["gfx942"], {"instruction": 1, "tile_k": 32}, ["tile_k=32", "64"]),
    ("too many warps", SIGNED, SM_80, {"tile_m": 256, "tile_n": 128}, ["warps of a block: 32", "at most 8"]),
    ("too many sums", SIGNED, SM_80, {"tile_m": 256, "tile_n": 256, "warp_m": 128, "warp_n": 64}, ["256", "128"]),
    ("channels that are not there", SIGNED, SM_80, {"tile_n": 80, "warp_n": 80}, ["tile_n=80 computes 160", "64, 128"]),
    ("a long warp", SIGNED, SM_80, {"tile_m": 128, "warp_m": 128, "warp_n": 16}, ["8", "at most 4"]),
    ("stages without copies", SIGNED, SM_75, {"pipeline_stages": 3}, ["pipeline_stages=3", "sm_75", "takes 2"]),
    ("fragments without copies", SIGNED, SM_75, {"prefetch_fragments": 1}, ["prefetch_fragments=1", "sm_75"]),
    ("shared memory", SIGNED, replace(SM_80, smem_bytes=8192), {}, ["shared memory on sm_80: 16384", "at most 8192"]),
    ("parts of enough tiles", replace(SIGNED, n=64), SM_80, {"split": 2}, ["split=2", "108"]),
    ("persisting for one tile", SIGNED, SM_80, {"persist": 2}, ["persist=2", "196", "2"]),
    ("a stream that ends", SIGNED, SM_80, {"stream_k": 1}, ["stream_k=1", "persist must be 1 or more"]),
    ("two divisions of the work", SIGNED, SM_80, {"split": 2, "persist": 1, "stream_k": 1}, ["split=2", "persist=1"]),
    ("planes that are staged", replace(SIGNED, layout="nchw"), SM_80, {"staged": 1}, ["nchw", "16"]),
    (
        "rows of a tile that are no vectors",
        replace(SIGNED, k=48),
        SM_80,
        {"tile_n": 24, "warp_n": 8, "staged": 1},
        ["staged=1", "24 channels of 1 bytes"],
    ),
    ("a cluster that is staged", SIGNED, TARGETS["sm_90a"], {"split": 2, "staged": 1}, ["staged=1", "split=2"]),
    ("no last wave", SIGNED, SM_80, {"split_last_wave": 1}, ["split_last_wave=1", "split=1", "88"]),
]


@pytest.mark.parametrize(
    ("problem", "target", "given", "says"), [row[1:] for row in REFUSED_OF_MMA], ids=[r[0] for r in REFUSED_OF_MMA]
)
def test_an_infeasible_config_of_mma_says_the_value_and_the_limit(
    problem: Conv2d, target: Target, given: dict[str, int], says: list[str]
) -> None:
    with pytest.raises(Infeasible) as refused:
        generator.plan(problem, replace(TILE, **given), target)
    for part in says:
        assert part in str(refused.value)
    assert refused.value.excess > 0


def test_a_thread_of_depthwise_does_not_look_further_than_an_int_counts() -> None:
    """A tile of eight rows over seven would span eight rows of 2**28 elements."""
    problem = Conv2d(1, 7, 2**24, 16, 16, 1, 1, groups=16)
    config = Depthwise(rows=8, columns=1, vector=4, run=1, threads=64)
    with pytest.raises(Infeasible, match="2147483648; at most 2147483647"):
        generator.plan(problem, config, TARGETS["sm_80"])
    assert generator.plan(problem, replace(config, rows=4), TARGETS["sm_80"]).config.rows == 4


FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32")


def of_floats(dtype: str, c: int, side: int = 28, taps: int = 3) -> Conv2d:
    quantization = Quantization(dtype, dtype, dtype, per_channel=True, bias="float32", activation="relu")
    return Conv2d(32, side, side, c, c, taps, taps, pad=taps // 2, groups=c, quantization=quantization)


def test_a_depthwise_layer_of_floats_loads_whole_vectors() -> None:
    config = Depthwise(rows=4, columns=2, vector=8, run=1, threads=128)
    for dtype, (x, w) in {"float16": (16, 2), "float8_e4m3fn": (8, 1), "float32": (16, 4)}.items():
        alignment = generator.plan(of_floats(dtype, 96), config, TARGETS["sm_90a"]).alignment
        assert (alignment["x"], alignment["w"], alignment["y"]) == (x, w, x)
    pairs = generator.plan(of_floats("float16", 90), replace(config, vector=4), TARGETS["sm_90a"])
    assert (pairs.alignment["x"], pairs.alignment["y"]) == (4, 4)


@pytest.mark.parametrize(
    ("dtype", "change", "says"),
    [
        ("float16", {"run": 2}, "run=2: words of four taps are of bytes; floats have run=1"),
        ("float16", {"vector": 16}, "vector=16 channels of a thread do not divide 24; 4 does for any"),
        ("float16", {"columns": 8}, "registers for filters, pixels and sums: 312; at most 168"),
        ("int8", {"vector": 2}, "vector=2: four neighbouring channels of bytes are a word; use 4, 8 or 16"),
    ],
)
def test_a_depthwise_config_that_does_not_serve_says_why(dtype: str, change: dict[str, int], says: str) -> None:
    config = replace(Depthwise(rows=4, columns=2, vector=8, run=1, threads=128), **change)
    problem = of_floats("float16", 24)
    if dtype == "int8":
        problem = replace(problem, quantization=Quantization())
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, config, TARGETS["sm_90a"])


def first_of_floats(dtype: str, c: int, width: int = 224, taps: int = 7) -> Conv2d:
    quantization = Quantization(dtype, dtype, "float16", per_channel=True, bias="float32", activation="relu")
    return Conv2d(32, 224, width, c, 64, taps, taps, stride=2, pad=taps // 2, quantization=quantization)


FIRST = Stem(tile_h=8, tile_w=8, atoms=1, slabs=1, warps=4, batch=1, blocks_per_sm=2)


def test_a_first_layer_of_floats_loads_four_pixels() -> None:
    """Element by element where a row does not begin with whole fours."""
    for dtype, size in {"float16": 2, "float8_e4m3fn": 1, "tfloat32": 4}.items():
        for width, aligned in ((224, 4 * size), (222, size)):
            alignment = generator.plan(first_of_floats(dtype, 3, width), FIRST, TARGETS["sm_90a"]).alignment
            assert (alignment["x"], alignment["w"]) == (aligned, size)


@pytest.mark.parametrize(
    ("dtype", "c", "taps", "row_words", "steps"),
    [
        # Pairs of words of four pixels are read at once: a step more makes whole fours of seven taps, three too many.
        *(("float16", 3, 7, 16, 14), ("float16", 3, 3, 8, 3), ("float16", 3, 5, 10, 7)),
        *(("bfloat16", 1, 7, 4, 4), ("bfloat16", 2, 3, 4, 2), ("tfloat32", 3, 7, 21, 19), ("float8_e5m2", 3, 7, 8, 7)),
    ],
)
def test_how_many_steps_a_first_layer_takes(dtype: str, c: int, taps: int, row_words: int, steps: int) -> None:
    plan = generator.plan(first_of_floats(dtype, c, taps=taps), FIRST, TARGETS["sm_90a"])
    assert isinstance(plan, StemPlan)
    assert (plan.row_words, plan.steps) == (row_words, steps)


def test_a_first_layer_says_which_floats_it_does_not_multiply() -> None:
    for dtype, target in (("float32", "sm_90a"), ("float8_e4m3fn", "sm_80")):
        with pytest.raises(Infeasible, match=f"{dtype} by {dtype}: {target} has no mma.sync that multiplies these"):
            generator.plan(first_of_floats(dtype, 3), FIRST, TARGETS[target])


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90a", "gfx942", "gfx1201", "cpu"])
def test_depthwise_layers_of_floats_are_on_their_own_page(name: str) -> None:
    """Untuned, and where channels fill no vector too. Matrix instructions may multiply large filters of 16 bits."""
    for dtype in FLOATS:
        for problem in (of_floats(dtype, 96), of_floats(dtype, 21)):
            assert generator.default(problem, TARGETS[name]).config.family == "depthwise"
        large = generator.default(of_floats(dtype, 384, 14, 7), TARGETS[name]).config.family
        assert large == "depthwise" or (large == "direct" and dtype in ("float16", "bfloat16"))


def test_the_dilation_of_one_tap_is_no_step() -> None:
    """The matrix kernels compute the position of the tap past the last: with this dilation, beyond an int."""
    problem = Conv2d(1, 2, 2, 4, 8, 1, 1, dilation=(2**28, 2**29))
    for name in ("sm_80", "cpu"):
        constants = generator.default(problem, TARGETS[name]).constants["The problem."]
        assert {c.name: c.value for c in constants if "DILATION" in c.name} == {"DILATION_H": 1, "DILATION_W": 1}
