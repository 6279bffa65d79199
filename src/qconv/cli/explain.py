"""The command explain: where the layers of an ONNX model run, why, and what they need."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qconv.cli.options import Computed, device_option, floats_options, json_option, needing_onnx
from qconv.cli.table import check_one_format, csv_option, printed_as_data
from qconv.op import quoted

if TYPE_CHECKING:
    from qconv.onnx import Session

COLUMNS = (
    *("name", "op", "runs_on", "why", "bytes_in", "bytes_out", "operations", "floats", "may_differ"),
    *("predicted_us", "measured_us"),
)
Shapes = dict[str, tuple[int, ...]]


@click.command()
@click.argument("model", type=click.Path(path_type=Path), metavar="MODEL.onnx")
@click.option("--batch", type=click.IntRange(1), help="Replaces the open batch of its inputs. Default: 1.")
@click.option("--shape", "given", multiple=True, metavar="NAME=1,3,224,224", help="The shape of an input, instead.")
@click.option(
    "--bits",
    type=click.Choice(["integers", "onnxruntime"]),
    help="Integer layers wherever there are kernels (default), or ONNX Runtime's bits on this processor.",
)
@floats_options
@click.option("--profile", is_flag=True, help="Run it on random data as well, and measure each layer by itself.")
@device_option
@json_option
@csv_option
def explain(
    model: Path,
    batch: int | None,
    given: tuple[str, ...],
    bits: str | None,
    computed: Computed,
    profile: bool,
    device: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show for each layer of a model where it runs and why, the bytes that cross between the device and the host, the
    memory and the predicted time; then the causes of what runs elsewhere, by weight."""
    check_one_format(as_json, as_csv)
    with needing_onnx():
        import qconv.onnx  # noqa: F401
    if batch is not None and given:
        raise click.UsageError(f"--batch {batch} and --shape both say what is open: give one")
    shapes = dict(map(_shape, given))
    session = _session(model, batch, shapes, device, {"bits": bits, **computed})
    times = _profile(session) if profile else None
    explanation = session.explain(times)
    document = {"model": str(model), "device": session.device.name, **explanation.as_dict()}
    if not printed_as_data(document, COLUMNS, document["layers"], as_json, as_csv):
        click.echo(f"{model} on {session.device.name}\n{explanation}")


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse the name of an input and its extents. A name may contain the sign between them."""
    name, _, extents = text.rpartition("=")
    numbers = extents.split(",") if extents else []
    if not name or not all(one.isascii() and one.isdigit() for one in numbers):
        raise click.UsageError(f"--shape {quoted(text)} must be a name and extents, such as x=1,3,224,224")
    return name, tuple(map(int, numbers))


def _session(model: Path, batch: int | None, shapes: Shapes, device: str | None, computed: Computed) -> Session:
    from qconv.onnx import Session
    from qconv.onnx.asked_shapes import with_batch
    from qconv.onnx.model import is_folder, loaded, source_of

    if is_folder(model) or shapes:
        session = Session(model, device, **computed)
        if shapes:
            session.prepare(shapes)
        return session
    return Session(with_batch(loaded(source_of(model)), batch or 1), device, **computed)


def _profile(session: Session) -> Any:
    """Run on random data until the runs are recorded, then time each layer."""
    from qconv.errors import SlowNetwork

    feeds = session.random_feeds()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SlowNetwork)  # the report says more
        for _ in range(2):
            session.run(None, feeds)
    return session.profile(feeds)
