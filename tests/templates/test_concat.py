"""The kernels that concatenate rows of several tensors, compared with the oracle bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_tensor_ops import concats

from qconv import generator, parse
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.concat import ConcatConfig
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import Concat
from qconv.tensor_ops.concat import MOST_TENSORS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 100, 10))
def test_many_random_problems(first: int) -> None:
    for index, problem in enumerate(concats(2, 100)[first : first + 10], first):
        plans, _ = generator.space(problem, CPU.target)
        plan = random.Random(f"{index} {problem}").choice(plans)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


SANITIZED = {
    "scales": (Concat(33, (16, 8, 24), tables=(1, 0, 1)), ConcatConfig(threads=128, vector=8, unroll=1)),
    "slices": (
        Concat(70, (4, 12), (20, 24), (16, 8), x_type="uint8"),
        ConcatConfig(threads=128, vector=4, unroll=2),
    ),
    "bytes": (Concat(41, (3, 5), (3, 9), (0, 4), (0, 1)), ConcatConfig(threads=128, vector=1, unroll=4)),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED[name]
    plan = generator.plan(problem, config, CPU.target)
    assert sanitized.mismatch(plan, registry.draw(problem, 5), sanitizer) is None


@pytest.mark.turns
@pytest.mark.parametrize(
    ("old", "new", "sanitizer"),
    [
        ("    tile::barrier();\n", "", "thread"),
        ("if (first < ELEMENTS) store", "store", "address"),
        ("at < ENTRIES * TABLES;", "at <= ENTRIES * TABLES;", "address"),
    ],
    ids=["no barrier behind the tables", "a vector past the end", "a vector behind the tables"],
)
def test_a_planted_bug_is_found(old: str, new: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED["scales"]
    plan = generator.plan(problem, config, CPU.target)
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean


def test_every_width_of_its_loads() -> None:
    problem = Concat(7, (16, 32), (48, 32), (32, 0), (1, 0))
    plans, _ = generator.space(problem, CPU.target)
    kinds = {p.config.vector: p for p in plans if p.config.threads == 128}
    assert set(kinds) == {1, 2, 4}
    for plan in kinds.values():
        assert mismatch(load(plan, CPU), registry.draw(problem, 3)) is None, plan.config


def test_loads_are_as_wide_as_everything_allows() -> None:
    def vector(*numbers: tuple[int, ...]) -> int:
        config = generator.default(Concat(4096, *numbers), TARGETS["sm_90a"]).config
        assert isinstance(config, ConcatConfig)
        return config.vector

    assert vector((64, 32)) == 16
    assert vector((64, 24)) == 8
    assert vector((64, 32), (64, 36)) == 4
    assert vector((64, 32), (64, 64), (0, 2)) == 2
    assert vector((63, 32)) == 1
    with pytest.raises(Infeasible, match="multiple of 8"):
        generator.plan(Concat(9, (64, 24)), ConcatConfig(threads=128, vector=16, unroll=1), TARGETS["sm_90a"])


def test_the_key_and_the_data() -> None:
    problem = Concat(5, (4, 4), (4, 4), (0, 0), (0, 0))
    assert str(problem) == "concat:rows=5:widths=4,4:x_type=int8"
    assert parse("concat:rows=5:widths=4,4:strides=4,9:tables=1,0:x_type=uint8") == Concat(
        5, (4, 4), (4, 9), (), (1, 0), "uint8"
    )
    *tensors, tables = registry.draw(Concat(5000, (1, 1, 1), tables=(1, 0, 1)), 1).arrays
    assert tables.shape == (2, 256)
    assert all(np.unique(array).size == 256 for array in (*tensors, *tables))


@pytest.mark.parametrize(
    ("says", "given"),
    [
        ("must have 1 to 16", {}),
        ("must have 1 to 16", {"widths": (1,) * (MOST_TENSORS + 1)}),
        ("as many as widths", {"widths": (4, 4), "strides": (4,)}),
        ("does not lie in a row of 6", {"widths": 4, "strides": 6, "offsets": 3}),
        ("must be 1 for a tensor that is looked up", {"widths": 4, "tables": 2}),
        ("split it", {"widths": 2**20, "rows": 2**11}),
        ("widths=0", {"widths": (4, 0)}),
    ],
)
def test_what_is_refused(says: str, given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=says):
        Concat(**{"rows": 3, **given})  # type: ignore[arg-type]
