"""db: list, merge, export, prune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli.options import database_option, json_option, print_json

if TYPE_CHECKING:
    from qconv.tune_db.database import Database


@click.group()
def db() -> None:
    """The tuning database: every measured config of every problem."""


def _open(database: str | None, *, create: bool = False) -> Database:
    from qconv.instances.lookup import default_database
    from qconv.tune_db.database import Database

    return Database.open(database or default_database(), create=create)


@db.command("list")
@database_option
@json_option
@click.option("--best", is_flag=True, help="Only the winner of each problem and device.")
@click.option("--device", help="Only rows of this device name.")
def list_rows(database: str | None, as_json: bool, best: bool, device: str | None) -> None:
    """The rows, failures with their reasons."""
    from qconv.tune_db.text import as_dict

    with _open(database) as rows:
        found = rows.best_per_problem(device) if best else rows.measurements(device=device)
    if as_json:
        print_json([as_dict(row) for row in found])
        return
    for row in found:
        time = f"{row.median_us:10.2f} us" if row.median_us is not None else f"{row.outcome:>13}"
        reason = f"  {row.reason}" if row.reason else ""
        click.echo(f"{time}  {row.config}  {row.problem}  {row.device}{reason}")
    click.echo(f"{len(found)} rows")


@db.command()
@database_option
@click.argument("others", nargs=-1, required=True)
@json_option
def merge(database: str | None, others: tuple[str, ...], as_json: bool) -> None:
    """Add the rows of OTHER databases; of two rows for the same thing the newer one stays."""
    from qconv.tune_db.database import Database

    answers: dict[str, Any] = {}
    with _open(database, create=True) as rows:
        for other in others:
            with Database.open(other, create=False) as source:
                answers[other] = rows.merge(source)._asdict()
    if as_json:
        print_json(answers)
        return
    for other, counts in answers.items():
        click.echo(f"{other}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


@db.command("export")
@database_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--format", "form", type=click.Choice(["t4", "text"]), default="t4", show_default=True)
@click.option("--best", is_flag=True, help="Only the winner of each problem and device.")
@click.option("--device", help="Only rows of this device name.")
def export_rows(database: str | None, out: Path, form: str, best: bool, device: str | None) -> None:
    """Write rows to a file: FAIR T4 results, or the reviewable text that winners are shipped as."""
    from qconv.tune_db import t4, text

    with _open(database) as rows:
        found = rows.best_per_problem(device) if best else rows.measurements(device=device)
    out.write_text(text.dump(found) if form == "text" else json.dumps(t4.results(found), indent=1) + "\n")
    click.echo(f"{len(found)} rows to {out}", err=True)


@db.command()
@database_option
@click.option("--failed", is_flag=True, help="Rows without a time.")
@click.option(
    "--slower-than", type=click.FloatRange(min=1), metavar="FACTOR", help="Rows slower than FACTOR times the best."
)
@click.option("--device", help="Only rows of this device name.")
@click.option("--dry-run", is_flag=True, help="Count, delete nothing.")
def prune(database: str | None, failed: bool, slower_than: float | None, device: str | None, dry_run: bool) -> None:
    """Delete rows that no lookup needs."""
    if not failed and slower_than is None:
        raise click.UsageError("say what to delete: --failed, --slower-than FACTOR, or both")
    with _open(database) as rows:
        count = rows.prune(failed=failed, slower_than=slower_than, device=device, dry_run=dry_run)
    click.echo(f"{count} rows {'would be ' if dry_run else ''}deleted")
