"""Random data for one convolution: arrays and parameters, drawn until the outputs have the promised variety."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qconv.ops.attempt import Array, Attempt, Drawn, Given
from qconv.ops.real_attempt import RealAttempt
from qconv.ops.window import Windows
from qconv.sampling.calibration import Style
from qconv.sampling.operands import Variety

ATTEMPTS = 8
# The share of windows in the padding above which those alone may explain one dominant value.
MOSTLY_PADDING = 0.45


def draw_layer(
    seen: Windows,
    rng: np.random.Generator,
    fixed: dict[str, int],
    style: Style,
    towards: int,
    given: Given | None = None,
    next_reads: Array | None = None,
) -> Drawn:
    """Return the first attempt with enough variety, also among the pixels that the next layer reads. Without one,
    return the last attempt with the reason why the problem prevents variety."""
    kind = Attempt if seen.problem.quantization.types.sum.is_integer else RealAttempt
    for attempt in range(ATTEMPTS):
        drawn = kind(seen, rng, fixed, replace(style, attempt=attempt), towards, given, next_reads is not None).drawn()
        if drawn.lacks:
            continue
        # The next layer's sampled windows may lie in the padding entirely.
        if next_reads is None or not len(next_reads):
            return drawn
        if not Variety.of(drawn.rows[np.searchsorted(seen.pixels, next_reads)]).lacks():
            return drawn
    return replace(drawn, forced=_why(seen, fixed, drawn.lacks)) if drawn.lacks else drawn


def _why(seen: Windows, fixed: dict[str, int], lacks: str) -> str:
    """Return which part of the problem prevents variety, or an empty text if none is known to."""
    padded = int(seen.padding_only.sum())
    if padded >= MOSTLY_PADDING * len(seen.pixels):
        return f"{lacks}: {padded} of {len(seen.pixels)} windows lie in the padding"
    if fixed:
        return f"{lacks}: given are {', '.join(f'{name}={value}' for name, value in fixed.items())}"
    return ""
