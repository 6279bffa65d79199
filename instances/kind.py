"""Which problems are of one kind: a winner of one says something of another's."""

from __future__ import annotations

from functools import lru_cache

from qconv.dtypes import DATA_TYPES
from qconv.fused import Chain
from qconv.op import Problem
from qconv.problem import Conv2d

# Channels in a step of the reduction: what divides them leaves no remainder.
WHOLE_STEP = 64
# Bytes of the widest load or store.
WIDEST = 16


@lru_cache(maxsize=4096)
def kind_of(problem: Problem) -> tuple[object, ...]:
    """Everything that decides which families serve a problem, how wide they load and store, and which remainders they
    compute. Between problems whose kinds differ, a config that is fast for one can be many times too slow for the
    other, however close their extents are."""
    if isinstance(problem, Chain):
        return tuple(kind_of(one) for one in problem.stages.values())
    if isinstance(problem, Conv2d):
        return _kind_of_convolution(problem)
    return tuple(_alignment(extent, WIDEST) for extent in problem.extents.values())


def _kind_of_convolution(problem: Conv2d) -> tuple[object, ...]:
    q = problem.quantization
    depthwise = problem.c_group == problem.k_group == 1 < problem.groups
    if depthwise:  # no reduction over channels: a thread's vectors run across the groups
        channels: tuple[int, ...] = (_alignment(problem.c, WIDEST),)
    else:
        channels = (_alignment(problem.c_group, WHOLE_STEP), _alignment(problem.k_group, WHOLE_STEP))
    return (
        problem.layout,
        DATA_TYPES[q.out_type].bytes,
        q.w_zero_point,
        problem.groups > 1,
        *channels,
        problem.r * problem.s > 1,
        problem.stride,
    )


def _alignment(extent: int, most: int) -> int:
    """The largest power of two that divides it, up to `most`."""
    return min(extent & -extent, most)
