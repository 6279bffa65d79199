"""Generated sources compile for every target, without warnings, without spills, and with the planned shared memory."""

from __future__ import annotations

import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache

import pytest
from compiler_log import has_warning
from covering import covering
from disassembly import unset_addresses
from machine_code import amd
from machine_code.nvidia import serialized
from mostly_slow import mostly_slow
from random_expressions import TYPICAL as EXPRESSIONS
from random_expressions import every_function, maps
from random_floats import float_chains
from random_fused import TILE, fused_plan, fused_problems
from random_matmuls import attention, convolution, matmuls, of_bytes, transposed
from random_matrix import matrix_plan, served
from random_reductions import FLOATS, pixels_outside, reduction, reductions
from random_special import SHAPES, special_plan, special_problems

from qconv import Conv2d, Quantization, generator
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.device.binary import resources
from qconv.device.compile import compiler_for
from qconv.errors import CompileError, Infeasible
from qconv.generator import Plan, config_from_json
from qconv.generator.families.depthwise import Depthwise
from qconv.generator.families.expression.reduce import ReduceConfig
from qconv.generator.families.fused.config import Fused
from qconv.generator.families.fused.layer import is_depthwise
from qconv.generator.families.mma.config import CHOICES, Mma
from qconv.generator.families.mma.plan import MmaPlan
from qconv.ops.registry import parse
from qconv.problem.chain import Chain
from qconv.targets.target import TARGETS, Target
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

EVERYTHING = Quantization("uint8", "int8", "uint8", True, True, True, True, "int32", "relu6")
HALF = Quantization("int8", "uint8", "float16", x_zero_point=True, bias="float32", activation="relu")
WHOLE = Quantization("uint8", "uint8", "int32", x_zero_point=True, w_zero_point=True, per_channel=True)
REAL = Quantization("int8", "uint8", "float32", w_zero_point=True, bias="int32")
ADDED = Quantization.of("torch-onednn", y_zero_point=True, bias="float32", residual="uint8", residual_zero_point=True)
CURVED = Quantization(out_type="bfloat16", per_channel=True, bias="float32", activation="gelu")
LOOKED_UP = Quantization("uint8", "int8", "uint8", True, True, False, True, "int32", table=True)

GPUS = {name: each for name, each in TARGETS.items() if each.vendor != "cpu"}
# The fast suite compiles for one of each vendor, the long tests for every one.
SOME = {"sm_90a", "gfx1201"}
# For these, `simt` differs by the target's features: one target per generation.
GENERATIONS = ("sm_75", "sm_80", "sm_90a", "sm_120", "gfx908", "gfx942", "gfx1030", "gfx1201")
EVERY_GPU = mostly_slow(GPUS, SOME)
TYPICAL = {
    "3x3, everything": Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, quantization=EVERYTHING),
    "stem, bytes": Conv2d(1, 224, 224, 3, 64, 7, 7, stride=2, pad=3, quantization=HALF),
    "depthwise": Conv2d(1, 56, 56, 48, 48, 3, 3, pad=1, groups=48, quantization=WHOLE),
    "3x3, gelu": Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, quantization=CURVED),
    "3x3, residual": Conv2d(8, 28, 28, 128, 128, 3, 3, pad=1, quantization=ADDED),
    "1x1, table": Conv2d(8, 28, 28, 40, 240, 1, 1, quantization=LOOKED_UP),
    "stem, NCHW": Conv2d(1, 224, 224, 3, 64, 7, 7, stride=2, pad=3, layout="nchw", quantization=EVERYTHING),
    "grouped, odd": Conv2d(2, 9, 5, 21, 33, 2, 5, dilation=(2, 1), pad=(0, 2, 1, 2), groups=3, quantization=REAL),
}

# Cases for which these have too few tiles, too many, or too small weights.
OTHERS = {
    "few pixels": Conv2d(1, 4, 5, 2048, 64, 1, 1, quantization=ADDED),
    "pointwise": Conv2d(32, 28, 28, 512, 1024, 1, 1),
    "many tiles": Conv2d(4, 64, 64, 64, 160, 3, 3, pad=1, quantization=EVERYTHING),
}
# Problems whose channels leave parts of power-of-two tiles idle.
BETWEEN = {
    "96 channels": Conv2d(8, 28, 28, 96, 96, 3, 3, pad=1, quantization=ADDED),
    "112 channels": Conv2d(8, 28, 28, 80, 112, 1, 1, quantization=ADDED),
}

# Every way of finding an element's scale, every width, every kernel of a choice.
CONVERSIONS = {
    "quantize a tensor": Quantize(1, 1, 2**20, x_type="float16", zero_point=True),
    "quantize images": Quantize(8, 3, 224 * 224, out_type="uint8", zero_point=True, channels_last=True),
    "dequantize images": Dequantize(8, 32, 299 * 299, x_type="uint8", channels_last=True),
    "quantize channels": Quantize(64, 512, 1, x_type="bfloat16", out_type="uint16", zero_point=True),
    "dequantize blocks": Dequantize(64, 512, 1, block=32, x_type="uint8", out_type="bfloat16", zero_point=True),
    "requantize to int32": Requantize(1, 512, 768, x_type="int32", out_type="int32", y_zero_point=True),
    "choose for a tensor": Choose(1, 1, 2**22, rule="fbgemm"),
    "dynamic, by token": Dynamic(1, 512, 768),
}

REDUCTIONS = {
    "softmax": reduction((8192,), (4096,), "float16", FLOATS["softmax"], "float16"),
    "a normalization": reduction((6304,), (768,), "float32", FLOATS["normalization"], "float16"),
    "a mean of pixels": reduction((32, 2048), (49,), "int8", FLOATS["mean"], "float32", pixels_outside),
    "positions": reduction((99,), (1000,), "int64", "y=argmax_of(x)", "int32"),
    "bools": reduction((99,), (100,), "bool", "y=maximum_of(x)", "bool"),
}

TENSOR_OPS = {
    "add": Add(1, 1, 2**20, activation="relu"),
    "a table": Table(2**24, out_type="uint8"),
    "tensors one behind the other": Concat(1024, (64, 32), (64, 48), (0, 16), (0, 1)),
    "the largest of windows": MaxPool(32, 112, 112, 64, 3, 3, stride=2, pad=1),
    "averages of windows": AveragePool(8, 28, 28, 96, 3, 3, pad=1, count_include_pad=True),
    "averages of images": GlobalAveragePool(32, 49, 2048, out_type="uint8"),
    "channels of two groups": ChannelShuffle(32 * 28 * 28, 2, 58),
    "channels of three groups": ChannelShuffle(8 * 28 * 28, 3, 80, "uint8"),
    "the class of every pixel": ArgMax(8 * 28 * 28, 20, last=True),
    "the largest of images": ArgMax(4, 96, 128, x_type="uint8"),
    "the boxes of a detector": NonMaxSuppression(1, 80, 8400, 300),
    "boxes by their centers": NonMaxSuppression(8, 1, 1000, 1000, center=True),
    "a factor a channel and image": Mul(8, 49, 120, "uint8", "uint8", "uint8"),
}

PRODUCTS = {
    "a convolution": convolution(8, (28, 28), 64, 96, (3, 3), pad=1),
    "a convolution, channels first": convolution(8, (28, 28), 64, 96, (3, 3), pad=1, channels_last=False),
    "a convolution of groups": convolution(8, (28, 28), 96, 96, (3, 3), stride=2, pad=1, groups=96),
    "a transposed convolution": transposed(1, (14, 14), 32, 16, 4, 2),
    "scores of heads": attention(12, 197, 64),
    "a row by a matrix of bytes": of_bytes(1, 1000, 2048),
}

# Small problems with small spaces, of every data path, and with every step of the epilogue.
SMALL = {
    "pointwise": Conv2d(1, 4, 4, 32, 32, 1, 1, quantization=Quantization.of("onnx-ref", y_zero_point=True)),
    "3x3": Conv2d(1, 7, 7, 16, 32, 3, 3, pad=1),
    "everything": Conv2d(1, 4, 8, 16, 16, 1, 1, quantization=EVERYTHING),
    "everything, bytes": Conv2d(2, 5, 5, 3, 8, 3, 3, stride=2, pad=1, quantization=EVERYTHING),
    "one output": Conv2d(1, 1, 1, 1, 1, 1, 1, quantization=Quantization(out_type="float16")),
    "depthwise": Conv2d(
        1, 6, 6, 8, 8, 3, 3, pad=1, groups=8, quantization=Quantization(per_channel=True, bias="float32")
    ),
    "depthwise, two filters": Conv2d(1, 4, 8, 5, 10, 3, 3, pad=1, groups=5, quantization=WHOLE),
    "grouped": Conv2d(2, 4, 4, 24, 24, 2, 2, groups=3, quantization=REAL),
    "odd, dilated": Conv2d(1, 5, 4, 7, 9, 2, 3, dilation=(1, 2), pad=(0, 2, 1, 2), quantization=REAL),
    "odd, NCHW": Conv2d(1, 5, 4, 6, 9, 2, 3, pad=1, groups=3, layout="nchw", quantization=WHOLE),
    "8-byte loads": Conv2d(1, 3, 3, 8, 9, 1, 3, pad=1, quantization=HALF),
    "4-byte loads": Conv2d(
        1, 4, 4, 4, 12, 3, 3, pad=1, quantization=Quantization.of("rocmlir", x_type="uint8", bias="float32")
    ),
    "few pixels, long sums": Conv2d(
        1, 1, 4, 128, 16, 1, 1, quantization=Quantization(w_zero_point=True, y_zero_point=True)
    ),
}


# Bytes per thread: byte-wise loads from NCHW, and the end of tiles with 128 sums per lane.
SPILLED_BY_DEFAULTS = {
    ("stem, NCHW", "sm_86"): 16,
    ("stem, NCHW", "sm_89"): 16,
    ("stem, bytes", "sm_90a"): 24,
    ("3x3, gelu", "sm_75"): 20,
    ("3x3, residual", "sm_75"): 8,
    ("3x3, residual", "sm_86"): 192,
    ("3x3, residual", "sm_88"): 152,
}
# Bytes that simt's first config spills: 64 sums and 64 window sums leave no register for some addresses.
SPILLED_BY_SIMT = {"gfx1030": 16, "gfx1150": 152}
# A convolution of floats, on as few SMs as a GB10 has.
SPILLED_BY_PRODUCTS = {"sm_121": 44}
# ptxas sometimes uses fewer registers than it may and spills a few words; the tuner measures the cost.
ACCEPTED = {"nvidia": 64, "amd": 0}
# clang computes the exponentials of 64 elements at once.
ACCEPTED_OF_REDUCTIONS = {"nvidia": 64, "amd": 148}
# Up to this many sums per lane; others have more.
MODERATE_SUMS = 32
# Sums and filters of both convolutions are in one thread's registers: with many warps it has 64.
ACCEPTED_OF_FUSED = 512
# Compilers load the rows of a tall tile early; the tuner measures that cost too.
ACCEPTED_OF_DEPTHWISE = 4096
# The maximum on NVIDIA is 1204: sm_75, whose tiles pass through registers, with 128 sums, stream-K and two scales per
# channel.
ACCEPTED_OF_MMA = {"nvidia": (128, 1536), "amd": (512, 4096)}


OF_FLOATS = [t for t in GPUS.values() if any(each.accepts("float16", "float16") for each in t.instructions)]


@lru_cache(maxsize=64)
def why_not(target: Target) -> str | None:
    """Return why nothing can be compiled for this target here."""
    try:
        compiler_for(target)
    except CompileError as error:
        return str(error)
    return None


def complaint(plan: Plan, most_spilled: int = 0, reads_code: bool = False) -> str | None:
    """Compile the plan and return a complaint, or None. `reads_code` also checks AMD's matrix instructions and
    barriers."""
    target, source = plan.target, generator.render(plan)
    try:
        binary, log = compiler_for(target).run(source)
    except CompileError as error:
        return str(error)
    # If registers may be spilled, wgmma may be serialized too: the tuner measures the cost of either.
    if has_warning(log) or (most_spilled == 0 and serialized(log)):
        return log
    if reads_code and target.vendor == "amd" and amd.missing() is None:
        refused = amd.refusals(source, target, binary)
        if refused:
            return "\n".join(refused)
    for launch in plan.launches:
        needs = resources(binary, launch.kernel, log)
        # CUDA kernels get their shared memory at the launch, HIP kernels declare it.
        held = 0 if target.vendor == "nvidia" else launch.smem_bytes
        if (needs.smem_bytes, needs.threads_max) != (held, launch.threads):
            return f"{launch} needs {needs}"
        if needs.spill_bytes is None or max(needs.spill_bytes, needs.stack_bytes) > most_spilled:
            return f"{launch} spills: {needs}"
        if needs.registers > target.registers_per_thread or needs.registers * launch.threads > target.registers_per_sm:
            return f"{launch} does not fit a multiprocessor: {needs}"
    return None


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
@pytest.mark.parametrize("name", TYPICAL)
def test_the_default_compiles(name: str, gpu: str) -> None:
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    plan = generator.default(TYPICAL[name], target)
    accepted = SPILLED_BY_DEFAULTS.get((name, gpu), 0)
    assert complaint(plan, accepted, reads_code=True) is None, f"{plan.problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
def test_the_first_of_simt_compiles(gpu: str) -> None:
    """The config that is used if matrix instructions are disabled."""
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    problem = TYPICAL["3x3, everything"]
    plans = [plan for plan in generator.space(problem, target)[0] if plan.config.family == "simt"]
    plan = min(plans, key=generator.cost)
    accepted = SPILLED_BY_SIMT.get(target.name, 0)
    assert complaint(plan, accepted, reads_code=True) is None, f"{problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
def test_the_default_of_a_conversion_or_tensor_op_compiles(gpu: str) -> None:
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    for problem in (*CONVERSIONS.values(), *TENSOR_OPS.values()):
        plan = generator.default(problem, target)
        # NVIDIA's compiler calls a function for a division, and saves some registers around it.
        assert complaint(plan, ACCEPTED[target.vendor], reads_code=True) is None, f"{problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
def test_the_default_of_expressions_compiles(gpu: str) -> None:
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    for problem in (every_function(), *EXPRESSIONS.values()):
        plan = generator.default(problem, target)
        assert complaint(plan, ACCEPTED[target.vendor], reads_code=True) is None, f"{problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
def test_the_default_of_products_compiles(gpu: str) -> None:
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    for problem in PRODUCTS.values():
        plan = generator.default(problem, target)
        accepted = SPILLED_BY_PRODUCTS.get(target.name, 0)
        assert complaint(plan, accepted, reads_code=True) is None, f"{problem} {plan.config}"


@pytest.mark.turns
@pytest.mark.parametrize("gpu", EVERY_GPU)
def test_the_default_of_a_reduction_compiles(gpu: str) -> None:
    target = GPUS[gpu]
    if reason := why_not(target):
        pytest.skip(reason)
    for problem in REDUCTIONS.values():
        plan = generator.default(problem, target)
        assert complaint(plan, reads_code=True) is None, f"{problem} {plan.config}"


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", GPUS.values(), ids=lambda target: target.name)
def test_random_configs_for_reductions_compile(target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    rng = random.Random(f"reductions {target.name}")
    plans = [rng.choice(generator.space(one, target)[0]) for one in (*REDUCTIONS.values(), *reductions(3, 10))]
    jobs = [(target.name, str(plan.problem), plan.config.as_json()) for plan in plans]
    wrong = [answer for answer in map(_complaint_about, jobs) if answer[3] is not None]
    assert not wrong, "\n".join(map(str, wrong))


def _complaint_about(job: tuple[str, str, str]) -> tuple[str, str, str, str | None]:
    target, key, config = job
    plan = generator.plan(parse(key), config_from_json(config), TARGETS[target])
    return *job, complaint(plan, accepted(plan))


def accepted(plan: Plan) -> int:
    """Return the bytes that a thread may spill: a search may try a warp's tile that is too large, and times it."""
    if isinstance(plan.config, Depthwise):
        return ACCEPTED_OF_DEPTHWISE
    if isinstance(plan.config, ReduceConfig):
        return ACCEPTED_OF_REDUCTIONS[plan.target.vendor]
    if isinstance(plan.config, Fused):
        assert isinstance(plan.problem, Chain)
        tall = any(is_depthwise(one) and one.r > 3 for one in plan.problem.layers.values())
        return ACCEPTED_OF_DEPTHWISE if tall else ACCEPTED_OF_FUSED
    if not isinstance(plan.config, Mma):
        return ACCEPTED[plan.target.vendor]
    sums = plan.config.warp_m * plan.config.warp_n // plan.target.warp_size
    return ACCEPTED_OF_MMA[plan.target.vendor][sums > MODERATE_SUMS]


def spread(target: Target, turns: int) -> list[MmaPlan]:
    """Return a plan for every value of every choice, from the problems of several turns."""
    plans: list[MmaPlan] = []
    add_plans(plans, target, [*TYPICAL.values(), *OTHERS.values()], turns)
    add_plans(plans, target, list(BETWEEN.values()), turns)
    return plans


def add_plans(plans: list[MmaPlan], target: Target, pool: list[Conv2d], turns: int) -> None:
    """Add plans for values that too few plans have."""
    for name, value in [(name, value) for name, values in CHOICES.items() for value in values] * turns:
        if sum(getattr(plan.config, name) == value for plan in plans) >= turns:
            continue
        rng = random.Random(f"compile {target.name} {name} {value} {len(plans)}")
        for problem in rng.sample(pool, len(pool)):
            if not served(problem, target):
                signed = replace(problem.quantization, x_type="int8", w_type="int8")
                problem = replace(problem, quantization=signed)
            try:
                plans.append(matrix_plan(problem, target, rng.random(), **{name: value}))
                break
            except Infeasible:
                continue


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", [t for t in GPUS.values() if t.instructions], ids=lambda target: target.name)
def test_configs_of_matrix_instructions_compile(target: Target) -> None:
    """Every value of every choice, for some targets twice or more, and with them every role."""
    if reason := why_not(target):
        pytest.skip(reason)
    plans = spread(target, turns=1 + (target.name in SOME))
    if target.async_copies:
        assert {name: values for name, values in CHOICES.items() if name != "instruction"} == {
            name: tuple(sorted({getattr(plan.config, name) for plan in plans}))
            for name in CHOICES
            if name != "instruction"
        }
    wanted = {"schedule": {"tile", "persist"}, "store": {"direct", "staged"}, "stream_k": {False, True}}
    for role, values in wanted.items():
        assert {getattr(plan.roles, role) for plan in plans} == values
    of_bytes = {instruction for instruction in target.instructions if instruction.accepts("int8", "int8")}
    assert {plan.shape.atom.instruction for plan in plans} == of_bytes
    jobs = {generator.render(p).digest: (target.name, str(p.problem), p.config.as_json()) for p in plans}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        answers = list(pool.map(_complaint_about, jobs.values()))
    print(f"\n{len(answers)} sources compiled for {target.name}")
    wrong = [answer for answer in answers if answer[3] is not None]
    assert not wrong, f"{len(wrong)} of {len(answers)} sources; the first:\n" + "\n".join(map(str, wrong[:5]))


def is_served(family: str, target: Target) -> bool:
    """Return true if the target has the instructions of the family."""
    if family in ("direct", "stem", "pointwise"):
        return target.async_copies and target.vendor == "nvidia"  # with mma.m16n8k32
    if family in ("wgmma", "halo", "halo_split", "stem_wgmma"):
        return target.warpgroup is not None and target.tensor_maps
    return family != "tcgen05" or target.tensor_memory is not None


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "target"),
    [
        pytest.param(family, target, id=f"{family}-{name}")
        for family in SHAPES
        for name, target in GPUS.items()
        if is_served(family, target)
    ],
)
def test_random_configs_for_special_layers_compile(family: str, target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    plans = [special_plan(family, problem, target, 0) for problem in special_problems(family, 5, 8)]
    jobs = {generator.render(p).digest: (target.name, str(p.problem), p.config.as_json()) for p in plans}
    wrong = [answer for answer in map(_complaint_about, jobs.values()) if answer[3] is not None]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", GPUS.values(), ids=lambda target: target.name)
def test_random_configs_for_expressions_compile(target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    rng = random.Random(f"expressions {target.name}")
    plans = [rng.choice(generator.space(one, target)[0]) for one in (*EXPRESSIONS.values(), *maps(7, 20))]
    wrong = [f"{plan.problem} {plan.config}" for plan in plans if complaint(plan, 512) is not None]
    assert not wrong, "\n".join(wrong)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", GPUS.values(), ids=lambda target: target.name)
def test_random_configs_for_products_compile(target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    rng = random.Random(f"products {target.name}")
    plans = [rng.choice(generator.space(one, target)[0]) for one in (*PRODUCTS.values(), *matmuls(3, 10))]
    jobs = [(target.name, str(plan.problem), plan.config.as_json()) for plan in plans]
    wrong = [answer for answer in map(_complaint_about, jobs) if answer[3] is not None]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", [t for t in GPUS.values() if t.instructions], ids=lambda target: target.name)
def test_random_chains_in_one_kernel_compile(target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    chains = [*fused_problems(5, 8, target), *fused_problems(5, 4, target, layers=3)]
    _check_chains([fused_plan(problem, target, 0) for problem in chains])


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("target", OF_FLOATS, ids=lambda target: target.name)
def test_random_chains_of_floats_in_one_kernel_compile(target: Target) -> None:
    if reason := why_not(target):
        pytest.skip(reason)
    plans: list[Plan] = []
    for problem in (*float_chains(5, 12, target), *float_chains(5, 6, target, layers=3)):
        with suppress(Infeasible, StopIteration):
            plans.append(fused_plan(problem, target, 0))
    assert len(plans) > 2
    _check_chains(plans)


def _check_chains(plans: list[Plan]) -> None:
    found = {f"{plan.problem} {plan.config}": complaint(plan, accepted(plan), reads_code=True) for plan in plans}
    wrong = [(plan, answer) for plan, answer in found.items() if answer is not None]
    assert not wrong, "\n".join(map(str, wrong))


# The second has 13 steps of two chunks: once a loop with an exit in the middle, for which ptxas 13.0 emitted a wild
# load.
ODD_STEPS = (
    "conv2d:n=1:h=16:w=9:c=7:k=7:r=1:s=1:stride=2,2:x_type=int8:w_type=int8:out_type=uint8:y_zero_point:bias=float32"
    "+conv2d:n=1:h=8:w=5:c=7:k=2:r=5:s=5:stride=2,2:pad=2,2,2,2:x_type=uint8:w_type=uint8:out_type=float32"
    ":x_zero_point:w_zero_point:bias=int32:activation=relu"
)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sm_80", "sm_90a", "sm_120"])
def test_no_load_comes_before_its_address(name: str) -> None:
    target = TARGETS[name]
    if reason := why_not(target):
        pytest.skip(reason)
    config = replace(TILE, first_n=1, second_m=2, second_n=1)
    random_plans = [fused_plan(problem, target, 0) for problem in fused_problems(8, 4, target)]
    # Their loops over subtiles are unrolled and have an exit in the middle.
    for family in ("gemv", "direct"):
        random_plans += [special_plan(family, problem, target, 0) for problem in special_problems(family, 8, 3)]
    for plan in (generator.plan(parse(ODD_STEPS), config, target), *random_plans):
        binary, _ = compiler_for(target).run(generator.render(plan))
        assert not unset_addresses(binary), f"{plan.problem} {plan.config}"


def _facts(named: tuple[str, Plan]) -> list[tuple[str, object]]:
    name, plan = named
    return [("problem", name), *asdict(plan.config).items()]


@pytest.mark.many
@pytest.mark.slow
def test_every_two_choices_of_a_dozen_spaces_compile_together() -> None:
    """Covers simt, whose spaces are products of many choices; the other families are above."""
    skipped = {name: reason for name in GENERATIONS if (reason := why_not(GPUS[name]))}
    if len(skipped) == len(GENERATIONS):
        pytest.skip("; ".join(skipped.values()))
    jobs = {}
    for target in (GPUS[name] for name in GENERATIONS if name not in skipped):
        spaces = [(name, plan) for name, problem in SMALL.items() for plan in generator.space(problem, target)[0]]
        for _, plan in covering([each for each in spaces if each[1].config.family == "simt"], _facts):
            # Equal texts are compiled once.
            jobs[target.name, generator.render(plan).digest] = (
                target.name,
                str(plan.problem),
                plan.config.as_json(),
            )
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        answers = list(pool.map(_complaint_about, jobs.values(), chunksize=16))
    print(f"\n{len(answers)} sources compiled; skipped: {skipped}")
    wrong = [answer for answer in answers if answer[3] is not None]
    assert not wrong, f"{len(wrong)} of {len(answers)} sources; the first:\n" + "\n".join(map(str, wrong[:5]))
