"""ResNet-50's convolutions followed by a QLinearAdd: in one kernel and in two, each tuned for as long; one suite.

    python bench/residual.py --trials 24 --db tune.sqlite --out bench/results/nvidia-h200
    python bench/residual.py --device cpu.sm_90a --only 64 --batches 1 --image 4 --trials 2 --db t.sqlite --out /tmp

In the second way, the convolution's output is the sum's input: `unfused_us` is the time of these two kernels, timed in
the same rounds as the kernel that does both. Each is compared with the oracle.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from current import kernels
from report import Report
from roofline import floor_us
from timing import described, interleaved_us, release, runner_of

from qconv import Conv2d, Quantization, generator
from qconv.arithmetic.mode import Mode
from qconv.device import Device, open_device
from qconv.generator import Plan
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops import registry
from qconv.targets.target import target
from qconv.tensor_ops import Add
from qconv.tune_db.database import Database
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import InputSets
from qconv.tuner.search.tune import Outcome, tune

Row = dict[str, Any]

TIMEOUT_S = 60.0  # per config
LAYERS = {"64 to 256": (56, 64, 256), "128 to 512": (28, 128, 512), "256 to 1024": (14, 256, 1024)}
LAYERS |= {"512 to 2048": (7, 512, 2048)}
WITH_SUM = Quantization(
    *("uint8", "int8", "uint8"),
    per_channel=True,
    x_zero_point=True,
    y_zero_point=True,
    bias="int32",
    activation="relu",
    residual="uint8",
    residual_zero_point=True,
    inner_zero_point=True,
    mode=Mode(residual_add="requantized"),
)
ALONE = replace(
    WITH_SUM, activation="none", residual="none", residual_zero_point=False, inner_zero_point=False, mode=Mode()
)


@dataclass(frozen=True)
class Layer:
    name: str
    convolution: Conv2d
    add: Add
    together: Conv2d

    @classmethod
    def of(cls, name: str, batch: int, image: int | None) -> Layer:
        own_image, c, k = LAYERS[name]
        size = image or own_image
        convolution = Conv2d(batch, size, size, c, k, 1, 1, quantization=ALONE)
        add = Add(1, 1, convolution.pixels * k, "uint8", "uint8", "uint8", "relu")
        return cls(f"{name}, N={batch}", convolution, add, replace(convolution, quantization=WITH_SUM))

    @property
    def problems(self) -> dict[str, Problem]:
        return {"convolution": self.convolution, "add": self.add, "together": self.together}


def measured(layer: Layer, device: Device, protocol: TimingProtocol, db: str, trials: int, child: Child) -> Row:
    row: Row = {"name": layer.name, "problem": str(layer.together), "mismatch": {}, "of_families_us": {}}
    runners, plans = {}, {}
    for what, problem in layer.problems.items():
        with Database.open(db) as database:
            outcome = tune(problem, device, database, trials=trials, child=child)
        runnable = load(plan_of(outcome), device)
        drawn = registry.draw(problem, 1)
        if (wrong := InputSets(problem, device, drawn).mismatch(runnable)) is not None:
            row["mismatch"][what] = wrong
        plans[what] = runnable.plan
        row["of_families_us"][what] = {name: best.median_us for name, best in outcome.of_families.items()}
        if outcome.default is not None:
            row[f"{what}_default_us"] = outcome.default.median_us
        runners[what] = runner_of(runnable, drawn, protocol)
    times = interleaved_us(runners, protocol)
    floors = {what: floor_us(problem, device.name) for what, problem in layer.problems.items()}
    unfused_us = times["convolution"] + times["add"]
    return (
        row
        | kernels(plans)
        | {
            "verified": not row["mismatch"],
            **{f"{what}_us": value for what, value in times.items()},
            **{f"{what}_floor_us": value for what, value in floors.items()},
            "unfused_us": unfused_us,
            "over_unfused": unfused_us / times["together"],
        }
    )


def plan_of(outcome: Outcome) -> Plan:
    if outcome.best is None:
        raise RuntimeError(f"no config of {outcome.problem} worked: {outcome.failures}")
    return generator.plan(outcome.problem, outcome.best.config, target(outcome.target))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="residual")
    parser.add_argument("--only", default="", metavar="REGEX", help="over the names of the layers: '128 to 512'")
    parser.add_argument("--batches", default="128,1", metavar="N,N", help="default: %(default)s")
    parser.add_argument("--image", type=int, metavar="SIZE", help="instead of the layers' own")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seconds", type=float, help="begin no layer after this time")
    parser.add_argument("--device")
    parser.add_argument("--db", required=True, help="where the measurements go")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    device = open_device(options.device)
    protocol = protocol_for(device)
    report = Report(options.out, options.suite, device, described(protocol), options.commit)
    child = Child(device, protocol, TIMEOUT_S)
    begin, rows = time.monotonic(), list[Row]()
    names = [name for name in LAYERS if re.search(options.only, name)]
    for layer in (Layer.of(name, int(n), options.image) for n in options.batches.split(",") for name in names):
        if options.seconds is not None and time.monotonic() - begin > options.seconds:
            print(f"{options.seconds:g} s are over: {layer.name} and the rest were not begun", file=sys.stderr)
            break
        row = measured(layer, device, protocol, options.db, options.trials, child)
        rows.append(row)
        report.write(rows, {"rows": len(rows), "verified": sum(row["verified"] for row in rows)})
        release(device)
        print(
            f"{row['name']:<20} together {row['together_us']:8.2f} us ({row['configs']['together']['family']}), "
            f"unfused {row['convolution_us']:.2f} + {row['add_us']:.2f}; by family {row['of_families_us']['together']}"
            f"{row['mismatch'] or ''}",
            file=sys.stderr,
            flush=True,
        )
    child.stop()
    if wrong := [row["name"] for row in rows if not row["verified"]]:
        sys.exit(f"these differ from the oracle: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
