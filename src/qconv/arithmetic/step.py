"""One step of an epilogue: a C++ line beside its NumPy line, and the run-time values that both read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.arithmetic.activation import BY_NAME, Number
from qconv.arithmetic.quantization import Parameters, Quantization
from qconv.dtypes import ELEMENT_TYPES

Values = dict[str, Any]
Array = NDArray[Any]


@dataclass(frozen=True)
class Argument:
    """A run-time value that a step reads: a kernel argument, and a field of `Channel` in the generated source."""

    name: str
    ctype: str  # "int" or "float"; for an array that all channels share, its pointer type
    per_channel: bool
    says: str
    value: Callable[[Any, Any], Any]  # computes it from the problem's `arithmetic` and its checked parameters
    words: int = 0  # four-byte words of such an array

    @property
    def declaration(self) -> str:
        """A field of `Channel`."""
        return f"{self.ctype} {self.name};"

    @property
    def dtype(self) -> str:
        return "int32" if self.words else {"int": "int32", "float": "float32"}[self.ctype]

    @property
    def bytes(self) -> int:
        return ELEMENT_TYPES[self.dtype].bytes


@dataclass(frozen=True)
class Step:
    name: str
    cxx: str
    numpy: Callable[[Array, Values], Array]
    arguments: tuple[Argument, ...] = ()


@cache
def activation(name: str) -> Step:
    """Return an activation as a step, with its numbers in the units of the value."""
    made = BY_NAME[name]
    return Step(made.name, made.cxx, made.numpy, tuple(map(_argument, made.numbers)))


def _argument(number: Number) -> Argument:
    if not number.is_value:
        return Argument(number.name, "float", False, number.says, lambda q, p: getattr(p, number.name))

    def in_units(quantization: Quantization, parameters: Parameters) -> Array:
        """Return a number in output units where one factor scales the value to them, else in real units."""
        given = getattr(parameters, number.name) if number.fixed is None else number.fixed
        real = np.asarray(given, np.float32)
        in_output_units = quantization.to_output_units == "multiply"
        with np.errstate(over="ignore"):
            return real / np.float32(parameters.y_scale) if in_output_units else real

    return Argument(number.name, "float", False, f"{number.says} in units of the output", in_units)
