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
    q = problem.quantization
    expected = reference.conv2d(problem, sample.x, sample.w, sample.parameters.checked(q, problem.k))
    out = device.empty(problem.y_shape, q.out_type)
    device.fill(out, POISON)
    instance(device.upload(sample.x), device.upload(sample.w), out=out, **vars(sample.parameters))
    device.synchronize()
    got = np.asarray(device.download(out))
    wrong = np.flatnonzero(_bits(got) != _bits(expected))
    if wrong.size == 0:
        return None
    where = tuple(int(i) for i in np.unravel_index(wrong[0], problem.y_shape))
    return (
        f"{wrong.size} of {got.size} outputs differ from the oracle; the first at (n, h, w, k) = {where}: "
        f"{got[where]} instead of {expected[where]}"
    )


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """As unsigned integers: -0.0 is not 0.0, and NaN is itself."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()
