"""A session before and after `qconv.tune(session.problems)`, from an empty database: milliseconds per run.

    python bench/tuned_sessions.py --out bench/results/nvidia-h200

For each network and batch, a session is created and timed; its problems are tuned for --seconds; a new session is
created, and both are timed again, in turns. Outputs are compared bit for bit. The time of a run is defined as in
`networks.py`. The networks are torchvision's, quantized by `quantize_network.py`, or .onnx files with one input N x 3 x
H x W.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import onnx
from current import kernels_of
from network_timing import INPUTS, ROUNDS, RUNS, Row, images, protocol, stopwatch_of
from networks import run_number, uploaded
from report import Report

import qconv
from qconv.device import Device, open_device
from qconv.onnx import Session

# A tuned session may be slower by the noise between runs.
MOST_LOST = 1.01


def model_of(name: str, folder: Path) -> Path:
    if name.endswith(".onnx"):
        return Path(name)
    from quantize_network import quantized

    return quantized(name, folder)


def size_of(model: Path) -> int:
    (x,) = onnx.load(model).graph.input
    return int(x.type.tensor_type.shape.dim[2].dim_value)


def in_turns_ms(runs: Sequence[Callable[[int], None]], device: Device) -> list[float]:
    """Return the median of each, over rounds in which they take turns."""
    begin = stopwatch_of(device)
    for run in runs:
        for number in range(INPUTS):
            run(number)
    device.synchronize()
    rounds = []
    for _ in range(ROUNDS):
        laps = []
        for run in runs:
            stop = begin()
            for number in range(RUNS):
                run(number % INPUTS)
            laps.append(stop() / RUNS)
        rounds.append(laps)
    return [statistics.median(laps) for laps in zip(*rounds, strict=True)]


def measured(model: Path, batch: int, device: Device, seconds: float) -> Row:
    inputs = images(batch, size_of(model))
    before = Session(model, device.spec)
    name = before.input_names[0]
    there = [uploaded(x, device) for x in inputs]
    (alone_ms,) = in_turns_ms([partial(run_number, before, there)], device)
    begin = time.perf_counter()
    tuned = qconv.tune(before.problems, qconv.Budget(seconds=seconds), device=device.spec)
    tuned_s = time.perf_counter() - begin
    after = Session(model, device.spec)
    before_ms, after_ms = in_turns_ms([partial(run_number, session, there) for session in (before, after)], device)
    differing = sum(int((before.run(None, {name: x})[0] != after.run(None, {name: x})[0]).sum()) for x in inputs)
    whys = [{row.name: row.why for row in session.explain().rows} for session in (before, after)]
    race = tuned.race
    return {
        "name": model.stem,
        "batch": batch,
        "before_tuning_ms": alone_ms,
        "before_ms": before_ms,
        "after_ms": after_ms,
        "over_before": after_ms / before_ms,
        "said": str(race),
        "race": {} if isinstance(race, str) or race is None else asdict(race),
        "tuned_s": tuned_s,
        "kernels": [[layer, whys[0].get(layer), why] for layer, why in whys[1].items()],
        **kernels_of(after.problems, device, os.environ["QCONV_DB"], in_sequence=True),
        "verified": not differing,
    }


def printed(row: Row) -> None:
    times = f"{row['before_ms']:9.4f} {row['after_ms']:9.4f} ms {row['over_before']:6.3f}"
    said = f"tune said in {row['tuned_s']:.0f} s: {row['said']}"
    print(f"{row['name']:<20} N={row['batch']:<4} {times}  {said}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet50,mobilenet_v2", help="default: %(default)s")
    parser.add_argument("--batch", default="1,32", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=30.0, help="of tuning (default: %(default)g)")
    parser.add_argument("--device")
    parser.add_argument("--suite", default="tuned_sessions", help="name of the file of results; default: %(default)s")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    device = open_device(options.device)
    report = Report(options.out, options.suite, device, protocol(options.seconds), options.commit)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks.split(","):
            model = model_of(network, Path(folder))
            for batch in map(int, options.batch.split(",")):
                os.environ["QCONV_DB"] = str(Path(folder, f"{model.stem}-{batch}.sqlite"))
                qconv.forget()
                rows.append(measured(model, batch, device, options.seconds))
                report.write(rows, {"slower": [row["name"] for row in rows if row["over_before"] > MOST_LOST]})
                printed(rows[-1])
    if wrong := [f"{row['name']} N={row['batch']}" for row in rows if not row["verified"]]:
        sys.exit(f"tuning changed bits of {', '.join(wrong)}")


if __name__ == "__main__":
    main()
