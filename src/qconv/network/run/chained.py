"""Two or three integer convolutions one behind the other as one layer, which changes no bit: what is between them is
rounded to bytes in the kernel as it would be in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, as_one
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Shape, Value
from qconv.network.layers.convolution import IntegerConvolution
from qconv.problem.chain import Chain, chain_of


@dataclass(frozen=True, eq=False)
class IntegerChain:
    """Each reads what the one before it makes, and nobody else does. The last may have a sum or a table behind it."""

    convolutions: tuple[IntegerConvolution, ...]

    @cached_property
    def layer(self) -> Layer:
        return as_one([one.layer for one in self.convolutions], 0)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.convolutions[0].inputs[:1] + self.convolutions[-1].inputs[1:]

    @property
    def y(self) -> str:
        return self.convolutions[-1].y

    def problem(self, x_shape: Shape) -> Chain:
        """For an input of that shape, with the channels behind N. What no kernel serves is a ValueError."""
        problems = []
        for one in self.convolutions:
            problems.append(one.problem(x_shape))
            x_shape = one.made_shape(x_shape, problems[-1])
        return chain_of(problems)

    def parameters(self, problem: Chain) -> dict[str, Any]:
        """Under the names that the chain has for them."""
        given: dict[str, Any] = {}
        for layer, one in zip(problem.LAYERS, self.convolutions, strict=True):
            names = problem.names(layer)
            given |= {names[own]: value for own, value in one.parameters.items() if own in names}
        return given

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _PackedChain(self, shapes[0], device)


class _PackedChain:
    """One chain for one shape: its kernel, and its packed weights."""

    def __init__(self, chain: IntegerChain, shape: Shape, device: Device) -> None:
        self._device = device
        problem = chain.problem(shape)
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        weights = [one.weights_on(device) for one in chain.convolutions]
        self._packed = instance.pack(*weights, **chain.parameters(problem))
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        arrays = [self._device.contiguous(each.channels_last) for each in inputs]
        return Value(self._device, channels_last=self._packed.in_sequence(*arrays))


def chain(convolutions: Sequence[IntegerConvolution]) -> IntegerChain | None:
    """None where one kernel does not compute what they compute."""
    before = convolutions[:-1]
    if not all(one.axes == 2 for one in convolutions) or not all(one.is_single for one in before):
        return None
    if convolutions[-1].pooled is not None:  # such a kernel is of one convolution
        return None
    linked = all(_same_numbers(producer, consumer) for producer, consumer in pairwise(convolutions))
    return IntegerChain(tuple(convolutions)) if linked else None


def _same_numbers(producer: IntegerConvolution, consumer: IntegerConvolution) -> bool:
    """Whether what is between them is read as it was written: a chain has one scale and one zero point for it."""
    if "y_scale" not in producer.parameters:
        return False
    given = ((producer.parameters, "y"), (consumer.parameters, "x"))
    scales, zeros = (
        {float(np.float32(values.get(f"{of}_{what}", default))) for values, of in given}
        for what, default in (("scale", 1.0), ("zero_point", 0))
    )
    # ConvInteger has no scale for what it reads, and its sums are not scaled.
    return len(zeros) == 1 and (len(scales) == 1 or "y_scale" not in consumer.parameters)
