"""The cost of a launch in a chain of dependent launches: one after the other, or each beginning before the previous one
has ended (programmatic dependent launch).

    python bench/overlap.py [--batch 1,8,32] [--out bench/results/nvidia-h200]

It measures synthetic kernels first, by `overlap.cu` (needs nvcc): in a stream or a graph, with programmatic edges that
are captured or made by hand, and by the place where a kernel lets the next one begin. Then it measures the convolutions
of ResNet-50, in one graph each way; `piled up` is the overlap without the shared memory that limits resident launches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ahead import chosen
from report import Report
from timing import in_turns, repeated

from qconv.device import Device, default_spec, open_device
from qconv.device.launch_attributes import Multiprocessors
from qconv.generator import Plan
from qconv.instances.load.pair import load
from qconv.op import Problem
from qconv.ops import registry
from qconv.tuner.workloads.listing import read

ROOT = Path(__file__).parents[1]
NVCC = ("nvcc", "-O3", "-std=c++17", "-gencode=arch=compute_90a,code=sm_90a")
NETWORK = "resnet50_v1.5/"
ROUNDS, RUNS = 7, 15
PROTOCOL = {
    "kernels": "200 launches less 40, of 41 runs each by events; in a stream, filled behind a delay, of 11",
    "layers": f"one graph, {ROUNDS} rounds of {RUNS} runs, all ways in turn",
    "statistic": "median",
}

Row = dict[str, Any]
Ways = dict[str, Callable[[], float]]


def kernels(binary: Path | None) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        if binary is None:
            binary = Path(folder, "overlap")
            subprocess.run([*NVCC, str(ROOT / "bench/overlap.cu"), "-o", str(binary)], check=True)
        answer = subprocess.run([str(binary)], capture_output=True, text=True, timeout=300, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def table(rows: list[Row]) -> str:
    """Return one line per mode, one column per shape; times of launches that read stale data are marked."""
    shapes = list(dict.fromkeys(row["shape"] for row in rows))
    lines = [f"{chr(65 + at)}  {shape}" for at, shape in enumerate(shapes)]
    lines.append(f"{'us a launch':44}" + "".join(f"{chr(65 + at):>7}" for at in range(len(shapes))))
    for mode in dict.fromkeys(row["mode"] for row in rows):
        of_mode = [row for row in rows if row["mode"] == mode]
        times = {row["shape"]: f"{row['launch_us']:.2f}{' ' if row['right'] else '!'}" for row in of_mode}
        lines.append(f"{mode:44}" + "".join(f"{times.get(shape, '-'):>7}" for shape in shapes))
    return "\n".join(lines)


@dataclass(frozen=True)
class Layer:
    """A convolution with its arrays, and its count in the network."""

    problem: Problem
    plan: Plan
    count: int


def layers(device: Device, batch: int) -> list[Layer]:
    entries = read(ROOT / "bench/workloads/layers.csv", batch).entries
    counts = {entry.problem: sum(place.startswith(NETWORK) for place in entry.places) for entry in entries}
    problems = [problem for problem, count in counts.items() if count]
    choices = chosen(problems, device, None)
    return [
        Layer(problem, choice.plan, counts[problem])
        for problem, choice in zip(problems, choices, strict=True)
        if not isinstance(choice, str)
    ]


def chains(device: Device, network: list[Layer]) -> tuple[Ways, int]:
    """Return each way's replay, in microseconds per launch, and its number of launches."""
    bounds: dict[str, list[Any]] = {"plain": [], "piled up": [], "overlapping": []}
    room = Multiprocessors.room
    for layer in network:
        drawn = registry.draw(layer.problem, seed=1)
        arrays = [device.upload(array) for array in drawn.arrays]
        for way, made in bounds.items():
            executable = load(layer.plan, device)  # a separate one, because it stores the launch attributes
            overlap = way != "plain" and layer.plan.overlaps
            if way == "piled up":
                Multiprocessors.room = lambda self, launch, static_bytes: launch.smem_bytes  # type: ignore[method-assign]
            bound = executable.bind(*arrays, overlap=overlap, **drawn.parameters)
            Multiprocessors.room = room  # type: ignore[method-assign]
            made += [bound] * layer.count
    return {way: device.replay(made) for way, made in bounds.items()}, len(bounds["plain"])


def network_row(device: Device, batch: int) -> Row:
    network = layers(device, batch)
    ways, length = chains(device, network)
    runners = {way: repeated(run) for way, run in ways.items()}
    medians = {way: round(us * length, 2) for way, us in in_turns(runners, ROUNDS, RUNS).items()}
    return {"network": NETWORK.rstrip("/"), "batch": batch, "launches": length, "time_us": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", default="1,8,32", help="of the network; default: %(default)s")
    parser.add_argument("--binary", type=Path, help="overlap.cu, where it is built already")
    parser.add_argument("--out", type=Path, help="folder to write the results to")
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args()
    device = open_device(default_spec())
    report = None if options.out is None else Report(options.out, "overlap", device, PROTOCOL, options.commit)
    rows = kernels(options.binary)
    print(table(rows))
    for batch in map(int, options.batch.split(",")):
        rows.append(network_row(device, batch))
        print(rows[-1])
    if report is not None:
        report.write(rows)


if __name__ == "__main__":
    main()
