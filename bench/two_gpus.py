"""One process that uses two GPUs of a host, and a workload that two workers tune.

    python bench/two_gpus.py --out bench/results/nvidia-h200
    python bench/two_gpus.py --devices cpu,cpu --size 64 --trials 2 --problems 2 --out FOLDER

A session of a network, and the same network exported for C++, run on each GPU from a thread of its own: a run's time
while the other GPU waits, and while both run, by the host's clock over consecutive runs; outputs are compared bit by
bit with those of the first GPU alone. Then `qconv-tune tune --workload` tunes the network's convolutions with one
worker and with two, each time with an empty database and cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from network_timing import INPUTS, Row
from report import Report
from shipped import built, linked, model_of

import qconv.onnx
from qconv import Conv2d
from qconv.device import Device, open_device

ROUNDS, RUNS = 21, 50


class There:
    """A session on its device, with inputs there."""

    def __init__(self, path: Path, device: Device, inputs: list[Any]) -> None:
        self._device, self._session = device, qconv.onnx.Session(path, device.spec)
        self._inputs = [device.upload(x) for x in inputs]
        (self._name,) = self._session.input_names
        for _ in range(3):  # recordings read inputs where they lie from the third run on
            self.outputs()

    def _run(self, number: int) -> list[Any]:
        return self._session.run_on_device(None, {self._name: self._inputs[number % INPUTS]})

    def outputs(self) -> list[bytes]:
        return [self._device.download(y).tobytes() for number in range(INPUTS) for y in self._run(number)]

    def run_us(self, runs: int) -> float:
        """Return the median over the rounds of a run's time."""
        rounds = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            for number in range(runs):
                self._run(number)
            self._device.synchronize()
            rounds.append((time.perf_counter() - begin) * 1e6 / runs)
        return statistics.median(rounds)


def at_the_same_time(works: list[Callable[[], float]]) -> list[float]:
    with ThreadPoolExecutor(len(works)) as threads:
        return [done.result() for done in [threads.submit(work) for work in works]]


def slowed(row: Row) -> Row:
    """Return the row with the largest share by which a device takes longer beside the other."""
    pairs = zip(row["together_us"], row["alone_us"], strict=True)
    return row | {"together_over_alone": max(together / alone for together, alone in pairs)}


def sessions_row(path: Path, devices: list[Device], inputs: list[Any], runs: int) -> Row:
    one, other = (There(path, device, inputs) for device in devices)
    wanted = one.outputs()
    alone = [one.run_us(runs), other.run_us(runs)]
    together = at_the_same_time([lambda: one.run_us(runs), lambda: other.run_us(runs)])
    equal = one.outputs() == wanted and other.outputs() == wanted
    return slowed({"name": "sessions", "alone_us": alone, "together_us": together, "equal": equal})


def libraries_row(path: Path, folder: Path, devices: list[Device], batch: int, runs: int) -> Row:
    qconv.onnx.export(path, folder, devices[0].target.name, batches=[batch], device=devices[0].name)
    built(folder)
    program = linked(folder, "two_devices")
    specs = [device.spec for device in devices]
    found = json.loads(subprocess.check_output([program, folder, str(batch), str(runs), *specs], text=True))
    return slowed({"name": "libraries", **found})


def problems_of(path: Path, device: Device, x: Any) -> list[str]:
    """Return the keys of a network's convolutions."""
    session = qconv.onnx.Session(path, device.spec)
    session.run(None, {session.input_names[0]: x})
    return [str(problem) for problem in session.problems if isinstance(problem, Conv2d)]


def tuning_row(keys: list[str], trials: int, device: str | None) -> Row:
    """Tune with one worker and with two, and return the seconds of each command."""
    seconds: list[float] = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as there:
            listed = Path(there, "problems.txt")
            listed.write_text("\n".join(keys))
            words = ["--workload", listed, "--trials", trials, "--workers", workers, "--db", Path(there, "tune.sqlite")]
            words += [*(["--device", device] if device else []), "--quiet", "--json"]
            command = [sys.executable, "-m", "qconv", "tune", *map(str, words)]
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"QCONV_CACHE": there})
            seconds.append(time.perf_counter() - begin)
    one_s, two_s = seconds
    times = {"one_s": one_s, "two_s": two_s, "share": two_s / one_s}
    return {"name": "tuning", "problems": len(keys), "trials": trials, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--devices", default="cuda:0,cuda:1", help="default: %(default)s")
    parser.add_argument("--size", type=int, help="of the images; default: the network's own")
    parser.add_argument("--runs", type=int, default=RUNS, help="in a round; default: %(default)s")
    parser.add_argument(
        "--trials", type=int, default=12, help="of tuning, for each problem; default: %(default)s, 0: no tuning"
    )
    parser.add_argument("--problems", type=int, help="the first ones that are tuned; default: all")
    parser.add_argument("--out", type=Path, required=True, help="such as bench/results/h200")
    parser.add_argument("--commit", help="where there is no checkout")
    options = parser.parse_args()
    devices = [open_device(spec) for spec in options.devices.split(",")]
    report = Report(options.out, "two_gpus", devices[0], {"rounds": ROUNDS, "runs": options.runs}, options.commit)
    rows: list[Row] = []

    def note(row: Row) -> None:
        rows.append({"network": options.network, "batch": options.batch, **row})
        report.write(rows)
        print(json.dumps(rows[-1]), flush=True)

    with tempfile.TemporaryDirectory() as there:
        path, shape = model_of(options.network, options.size, Path(there))
        rng = np.random.default_rng(options.batch)
        inputs = [rng.standard_normal((options.batch, *shape), np.float32) for _ in range(INPUTS)]
        note(sessions_row(path, devices, inputs, options.runs))
        note(libraries_row(path, Path(there, "network"), devices, options.batch, options.runs))
        if options.trials:
            keys = problems_of(path, devices[0], inputs[0])[: options.problems]
            note(tuning_row(keys, options.trials, "cpu" if devices[0].spec == "cpu" else None))


if __name__ == "__main__":
    main()
