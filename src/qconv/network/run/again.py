"""Runs like the one before, without its checks and its accounts: a small network runs in less time than they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qconv.narrow_floats import type_of
from qconv.network.graph.value import Form, Value
from qconv.network.run.recorded import Recorded
from qconv.network.run.runner import Runner


@dataclass(frozen=True)
class Again:
    """A run that can be repeated: its recording, the forms of its inputs and the outputs that were asked for."""

    runner: Runner
    recorded: Recorded
    forms: Mapping[str, Form]
    wanted: Sequence[str]

    @classmethod
    def of(cls, runner: Runner, given: Mapping[str, Value], wanted: Sequence[str]) -> Again | None:
        """Return the run that has just been made, where it was one recording of contiguous inputs."""
        recorded = runner.recording_of(given, wanted)
        if recorded is None:
            return None
        forms = {name: value.form for name, value in given.items()}
        if any(is_last for _, _, is_last in forms.values()):
            return None
        return cls(runner, recorded, forms, wanted)

    def __call__(self, feeds: object, wanted: Sequence[str]) -> dict[str, Value] | None:
        """Repeat the run with other inputs, or return None where they are not like its own."""
        if type(feeds) is not dict or feeds.keys() != self.forms.keys() or wanted != self.wanted:
            return None
        if not all(self._is_like(name, array) for name, array in feeds.items()):
            return None
        return self.runner.repeat(self.recorded, feeds, wanted)

    def _is_like(self, name: str, array: Any) -> bool:
        shape, dtype, _ = self.forms[name]
        return self.recorded.takes(name, array) and array.shape == shape and type_of(array) == dtype
