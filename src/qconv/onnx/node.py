"""A node of a model. Its types are checked when it is read, its values when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from onnx import NodeProto, helper

from qconv.device import Device
from qconv.onnx.tensor import Held, Known, Unsupported

BYTES = ("int8", "uint8")
SHORTS = (*BYTES, "int16", "uint16")
REALS = ("float32", "float16", "bfloat16")
# The name of an input with the types that it may have, or the input whose type it shares.
Inputs = tuple[tuple[str, tuple[str, ...] | str], ...]


class Node:
    """The base class of nodes, with one subclass per op. `results` describes the outputs."""

    takes: ClassVar[Inputs]
    attributes: ClassVar[tuple[str, ...]] = ()

    def __init__(self, proto: NodeProto, known: Sequence[Known | None]) -> None:
        self.name = f"{proto.op_type}{f' {proto.name!r}' if proto.name else ''}"
        self.inputs = tuple(proto.input)
        self.outputs = tuple(proto.output)
        self._given: dict[str, Any] = {entry.name: helper.get_attribute_value(entry) for entry in proto.attribute}
        for name in self._given:
            if name not in self.attributes:
                has = ", ".join(self.attributes) or "none"
                raise Unsupported(f"{self.name} has the attribute {name!r}; supported are {has}")
        self.known = dict(zip((name for name, _ in self.takes), known, strict=False))
        for name, types in self.takes:
            value = self.known.get(name)
            if value is not None:
                self._check_type(name, value, types)
        self.results = self.check()

    def check(self) -> tuple[Known, ...]:
        """Check the op's own rules before the run. Return the outputs' descriptions."""
        raise NotImplementedError

    def compute(self, values: dict[str, Held], device: Device) -> Sequence[Any]:
        """Compute the outputs as arrays on the device. Omitted optional inputs have no entry."""
        raise NotImplementedError

    def run(self, values: Sequence[Held | None], device: Device) -> list[Held]:
        given = {name: value for (name, _), value in zip(self.takes, values, strict=False) if value is not None}
        try:
            return [Held(device, there=array) for array in self.compute(given, device)]
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error

    def _check_type(self, name: str, value: Known, types: tuple[str, ...] | str) -> None:
        if isinstance(types, str):
            other = self.known[types]
            assert other is not None
            if value.dtype != other.dtype:
                raise Unsupported(
                    f"{self.name}: {name} is {value.dtype}, but {types} is {other.dtype}; ONNX has one type for both"
                )
        elif value.dtype not in types:
            raise Unsupported(f"{self.name}: {name} is {value.dtype}; supported are {', '.join(types)}")

    def of(self, name: str) -> Known:
        """Return a required input."""
        value = self.known[name]
        assert value is not None
        return value
