"""Every layer of whole models, quantized as users deploy them, compared with an independent reference on the GPU.

    python bench/models.py LAYERS.csv --out bench/results/nvidia-h200 [--db tune.sqlite] [--time]

Scales are per channel, the bias is int32 if the csv says that there is one, the output is int8; one layer in four gets
zero points and unsigned types. The kernels are those of `qconv.lookup`, compiled ahead on all cores. Tolerance 0.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ahead import chosen
from current import digest_of
from report import Report
from roofline import floor_us
from timing import described, interleaved_us, release, runner_of
from torch_reference import output
from workload import Layer, chosen_by, distinct, parser_of

from qconv import Conv2d, Quantization
from qconv.device import Device, open_device
from qconv.instances.choose import Choice
from qconv.instances.load.pair import Runnable, load
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import POISONS

Row = dict[str, Any]
UNSIGNED_SHARE = 0.25


def deployed(layer: Layer) -> Layer:
    """Return the layer with flags that depend on its problem only, so that equal layers stay equal."""
    bias = "int32" if layer.biased else "none"
    q = Quantization(per_channel=True, bias=bias)
    draw = random.Random(f"{layer.problem}:{bias}")
    if draw.random() < UNSIGNED_SHARE:
        q = replace(
            q,
            x_type=draw.choice(("int8", "uint8")),
            w_type=draw.choice(("int8", "uint8")),
            out_type=draw.choice(("int8", "uint8")),
            x_zero_point=True,
            w_zero_point=draw.random() < 0.5,
            y_zero_point=True,
        )
    return replace(layer, problem=replace(layer.problem, quantization=q))


def differing(runnable: Runnable, drawn: Sample) -> str | None:
    """Return None if all outputs equal the reference's, else how many differ. Everything stays on the device."""
    problem, device = runnable.problem, runnable.device
    assert isinstance(problem, Conv2d)
    arrays = [device.upload(array) for array in drawn.arrays]
    y = device.empty(problem.y_shape, problem.quantization.out_type)
    device.fill(y, POISONS[0])
    runnable(*arrays, out=y, **drawn.parameters)
    device.synchronize()
    x, w, got = (torch.from_dlpack(array) for array in (*arrays, y))
    wrong = got != output(problem, x, w, drawn.parameters)
    count = int(wrong.sum())
    return f"{count} of {wrong.numel()} outputs differ from the reference" if count else None


def checked(
    layers: list[Layer], choice: Choice | str, device: Device, protocol: TimingProtocol, seed: int, timed: bool
) -> Row:
    """Return one row for layers of the same problem."""
    problem = layers[0].problem
    row: Row = {"name": layers[0].name, "layers": [layer.name for layer in layers], "problem": str(problem)}
    row |= {"verified": False, "floor_us": floor_us(problem, device.name)}
    if isinstance(choice, str):
        return row | {"mismatch": choice}
    row |= {"config": choice.plan.config.as_dict(), "digest": digest_of(choice.plan), "origin": choice.origin}
    try:
        runnable = load(choice.plan, device, choice.toolchain)
        drawn = registry.draw(problem, seed)
        wrong = differing(runnable, drawn)
        row |= {"compile_ms": runnable.binary.compile_ms, "verified": wrong is None}
        if wrong is not None:
            row["mismatch"] = wrong
        elif timed:
            times = interleaved_us({"ours": runner_of(runnable, drawn, protocol)}, protocol, rounds=1)
            row |= {"time_us": times["ours"], "tops": problem.operations / times["ours"] / 1e6}
    except Exception as error:  # a failing layer is reported in its row; the others still run
        row |= {"verified": False, "mismatch": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return row


def summary(rows: list[Row], layers: list[Layer]) -> Row:
    by_name = {name: row for row in rows for name in row["layers"]}
    done = [layer for layer in layers if layer.name in by_name]
    verified = sum(by_name[layer.name]["verified"] for layer in done)
    models: Row = {}
    for layer in done:
        row = by_name[layer.name]
        total = models.setdefault(str(layer.model), {"layers": 0, "verified": 0, "time_us": 0.0, "floor_us": 0.0})
        total["layers"] += 1
        total["verified"] += row["verified"]
        for name in ("time_us", "floor_us"):
            known = total[name] is not None and row.get(name) is not None
            total[name] = total[name] + row[name] if known else None
    return {
        "layers": len(done),
        "problems": len(rows),
        "verified": verified,
        "mismatches": len(done) - verified,
        "families": dict(Counter(by_name[layer.name].get("config", {}).get("family", "none") for layer in done)),
        "origins": dict(Counter(by_name[layer.name].get("origin", "none") for layer in done)),
        "compile_s": sum(row.get("compile_ms", 0.0) for row in rows) / 1e3,
        "models": models,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.set_defaults(batch=1)
    parser.add_argument("--time", action="store_true", help="time every layer and add up the models")
    parser.add_argument("--seed", type=int, help="of the data; default: another one every time")
    parser.add_argument("--device")
    parser.add_argument("--db", help="the measurements that lookup uses; default: as `qconv.lookup` has it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    device = open_device(options.device)
    protocol = protocol_for(device)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if options.seed is None else options.seed
    layers = [deployed(layer) for layer in chosen_by(options)]
    problems = distinct(layers)
    report = Report(options.out, "models", device, described(protocol, 1) | {"seed": seed}, options.commit)
    begin = time.monotonic()
    rows: list[Row] = []
    choices = chosen(list(problems), device, options.db)
    for (_, same), choice in zip(problems.items(), choices, strict=True):
        row = checked(same, choice, device, protocol, seed, options.time and not isinstance(choice, str))
        rows.append(row)
        if not row["verified"]:
            print(f"{row['name']}: {row['mismatch']}", file=sys.stderr, flush=True)
        if len(rows) % 50 == 0 or len(rows) == len(problems):
            release(device)
            report.write(rows, summary(rows, layers))
            print(f"{len(rows)} of {len(problems)} problems, {time.monotonic() - begin:.0f} s", file=sys.stderr)
    said = summary(rows, layers)
    for model, total in said["models"].items():
        took = f"{total['time_us']:10.1f} us" if total["time_us"] is not None else ""
        print(f"{model:<32}{total['verified']:4} of {total['layers']:3} layers verified {took}")
    print({name: said[name] for name in ("layers", "problems", "verified", "mismatches", "families", "origins")})
    if said["mismatches"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
