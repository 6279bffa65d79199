"""Whether a kernel computes what the oracle does: fresh random data, a poisoned output, tolerance 0."""

from __future__ import annotations

from typing import Any

import numpy as np

from qconv import reference
from qconv.instances.instance import Instance
from qconv.sample import Sample

POISON = 0xA5


def mismatch(instance: Instance, sample: Sample) -> str | None:
    """None where every bit is right, else what is wrong, in one line."""
    problem, device = instance.problem, instance.device
    outs = tuple(device.empty(tensor.shape, tensor.dtype) for tensor in problem.outputs)
    for out in outs:
        device.fill(out, POISON)
    arrays = [device.upload(array) for array in sample.arrays]
    bound = instance.bind(*arrays, out=outs if len(outs) > 1 else outs[0], **sample.parameters)
    bound()
    if instance.plan.scratch:  # the second launch begins with what the first one left there
        device.synchronize()
        for out in outs:
            device.fill(out, POISON)
        bound()
    device.synchronize()
    for tensor, out, expected in zip(problem.outputs, outs, reference.compute(problem, sample), strict=True):
        got = np.asarray(device.download(out))
        wrong = np.flatnonzero(_bits(got) != _bits(expected))
        if wrong.size:
            where = tuple(int(i) for i in np.unravel_index(wrong[0], tensor.shape))
            return (
                f"{wrong.size} of {got.size} outputs {tensor.name} differ from the oracle; the first at {where}: "
                f"{got[where]} instead of {expected[where]}"
            )
    return None


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As unsigned integers: -0.0 is not 0.0, and NaN is itself."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()
