"""The C++ line of every run-time value of an op between convolutions matches its NumPy line bit for bit, and refuses
the same parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from asked_values import asked, compiled, wanted
from random_tensor_ops import binary_problems, global_pools, pools

from qconv import generator
from qconv.arithmetic.step import Argument
from qconv.instances.library.entry import Entry
from qconv.instances.library.export import served
from qconv.instances.library.vectors import given
from qconv.instances.load.winners import Winner
from qconv.op import Array, Problem
from qconv.ops import registry
from qconv.targets.target import target
from qconv.tensor_ops import Add, AveragePool, Binary, GlobalAveragePool, binary, pooling
from qconv.tensor_ops.host_values import Scaled, host_value, limits

COUNT = 24


def problems() -> list[Problem]:
    found = [*binary_problems(28, COUNT), *pools(28, COUNT), *global_pools(28, COUNT // 2)]
    return [problem for problem in found if isinstance(problem, Scaled)]


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    plans = [generator.default(problem, target("sm_80")) for problem in problems()]
    return [Entry(served(Winner(plan.problem, plan.config, "sm_80", "default"))) for plan in plans]


@pytest.fixture(scope="module")
def library(entries: list[Entry], tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(entries, tmp_path_factory.mktemp("values"))


def drawn_anew(problem: Problem, values: dict[str, Array], rng: np.random.Generator) -> Iterator[dict[str, Array]]:
    """Draw scales of similar magnitude, most of which are not float32 numbers; then any; then at the accepted
    limits."""
    scales = [name for name in values if name.endswith("scale")]
    for span in (0.5, 0.5, 25):
        yield values | {name: values[name] * 10.0 ** rng.uniform(-span, span, 1) for name in scales}
    ones = values | {name: np.ones(1) for name in scales}
    for exponent in (-126, -32, 8, 14, 20, 90):
        for step in (-1, 0, 1):
            end = np.float64(np.float32(2.0**exponent) + step * np.spacing(np.float32(2.0**exponent))).reshape(1)
            yield ones | {scales[0]: end}
            yield ones | {scales[0]: end * getattr(problem, "pixels", 1)}
            yield ones | {scales[0]: end, "y_scale": 2.0 ** np.full(1, exponent - 4)}


def test_every_value_is_the_same_bit_for_bit(library: ctypes.CDLL, entries: list[Entry]) -> None:
    rng = np.random.default_rng(28)
    compared, refused = set[tuple[str, str]](), dict[str, int]()
    for number, entry in enumerate(entries):
        plan = entry.kernels[0].plan
        values = given(registry.draw(entry.problem, number))
        for each in (values, *drawn_anew(entry.problem, values, rng)):
            single = {name: array[0] for name, array in each.items()}
            for i, field in enumerate(plan.fields):
                if field.role != "value":
                    continue
                right = wanted(plan, i, single)
                assert asked(library, number, i, each, field.elements) == right, (str(entry.problem), field.path, each)
                compared.add((entry.problem.op, field.path))
                refused[entry.problem.op] = refused.get(entry.problem.op, 0) + (right is None)
    assert compared == set(every_argument()), "some value was never compared"
    assert len(refused) == 4
    assert min(refused.values()) > 10


def every_argument() -> Iterator[tuple[str, str]]:
    for problem in problems():
        if isinstance(problem, Binary):
            arguments = [made for step in binary.steps(problem) for made in step.arguments]
        else:
            assert isinstance(problem, AveragePool | GlobalAveragePool)
            arguments = list(pooling.arguments(problem))
        yield from ((problem.op, made.name) for made in arguments)


def test_a_value_without_a_line_is_named() -> None:
    unknown = Argument("gain", "float", False, "", lambda problem, p: 0)
    with pytest.raises(ValueError, match=r"the value 'gain' of add has no C\+\+ line: add it to"):
        host_value(Add(1, 1, 8), unknown)


def test_limits_are_told_in_the_terms_of_the_problem() -> None:
    assert [limit.says for limit in limits(Add(1, 1, 8))] == ["a_scale / y_scale", "b_scale / y_scale"]
    assert [limit.says for limit in limits(AveragePool(1, 4, 4, 8, 2, 2))] == ["x_scale", "x_scale / y_scale"]
