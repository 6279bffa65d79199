"""The command group db: list, merge, export, prune and refresh."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import interruption, listing
from qconv.cli.options import (
    database_option,
    device_option,
    json_option,
    print_json,
    quiet_option,
    refuse_device,
)
from qconv.cli.table import check_one_format, csv_option, of_terminal, print_csv, table

if TYPE_CHECKING:
    from qconv.tune_db.database import Database
    from qconv.tune_db.measurement import Measurement


@click.group()
def db() -> None:
    """The tuning database: every measured config of every problem."""


def _open(db: str | None, *, create: bool = False) -> Database:
    from qconv.instances.load.serving import default_database
    from qconv.tune_db.database import Database

    return Database.open(db or default_database(), create=create)


def _of_device(rows: Database, best: bool, device: str | None) -> list[Measurement]:
    """Return the rows of a device, or of all. Raise ValueError where only other devices have rows."""
    found = rows.best_per_problem(device) if best else rows.measurements(device=device)
    if device is not None and not found:
        refuse_device(f"the device name {device!r}", rows.devices())
    return found


@db.command("list")
@database_option
@json_option
@csv_option
@click.option("--best", is_flag=True, help="Only the winner of each problem and device.")
@click.option("--device", help="Only rows of this device name.")
@click.option("--problem", "parts", multiple=True, metavar="PART", help="Only rows with this in their key: c=64:k=64.")
@click.option("--config", metavar="PART", help="Only rows with this in their config, such as a family.")
@click.option("--failed", is_flag=True, help="Only rows without a time.")
@click.option("--sort", type=click.Choice(tuple(listing.SORTS)), help="Default: as they were stored.")
@click.option("--limit", type=click.IntRange(1), help="At most this many, the first.")
def list_rows(db: str | None, as_json: bool, as_csv: bool, best: bool, device: str | None, **wanted: Any) -> None:
    """List the rows, with the reasons of failures. In a terminal, what all rows share is said once, above them."""
    from qconv.tune_db.text import as_dict

    check_one_format(as_json, as_csv)
    with _open(db) as stored:
        every = _of_device(stored, best, device)
    found = listing.Wanted(**wanted).chosen(every)
    if as_json:
        print_json([as_dict(row) for row in found])
    elif as_csv:
        print_csv(listing.CSV_NAMES, listing.csv_of(found))
    else:
        # Printed at once: otherwise a terminal or a pipe would be flushed after each of thousands of rows.
        of_all = "" if len(found) == len(every) else f" of {len(every)}"
        click.echo(f"{listing.shown(found, of_terminal())}\n{len(found)}{of_all} rows")


@db.command()
@database_option
@click.argument("others", nargs=-1, required=True)
@json_option
@csv_option
def merge(db: str | None, others: tuple[str, ...], as_json: bool, as_csv: bool) -> None:
    """Add the rows of OTHER databases, or of files written by `db export --format text`. Of two rows for the same
    measurement, the newer one stays."""
    from qconv.tune_db.database import Database, Merged
    from qconv.tune_db.text import is_text, read

    check_one_format(as_json, as_csv)
    answers: dict[str, Merged] = {}
    with contextlib.ExitStack() as opened:
        opened.enter_context(
            interruption.telling(lambda: f"{len(answers)} of {len(others)} are merged: the same command goes on")
        )
        # Open all sources before anything is created or changed.
        sources = {
            other: read(other) if is_text(other) else opened.enter_context(Database.open(other, create=False))
            for other in others
        }
        rows = opened.enter_context(_open(db, create=True))
        for other, source in sources.items():
            # A database is shown without the password that its URL may contain.
            answers[source.where if isinstance(source, Database) else other] = rows.merge(source)
    if as_json:
        print_json({other: counts._asdict() for other, counts in answers.items()})
    elif as_csv:
        print_csv(("from", *Merged._fields), [(other, *counts) for other, counts in answers.items()])
    else:
        for other, counts in answers.items():
            click.echo(f"{other}: " + ", ".join(f"{count} {name}" for name, count in counts._asdict().items()))


@db.command("export")
@database_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--format", "form", type=click.Choice(["t4", "text"]), default="t4", show_default=True)
@click.option("--best", is_flag=True, help="Only the winner of each problem and device.")
@click.option("--device", help="Only rows of this device name.")
def export_rows(db: str | None, out: Path, form: str, best: bool, device: str | None) -> None:
    """Write rows to a file: FAIR T4 results, or the text format in which winners are shipped."""
    from qconv.device import folders
    from qconv.tune_db import t4, text

    with _open(db) as rows:
        found = _of_device(rows, best, device)
        if form == "text" and not best:
            found += rows.in_sequence(device=device)
    content = text.dump(found) if form == "text" else json.dumps(t4.results(found), indent=1) + "\n"
    folders.write_whole(out, content.encode())
    click.echo(f"{len(found)} rows to {out}", err=True)


@db.command()
@database_option
@click.option("--failed", is_flag=True, help="Rows without a time.")
@click.option(
    "--slower-than",
    type=click.FloatRange(min=1),
    metavar="FACTOR",
    help="Rows slower than FACTOR times the best; those within 1 % of it stay.",
)
@click.option("--device", help="Only rows of this device name.")
@click.option("--dry-run", is_flag=True, help="Count, delete nothing.")
@json_option
def prune(
    db: str | None, failed: bool, slower_than: float | None, device: str | None, dry_run: bool, as_json: bool
) -> None:
    """Delete rows that no lookup needs. The best row of each problem and device stays, and so do rows within 1 % of it,
    among which lookup takes the simplest config."""
    if not failed and slower_than is None:
        raise click.UsageError("say what to delete: --failed, --slower-than FACTOR, or both")
    kept = "every row that a lookup needs is there: the same command goes on"
    with interruption.telling(lambda: kept), _open(db) as rows:
        if device is not None and device not in rows.devices():
            refuse_device(f"the device name {device!r}", rows.devices())
        count = rows.prune(failed=failed, slower_than=slower_than, device=device, dry_run=dry_run)
    if as_json:
        print_json({"rows": count, "deleted": not dry_run})
        return
    click.echo(f"{count} rows {'would be ' if dry_run else ''}deleted")


@db.command()
@database_option
@device_option
@json_option
@csv_option
@quiet_option
@click.option("--shipped", is_flag=True, help="Also the winners that travel with the package.")
@click.option("--trials", type=click.IntRange(3), default=24, show_default=True, help="For a problem on average.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Then write the winners to this file.")
@click.option("--dry-run", is_flag=True, help="List them, measure nothing; without --device, of every device.")
def refresh(
    db: str | None,
    device: str | None,
    as_json: bool,
    as_csv: bool,
    shipped: bool,
    trials: int,
    out: Path | None,
    dry_run: bool,
) -> None:
    """Tune outdated winners again: those whose kernels the current templates no longer generate, and those that a newer
    kernel is expected to beat.

    `--shipped --out instances/shipped/DEVICE.json` renews the file that the package ships.
    """
    from qconv.cli import workloads
    from qconv.device import folders, open_device
    from qconv.instances.load.serving import default_database
    from qconv.tune_db import text
    from qconv.tuner.workloads import refresh as winners
    from qconv.tuner.workloads.allocation import Budget

    check_one_format(as_json, as_csv)
    where = db or default_database()
    name = None if device is None and dry_run else open_device(device).name
    rows = _rows_of(where, shipped, name)
    stale = winners.stale(rows)
    found = stale + [row for row in winners.overtaken(rows) if row not in stale]
    if dry_run:
        _show_stale(found, len(stale), as_json, as_csv)
        return
    all_won = True
    if found:
        given = workloads.Given(device, where, Budget(trials), as_json, as_csv=as_csv)
        all_won = workloads.tune_all(winners.workload_of(found), given)
    else:
        click.echo(
            f"nothing to do: every winner of {name} has today's kernel, and none is expected to beat it", err=True
        )
        if as_json:
            print_json({"problems": []})
        elif as_csv:
            print_csv(workloads.COLUMNS, [])
    if out is not None:
        kept = winners.kept(_rows_of(where, shipped, name))
        folders.write_whole(out, text.dump(kept).encode())
        click.echo(f"{len(kept)} rows to {out}", err=True)
    if not all_won:
        sys.exit(1)


def _rows_of(where: str, shipped: bool, device: str | None) -> list[Measurement]:
    """Return the rows of the database over the shipped ones, each key once."""
    from qconv.instances.choose import shipped as travelling
    from qconv.tune_db.layered import Layered

    with _open(where, create=shipped) as rows:
        return Layered([rows, *(travelling.layers() if shipped else [])]).measurements(device=device)


def _show_stale(found: list[Measurement], older: int, as_json: bool, as_csv: bool) -> None:
    from qconv.tune_db.text import as_dict

    if as_json:
        print_json([as_dict(row) for row in found])
        return
    if as_csv:
        print_csv(listing.CSV_NAMES, listing.csv_of(found))
        return
    rows = [
        (f"{row.created_at:%Y-%m-%d}", listing.time_of(row), str(row.config), str(row.problem), row.device)
        for row in found
    ]
    click.echo(table(("measured", "time", "config", "problem", "device"), rows, of_terminal()))
    click.echo(f"{older} winners of older templates, {len(found) - older} that a newer kernel is expected to beat")
