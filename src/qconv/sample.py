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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv import calibration
from qconv.calibration import Style
from qconv.conversion import Conversion
from qconv.conversion import sample as conversion_sample
from qconv.draft import Given, draw_stage
from qconv.fused import Chain
from qconv.op import Problem
from qconv.problem import Conv2d
from qconv.quantization import Quantization
from qconv.window import Windows, windows

Array = NDArray[Any]

POWERS_OF_TWO, COARSE = 0.25, 0.75
CHAINS = 4  # draws of a chain, at most


@dataclass(frozen=True)
class Sample:
    """The arrays of one call in their order, and its parameters by name. `forced` says why the problem cannot have
    outputs of the variety that is promised, by stage for a chain; mostly it is empty."""

    arrays: tuple[Array, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    forced: tuple[str, ...] = ()


def draw(problem: Problem, seed: int, fixed: dict[str, int] | None = None) -> Sample:
    """`fixed` holds zero points that the caller chose. Same seed, same sample."""
    if isinstance(problem, Conversion):
        converted, forced = conversion_sample.drawn(problem, seed)
        return Sample(converted, forced=forced)
    rng = np.random.default_rng(seed)
    if isinstance(problem, Chain):
        return _draw_chain(problem, rng, fixed or {})
    assert isinstance(problem, Conv2d)
    (seen,) = windows([problem], rng)
    drawn = draw_stage(seen, rng, fixed or {}, _style([seen], rng), _towards(problem.quantization, fixed or {}))
    return Sample(drawn.arrays, drawn.parameters, tuple(filter(None, [drawn.forced or drawn.lacks])))


def _draw_chain(problem: Chain, rng: np.random.Generator, fixed: dict[str, int]) -> Sample:
    """What one stage draws can leave the next no data that spreads: then the whole chain is drawn anew."""
    drawn, lacks = _draft_chain(problem, rng, fixed)
    for _ in range(CHAINS - 1):
        if not lacks:
            break
        drawn, lacks = _draft_chain(problem, rng, fixed)
    return replace(drawn, forced=(*drawn.forced, *(f"{lack}, in {CHAINS} draws" for lack in lacks)))


def _draft_chain(problem: Chain, rng: np.random.Generator, fixed: dict[str, int]) -> tuple[Sample, list[str]]:
    """A sample, and what its stages lack for no known reason."""
    arrays: list[Array] = []
    parameters: dict[str, Any] = {}
    forced: list[str] = []
    lacks: list[str] = []
    given: Given | None = None
    every = windows(list(problem.stages.values()), rng)
    style = _style(every, rng)
    chosen = {stage: problem.of_stage(stage, fixed) for stage in problem.stages}
    reads = [*(seen.reads for seen in every[1:]), None]
    for (stage, one), seen, read in zip(problem.stages.items(), every, reads, strict=True):
        towards = _towards(one.quantization, chosen[stage])
        drawn = draw_stage(seen, rng, chosen[stage], style, towards, given, read)
        arrays += drawn.arrays
        names = problem.names(stage)
        parameters |= {names[own]: value for own, value in drawn.parameters.items() if own in names}
        if drawn.forced:
            forced.append(f"{stage}: {drawn.forced}")
        elif drawn.lacks:
            lacks.append(f"{stage}: {drawn.lacks}")
        if one is not problem.last:
            given = Given(drawn.parameters["y_scale"], drawn.parameters["y_zero_point"], seen.pixels, drawn.rows)
    return Sample(tuple(arrays), parameters, tuple(forced)), lacks


def _towards(q: Quantization, fixed: dict[str, int]) -> int:
    """The sign that most values before the activation should have; 0: any."""
    return calibration.side(q, fixed.get("y_zero_point") if q.y_zero_point else 0)


def _style(every: list[Windows], rng: np.random.Generator) -> Style:
    powers, coarse = rng.random(2) < (POWERS_OF_TWO, COARSE)
    return Style(bool(powers), bool(powers and coarse and all(seen.complete for seen in every)))
