"""The needs of a kernel: the memory that it keeps on the device, and the time that it is predicted to take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from qconv import generator
from qconv.dtypes import ELEMENT_TYPES
from qconv.generator import Plan
from qconv.instances.load.serving import in_sequence, lookup
from qconv.op import Problem

WORD = 4  # bytes per element of the memory that a kernel owns


@dataclass(frozen=True)
class Needs:
    """`weight_bytes` are packed weights, constants and values per channel; `workspace_bytes` the memory that a call
    clears and uses. `predicted_us` is None where no cost model predicts a time."""

    weight_bytes: int = 0
    workspace_bytes: int = 0
    predicted_us: float | None = None

    @classmethod
    def of(cls, plan: Plan) -> Needs:
        weights = sum(_weights_of(kernel) for kernel in plan.kernels)
        scratch = sum(WORD * field.elements for kernel in plan.kernels for field in kernel.scratch)
        return cls(weights, scratch, _predicted_us(plan))


def needs_of(problems: Iterable[Problem], spec: str) -> Needs:
    """Return the needs of all kernels that have been looked up for a layer on this device."""
    with in_sequence():
        found = [Needs.of(lookup(problem, spec).plan) for problem in problems]
    times = [one.predicted_us for one in found]
    predicted_us = None if None in times or not times else sum(us or 0.0 for us in times)
    return Needs(sum(one.weight_bytes for one in found), sum(one.workspace_bytes for one in found), predicted_us)


def _weights_of(kernel: Plan) -> int:
    tensors = {tensor.name: tensor for tensor in kernel.problem.inputs}
    packed = (tensors[name] for name in kernel.problem.packed)
    given = sum(prod(tensor.shape) * ELEMENT_TYPES[tensor.dtype].bytes for tensor in packed)
    own = (field for field in kernel.fields if field.role in ("value", "workspace") and field.is_pointer)
    return given + sum(WORD * field.elements for field in own)


def _predicted_us(plan: Plan) -> float | None:
    """Return the time by the corrected cost models. They are of GPUs, and some families have none of times."""
    if plan.target.vendor == "cpu" or not generator.predicts_time(plan.problem):
        return None
    (one,) = generator.expected([plan])
    return one.us
