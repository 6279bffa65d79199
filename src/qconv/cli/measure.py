"""tune, run, bench: the commands that launch kernels."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from qconv.cli.options import ProblemCommand, database_option, device_option, json_option, print_json, problem_options
from qconv.op import Problem
from qconv.tuner import strategy as strategies

if TYPE_CHECKING:
    from qconv.generator import Config
    from qconv.instances.instance import Instance
    from qconv.tune_db.measurement import Measurement
    from qconv.tuner.tune import Outcome, Progress


DAY_S = 86400


def tops(problem: Problem, time_us: float) -> float:
    return problem.operations / time_us / 1e6


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@database_option
@json_option
@click.option("--trials", type=click.IntRange(1), default=100, show_default=True, help="Configs to measure in all.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="s a config, its compiler included.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the search; the data is always fresh.")
@click.option(
    "--strategy",
    type=click.Choice(strategies.names()),
    default=strategies.DEFAULT,
    show_default=True,
    help="What proposes the next config to measure.",
)
def tune(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    database: str | None,
    as_json: bool,
    trials: int,
    timeout: float,
    seed: int,
    strategy: str,
) -> None:
    """Measure configs of a problem, each verified first, and remember every one.

    A second run goes on where the first one stopped: what is in the database is not measured again.
    """
    from qconv.device import open_device
    from qconv.instances.serving import default_database
    from qconv.tune_db.database import Database
    from qconv.tuner.tune import tune as run_tuning

    if not 0 < timeout <= DAY_S:  # what is no number is not within these either
        raise ValueError(f"--timeout {timeout:g} must be seconds above 0, at most {DAY_S} (a day)")
    opened = open_device(device)
    where = database or default_database()
    with Database.open(where) as rows, _progress(trials) as watch:
        how = {"timeout_s": timeout, "seed": seed, "strategy": strategy}
        outcome = run_tuning(problem, opened, rows, trials=trials, watch=watch, **how)
    if as_json:
        print_json(_outcome_document(outcome, where))
    else:
        _print_outcome(outcome, where)
    if outcome.best is None:
        sys.exit(1)


@contextlib.contextmanager
def _progress(trials: int) -> Iterator[Callable[[Progress], None]]:
    """On stderr: a bar with the best so far on a terminal, a line a trial elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("best {task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("...", total=trials)
        yield lambda p: bar.update(task, completed=p.done, total=p.total, description=_brief(p.best))


class _Lines:
    """A chain's parts are tuned before it: a line says when the next begins."""

    problem: Problem | None = None

    def __call__(self, progress: Progress) -> None:
        if progress.row.problem != self.problem:
            self.problem = progress.row.problem
            click.echo(f"{self.problem}", err=True)
        best = _brief(progress.best)
        click.echo(f"{progress.done}/{progress.total}  {_brief(progress.row)}  best {best}", err=True)


def _brief(row: Measurement | None) -> str:
    if row is None:
        return "none yet"
    if row.median_us is None:
        return f"{row.config}: {row.outcome}"
    return f"{row.median_us:.2f} us ({row.config})"


def _outcome_document(outcome: Outcome, database: str) -> dict[str, Any]:
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
        "database": database,
    }


def _print_outcome(outcome: Outcome, database: str) -> None:
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
    click.echo(f"database  {database}")


def _against(outcome: Outcome, best: Measurement) -> list[str]:
    """What the winner gains over what needs no tuning: by times of one race, for those of two differ by themselves."""
    from qconv.tuner.tune import are_of_one_race

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


def _describe(instance: Instance) -> dict[str, Any]:
    return {
        "problem": str(instance.problem),
        "device": instance.device.name,
        "target": instance.plan.target.name,
        "origin": instance.origin,
        "reason": instance.reason,
        "config": instance.plan.config.as_dict(),
    }


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@database_option
@json_option
@click.option("--verify", is_flag=True, help="Compare with the oracle, bit for bit; exit code 1 where they differ.")
@click.option("--sanitize", type=click.Choice(["address", "thread"]), help="On the CPU device: run under a sanitizer.")
@click.option("--seed", type=click.IntRange(0), help="Of the random data. Default: fresh.")
def run(
    problem: Problem,
    fixed: dict[str, int],
    device: str | None,
    database: str | None,
    as_json: bool,
    verify: bool,
    sanitize: Literal["address", "thread"] | None,
    seed: int | None,
) -> None:
    """Run the instance that lookup would give, once, on random full-range data."""
    from qconv import sample
    from qconv.instances.serving import lookup
    from qconv.tuner.verify import mismatch

    seed = secrets.randbits(32) if seed is None else seed
    instance = lookup(problem, device, database)
    drawn = sample.draw(problem, seed, fixed)
    document = _describe(instance) | {"seed": seed}
    wrong = None
    if sanitize is not None:
        from qconv.tuner import sanitized

        if instance.device.target.vendor != "cpu":
            raise click.UsageError(
                f"--sanitize runs on the CPU device, not on {instance.device.spec}: add --device cpu"
            )
        wrong = sanitized.mismatch(instance.plan, drawn, sanitize)
        document |= {"sanitizer": sanitize, "clean": wrong is None}
    if verify:
        wrong = wrong or mismatch(instance.executable, drawn)
        document |= {"verified": wrong is None}
    if not verify and sanitize is None:
        made = instance(*(instance.device.upload(array) for array in drawn.arrays), **drawn.parameters)
        outputs = made if isinstance(made, tuple) else (made,)
        digest = hashlib.sha256(b"".join(instance.device.download(output).tobytes() for output in outputs))
        document |= {"output_sha256": digest.hexdigest()}
    if wrong is not None:
        document |= {"wrong": wrong}
    _print(document, as_json)
    if wrong is not None:
        sys.exit(1)


@click.command(cls=ProblemCommand)
@problem_options
@device_option
@database_option
@json_option
def bench(problem: Problem, fixed: dict[str, int], device: str | None, database: str | None, as_json: bool) -> None:
    """Verify and time the instance that lookup would give, by the tuner's protocol."""
    from qconv import sample
    from qconv.instances.serving import lookup
    from qconv.tuner.protocol import protocol_for, time_us
    from qconv.tuner.verify import mismatch

    instance = lookup(problem, device, database)
    drawn = sample.draw(problem, secrets.randbits(32), fixed)
    protocol = protocol_for(instance.device)
    wrong = mismatch(instance.executable, drawn)
    document = _describe(instance) | {"verified": wrong is None, "protocol": protocol.as_dict()}
    if wrong is None:
        times = time_us(instance.executable, drawn, protocol)
        median = statistics.median(times)
        document |= {
            "time_us": median,
            "times_us": list(times),
            "tops": tops(problem, median),
            "gb_per_s": problem.io_bytes / median / 1e3,
            "facts": instance.device.facts(),
        }
    else:
        document |= {"wrong": wrong}
    _print(document, as_json)
    if wrong is not None:
        sys.exit(1)


def _print(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    width = max(map(len, document))
    for name, value in document.items():
        text = f"{value:.3f}" if isinstance(value, float) else value
        if isinstance(value, dict):
            text = " ".join(f"{key}={item}" for key, item in value.items())
        elif isinstance(value, list):
            text = " ".join(f"{item:.2f}" for item in value)
        click.echo(f"{name:<{width}}  {text}")
