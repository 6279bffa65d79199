"""For one problem the first layer with an answer wins; everything else is a union."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered, Source
from qconv.tune_db.measurement import KEPT, LOST, Measurement
from qconv.tune_db.text import TextLayer, dump

Make = Callable[..., Measurement]
WHERE = ("NVIDIA H200", "sm_90a")


def text_layer(rows: list[Measurement]) -> TextLayer:
    return TextLayer(dump(rows), "rows.json")


def test_the_first_layer_with_an_answer_wins(make: Make, problem: Conv2d, other_problem: Conv2d) -> None:
    mine, shipped, only_shipped = make(0, median_us=9.0), make(1, median_us=5.0), make(2, problem=other_problem)
    with Database.open("sqlite://") as database:
        layers = Layered([database, text_layer([shipped, only_shipped])])
        assert layers.best(problem, *WHERE) == shipped
        database.add(make(3, outcome="runtime"))
        assert layers.best(problem, *WHERE) == shipped, "a failure is no answer"
        database.add(mine)
        assert layers.best(problem, *WHERE) == mine, "measured here counts for more than measured faster elsewhere"
        assert layers.best(other_problem, *WHERE) == only_shipped
        assert layers.best(problem, "other", "sm_90a") is None


def test_rows_and_problems_are_united(make: Make, problem: Conv2d, other_problem: Conv2d) -> None:
    first = [make(0, median_us=9.0)]
    second = [make(0, median_us=5.0), make(1), make(0, problem=other_problem)]
    layers = Layered([text_layer(first), text_layer(second)])
    assert layers.measurements() == [first[0], *second[1:]]
    assert layers.measurements(problem=problem) == [first[0], second[1]]
    assert layers.measurements(device="other") == []
    assert layers.problems(*WHERE) == [problem, other_problem]


def test_of_what_networks_kept_the_first_layer_has_the_newest(
    make: Make, problem: Conv2d, other_problem: Conv2d
) -> None:
    def row(number: int, phase: str, day: int, **given: Any) -> Measurement:
        return make(number, protocol={"phase": phase}, created_at=datetime(2026, 1, day, tzinfo=UTC), **given)

    mine = [row(0, KEPT, 2), row(1, KEPT, 3, median_us=11.0), row(2, LOST, 4), make(3)]
    shipped = [row(4, KEPT, 5), row(5, KEPT, 1, problem=other_problem)]
    layers = Layered([text_layer(mine), text_layer(shipped)])
    assert layers.kept(problem, *WHERE) == mine[1]
    assert layers.kept(other_problem, *WHERE) == shipped[1]
    assert layers.kept(problem, "other", "sm_90a") is None
    assert layers.in_sequence() == [*mine[:3], *shipped]
    assert Layered([text_layer([row(2, LOST, 4), make(3)])]).kept(problem, *WHERE) is None


def test_rows_by_rank_are_of_all_layers(make: Make, problem: Conv2d) -> None:
    """In the first layer's version: a row that failed there is not correct, whatever the other layers say."""
    mine = [make(0, outcome="runtime"), make(1, median_us=9.0), make(2, median_us=7.0)]
    shipped = [make(0, median_us=1.0), make(1, median_us=2.0), make(3, median_us=8.0)]
    with Database.open("sqlite://") as database:
        for row in mine:
            database.add(row)
        layers = Layered([database, text_layer(shipped)])
        assert list(layers.ranked(problem, *WHERE)) == [mine[2], shipped[2], mine[1]]
        assert list(Layered([database, text_layer([])]).ranked(problem, *WHERE)) == [mine[2], mine[1]]
        assert list(Layered([text_layer([]), database]).ranked(problem, *WHERE)) == [mine[2], mine[1]]
        assert list(Layered([]).ranked(problem, *WHERE)) == []


def test_layers_nest_and_close(make: Make, problem: Conv2d) -> None:
    source: Source
    with Layered([Layered([]), Layered([text_layer([make()])])]) as source:
        assert source.best(problem, *WHERE) == make()
    assert Layered([]).best(problem, *WHERE) is None
    database = Database.open("sqlite://")
    with Layered([database, text_layer([])]):
        pass
    assert database._closed


def test_a_text_layer_answers_as_a_database_does(make: Make, problem: Conv2d, other_problem: Conv2d) -> None:
    rows = [make(n, median_us=20.0 - n) for n in range(5)]
    rows += [make(5, outcome="compile"), make(0, device="AMD", target="gfx942")]
    rows += [make(0, problem=other_problem, outcome="timeout")]
    rows.sort(key=lambda m: m.key)  # in the order of the text
    layer = text_layer(rows)
    with Database.open("sqlite://") as database:
        for row in rows:
            database.add(row)
        for where in (WHERE, ("AMD", "gfx942"), ("AMD", "sm_90a")):
            assert layer.problems(*where) == database.problems(*where)
            for p in (problem, other_problem):
                assert layer.best(p, *where) == database.best(p, *where)
        for given in ({}, {"problem": problem}, {"device": "AMD"}, {"target": "sm_90a", "problem": other_problem}):
            assert layer.measurements(**given) == database.measurements(**given)
