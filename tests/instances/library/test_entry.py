"""The parts of a winner that have parameters, and what the library's table says of them."""

from __future__ import annotations

import pytest

from qconv import generator
from qconv.instances.library.entry import Entry
from qconv.instances.library.export import served
from qconv.instances.library.table import table_text
from qconv.instances.load.winners import Winner
from qconv.op import Problem
from qconv.targets.target import target
from qconv.tensor_ops import Add, AveragePool, GlobalAveragePool, MaxPool


def entry_of(problem: Problem) -> Entry:
    plan = generator.default(problem, target("sm_80"))
    return Entry(served(Winner(problem, plan.config, "sm_80", "default")))


@pytest.mark.parametrize("problem", [Add(1, 1, 8), AveragePool(1, 4, 4, 8, 2, 2), GlobalAveragePool(1, 4, 8)], ids=str)
def test_an_op_with_scales_is_a_layer(problem: Problem) -> None:
    entry = entry_of(problem)
    assert entry.layers == (("", problem),)
    assert '"y_scale"' in table_text([entry])


def test_an_op_without_parameters_is_no_layer() -> None:
    assert entry_of(MaxPool(1, 4, 4, 8, 2, 2)).layers == ()
