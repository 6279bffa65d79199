"""The base classes of this package: problems whose key lists their fields, and checked run-time numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import prod
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from qconv.arithmetic.parameter import check_zero_point
from qconv.dtypes import ELEMENT_TYPES
from qconv.op import Problem, check_choice, checked_size, quoted, read_integer, read_key

BYTES = ("int8", "uint8")
ACTIVATIONS = ("none", "relu")


class TensorOp(Problem):
    """A problem whose key has sizes and types always, everything else where it differs from the default, in order."""

    # Fields that a key spells as an integer, as several integers, and as a flag; all others are text.
    numbers: ClassVar[tuple[str, ...]] = ()
    extents_of_key: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[tuple[str, ...]] = ()
    types: ClassVar[tuple[str, ...]] = ("x_type", "out_type")

    def _check_fields(self) -> None:
        for name in self.numbers:
            object.__setattr__(self, name, checked_size(name, getattr(self, name), 1))
        for name in self.types:
            check_choice(name, getattr(self, name), BYTES)
        for name in self.flags:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}={getattr(self, name)!r} must be True or False")

    def _name_by_fields(self) -> None:
        parts = [self.op]
        for entry in fields(self):  # type: ignore[arg-type]  # every problem is a dataclass
            value = getattr(self, entry.name, None)
            if entry.init and (entry.name in (*self.numbers, *self.types) or value != entry.default):
                spelled = ",".join(map(str, value)) if isinstance(value, tuple) else value
                parts.append(entry.name if value is True else f"{entry.name}={spelled}")
        self._name(":".join(parts))

    @classmethod
    def read(cls, key: str) -> Self:
        """Return the problem of a key."""
        _, given = read_key(key, cls.flags)
        missing = [name for name in cls.numbers if name not in given]
        if missing:
            raise ValueError(f"the key {quoted(key)} has no {missing[0]}; it needs {', '.join(cls.numbers)}")
        known = [entry.name for entry in fields(cls) if entry.init]  # type: ignore[arg-type]
        if strange := [name for name in given if name not in known]:
            raise ValueError(f"unknown field {quoted(strange[0])} in a key of {cls.op}; it has {', '.join(known)}")
        return cls(**{name: cls._read_value(name, text) for name, text in given.items()})

    @classmethod
    def _read_value(cls, name: str, text: str | bool) -> Any:
        if name in cls.extents_of_key:
            return tuple(read_integer(name, part) for part in str(text).split(","))
        return read_integer(name, text) if name in cls.numbers else text

    @property
    def io_bytes(self) -> int:
        every = (*self.inputs, *self.outputs)
        return sum(prod(tensor.shape) * ELEMENT_TYPES[tensor.dtype].bytes for tensor in every)


Numbers = TypeVar("Numbers", bound="Parameters")


@dataclass(frozen=True)
class Parameters:
    """Scales and zero points by name, one number each for the whole tensor. Each op adds its own fields."""

    @classmethod
    def of(cls: type[Numbers], given: Mapping[str, Any], zero_points: Mapping[str, str]) -> Numbers:
        """Return these values as float32 and int, or raise ValueError. `zero_points` maps each zero point to its
        type."""
        known = [entry.name for entry in fields(cls)]
        for name in given:
            if name not in known:
                raise ValueError(f"{name} is no parameter of this op; it has {', '.join(known)}")
        values = cls(**given)
        checked: dict[str, Any] = {}
        for name in known:
            number = _one_number(name, getattr(values, name))
            if name in zero_points:
                check_zero_point(name, number, zero_points[name])
                checked[name] = int(number)
            else:
                checked[name] = _scale(name, number)
        return cls(**checked)


def _one_number(name: str, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.size != 1:
        raise ValueError(f"{name}={value!r} must be one number: the scale and the zero point are of the whole tensor")
    return array.reshape(()).item()


def _scale(name: str, value: Any) -> np.float32:
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not (np.isfinite(single) and single > 0):
        raise ValueError(f"{name}={value} is {single} as float32; a scale must be finite and positive")
    return single
