"""What follows from a problem, a config and a target: everything that a template prints and a launch needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from qconv.errors import Infeasible
from qconv.op import Problem
from qconv.problem import Conv2d
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


@dataclass(frozen=True)
class Field:
    """One member of the kernel's argument struct: a pointer or a scalar, and where its value comes from."""

    name: str
    ctype: str
    # The name of the caller's array; workspace: written by an earlier launch; value: from the parameters;
    # scratch: int32 zeros before the launches of a call, and again after them; calls that may run at the same time
    # must not share it.
    role: str
    says: str
    argument: Argument | None = None
    elements: int = 1  # what a pointer that is not the caller's points at
    stage: str = ""  # of a problem that has several: whose value it is

    @property
    def path(self) -> str:
        return f"{self.stage}.{self.name}" if self.stage else self.name

    @property
    def is_pointer(self) -> bool:
        return self.ctype.endswith("*")

    def value(self, problem: Problem, parameters: Any) -> bytes:
        """What this field holds, or points at where it is a pointer: one value, or one per output channel."""
        assert self.argument is not None
        if self.stage:
            problem, parameters = getattr(problem, self.stage), getattr(parameters, self.stage)
        assert isinstance(problem, Conv2d)
        value = self.argument.value(problem.quantization, parameters)
        shape = (self.elements,) if self.is_pointer else ()
        return np.broadcast_to(np.asarray(value, self.argument.dtype), shape).tobytes()

    @property
    def declaration(self) -> str:
        return f"{self.ctype} {self.name}"


EACH = "a call"


@dataclass(frozen=True)
class Launch:
    kernel: str
    grid: tuple[int, int, int]
    threads: int
    smem_bytes: int
    once: str = EACH
    cluster: int = 1  # neighbouring blocks that reach each other's shared memory; on a GPU the kernel itself says so

    def __str__(self) -> str:
        grid = "x".join(map(str, self.grid))
        return f"{self.kernel}<<<{grid}, {self.threads}, {self.smem_bytes} B>>>, once {self.once}"


@dataclass(frozen=True)
class Plan:
    problem: Problem
    config: Config
    target: Target
    page: str
    constants: dict[str, tuple[Constant, ...]]  # by the heading they stand under
    launches: tuple[Launch, ...]  # in order; the last is the one that the config is about
    fields: tuple[Field, ...]
    alignment: dict[str, int]  # of the caller's arrays, in bytes
    aliases: dict[str, str]  # what the source calls X, W, ... and its type
    roles: dict[str, Any] = field(default_factory=dict)  # what else the page reads: which files fill its roles
    wants: tuple[str, ...] = ()  # what the prelude has to bring for the page
    # The main kernel executes griddepcontrol: before it reads activations, or writes anything, it waits for what was
    # launched before it; and what is launched next may begin before it ends. Until it waits it reads weights and
    # parameters alone.
    overlaps: bool = False
    # Of a problem that has several, by their names: each is a namespace of the source.
    stages: dict[str, Plan] = field(default_factory=dict)
    # Of a problem that takes several kernels, one after the other: each has a source of its own.
    parts: tuple[Plan, ...] = ()

    @property
    def once(self) -> tuple[Launch, ...]:
        """What is launched ahead, when the weights are packed."""
        return tuple(launch for launch in self.launches if launch.once != EACH)

    @property
    def each(self) -> tuple[Launch, ...]:
        return tuple(launch for launch in self.launches if launch.once == EACH)

    @property
    def main(self) -> Launch:
        return self.launches[-1]

    @property
    def kernels(self) -> tuple[Plan, ...]:
        """Those of its parts, and of theirs, that have a source of their own."""
        return tuple(kernel for part in self.parts for kernel in part.kernels) or (self,)

    @property
    def scratch(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.role == "scratch")

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of the fields in the kernel's one argument, as C lays them out: a stage's begin with a pointer."""
        offsets, end = [], 0
        for each in self.fields:
            size = 8 if each.is_pointer else 4
            offsets.append(ceil_div(end, size) * size)
            end = offsets[-1] + size
        return tuple(offsets)

    @property
    def argument_bytes(self) -> int:
        """sizeof(Arguments): its end is padded to the alignment of pointers."""
        return 8 * ceil_div(self.offsets[-1] + 4, 8)


def check_choices(config: Config, choices: dict[str, tuple[int, ...]]) -> None:
    for name, values in choices.items():
        if getattr(config, name) not in values:
            raise Infeasible(f"{name}={getattr(config, name)} is not one of {', '.join(map(str, values))}")


def at_most(value: int, limit: int, message: str) -> None:
    if value > limit:
        raise Infeasible(f"{message}: {value}; at most {limit}", excess=value / limit - 1)


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


# The roundings in words, for the math in a source's header.
ROUNDINGS = {"rne": "round_half_to_even", "half_away": "round_half_away_from_zero", "rtz": "truncate"}
