"""The kernels of matmul give the oracle's sums, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_matmuls import convolution, convolutions, matmuls, transposed

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.expression import MatMul
from qconv.generator.families.expression.matmul import CHOICES, MatMulConfig, MatMulPlan
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
BYTES = (
    "do=s=sum_of(multiply(subtract(x0[b0*130+m0*10+k0],x2[b0]),x1[n0*10+k0]));"
    "t=to_int32(maximum(0.0,minimum(255.0,round(multiply(to_float32(add(s,x3[n0])),x4[n0])))))"
)


def of(key: str) -> MatMul:
    problem = registry.parse(f"matmul:{key}")
    assert isinstance(problem, MatMul)
    return problem


def plain(m: int, n: int, k: int, dtype: str = "float32") -> MatMul:
    do = f"s=sum_of(multiply(x0[m0*{k}+k0],x1[k0*{n}+n0]))"
    return of(f"m={m}:n={n}:k={k}:in={dtype}*{m * k},{dtype}*{k * n}:out={dtype}:do={do}")


NAMED: dict[str, tuple[MatMul, tuple[int, ...]]] = {
    "one product": (plain(1, 1, 1), (64, 8, 8, 8, 1, 8)),
    "a row": (plain(1, 37, 50), (128, 1, 8, 1, 1, 32)),
    "a column": (plain(37, 1, 50), (64, 64, 1, 1, 1, 16)),
    "ragged tiles, many slabs": (plain(45, 70, 61), (64, 16, 32, 2, 4, 8)),
    "ragged tiles, long sums": (plain(45, 17, 61, "int64"), (64, 32, 16, 8, 1, 16)),
    "factors of two axes, transposed": (
        of(
            "batch=2:m=5,3:n=9:k=4,6:in=float32*720,float32*216:out=float16:order=n0,b0,m1,m0:"
            "do=s=sum_of(multiply(x0[k0*180+k1*30+b0*15+m0*3+m1],x1[k1*36+k0*9+n0]))"
        ),
        (64, 16, 8, 1, 2, 16),
    ),
    "bytes with zero points": (
        of(f"batch=3:m=13:n=12:k=10:in=uint8*390,int8*120!,uint8*3,int32*12!,float32*12!:out=uint8:{BYTES}"),
        (64, 8, 16, 4, 1, 8),
    ),
    "a convolution of groups": (
        convolution(2, (7, 6), 6, 10, (3, 2), stride=2, dilation=2, pad=2, groups=2),
        (64, 32, 8, 4, 4, 8),
    ),
    "a convolution, channels first": (
        convolution(1, (6, 7), 5, 9, (2, 3), pad=1, channels_last=False),
        (128, 64, 16, 4, 2, 16),
    ),
    "a transposed convolution": (transposed(2, (3, 4), 3, 5, 3, 2), (64, 64, 8, 8, 1, 16)),
}


def plan_of(name: str) -> MatMulPlan:
    problem, numbers = NAMED[name]
    plan = generator.plan(problem, MatMulConfig(*numbers), CPU.target)
    assert isinstance(plan, MatMulPlan)
    return plan


@pytest.mark.parametrize("name", NAMED)
def test_every_bit_is_the_oracles(name: str) -> None:
    plan = plan_of(name)
    assert mismatch(load(plan, CPU), registry.draw(plan.problem, 3)) is None


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 9)])
def test_a_product_that_is_too_small_keeps_its_sign(m: int, n: int) -> None:
    """The slab has more terms than the sum. Added to it, +0 would give +0 instead of -0."""
    kernel = load(generator.plan(plain(m, n, 1), MatMulConfig(64, 8, 8, 8, 1, 8), CPU.target), CPU)
    tiny = np.full(m, -1e-30, np.float32), np.full(n, 1e-30, np.float32)
    (expected,) = registry.compute(kernel.plan.problem, Sample(tiny))
    assert np.signbit(expected).all()
    assert mismatch(kernel, Sample(tiny)) is None


def test_neighbouring_threads_read_and_write_neighbours() -> None:
    def along(problem: MatMul) -> tuple[int | bool, ...]:
        constants = generator.default(problem, TARGETS["sm_90a"]).constants["Derived values."]
        values = {constant.name: constant.value for constant in constants}
        return tuple(values[name] for name in ("LEFT_ALONG_K", "RIGHT_ALONG_K", "WRITE_ALONG_M"))

    assert along(plain(64, 64, 64)) == (True, False, False)
    last = convolution(1, (16, 16), 32, 32, (3, 3), pad=1)
    assert along(last) == (True, True, False)
    assert along(convolution(1, (16, 16), 32, 32, (3, 3), pad=1, channels_last=False)) == (False, True, True)


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"),
    [(1, 1000, 2048, 1), (32, 1000, 512, 1), (197, 64, 197, 12), (64, 64, 32, 64), (512, 512, 512, 1)],
)
def test_a_default_occupies_a_gpu(m: int, n: int, k: int, batch: int) -> None:
    do = f"s=sum_of(multiply(x0[b0*{m * k}+m0*{k}+k0],x1[b0*{n * k}+n0*{k}+k0]))"
    operands = f"float32*{batch * m * k},float32*{batch * n * k}"
    problem = of(f"batch={batch}:m={m}:n={n}:k={k}:in={operands}:out=float32:do={do}")
    plan = generator.default(problem, TARGETS["sm_90a"])
    assert isinstance(plan, MatMulPlan)
    assert plan.blocks >= 100


SANITIZED = ("ragged tiles, many slabs", "bytes with zero points", "a convolution of groups")


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    plan = plan_of(name)
    assert sanitized.mismatch(plan, registry.draw(plan.problem, 5), sanitizer) is None


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sanitizer", "old", "new"),
    [
        ("thread", "        tile::barrier();\n", ""),
        ("thread", "const int buffer = slab % BUFFERS;", "const int buffer = 0;"),
        ("address", "at = Side::EXTENT - 1;", "at = Side::EXTENT + 999;"),
    ],
)
def test_a_planted_fault_is_found(sanitizer: sanitized.Sanitizer, old: str, new: str) -> None:
    plan = plan_of("ragged tiles, many slabs")
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(plan.problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 10))
def test_many_random_problems(first: int) -> None:
    problems = [one for pair in zip(matmuls(2, 80), convolutions(2, 40) * 2, strict=True) for one in pair]
    for index, problem in enumerate(problems[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


def test_each_way_to_share_a_tile_is_searched() -> None:
    plans, _ = generator.space(plain(300, 300, 300), TARGETS["sm_90a"])
    for name, values in CHOICES.items():
        assert {getattr(plan.config, name) for plan in plans} == set(values), name


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ((64, 8, 8, 3, 1, 8), "thread_m=3 is not one of 1, 2, 4, 8"),
        ((64, 1, 8, 8, 1, 8), "thread_m, of a tile of tile_m=1: 8; at most 1"),
        ((64, 32, 32, 1, 1, 8), "threads that multiply: 1024; at most 64"),
        ((64, 128, 128, 8, 8, 8), "threads that multiply: 256; at most 64"),
        ((64, 16, 16, 2, 2, 128), "terms of a slab per thread: 64; at most 24"),
    ],
)
def test_what_a_config_cannot_serve(config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(plain(64, 64, 64), MatMulConfig(*config), TARGETS["sm_90a"])
