"""What follows from a problem, a config and a target: everything that a template prints and a launch needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from qconv.epilogue import steps
from qconv.problem import Conv2d
from qconv.quantization import Parameters, Quantization
from qconv.step import Argument
from qconv.target import Target


@dataclass(frozen=True)
class Config:
    """What is searched. Each kernel family adds its integers."""

    family: ClassVar[str]

    def as_dict(self) -> dict[str, Any]:
        return {"family": self.family} | {f.name: getattr(self, f.name) for f in fields(self)}

    def as_json(self) -> str:
        """The canonical text: what the database stores and compares."""
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def __str__(self) -> str:
        return " ".join([self.family] + [f"{f.name}={getattr(self, f.name)}" for f in fields(self)])


@dataclass(frozen=True)
class Constant:
    """One `constexpr` line of the generated source."""

    name: str
    value: int | bool
    says: str = ""

    @property
    def ctype(self) -> str:
        return "bool" if isinstance(self.value, bool) else "int"

    @property
    def text(self) -> str:
        return str(self.value).lower()


@dataclass(frozen=True)
class Field:
    """One member of the kernel's argument struct: a pointer or a scalar, and where its value comes from."""

    name: str
    ctype: str
    role: str  # x, w, y: the caller's arrays; workspace: written by fold; value: from the parameters
    says: str
    argument: Argument | None = None

    @property
    def is_pointer(self) -> bool:
        return self.ctype.endswith("*")

    def value(self, problem: Conv2d, parameters: Parameters) -> bytes:
        """What this field holds, or points at where it is a pointer: one value, or one per output channel."""
        assert self.argument is not None
        value = self.argument.value(problem.quantization, parameters)
        shape = (problem.k,) if self.is_pointer else ()
        return np.broadcast_to(np.asarray(value, self.argument.dtype), shape).tobytes()

    @property
    def declaration(self) -> str:
        return f"{self.ctype} {self.name}"


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    once: str = "a call"

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        return f"{self.kernel}<<<{grid}, {self.threads}, {self.smem_bytes} B>>>, once {self.once}"


@dataclass(frozen=True)
class Plan:
    problem: Conv2d
    config: Config
    target: Target
    page: str
    constants: dict[str, tuple[Constant, ...]]  # by the heading they stand under
    launches: tuple[Launch, ...]  # in order; the last is the convolution
    fields: tuple[Field, ...]
    alignment: dict[str, int]  # of x, w and y, in bytes

    @property
    def fold(self) -> Launch | None:
        return self.launches[0] if len(self.launches) > 1 else None

    @property
    def main(self) -> Launch:
        return self.launches[-1]

    @property
    def argument_bytes(self) -> int:
        """sizeof(Arguments): pointers come first, and the end is padded to their alignment."""
        return 8 * -(-sum(8 if field.is_pointer else 4 for field in self.fields) // 8)


def argument_fields(quantization: Quantization) -> tuple[Field, ...]:
    """The argument struct: pointers first, so that it has no holes."""
    pointers = [
        Field("x", "const X*", "x", "activations, NHWC"),
        Field("w", "const W*", "w", "weights, KRSC"),
        Field("y", "Output*", "y", "output, NHWK"),
    ]
    scalars: list[Field] = []
    for argument in (a for step in steps(quantization) for a in step.arguments):
        if argument.name == "offset" and quantization.x_zero_point:
            pointers.append(Field("offset", "int*", "workspace", f"per channel: {argument.says}"))
            if quantization.bias_at == "accumulator":
                pointers.append(Field("int32_bias", "const int*", "value", "per channel: read by fold", argument))
        elif argument.per_channel:
            says = f"per channel: {argument.says}"
            pointers.append(Field(argument.name, f"const {argument.ctype}*", "value", says, argument))
        else:
            scalars.append(Field(argument.name, argument.ctype, "value", argument.says, argument))
    if quantization.x_zero_point:
        scalars.append(Field("x_zero", "int", "value", "the input zero point", X_ZERO))
    return tuple(pointers + scalars)


X_ZERO = Argument("x_zero", "int", False, "the input zero point", lambda q, parameters: parameters.x_zero_point)
