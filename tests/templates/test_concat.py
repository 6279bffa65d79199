"""The kernels that concatenate rows of several tensors, compared with the oracle bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernel_checks import check_fault_is_found, check_sanitized
from random_tensor_ops import concats

from qconv import generator, parse
from qconv.device import open_device
from qconv.errors import Infeasible
from qconv.generator import Plan
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
        plan = random_plan(index, problem)
        assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


def random_plan(index: int, problem: Concat) -> Plan:
    plans, _ = generator.space(problem, CPU.target)
    return random.Random(f"{index} {problem}").choice(plans)


def test_random_plans_have_narrow_loads() -> None:
    """Some for rows that are aligned, and some for rows that are not, which leave no others."""
    found = set()
    for index, problem in enumerate(concats(2, 100)):
        config = config_of(random_plan(index, problem))
        if config.load < config.vector:
            found.add((config.load, problem.widest < problem.widest_store))
    assert found >= {(1, True), (1, False), (2, True), (2, False)}


def config_of(plan: Plan) -> ConcatConfig:
    assert isinstance(plan.config, ConcatConfig)
    return plan.config


SANITIZED = {
    "scales": (Concat(33, (16, 8, 24), tables=(1, 0, 1)), ConcatConfig(threads=128, vector=8, load=8, unroll=1)),
    "slices": (
        Concat(70, (4, 12), (20, 24), (16, 8), x_type="uint8"),
        ConcatConfig(threads=128, vector=4, load=4, unroll=2),
    ),
    "bytes": (Concat(41, (3, 5), (3, 9), (0, 4), (0, 1)), ConcatConfig(threads=128, vector=1, load=1, unroll=4)),
    "narrow loads": (
        Concat(90, (8, 16), (10, 22), (2, 4), (0, 1)),
        ConcatConfig(threads=128, vector=8, load=2, unroll=2),
    ),
    "loads of bytes": (Concat(70, (16,), (35,), (19,)), ConcatConfig(threads=128, vector=16, load=1, unroll=1)),
}


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    check_sanitized(generator.plan(*SANITIZED[name], CPU.target), sanitizer)


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
    check_fault_is_found(generator.plan(*SANITIZED["scales"], CPU.target), sanitizer, old, new)


def planted_in_loads(old: str, new: str) -> tuple[sanitized.SanitizerReport, bool]:
    """Return the report of a kernel with narrow loads and a planted bug, and whether its output is right."""
    problem, config = SANITIZED["narrow loads"]
    plan, drawn = generator.plan(problem, config, CPU.target), registry.draw(problem, 5)
    text = generator.render(plan).text
    assert text.count(old) == 1
    report, outs = sanitized.run(plan, drawn, "address", source=text.replace(old, new))
    return report, report.clean and outs[0].tobytes() == registry.compute(problem, drawn)[0].tobytes()


@pytest.mark.turns
def test_a_part_that_is_loaded_again_is_found() -> None:
    report, is_right = planted_in_loads("tile::load_vector<LOAD>(from + i)", "tile::load_vector<LOAD>(from)")
    assert report.clean
    assert not is_right


@pytest.mark.turns
def test_a_vector_of_a_row_that_is_not_aligned_is_found() -> None:
    report, _ = planted_in_loads("if constexpr (LOAD == VECTOR)", "if constexpr (true)")
    assert "misaligned" in report.text


def test_every_width_of_its_loads_and_stores() -> None:
    problem = Concat(7, (16, 32), (48, 32), (32, 0), (1, 0))
    plans, _ = generator.space(problem, CPU.target)
    kinds = {(config.vector, config.load): p for p in plans if (config := config_of(p)).threads == 128}
    assert set(kinds) == {(1, 1), (2, 1), (2, 2), (4, 1), (4, 2), (4, 4)}
    for plan in kinds.values():
        assert mismatch(load(plan, CPU), registry.draw(problem, 3)) is None, plan.config


def test_loads_are_as_wide_as_everything_allows() -> None:
    def widths(*numbers: tuple[int, ...]) -> tuple[int, int]:
        """Return the widths of the untuned config's stores and loads."""
        config = config_of(generator.default(Concat(8192, *numbers), TARGETS["sm_90a"]))
        return config.vector, config.load

    assert widths((64, 32)) == (16, 16)
    assert widths((64, 24)) == (8, 8)
    assert widths((40, 24)) == (8, 8)
    assert widths((64, 32), (64, 36)) == (16, 4)
    assert widths((64, 32), (64, 64), (0, 2)) == (16, 2)
    assert widths((64, 24), (65, 24)) == (8, 1)
    assert widths((63, 32)) == (1, 1)


@pytest.mark.parametrize(
    ("vector", "load", "says"),
    [(16, 8, "vector=16: .* a multiple of 8"), (8, 8, "load=8: .* a multiple of 4"), (2, 4, "load=4 .* vector=2")],
)
def test_what_a_config_cannot_serve(vector: int, load: int, says: str) -> None:
    config = ConcatConfig(threads=128, vector=vector, load=load, unroll=1)
    with pytest.raises(Infeasible, match=says):
        generator.plan(Concat(9, (64, 24), (64, 28)), config, TARGETS["sm_90a"])


def test_untuned_channels_of_a_row_that_is_not_aligned_are_stored_in_wide_vectors() -> None:
    """A network that splits 195 channels into 96, 96 and 3."""
    config = config_of(generator.default(Concat(25088, (96,), (195,), (99,)), TARGETS["sm_90a"]))
    assert config == ConcatConfig(threads=128, vector=16, load=1, unroll=1)


def test_sources_are_aligned_to_loads_and_the_output_to_stores() -> None:
    problem = Concat(8192, (96, 32), (196, 36), (100, 4), (1, 0))
    config = ConcatConfig(threads=128, vector=16, load=4, unroll=1)
    plan = generator.plan(problem, config, TARGETS["sm_90a"])
    assert plan.alignment == {"x0": 4, "x1": 4, "tables": 16, "y": 16}


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
