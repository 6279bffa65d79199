"""The whole numbers that a node can be contain all that it is, and are known for what products of bytes are made of."""

from __future__ import annotations

import numpy as np
import pytest

from qconv.expression import Map
from qconv.expression.whole import Range, whole
from qconv.ops import registry


def of(do: str, operands: str = "uint8*9,int8*9,int32*9,float32*9,bool*9", out: str = "int32") -> Map:
    problem = registry.parse(f"map:shape=9:in={operands}:out={out}:do={do}")
    assert isinstance(problem, Map)
    return problem


KNOWN = {
    "t0=x0[i0];t1=subtract(t0,x1[i0])": (-127, 383),
    "t0=subtract(x1[i0],x1[0]);t1=multiply(t0,t0)": (-65025, 65025),
    "t0=add(x0[i0],x1[i0]);t1=negate(t0)": (-382, 128),
    "t0=wrap_int8(x2[i0]);t1=maximum(t0,-5)": (-5, 127),
    "t0=wrap_uint16(x2[i0]);t1=minimum(t0,7)": (0, 7),
    "t0=looked_up(x1,minimum(maximum(x2[i0],0),8))": (-128, 127),
    "t0=guarded(x0[i0-1],-3,i0-1,9)": (-3, 255),
    "t0=to_int32(to_float32(x0[i0]))": (0, 255),
    "t0=to_int32(x4[i0])": None,
}
UNKNOWN = (
    "t0=x2[i0]",
    "t0=nearest(x3[i0])",
    "t0=subtract(x0[i0],x2[i0])",
    "t0=guarded(x0[i0-1],x2[i0],i0-1,9)",
    "t0=multiply(multiply(x0[i0],x0[i0]),multiply(x0[i0],x0[i0]))",
    "t0=to_int32(multiply(to_float32(x0[i0]),0.5))",
    "t0=bit_xor(x0[i0],x1[i0])",
)


@pytest.mark.parametrize("do", KNOWN)
def test_known_bounds(do: str) -> None:
    problem = of(do)
    bounds = KNOWN[do]
    assert whole(problem, problem.root) == (None if bounds is None else Range(*bounds))


@pytest.mark.parametrize("do", UNKNOWN)
def test_unknown_bounds(do: str) -> None:
    problem = of(do)
    assert whole(problem, problem.root) is None


@pytest.mark.parametrize("do", [do for do, bounds in KNOWN.items() if bounds])
def test_every_value_is_within_the_bounds(do: str) -> None:
    problem = of(do)
    low, high = KNOWN[do] or (0, 0)
    for seed in range(20):
        (y,) = registry.compute(problem, registry.draw(problem, seed))
        assert low <= np.min(y)
        assert np.max(y) <= high


def test_a_float_that_is_whole() -> None:
    problem = of("t0=to_float32(subtract(x0[i0],x0[0]))", out="float32")
    assert whole(problem, problem.root) == Range(-255, 255)
    assert Range(-7, 3).magnitude == 7
