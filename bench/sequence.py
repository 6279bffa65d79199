"""The convolutions of a network one after the other, in one CUDA graph, as a session launches them: images per second.

    python bench/sequence.py LAYERS.csv PAIRS.csv --models '^resnet50' --batch 128 --seconds 120 --db sequence.sqlite \\
        --out bench/results/nvidia-h200

PAIRS.csv has the columns of fused_pairs.csv. Consecutive layers that are a pair there, of the kinds that --fuse names,
are looked up together, so that `lookup` decides whether one kernel computes them. A convolution reads the previous
one's output if that has its shape, as in the network, and otherwise its own array; each has its own weights. Layers
between convolutions (pools, sums) are left out. Two ways are timed: overlapping launches (programmatic dependent
launch), as in a session, and one after the other. Every kernel is compared with the oracle first.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from ahead import chosen
from current import digest_of
from report import Report
from roofline import floor_us
from timing import in_turns, repeated
from workload import chosen_by, pair_rows, parser_of

import qconv
from qconv import Quantization
from qconv.arithmetic.step import Array
from qconv.device import Device, open_device
from qconv.instances.choose import Choice
from qconv.instances.load.pair import Runnable, load
from qconv.op import Problem
from qconv.ops import registry
from qconv.ops.registry import Sample, parse
from qconv.problem.chain import Chain
from qconv.problem.convolution import Conv2d
from qconv.tuner.measure.verification import InputSets
from qconv.tuner.workloads.listing import chain

Row = dict[str, Any]
Pairs = dict[tuple[str, str, str], dict[str, str]]

ROUNDS, RUNS = 7, 9
KEPT = 50.0  # standard deviation of outputs
PROTOCOL = {
    "name": "one graph of all convolutions in their order, events",
    "arrays": "the output of one is the input of the next where shapes agree; own weights; scales keep data wide",
    "repeats": ROUNDS * RUNS,
    "statistic": "median",
    "order": f"both ways in turn, {ROUNDS} rounds of {RUNS} runs",
}


@dataclass(frozen=True)
class Link:
    """One lookup: a convolution, or several that one kernel may compute."""

    name: str
    problem: Problem

    @property
    def convolutions(self) -> int:
        return len(self.problem.layers) if isinstance(self.problem, Chain) else 1


def deployed(row: dict[str, str]) -> Quantization:
    return Quantization(per_channel=True, bias="int32")


def pairs_of(path: Path, kinds: str) -> Pairs:
    return {
        (row["model"], row["layer1"], row["layer2"]): row
        for row in pair_rows(path)
        if re.search(kinds, f"{row['kind1']}+{row['kind2']}")
    }


def links(names: Sequence[str], problems: Sequence[Conv2d], pairs: Pairs, batch: int) -> list[Link]:
    """Return the links in the order of the network."""
    found: list[Link] = []
    at = 0
    while at < len(names):
        model, _, layer = names[at].partition("/")
        following = names[at + 1].partition("/")[2] if at + 1 < len(names) else ""
        if (row := pairs.get((model, layer, following))) is not None:
            found.append(Link(f"{names[at]}+{following}", chain([row], batch)))
            at += 2
        else:
            found.append(Link(names[at], problems[at]))
            at += 1
    return found


def expected(key: str) -> tuple[Sample, tuple[Array, ...]]:
    """Compute the expected outputs in a separate process: oracles of 128 images take seconds."""
    problem = parse(key)
    drawn = registry.draw(problem, 1)
    return drawn, registry.compute(problem, drawn)


@dataclass(frozen=True)
class Kernel:
    runnable: Runnable
    drawn: Sample


def verified(choices: dict[Problem, Choice], device: Device) -> dict[Problem, Kernel]:
    """Return the kernels, each compared with the oracle; a difference ends the run, because its time would be
    meaningless."""
    kernels = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(len(choices), os.cpu_count() or 1, 8), mp_context=context) as pool:
        answers = pool.map(expected, map(str, choices))
        for (problem, choice), (drawn, outputs) in zip(choices.items(), answers, strict=True):
            runnable = load(choice.plan, device, choice.toolchain)
            if wrong := InputSets(problem, device, drawn, expected=outputs).mismatch(runnable):
                sys.exit(f"{problem} with {choice.plan.config.as_json()} differs from the oracle: {wrong}")
            kernels[problem] = Kernel(runnable, drawn)
    return kernels


@dataclass(frozen=True)
class Ways:
    """Both ways of launching the same kernels over the same arrays."""

    runs: dict[str, Callable[[], float]]  # microseconds per launch
    outputs: list[Any]  # the output of each link
    scales: list[dict[str, Any]]  # the parameters that differ from the drawn ones

    @property
    def launches(self) -> int:
        return len(self.outputs)

    def times_us(self) -> dict[str, float]:
        """Return the time of the whole sequence."""
        runners = {way: repeated(run) for way, run in self.runs.items()}
        return {way: us * self.launches for way, us in in_turns(runners, ROUNDS, RUNS).items()}

    def deviations(self, device: Device) -> list[float]:
        return [deviation(y, device) for y in self.outputs]


def deviation(y: Any, device: Device) -> float:
    """The standard deviation of the first image: 74 where all bytes are as likely."""
    return float(np.asarray(device.download(y[:1]), np.float64).std())


def keeping(kernel: Kernel, given: list[Any], y: Any, device: Device) -> dict[str, Any]:
    """An output scale that keeps outputs as wide as KEPT: data that fades on its way through the layers would need
    less power, and the clock would be higher. Afterwards `y` is what the kernel gives with it."""
    parameters = kernel.drawn.parameters
    kernel.runnable(*given, out=y, **parameters)
    device.synchronize()
    found = {"y_scale": np.float32(parameters["y_scale"] * max(deviation(y, device), 1.0) / KEPT)}
    kernel.runnable(*given, out=y, **parameters | found)
    device.synchronize()
    return found


def captured(network: Sequence[Link], kernels: dict[Problem, Kernel], device: Device) -> Ways:
    bounds: dict[str, list[Any]] = {"overlapping": [], "one after the other": []}
    outputs: list[Any] = []
    scales: list[dict[str, Any]] = []
    for at, link in enumerate(network):
        kernel = kernels[link.problem]
        (x, *weights), (y,) = kernel.drawn.arrays, link.problem.outputs
        last = outputs[-1] if outputs else None
        follows = last is not None and (last.shape, str(last.dtype)) == (x.shape, str(x.dtype))
        given = [last if follows else device.upload(x), *(device.upload(np.roll(w, at)) for w in weights)]
        outputs.append(device.empty(y.shape, y.dtype))
        scales.append(keeping(kernel, given, outputs[-1], device))
        packed = kernel.runnable.pack(*given[1:], **kernel.drawn.parameters | scales[-1])
        for way, made in bounds.items():
            overlap = way == "overlapping" and packed.gains_by_overlap
            made.append(packed.bind(given[0], out=outputs[-1], overlap=overlap))
    return Ways({way: device.replay(made) for way, made in bounds.items()}, outputs, scales)


def choices_of(network: Sequence[Link], device: Device, db: str | None) -> dict[Problem, Choice]:
    problems = list(dict.fromkeys(link.problem for link in network))
    found = {}
    for problem, choice in zip(problems, chosen(problems, device, db), strict=True):
        if isinstance(choice, str):
            sys.exit(f"no kernel for {problem}: {choice}")
        found[problem] = choice
    return found


def unfused(network: Sequence[Link], choices: dict[Problem, Choice]) -> list[Link]:
    """Return the links; several kernels of a link become several, each of which overlaps with the previous one."""
    found: list[Link] = []
    for link in network:
        parts = link.problem.parts if len(choices[link.problem].plan.kernels) > 1 else ()
        found += [Link(f"{link.name}.{at}", part) for at, part in enumerate(parts)] or [link]
    return found


def measured(model: str, network: list[Link], device: Device, db: str | None, batch: int) -> Row:
    choices = choices_of(network, device, db)
    network = unfused(network, choices)
    choices |= choices_of([link for link in network if link.problem not in choices], device, db)
    kernels = verified({link.problem: choices[link.problem] for link in network}, device)
    ways = captured(network, kernels, device)
    times = ways.times_us()
    deviations = ways.deviations(device)
    floors = [floor_us(link.problem, device.name) for link in network]
    plans = {str(problem): kernel.runnable.plan for problem, kernel in kernels.items()}
    return {
        "name": model,
        "batch": batch,
        "convolutions": sum(link.convolutions for link in network),
        "launches": len(network),
        "time_us": times["overlapping"],
        "times_us": times,
        "images_per_s": batch / times["overlapping"] * 1e6,
        "standard_deviation": {"least": min(deviations), "median": statistics.median(deviations)},
        "floor_us": sum(floor for floor in floors if floor is not None),
        "families": dict(Counter(plans[str(link.problem)].config.family for link in network)),
        "configs": {problem: plan.config.as_dict() for problem, plan in plans.items()},
        "digests": {problem: digest_of(plan) for problem, plan in plans.items()},
        "verified": True,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.set_defaults(batch=128)
    parser.add_argument("--fuse", default="^dw.pw$", metavar="REGEX", help="kinds of pairs (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.0, help="of tuning for each model before it is timed")
    parser.add_argument("--device")
    parser.add_argument("--db", help="the measurements that lookup uses; default: as `qconv.lookup` has it")
    parser.add_argument("--suite", default="sequence", help="the name of the results (default: %(default)s)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    if len(options.layers) != 2:
        parser.error("give two lists: the layers, and the pairs of them (bench/workloads/fused_pairs.csv)")
    pairs = pairs_of(options.layers.pop(), options.fuse)
    device = open_device(options.device)
    report = Report(options.out, options.suite, device, PROTOCOL | {"seconds": options.seconds}, options.commit)
    rows: list[Row] = []
    for model, group in groupby(chosen_by(options, deployed), key=lambda layer: layer.model):
        layers = list(group)
        network = links([layer.name for layer in layers], [layer.problem for layer in layers], pairs, options.batch)
        if options.seconds:
            problems = [link.problem for link in network]
            qconv.tune(problems, qconv.Budget(seconds=options.seconds), device=device.spec, db=options.db)
            qconv.forget()
        rows.append(row := measured(str(model), network, device, options.db, options.batch))
        report.write(rows)
        in_turn = row["times_us"]["one after the other"]
        print(
            f"{model} N={options.batch}: {row['time_us']:.1f} us, {row['images_per_s']:,.0f} images/s; "
            f"{in_turn:.1f} us one after the other; outputs deviate by {row['standard_deviation']}; {row['families']}"
        )


if __name__ == "__main__":
    main()
