"""Whole quantized networks in a session, compared with the same networks in fp16 by PyTorch's Inductor, in the same
run.

    python bench/networks.py resnet50.onnx ... --seconds 60 --db networks.sqlite --out bench/results/nvidia-h200

A model has one input, N x 3 x H x W of float32; `quantize_network.py` makes such models of torchvision's networks. The
session's outputs are compared with those of ONNX Runtime on the CPU before anything is timed. With --seconds, the
session's problems are tuned for that time, per model and batch. The peer is torchvision's network of the file's name.

With --integer-inputs, the model takes the output of its first QuantizeLinear. The images are quantized before anything
is timed, in channels-last order, as if a camera or a decoder supplied bytes.

The time of a session's run includes the copy of the input from another device array, and the copy of the output; runs
follow each other without waiting, and the inputs change from run to run.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from current import kernels_of
from network_timing import Row, images, measured, opened, parser_of, printed, protocol, stopwatch_of, summary, timed_ms
from report import Report

import qconv
from qconv.device import Device, open_device
from qconv.onnx import Session, with_integer_inputs

# Choices that a session makes by default.
CHOICES = ("sums_in_convolutions", "fused_convolutions", "tables_in_convolutions", "pools_in_convolutions")
ALWAYS = {None: None, "always": True, "never": False}
Choice = dict[str, Any]
# Images per input that ONNX Runtime computes too.
COMPARED = 4


# a file, or a model's bytes
Model = Path | bytes


def by_ort(model: Model, x: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    given = str(model) if isinstance(model, Path) else model
    session = onnxruntime.InferenceSession(given, options, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    return y


def of_integers(path: Path, inputs: list[Any]) -> tuple[bytes, list[Any]]:
    """Return the model that takes integers, and the images as integers."""
    changed, found = with_integer_inputs(path)
    (of_images,) = found.values()
    limits = np.iinfo(of_images.dtype)
    rounded = (np.rint(x / np.float32(of_images.scale)) + of_images.zero_point for x in inputs)
    return changed.SerializeToString(), [x.clip(limits.min, limits.max).astype(of_images.dtype) for x in rounded]


def lies_last(x: Any) -> bool:
    """Return true if the channels are last in memory, as for bytes."""
    return bool(x.dtype.itemsize == 1)


def uploaded(x: Any, device: Device) -> Any:
    if not lies_last(x):
        return device.upload(x)
    return device.upload(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)


def differing(session: Session, model: Model, inputs: list[Any]) -> int:
    """Return the number of outputs that differ from ONNX Runtime's, over all inputs in turn, so that later runs are
    replays."""
    name, few = session.input_names[0], COMPARED
    given = [session.run(None, {name: x})[0][:few] for x in inputs]
    wanted = by_ort(model, np.concatenate([x[:few] for x in inputs]))
    return int((np.concatenate(given) != wanted).sum())


def run_number(session: Session, inputs: list[Any], number: int) -> None:
    session.run_on_device(None, {session.input_names[0]: inputs[number]})


def ours(model: Model, device: Device, inputs: list[Any], seconds: float, db: str | None, choice: Choice) -> Row:
    session = Session(model, device.spec, **choice)
    name = session.input_names[0]
    session.run_on_device(None, {name: inputs[0]})
    if seconds:
        qconv.tune(session.problems, qconv.Budget(seconds=seconds), device=device.spec, db=db)
        session = Session(model, device.spec, **choice)
    wrong = differing(session, model, inputs)
    there = [uploaded(x, device) for x in inputs]
    run = partial(run_number, session, there)
    ms = timed_ms(run, device.synchronize, stopwatch_of(device))
    profile = session.profile({name: there[0]})
    by_op: dict[str, float] = {}
    for row in profile.rows:
        by_op[row.op] = by_op.get(row.op, 0.0) + row.time_us
    explanation = session.explain()
    return {
        "inputs": str(inputs[0].dtype),
        "channels_last": lies_last(inputs[0]),
        "ms": ms,
        "images_per_s": len(inputs[0]) / ms * 1e3,
        "verified": not wrong,
        "fallen_back": dict(explanation.fallen_back),
        "in_one_kernel": [[row.name, row.why] for row in explanation.rows if "one kernel" in row.why],
        "profile_us": {op: round(time_us, 1) for op, time_us in sorted(by_op.items(), key=lambda item: -item[1])},
        "layers_us": [[row.name, row.op, round(row.time_us, 2)] for row in profile.rows],
        **kernels_of(session.problems, device, db, in_sequence=True),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__, "networks")
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument(
        "--peer-batch", help="at which the peer is compiled as well, half a minute each; default: those of --batch"
    )
    parser.add_argument("--integer-inputs", action="store_true", help="images that are quantized already")
    chosen: Choice = {"nargs": "?", "const": "always", "choices": ("always", "never")}
    says = "as of a session; default: what is faster by measured times, else by predictions"
    parser.add_argument("--sums-in-convolutions", **chosen, help=says)
    parser.add_argument("--tables-in-convolutions", **chosen, help="the same of functions of what convolutions give")
    parser.add_argument("--pools-in-convolutions", **chosen, help="the same of max pools of what convolutions give")
    parser.add_argument("--fused-convolutions", **chosen, help="the same of two and three convolutions in one kernel")
    options = opened(parser, arguments)
    device = open_device(options.device)
    report = Report(options.out, options.suite, device, protocol(options.seconds), options.commit)
    with_peer = options.batch if options.peer_batch is None else options.peer_batch
    choice: Choice = {name: ALWAYS[getattr(options, name)] for name in CHOICES}
    rows: list[Row] = []
    for path in options.models:
        for batch in map(int, options.batch.split(",")):
            peer = str(batch) in with_peer.split(",")
            inputs = images(batch)
            model, given = of_integers(path, inputs) if options.integer_inputs else (path, inputs)
            mine = ours(model, device, given, options.seconds, options.db, choice)
            rows.append(measured(path.stem, device, inputs, peer, mine))
            report.write(rows, summary(rows))
            printed(rows[-1])
    if wrong := [f"{row['name']} N={row['batch']}" for row in rows if not row["verified"]]:
        sys.exit(f"these differ from ONNX Runtime: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
