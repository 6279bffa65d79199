"""One problem's data on one device, the same for every candidate: drawn once, uploaded once, its oracle run once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from qconv import reference
from qconv.device import Device
from qconv.instances.instance import Bound
from qconv.instances.pair import Chosen
from qconv.op import Problem
from qconv.sample import Sample
from qconv.step import Array

POISON = 0xA5
MOST_SETS = 2048


class Workload:
    """`rotated_bytes`: launches that are timed go round input sets of at least this size in total. `expected` is what
    the oracle says, where that is known already."""

    def __init__(
        self,
        problem: Problem,
        device: Device,
        sample: Sample,
        rotated_bytes: int = 0,
        expected: tuple[Array, ...] | None = None,
    ) -> None:
        self.problem = problem
        self.device = device
        self._sample = sample
        self._rotated_bytes = rotated_bytes
        self._known = expected

    def mismatch(self, instance: Chosen) -> str | None:
        """A call into a poisoned output: None where every bit is right, else what is wrong, in one line."""
        arrays, outs = self._first
        bound = instance.bind(*arrays, out=_one_or_all(outs), **self._sample.parameters)
        for _ in range(2 if instance.plan.scratch else 1):  # a second launch begins with what the first one left there
            for out in outs:
                self.device.fill(out, POISON)
            bound()
            self.device.synchronize()
        for tensor, out, expected, wanted in zip(self.problem.outputs, outs, self._expected, self._wanted, strict=True):
            if self.device.same(out, wanted):
                continue
            got = np.asarray(self.device.download(out))
            wrong = np.flatnonzero(_bits(got) != _bits(expected))
            where = tuple(int(i) for i in np.unravel_index(wrong[0], tensor.shape))
            return (
                f"{wrong.size} of {got.size} outputs {tensor.name} differ from the oracle; the first at {where}: "
                f"{got[where]} instead of {expected[where]}"
            )
        return None

    def replay(self, instance: Chosen) -> Callable[[], float]:
        """A launch a set, ready to be timed: only what is packed of the weights is the instance's own."""
        return self.device.replay(self._bound(instance))

    def _bound(self, instance: Chosen) -> list[Bound]:
        names = [tensor.name for tensor in self.problem.inputs]
        bounds: list[Bound] = []
        packed = None
        for arrays, outs in self._sets:
            given = dict(zip(names, arrays, strict=True))
            weights = [given.pop(name) for name in self.problem.packed]
            if packed is None:
                packed = instance.pack(*weights, **self._sample.parameters)
            elif weights:
                packed = packed.beside(*weights)
            bounds.append(packed.prepare(list(given.values()), _one_or_all(outs)))
        self.device.synchronize()
        return bounds

    @cached_property
    def _first(self) -> tuple[list[Any], list[Any]]:
        return [self.device.upload(array) for array in self._sample.arrays], self._outputs()

    @cached_property
    def _sets(self) -> list[tuple[list[Any], list[Any]]]:
        """The first, and copies of it, rolled on the device, so that no two are alike and all are full-range."""
        count = min(MOST_SETS, max(1, -(-self._rotated_bytes // self.problem.io_bytes)))
        rolled = self.device.rolled
        others = [([rolled(array, i) for array in self._first[0]], self._outputs()) for i in range(1, count)]
        return [self._first, *others]

    @cached_property
    def _expected(self) -> tuple[Array, ...]:
        return reference.compute(self.problem, self._sample) if self._known is None else self._known

    @cached_property
    def _wanted(self) -> list[Any]:
        return [self.device.upload(np.ascontiguousarray(expected)) for expected in self._expected]

    def _outputs(self) -> list[Any]:
        return [self.device.empty(tensor.shape, tensor.dtype) for tensor in self.problem.outputs]


def _one_or_all(outs: list[Any]) -> Any:
    return tuple(outs) if len(outs) > 1 else outs[0]


def _bits(array: Array) -> Array:
    """As unsigned integers: -0.0 is not 0.0, and NaN is itself."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()
