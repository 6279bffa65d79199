"""The kernel families: each a module, or a folder where it is large, that exports one `Family` as FAMILY, the interface
between the generator and a family."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qconv.generator.plan import Config, Plan
from qconv.op import Problem
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

Choices = dict[str, tuple[int, ...]]


class Group(NamedTuple):
    """Configs that have most fields in common. None of their plans costs less than `least`."""

    least: float
    configs: Iterator[Config]


@dataclass(frozen=True)
class Family:
    """A kernel page with its search space, its plan function and its cost model."""

    ops: tuple[str, ...]
    config: type[Config]
    choices: Choices
    # Raises Infeasible, with the reason, where a config cannot serve a problem.
    plan: Callable[[Any, Any, Target], Plan]
    # Estimated duration of a plan's launches, in clocks of one multiprocessor.
    cost: Callable[[Any], float]
    # Inputs for the correction of the cost model, in addition to those from the problem, the launch and the config.
    features: Callable[[Any], Mapping[str, float]] = lambda plan: {}
    # Generates the combinations that may be feasible, for families with too many to try them all.
    promising: Callable[[Any, Target, Choices], Iterator[Config]] | None = None
    # The same in the same order, in groups, so that a lookup plans only those that may be among the cheapest.
    grouped: Callable[[Any, Target, Choices], Iterator[Group]] | None = None
    # Why no config of the family can serve the problem, or None.
    why_none: Callable[[Any, Target], str | None] | None = None
    # Fewer choices for some fields, among which `default` looks first: a lookup without measurements waits for it.
    likely: Choices = field(default_factory=dict)
    # True where it stores channels as the pixels of a convolution's `pixel_shuffle`, and leaves cropped pixels out.
    shuffles: bool = False
    # True where it adds residuals to these as well.
    adds_to_shuffled: bool = False
    # True where it reads a convolution's `frames` where they lie.
    reads_frames: bool = False
    # True where the cost is a time in clocks; otherwise it only orders the family's own configs.
    predicts_time: bool = True
    # The values of a config that select another kind of kernel. A search with few trials tries one of each early.
    structure: Callable[[Any], tuple[int, ...]] = lambda config: ()
    # The likely combinations and all of them, made on first use. They are the same for every problem, and making them
    # takes longer than rejecting most of them.
    _combined: dict[bool, tuple[Config, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.config.family

    def why_not(self, problem: Problem) -> str | None:
        """Return why the family serves no problem of this kind, or None."""
        if problem.op not in self.ops:
            return f"does not serve {problem.op}"
        return self._why_not_convolved(problem) if isinstance(problem, Conv2d) else None

    def _why_not_convolved(self, problem: Conv2d) -> str | None:
        if problem.frames is not None and not self.reads_frames:
            return "reads images: it has no frames of volumes"
        if problem.is_shuffled and not self.shuffles:
            return "stores a convolution's pixels in their order: it has no pixel_shuffle and no crop"
        if problem.is_shuffled and problem.quantization.residual != "none" and not self.adds_to_shuffled:
            return "adds no residual to a pixel_shuffle or a crop"
        return None

    def configs(self, problem: Problem, target: Target, likely: bool = False) -> Iterator[Config]:
        """Generate combinations of the choices, feasible or not, without those that the family rules out."""
        choices = self._choices(likely)
        if self.promising is not None:
            yield from self.promising(problem, target, choices)
            return
        if self.why_none is not None and self.why_none(problem, target) is not None:
            return
        if likely not in self._combined:
            every = itertools.product(*choices.values())
            self._combined[likely] = tuple(self.config(**dict(zip(choices, values, strict=True))) for values in every)
        yield from self._combined[likely]

    def groups(self, problem: Problem, target: Target, likely: bool = False) -> Iterator[Group]:
        """Generate the same configs in groups, all in one where the family does not divide them."""
        if self.grouped is None:
            yield Group(0.0, self.configs(problem, target, likely))
        else:
            yield from self.grouped(problem, target, self._choices(likely))

    def _choices(self, likely: bool) -> Choices:
        return self.choices | (self.likely if likely else {})
