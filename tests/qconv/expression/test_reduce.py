"""The oracle of reductions against NumPy in float64, and against the order of folds that the contract states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from random_reductions import BOOLS, FLOATS, INTEGERS, inside, reduction

from qconv.expression import Reduce
from qconv.expression.reduce import folded, lanes_of
from qconv.op import LARGEST, Sample
from qconv.ops import registry

Wide = NDArray[np.float64]


def softmax(x: Wide, g: Wide, h: Wide) -> Wide:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def normalized(x: Wide, g: Wide, h: Wide) -> Wide:
    d = x - x.mean(-1, keepdims=True)
    return np.asarray(d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g + h[:, None])


WANTED: dict[str, Callable[[Wide, Wide, Wide], Wide]] = {
    "softmax": softmax,
    "normalization": normalized,
    "mean": lambda x, g, h: np.asarray(x.mean(-1)),
    "norm": lambda x, g, h: np.asarray(np.sqrt((x * x).sum(-1))),
    "weighted": lambda x, g, h: np.asarray((x * g).sum(-1) + h),
    "range": lambda x, g, h: np.asarray(np.ptp(x, -1)),
}


@pytest.mark.parametrize("columns", [1, 7, 64, 1000])
@pytest.mark.parametrize("name", WANTED)
def test_a_reduction_agrees_with_float64(name: str, columns: int) -> None:
    problem = reduction((5,), (columns,), "float32", FLOATS[name], "float32")
    sample = registry.draw(problem, columns)
    x, g, h = (array.astype(np.float64) for array in sample.arrays)
    (y,) = registry.compute(problem, sample)
    wanted = WANTED[name](x.reshape(5, columns), g, h)
    assert np.abs(y.ravel() - wanted.ravel()).max() <= 2e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_positions_are_the_first_ones(kind: str) -> None:
    problem = reduction((40,), (300,), "int8", f"y={kind}_of(x)", "int32")
    sample = registry.draw(problem, 1)
    (y,) = registry.compute(problem, sample)
    assert (y == getattr(sample.arrays[0].reshape(40, 300), kind)(-1)).all()


def test_a_nan_has_no_position() -> None:
    problem = reduction((3,), (4,), "float32", "y=argmax_of(x)", "int32")
    nan = np.nan
    x = np.array([[nan, 1, 2, nan], [nan] * 4, [-np.inf, nan, -np.inf, nan]], np.float32)
    others = registry.draw(problem, 1).arrays[1:]
    (y,) = registry.compute(problem, Sample((x.reshape(-1), *others)))
    assert y.tolist() == [2, 0, 0]


@pytest.mark.parametrize(("name", "numpy"), [("sum", np.sum), ("product", np.prod)])
def test_integers_wrap(name: str, numpy: Callable[..., NDArray[np.int64]]) -> None:
    problem = reduction((6,), (300,), "int32", INTEGERS[name], "int32")
    sample = registry.draw(problem, 2)
    (y,) = registry.compute(problem, sample)
    assert (y == numpy(sample.arrays[0].reshape(6, 300), -1, dtype=np.int64).astype(np.int32)).all()


@pytest.mark.parametrize(("name", "numpy"), [("any", np.any), ("all", np.all), ("any, as a sum", np.any)])
def test_bools(name: str, numpy: Callable[..., NDArray[np.bool_]]) -> None:
    problem = reduction((40,), (3,), "bool", BOOLS[name], "bool", inside)
    sample = registry.draw(problem, 3)
    (y,) = registry.compute(problem, sample)
    assert (y == numpy(sample.arrays[0].reshape(3, 40), 0)).all()


@pytest.mark.parametrize("columns", [1, 2, 3, 100, 256, 257, 1000])
def test_a_sum_is_in_the_order_of_the_contract(columns: int) -> None:
    x = np.random.default_rng(columns).standard_normal(columns).astype(np.float32)
    lanes = [np.float32(0)] * lanes_of(columns)
    for at, element in enumerate(x):
        lanes[at % len(lanes)] += element
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
    assert folded("sum", x) == lanes[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"do": "t0=x0[r0]"}, "the expression has no fold such as sum_of"),
        ({"columns": (), "do": "t0=sum_of(x0[r0])"}, "columns is empty"),
        ({"out": "int32"}, "the expression makes float32, which is stored as float32 or float16 or bfloat16"),
        ({"do": "t0=sum_of(x0[r0*8+c0+1])"}, "reads elements 1 to 32 of 32: guard it"),
        ({"rows": (2**20,), "columns": (2**11,), "do": "t0=sum_of(1.0)"}, f"at most {LARGEST} are supported"),
    ],
)
def test_what_is_no_reduction(given: dict[str, object], says: str) -> None:
    problem: dict[str, object] = {"rows": (4,), "columns": (8,), "in": "float32*32", "out": "float32"}
    with pytest.raises(ValueError, match=says):
        Reduce.of({**problem, "do": "t0=sum_of(x0[r0*8+c0])", **given})


def test_the_key_of_a_reduction_is_read_again() -> None:
    problem = reduction((4, 2), (3,), "float16", FLOATS["softmax"], "float16", inside)
    assert problem.y_shape == (4, 2, 3)
    assert registry.parse(problem.key) == problem
