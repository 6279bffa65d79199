"""Choose and compile kernels of many problems in worker processes: both are host work, about a second per problem."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from qconv import generator
from qconv.device import Device
from qconv.device.compile import build, compiler_for
from qconv.generator import config_from_json
from qconv.instances.choose import Choice, Origin
from qconv.instances.choose.lookup import choose
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.ops.registry import parse
from qconv.targets.target import Target
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.search.compile_ahead import Ahead
from qconv.tuner.search.strategies import DEFAULT, Space, named


@dataclass(frozen=True)
class Place:
    """The device facts that choosing a kernel needs; a process that only compiles opens no device."""

    name: str
    target: Target


def chosen(problems: Sequence[Problem], device: Device, db: str | None) -> Iterator[Choice | str]:
    """Yield, in the order of the problems, the choice of `qconv.lookup` with its binary in the cache, or the error."""
    place = Place(device.name, device.target)
    # A forked child would inherit the parent's GPU context.
    context = multiprocessing.get_context("spawn")
    workers = min(len(problems), os.cpu_count() or 1)
    with ProcessPoolExecutor(max(1, workers), mp_context=context) as pool:
        jobs = [pool.submit(_choose, str(problem), place, db) for problem in problems]
        for problem, job in zip(problems, jobs, strict=True):
            try:
                config, origin, reason, toolchain = job.result()
            # no kernel, a compile error, or a process that died: reported in that layer's row
            except Exception as error:
                yield f"{type(error).__name__}: {error}"
            else:
                plan = generator.plan(problem, config_from_json(config), device.target)
                yield Choice(plan, origin, reason, toolchain)


def compile_first(key: str, target: Target, trials: int) -> None:
    """Put the first config that a search tries for an unknown problem in the cache."""
    problem = parse(key)
    plans, _ = generator.space(problem, target)
    if not plans:
        return
    search = named(DEFAULT)(Space(problem, plans, [generator.default(problem, target).config]))
    with Ahead(compiler_for(target).toolchain) as ahead:
        for _ in range(trials):
            if (proposed := search.ask()) is None:
                break
            if ahead.full:
                ahead.next()
            ahead.submit(Candidate.of(proposed))
        while ahead:
            ahead.next()


def _choose(key: str, place: Place, db: str | None) -> tuple[str, Origin, str, str | None]:
    """Return the parts of a choice that can be pickled; a plan cannot."""
    with open_layers(db, place) as layers:
        choice = choose(parse(key), place, layers)
    for kernel in choice.plan.kernels:
        build(generator.render(kernel), kernel, choice.toolchain)
    return choice.plan.config.as_json(), choice.origin, choice.reason, choice.toolchain
