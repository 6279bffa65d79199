"""Layers that run as one kernel of an expression."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from qconv.device import Device
from qconv.expression.by_table import ByTable, by_table
from qconv.expression.map import Map, compute
from qconv.expression.node import in_order
from qconv.instances.load.ahead import lookup_all
from qconv.instances.load.instance import Instance
from qconv.instances.load.serving import in_sequence
from qconv.network.expressions.kernel import Held, Kernel, kernel_of
from qconv.network.expressions.lazy import Array, Lazy, Place, Shape, root_of
from qconv.network.graph.graph import Layer
from qconv.network.graph.served import Prepared
from qconv.network.graph.value import Value, last_of
from qconv.op import Problem, Sample

# Launches a kernel for the inputs of a layer, and arrays that other kernels made; returns its output.
Launch = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Numbers:
    """The constants that a kernel reads, and tables that are made from them."""

    constants: Mapping[str, Array]
    _tables: dict[Map, Array] = field(default_factory=dict, init=False, repr=False)

    def of(self, names: Sequence[str]) -> Array:
        """Return the numbers of constants, one behind the other."""
        return np.concatenate([np.reshape(self.constants[name], -1) for name in names])

    def table(self, split: ByTable, tensors: Sequence[tuple[str, ...]]) -> Array:
        """Return a table that is made from constants."""
        if split.table not in self._tables:
            (self._tables[split.table],) = compute(split.table, Sample(tuple(map(self.of, tensors))))
        return self._tables[split.table].reshape(-1)


class Kernels(Protocol):
    """Layers as one kernel, which depends on the orders of axes in which their inputs come."""

    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def numbers(self) -> Numbers: ...
    @property
    def lasts(self) -> tuple[bool, ...]:
        """Return for each input whether the kernel is expected to read it with its channels last."""
        ...

    def orders(self, lasts: Iterable[bool]) -> tuple[bool, ...]:
        """Return for each input whether the kernel reads it with its channels last, where it comes so or not."""
        ...

    def kernel(self, lasts: tuple[bool, ...]) -> Kernel: ...


@dataclass(frozen=True, eq=False)
class Expressed:
    """Layers as one expression. `channels_last` are the inputs whose channels are expected to be last in memory, and
    `wants_last` says whether the next layer reads them so."""

    layer: Layer
    lazy: Lazy
    inputs: tuple[str, ...]
    tensors: Mapping[str, tuple[Shape, str]]  # of the inputs
    constants: Mapping[str, Array]
    channels_last: frozenset[str]
    wants_last: bool
    _kernels: dict[tuple[bool, ...], Kernel] = field(default_factory=dict, init=False, repr=False)

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    @property
    def lasts(self) -> tuple[bool, ...]:
        """Return for each input whether the kernel is expected to read it with its channels last."""
        return self.orders([name in self.channels_last for name in self.inputs])

    def orders(self, lasts: Iterable[bool]) -> tuple[bool, ...]:
        """Return for each input whether the kernel reads it with its channels last, where it comes so or not. Tensors
        that are read at computed places are in the model's order."""
        return tuple(last and name not in self._placed for last, name in zip(lasts, self.inputs, strict=True))

    @cached_property
    def _placed(self) -> frozenset[str]:
        return frozenset(node.tensor for node in in_order(root_of(self.lazy)) if isinstance(node, Place))

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        for name, shape in zip(self.inputs, shapes, strict=True):
            if shape != self.tensors[name][0]:
                raise ValueError(f"{name} has shape {shape}; the expression is of {self.tensors[name][0]}")
        return Running(self, device)

    def kernel(self, lasts: tuple[bool, ...]) -> Kernel:
        """Return the kernel for inputs with these orders of axes, which is made once."""
        if lasts not in self._kernels:
            self._kernels[lasts] = kernel_of(self.lazy, self._held(lasts), self.wants_last)
        return self._kernels[lasts]

    @cached_property
    def numbers(self) -> Numbers:
        return Numbers(self.constants)

    def _held(self, lasts: Sequence[bool]) -> Callable[[str], Held]:
        is_last = dict(zip(self.inputs, lasts, strict=True))

        def held(name: str) -> Held:
            if name in self.tensors:
                return Held(*self.tensors[name], is_last[name])
            array = self.constants[name]
            return Held(array.shape, str(array.dtype), False, array)

        return held


class Running:
    """An expression with its kernel. Where an input comes in another order of axes than expected, the kernel for that
    order is made then."""

    def __init__(self, one: Kernels, device: Device) -> None:
        self._one, self._device = one, device
        self._runs: dict[tuple[bool, ...], Callable[[Sequence[Value]], Value]] = {}
        self._constants: dict[tuple[str, ...], Any] = {}
        self.problems: tuple[Any, ...] = ()
        self.why = ""
        self._run(one.lasts)

    def __call__(self, *inputs: Value) -> Value:
        return self._run(self._one.orders(len(x.shape) > 2 and x.is_channels_last for x in inputs))(inputs)

    def _run(self, lasts: tuple[bool, ...]) -> Callable[[Sequence[Value]], Value]:
        if lasts not in self._runs:
            with in_sequence():
                self._runs[lasts] = self._made(lasts)
        return self._runs[lasts]

    def _made(self, lasts: tuple[bool, ...]) -> Callable[[Sequence[Value]], Value]:
        kernel = self._one.kernel(lasts)
        device = self._device  # not this object, which holds the functions
        shape = last_of(kernel.y_shape) if kernel.is_last else kernel.y_shape
        if kernel.only_copies and kernel.tensors[0][0] in self._one.inputs:
            self.why = "no kernel: the same bytes in another shape"
            (is_last,) = lasts
            return lambda inputs: Value.ordered(device, inputs[0].in_order(is_last).reshape(shape), kernel.is_last)
        split = by_table(kernel.problem) if isinstance(kernel.problem, Map) else None
        launch = self._whole(kernel, lasts) if split is None else self._by_table(split, kernel, lasts)

        def run(inputs: Sequence[Value]) -> Value:
            return Value.ordered(device, launch(inputs).reshape(shape), kernel.is_last)

        return run

    def _whole(self, kernel: Kernel, lasts: tuple[bool, ...]) -> Launch:
        (instance,) = self._instances(kernel.problem)
        return self._launched(instance, kernel.tensors, lasts)

    def _by_table(self, split: ByTable, kernel: Kernel, lasts: tuple[bool, ...]) -> Launch:
        byte, others = kernel.tensors[split.byte], [kernel.tensors[at] for at in split.others]
        if split.is_constant:
            (looks_up,) = self._instances(split.lookup)
            return self._launched(looks_up, [byte], lasts, self._device.upload(self._one.numbers.table(split, others)))
        looks_up, makes = self._instances(split.lookup, split.table)
        make, look_up = self._launched(makes, others, lasts), self._launched(looks_up, [byte], lasts)
        return lambda inputs: look_up(inputs, make(inputs).reshape(-1))

    def _instances(self, *problems: Problem) -> Sequence[Instance]:
        found = lookup_all(problems, self._device.spec)
        self.problems, self.why = (*self.problems, *problems), "; ".join(dict.fromkeys(one.why for one in found))
        return found

    def _launched(
        self, instance: Instance, tensors: Sequence[tuple[str, ...]], lasts: tuple[bool, ...], *constants: Any
    ) -> Launch:
        """Prepare a kernel that reads these tensors, and other constants behind them."""
        known = self._one.numbers.constants
        packed = instance.pack(*(self._constant(names) for names in tensors if names[0] in known), *constants)
        read = [self._one.inputs.index(names[0]) for names in tensors if names[0] not in known]

        def run(inputs: Sequence[Value], *others: Any) -> Any:
            arrays = (inputs[at].in_order(lasts[at]).reshape(-1) for at in read)
            return packed.in_sequence(*arrays, *others)

        return run

    def _constant(self, names: tuple[str, ...]) -> Any:
        if names not in self._constants:
            self._constants[names] = self._device.upload(self._one.numbers.of(names))
        return self._constants[names]
