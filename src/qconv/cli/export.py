"""export: winners as sources to ship."""

from __future__ import annotations

from pathlib import Path

import click

from qconv.cli.options import database_option, json_option, print_json, refuse_device


@click.command()
@database_option
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder to write to.")
@click.option("--device", help="Only winners of devices whose name contains this.")
@json_option
def export(database: str | None, out: Path, device: str | None, as_json: bool) -> None:
    """Write every winner as a self-contained .cu, .hip or .cpp, with a manifest and a C header."""
    from qconv.instances.export import HEADER, files_of
    from qconv.instances.export import export as write
    from qconv.instances.serving import default_database
    from qconv.tune_db.database import Database

    with Database.open(database or default_database(), create=False) as rows:
        winners = rows.best_per_problem()
        if device is not None:
            winners = [row for row in winners if device.lower() in row.device.lower()]
            if not winners:
                refuse_device(f"--device {device!r}, a part of a device name,", rows.devices())
    kernels = write(winners, out)
    if as_json:
        print_json({"folder": str(out), "files": files_of(kernels)})
        return
    for kernel in kernels:
        click.echo(f"{out / kernel.file}  {kernel.row.median_us:.2f} us on {kernel.row.device}  {kernel.row.problem}")
    click.echo(f"{out / HEADER}\n{out / 'manifest.json'}")
