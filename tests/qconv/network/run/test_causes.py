"""Causes: what follows from a layer counts for it, and the weightiest stands first."""

from __future__ import annotations

from typing import Any

from qconv.network.run.causes import causes_of
from qconv.network.run.report import ELSEWHERE, LayerReport


def row(name: str, why: str, follows: str | None = None, **given: Any) -> LayerReport:
    given = {"bytes_in": 0, "bytes_out": 0, "operations": 0} | given
    return LayerReport(name, name.upper(), ELSEWHERE, why, follows=follows, **given)


def test_what_follows_counts_for_the_layer_that_it_follows() -> None:
    rows = [
        row("a", "far", "b", bytes_in=5),
        row("b", "near", "c", operations=7),
        row("c", "itself", cure="mend it", bytes_out=3),
        row("d", "alone", operations=6),
    ]
    first, second = causes_of(rows)
    assert (first.why, first.layers, first.operations, first.bytes, first.cure) == ("itself", ("c",), 7, 8, "mend it")
    assert (str(first), str(second)) == ("C 1: itself", "D 1: alone")


def test_bytes_decide_between_equal_multiplications() -> None:
    rows = [row("a", "few", bytes_in=1), row("b", "unknown", bytes_in=None), row("c", "many", bytes_in=9)]
    assert [one.why for one in causes_of(rows)] == ["many", "few", "unknown"]


def test_layers_that_follow_each_other_are_causes() -> None:
    (cause,) = causes_of([row("a", "moves", "b"), row("b", "moves", "a"), row("c", "moves", "gone")])
    assert sorted(cause.layers) == ["a", "b", "c"]
