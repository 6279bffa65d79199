"""Deliberate features of a conversion's data: ties, which random numbers would not contain."""

from __future__ import annotations

import numpy as np

from qconv.conversion import Quantize
from qconv.dtypes import RANGES
from qconv.ops import registry


def test_ties_and_saturation_are_among_the_quotients() -> None:
    ties = beyond = 0
    low, high = RANGES["int8"]
    for seed in range(20):
        x, scale = registry.draw(Quantize(1, 1, 1000), seed).arrays
        with np.errstate(all="ignore"):
            quotients = (x.astype(np.float64) / scale.astype(np.float64)).ravel()
        quotients = quotients[np.isfinite(quotients)]
        ties += int(np.count_nonzero(np.abs(quotients % 1) == 0.5))
        beyond += int(np.count_nonzero((quotients < low) | (quotients > high)))
    assert ties > 200, f"{ties} of 20000 quotients are ties"
    assert beyond > 200, f"{beyond} of 20000 quotients are beyond the type"


def test_scales_are_powers_of_two_here_and_there() -> None:
    """Ties of such scales are exact."""
    scales = np.concatenate([registry.draw(Quantize(1, 64, 4), seed).arrays[1].ravel() for seed in range(20)])
    mantissas, _ = np.frexp(scales)
    share = np.mean(mantissas == 0.5)
    assert 0.2 < share < 0.6, share
