"""The command report: what a database has measured on a device, as one page or as figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from qconv.cli import interruption
from qconv.cli.options import database_option


@click.command()
@database_option
@click.option("--name", "device", help="Of the device, as db list prints it. Default: the one with most rows.")
@click.option("--peers", type=click.Path(path_type=Path), metavar="FILE", help="Their times: a file of bench/results.")
@click.option(
    "--network",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the layers of a model run: what explain MODEL.onnx --json printed.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(("html", "svg", "png")),
    default="html",
    show_default=True,
    help="One page with nothing outside it, or a folder of figures; PNG needs matplotlib.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The page, or the folder. One folder is made."
)
def report(db: str | None, device: str | None, peers: Path | None, network: Path | None, kind: str, out: Path) -> None:
    """Show all measurements of a device: roofline, convergence, winners, the fields that matter and failures."""
    with interruption.telling(lambda: f"{out} is missing or incomplete: the same command writes it anew"):
        _report(db, device, peers, network, kind, out)


def _report(db: str | None, device: str | None, peers: Path | None, network: Path | None, kind: str, out: Path) -> None:
    from qconv.instances.load.serving import default_database
    from qconv.tune_db.database import Database
    from qconv.tuner import report as reports
    from qconv.tuner.report import charts
    from qconv.tuner.report.network import network_of

    known = {} if peers is None else reports.peers_of(peers)
    explained = None if network is None else network_of(network)
    with Database.open(db or default_database(), create=False, read_only=True) as rows:
        made = replace(reports.read(rows, device, known), network=explained)
    if kind == "html":
        _make(out.parent, out)
        out.write_text(made.html())
        click.echo(f"wrote {out}")
        return
    _make(out, out)
    for name, svg in made.figures().items():
        if kind == "png":
            charts.write(svg, out / f"{name}.png")
        else:
            (out / f"{name}.svg").write_text(charts.alone(svg))
    click.echo(f"wrote {', '.join(reports.FIGURES)} as {kind.upper()} to {out}")


def _make(folder: Path, out: Path) -> None:
    from qconv.device import folders

    try:
        folders.make_last(folder)
    except FileNotFoundError as error:
        raise ValueError(f"--out {out}: {error}") from None
