"""Buffers of the caller for the outputs of a network, instead of new arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from qconv.device import Device
from qconv.network.graph.value import Counted, Value
from qconv.op import quoted

# By the names of outputs. A name without one gets a new array.
NONE: Mapping[str, Buffer] = {}


@dataclass(frozen=True)
class Buffer:
    """An array that the caller has given for an output: `given` as it came, and as a tensor on the device. It is
    contiguous in the model's order of axes or with the channels last."""

    name: str
    given: Any
    there: Value
    address: int

    @classmethod
    def of(cls, device: Device, name: str, array: Any) -> Buffer:
        shown = f"out[{name!r}]"
        if not hasattr(array, "__dlpack__") and not hasattr(array, "__cuda_array_interface__"):
            raise ValueError(
                f"{shown}={quoted(array)} is no array: give one of {device.spec}, which the output can be written to"
            )
        held, address = device.adopt(shown, array)
        if not getattr(held.flags, "writeable", True):
            raise ValueError(f"{shown} is read-only: give an array that can be written")
        there = Value(device, there=held)
        if not there.array.flags.c_contiguous:
            raise ValueError(
                f"{shown} is neither contiguous in its shape {tuple(held.shape)} nor with its channels last: give an "
                "array that is, and copy from it"
            )
        return cls(name, array, there, address)

    @property
    def end(self) -> int:
        return self.address + int(self.there.array.nbytes)

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ValueError where an output of this shape and type does not fit."""
        if (self.there.shape, self.there.dtype) != (shape, dtype):
            raise ValueError(
                f"out[{self.name!r}] is {self.there.dtype}{self.there.shape}; the output is {dtype}{shape}: give an "
                "array of that type and shape"
            )

    def write(self, value: Value) -> None:
        value.write_to(self.there)


def buffers_of(device: Device, out: object, names: Collection[str]) -> Mapping[str, Buffer]:
    """Return the buffers of a call that asks for these outputs."""
    if out is None:
        return NONE
    if not isinstance(out, Mapping):
        raise ValueError(
            f"out={quoted(out)} must be arrays by the names of outputs: write {{{next(iter(names))!r}: array}}"
        )
    for name in out:
        if name not in names:
            raise ValueError(f"out has {quoted(name)}, which is none of the outputs asked for: {', '.join(names)}")
    made = {name: Buffer.of(device, name, array) for name, array in out.items()}
    by_place = sorted(made.values(), key=lambda one: one.address)
    for one, other in pairwise(by_place):
        if other.address < one.end:
            raise ValueError(
                f"out[{one.name!r}] and out[{other.name!r}] share memory: give each output an array of its own"
            )
    return made


def settled(device: Device, value: Value) -> Value:
    """Return the tensor in the shape that the caller sees."""
    return Value(device, host=value.on_host) if isinstance(value, Counted) else value
