"""Near problems are those of a full scan, in every store, however the database filters."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import log2

import pytest

from qconv.arithmetic.quantization import Quantization
from qconv.conversion import Dequantize, Quantize
from qconv.op import Problem
from qconv.problem.chain import chain_of
from qconv.problem.convolution import Conv2d
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered, Source
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.nearness import distance, read_extents, shape_of
from qconv.tune_db.text import TextLayer, dump

Make = Callable[..., Measurement]
WHERE = ("NVIDIA H200", "sm_90a")
PROBLEM = Conv2d(1, 8, 8, 16, 16, 1, 1)


def far(a: Problem, b: Problem) -> float:
    return distance(shape_of(a), shape_of(b))


@pytest.mark.parametrize(
    "other",
    [
        replace(PROBLEM, layout="nchw"),
        replace(PROBLEM, quantization=Quantization(x_type="uint8")),
        replace(PROBLEM, quantization=Quantization(w_type="uint8")),
        replace(PROBLEM, quantization=Quantization(out_type="float16")),
        replace(PROBLEM, quantization=Quantization(w_zero_point=True)),
    ],
    ids=str,
)
def test_another_type_or_layout_is_half_a_doubling(other: Conv2d) -> None:
    assert far(PROBLEM, other) == 0.5


def test_extents_count_in_doublings() -> None:
    assert far(PROBLEM, replace(PROBLEM, quantization=Quantization(activation="relu"))) == 0
    assert far(PROBLEM, replace(PROBLEM, k=32)) == 1
    assert far(replace(PROBLEM, n=8), replace(PROBLEM, k=32)) == 4
    assert shape_of(PROBLEM).group != shape_of(Quantize(1, 8, 8)).group
    assert shape_of(Quantize(1, 8, 8)).group != shape_of(Dequantize(1, 8, 8)).group


@pytest.mark.parametrize("text", [None, 7, "8", "[]x", '["8"]', "[true]", "[0]", "[-1]", "[1.5]"])
def test_bad_extents_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"must be a list of positive integers|Extra data"):
        read_extents(text)


# As documented, on the problems themselves: of one op and one class, by distance and then by key.
def scanned(problem: Problem, known: list[Problem], within: float) -> list[tuple[float, Problem]]:
    found = []
    for other in known:
        if (other.op, other.shape_class) != (problem.op, problem.shape_class):
            continue
        doublings: float = sum(abs(log2(n / other.extents[name])) for name, n in problem.extents.items())
        doublings += 0.5 * sum(own != its for own, its in zip(problem.kinds, other.kinds, strict=True))
        if doublings <= within:
            found.append((doublings, other))
    return sorted(found, key=lambda pair: (pair[0], pair[1].key))


def random_problem(rng: random.Random) -> Problem:
    """Draw few extents, many of which are exactly a doubling away: keys break the ties."""
    if rng.random() < 0.2:
        extents = (rng.choice((1, 2)), rng.choice((1, 64, 96)), 2 ** rng.randrange(4, 12))
        return Quantize(*extents, x_type=rng.choice(("float32", "float16")), zero_point=rng.random() < 0.5)
    types = ("int8", "uint8")
    first = Conv2d(
        rng.choice((1, 2, 3, 4, 32)),
        *(rng.choice((7, 14)),) * 2,
        rng.choice((64, 128)),
        rng.choice((64, 128, 192)),
        *(rng.choice((1, 3)),) * 2,
        pad=1,
        quantization=Quantization(x_type=rng.choice(types), activation=rng.choice(("none", "relu"))),
    )
    layers = [first]
    for _ in range(rng.choice((0, 0, 1, 2))):
        last = layers[-1]
        layers.append(Conv2d(last.n, last.oh, last.ow, last.k, rng.choice((64, 128)), 1, 1))
    return first if len(layers) == 1 else chain_of(layers)


@pytest.mark.parametrize("seed", range(2))
def test_a_database_finds_what_a_scan_finds(make: Make, seed: int) -> None:
    rng = random.Random(seed)
    rows = []
    for number in range(200):
        outcome = rng.choice(("correct",) * 5 + ("timeout",))
        given = {"outcome": outcome, "device": rng.choice((*WHERE[:1] * 4, "another"))}
        rows.append(make(number, problem=random_problem(rng), **given))
    known = sorted({m.problem for m in rows if m.correct and m.device == WHERE[0]}, key=str)
    with Database.open("sqlite://") as database, Database.open("sqlite://") as half:
        text = TextLayer(dump(rows), "rows.json")
        database.merge(text)
        half.merge(TextLayer(dump(rows[:100]), "rows.json"))
        assert database.problems(*WHERE) == known
        stores: list[Source] = [database, text, Layered([half, text])]
        found = ties = 0
        for asked in [random_problem(rng) for _ in range(20)]:
            for within in (0.0, 0.5, 1.0, 4.0):
                wanted = scanned(asked, known, within)
                found += len(wanted)
                ties += sum(one[0] == other[0] for one, other in pairwise(wanted))
                for store in stores:
                    assert list(store.near(asked, *WHERE, within)) == wanted
        assert found > 150
        assert ties > 15
