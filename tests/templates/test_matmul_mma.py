"""The kernels of matmul_mma, on emulated matrix instructions, give the oracle's sums, bit for bit."""

from __future__ import annotations

import random
from functools import cache
from itertools import islice

import numpy as np
import pytest
from exactness import check
from kernel_checks import check_fault_is_found, check_sanitized, random_plans
from random_matmuls import matmuls

from qconv import generator
from qconv.device import open_device
from qconv.device.cpu_runtime import Sanitizer
from qconv.errors import Infeasible
from qconv.expression import MatMul
from qconv.generator.families.expression.matmul_mma import CHOICES, MatMulMma, MatMulMmaPlan, promising
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS

CPU = open_device("cpu.sm_80")
DIFFERENCES = "multiply(to_float32(subtract(x0[{}],x2[0])),to_float32(subtract(x1[{}],x2[1])))"


def of(key: str) -> MatMul:
    problem = registry.parse(f"matmul:{key}")
    assert isinstance(problem, MatMul)
    return problem


def bytes_of(m: int, n: int, k: int, left: str, right: str, more: str = "", out: str = "float32") -> MatMul:
    do = f"s=sum_of({DIFFERENCES.format(left, right)}){more}"
    return of(f"m={m}:n={n}:k={k}:in=uint8*{m * k},uint8*{k * n},uint8*2!:out={out}:do={do}")


def integers(m: int, n: int, k: int) -> MatMul:
    do = f"s=sum_of(multiply(subtract(x0[m0*{k}+k0],x2[0]),x1[n0*{k}+k0]))"
    return of(f"m={m}:n={n}:k={k}:in=uint8*{m * k},int8*{k * n},uint8*1!:out=int32:do={do}")


NAMED: dict[str, tuple[MatMul, tuple[int, ...]]] = {
    "one product": (bytes_of(1, 1, 1, "m0", "n0"), (16, 16, 16, 8, 32)),
    "vectors of eight": (bytes_of(40, 24, 64, "m0*64+k0", "n0*64+k0"), (32, 32, 16, 16, 64)),
    "vectors of four, ragged": (bytes_of(37, 19, 36, "m0*36+k0", "n0*36+k0"), (32, 16, 16, 8, 32)),
    "no vectors": (bytes_of(33, 17, 49, "m0*49+k0", "n0*49+k0"), (16, 32, 16, 16, 64)),
    "a factor across k": (bytes_of(70, 34, 50, "m0*50+k0", "k0*34+n0"), (64, 32, 32, 32, 32)),
    "sums in several parts": (integers(18, 17, 1030), (16, 16, 16, 8, 128)),
    "quantized, transposed": (
        of(
            "batch=2:m=19:n=20:k=24:in=uint8*912,uint8*960,uint8*2!,float32*1!:out=uint8:order=n0,b0,m0:"
            "do=s=sum_of(" + DIFFERENCES.format("b0*456+m0*24+k0", "b0*480+k0*20+n0") + ");"
            "t=nearest(multiply(s,x3[0]));y=minimum(maximum(t,0),255)"
        ),
        (16, 32, 16, 16, 32),
    ),
    "sums over two axes": (
        of(
            "m=21:n=18:k=5,12:in=int8*1260,int8*1080:out=int32:"
            "do=s=sum_of(multiply(x0[k0*252+m0*12+k1],x1[k0*216+n0*12+k1]))"
        ),
        (32, 16, 32, 8, 32),
    ),
}


def plan_of(name: str) -> MatMulMmaPlan:
    problem, numbers = NAMED[name]
    plan = generator.plan(problem, MatMulMma(*numbers), CPU.target)
    assert isinstance(plan, MatMulMmaPlan)
    return plan


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMED)
def test_every_bit_is_the_oracles(name: str) -> None:
    check(plan_of(name), CPU, 3)


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("device", ["cpu.gfx908", "cpu.gfx942", "cpu.gfx950", "cpu.gfx1201"])
def test_every_bit_is_the_oracles_by_amds_instructions(device: str, name: str) -> None:
    amd, problem = open_device(device), NAMED[name][0]
    plan = generator.plan(problem, MatMulMma(64, 64, 32, 32, 64), amd.target)
    check(plan, amd, 4)


def test_the_vectors() -> None:
    assert {name: (near.vector, len(near.loads)) for name in NAMED for near in [plan_of(name).neighbours]} == {
        "one product": (1, 0),
        "vectors of eight": (8, 2),
        "vectors of four, ragged": (4, 2),
        "no vectors": (1, 0),
        "a factor across k": (1, 0),
        "sums in several parts": (1, 0),
        "quantized, transposed": (8, 1),
        "sums over two axes": (4, 2),
    }


def test_the_largest_products_are_exact() -> None:
    """The sums of 258 products of 255 and 255 are the largest that fp32 holds exactly; longer ones are integers."""
    problem = bytes_of(17, 16, 258, "m0*258+k0", "n0*258+k0")
    arrays = (np.full(17 * 258, 255, np.uint8), np.full(16 * 258, 255, np.uint8), np.zeros(2, np.uint8))
    kernel = load(generator.plan(problem, MatMulMma(16, 16, 16, 8, 64), CPU.target), CPU)
    assert (kernel(*arrays) == 258 * 255 * 255).all()
    rng, long = np.random.default_rng(1), integers(17, 16, 1000)
    left, right = rng.integers(250, 256, (17, 1000), np.uint8), rng.integers(-128, -120, (16, 1000), np.int8)
    kernel = load(generator.plan(long, MatMulMma(16, 16, 16, 8, 128), CPU.target), CPU)
    got = kernel(left.reshape(-1), right.reshape(-1), np.zeros(1, np.uint8))
    np.testing.assert_array_equal(got, left.astype(np.int64) @ right.T)


@cache
def drawn(seed: int, count: int) -> list[generator.Plan]:
    rng = random.Random(f"matmul_mma {seed}")
    served = (one for one in matmuls(seed, 6 * count) if next(promising(one, CPU.target, CHOICES), None))
    plans = (random_plans(problem, MatMulMma, CHOICES, CPU.target, rng) for problem in islice(served, count))
    return [next(plan for plan in every if plan.threads <= 256) for every in plans]


@pytest.mark.turns
@pytest.mark.parametrize("index", range(8))
def test_random_products(index: int) -> None:
    check(drawn(1, 8)[index], CPU, index)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 160, 20))
def test_many_random_products(first: int) -> None:
    for index, plan in enumerate(drawn(2, 160)[first : first + 20]):
        check(plan, CPU, index)


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", ["vectors of four, ragged", "sums in several parts"])
def test_nothing_is_found(name: str, sanitizer: Sanitizer) -> None:
    check_sanitized(plan_of(name), sanitizer)


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sanitizer", "old", "new"),
    [
        ("thread", "        tile::barrier();\n", ""),
        ("thread", "const int buffer = slab % BUFFERS;", "const int buffer = 0;"),
        ("thread", "first_column);\n    tile::barrier();\n", "first_column);\n"),
        ("address", "at = Side::EXTENT - 1;", "at = Side::EXTENT + 999;"),
        (
            "address",
            "terms(args, batch, at, is_behind ? 0 : first + part, some);",
            "terms(args, batch, at, first + part + 9999, some);",
        ),
    ],
)
def test_a_planted_fault_is_found(sanitizer: Sanitizer, old: str, new: str) -> None:
    check_fault_is_found(plan_of("sums in several parts"), sanitizer, old, new)


@pytest.mark.parametrize(
    ("problem", "config", "says"),
    [
        (bytes_of(8, 8, 259, "m0*259+k0", "n0*259+k0"), (16, 16, 16, 8, 32), "sums of products in float32"),
        (bytes_of(8, 8, 8, "m0*8+k0", "n0*8+k0"), (16, 16, 32, 8, 32), "tile_m=16 is not whole warps of warp_m=32"),
        (
            of("m=8:n=8:k=8:in=float32*64,float32*64:out=float32:do=s=sum_of(multiply(x0[m0*8+k0],x1[n0*8+k0]))"),
            (16, 16, 16, 8, 32),
            "the factors are not known to be whole numbers up to 2048",
        ),
    ],
)
def test_what_it_does_not_serve(problem: MatMul, config: tuple[int, ...], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, MatMulMma(*config), CPU.target)


def test_targets_without_the_instruction() -> None:
    for name in ("cpu", "sm_75", "gfx1100"):
        with pytest.raises(Infeasible, match="has no matrix instruction of fp16 factors"):
            generator.plan(plan_of("one product").problem, MatMulMma(16, 16, 16, 8, 32), TARGETS[name])
