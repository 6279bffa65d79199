"""A deployed folder: all that a set of problems needs on one target, as choices and binaries. Using it needs no
database, cache or compiler, and writes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from qconv import generator
from qconv.device import Device, cache, folders
from qconv.errors import Infeasible, KernelMissing
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import choose
from qconv.instances.load import building
from qconv.instances.load.instance import Instance
from qconv.instances.load.manifest import AGAIN, Chosen
from qconv.instances.load.pair import load
from qconv.instances.load.serving import answered_by, is_in_sequence, open_layers
from qconv.op import Problem
from qconv.ops.registry import parse


class Planned:
    """A placeholder for the instance of a kernel that can only run elsewhere, with the methods that a network calls."""

    def __init__(self, choice: Choice) -> None:
        self.why, self.plan = choice.why, choice.plan

    def pack(self, *_: Any, **__: Any) -> None:
        """Do nothing: weights are packed on the device that runs the kernel."""


class Collected:
    """Answers lookups for a device that is not present, and records its choices."""

    def __init__(self, place: building.Place, db: str | None = None) -> None:
        self._place = place
        self._database = db
        self.choices: dict[Problem, Choice] = {}

    def __call__(self, problem: Problem) -> Any:
        if problem not in self.choices:
            with open_layers(self._database, self._place) as layers:
                self.choices[problem] = choose(problem, self._place, layers, is_in_sequence())
        return Planned(self.choices[problem])

    def write(self, folder: Path, watch: Callable[[building.Built], None] = lambda built: None) -> tuple[Chosen, ...]:
        """Compile all choices into the folder and return them for a manifest."""
        built = []
        for problem, choice in self.choices.items():
            built.append(building.compiled(problem, choice, self._place.target))
            watch(built[-1])
        found = [*building.array_kernels_for(self._place.target), *(one for each in built for one in each.binaries)]
        binaries = {str(binary.path): binary for binary in found}
        building.copy_to(folder, binaries.values(), building.runtime_for(self._place.target))
        return tuple(
            Chosen(
                problem=str(problem),
                config=choice.plan.config.as_dict(),
                digest=generator.render_kernels(choice.plan).digest,
                reason=choice.reason,
            )
            for problem, choice in self.choices.items()
        )


class Deployed:
    """Answers lookups from the choices of a manifest."""

    def __init__(self, folder: Path, choices: Sequence[Chosen], device: Device) -> None:
        self._folder = folder
        self._device = device
        self._choices = {parse(one.problem): one for one in choices}
        self._loaded: dict[Problem, Instance] = {}

    @contextmanager
    def answering(self) -> Iterator[None]:
        with ExitStack() as entered:
            entered.enter_context(folders.only(folders.Layer(self._folder)))
            entered.enter_context(answered_by(self))
            yield

    def __call__(self, problem: Problem) -> Instance:
        if problem not in self._loaded:
            self._loaded[problem] = self._load(problem)
        return self._loaded[problem]

    def _load(self, problem: Problem) -> Instance:
        chosen = self._choices.get(problem)
        if chosen is None:
            raise KernelMissing(f"{self._folder} was not built for {problem}: {AGAIN}, for inputs of these shapes")
        another_version = KernelMissing(f"{self._folder} was built by another version of qconv, for {problem}: {AGAIN}")
        try:
            config = generator.config_from_json(json.dumps(chosen.config))
            plan = generator.plan(problem, config, self._device.target)
        except Infeasible:
            raise another_version from None
        rendered = generator.render_kernels(plan)
        are_cached = all(cache.find(source, plan.target.name) for source in rendered.sources)
        if rendered.digest != chosen.digest or not are_cached:
            raise another_version
        choice = Choice(plan, "exact", f"built: {chosen.reason}", None, rendered.sources)
        return Instance(choice, load(plan, self._device, None, rendered.sources))
