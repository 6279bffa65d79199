"""Random data for a problem that sees: full-range arrays, and parameters with which the outputs spread over their type.

`draw` guarantees `variety`: of 256 outputs or more at least 32 values, none of them in more than half, and no channel
constant; so does every tensor between the convolutions of a chain. Where a problem allows no such data, the sample says
why. It is calibrated on the sums of some outputs, computed exactly (`window`), and judged by these.

On purpose: a quarter of the samples have scales that are powers of two, and most of these coarse operands besides,
which make many ties (not large ones, which are timed: what a GPU takes depends on the bits that toggle); of requantized
outputs up to 5 % saturate at each end; zero points are at an end of their range in a fifth of the cases, and near its
middle in three tenths.
"""

from __future__ import annotations

from qconv.op import Problem, Sample
from qconv.ops import op_of

__all__ = ["Sample", "draw"]


def draw(problem: Problem, seed: int, fixed: dict[str, int] | None = None) -> Sample:
    """`fixed` holds zero points that the caller chose. Same seed, same sample."""
    return op_of(problem).draw(problem, seed, fixed or {})
