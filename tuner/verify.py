"""Whether a kernel computes what the oracle does: fresh random data, a poisoned output, tolerance 0."""

from __future__ import annotations

from qconv.instances.pair import Runnable
from qconv.sample import Sample
from qconv.tuner.input_sets import InputSets


def mismatch(runnable: Runnable, sample: Sample) -> str | None:
    """None where every bit is right, else what is wrong, in one line."""
    return InputSets(runnable.problem, runnable.device, sample).mismatch(runnable)
