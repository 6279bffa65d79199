"""The ways to give a convolution of images its input: as it lies, or through a copy that makes it faster to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from qconv.device import Device
from qconv.dtypes import ELEMENT_TYPES
from qconv.expression.map import Map
from qconv.instances.load.expected import Expectations
from qconv.instances.load.serving import is_in_sequence, lookup
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Shape, Value
from qconv.op import Problem
from qconv.problem.convolution import Conv2d

# The factor by which a copy and the kernel behind it must be expected to be faster: a copy that reads single bytes
# takes longer than its bytes.
UNSURE = 1.15


class Copy(Protocol):
    """A copy of the input of a convolution."""

    @property
    def says(self) -> str: ...

    @property
    def made(self) -> Shape:
        """The images that it makes, NHWC."""
        ...

    def problem(self, dtype: str) -> Map: ...


@dataclass(frozen=True)
class Way:
    """A convolution, and the copy in front of it."""

    problem: Conv2d
    copy: Copy | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        copies = () if self.copy is None else (self.copy.problem(self.problem.quantization.x_type),)
        return (*copies, self.problem)


def fastest(ways: Sequence[Way], device: Device) -> Way:
    """Return the way that is expected to be the fastest; where no kernel serves any, the first."""
    if len(ways) == 1:
        return ways[0]
    expectations = Expectations(device, None, is_in_sequence())

    def expected_us(way: Way) -> float:
        us = sum(inf if one is None else one.predicted_us for one in expectations.of(way.problems))
        return us * (1 if way.copy is None else UNSURE)

    return min(ways, key=expected_us)


class BehindCopy:
    """A convolution, prepared for one shape, behind the copy that makes its images."""

    def __init__(self, copy: Copy, dtype: str, zero_point: int, images: Prepared, device: Device) -> None:
        problem = copy.problem(dtype)
        instance = lookup(problem, device.spec)
        filled = [device.upload(np.full(1, zero_point, ELEMENT_TYPES[dtype].numpy))] if problem.packed else []
        self._packed = instance.pack(*filled)
        self._images, self._device, self._made = images, device, copy.made
        self.problems = (problem, *images.problems)
        self.why = f"{images.why}; {copy.says}: {instance.why}"

    def __call__(self, *inputs: Value) -> Value:
        x, *others = inputs
        y = self._packed.in_sequence(x.in_order(channels_last=True).reshape(-1))
        return self._images(Value(self._device, channels_last=y.reshape(self._made)), *others)
