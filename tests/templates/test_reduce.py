"""The kernels of reductions compared with the oracle, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_reductions import BOOLS, FLOATS, INTEGERS, between, inside, pixels_outside, reduction, reductions

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.expression import Reduce
from qconv.expression.problem import Operand
from qconv.generator.families.expression.reduce import ReduceConfig
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


def config(threads: int, team: int, vector: int = 1, across: int = 0, unroll: int = 1, keep: int = 0) -> ReduceConfig:
    return ReduceConfig(threads, team, vector, across, unroll, keep)


SOFTMAX, NORMALIZATION, MEAN = FLOATS["softmax"], FLOATS["normalization"], FLOATS["mean"]
LARGEST, DISTANCE = INTEGERS["largest and where"].replace("P(", "to_int32("), INTEGERS["distance"]
CASES = {
    "several warps, values kept": (
        reduction((3,), (520,), "float16", SOFTMAX, "float16"),
        config(128, 64, vector=4, unroll=4, keep=1),
    ),
    "more lanes in a vector than members": (
        reduction((70,), (64,), "float32", SOFTMAX, "float32"),
        config(64, 2, vector=16, unroll=2),
    ),
    "folds of folds in batches": (
        reduction((5,), (1000,), "int8", NORMALIZATION, "float16"),
        config(64, 32, vector=4, unroll=2),
    ),
    "neighbouring rows": (
        reduction((3, 8), (49,), "int8", MEAN, "float32", inside),
        config(64, 16, vector=4, across=1, unroll=4),
    ),
    "rows of columns far apart": (
        reduction((8,), (33,), "float16", SOFTMAX, "float32", inside),
        config(64, 8, vector=2, across=1, unroll=8),
    ),
    "channels of groups, of neighbouring threads": (
        reduction((3, 8), (49, 4), "int8", MEAN, "float32", between),
        config(64, 16, vector=4, across=2, unroll=4),
    ),
    "threads of neighbouring rows, values kept": (
        reduction((8,), (36,), "float16", SOFTMAX, "float32"),
        config(64, 8, vector=2, across=2, unroll=4, keep=1),
    ),
    "one column": (reduction((9,), (1,), "float32", SOFTMAX, "float32"), config(64, 1)),
    "257 columns": (reduction((2,), (257,), "float32", MEAN, "float32"), config(64, 32, unroll=8)),
    "no rows": (reduction((), (1000,), "float16", MEAN, "float16"), config(256, 256, unroll=2)),
    "positions": (reduction((4,), (90,), "int32", LARGEST, "int32"), config(64, 16, vector=2, unroll=1)),
    "long integers": (reduction((4,), (90,), "int64", DISTANCE, "int64"), config(64, 32, vector=2, unroll=2)),
    "bools": (reduction((4,), (90,), "bool", BOOLS["any"], "bool"), config(64, 8, vector=2, unroll=2)),
}
SANITIZED = (
    "several warps, values kept",
    "channels of groups, of neighbouring threads",
    "neighbouring rows",
    "folds of folds in batches",
)


def plan(name: str) -> generator.Plan:
    problem, chosen = CASES[name]
    return generator.plan(problem, chosen, CPU.target)


@pytest.mark.turns
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_gives_the_oracles_bits(name: str) -> None:
    assert mismatch(load(plan(name), CPU), registry.draw(CASES[name][0], 5)) is None


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    assert sanitized.mismatch(plan(name), registry.draw(CASES[name][0], 5), sanitizer) is None


@pytest.mark.turns
@pytest.mark.parametrize("at", [0, 1])
def test_a_missing_barrier_is_found(at: int) -> None:
    name = "neighbouring rows"
    text, old = generator.render(plan(name)).text, "    tile::barrier();\n"
    parts = text.split(old)
    source = old.join(parts[: at + 1]) + old.join(parts[at + 1 :])
    assert source != text
    report, _ = sanitized.run(plan(name), registry.draw(CASES[name][0], 5), "thread", source=source)
    assert not report.clean


SPECIAL = np.array([np.nan, 0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize("across", [0, 1, 2])
@pytest.mark.parametrize("kind", ["argmax", "argmin", "maximum", "minimum"])
def test_equal_elements_zeros_of_both_signs_and_nans(kind: str, across: int) -> None:
    """Rows of one special value, and of two and of all of them in random order, most often zeros of both signs."""
    rng = np.random.default_rng(7)
    rows = [np.full(68, value) for value in SPECIAL] + [rng.choice(SPECIAL[1:3], 68) for _ in range(16)]
    rows += [rng.choice(SPECIAL[2 * at % 5 :][:2], 68) for at in range(13)] + [
        rng.choice(SPECIAL, 68) for _ in range(12)
    ]
    x = np.stack(rows).astype(np.float32)
    problem = reduction(x.shape[:1], (68,), "float32", f"y={kind}_of(x)", "int32" if "arg" in kind else "float32")
    chosen = config(64, 8, vector=4, across=across, unroll=16 if across == 1 else 4)
    kernel = load(generator.plan(problem, chosen, CPU.target), CPU)
    others = registry.draw(problem, 1).arrays[1:]
    assert mismatch(kernel, Sample((x.reshape(-1), *others))) is None


def test_every_kind_of_config_of_a_softmax_gives_the_same_bits() -> None:
    problem = reduction((4,), (48,), "float32", SOFTMAX, "float32")
    plans, _ = generator.space(problem, CPU.target)
    kinds = {}
    for one in plans:
        assert isinstance(one.config, ReduceConfig)
        kinds[one.config.across, one.config.keep, one.config.vector > 1, one.config.team > 1] = one
    assert len(kinds) == 14
    sample = registry.draw(problem, 3)
    for kind in random.Random(3).sample(sorted(kinds), 4):
        assert mismatch(load(kinds[kind], CPU), sample) is None, kinds[kind].config


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(reductions(2, 120)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        one = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(one, CPU), registry.draw(problem, index)) is None, f"{problem} {one.config}"


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (config(64, 128), "threads of a team, in a block: 128; at most 64"),
        (config(64, 32, vector=16), "vector=16 does not divide the last extent of columns"),
        (config(64, 8, vector=2, across=1), "vector=2 does not divide the last extent of rows"),
        (config(64, 8, across=2), "across=2 is across=1 where vector=1"),
        (config(64, 64, vector=8), "columns of a team's vectors .*: 512; at most 256"),
        (config(64, 32, unroll=4), "unroll=4 is no multiple of the 8 vectors that cover the lanes"),
        (config(256, 256, unroll=8), r"vectors in flight \(a thread has 4 of a row\): 8; at most 7"),
        (config(256, 256, unroll=2, keep=1), "keep=1 keeps the values of all 4 vectors of a thread"),
    ],
)
def test_what_a_config_cannot_serve(chosen: ReduceConfig, says: str) -> None:
    problem = reduction((3,), (1000,), "float32", SOFTMAX, "float32")
    with pytest.raises(Infeasible, match=says):
        generator.plan(problem, chosen, TARGETS["sm_90a"])


@pytest.mark.parametrize(
    ("problem", "across", "vector_bytes"),
    [
        (reduction((32768,), (1024,), "float16", SOFTMAX, "float16"), 0, 16),
        (reduction((65536,), (768,), "float32", NORMALIZATION, "float32"), 0, 16),
        (reduction((64, 512), (784,), "int8", MEAN, "float32", pixels_outside), 1, 8),
    ],
)
def test_the_default_reads_a_large_problem_once_in_wide_vectors(
    problem: Reduce, across: int, vector_bytes: int
) -> None:
    chosen = generator.default(problem, TARGETS["sm_90a"])
    assert isinstance(chosen.config, ReduceConfig)
    assert chosen.config.across == across
    assert chosen.alignment["x0"] >= vector_bytes
    named = {each.name: each.value for each in chosen.constants["Derived values."]}
    assert named["BATCHES"] == 1


def test_a_thread_holds_no_more_bytes_than_it_can_unpack() -> None:
    """Thirteen vectors of two tensors took 1216 bytes of the stack on sm_90a, and five times as long."""
    operands = (Operand("uint8", 401408), Operand("uint8", 401408))
    do = "s=sum_of(add(to_float32(x0[c0*128+r0]),to_float32(x1[c0*128+r0])));y=s"
    problem = Reduce(operands, "float32", do, rows=(128,), columns=(3136,))
    for unroll in (8, 16):
        chosen = config(256, 256, vector=16, across=1, unroll=unroll)
        if unroll == 8:
            generator.plan(problem, chosen, TARGETS["sm_90a"])
        else:
            with pytest.raises(Infeasible, match="registers of a thread for its elements"):
                generator.plan(problem, chosen, TARGETS["sm_90a"])


def test_the_default_of_groups_reads_neighbours_by_neighbouring_threads() -> None:
    problem = reduction((32, 32), (16384, 4), "int8", MEAN, "float32", between)
    chosen = generator.default(problem, TARGETS["sm_90a"]).config
    assert isinstance(chosen, ReduceConfig)
    assert (chosen.across, chosen.vector) == (2, 4)
