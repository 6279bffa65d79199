"""What follows from a problem, a config and a target: everything that a template prints and a launch needs.

Kernels that wait by themselves for the launch before them, so that they may begin while it ends.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from qconv.arithmetic.step import Argument
from qconv.errors import Infeasible
from qconv.generator.tensor_map import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, TensorMap
from qconv.op import Problem
from qconv.targets.target import Target


@dataclass(frozen=True)
class Config:
    """What is searched. Each kernel family adds its integers."""

    family: ClassVar[str]

    def as_dict(self) -> dict[str, object]:
        return {"family": self.family} | {f.name: getattr(self, f.name) for f in fields(self)}

    def as_json(self) -> str:
        """The canonical text: what the database stores and compares."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def __str__(self) -> str:
        return " ".join([self.family] + [f"{f.name}={getattr(self, f.name)}" for f in fields(self)])


class Constant(NamedTuple):
    """One `constexpr` line of the generated source. A space has hundreds of thousands: tuples are made fastest."""

    name: str
    value: int | bool
    says: str = ""

    @property
    def ctype(self) -> str:
        return "bool" if isinstance(self.value, bool) else "int"

    @property
    def text(self) -> str:
        return str(self.value).lower()

    @property
    def declaration(self) -> str:
        says = f"  // {self.says}" if self.says else ""
        return f"constexpr {self.ctype} {self.name} = {self.text};{says}"


@dataclass(frozen=True)
class Field:
    """One member of the kernel's argument struct (a pointer, a scalar, a tensor map) and where its value comes from."""

    name: str
    ctype: str
    # The name of the caller's array; workspace: written by an earlier launch; value: from the parameters;
    # scratch: zeros before the launches of a call, and again after them; calls that may run at the same time must not
    # share it; tensor_map: of an array that the map names; a workspace stands before its map.
    role: str
    says: str
    argument: Argument | None = None
    elements: int = 1  # of four bytes each: what a pointer that is not the caller's points at
    layer: str = ""  # of a problem that has several: whose value it is
    tensor_map: TensorMap | None = None

    @classmethod
    def of_value(cls, argument: Argument) -> Self:
        """One number that the parameters give."""
        return cls(argument.name, argument.ctype, "value", argument.says, argument)

    @property
    def path(self) -> str:
        return f"{self.layer}.{self.name}" if self.layer else self.name

    @property
    def is_pointer(self) -> bool:
        return self.ctype.endswith("*")

    @property
    def size_bytes(self) -> int:
        return TENSOR_MAP_BYTES if self.tensor_map is not None else 8 if self.is_pointer else 4

    @property
    def alignment(self) -> int:
        return TENSOR_MAP_ALIGNMENT if self.tensor_map is not None else self.size_bytes

    def value(self, problem: Problem, parameters: Any) -> bytes:
        """What this field holds, or points at where it is a pointer: one value, or one per output channel."""
        assert self.argument is not None
        if self.layer:
            problem, parameters = getattr(problem, self.layer), getattr(parameters, self.layer)
        value = self.argument.value(problem.arithmetic, parameters)
        shape = (self.elements,) if self.is_pointer else ()
        return np.broadcast_to(np.asarray(value, self.argument.dtype), shape).tobytes()

    @property
    def declaration(self) -> str:
        return f"{self.ctype} {self.name}"


When = Literal["prepare", "call"]


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    when: When = "call"  # with a set of weights, or whenever it is called
    cluster: int = 1  # neighbouring blocks that reach each other's shared memory; on a GPU the kernel itself says so

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        return f"{self.kernel}<<<{grid}, {self.threads}, {self.smem_bytes} B>>> when: {self.when}"


@dataclass(frozen=True)
class Roles:
    """What a page reads beside the constants, by these names: which file fills which of its roles, which of its lines
    are there. What anything but a page reads is a field of the plan."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a page reads of the problem, by these names, whatever the plan: each op adds its own."""

    says: list[str]  # the math in words
    wants: frozenset[str]  # what the prelude has to bring


@dataclass(frozen=True)
class Plan(ABC):
    """Each family adds, as fields, the numbers that follow; what is below is made of them when it is asked for, for a
    search looks at many thousands of plans and renders a few. What a launch reads is kept: a host launches often."""

    problem: Problem
    config: Config
    target: Target

    page: ClassVar[str]

    @property
    @abstractmethod
    def launches(self) -> tuple[Launch, ...]:
        """In order; the last is the one that the config is about."""

    @property
    @abstractmethod
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        """What the source begins with, by the heading they stand under."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The members of the kernel's one argument."""

    @property
    @abstractmethod
    def alignment(self) -> dict[str, int]:
        """Bytes, for each of the caller's arrays."""

    @property
    @abstractmethod
    def aliases(self) -> dict[str, str]:
        """What the source calls X, W, ... and its type."""

    @property
    @abstractmethod
    def context(self) -> Context:
        """What the page reads of the problem."""

    @property
    def roles(self) -> Roles:
        return Roles()

    @property
    def wants(self) -> tuple[str, ...]:
        """What the prelude has to bring for the page."""
        return ()

    @property
    def dot(self) -> str:
        """The file with the dot product of two words, for pages that multiply so."""
        return ""

    @property
    def overlaps(self) -> bool:
        """Whether the main kernel executes griddepcontrol: before it reads activations, or writes anything, it waits
        for what was launched before it; and what is launched next may begin before it ends. Until it waits it reads
        weights and parameters alone."""
        return False

    @property
    def in_place(self) -> tuple[str, ...]:
        """The caller's arrays of which the output may be one: a thread reads what it needs of it before it writes. It
        is as large as each of them whatever the shapes, so that a recording may give it the place of any."""
        return ()

    @property
    def may_alias(self) -> tuple[str, ...]:
        """The same where the caller names the output: shapes of his may allow more."""
        return self.in_place

    @property
    def layers(self) -> Mapping[str, Plan]:
        """The convolutions of a problem that has several, by their names: each is a namespace of the source."""
        return {}

    @property
    def parts(self) -> tuple[Plan, ...]:
        """The kernels of a problem that takes several, one after the other: each has a source of its own."""
        return ()

    @cached_property
    def prepare(self) -> tuple[Launch, ...]:
        """What is launched ahead, when the weights are packed."""
        return tuple(launch for launch in self.launches if launch.when == "prepare")

    @cached_property
    def call(self) -> tuple[Launch, ...]:
        return tuple(launch for launch in self.launches if launch.when == "call")

    @cached_property
    def main(self) -> Launch:
        return self.launches[-1]

    @cached_property
    def kernels(self) -> tuple[Plan, ...]:
        """The plans that have a source of their own: itself, or those of its parts."""
        return tuple(kernel for part in self.parts for kernel in part.kernels) or (self,)

    @cached_property
    def scratch(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "scratch")

    @cached_property
    def tensor_maps(self) -> tuple[Field, ...]:
        """Raises Infeasible where the target has no copies by tensor maps."""
        found = tuple(field for field in self.fields if field.tensor_map is not None)
        if found and not self.target.tensor_maps:
            names = ", ".join(field.path for field in found)
            raise Infeasible(
                f"the tensor maps {names}: {self.target.name} copies nothing by tensor maps; plan without them"
            )
        return found

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets of the fields in the kernel's one argument, as C lays them out: a layer's begin with a pointer."""
        offsets, end = [], 0
        for each in self.fields:
            offsets.append(ceil_div(end, each.alignment) * each.alignment)
            end = offsets[-1] + each.size_bytes
        return tuple(offsets)

    @cached_property
    def argument_bytes(self) -> int:
        """sizeof(Arguments): its end is padded to the alignment of pointers, or of tensor maps."""
        alignment = max(8, *(field.alignment for field in self.fields))
        return alignment * ceil_div(self.offsets[-1] + self.fields[-1].size_bytes, alignment)


def check_choices(config: Config, choices: dict[str, tuple[int, ...]]) -> None:
    given = vars(config)  # the quickest way: spaces are large, and each config is checked
    for name, values in choices.items():
        if given[name] not in values:
            raise Infeasible(f"{name}={given[name]} is not one of {', '.join(map(str, values))}")


def at_most(value: int, limit: int, message: str) -> None:
    if value > limit:
        raise Infeasible(f"{message}: {value}; at most {limit}", excess=value / limit - 1)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# The roundings in words, for the math in a source's header.
ROUNDINGS = {"rne": "round_half_to_even", "half_away": "round_half_away_from_zero", "rtz": "truncate"}


class WaitingPlan(Plan):
    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches

    @property
    def wants(self) -> tuple[str, ...]:
        return (*super().wants, *("overlap",) * self.overlaps)
