"""Whether a kernel computes what the oracle does: fresh random data, a poisoned output, tolerance 0."""

from __future__ import annotations

from qconv.instances.pair import Chosen
from qconv.sample import Sample
from qconv.tuner.workload import Workload


def mismatch(instance: Chosen, sample: Sample) -> str | None:
    """None where every bit is right, else what is wrong, in one line."""
    return Workload(instance.problem, instance.device, sample).mismatch(instance)
