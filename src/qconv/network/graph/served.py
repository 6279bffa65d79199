"""The protocol of layers that run on this project's kernels, for the runner of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from qconv.device import Device
from qconv.network.graph.graph import Layer
from qconv.network.graph.value import Value
from qconv.op import Problem


@dataclass(frozen=True)
class Reason:
    """Why a layer runs elsewhere. `follows` is the name of the layer because of which it does, None where the layer
    itself is the cause. `cure` is what a user can do about it, None where nothing is known."""

    text: str
    follows: str | None = None
    cure: str | None = None

    def __str__(self) -> str:
        return self.text if self.cure is None else f"{self.text}; {self.cure}"


class Unserved(ValueError):
    """No kernel computes the layer, so it runs elsewhere. The message says why."""

    def __init__(self, text: str, follows: str | None = None, cure: str | None = None) -> None:
        self.reason = Reason(text, follows, cure)
        super().__init__(str(self.reason))


class Prepared(Protocol):
    """A layer prepared for inputs of certain shapes: its kernel and its packed parameters."""

    @property
    def why(self) -> str:
        """Return which kernel it is, and where that comes from."""
        ...

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems of its kernels, for tuning."""
        ...

    def __call__(self, *inputs: Value) -> Value: ...


@runtime_checkable
class OfSeveralOutputs(Prepared, Protocol):
    """A prepared layer with several outputs. Called, it returns the first one."""

    def outputs(self, *inputs: Value) -> Mapping[str, Value]:
        """Return all outputs by their names."""
        ...


class Served(Protocol):
    """A layer that runs on kernels. `inputs` are the tensors that it reads at each run, without constants; `y` is its
    output, the first one where it has several."""

    @property
    def layer(self) -> Layer: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def y(self) -> str: ...
    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        """Prepare for inputs of these shapes, with the channels after N. Raise ValueError where no kernel serves
        them."""
        ...


@dataclass(frozen=True, eq=False)
class OfImages:
    """A layer that a front end runs by itself, on images with the channels last in memory."""

    layer: Layer
    inputs: tuple[str, ...]
    y: str

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        raise ValueError(f"{self.layer.name} runs by itself")
