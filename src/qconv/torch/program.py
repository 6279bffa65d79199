"""The text of an expression in a graph of PyTorch: layers with ONNX's names and meanings, from some tensors to one.

Shapes are in terms of the dynamic extents of the inputs, so that one text is valid for every shape that the graph
takes. Tensors are named by their order, so that equal expressions have equal texts, and share their kernels."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from qconv.network import Layer, Network, Tensor
from qconv.torch.extents import Extent, known_extents, value_of

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Described:
    """The element type and the shape of a tensor."""

    dtype: str
    shape: tuple[Extent, ...]


@dataclass(frozen=True)
class Constant(Described):
    """A tensor of numbers, in the order of its elements. Integers may be extents."""

    values: tuple[Any, ...] = ()

    def array(self, known: Mapping[str, Any]) -> Any:
        shape = tuple(value_of(extent, known) for extent in self.shape)
        return np.asarray([_number(value, known) for value in self.values], self.dtype).reshape(shape)


def _number(value: Any, known: Mapping[str, Any]) -> Any:
    return value_of(value, known) if isinstance(value, str) else value


@dataclass(frozen=True)
class Step:
    """A layer of the text. In its attributes, the lists of integers may have extents."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, Any]

    def layer(self, known: Mapping[str, Any]) -> Layer:
        attributes = {
            name: [_number(each, known) for each in value] if isinstance(value, list | tuple) else value
            for name, value in self.attributes.items()
        }
        return Layer(self.output, self.op, self.inputs, (self.output,), attributes)


@dataclass(frozen=True)
class Program:
    """An expression. `is_last`: its output has the channels last in memory."""

    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    tensors: Mapping[str, Described]
    constants: Mapping[str, Constant]
    is_last: bool

    def __repr__(self) -> str:
        ops = ", ".join(step.op for step in self.steps)
        return f"<Program: {', '.join(self.inputs)} to {self.output} by {ops}>"

    @property
    def output(self) -> str:
        return self.steps[-1].output

    @property
    def described(self) -> Described:
        return self.tensors[self.output]

    def known(self, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the dynamic extents for inputs of these shapes."""
        if len(shapes) != len(self.inputs):
            raise ValueError(f"{len(shapes)} inputs were given; the expression reads {len(self.inputs)}")
        return known_extents([self.tensors[name].shape for name in self.inputs], shapes)

    def shape(self, shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
        """Return the shape of the output for inputs of these shapes, which may be symbolic."""
        known = self.known(shapes)
        return tuple(value_of(extent, known) for extent in self.described.shape)

    def network(self, shapes: Sequence[Shape]) -> Network:
        """Return the layers for inputs of these shapes."""
        known = self.known(shapes)
        tensors = {
            name: Tensor(name, one.dtype, tuple(value_of(extent, known) for extent in one.shape))
            for name, one in self.tensors.items()
        }
        constants = {name: one.array(known) for name, one in self.constants.items()}
        layers = tuple(step.layer(known) for step in self.steps)
        return Network(self.inputs, (self.output,), layers, tensors, constants)

    def renamed(self) -> Program:
        """Return the program with tensors named by their order."""
        every = (*self.inputs, *self.constants, *(step.output for step in self.steps))
        names = {"": ""} | {name: f"t{at}" for at, name in enumerate(dict.fromkeys(every))}
        steps = (
            Step(step.op, tuple(names[name] for name in step.inputs), names[step.output], step.attributes)
            for step in self.steps
        )
        return Program(
            tuple(names[name] for name in self.inputs),
            tuple(steps),
            {names[name]: one for name, one in self.tensors.items()},
            {names[name]: one for name, one in self.constants.items()},
            self.is_last,
        )

    @property
    def text(self) -> str:
        made = {
            "inputs": self.inputs,
            "layers": [[step.op, step.inputs, step.output, dict(step.attributes)] for step in self.steps],
            "tensors": {name: [one.dtype, one.shape] for name, one in self.tensors.items()},
            "constants": {name: [one.dtype, one.shape, one.values] for name, one in self.constants.items()},
            "channels_last": self.is_last,
        }
        return json.dumps(made, separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the text. Raise ValueError for another one."""
        try:
            given = json.loads(text)
            steps = [Step(op, tuple(inputs), output, of) for op, inputs, output, of in given["layers"]]
            tensors = {name: Described(dtype, tuple(shape)) for name, (dtype, shape) in given["tensors"].items()}
            constants = {
                name: Constant(dtype, tuple(shape), tuple(values))
                for name, (dtype, shape, values) in given["constants"].items()
            }
            made = cls(tuple(given["inputs"]), tuple(steps), tensors, constants, bool(given["channels_last"]))
            made._check()
        except (TypeError, KeyError, IndexError, ValueError) as error:
            raise ValueError(
                f"the program {text[:80]!r} is not the text of an expression ({error}): "
                "give one that qconv.torch.lower wrote"
            ) from None
        return made

    def _check(self) -> None:
        """Raise where a tensor is read before it is there."""
        there = {"", *self.inputs, *self.constants}
        for step in self.steps:
            if missing := _first(name for name in step.inputs if name not in there):
                raise ValueError(f"{step.op} reads {missing!r}, which nothing in front of it makes")
            there.add(step.output)
        if missing := _first(name for name in (*self.inputs, self.output) if name not in self.tensors):
            raise ValueError(f"{missing!r} has no type")


def _first(names: Iterable[str]) -> str | None:
    return next(iter(names), None)


@lru_cache(maxsize=4096)
def program_of(text: str) -> Program:
    return Program.read(text)
