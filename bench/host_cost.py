"""The host's time for a lookup and for a launch, compared with the bare driver call and CuPy's RawKernel.

    python bench/host_cost.py [--json FILE]

On the CPU device only the lookups are measured.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from document import write_document
from report import head

import qconv
from qconv.device import default_spec, launch_attributes, open_device
from qconv.generator.plan import Launch

PROBLEM = qconv.Conv2d(1, 8, 8, 16, 16, 1, 1)

COLD = """
import json, sys, time
from qconv.device import open_device
import qconv
import qconv.instances.load.serving, qconv.tune_db.database, qconv.instances.choose.shipped
device = open_device(sys.argv[1]); device.upload(__import__("numpy").zeros(4)); device.synchronize()
problem = qconv.parse(sys.argv[2])
begin = time.perf_counter()
with qconv.tune_db.database.Database.open(sys.argv[3], create=False) as rows:
    opened = time.perf_counter()
    rows.best(problem, device.name, device.target.name)
    found = time.perf_counter()
instance = qconv.lookup(problem, sys.argv[1], sys.argv[3])
looked_up = time.perf_counter()
print(json.dumps({"open_ms": (opened - begin) * 1e3, "best_ms": (found - opened) * 1e3,
                  "cold_lookup_ms": (looked_up - found) * 1e3, "origin": instance.origin}))
"""


def per_call_ns(call: Callable[[], Any], settle: Callable[[], None], calls: int, rounds: int = 60) -> float:
    """Return the host's time per call: in short bursts, so that no queue fills, with the device idle before each."""
    call()
    figures = []
    for _ in range(rounds):
        settle()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        figures.append((time.perf_counter_ns() - begin) / calls)
    settle()
    return statistics.median(figures)


def launches(device: Any) -> dict[str, float]:
    import cupy
    from cupy_backends.cuda.api import driver

    instance = qconv.lookup(PROBLEM, device.spec)
    x, w = device.upload(np.zeros(PROBLEM.x_shape, np.int8)), device.upload(np.zeros(PROBLEM.w_shape, np.int8))
    bound = instance.bind(x, w)
    stream = cupy.cuda.get_current_stream()
    raw = cupy.RawKernel('extern "C" __global__ void four(const char* x, const char* w, char* y, float m) {}', "four")
    one = cupy.RawKernel('extern "C" __global__ void one(int x) {}', "one")
    one((1,), (64,), (np.int32(1),))
    function, argument = one.kernel.ptr, ctypes.c_int(1)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    address = ctypes.addressof(pointers)

    def bare() -> None:
        driver.launchKernel(function, 1, 1, 1, 64, 1, 1, 0, 0, address, 0)

    def cupy_raw() -> None:
        raw((1,), (64,), (x, w, bound.y, np.float32(1)))

    plain = Launch("one", (1, 1, 1), 64, 0)
    extended_launch = launch_attributes.launcher(function, plain, address)
    measured: dict[str, Callable[[], Any]] = {
        "bare_driver_ns": bare,
        "extended_ns": lambda: extended_launch(0),
        "bound_ns": bound,
        "bound_given_stream_ns": lambda: bound(stream.ptr),
        "cupy_rawkernel_ns": cupy_raw,
        "unbound_ns": lambda: instance(x, w, out=bound.y),
    }
    return {name: per_call_ns(call, device.synchronize, 200) for name, call in measured.items()}


def cold(device: Any) -> dict[str, Any]:
    """Measure in five new processes, with a database of one tuned problem, and return the median."""
    with tempfile.TemporaryDirectory() as folder:
        db = str(Path(folder, "tune.sqlite"))
        command = [sys.executable, "-m", "qconv.cli", "tune", str(PROBLEM), "--trials", "3", "--db", db]
        subprocess.run([*command, "--device", device.spec], check=True, capture_output=True)
        runs = []
        for _ in range(5):
            answer = subprocess.run(
                [sys.executable, "-c", COLD, device.spec, str(PROBLEM), db],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, "QCONV_NO_COMPILE": "1"},
            )
            runs.append(json.loads(answer.stdout))
    medians = {name: statistics.median(run[name] for run in runs) for name in ("open_ms", "best_ms", "cold_lookup_ms")}
    return medians | {"origin": runs[0]["origin"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default=default_spec())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = open_device(options.device)
    qconv.lookup(PROBLEM, device.spec)
    figures: dict[str, Any] = {"device": device.facts(), "python": sys.version.split()[0], "commit": head()}
    figures["warm_lookup_ns"] = per_call_ns(lambda: qconv.lookup(PROBLEM, device.spec), lambda: None, 1000)
    figures |= cold(device)
    if device.target.vendor != "cpu":
        figures |= launches(device)
        figures["launch_over_bare_ns"] = figures["bound_ns"] - figures["bare_driver_ns"]
    for name, value in figures.items():
        print(f"{name:<24}{value:.2f}" if isinstance(value, float) else f"{name:<24}{value}")
    if options.json is not None:
        write_document(options.json, figures)


if __name__ == "__main__":
    main()
