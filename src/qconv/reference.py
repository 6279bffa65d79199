"""The oracle: what one problem computes, exactly, in NumPy. Every op brings its own."""

from __future__ import annotations

from qconv.op import Array, Problem, Sample
from qconv.ops import op_of


def compute(problem: Problem, drawn: Sample) -> tuple[Array, ...]:
    """The outputs that every kernel must give, bit for bit."""
    return op_of(problem).compute(problem, drawn)
