"""The command compare: a quantized model beside its float model, layer by layer and end to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli import interruption, progress
from qconv.cli.options import json_option, needing_onnx, quiet_option
from qconv.cli.quantize import leaving_out
from qconv.cli.sampling import sample_options, samples_of
from qconv.cli.table import check_one_format, csv_option, of_terminal, printed_as_data, table

if TYPE_CHECKING:
    from qconv.onnx.comparison import Comparison, Output
    from qconv.onnx.runtimes import Runtime

RUNTIMES = ("mode", "layers", "different", "at most", "system, or why it takes no more")
NAMES = ("error", "rounding", "clipped", "op", "layer")
CSV_NAMES = ("name", "op", "tensor", "error_db", "rounding_db", "clipped_share")


@click.command()
@click.argument("real", type=click.Path(path_type=Path), metavar="FLOAT.onnx")
@click.argument("quantized", type=click.Path(path_type=Path), metavar="QUANTIZED.onnx")
@sample_options
@click.option("--device", help="Also run the quantized model in a session there: cpu (slow), cuda:N, hip:N.")
@click.option("--runtimes", is_flag=True, help="Also say in which mode other systems compute it, and with which bits.")
@click.option("--sort", type=click.Choice(["model", "error"]), default="model", show_default=True)
@json_option
@csv_option
@quiet_option
def compare(
    real: Path,
    quantized: Path,
    device: str | None,
    runtimes: bool,
    sort: str,
    as_json: bool,
    as_csv: bool,
    **sampling: Any,
) -> None:
    """Show the error of each quantized layer as signal to noise, with the errors of all layers in front and of its own
    rounding alone; the share of its values that are clipped; and how often the outputs have the same arg max."""
    check_one_format(as_json, as_csv)
    with needing_onnx():
        from qconv.onnx.comparison import compare as run
    samples = samples_of(real, **sampling)
    used = progress.Counted(samples, len(samples), "compared on")
    with interruption.telling(lambda: f"{used}, and nothing is printed: --limit N takes fewer samples"):
        found = run(real, quantized, used, device, runtimes)
    document = found.as_dict()
    if not printed_as_data(document, CSV_NAMES, document["layers"], as_json, as_csv):
        _print(found, sort)


def _print(found: Comparison, sort: str) -> None:
    layers = found.worst if sort == "error" else found.layers
    rows = [(str(one.error), str(one.rounding), f"{100 * one.clipped_share:.2f} %", one.op, one.name) for one in layers]
    click.echo(table(NAMES, rows, of_terminal(), whole=("error", "rounding", "clipped")))
    for where, outputs in (("ONNX Runtime", found.outputs), (found.device, found.on_device)):
        for output in outputs:
            click.echo(f"output {output.name} by {where}: {_of_output(output)}")
    if found.runtimes:
        cells = [_of_runtime(one) for one in found.runtimes]
        click.echo(table(RUNTIMES, cells, of_terminal(), whole=RUNTIMES[:-1]))
    if found.worst:
        left = leaving_out(one.name for one in found.worst)
        click.echo(f"the largest errors: to keep these layers in floats, {left}")


def _of_runtime(one: Runtime) -> tuple[str, ...]:
    why = next(iter(one.refused.values()), one.says)
    bits = (f"{one.different:,} of {one.outputs:,}", str(one.most)) if one.taken else ("", "")
    return (one.mode, f"{one.taken} of {one.layers}", *bits, why)


def _of_output(output: Output) -> str:
    if output.agreement is None:
        return str(output.error)
    return f"{output.error}, the same arg max in {100 * output.agreement:.1f} % of {output.places} places"
