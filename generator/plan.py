"""A plan: everything that follows from a problem, a config and a target, as templates print it and launches need it.
Also the parts of a plan: configs, constants, fields of the argument struct, launches."""

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
    """A point of the search space. Each kernel family adds its integer fields."""

    family: ClassVar[str]

    def as_dict(self) -> dict[str, object]:
        return {"family": self.family} | {f.name: getattr(self, f.name) for f in fields(self)}

    def as_json(self) -> str:
        """Return the canonical text, as the database stores and compares it."""
        return self._json

    @cached_property
    def _json(self) -> str:
        return json.dumps(self.as_dict(), separators=(",", ":"))

    def __str__(self) -> str:
        return " ".join([self.family] + [f"{f.name}={getattr(self, f.name)}" for f in fields(self)])


class Constant(NamedTuple):
    """One `constexpr` line of the generated source. A tuple, because a search space makes hundreds of thousands."""

    name: str
    value: int | bool
    says: str = ""
    may_be_unused: bool = False  # some kernels that declare it do not read it, which compilers warn about

    @property
    def ctype(self) -> str:
        return "bool" if isinstance(self.value, bool) else "int"

    @property
    def text(self) -> str:
        return str(self.value).lower()

    @property
    def declaration(self) -> str:
        says = f"  // {self.says}" if self.says else ""
        attribute = "[[maybe_unused]] " * self.may_be_unused
        return f"{attribute}constexpr {self.ctype} {self.name} = {self.text};{says}"


@dataclass(frozen=True)
class Field:
    """A member of the kernel's argument struct (a pointer, a scalar or a tensor map) and the source of its value."""

    name: str
    ctype: str
    # The name of one of the caller's arrays, or:
    # workspace: memory that an earlier launch writes; declared before a tensor map of it
    # value: from the parameters
    # scratch: zeros before and after the launches of a call; concurrent calls must not share it
    # tensor_map: of the array that the map names
    role: str
    says: str
    argument: Argument | None = None
    elements: int = 1  # 4-byte elements behind a pointer to memory that is not the caller's
    layer: str = ""  # the layer that the value belongs to, in a problem that has several
    tensor_map: TensorMap | None = None

    @classmethod
    def of_value(cls, argument: Argument) -> Self:
        """Make the field of one number that the parameters give."""
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
        """Return the bytes of the field, or of the memory it points to: one value, or one per output channel."""
        assert self.argument is not None
        if self.layer:
            problem, parameters = getattr(problem, self.layer), getattr(parameters, self.layer)
        value = self.argument.value(problem.arithmetic, parameters)
        shape = (self.elements,) if self.is_pointer else ()
        return np.broadcast_to(np.asarray(value, self.argument.dtype), shape).tobytes()

    @property
    def declaration(self) -> str:
        return f"{self.ctype} {self.name};  // {self.says}"


When = Literal["prepare", "call"]


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    when: When = "call"  # once per set of weights, or at every call
    cluster: int = 1  # blocks per cluster, which share their shared memory; on a GPU the kernel declares it

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        return f"{self.kernel}<<<{grid}, {self.threads}, {self.smem_bytes} B>>> when: {self.when}"


@dataclass(frozen=True)
class Roles:
    """Values that only the page reads, under these names: the template file for each of its roles, and switches for
    optional code. A value with any other reader is a field of the plan."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """Values that a page reads about the problem, the same for all plans of it. Each op adds its own."""

    says: list[str]  # the math in words


@dataclass(frozen=True)
class Plan(ABC):
    """The plan of a kernel. Families add their numbers as fields; everything else is a property, computed on demand,
    because a search makes many thousands of plans and renders few. Properties that a launch reads are cached."""

    problem: Problem
    config: Config
    target: Target

    page: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Keep the repr, which the decorator of a dataclass would replace."""
        cls.__repr__ = Plan.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.config} for {self.problem} on {self.target.name}>"

    @property
    @abstractmethod
    def launches(self) -> tuple[Launch, ...]:
        """All launches, in order. The last one is the main kernel, which the config describes."""

    @property
    @abstractmethod
    def constants(self) -> dict[str, tuple[Constant, ...]]:
        """The constants at the top of the source, by heading."""

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The members of the kernel's argument struct."""

    @property
    @abstractmethod
    def alignment(self) -> dict[str, int]:
        """Required alignment in bytes of each of the caller's arrays."""

    @property
    @abstractmethod
    def aliases(self) -> dict[str, str]:
        """Type aliases of the source, such as X and W, with their element types."""

    @property
    @abstractmethod
    def context(self) -> Context:
        """The values that the page reads about the problem."""

    @property
    def roles(self) -> Roles:
        return Roles()

    @property
    def wants(self) -> tuple[str, ...]:
        """Features for which pages and preludes have another text: overlap, where the page waits for the launch before;
        tensors, where TMA copies tiles; async_proxy, where threads write what TMA or `wgmma` reads; phases, where an
        mbarrier of a fused kernel has several; tensor_memory; shuffle, where lanes exchange values."""
        return ("overlap",) * self.overlaps

    @property
    def dot(self) -> str:
        """The template file of the dot product of two words, for pages that use one."""
        return ""

    @property
    def overlaps(self) -> bool:
        """True where the main kernel uses programmatic dependent launch: it waits for the launch before it before it
        reads activations or writes anything, and lets the next launch begin before it ends. Before that wait it reads
        only weights and parameters."""
        return False

    @property
    def in_place(self) -> tuple[str, ...]:
        """The caller's arrays that the output may overwrite, because each thread reads their elements before it writes.
        They have the output's size for every shape, so a recording may place the output in any of them."""
        return ()

    @property
    def may_alias(self) -> tuple[str, ...]:
        """The arrays that the output may overwrite where the caller chooses the output. Certain shapes allow more than
        `in_place`."""
        return self.in_place

    @property
    def layers(self) -> Mapping[str, Plan]:
        """The convolutions of a problem that has several, by name. Each is a namespace of the source."""
        return {}

    @property
    def parts(self) -> tuple[Plan, ...]:
        """The plans of a problem that takes several kernels, in order. Each has a source of its own."""
        return ()

    @cached_property
    def prepare(self) -> tuple[Launch, ...]:
        """Launches that run once, when the weights are packed."""
        return tuple(launch for launch in self.launches if launch.when == "prepare")

    @cached_property
    def call(self) -> tuple[Launch, ...]:
        return tuple(launch for launch in self.launches if launch.when == "call")

    @cached_property
    def main(self) -> Launch:
        return self.launches[-1]

    @cached_property
    def kernels(self) -> tuple[Plan, ...]:
        """The plans that have a source of their own: this one, or those of its parts."""
        return tuple(kernel for part in self.parts for kernel in part.kernels) or (self,)

    @cached_property
    def scratch(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "scratch")

    @cached_property
    def tensor_maps(self) -> tuple[Field, ...]:
        """The fields with tensor maps. Raises Infeasible where the target has no TMA."""
        found = tuple(field for field in self.fields if field.tensor_map is not None)
        if found and not self.target.tensor_maps:
            names = ", ".join(field.path for field in found)
            raise Infeasible(
                f"the tensor maps {names}: {self.target.name} copies nothing by tensor maps; plan without them"
            )
        return found

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets of the fields in the argument struct, as C lays them out. A layer's fields begin with a pointer."""
        offsets, end = [], 0
        for each in self.fields:
            offsets.append(ceil_div(end, each.alignment) * each.alignment)
            end = offsets[-1] + each.size_bytes
        return tuple(offsets)

    @cached_property
    def argument_bytes(self) -> int:
        """sizeof(Arguments), padded to the alignment of pointers or of tensor maps."""
        alignment = max(8, *(field.alignment for field in self.fields))
        return alignment * ceil_div(self.offsets[-1] + self.fields[-1].size_bytes, alignment)


def check_choices(config: Config, choices: dict[str, tuple[int, ...]]) -> None:
    given = vars(config)  # the fastest access: spaces are large, and every config is checked
    for name, values in choices.items():
        if given[name] not in values:
            raise Infeasible(f"{name}={given[name]} is not one of {', '.join(map(str, values))}")


def at_most(value: int, limit: int, message: str) -> None:
    if value > limit:
        raise Infeasible(f"{message}: {value}; at most {limit}", excess=value / limit - 1)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# Names of the rounding modes, for the math in a source's header.
ROUNDINGS = {"rne": "round_half_to_even", "half_away": "round_half_away_from_zero", "rtz": "truncate"}


class WaitingPlan(Plan):
    @property
    def overlaps(self) -> bool:
        return self.target.overlaps_launches
