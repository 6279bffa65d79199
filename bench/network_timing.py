"""Shared parts of the suites of whole networks: timing of consecutive runs, and the peer."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from timing import captured, release

from qconv.device import Device

Row = dict[str, Any]

RUNS, ROUNDS = 20, 7
# Inputs that a network gets in turn; from the third run on, a session replays its recording.
INPUTS = 4
SIZE = 224


def images(batch: int, size: int = SIZE) -> list[Any]:
    rng = np.random.default_rng(batch)
    return [rng.standard_normal((batch, 3, size, size)).astype(np.float32) for _ in range(INPUTS)]


def protocol(seconds: float) -> Row:
    return {"runs": RUNS, "rounds": ROUNDS, "inputs": INPUTS, "statistic": "median", "seconds": seconds}


# Starts to measure; the returned function stops and returns the milliseconds.
Stopwatch = Callable[[], Callable[[], float]]


def timed_ms(
    run: Callable[[int], Any],
    synchronize: Callable[[], None],
    begin: Stopwatch,
    rounds: int = ROUNDS,
    runs: int = RUNS,
) -> float:
    """Return the median over several rounds of consecutive runs."""
    for number in range(INPUTS):
        run(number)
    synchronize()
    times: list[float] = []
    for _ in range(rounds):
        stop = begin()
        for number in range(runs):
            run(number % INPUTS)
        times.append(stop() / runs)
    return statistics.median(times)


def by_the_wall() -> Callable[[], float]:
    begin = time.perf_counter()
    return lambda: (time.perf_counter() - begin) * 1e3


def by_events(make: Callable[[], Any], elapsed_ms: Callable[[Any, Any], float]) -> Stopwatch:
    """Measure by the GPU's own clock: `make` creates an event, of CuPy or PyTorch."""

    def begin() -> Callable[[], float]:
        first, last = make(), make()
        first.record()

        def stop() -> float:
            last.record()
            last.synchronize()
            return elapsed_ms(first, last)

        return stop

    return begin


def stopwatch_of(device: Device) -> Stopwatch:
    if device.target.vendor == "cpu":
        return by_the_wall
    import cupy

    return by_events(cupy.cuda.Event, cupy.cuda.get_elapsed_time)


def inductor_ms(name: str, inputs: list[Any]) -> float:
    """Time the network in fp16: channels last, frozen weights, one CUDA graph."""
    import torch
    import torch._inductor.config
    import torchvision
    from zoo_networks import NETWORKS

    torch._inductor.config.freezing = True
    torch.backends.cudnn.benchmark = True
    torch._dynamo.reset()
    size = inputs[0].shape[-1]
    model = NETWORKS[name].make(size) if name in NETWORKS else getattr(torchvision.models, name)()
    model = model.eval().cuda().half().to(memory_format=torch.channels_last)
    given = [torch.from_numpy(x).cuda().half().to(memory_format=torch.channels_last) for x in inputs]
    run, _ = as_graph(torch.compile(model), given)
    return timed_ms(run, torch.cuda.synchronize, torch_events())


def as_graph(network: Callable[[Any], Any], given: list[Any]) -> tuple[Callable[[int], None], Any]:
    """Return a function that runs a PyTorch network as one CUDA graph, for each input by its number, and its output."""
    held = given[0].clone()
    made = captured(lambda: network(held))

    def run(number: int) -> None:
        held.copy_(given[number])
        made.graph.replay()

    return run, made.outputs


def torch_events() -> Stopwatch:
    import torch

    return by_events(lambda: torch.cuda.Event(enable_timing=True), lambda first, last: first.elapsed_time(last))


def measured(name: str, device: Device, inputs: list[Any], peer: bool, mine: Row) -> Row:
    """Return our row with the peer's time."""
    made: Row = {"name": name, "batch": len(inputs[0]), **mine}
    release(device)
    if peer:
        try:
            made["inductor_fp16_ms"] = inductor_ms(name, inputs)
            made["over_inductor_fp16"] = made["inductor_fp16_ms"] / made["ms"]
        except Exception as error:  # third-party code: any error is the reason
            made["missing"] = {"inductor_fp16": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        release(device)
    return made


def summary(rows: list[Row]) -> Row:
    found: Row = {"rows": len(rows), "verified": sum(row["verified"] for row in rows)}
    for batch in sorted({row["batch"] for row in rows}):
        ratios = [row["over_inductor_fp16"] for row in rows if row["batch"] == batch and "over_inductor_fp16" in row]
        if ratios:
            found[f"over_inductor_fp16_n{batch}"] = statistics.geometric_mean(ratios)
    return found


def printed(row: Row) -> None:
    compared = f"{row['over_inductor_fp16']:.2f} x Inductor fp16" if "over_inductor_fp16" in row else ""
    print(f"{row['name']:<24} N={row['batch']:<4}{row['ms']:9.4f} ms {compared}", file=sys.stderr, flush=True)


def parser_of(says: str | None, suite: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every suite of networks."""
    parser = argparse.ArgumentParser(description=says, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", default="1,32,128", help="default: %(default)s")
    tuning = "of tuning, for each network and batch; default: none"
    parser.add_argument("--seconds", type=float, default=0.0, help=tuning)
    parser.add_argument("--suite", help="name of the file of results; default: %(default)s")
    parser.add_argument("--device")
    parser.add_argument("--db", help="what tuning writes and networks read; default: QCONV_DB, or the cache")
    parser.add_argument("--out", type=Path, required=True)
    measured_on = "the commit to record in the results; default: this checkout's HEAD"
    parser.add_argument("--commit", help=measured_on)
    parser.set_defaults(suite=suite)
    return parser


def opened(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if options.db is not None:
        os.environ["QCONV_DB"] = options.db  # read by lookups
    return options
