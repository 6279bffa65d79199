"""The command tune, which measures one problem or a whole workload."""

from __future__ import annotations

import difflib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import interruption, progress, workloads
from qconv.cli.measure import tops
from qconv.cli.options import (
    Computed,
    ProblemCommand,
    database_option,
    device_option,
    floats_options,
    json_option,
    print_json,
    problem_or_file_options,
    quiet_option,
    refuse_floats,
)
from qconv.cli.table import check_one_format, csv_option
from qconv.op import Problem, quoted
from qconv.tuner.search import strategies
from qconv.tuner.workloads.allocation import DAY_S, Budget

if TYPE_CHECKING:
    from qconv.generator import Config
    from qconv.tune_db.measurement import Measurement
    from qconv.tuner.search.tune import Outcome

TRIALS, TRIALS_EACH = 100, 24


class Strategy(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """The name of a search strategy. Those of other packages are looked for where it is none of this one."""

    name = "|".join((*strategies.names(), f"{strategies.SAMPLER}SAMPLER"))

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if strategies.is_sampler(value):
            strategies.named(value)  # raises ValueError for another name
        elif value not in strategies.names() and value not in strategies.every_name():
            near = difflib.get_close_matches(value, strategies.every_name(), n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            known = ", ".join(strategies.every_name())
            raise click.UsageError(
                f"--strategy {quoted(value)} is not one of {known}, optuna:SAMPLER{hint}: give one of them", ctx
            )
        return value


@click.command(cls=ProblemCommand)
@problem_or_file_options
@device_option
@database_option
@json_option
@csv_option
@quiet_option
@click.option(
    "--workload",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Instead of a problem, all of a file: an ONNX model, a csv of layers, or a list of keys.",
)
@click.option("--batch", type=click.IntRange(1), help="For a workload: replaces N, or a model's open batch.")
@click.option(
    "--trials",
    type=click.IntRange(1),
    help=f"Configs to measure [{TRIALS}]; for a workload, the average per problem [{TRIALS_EACH}].",
)
@click.option("--seconds", type=float, help="Begin no trial after this time; without --trials, the only limit.")
@click.option(
    "--gain-percent",
    type=float,
    metavar="PERCENT",
    help="Begin no trial that is expected to shorten the best time by less; without --trials, the only limit.",
)
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Seconds per config, with compilation.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the search; the data is always new."
)
@click.option(
    "--strategy",
    type=Strategy(),
    default=strategies.DEFAULT,
    show_default=True,
    help="The algorithm that proposes the next config to measure.",
)
@click.option("--workers", type=click.IntRange(1), help="For a workload: local processes, each on its own GPU.")
@click.option("--scheduler", metavar="ADDRESS", help="For a workload: the Dask scheduler, tls://HOST:PORT.")
@floats_options
def tune(
    problem: Problem | None,
    fixed: dict[str, int],
    workload: Path | None,
    batch: int | None,
    computed: Computed,
    **options: Any,
) -> None:
    """Measure configs of a problem, or of all problems of a file. Each is verified first, and every result is stored.

    A second run continues where the first one stopped: measurements in the database are not repeated.
    """
    asked = Asked(**options)
    if workload is not None:
        if problem is not None:
            raise click.UsageError(f"a problem was given beside --workload {workload}: leave one of them out")
        budget = asked.budget(TRIALS_EACH)
        given = workloads.Given(asked.device, asked.where, budget, asked.as_json, asked.how, asked.crew, asked.as_csv)
        workloads.tune(workload, batch, given, computed)
        return
    if problem is None:
        raise click.UsageError("nothing to tune: give a problem (conv2d with its flags, or a key), or --workload FILE")
    if batch is not None:
        raise click.UsageError("--batch belongs to --workload: a problem has --n")
    refuse_floats(computed)
    if asked.as_csv:
        raise click.UsageError("--csv belongs to --workload, whose table has a row per layer: one problem has --json")
    if any(value is not None for value in asked.crew.values()):
        raise click.UsageError("--workers and --scheduler belong to --workload: one problem is for one worker")
    _tune_one(problem, asked)


@dataclass(frozen=True)
class Asked:
    """The options that a problem and a workload share."""

    device: str | None
    db: str | None
    as_json: bool
    as_csv: bool
    trials: int | None
    seconds: float | None
    gain_percent: float | None
    timeout: float
    seed: int
    strategy: str
    workers: int | None
    scheduler: str | None

    def __post_init__(self) -> None:
        check_one_format(self.as_json, self.as_csv)
        if not 0 < self.timeout <= DAY_S:  # false for NaN as well
            raise ValueError(f"--timeout {self.timeout:g} must be seconds above 0, at most {DAY_S:g} (a day)")

    def budget(self, trials: int) -> Budget:
        """Return the limits; `trials` if none are given."""
        unlimited = self.trials is None and self.seconds is None and self.gain_percent is None
        return Budget(trials if unlimited else self.trials, self.seconds, self.gain_percent)

    @property
    def how(self) -> dict[str, Any]:
        return {
            "timeout_s": self.timeout,
            "seed": self.seed,
            "strategy": self.strategy,
            "gain_percent": self.gain_percent,
        }

    @property
    def crew(self) -> dict[str, Any]:
        return {"workers": self.workers, "scheduler": self.scheduler}

    @property
    def where(self) -> str:
        from qconv.instances.load.serving import default_database

        return self.db or default_database()


def _tune_one(problem: Problem, asked: Asked) -> None:
    from qconv.device import open_device
    from qconv.tune_db.database import Database
    from qconv.tuner.search.tune import tune as run_tuning
    from qconv.tuner.workloads.schedule import UNBOUNDED

    budget = asked.budget(TRIALS)
    opened = open_device(asked.device)
    trials = UNBOUNDED if budget.trials is None else budget.trials
    with Database.open(asked.where) as rows:

        def best() -> str:
            return f"best so far: {progress.brief(rows.best(problem, opened.name, opened.target.name))}"

        with interruption.telling(lambda: f"{best()}; {workloads.GOES_ON}"), progress.on_stderr() as show:
            watch = progress.OfOne(show, budget.seconds)
            outcome = run_tuning(problem, opened, rows, trials=trials, seconds=budget.seconds, watch=watch, **asked.how)
    # Without the password that a URL may contain.
    if asked.as_json:
        print_json(_outcome_document(outcome, rows.where))
    else:
        _print_outcome(outcome, rows.where)
    if outcome.best is None:
        sys.exit(1)


def _outcome_document(outcome: Outcome, db: str) -> dict[str, Any]:
    from qconv.tune_db.text import as_dict

    best, default = outcome.best, outcome.default
    winner = None
    if best is not None and best.median_us is not None:
        winner = as_dict(best) | {"tops": tops(outcome.problem, best.median_us)}
    return {
        "problem": str(outcome.problem),
        "device": outcome.device,
        "target": outcome.target,
        "strategy": outcome.strategy,
        "space": outcome.space,
        "measured": outcome.measured,
        "known": outcome.known,
        "failures": outcome.failures,
        "default_us": default.median_us if default is not None else None,
        "lookup_us": outcome.looked_up.median_us if outcome.looked_up is not None else None,
        "winner": winner,
        "families_us": {family: row.median_us for family, row in outcome.of_families.items()},
        "database": db,
    }


def _print_outcome(outcome: Outcome, db: str) -> None:
    from qconv.tune_db.measurement import ranked

    click.echo(f"problem   {outcome.problem}")
    click.echo(f"device    {outcome.device} ({outcome.target})")
    counts = f"{outcome.measured} measured now, {outcome.known} known before, of {outcome.space} feasible"
    click.echo(f"trials    {counts}" + "".join(f", {n} failed: {word}" for word, n in outcome.failures.items()))
    best = outcome.best
    if best is None or best.median_us is None:
        click.echo("winner    none: no config gave a correct result; see qconv-tune db list")
        return
    click.echo(f"winner    {best.config}")
    said = [f"{best.median_us:.2f} us, {tops(outcome.problem, best.median_us):.3f} TOPS", *_against(outcome, best)]
    click.echo(f"time      {', '.join(said)}")
    others = ranked(row for family, row in outcome.of_families.items() if family != best.config.family)
    if others:
        click.echo(f"others    {', '.join(f'{row.config.family} {row.median_us:.2f} us' for row in others)}")
    click.echo(f"database  {db}")


def _against(outcome: Outcome, best: Measurement) -> list[str]:
    """Describe the winner's gain over untuned configs, by times of one race: times of different races are not
    comparable."""
    from qconv.tuner.search.tune import are_of_one_race

    untuned = {"the untuned default": outcome.default}
    if outcome.looked_up is not None and outcome.looked_up.config not in (best.config, _config(outcome.default)):
        untuned["what lookup gave"] = outcome.looked_up
    said = []
    for name, row in untuned.items():
        if row is None or row.median_us is None or best.median_us is None:
            continue
        if are_of_one_race([best, row]):
            said.append(f"{row.median_us / best.median_us:.2f}x the speed of {name} ({row.median_us:.2f} us)")
        else:
            said.append(f"{name}, which was not raced with it: {row.median_us:.2f} us")
    return said


def _config(row: Measurement | None) -> Config | None:
    return None if row is None else row.config
