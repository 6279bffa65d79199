"""The command sensitivity: which quantized layers cost the outputs most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from qconv.cli import interruption, progress
from qconv.cli.options import json_option, needing_onnx, quiet_option
from qconv.cli.quantize import leaving_out
from qconv.cli.sampling import sample_options, samples_of
from qconv.cli.table import check_one_format, csv_option, of_terminal, printed_as_data, table

NAMES = ("outputs", "own", "op", "layer")
CSV_NAMES = ("name", "op", "own_db", "outputs_db")


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
    with interruption.telling(lambda: "nothing is printed: --limit N takes fewer samples"):
        found = run(real, quantized, samples, _counted)
    layers = found[:top]
    rows = [one.as_dict() for one in layers]
    if printed_as_data({"samples": len(samples), "layers": rows}, CSV_NAMES, rows, as_json, as_csv):
        return
    cells = [(str(one.worst), str(one.own), one.op, one.name) for one in layers]
    click.echo(table(NAMES, cells, of_terminal(), whole=("outputs", "own")))
    left = leaving_out(one.name for one in layers)
    click.echo(f"these cost the outputs most: to keep them in floats, {left}")


def _counted(layers: Sequence[Any]) -> Iterable[Any]:
    return progress.Counted(layers, len(layers), "quantized by itself:", "layers")
