"""Layers with more elements than a kernel counts: they run several times, each time on some of their images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from qconv.device import Device
from qconv.errors import TooManyImages
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Shape, Value
from qconv.op import Problem


@dataclass(frozen=True)
class InBatches:
    """A layer that was prepared for `images` images, and runs `count` times."""

    prepared: Prepared
    images: int
    count: int
    device: Device

    @property
    def why(self) -> str:
        return f"{self.count} runs of {self.images} images each, {self.prepared.why}"

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.prepared.problems

    def __call__(self, *inputs: Value) -> Value:
        whole_inputs = [value.with_array(self.device.contiguous(value.array)) for value in inputs]
        made = self._run(whole_inputs, 0)
        _, *rest = made.array.shape
        whole = self.device.empty((self.images * self.count, *rest), made.dtype)
        self.device.copy(made.array, self._images(whole, 0))
        for number in range(1, self.count):
            self.device.copy(self._run(whole_inputs, number).array, self._images(whole, number))
        return made.with_array(whole)

    def _run(self, inputs: Sequence[Value], number: int) -> Value:
        return self.prepared(*(value.with_array(self._images(value.array, number)) for value in inputs))

    def _images(self, array: object, number: int) -> object:
        return array[number * self.images : (number + 1) * self.images]  # type: ignore[index] # of any library


def prepared_for(served: Served, shapes: Sequence[Shape], device: Device) -> Prepared:
    """Prepare a layer for inputs of these shapes, in batches where it has to be. Raise ValueError where no kernel
    serves them."""
    try:
        return served.prepare(shapes, device)
    except TooManyImages:
        made = _in_batches(served, shapes, device)
        if made is None:
            raise
        return made


def _in_batches(served: Served, shapes: Sequence[Shape], device: Device) -> InBatches | None:
    """Prepare a layer for as many images as kernels serve."""
    counts = {shape[0] if shape else 1 for shape in shapes}
    images = min(counts)
    if len(counts) > 1 or len(served.layer.outputs) > 1:
        return None
    for batches in (number for number in range(2, images + 1) if images % number == 0):
        own = images // batches
        with suppress(TooManyImages):
            return InBatches(served.prepare([(own, *rest) for _, *rest in shapes], device), own, batches, device)
    return None
