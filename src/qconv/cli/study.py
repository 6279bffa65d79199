"""The command study: the database as Optuna studies."""

from __future__ import annotations

import click

from qconv.cli import interruption
from qconv.cli.options import database_option, json_option, refuse_device
from qconv.cli.table import check_one_format, csv_option, of_terminal, printed_as_data, table

NAMES = ("study", "trials", "added")


@click.command()
@database_option
@click.option(
    "--storage",
    required=True,
    metavar="URL",
    help="Optuna's storage: a SQLAlchemy URL such as sqlite:///study.db, or the path of a SQLite file. It is made.",
)
@click.option("--device", help="Only rows of this device name.")
@click.option("--problem", "parts", multiple=True, metavar="PART", help="Only rows with this in their key: c=64:k=64.")
@json_option
@csv_option
def study(
    db: str | None, storage: str, device: str | None, parts: tuple[str, ...], as_json: bool, as_csv: bool
) -> None:
    """Write the measurements as Optuna studies, one for each problem and device, for optuna-dashboard and Optuna's
    plots. A second run adds what was measured since."""
    from dataclasses import asdict

    from qconv.cli.listing import Wanted
    from qconv.instances.load.serving import default_database
    from qconv.tune_db.database import Database
    from qconv.tune_db.url import shown
    from qconv.tuner.report.study import write

    check_one_format(as_json, as_csv)
    with interruption.telling(lambda: "the trials that were added stay: the same command goes on"):
        with Database.open(db or default_database(), create=False, read_only=True) as database:
            every = database.measurements(device=device)
            if device is not None and not every:
                refuse_device(f"the device name {device!r}", database.devices())
        found = Wanted(parts).chosen(every)
        if not found:
            raise ValueError("no row has all of this in its key: see qconv-tune db list, or tune first")
        made = write(found, storage)
    rows = [asdict(one) for one in made]
    document = {"storage": shown(storage) if "://" in storage else storage, "studies": rows}
    if not printed_as_data(document, ("name", "trials", "added"), rows, as_json, as_csv):
        cells = [(one.name, str(one.trials), str(one.added)) for one in made]
        click.echo(table(NAMES, cells, of_terminal(), whole=("trials", "added")))
