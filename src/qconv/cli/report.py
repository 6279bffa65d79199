"""The command report: what a database has measured on a device, as one page or as figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from qconv.cli import interruption, progress
from qconv.cli.options import database_option

if TYPE_CHECKING:
    from qconv.tuner.report import Report

REFRESH_S = 5


@click.command()
@database_option
@click.option("--name", "device", help="Of the device, as db list prints it. Default: the one with most rows.")
@click.option(
    "--peers",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Their times: a file of bench/results. May be given several times.",
)
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
    "--machine-code",
    is_flag=True,
    help="With the machine code of the winners as well, which compiles those that are not in the cache.",
)
@click.option("--live", is_flag=True, help="Write the page anew while configs are measured, until Ctrl-C.")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The page, or the folder. One folder is made."
)
def report(
    db: str | None,
    device: str | None,
    peers: tuple[Path, ...],
    network: Path | None,
    kind: str,
    machine_code: bool,
    live: bool,
    out: Path,
) -> None:
    """Show all measurements of a device: each layer's winner beside the untuned default, the roofline and peers; how
    the searches converged, the fields that matter, and failures."""
    if live and kind != "html":
        raise click.UsageError(f"--live writes a page, and --format {kind} writes none: leave one of them out")
    with interruption.telling(lambda: f"{out} is missing or incomplete: the same command writes it anew"):
        from qconv.instances.load.serving import default_database
        from qconv.tune_db.database import Database
        from qconv.tuner import report as reports
        from qconv.tuner.report.network import network_of

        known = reports.peers_of(peers)
        explained = None if network is None else network_of(network)

        def read() -> Report:
            with Database.open(db or default_database(), create=False, read_only=True) as rows:
                return reports.read(rows, device, known, explained, machine_code)

        made = read()
        if kind != "html":
            _write_figures(made, kind, out)
            return
        _make(out.parent, out)
        if not live:
            out.write_text(made.html())
            click.echo(f"wrote {out}")
            return
    _follow(read, out)


def _follow(read: Callable[[], Report], out: Path) -> None:
    """Write the page whenever there are new rows, until Ctrl-C, and then once more without the refresh."""
    made = read()
    _replace(out, made.html(REFRESH_S))
    progress.say(f"open {out} in a browser; Ctrl-C ends")
    try:
        while True:
            time.sleep(REFRESH_S)
            before, made = made, read()
            if made.rows != before.rows:
                _replace(out, made.html(REFRESH_S))
    except KeyboardInterrupt as stopped:
        _replace(out, read().html())
        stopped.add_note(f"{out} stays as it is; without --live the same command writes it once")
        raise


def _replace(out: Path, text: str) -> None:
    """Replace the page in one step, so that a browser never reads a part of it."""
    new = out.with_name(f".{out.name}.new")
    new.write_text(text)
    new.replace(out)


def _write_figures(made: Report, kind: str, out: Path) -> None:
    from qconv.tuner.report import charts

    _make(out, out)
    figures = made.figures()
    for name, svg in figures.items():
        if kind == "png":
            charts.write(svg, out / f"{name}.png")
        else:
            (out / f"{name}.svg").write_text(charts.alone(svg))
    click.echo(f"wrote {', '.join(figures)} as {kind.upper()} to {out}")


def _make(folder: Path, out: Path) -> None:
    from qconv.device import folders

    try:
        folders.make_last(folder)
    except FileNotFoundError as error:
        raise ValueError(f"--out {out}: {error}") from None
