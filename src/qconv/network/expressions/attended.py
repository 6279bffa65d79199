"""Attention: a product, a reduction of its rows, and a product with what that gives, as one kernel where a target has
one and the device is full of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qconv import generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.expression.attention import Attention
from qconv.expression.matmul import MatMul
from qconv.expression.reduce import Reduce
from qconv.instances.load.ahead import lookup_all
from qconv.instances.load.serving import in_sequence
from qconv.network.expressions.expressed import Expressed, Numbers, Running
from qconv.network.expressions.kernel import Kernel
from qconv.network.expressions.lazy import Array, Shape
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Prepared, Served
from qconv.network.graph.value import Value

# Clocks of the launches of three kernels, and those of a multiprocessor for each score that is made, read, weighted and
# read again. Measured on an H200 between other kernels.
LAUNCHES, PER_SCORE = 12_000, 1.8


@dataclass(frozen=True, eq=False)
class Attended:
    """Three expressions, each of which reads the one before, that may be one kernel."""

    layer: Layer
    parts: tuple[Expressed, Expressed, Expressed]

    @classmethod
    def of(cls, parts: tuple[Expressed, Expressed, Expressed]) -> Attended | None:
        """Return the expressions as one layer, or None where they are no attention."""
        between = {part.y for part in parts[:2]}
        inputs = dict.fromkeys(name for part in parts for name in part.inputs if name not in between)
        last = parts[2].layer
        every = tuple(layer for part in parts for layer in part.layer.parts)
        made = cls(replace(last, inputs=tuple(inputs), parts=every), parts)
        try:
            return made if made.numbers and made._kernel else None
        except ValueError:
            return None

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.layer.inputs

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    @cached_property
    def numbers(self) -> Numbers:
        found: dict[str, Array] = {}
        for part in self.parts:
            for name, array in part.constants.items():
                if not np.array_equal(found.setdefault(name, array), array):
                    raise ValueError(f"two constants have the name {name!r}")
        return Numbers(found)

    @cached_property
    def lasts(self) -> tuple[bool, ...]:
        last = {name: each for part in self.parts for name, each in zip(part.inputs, part.lasts, strict=True)}
        return tuple(last[name] for name in self.inputs)

    def orders(self, lasts: Iterable[bool]) -> tuple[bool, ...]:
        """Return for each input whether the kernel reads it with its channels last, however it comes."""
        return self.lasts

    def kernel(self, lasts: tuple[bool, ...]) -> Kernel:
        """Return the kernel of all three. Raise ValueError where there is none."""
        return self._kernel

    @cached_property
    def _kernel(self) -> Kernel:
        is_last = dict(zip(self.inputs, self.lasts, strict=True))
        kernels: list[Kernel] = []
        for part in self.parts:
            kernels.append(part.kernel(part.orders(is_last[name] for name in part.inputs)))
            is_last[part.y] = kernels[-1].is_last
        scores, weights, values = kernels
        for kernel, before in ((weights, self.parts[0]), (values, self.parts[1])):
            if kernel.tensors[0] != (before.y,) or (before.y,) in kernel.tensors[1:]:
                raise ValueError(f"{before.y} is not the first operand of the expression behind it")
        if scores.is_last or weights.is_last:
            raise ValueError("scores or weights have their channels last")
        assert isinstance(scores.problem, MatMul), "the first part is a product"
        assert isinstance(weights.problem, Reduce), "the second part is a reduction"
        assert isinstance(values.problem, MatMul), "the last part is a product"
        problem = Attention(scores.problem, weights.problem, values.problem)
        tensors = (*scores.tensors, *weights.tensors[1:], *values.tensors[1:])
        return Kernel(problem, tensors, values.y_shape, values.is_last)

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        problem = self._kernel.problem
        if isinstance(problem, Attention) and is_faster(problem, device):
            return Running(self, device)
        with in_sequence():  # all three are compiled ahead
            lookup_all([part.kernel(part.lasts).problem for part in self.parts], device.spec)
        known = dict(zip(self.inputs, shapes, strict=True))
        made = []
        for part in self.parts:
            made.append(part.prepare([known[name] for name in part.inputs], device))
            known[part.y] = part.lazy.shape
        return _InTurn(self, made)


class _InTurn:
    """The three expressions as kernels of their own."""

    def __init__(self, one: Attended, prepared: Sequence[Prepared]) -> None:
        self._one, self._prepared = one, prepared
        self.problems = tuple(problem for each in prepared for problem in each.problems)
        self.why = "; ".join(dict.fromkeys(each.why for each in prepared))

    def __call__(self, *inputs: Value) -> Value:
        values = dict(zip(self._one.inputs, inputs, strict=True))
        for part, prepared in zip(self._one.parts, self._prepared, strict=True):
            values[part.y] = prepared(*(values[name] for name in part.inputs))
        return values[self._one.y]


def is_faster(problem: Attention, device: Device) -> bool:
    """True where one kernel is expected to take less time than three, which write the scores and the weights."""
    target = device.target
    try:
        plan, *_ = generator.cheapest(problem, target, 1)
    except Infeasible:
        return False
    return generator.cost(plan) < LAUNCHES + PER_SCORE * problem.scores.elements / target.processors


def with_attention(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served]]:
    """Return the network with layers of attention in the place of the three expressions that each is made of."""
    found = dict(served)
    layers = {layer.name: layer for layer in network.layers}
    for layer in network.layers:
        parts = _parts(network, found, layer)
        one = None if parts is None else Attended.of(parts)
        if parts is not None and one is not None:
            for part in parts:
                del layers[part.layer.name], found[part.layer.name]
            layers[layer.name], found[layer.name] = one.layer, one
    order = [layers[layer.name] for layer in network.layers if layer.name in layers]
    return replace(network, layers=tuple(order)), found


def _parts(
    network: Network, served: Mapping[str, Served], layer: Layer
) -> tuple[Expressed, Expressed, Expressed] | None:
    """Return the expressions that may be an attention, of which a layer is the last one."""
    values = _expression(served, layer, MatMul)
    weights = None if values is None else _before(network, served, values, Reduce)
    scores = None if weights is None else _before(network, served, weights, MatMul)
    return None if values is None or weights is None or scores is None else (scores, weights, values)


def _expression(served: Mapping[str, Served], layer: Layer, kind: type) -> Expressed | None:
    one = served.get(layer.name)
    is_one = isinstance(one, Expressed) and isinstance(one.kernel(one.lasts).problem, kind)
    return one if isinstance(one, Expressed) and is_one else None


def _before(network: Network, served: Mapping[str, Served], one: Expressed, kind: type) -> Expressed | None:
    """Return the expression that makes the first tensor of another, which alone reads it."""
    name = one.kernel(one.lasts).tensors[0][0]
    maker = network.producers.get(name)
    if maker is None or network.only_consumer(name) is None:
        return None
    return _expression(served, maker, kind)
