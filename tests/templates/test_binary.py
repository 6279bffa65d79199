"""The kernels of add and mul compared with the oracle, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_tensor_ops import TELLING, binary_problems

from qconv import generator
from qconv.device import open_device
from qconv.dtypes import RANGES
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.binary import BinaryConfig
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.targets.target import TARGETS
from qconv.tensor_ops import Add, Binary, Mul
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


def check(problem: Binary, seed: int) -> None:
    plans, _ = generator.space(problem, CPU.target)
    plan = random.Random(f"{seed} {problem}").choice(plans)
    assert mismatch(load(plan, CPU), registry.draw(problem, seed)) is None, f"{problem} {plan.config}"


def test_random_problems() -> None:
    for index, problem in enumerate(binary_problems(1, 2)):
        check(problem, index)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(binary_problems(2, 120)[first : first + 10], first):
        check(problem, index)


@pytest.mark.parametrize("kind", [Add, Mul])
def test_all_pairs_of_bytes(kind: type[Binary]) -> None:
    """One kernel serves all: scales and zero points are its arguments."""
    low, high = RANGES["uint8"]
    every = np.arange(low, high + 1, dtype=np.uint8)
    pairs = (np.repeat(every, 256).reshape(1, 1, -1), np.tile(every, 256).reshape(1, -1))
    problem = kind(1, 1, 2**16, "uint8", "uint8", "uint8")
    loaded = load(generator.default(problem, CPU.target), CPU)
    for numbers in TELLING:
        assert mismatch(loaded, Sample(pairs, numbers)) is None, numbers


SANITIZED: dict[str, tuple[Binary, BinaryConfig]] = {
    "vectors and a tail": (Add(1, 1, 1003, activation="relu"), BinaryConfig(threads=64, vector=4, unroll=2)),
    "a factor a channel and image": (Mul(2, 9, 32, b_type="uint8"), BinaryConfig(threads=64, vector=16, unroll=1)),
    "a number a row": (Mul(3, 24, 1), BinaryConfig(threads=64, vector=8, unroll=1)),
    "a row ends within a vector": (Mul(3, 21, 1), BinaryConfig(threads=64, vector=4, unroll=1)),
    "rows within a vector": (Add(2, 5, 7, out_type="uint8"), BinaryConfig(threads=64, vector=4, unroll=1)),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), "address") is None


def test_no_two_threads_write_one_output() -> None:
    problem, config = SANITIZED["vectors and a tail"]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), "thread") is None


def test_a_vector_past_the_end_is_found() -> None:
    problem, config = SANITIZED["vectors and a tail"]
    plan = generator.plan(problem, config, CPU.target)
    text, old = generator.render(plan).text, "if (first + VECTOR <= ELEMENTS) pairs"
    assert old in text
    report, _ = sanitized.run(
        plan, registry.draw(problem, 5), "address", source=text.replace(old, "if (first < ELEMENTS) pairs")
    )
    assert not report.clean


def test_the_output_may_be_the_first_tensor() -> None:
    problem = Add(1, 1, 2**16, "uint8", "uint8", "uint8")
    loaded = load(generator.default(problem, CPU.target), CPU)
    drawn = registry.draw(problem, 1)
    a, b = (array.copy() for array in drawn.arrays)
    want = loaded(*drawn.arrays, **drawn.parameters)
    assert np.array_equal(loaded(a, b, out=a, **drawn.parameters), want)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (BinaryConfig(threads=64, vector=1, unroll=1), "only tensors of fewer than 512"),
        (BinaryConfig(threads=512, vector=16, unroll=4), "elements of a tile"),
        (BinaryConfig(threads=64, vector=3, unroll=1), "vector=3 is not one of"),
    ],
)
def test_what_a_config_cannot_serve(config: BinaryConfig, says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(Add(1, 1, 10_000), config, TARGETS["sm_90a"])
