"""What a layer that runs on kernels here has to offer to whoever runs the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from qconv.device import Device
from qconv.network.graph.graph import Layer
from qconv.network.graph.value import Value
from qconv.op import Problem


class Unserved(ValueError):
    """No kernel here computes the layer: the message says why, and it runs elsewhere."""


class Prepared(Protocol):
    """A layer for inputs of certain shapes: its kernel, and what of it is packed."""

    @property
    def why(self) -> str:
        """Which kernel it is, and where it comes from."""
        ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What its kernels compute, to be tuned; none where it needs none."""
        ...

    def __call__(self, *inputs: Value) -> Value: ...


class Served(Protocol):
    """`inputs` are the tensors that it is given at each run, without its constants; `y` is the one that it makes."""

    @property
    def layer(self) -> Layer: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def y(self) -> str: ...
    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        """Shapes of the inputs, with the channels behind N. A ValueError where no kernel serves them."""
        ...
