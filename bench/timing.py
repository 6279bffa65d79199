"""The tuner's protocol with its input sets kept: what is compared is timed again and again, in turns."""

from __future__ import annotations

import gc
import statistics
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qconv.device import Device
from qconv.instances.load.pair import Runnable
from qconv.ops.registry import Sample
from qconv.tuner.measure.protocol import TimingProtocol
from qconv.tuner.measure.verification import MOST_SETS, InputSets

Runner = Callable[[int], tuple[float, ...]]  # so many replays -> one figure each, in microseconds a launch

ROUNDS = 3


def input_sets(device: Device, drawn: Sample, io_bytes: int, protocol: TimingProtocol) -> list[list[Any]]:
    """As many copies of the sample as the protocol rotates over: rolled, so that no two are alike and all are
    full-range. Made on the device: the host would need most of a run's time for it."""
    count = min(MOST_SETS, max(1, -(-protocol.rotated_bytes // io_bytes)))
    first = [device.upload(array) for array in drawn.arrays]
    # np.roll of a CuPy array is CuPy's.
    return [first, *([np.roll(array, i) for array in first] for i in range(1, count))]


def runner_of(runnable: Runnable, drawn: Sample, protocol: TimingProtocol, overlap: bool = False) -> Runner:
    """The tuner's own replay: captured once, however many rounds it runs."""
    return repeated(
        InputSets(runnable.problem, runnable.device, drawn, protocol.rotated_bytes).replay(runnable, overlap)
    )


def repeated(again: Callable[[], float]) -> Runner:
    """Captured once, however many rounds it runs; the first run does not count."""
    again()
    return lambda repeats: tuple(again() for _ in range(repeats))


def interleaved_us(runners: Mapping[str, Runner], protocol: TimingProtocol, rounds: int = ROUNDS) -> dict[str, float]:
    """The median over the protocol's replays, in rounds: what the clock does meanwhile, it does to all."""
    return in_turns(runners, rounds, -(-protocol.repeats // rounds))


def in_turns(runners: Mapping[str, Runner], rounds: int, repeats: int) -> dict[str, float]:
    """The median of each runner's figures, in rounds of so many repeats."""
    figures: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, run in runners.items():
            figures[name] += run(repeats)
    return {name: statistics.median(values) for name, values in figures.items()}


def torch_times_us(call: Callable[[], Any], repeats: int) -> list[float]:
    """What a call takes on PyTorch's current stream, by its events."""
    import torch

    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
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
    """The arrays of the last problem: CuPy's and PyTorch's pools do not know of each other."""
    gc.collect()
    if device.target.vendor == "cpu":  # CuPy, where it is installed, may have no GPU to ask
        return
    if (cupy := sys.modules.get("cupy")) is not None:
        cupy.get_default_memory_pool().free_all_blocks()
    if (torch := sys.modules.get("torch")) is not None:
        torch.cuda.empty_cache()
