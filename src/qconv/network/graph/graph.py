"""Layers, tensors and networks, independent of any file format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A shape, with None for unknown extents.
Extents = Sequence[int | None]


def may_be_equal(one: Extents, other: Extents) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(a == b or None in (a, b) for a, b in pairs)


@dataclass(frozen=True)
class Tensor:
    """A tensor of the network. `dtype` is None if it is not an array of numbers, `shape` if even the rank is unknown.
    An extent that depends on the inputs is None."""

    name: str
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None

    def __str__(self) -> str:
        if self.shape is None:
            return self.name
        return f"{self.name} {self.dtype}({', '.join('?' if one is None else str(one) for one in self.shape)})"

    @property
    def extents(self) -> tuple[int, ...] | None:
        """Return the shape if all of it is known, else None."""
        known = tuple(extent for extent in self.shape or () if extent is not None)
        return known if self.shape is not None and len(known) == len(self.shape) else None

    def may_be(self, shape: Sequence[int]) -> bool:
        """True where the known extents permit this shape."""
        return self.shape is None or may_be_equal(self.shape, shape)

    @property
    def bytes(self) -> int | None:
        """Return the size in bytes if the shape is known, else None."""
        extents = self.extents
        return None if self.dtype is None or extents is None else prod(extents) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Layer:
    """One op. Layers of a network have unique names. An omitted optional input has the name "". `captured` are the
    tensors that subgraphs of the layer (of a loop, say) read from outside; `parts` are the layers that were folded into
    this one, and `is_exact` is False where they may have another last bit. `is_expression` is True where they are one
    expression, whose floats are computed as this project defines them. `note` is what reports say of its floats."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    captured: tuple[str, ...] = ()
    parts: tuple[Layer, ...] = ()
    is_exact: bool = True
    is_expression: bool = False
    note: str = ""

    @property
    def reads(self) -> tuple[str, ...]:
        """Return every tensor that the layer reads, once."""
        return tuple(dict.fromkeys(name for name in (*self.inputs, *self.captured) if name))

    @property
    def unfolded(self) -> tuple[Layer, ...]:
        """Return the layers from before folding."""
        return tuple(part for each in self.parts for part in each.unfolded) if self.parts else (self,)

    @property
    def key(self) -> tuple[str, ...]:
        """Return the name and the names of the unfolded layers, which distinguish it from one with more layers folded
        in."""
        return (self.name, *(part.name for part in self.unfolded))


def as_one(parts: Sequence[Layer], at: int) -> Layer:
    """Return layers, each of which reads the previous one's output, as one layer with the name and op of one of
    them."""
    made = {name for part in parts for name in part.outputs}
    inputs = tuple(name for part in parts for name in part.inputs if name not in made)
    return Layer(parts[at].name, parts[at].op, inputs, parts[-1].outputs, parts=tuple(parts))


@dataclass(frozen=True, eq=False)
class Network:
    """A network. `layers` are in an order in which they can run. Tensors in `constants` never change. `opset` is the
    version of ONNX's operator set; 0 for the newest meaning of every op."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    tensors: Mapping[str, Tensor]
    constants: Mapping[str, NDArray[Any]]
    opset: int = 0

    def __repr__(self) -> str:
        ends = f"{', '.join(self.inputs)} to {', '.join(self.outputs)}"
        return f"<Network: {ends} by {len(self.layers)} layers>"

    def tensor(self, name: str) -> Tensor:
        return self.tensors.get(name) or Tensor(name)

    @cached_property
    def producers(self) -> Mapping[str, Layer]:
        return {name: layer for layer in self.layers for name in layer.outputs if name}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Layer, ...]]:
        found: dict[str, list[Layer]] = {}
        for layer in self.layers:
            for name in layer.reads:
                found.setdefault(name, []).append(layer)
        return {name: tuple(layers) for name, layers in found.items()}

    def only_consumer(self, name: str) -> Layer | None:
        """Return the layer that reads the tensor, if it is the only reader and the tensor is no output of the
        network."""
        layers = self.consumers.get(name, ())
        return layers[0] if len(layers) == 1 and name not in self.outputs else None

    def without_unread(self) -> Network:
        """Return the network without layers that no output needs."""
        read = set(self.outputs)
        kept: list[Layer] = []
        for layer in reversed(self.layers):
            if not read.isdisjoint(layer.outputs):
                kept.append(layer)
                read |= set(layer.reads)
        return replace(self, layers=tuple(reversed(kept)))

    def constant(self, name: str) -> NDArray[Any] | None:
        return self.constants.get(name)
