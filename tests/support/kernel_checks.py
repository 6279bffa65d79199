"""Checks that the kernels of many ops share: random configs bit for bit, sanitizers, and planted faults."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from exactness import check

from qconv import generator
from qconv.device import Device
from qconv.device.cpu_runtime import Sanitizer
from qconv.errors import Infeasible
from qconv.generator import Config, Plan
from qconv.op import Problem
from qconv.ops import registry
from qconv.targets.target import Target
from qconv.tuner.measure import sanitized


def check_random_problems(problems: Iterable[Problem], device: Device) -> None:
    """Check the default and a random config of each problem."""
    for index, problem in enumerate(problems):
        plans, _ = generator.space(problem, device.target)
        for plan in (generator.default(problem, device.target), random.Random(f"{index} {problem}").choice(plans)):
            check(plan, device, index)


def random_plans(
    problem: Problem, config: type[Config], choices: Mapping[str, Sequence[int]], target: Target, rng: random.Random
) -> Iterator[Plan]:
    """Yield plans of random feasible configs, without end."""
    while True:
        with suppress(Infeasible):
            yield generator.plan(problem, config(**{name: rng.choice(of) for name, of in choices.items()}), target)


def check_sanitized(plan: Plan, sanitizer: Sanitizer) -> None:
    wrong = sanitized.mismatch(plan, registry.draw(plan.problem, 5), sanitizer)
    assert wrong is None, wrong


def check_fault_is_found(plan: Plan, sanitizer: Sanitizer, old: str, new: str) -> None:
    """Check that the sanitizer refuses the kernel in which a text is replaced."""
    text = generator.render(plan).text
    assert old in text, old
    report, _ = sanitized.run(plan, registry.draw(plan.problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean, f"not found: {new!r} instead of {old!r}"
