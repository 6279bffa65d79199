"""The tuner's timing protocol with its input sets kept, so that kernels can be timed repeatedly, in turns."""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.pair import Runnable
from qconv.ops.registry import Sample
from qconv.tuner.measure.protocol import TimingProtocol
from qconv.tuner.measure.verification import MOST_SETS, InputSets

Runner = Callable[[int], tuple[float, ...]]  # number of replays -> one time each, in microseconds per launch

ROUNDS = 3
# Runs before a capture.
WARM_UP = 3


def input_sets(device: Device, drawn: Sample, io_bytes: int, protocol: TimingProtocol) -> list[list[Any]]:
    """Return the copies of the sample over which the protocol rotates: rolled, so that no two are equal and all are
    full-range. They are made on the device; the host would need most of a run's time for it."""
    count = min(MOST_SETS, max(1, -(-protocol.rotated_bytes // io_bytes)))
    first = [device.upload(array) for array in drawn.arrays]
    # np.roll of a CuPy array returns a CuPy array.
    return [first, *([np.roll(array, i) for array in first] for i in range(1, count))]


def runner_of(runnable: Runnable, drawn: Sample, protocol: TimingProtocol, overlap: bool = False) -> Runner:
    """Return the tuner's own replay: captured once, for any number of rounds."""
    return repeated(
        InputSets(runnable.problem, runnable.device, drawn, protocol.rotated_bytes).replay(runnable, overlap)
    )


def repeated(again: Callable[[], float]) -> Runner:
    """Return a runner that repeats a call; the first run does not count."""
    again()
    return lambda repeats: tuple(again() for _ in range(repeats))


def interleaved_us(runners: Mapping[str, Runner], protocol: TimingProtocol, rounds: int = ROUNDS) -> dict[str, float]:
    """Return the medians over the protocol's replays, in rounds, so that changes of the clock affect all kernels
    alike."""
    return in_turns(runners, rounds, -(-protocol.repeats // rounds))


def in_turns(runners: Mapping[str, Runner], rounds: int, repeats: int) -> dict[str, float]:
    """Return the median of each runner's times, in rounds of `repeats` repeats."""
    figures: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            figures[name] += run(repeats)
    return {name: statistics.median(values) for name, values in figures.items()}


@dataclass(frozen=True)
class Captured:
    """PyTorch's launches as a CUDA graph, the stream that they were captured on, and their outputs, which the graph
    does not keep."""

    graph: Any
    stream: Any
    outputs: Any


def captured(work: Callable[[], Any]) -> Captured:
    """Capture work, after it has run: libraries choose their algorithms first, and must not do so inside the graph."""
    import torch

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.no_grad():
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                work()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            outputs = work()
    return Captured(graph, stream, outputs)


def torch_times_us(call: Callable[[], Any], repeats: int, before: Callable[[], Any] = lambda: None) -> list[float]:
    """Return the times of a call on PyTorch's current stream, by its events. `before` runs in front of each, and does
    not count."""
    import torch

    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return times


def described(protocol: TimingProtocol, rounds: int = ROUNDS) -> dict[str, Any]:
    order = "one after the other" if rounds == 1 else f"interleaved, in {rounds} rounds"
    return protocol.as_dict() | {"statistic": "median", "order": order}


def release(device: Device) -> None:
    """Free the arrays of the last problem: CuPy's and PyTorch's pools do not share memory."""
    gc.collect()
    if device.target.vendor == "cpu":  # CuPy, if installed, may have no GPU to ask
        return
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.get_default_memory_pool().free_all_blocks()
    if (torch := sys.modules.get("torch")) is not None:
        torch.cuda.empty_cache()
