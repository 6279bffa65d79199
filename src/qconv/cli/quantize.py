"""The command quantize: from a float model to one whose layers end on integer kernels."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from qconv.cli import interruption, progress
from qconv.cli.options import json_option, needing_onnx, print_json, quiet_option
from qconv.cli.sampling import sample_options, samples_of

# Layers that `leaving_out` names.
WORST = 3


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@sample_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Default: MODEL.int8.onnx beside it.")
@click.option("--leave-out", multiple=True, metavar="LAYER|OP", help="These stay in floats; compare says which.")
@click.option(
    "--activations",
    type=click.Choice(["uint8", "int8"]),
    default="uint8",
    show_default=True,
    help="ONNX Runtime computes uint8 in integers on every processor, and int8 often in floats.",
)
@click.option("--per-tensor", is_flag=True, help="One scale for all weights of a layer. Default: one per channel.")
@click.option(
    "--weight-bits",
    type=click.Choice(["8", "7"]),
    default="8",
    show_default=True,
    help="7: ONNX Runtime has the same bits on processors without VNNI.",
)
@click.option(
    "--method",
    type=click.Choice(["minmax", "entropy", "percentile"]),
    default="minmax",
    show_default=True,
    help="How the range of a tensor follows from its values.",
)
@json_option
@quiet_option
def quantize(
    model: Path,
    out: Path | None,
    leave_out: tuple[str, ...],
    activations: str,
    per_tensor: bool,
    weight_bits: str,
    method: str,
    as_json: bool,
    **sampling: Any,
) -> None:
    """Quantize a float model with ONNX Runtime's quantizer: QDQ, int8 weights per channel, uint8 activations, and only
    ops that have integer kernels. Ranges are calibrated on samples."""
    out = model.with_suffix(".int8.onnx") if out is None else out
    if out.resolve() == model.resolve():
        raise ValueError(f"--out {out} is the float model itself: give another file")
    with needing_onnx():
        from qconv.onnx.quantizer import Quantizing
        from qconv.onnx.quantizer import quantize as run
    how = Quantizing(activations, not per_tensor, int(weight_bits), method, leave_out)
    samples = samples_of(model, **sampling)
    used = progress.Counted(samples, len(samples), "calibrated on")
    with interruption.telling(lambda: f"{used}, and {out} is not written: --limit N takes fewer samples"):
        made = run(model, out, used, how)
    if as_json:
        print_json(made.as_dict())
        return
    click.echo(f"quantized  {made.quantized} of {made.products} layers with weights, in {out}")
    if made.on_kernels is not None and made.elsewhere is not None:
        elsewhere = ", ".join(f"{op} {count}" for op, count in made.elsewhere.items()) or "nothing"
        click.echo(f"kernels    {made.on_kernels} layers; elsewhere: {elsewhere}")
    click.echo(f"compare    {shlex.join(['qconv-tune', 'compare', str(model), str(out), *_given(sampling)])}")


def leaving_out(names: Iterable[str]) -> str:
    """Return the command that keeps the first of these layers in floats."""
    named = (f"--leave-out {shlex.quote(name)}" for name in list(dict.fromkeys(names))[:WORST])
    return f"qconv-tune quantize with {' '.join(named)}"


def _given(sampling: dict[str, Any]) -> list[str]:
    """Return the options of the samples as they were given."""
    options = {"--data": "data", "--size": "size", "--mean": "mean", "--std": "std", "--limit": "most"}
    return [
        word for option, name in options.items() if sampling[name] is not None for word in (option, str(sampling[name]))
    ]
