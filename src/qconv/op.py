"""An option of the command line, as data: an op lists those that its problems are read from.

What every problem is: named arrays in, named arrays out, and a key that says it all; and what an op does with it.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, SupportsIndex, cast

from numpy.typing import NDArray

from qconv.dtypes import teach_numpy

# extents: an integer, or several with commas between. switch: given or not. zero_point: True, or the integer that the
# data of `run` and `bench` shall have. texts: may be given several times.
Kind = Literal["integer", "extents", "text", "texts", "switch", "zero_point"]


@dataclass(frozen=True)
class Option:
    name: str
    says: str  # in the help; ops that share an option each say their part
    kind: Kind = "text"
    choices: tuple[str, ...] = ()  # a text that is none of these is refused
    metavar: str | None = None
    alone: str | None = None  # the text that the bare option stands for
    required: bool = False

    @property
    def spelled(self) -> str:
        return f"--{self.name.replace('_', '-')}"


INT_MAX = 2**31 - 1
# Kernels count elements in int32, and look up to one tile past the end.
LARGEST = INT_MAX - 4096
# Bytes of the widest load or store.
WIDEST = 16
# Elements that fill any device: of more than that, configs are as fast as of so many.
FULL = 2**22

# Tensors name their dtypes.
teach_numpy()


@dataclass(frozen=True)
class Tensor:
    """One array of a call, as the kernel takes it: contiguous, of this shape and type."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class Problem:
    """A frozen dataclass with `key`. Two problems are the same where their keys are: a warm lookup is one dictionary
    hit, not the comparison of twenty fields."""

    op: ClassVar[str]
    key: str
    _hash: int

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arrays of a call, in its order."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    @property
    def io_bytes(self) -> int:
        """Each input byte read once, each output byte written once."""
        raise NotImplementedError

    @property
    def operations(self) -> int:
        """What a rate is counted in: multiplies and adds, as peers count them; 0 where only bytes count."""
        return 0

    @property
    def extents(self) -> dict[str, int]:
        """What a config depends on most: how far apart two problems are is counted in doublings of these."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[object, ...]:
        """What else a config depends on: types, and what makes the kernel another one."""
        raise NotImplementedError

    @property
    def shape_class(self) -> tuple[object, ...]:
        """Everything that decides which families serve a problem, how wide they load and store, and which remainders
        they compute. Between problems of different classes, a config that is fast for one can be many times too slow
        for the other, however close their extents are."""
        return tuple(alignment(extent, WIDEST) for extent in self.extents.values())

    @property
    def parts(self) -> tuple[Problem, ...]:
        """The problems that give the same one after the other, where there are such."""
        return ()

    @property
    def packed(self) -> tuple[str, ...]:
        """The inputs that stay the same from call to call."""
        return ()

    def relayout(self, named: dict[str, Any]) -> dict[str, tuple[int, ...]]:
        """Takes the layouts out of what is given by name: where the axes of an input lie in the array given."""
        return {}

    @property
    def arithmetic(self) -> Any:
        """What an argument of the kernel follows from, beside the parameters."""
        return self

    def checked(self, parameters: dict[str, Any]) -> Any:
        """The run-time values that are given by name, checked; ValueError where one is wrong or not known."""
        if parameters:
            raise ValueError(f"{self.op} takes no {next(iter(parameters))}: its arrays are all it has")
        return None

    def _name(self, key: str) -> None:
        """The last thing that a problem does when it is made."""
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "_hash", hash(key))

    def __str__(self) -> str:
        return self.key

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.key == other.key


def alignment(extent: int, most: int) -> int:
    """The largest power of two that divides it, up to `most`."""
    return min(extent & -extent, most)


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    # NumPy's types equal their names, and arrays are compared by element.
    if isinstance(value, str) and value in choices:
        return
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"{name}={quoted(value)} is not one of {', '.join(choices)}{hint}")


def checked_size(name: str, value: object, least: int, most: int = LARGEST) -> int:
    """The number as a Python int: NumPy's and other libraries' integers are as good."""
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
    """The axis of the array that has this name and this shape, counted from the front."""
    if not shape:
        raise ValueError(f"{name} has shape () and so no axis: give an array that has one")
    return checked_size("axis", axis, -len(shape), len(shape) - 1) % len(shape)


def several(name: str, values: object, length: int, least: int) -> tuple[int, ...]:
    """What one number stands for, or so many."""
    if not isinstance(values, (tuple, list)) and isinstance(values, SupportsIndex):
        values = (values,) * length
    if not isinstance(values, (tuple, list)) or len(values) != length:
        raise ValueError(f"{name}={values!r} must be one integer or {length} of them")
    return tuple(checked_size(name, value, least) for value in values)


Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """The arrays of one call in their order, and its parameters by name. `forced` says why the problem cannot have
    outputs of the variety that is promised, by layer for a chain; mostly it is empty."""

    arrays: tuple[Array, ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    forced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Op:
    """Everything that is known of an operation before there is a kernel. Its module exports one, and
    `qconv.ops.registry` lists them; which kernels serve its problems the families of the generator say."""

    name: str  # what the command line calls it, and what its keys begin with
    says: str  # what it computes, in the help
    problems: tuple[type[Problem], ...]
    read: Callable[[str], Problem]  # from a key
    # From the command line's options, by name. ValueError where they are no problem.
    ask: Callable[[dict[str, Any]], Problem]
    options: tuple[Option, ...]
    # Data by a seed. The last argument holds the zero points that the caller chose.
    draw: Callable[[Any, int, dict[str, int]], Sample]
    compute: Callable[[Any, Sample], tuple[Array, ...]]  # the oracle: exact, in NumPy
    # What to give in place of an option that it does not have; nothing: it is left out.
    instead: str = ""
    # The op whose keys its own are made of, with BETWEEN between them.
    joins: str = ""


# The grammar of a key: the op, then `name=value` or the name of a flag, with colons between; or several keys.
BETWEEN = "+"


def read_key(key: str, flags: tuple[str, ...]) -> tuple[str, dict[str, str | bool]]:
    """The op and what stands behind it. Order is free; what stands twice is refused."""
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


def quoted(value: object) -> str:
    """A value as a message shows it: in one line, and no longer than anybody reads."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list thousands deep
        text = f"a value of type {type(value).__name__} that is too large to be shown"
    return text if len(text) <= 160 else text[:157] + "..."
