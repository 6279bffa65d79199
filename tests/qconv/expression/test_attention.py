"""The op `attention`: its oracle is that of its three parts, in turn; and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from random_attentions import Sizes, attentions, of

from qconv.expression import Attention
from qconv.op import Sample
from qconv.ops import registry

SMALL = Sizes((2, 2), 5, 7, 8, 6)


@pytest.mark.parametrize("index", range(8))
def test_it_is_its_parts_in_turn(index: int) -> None:
    problem = attentions(3, 8)[index]
    drawn = registry.draw(problem, index)
    assert registry.parse(problem.key) == problem
    arrays, made = list(drawn.arrays), []
    for part in (problem.scores, problem.weights, problem.values):
        own = [*made, *(arrays.pop(0) for _ in part.operands[len(made) :])]
        (y,) = registry.compute(part, Sample(tuple(own)))
        made = [y.reshape(-1)]
    assert not arrays
    (got,) = registry.compute(problem, drawn)
    np.testing.assert_array_equal(got, y)


def test_the_operands() -> None:
    """They are those of the parts in order, and behind them what a part gives to the next one."""
    problem = of(SMALL, by="table")
    assert [one.text for one in problem.operands] == [
        *("uint8*160", "uint8*224", "uint8*1!"),
        "float32*256!",
        *("uint8*168", "uint8*1!"),
    ]
    scores, weights, values = problem.joined
    for part, names in ((scores, "x0[ x2[0]"), (weights, "x6[r0*7+c0] looked_up(x3,"), (values, "x7[ x4[ x5[0]")):
        assert all(name in part.do for name in names.split())
    assert [tensor.name for tensor in problem.inputs] == ["x0", "x1", "x2", "x3", "x4", "x5"]
    assert problem.packed == ("x2", "x3", "x5")


def test_what_it_costs() -> None:
    problem = of(SMALL)
    assert problem.operations == 2 * 4 * 5 * 7 * (8 + 6)
    assert problem.io_bytes == 160 + 224 + 1 + 168 + 1 + 4 * 120


def keys(problem: Attention) -> list[str]:
    return [part.key for part in (problem.scores, problem.weights, problem.values)]


@pytest.mark.parametrize(
    ("part", "old", "new", "says"),
    [
        (0, "matmul:", "map:", "joins map, reduce, matmul; an attention is a matmul, a reduce and a matmul"),
        (0, ":do=", ":order=b0,b1,n0,m0:do=", "the scores have order=b0,b1,n0,m0"),
        (1, "rows=20:columns=7", "rows=10:columns=14", "each row of the scores is one of the weights"),
        (1, "t8=multiply(t7,1500.0);t9=minimum(t8,255.0)", "t9=minimum(t6,255.0)", "one number per row"),
        (1, "in=uint8", "in=int8", "x0 of the weights is int8.140: it is what the part before gives, uint8.140"),
        (1, "r0*7+c0", "r0*7+c0/2", "the weights read x0 at other places than x0"),
        (2, "m=5:n=6", "m=4:n=6", r"m=\(4,\) of the values, but \(5,\) of the scores"),
        (2, "k=7", "k=6", r"the values have k=\(6,\), which are 7 keys"),
    ],
)
def test_what_is_refused(part: int, old: str, new: str, says: str) -> None:
    given = keys(of(SMALL))
    assert old in given[part]
    given[part] = given[part].replace(old, new)
    with pytest.raises(ValueError, match=says):
        registry.parse("+".join(given))


def test_weights_are_multiplied_once() -> None:
    """The right factor of a single row could read them as well."""
    given = keys(of(Sizes((2,), 1, 7, 8, 6)))
    given[2] = given[2].replace("x1[b0*42+n0*7+k0]", "x0[b0*7+k0]")
    with pytest.raises(ValueError, match="the values read a weight beside the left factor"):
        registry.parse("+".join(given))
