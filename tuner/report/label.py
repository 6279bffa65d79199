"""A problem's key as people read it."""

from __future__ import annotations

from qconv.op import Problem

# The types that almost all problems have.
USUAL_TYPES = ":x_type=int8:w_type=int8:out_type=int8"


def label_of(problem: Problem) -> str:
    """Return the key as words that a line may break between, without the usual types."""
    return str(problem).replace(USUAL_TYPES, "").replace("+", " + ").replace(":", " ")
