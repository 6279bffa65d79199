"""Layers quantized in two ways, compared in the same run: the cost of the second over the first, with the same config
or with the best config of each."""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from current import kernels
from layers import TIMEOUT_S, tuned
from report import Report
from timing import Runner, described, interleaved_us, runner_of
from workload import read

import qconv
from qconv import Conv2d, Quantization, generator
from qconv.device import Device, open_device
from qconv.generator import Plan
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import mismatch

# Layers of ResNet-50 at N=32, used if no csv is given.
LAYERS = {
    "rn50_l1_3x3": Conv2d(32, 56, 56, 64, 64, 3, 3, pad=(1, 1, 1, 1)),
    "rn50_l2_3x3": Conv2d(32, 28, 28, 128, 128, 3, 3, pad=(1, 1, 1, 1)),
    "rn50_l3_3x3": Conv2d(32, 14, 14, 256, 256, 3, 3, pad=(1, 1, 1, 1)),
    "rn50_l4_3x3": Conv2d(32, 7, 7, 512, 512, 3, 3, pad=(1, 1, 1, 1)),
    "rn50_l2_1x1": Conv2d(32, 28, 28, 512, 128, 1, 1),
    "rn50_l3_1x1": Conv2d(32, 14, 14, 256, 1024, 1, 1),
    "rn50_l1_1x1": Conv2d(32, 56, 56, 64, 256, 1, 1),
}
# More than in comparisons with peers: the differences are one or two percent.
ROUNDS = 9


def compared(
    name: str,
    layer: Conv2d,
    kinds: dict[str, Quantization],
    device: Device,
    protocol: TimingProtocol,
    db: str | None,
    each_its_own: bool,
) -> dict[str, Any]:
    """`kinds` lists the base first, then the kinds to compare with it. The config is the best known of the plain layer,
    or of each kind.
    """
    plans: dict[str, Plan] = {}
    runners: dict[str, Runner] = {}
    wrong: dict[str, str] = {}
    for kind, quantization in kinds.items():
        problem = replace(layer, quantization=quantization)
        config = qconv.lookup(problem if each_its_own else layer, device.spec, db).plan.config
        plans[kind] = generator.plan(problem, config, device.target)
        runnable = load(plans[kind], device)
        drawn = registry.draw(problem, 1)
        if (said := mismatch(runnable, drawn)) is not None:
            wrong[kind] = said
        runners[kind] = runner_of(runnable, drawn, protocol)
    times = interleaved_us(runners, protocol, ROUNDS)
    base, changed = kinds
    row = {
        "name": name,
        "problem": str(replace(layer, quantization=kinds[changed])),
        "time_us": times[changed],
        f"{base}_us": times[base],
        "ratio": times[changed] / times[base],
        "config": plans[changed].config.as_dict(),
        "verified": not wrong,
    } | kernels(plans)
    return row | ({"mismatch": wrong} if wrong else {})


def run(suite: str, kinds: dict[str, Quantization], says: str) -> None:
    """Run a comparison: the whole script."""
    parser = argparse.ArgumentParser(description=says, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=Path, help="a csv, see workload.py; default: seven layers of ResNet-50")
    parser.add_argument("--only", default="", metavar="REGEX", help="over the names of the csv's layers")
    parser.add_argument("--device")
    parser.add_argument("--db", help="where the plain layers were tuned; default: as `qconv.lookup` has it")
    parser.add_argument("--trials", type=int, metavar="N", help="tune both in --db and compare each at its own best")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args()
    if options.trials is not None and options.db is None:
        parser.error("--trials measures, and --db says where the measurements go")
    layers = LAYERS
    if options.layers is not None:
        layers = {layer.name: layer.problem for layer in read(options.layers, only=options.only)}
    device = open_device(options.device)
    protocol = replace(protocol_for(device), repeats=3 * ROUNDS)
    report = Report(options.out, suite, device, described(protocol, ROUNDS), options.commit)
    base, changed = kinds
    if options.trials is not None:
        with Child(device, protocol_for(device), TIMEOUT_S) as child:
            for layer, quantization in product(layers.values(), kinds.values()):
                tuned(replace(layer, quantization=quantization), device, options.db, options.trials, child)
    rows: list[dict[str, Any]] = []
    for name, layer in layers.items():
        row = compared(name, layer, kinds, device, protocol, options.db, options.trials is not None)
        rows.append(row)
        mean = statistics.geometric_mean(row["ratio"] for row in rows)
        report.write(rows, {"geometric_mean": mean, "worst": max(row["ratio"] for row in rows)})
        print(
            f"{name:<18}{row[f'{base}_us']:9.2f} us {base} {row['time_us']:9.2f} us {changed} "
            f"{100 * (row['ratio'] - 1):+6.2f} %  verified {row['verified']}  {row['config']}",
            flush=True,
        )
    print(f"geometric mean {100 * (mean - 1):+.2f} %")
