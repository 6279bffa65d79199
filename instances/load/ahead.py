"""Compilation of many kernels at once, before they are looked up one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from qconv import generator
from qconv.device import Device, program
from qconv.device.compile import build
from qconv.errors import CompileError
from qconv.generator import Source
from qconv.generator.plan import Plan
from qconv.instances.choose import Choice
from qconv.instances.load import serving
from qconv.instances.load.instance import Instance
from qconv.op import Problem

# Compilers at a time. Each takes some hundred megabytes.
MOST_COMPILERS = 16


class Noted(Exception):
    """A lookup was recorded instead of being answered."""


def looked_up(prepare: Iterable[Callable[[], object]]) -> list[Problem]:
    """Return the problems that each of these functions looks up first, at once. None is answered."""
    found: list[Problem] = []

    def note(problem: Problem) -> None:
        found.append(problem)
        raise Noted

    with serving.answered_by(note):  # type: ignore[arg-type]  # it never returns
        for function in prepare:
            try:
                function()
            except (Noted, ValueError):
                continue
    return found


def lookup_all(problems: Sequence[Problem], device: str) -> list[Instance]:
    """Look up the problems of one layer. Where a lookup is only recorded, all of them are."""
    found: list[Instance] = []
    for problem in problems:
        with suppress(Noted):
            found.append(serving.lookup(problem, device))
    if len(found) < len(problems):
        raise Noted
    return found


def compile_ahead(problems: Iterable[Problem], device: Device) -> None:
    """Choose and compile the kernels of problems, in parallel. What fails here fails again in its own lookup, which
    says so."""
    in_sequence = serving.is_in_sequence()
    new = [problem for problem in dict.fromkeys(problems) if not serving.is_warm(problem, device, in_sequence)]
    if serving.is_answered() or program.is_forbidden() or len(new) < 2:
        return
    found = serving.answers(new, device, None, in_sequence)
    choices = [answer for answer in found if isinstance(answer, Choice)]
    kernels = [kernel for choice in choices for kernel in _kernels(choice)]
    with ThreadPoolExecutor(min(MOST_COMPILERS, os.cpu_count() or 1)) as pool:
        list(pool.map(_compile, kernels))


def _kernels(choice: Choice) -> list[tuple[Plan, Source, str | None]]:
    plans = choice.plan.kernels
    sources = serving.handed_over(choice) or [generator.render(plan) for plan in plans]
    serving.hand_over(choice, sources)
    return [(plan, source, choice.toolchain) for plan, source in zip(plans, sources, strict=True)]


def _compile(kernel: tuple[Plan, Source, str | None]) -> None:
    plan, source, toolchain = kernel
    try:
        build(source, plan, toolchain)
    except CompileError:
        return
