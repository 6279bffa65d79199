"""The command sensitivity: which quantized layers cost the outputs most."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import progress
from qconv.cli.options import json_option, needing_onnx, print_json, quiet_option
from qconv.cli.sampling import sample_options, samples_of
from qconv.cli.table import check_one_format, csv_option, of_terminal, print_documents_csv, table

if TYPE_CHECKING:
    from qconv.onnx.sensitivity import Sensitive

NAMES = ("outputs", "own", "op", "layer")
CSV_NAMES = ("name", "op", "own_db", "outputs_db")
# Layers that the last line names.
WORST = 3


@click.command()
@click.argument("real", type=click.Path(path_type=Path), metavar="FLOAT.onnx")
@click.argument("quantized", type=click.Path(path_type=Path), metavar="QUANTIZED.onnx")
@sample_options
@click.option("--top", type=click.IntRange(1), metavar="N", help="Print this many layers. Default: all.")
@json_option
@csv_option
@quiet_option
def sensitivity(real: Path, quantized: Path, top: int | None, as_json: bool, as_csv: bool, **sampling: Any) -> None:
    """Quantize one layer at a time, with the scales of a quantized model, and show the signal to noise ratio of the
    outputs and of the layer itself. The layer that costs the outputs most is first."""
    check_one_format(as_json, as_csv)
    with needing_onnx():
        from qconv.onnx.sensitivity import sensitivity as run
    samples = samples_of(real, **sampling)
    layers = run(real, quantized, progress.counted(samples, len(samples), "read"))[:top]
    if as_json:
        print_json({"samples": len(samples), "layers": [one.as_dict() for one in layers]})
    elif as_csv:
        print_documents_csv(CSV_NAMES, [one.as_dict() for one in layers])
    else:
        _print(layers)


def _print(layers: tuple[Sensitive, ...]) -> None:
    rows = [(str(one.worst), str(one.own), one.op, one.name) for one in layers]
    click.echo(table(NAMES, rows, of_terminal(), whole=("outputs", "own")))
    named = " ".join(f"--leave-out {shlex.quote(one.name)}" for one in layers[:WORST])
    click.echo(f"these cost the outputs most: to keep them in floats, qconv-tune quantize with {named}")
