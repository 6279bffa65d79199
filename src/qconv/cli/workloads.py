"""Tuning of a workload: from its file to a table of results."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import interruption, progress
from qconv.cli.incomplete import readable
from qconv.cli.options import Computed
from qconv.cli.table import printed_as_data

if TYPE_CHECKING:
    from qconv.tune_db.database import Database
    from qconv.tuner.sequence import Race, Raceable
    from qconv.tuner.workload import Workload
    from qconv.tuner.workloads.allocation import Budget
    from qconv.tuner.workloads.result import Result, Station

NAME_COLUMNS = 34
COLUMNS = ("problem", "places", "role", "count", "trials", "default_us", "tuned_us", "speed_up", "config")
# After Ctrl-C.
GOES_ON = "every finished trial is in the database: the same command goes on"


@dataclass(frozen=True)
class Given:
    """The options of every workload: `how` are those of the search, `crew` are the workers."""

    device: str | None
    where: str
    budget: Budget
    as_json: bool
    how: dict[str, Any] = field(default_factory=dict)
    crew: dict[str, Any] = field(default_factory=lambda: {"workers": None, "scheduler": None})
    as_csv: bool = False


def tune(path: Path, batch: int | None, given: Given, computed: Computed) -> None:
    from qconv import tuning

    if computed:
        problems = tuning.problems_of_session(path, batch, given.device, **computed)
        done = tune_all(tuning.workload_of(problems), given, tuning.network_of(problems, None, given.device))
    else:
        done = tune_all(tuning.read(path, batch), given, tuning.network_of(path, batch, given.device))
    if not done:
        sys.exit(1)


def tune_all(workload: Workload, given: Given, network: Raceable | str | None = None) -> bool:
    """Tune a workload. Return True if every problem that was tried has a winner. After Ctrl-C, print what was found;
    the same command continues. `network` is the workload as a whole, for the race: see `tuning.network_of`."""
    from qconv import tuning
    from qconv.tune_db.database import Database
    from qconv.tuner.search.tune import Search
    from qconv.tuner.workloads.result import results

    for refused in workload.refused:
        click.echo(_line(f"not tuned: {refused.place}: {refused.reason}"), err=True)
    where, search = given.where, Search(0, **given.how)
    with (
        Database.open(where) as rows,
        tuning.engine_of(given.device, rows, where, search, **given.crew) as engine,
    ):

        def so_far() -> str:
            said = table(workload, engine.station, results(workload, engine.station, rows), rows.where)
            click.echo("\n".join(said), err=True)
            return GOES_ON

        with (
            interruption.telling(so_far),
            progress.on_stderr({entry.problem: _line(str(entry)) for entry in workload.entries}) as show,
        ):
            race = tuning.tune_and_race(workload, network, engine, rows, given.budget, show)
        found = results(workload, engine.station, rows)
        failed = without_winner(found, engine.station, rows)
    # Without the password that a URL may contain.
    said = document(workload, engine.station, found, rows.where) | raced_document(race)
    if not printed_as_data(said, COLUMNS, said["problems"], given.as_json, given.as_csv):
        click.echo("\n".join([*table(workload, engine.station, found, rows.where), *raced_lines(race)]))
    for sentence in failed:
        click.echo(sentence, err=True)
    return not failed


def raced_lines(race: Race | str | None) -> list[str]:
    if race is None:
        return []
    return [f"network   not raced: {race}"] if isinstance(race, str) else [f"network   {race}"]


def raced_document(race: Race | str | None) -> dict[str, Any]:
    if race is None:
        return {}
    return {"network": {"not_raced": race} if isinstance(race, str) else asdict(race)}


def without_winner(found: list[Result], station: Station, rows: Database) -> list[str]:
    """Return a sentence for each problem that was tried without any config that worked; time-outs count as failures."""
    said = []
    for one in found:
        if one.tuned_us is not None:
            continue
        tried = rows.measurements(problem=one.entry.problem, device=station.name, target=station.target_name)
        if counts := Counter(row.outcome for row in tried if not row.correct):
            why = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
            no_winner = f"no winner: {one.entry}: no config gave a correct result ({why}); see qconv-tune db list"
            said.append(_line(no_winner))
    return said


def document(workload: Workload, station: Station, found: list[Result], where: str) -> dict[str, Any]:
    from qconv.tuner.workloads.result import Summary

    summary = Summary.of(found)
    return {
        "workload": workload.name,
        "device": station.name,
        "target": station.target_name,
        "problems": [
            {
                "problem": str(one.entry.problem),
                "places": list(one.entry.places),
                "role": one.entry.role,
                "count": one.entry.count,
                "trials": one.trials,
                "default_us": one.default_us,
                "tuned_us": one.tuned_us,
                "speed_up": one.speed_up,
                "config": one.config,
            }
            for one in found
        ],
        "refused": [{"place": one.place, "reason": one.reason} for one in workload.refused],
        "layers": summary.layers,
        "timed_layers": summary.timed,
        "default_us": summary.default_us,
        "tuned_us": summary.tuned_us,
        "database": where,
    }


def table(workload: Workload, station: Station, found: list[Result], where: str) -> list[str]:
    """Format the results in at most 80 columns. Fused kernels, and problems that are only part of them, follow the
    sum."""
    from qconv.tuner.workloads.result import Summary

    summary = Summary.of(found)
    lines = [f"{'count':>5}  {'layer':<{NAME_COLUMNS}} {'trials':>6} {'default us':>10} {'tuned us':>10} speed-up"]
    lines += [_row(one) for one in found if one.entry.role == "layer"]
    whole = f"{summary.timed} of {summary.layers} layers" if summary.timed < summary.layers else "all layers"
    ratio = f"{summary.default_us / summary.tuned_us:7.2f}x" if summary.tuned_us else ""
    sums = f"{summary.default_us:10.2f} {summary.tuned_us:10.2f} {ratio}"
    lines.append(f"{summary.timed:>5}  {whole:<{NAME_COLUMNS}} {sum(one.trials for one in found):>6} {sums}")
    fusions = [one for one in found if one.entry.role == "fusion" and one.config is not None]
    fused = [one for one in fusions if not str(one.config).startswith("unfused")]
    if fused:
        lines += ["in one kernel, instead of their layers:", *map(_row, fused)]
    if len(fused) < len(fusions):
        lines.append(f"not in one kernel: {len(fusions) - len(fused)}, which no kernel computes faster than several")
    if parts := [one for one in found if one.entry.role == "part"]:
        lines += ["only parts of these:", *map(_row, parts)]
    lines.append(_line(f"workload  {workload.name} on {station.name} ({station.target_name})"))
    return [*lines, f"database  {where}"]


def _line(text: str) -> str:
    """Return the text as one line without control characters: layer names come from a file."""
    return readable(text, keeping="")


def _row(one: Result) -> str:
    name = _line(str(one.entry))
    if len(name) > NAME_COLUMNS:
        name = name[: NAME_COLUMNS - 1] + "\N{HORIZONTAL ELLIPSIS}"
    times = [f"{us:10.2f}" if us is not None else f"{'-':>10}" for us in (one.default_us, one.tuned_us)]
    ratio = f"{one.speed_up:7.2f}x" if one.speed_up is not None else f"{'-':>8}"
    return f"{one.entry.count:>5}  {name:<{NAME_COLUMNS}} {one.trials:>6} {' '.join(times)} {ratio}"
