"""The kernels of non-maximum suppression keep the oracle's boxes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_tensor_ops import suppressions

from qconv import generator
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.nms import NmsConfig
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import NonMaxSuppression
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
SANITIZED = {
    "fewer boxes than threads": NonMaxSuppression(2, 2, 5, 5),
    "few of many are kept": NonMaxSuppression(1, 2, 150, 3, center=True),
    "all may be kept": NonMaxSuppression(1, 3, 70, 70),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    plan = generator.plan(SANITIZED[name], NmsConfig(threads=64), CPU.target)
    assert sanitized.mismatch(plan, registry.draw(SANITIZED[name], 5), sanitizer) is None


@pytest.mark.turns
@pytest.mark.parametrize("says", ["all threads have read it", "all threads have read the count"])
def test_a_missing_barrier_is_found(says: str) -> None:
    problem = SANITIZED["all may be kept"]
    plan = generator.plan(problem, NmsConfig(threads=64), CPU.target)
    text, old = generator.render(plan).text, f"tile::barrier();  // {says}\n"
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), "thread", source=text.replace(old, ""))
    assert not report.clean


def test_no_config_changes_what_is_kept() -> None:
    for index, problem in enumerate(suppressions(3, 12)):
        for plan in generator.space(problem, CPU.target)[0]:
            assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


def test_more_boxes_than_a_word_has_bits_for() -> None:
    problem = NonMaxSuppression(1, 1, 64 * 40, 64 * 40)
    kernel = load(generator.plan(problem, NmsConfig(threads=64), CPU.target), CPU)
    for seed in range(2):
        assert mismatch(kernel, registry.draw(problem, seed)) is None


def test_scores_of_every_kind() -> None:
    """Covers equal ones, infinities, and NaN, which is never kept."""
    problem = NonMaxSuppression(1, 1, 9, 9)
    kernel = load(generator.plan(problem, NmsConfig(threads=64), CPU.target), CPU)
    boxes = np.arange(9, dtype=np.float32).reshape(1, 9, 1) * np.array([2, 2, 2, 2], np.float32)
    boxes[..., 2:] += 1
    scores = np.array([0.5, np.nan, np.inf, -np.inf, 0.5, -0.0, 0.0, -1, 0.5], np.float32).reshape(1, 1, 9)
    for least, kept in ((np.nan, [2, 0, 4, 8, 5, 6, 7, 3]), (0.0, [2, 0, 4, 8]), (-np.inf, [2, 0, 4, 8, 5, 6, 7])):
        given = Sample((boxes, scores, np.array([0.5, least], np.float32)))
        assert mismatch(kernel, given) is None
        (y,) = registry.compute(problem, given)
        assert y[0, 0] == len(kept)
        np.testing.assert_array_equal(y[1 : len(kept) + 1, 2], kept)


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(suppressions(2, 60)[first : first + 10], first):
        plan = random.Random(f"{index} {problem}").choice(generator.space(problem, CPU.target)[0])
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


def test_more_boxes_than_shared_memory_has_bits_for() -> None:
    with pytest.raises(Infeasible, match=r"bytes of shared memory on sm_90a: .*; at most"):
        generator.plan(NonMaxSuppression(1, 1, 2**21, 1), NmsConfig(threads=64), TARGETS["sm_90a"])
