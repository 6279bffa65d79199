"""The coefficients of the functions of preludes and of expressions, as pages read them: the arguments of a C++ call."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from qconv.arithmetic import activation
from qconv.expression import elementary


@lru_cache(maxsize=1)
def polynomials() -> dict[str, str]:
    """Return those in fp32, each as the shortest text of its number."""
    every = activation.POLYNOMIALS | elementary.POLYNOMIALS
    return {name: _listed([f"{np.float32(term)!s}f" for term in terms]) for name, terms in every.items()}


@lru_cache(maxsize=1)
def series() -> dict[str, str]:
    """Return those in fp64."""
    return {name: _listed([repr(term) for term in terms]) for name, terms in elementary.SERIES.items()}


def _listed(spelled: list[str]) -> str:
    """Format texts as arguments of a C++ call, four per line."""
    return ",\n".join(", ".join(spelled[at : at + 4]) for at in range(0, len(spelled), 4))
