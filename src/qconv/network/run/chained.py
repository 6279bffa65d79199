"""Two or three consecutive integer convolutions as one layer, with the same bits: the kernel rounds the intermediate
tensors to bytes as if they were in memory."""

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
    """A chain of convolutions, each the only reader of the previous one's output. The last may have a sum or a table
    folded in."""

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
        """Return the problem for an input of this shape, with the channels after N. Raise ValueError where no kernel
        serves it."""
        problems = []
        for one in self.convolutions:
            problems.append(one.problem(x_shape))
            x_shape = one.made_shape(x_shape, problems[-1])
        return chain_of(problems)

    def parameters(self, problem: Chain) -> dict[str, Any]:
        """Return the parameters under the chain's names."""
        given: dict[str, Any] = {}
        for layer, one in zip(problem.LAYERS, self.convolutions, strict=True):
            names = problem.names(layer)
            given |= {names[own]: value for own, value in one.parameters.items() if own in names}
        return given

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _PackedChain(self, shapes[0], device)


class _PackedChain:
    """A chain prepared for one shape: its kernel and its packed weights."""

    def __init__(self, chain: IntegerChain, shape: Shape, device: Device) -> None:
        self._device = device
        problem = chain.problem(shape)
        self.problems = (problem,)
        instance = lookup(problem, device.spec)
        weights = [one.weights_on(device, one.filters.shape[1]) for one in chain.convolutions]
        self._packed = instance.pack(*weights, **chain.parameters(problem))
        self.why = instance.why

    def __call__(self, *inputs: Value) -> Value:
        arrays = [self._device.contiguous(each.channels_last) for each in inputs]
        return Value(self._device, channels_last=self._packed.in_sequence(*arrays))


def chain(convolutions: Sequence[IntegerConvolution]) -> IntegerChain | None:
    """Return the convolutions as a chain, or None where no kernel computes them."""
    before = convolutions[:-1]
    if not all(one.axes == 2 for one in convolutions) or not all(one.is_single for one in before):
        return None
    if convolutions[-1].pooled is not None:  # kernels with a pool have one convolution
        return None
    linked = all(_same_numbers(producer, consumer) for producer, consumer in pairwise(convolutions))
    return IntegerChain(tuple(convolutions)) if linked else None


def _same_numbers(producer: IntegerConvolution, consumer: IntegerConvolution) -> bool:
    """True where both agree on the scale and zero point of the tensor between them, as a chain requires."""
    if "y_scale" not in producer.parameters:
        return False
    given = ((producer.parameters, "y"), (consumer.parameters, "x"))
    scales, zeros = (
        {float(np.float32(values.get(f"{of}_{what}", default))) for values, of in given}
        for what, default in (("scale", 1.0), ("zero_point", 0))
    )
    # ConvInteger has no scale for its input, and its sums are not scaled.
    return len(zeros) == 1 and (len(scales) == 1 or "y_scale" not in consumer.parameters)
