"""Neighbouring layers, whose kernels are chosen together: a layer by itself, or several in one kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from qconv.instances.load.expected import Expectations, may_be_promising
from qconv.op import Problem
from qconv.ops.registry import parse


@dataclass(frozen=True)
class Neighbours:
    """The problems of layers by themselves, and of kernels for several of them, each with the index of its first
    layer. With `any_chain`, kernels are chosen for chains that are not promising as well."""

    problems: tuple[Problem, ...]
    fused: tuple[tuple[Problem, int], ...] = ()
    any_chain: bool = False

    @property
    def every(self) -> tuple[Problem, ...]:
        return (*self.problems, *(problem for problem, _ in self.fused))

    def chosen(self, expectations: Expectations) -> Iterator[Problem]:
        """Look up the problems that a network looks up, and generate them."""
        alone = expectations.of(self.problems)
        yield from self.problems
        for problem, begin in self.fused:
            layers = [one for one in alone[begin:] if one is not None]
            if self.any_chain or may_be_promising(problem, layers, expectations.device.target):
                expectations.of([problem])
                yield problem

    def as_dict(self) -> dict[str, Any]:
        return {
            "problems": [str(problem) for problem in self.problems],
            "fused": [[str(problem), begin] for problem, begin in self.fused],
            "any_chain": self.any_chain,
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        fused = tuple((parse(key), int(begin)) for key, begin in values["fused"])
        return cls(tuple(map(parse, values["problems"])), fused, bool(values["any_chain"]))
