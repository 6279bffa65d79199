"""The base classes of every operation: `Problem` with its arrays and key, `Option` for the command line, and `Op`,
which connects parsing, random data and the oracle."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, Literal, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray

from qconv.dtypes import teach_numpy, why_not_fnuz

# extents: an integer, or several separated by commas. switch: present or absent. zero_point: True, or the integer that
# the data of `run` and `bench` use. texts: may be given several times.
Kind = Literal["integer", "extents", "text", "texts", "switch", "zero_point"]


@dataclass(frozen=True)
class Option:
    name: str
    says: str  # in the help; ops that share an option each add their part
    kind: Kind = "text"
    choices: tuple[str, ...] = ()  # the only accepted texts, if not empty
    metavar: str | None = None
    alone: str | None = None  # the value of the option without an argument
    required: bool = False

    @property
    def spelled(self) -> str:
        return f"--{self.name.replace('_', '-')}"


INT_MAX = 2**31 - 1
# Kernels count elements in int32, and compute indices up to one tile past the end.
LARGEST = INT_MAX - 4096
# Bytes of the widest load or store.
WIDEST = 16
# Elements that fill any device. Larger problems are equally fast with the same config.
FULL = 2**22

# `Tensor` refers to dtypes by name.
teach_numpy()


@dataclass(frozen=True)
class Tensor:
    """One array of a call, as the kernel takes it: contiguous, with this shape and type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Problem:
    """The base class of problems: frozen dataclasses with a `key`. Problems are equal where their keys are, so that a
    warm lookup is one dictionary hit rather than a comparison of twenty fields."""

    op: ClassVar[str]
    key: str
    _hash: int

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Return the arrays of a call, in order."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    @property
    def io_bytes(self) -> int:
        """Return the bytes of all inputs and outputs, each counted once."""
        raise NotImplementedError

    @property
    def operations(self) -> int:
        """Return the number of multiplies and adds, which rates are computed from; 0 where only bytes count."""
        return 0

    @property
    def floats(self) -> str:
        """Return the type of the floats that it multiplies; "" where it multiplies integers or nothing."""
        return ""

    @property
    def extents(self) -> dict[str, int]:
        """Return the sizes that a config depends on most. The distance between two problems is counted in doublings of
        these."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[object, ...]:
        """Return the other properties that a config depends on: types, and choices that need a different kernel."""
        raise NotImplementedError

    @property
    def shape_class(self) -> tuple[object, ...]:
        """Return the properties that decide which families serve a problem, how wide they load and store, and which
        remainders they compute. A config that is fast for one class can be many times slower for another, however close
        their extents are."""
        return tuple(alignment(extent, WIDEST) for extent in self.extents.values())

    @property
    def parts(self) -> tuple[Problem, ...]:
        """Return the problems that are equivalent to this one when run in sequence, or ()."""
        return ()

    @property
    def packed(self) -> tuple[str, ...]:
        """Return the names of the inputs that stay the same from call to call."""
        return ()

    def relayout(self, named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """Remove layouts from `named`, the arguments of a call. For each input that the caller lays out differently,
        return the order of the axes."""
        return {}

    @property
    def arithmetic(self) -> Any:
        """Return the object from which, with the parameters, the values of kernel arguments are computed."""
        return self

    def checked(self, parameters: dict[str, Any]) -> Any:
        """Return the checked run-time values. Raise ValueError where one is wrong or unknown."""
        if parameters:
            raise ValueError(f"{self.op} takes no {next(iter(parameters))}: its arrays are all it has")
        return None

    def _name(self, key: str) -> None:
        """Set the key and its hash, as the last step of `__post_init__`."""
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_hash", hash(key))

    def __init_subclass__(cls) -> None:
        """Keep the repr, which the decorator of a dataclass would replace."""
        cls.__repr__ = Problem.__repr__  # type: ignore[method-assign]

    def __str__(self) -> str:
        return self.key

    def __repr__(self) -> str:
        """Return the expression that makes this problem again."""
        return f"qconv.parse({self.key!r})"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.key == other.key


def alignment(extent: int, most: int) -> int:
    """Return the largest power of two that divides `extent`, up to `most`."""
    return min(extent & -extent, most)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    # The isinstance check comes first: NumPy dtypes equal their names, and arrays compare by element.
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{name}={quoted(value)} is not one of {', '.join(choices)}{why_not_fnuz(value) or hint}")


def checked_size(name: str, value: object, least: int, most: int = LARGEST) -> int:
    """Return the number as a Python int. Integers of NumPy and other libraries are accepted."""
    if type(value) is int and least <= value <= most:
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise ValueError(f"{name}={quoted(value)} must be an integer") from None
    if not least <= number <= most:
        raise ValueError(f"{name}={quoted(number)} must be between {least} and {most}")
    return number


def checked_axis(axis: object, name: str, shape: Sequence[int]) -> int:
    """Return the axis of the array called `name` with this shape, counted from the front."""
    if not shape:
        raise ValueError(f"{name} has shape () and so no axis: give an array that has one")
    return checked_size("axis", axis, -len(shape), len(shape) - 1) % len(shape)


def several(name: str, values: object, length: int, least: int) -> tuple[int, ...]:
    """Return `length` checked integers: the given ones, or `length` copies of a single one."""
    if not isinstance(values, (tuple, list)) and isinstance(values, SupportsIndex):
        values = (values,) * length
    if not isinstance(values, (tuple, list)) or len(values) != length:
        raise ValueError(f"{name}={values!r} must be one integer or {length} of them")
    return tuple(checked_size(name, value, least) for value in values)


Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """The arrays of one call in order, and its parameters by name. `forced` says, per layer of a chain, why the problem
    cannot have outputs as varied as promised; it is usually empty."""

    arrays: tuple[Array, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    forced: tuple[str, ...] = ()
    # Arrays with which launches are timed, where `arrays` are numbers whose sums are exact: fewer of their bits change,
    # and a GPU is faster with them.
    timed: tuple[Array, ...] = ()


@dataclass(frozen=True)
class Op:
    """Everything that is known about an operation without a kernel. Each module of an operation exports one, and
    `qconv.ops.registry` lists them. The families of the generator say which kernels serve its problems."""

    name: str  # its command, and the prefix of its keys
    says: str  # what it computes, in the help
    problems: tuple[type[Problem], ...]
    read: Callable[[str], Problem]  # parse a key
    # Make a problem of the command line's options, by name. Raise ValueError where they are invalid.
    ask: Callable[[dict[str, Any]], Problem]
    options: tuple[Option, ...]
    # Draw random data from a seed. The last argument holds the zero points that the caller chose.
    draw: Callable[[Any, int, dict[str, int]], Sample]
    compute: Callable[[Any, Sample], tuple[Array, ...]]  # the oracle: exact, in NumPy
    # Advice for an option that the op does not have. Empty: leave the option out.
    instead: str = ""
    # The op whose keys, joined by BETWEEN, make a key of this op.
    joins: str = ""


# A key is the op, then `name=value` or the name of a flag, separated by colons; or several keys joined by BETWEEN.
BETWEEN = "+"
# A part of a joined key begins where the name of an op follows, or nothing; the sums of an expression have the sign
# as well.
_PART = re.compile(rf"{re.escape(BETWEEN)}(?=\s*(?:\w+:|$))")


def parts_of_key(key: str) -> list[str]:
    """Return the keys that a key joins, or the key itself."""
    return _PART.split(key)


def read_key(key: str, flags: tuple[str, ...]) -> tuple[str, dict[str, str | bool]]:
    """Split a key into its op and its fields, which may come in any order. Reject duplicates."""
    op, *parts = key.strip().split(":")
    given: dict[str, str | bool] = {}
    for part in parts:
        name, equals, text = part.partition("=")
        if name in given:
            raise ValueError(f"{quoted(name)} stands twice in the key {quoted(key)}")
        if bool(equals) == (name in flags):
            rule = "is a flag and takes no value" if name in flags else "needs a value, as in name=value"
            raise ValueError(f"{quoted(part)} in the key {quoted(key)}: {quoted(name)} {rule}")
        given[name] = text if equals else True
    return op, given


def read_integer(name: str, text: str | bool) -> int:
    digits = text.removeprefix("-") if isinstance(text, str) else ""
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        raise ValueError(f"{name}={quoted(text)} in a problem key must be an integer of at most ten digits")
    return int(text)


def changed_fields(given: Any) -> str:
    """Return the repr of a dataclass with only the fields that differ from their defaults, in one line: an array is
    shown by its shape and type."""
    said = []
    for one in fields(given):
        value = getattr(given, one.name)
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        if getattr(value, "shape", ()):
            said.append(f"{one.name}=<{value.dtype} of {tuple(value.shape)}>")
            continue
        value = value.item() if isinstance(value, np.ndarray | np.generic) else value
        if value != default:
            said.append(f"{one.name}={quoted(value)}")
    return f"{type(given).__name__}({', '.join(said)})"


def quoted(value: object) -> str:
    """Return a value as a message shows it: on one line, and at most 160 characters long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list thousands deep
        text = f"a value of type {type(value).__name__} that is too large to be shown"
    return text if len(text) <= 160 else text[:157] + "..."
