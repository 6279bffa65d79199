"""The progress of tuning on a terminal: one line of at most 80 columns, or a line per trial elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

import click

from qconv.cli.options import is_quiet

if TYPE_CHECKING:
    from qconv.op import Problem
    from qconv.tune_db.measurement import Measurement
    from qconv.tuner.search.tune import Progress
    from qconv.tuner.workloads.schedule import Step

Item = TypeVar("Item")
BAR_COLUMNS, NAME_COLUMNS = 12, 24
BEGINNING = "............ choosing configs and compiling the first ones"


@contextlib.contextmanager
def on_stderr(names: Mapping[Problem, str] | None = None) -> Iterator[Callable[[Step], None]]:
    """Yield a callback that shows steps: in one updated line on a terminal, in a line per trial elsewhere, not with -q.
    `names` are those of a workload's layers."""
    if is_quiet():
        yield lambda step: None
        return
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True)
    known = names or {}
    with Live(Text(BEGINNING), console=console, refresh_per_second=4) as shown:
        yield lambda step: shown.update(
            Text(line(step, console.width, known.get(step.problem, "")), no_wrap=True, overflow="ellipsis")
        )


def say(*sentences: str) -> None:
    """Print sentences on stderr, not with -q."""
    for sentence in () if is_quiet() else sentences:
        click.echo(sentence, err=True)


class Counted(Generic[Item]):
    """Items with a bar on a terminal, at most ten lines elsewhere, nothing with -q. `str` says how many were used."""

    def __init__(self, items: Iterable[Item], total: int, what: str, noun: str = "samples") -> None:
        self._items, self._total, self._what, self._noun = items, total, what, noun
        self.done = 0

    def __str__(self) -> str:
        return f"{self._what} {self.done} of {self._total} {self._noun}"

    def __iter__(self) -> Iterator[Item]:
        if not is_quiet() and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import track

            items = track(self._items, f"{self._what} {self._noun}", self._total, console=Console(stderr=True))
        else:
            items = self._items
        for item in items:
            yield item
            self.done += 1
            if not is_quiet() and not sys.stderr.isatty() and self._is_told:
                click.echo(str(self), err=True)

    @property
    def _is_told(self) -> bool:
        tenths = [10 * done // self._total for done in (self.done - 1, self.done)]
        return self.done == self._total or tenths[1] > tenths[0]


class Lines:
    """Shows a line per trial, and a line for each next problem of a workload."""

    problem: Problem | None = None

    def __call__(self, step: Step) -> None:
        if step.problem != self.problem:
            self.problem = step.problem
            click.echo(f"{self.problem}", err=True)
        click.echo(f"{count(step)}  {left(step.remaining_s)}  {brief(step.row)}  best {brief(step.best)}", err=True)


class OfOne:
    """The steps of a problem that is tuned by itself, with the time left from the pace of this run."""

    def __init__(self, show: Callable[[Step], None], seconds: float | None) -> None:
        self._show, self._seconds, self._begun = show, seconds, time.monotonic()
        self._first: int | None = None

    def __call__(self, progress: Progress) -> None:
        from qconv.tuner.workloads.schedule import Step

        self._first = progress.done - 1 if self._first is None else self._first
        passed, made = time.monotonic() - self._begun, max(1, progress.done - self._first)
        remaining = passed / made * max(0, progress.total - progress.done)
        if self._seconds is not None:
            remaining = min(remaining, max(0.0, self._seconds - passed))
        row = progress.row
        self._show(Step(progress.done, progress.total, row.problem, row, progress.best, remaining))


def line(step: Step, columns: int, name: str = "") -> str:
    """Return the count, the time left, the layer and its best time, with as much of the config as fits."""
    shown = name if len(name) <= NAME_COLUMNS else f"{name[: NAME_COLUMNS - 1]}\N{HORIZONTAL ELLIPSIS}"
    of_layer = f"{shown}  best" if shown else "best"
    said = f"{bar(step)} {count(step)}  {left(step.remaining_s)}  {of_layer} {brief(step.best)}"
    return said if len(said) <= columns else said[: columns - 1] + "\N{HORIZONTAL ELLIPSIS}"


def bar(step: Step) -> str:
    share = min(1.0, step.done / step.trials) if step.trials else 0.0
    full = round(share * BAR_COLUMNS)
    return "#" * full + "." * (BAR_COLUMNS - full)


def count(step: Step) -> str:
    return f"{step.done}/{step.trials}" if step.trials is not None else f"{step.done} trials"


def left(seconds: float | None) -> str:
    """Return the time left, in at most nine columns."""
    if seconds is None:
        return "?:?? left"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02} left" if hours else f"{minutes}:{rest:02} left"


def brief(row: Measurement | None) -> str:
    if row is None:
        return "none yet"
    if row.median_us is None:
        return f"{row.config}: {row.outcome}"
    return f"{row.median_us:.2f} us ({row.config})"
