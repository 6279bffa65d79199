"""The kernels that look elements up in a table of 256 entries, compared with the oracle bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from qconv import generator, parse
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator.families.tensor_ops.table import TableConfig
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tensor_ops import Table
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
SANITIZED = {
    "vectors and a tail": (Table(9999), TableConfig(threads=128, vector=4, unroll=2, rounds=4, copies=8)),
    "a copy for each lane": (
        Table(4100, "uint8"),
        TableConfig(threads=128, vector=16, unroll=1, rounds=1, copies=32),
    ),
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
        ("if (first + VECTOR <= ELEMENTS) x", "if (first < ELEMENTS) x", "address"),
    ],
    ids=["no barrier behind the table", "a vector past the end"],
)
def test_a_planted_bug_is_found(old: str, new: str, sanitizer: sanitized.Sanitizer) -> None:
    problem, config = SANITIZED["vectors and a tail"]
    plan = generator.plan(problem, config, CPU.target)
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("elements", [1, 255, 513, 40_001])
def test_every_width_and_every_number_of_copies(elements: int) -> None:
    problem = Table(elements)
    plans, _ = generator.space(problem, CPU.target)
    kinds = {(p.config.vector, p.config.copies): p for p in plans if p.config.threads == 128}
    assert kinds
    for plan in kinds.values():
        assert mismatch(load(plan, CPU), registry.draw(problem, elements)) is None, plan.config


def test_what_a_config_cannot_serve() -> None:
    config = TableConfig(threads=128, vector=1, unroll=1, rounds=1, copies=1)
    with pytest.raises(Infeasible, match="only tensors of fewer than 512"):
        generator.plan(Table(1000), config, TARGETS["sm_90a"])


@pytest.mark.parametrize("elements", [2**24, 6_021_120, 1_505_280])
def test_the_default_is_what_was_fastest(elements: int) -> None:
    """On an H200 at these sizes: one copy of the table, one wide load per thread, small blocks."""
    config = generator.default(Table(elements), TARGETS["sm_90a"]).config
    assert config == TableConfig(threads=128, vector=16, unroll=1, rounds=1, copies=1)


def test_the_key_and_the_data() -> None:
    assert str(Table(9)) == "table:elements=9:x_type=int8:out_type=int8"
    assert parse("table:elements=9:out_type=uint8") == Table(9, out_type="uint8")
    with pytest.raises(ValueError, match="has no elements"):
        parse("table:x_type=int8")
    x, table = registry.draw(Table(5000), 1).arrays
    assert np.unique(table).size == 256
    assert np.unique(x).size == 256
