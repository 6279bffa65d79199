"""Verification of a kernel against the oracle, bit for bit, with random data and poisoned outputs. `InputSets` holds
one problem's data on one device: drawn, uploaded and computed by the oracle once, for all candidates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from qconv.arithmetic.step import Array
from qconv.device import Device
from qconv.instances.load.executable import Bound
from qconv.instances.load.pair import Runnable
from qconv.op import Problem, Tensor
from qconv.ops import registry
from qconv.ops.registry import Sample


def opposite(expected: Array) -> Array:
    """Invert every bit. An output that holds the opposite of the right values shows every byte that a kernel does not
    write; of a constant poison, one byte in 256 would be right by accident."""
    return (~bits(expected)).view(expected.dtype).reshape(expected.shape)


def differences(tensors: Sequence[Tensor], outs: Sequence[Array], expected: Sequence[Array]) -> str | None:
    """Return the number of wrong elements of each output and the first of them, or None where every bit is right."""
    messages = [_difference(*each) for each in zip(tensors, outs, expected, strict=True)]
    return "; ".join(message for message in messages if message is not None) or None


def bits(array: Array) -> Array:
    """View elements as unsigned integers, so that -0.0 differs from 0.0 and NaN equals itself."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").ravel()


def _difference(tensor: Tensor, got: Array, expected: Array) -> str | None:
    got_bits, expected_bits = bits(got), bits(expected)
    wrong = np.flatnonzero(got_bits != expected_bits)
    if wrong.size == 0:
        return None
    first = wrong[0]
    where = tuple(int(i) for i in np.unravel_index(first, tensor.shape))
    shown = [str(got[where]), str(expected[where])]
    # two different NaNs
    if shown[0] == shown[1]:
        shown = [
            f"{text} ({int(value[first]):#x})" for text, value in zip(shown, (got_bits, expected_bits), strict=True)
        ]
    return (
        f"{wrong.size} of {got.size} outputs {tensor.name} differ from the oracle; the first at {where}: "
        f"{shown[0]} instead of {shown[1]}"
    )


# Poison for the tensors between the kernels of a chain, whose values the oracle does not return. One byte per launch.
POISONS = (0xA5, 0x5A)
MOST_SETS = 2048


class InputSets:
    """A problem's data on a device. Timed launches cycle through input sets of at least `rotated_bytes` in total.
    `expected` are the oracle's results, if they are known already."""

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

    def mismatch(self, runnable: Runnable) -> str | None:
        """Run a kernel on outputs that hold the opposite of the right values. Return None where every bit of every call
        is right, otherwise a line that says what is wrong. A kernel with scratch runs twice, because the second call
        begins with what the first one left there."""
        arrays, outs = self._first
        bound = runnable.bind(*arrays, out=_one_or_all(outs), **self._sample.parameters)
        launches = 2 if any(kernel.scratch for kernel in runnable.plan.kernels) else 1
        for launch in range(launches):
            for between in bound.between:
                self.device.fill(between, POISONS[launch])
            for out, poison in zip(outs, self._poison, strict=True):
                self.device.copy(poison, out)
            bound()
            self.device.synchronize()
            if all(self.device.same(*both) for both in zip(outs, self._wanted, strict=True)):
                continue
            got = [np.asarray(self.device.download(out)) for out in outs]
            message = differences(self.problem.outputs, got, self._expected)
            return message if launches == 1 else f"launch {launch + 1} of {launches}: {message}"
        return None

    def replay(self, runnable: Runnable, overlap: bool = False) -> Callable[[], float]:
        """Prepare one launch per set and return the function that times them. Only the packed weights belong to the
        executable. For `overlap` see `Executable.bind`."""
        return self.device.replay(self._bound(runnable, overlap))

    def _bound(self, runnable: Runnable, overlap: bool) -> list[Bound]:
        names = [tensor.name for tensor in self.problem.inputs]
        bounds: list[Bound] = []
        packed = None
        for arrays, outs in self._sets:
            given = dict(zip(names, arrays, strict=True))
            weights = [given.pop(name) for name in self.problem.packed]
            if packed is None:
                packed = runnable.pack(*weights, **self._sample.parameters)
            elif weights:
                packed = packed.beside(*weights)
            bounds.append(packed.prepare(list(given.values()), _one_or_all(outs), overlap))
        self.device.synchronize()
        return bounds

    @cached_property
    def _first(self) -> tuple[list[Any], list[Any]]:
        return [self.device.upload(array) for array in self._sample.arrays], self._outputs()

    @cached_property
    def _sets(self) -> list[tuple[list[Any], list[Any]]]:
        """The input sets of timed launches: the first, and copies of it rotated on the device, so that no two are alike
        and all use the full range."""
        count = min(MOST_SETS, max(1, -(-self._rotated_bytes // self.problem.io_bytes)))
        first, rolled = self._first, self.device.rolled
        if self._sample.timed:
            first = [self.device.upload(array) for array in self._sample.timed], first[1]
        others = [([rolled(array, i) for array in first[0]], self._outputs()) for i in range(1, count)]
        return [first, *others]

    @cached_property
    def _expected(self) -> tuple[Array, ...]:
        return registry.compute(self.problem, self._sample) if self._known is None else self._known

    @cached_property
    def _wanted(self) -> list[Any]:
        return [self.device.upload(np.ascontiguousarray(expected)) for expected in self._expected]

    @cached_property
    def _poison(self) -> list[Any]:
        return [self.device.upload(opposite(expected)) for expected in self._expected]

    def _outputs(self) -> list[Any]:
        return [self.device.empty(tensor.shape, tensor.dtype) for tensor in self.problem.outputs]


def _one_or_all(outs: list[Any]) -> Any:
    return tuple(outs) if len(outs) > 1 else outs[0]


def mismatch(runnable: Runnable, sample: Sample) -> str | None:
    """Return None where every bit is right, otherwise a line that says what is wrong."""
    return InputSets(runnable.problem, runnable.device, sample).mismatch(runnable)
