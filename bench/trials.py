"""Measurements for correcting the cost models: some configs of many layers and pairs, chosen to learn from.

    python bench/trials.py --batches 32,1 --seconds 290 --db trials.sqlite --out trials.json.gz

Per problem: the choice without tuning, winners of neighbours, the cheapest config of each family, cheap configs that
differ from each other, and random others. Layers alternate between classes, with pairs among them, so that --seconds
cuts all classes alike; problems that the database has are not measured again. A kernel that breaks the device's context
ends the run with status 3: the same command continues.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import multiprocessing
import os
import random
import sys
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pairs
import workload
from timing import release
from untuned import in_turns

from qconv import Conv2d, generator, parse
from qconv.arithmetic.step import Array
from qconv.device import Device, open_device
from qconv.device.compile import build, compiler_for
from qconv.errors import CompileError, Infeasible
from qconv.generator import Config, Plan
from qconv.instances.choose import shipped
from qconv.instances.choose.lookup import choose
from qconv.instances.load.building import Place
from qconv.op import Problem
from qconv.ops import registry
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import dump
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.evaluate import evaluate
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import InputSets

WORKLOADS = Path(__file__).with_name("workloads")
BROKEN = 3  # exit status if a kernel has broken the device's context
COMPILE_S = 30.0  # per kernel
NEIGHBOURS = 4
# Limits of other configs' predicted time, relative to the cheapest: the best of a family, a cheap one, any.
OF_FAMILY, CHEAP, ANY = 6.0, 1.6, 4.0
CROWD = 200  # candidates, of which the one least like the chosen ones is taken
SAID = 160  # characters of a reason


def chosen(problem: Problem, place: Place, count: int) -> list[Config]:
    """Return configs to measure, the more likely ones first."""
    layers = Layered([shipped.layer(place.name)])
    plans, _ = generator.space(problem, place.target)
    unfused = [generator.unfused_plan(problem, place.target, _looked_up(place))] if problem.parts else []
    first = [generator.default(problem, place.target).config, choose(problem, place, layers).plan.config]
    taken = dict.fromkeys([*first, *(plan.config for plan in unfused)])
    near = itertools.islice(layers.near(problem, place.name, place.target.name, 4.0), NEIGHBOURS)
    known = {plan.config for plan in plans}
    for _, neighbour in near:
        best = layers.best(neighbour, place.name, place.target.name)
        if best is not None and best.config in known:
            taken[best.config] = None
    if plans:
        for other in itertools.islice(_others(plans, list(taken), random.Random(str(problem))), 4 * count):
            if len(taken) < count:
                taken[other] = None
    return list(taken)[:count]


def _looked_up(place: Place) -> Any:
    layers = Layered([shipped.layer(place.name)])
    return lambda one: choose(one, place, layers).plan.config


def _others(plans: list[Plan], taken: list[Config], rng: random.Random) -> Iterator[Config]:
    """Yield the cheapest of each family; then, family by family, one of the cheap ones that is unlike those before it,
    and one of those that are not hopeless."""
    costs: dict[str, list[float]] = {}
    configs: dict[str, list[Config]] = {}
    for plan in plans:
        costs.setdefault(plan.config.family, []).append(generator.cost(plan))
        configs.setdefault(plan.config.family, []).append(plan.config)
    least = {family: own[0] for family, own in costs.items()}
    worth = [family for family in costs if least[family] <= OF_FAMILY * min(least.values())]
    before = [*taken, *(configs[family][0] for family in worth)]
    yield from before[len(taken) :]
    likely = [family for family in worth if least[family] <= ANY / 2 * min(least.values())]
    for limit in itertools.cycle((CHEAP, ANY)):
        for family in likely:
            crowd = configs[family][: bisect_right(costs[family], limit * least[family])]
            crowd = rng.sample(crowd, min(CROWD, len(crowd)))
            alike = [config.as_dict() for config in before if config.family == family]
            found = max(crowd, key=lambda one: min((_differing(one, other) for other in alike), default=0))
            before.append(found)
            yield found


def _differing(one: Config, values: dict[str, object]) -> int:
    return sum(values[name] != value for name, value in one.as_dict().items())


@dataclass(frozen=True)
class Prepared:
    """Candidates in picklable form, their kernels in the cache, with the sample and the oracle's output."""

    candidates: list[dict[str, Any]]
    drawn: registry.Sample
    expected: tuple[Array, ...]


def prepare(key: str, place: Place, count: int) -> Prepared:
    """Plan, compile and run the oracle in a separate process, because these take a while. Refused sources are compiled
    again when loaded, and the row gives the reason."""
    problem = parse(key)
    toolchain = compiler_for(place.target).toolchain
    candidates = []
    for config in chosen(problem, place, count):
        try:
            candidate = Candidate.of(generator.plan(problem, config, place.target))
            for source, kernel in zip(candidate.sources, candidate.plan.kernels, strict=True):
                build(source, kernel, toolchain, COMPILE_S)
        except (Infeasible, CompileError) as refused:
            print(f"{key}: {config}: {' '.join(str(refused).split())[:SAID]}", file=sys.stderr)
            continue
        candidates.append(candidate.as_dict())
    drawn = registry.draw(problem, 1)
    return Prepared(candidates, drawn, registry.compute(problem, drawn))


def measured(problem: Problem, ready: Prepared, device: Device, protocol: TimingProtocol) -> list[Measurement]:
    input_sets = InputSets(problem, device, ready.drawn, protocol.rotated_bytes, ready.expected)
    rows: list[Measurement] = []
    for values in ready.candidates:
        candidate = Candidate.from_dict(values, problem, device.target)
        times = [row.median_us for row in rows if row.median_us is not None]
        rows.append(evaluate(candidate, input_sets, protocol, min(times, default=None)))
        if rows[-1].outcome == "runtime":
            break
    return rows


def problems_of(layers: Path, chains: Path, batches: list[int], most_pixels: int | None) -> Iterator[Problem]:
    """Yield layers and pairs of each batch in turns, two layers per pair, in the same order on every machine."""
    rounds: list[Iterable[Problem]] = []
    for batch in batches:
        single = in_turns(list(workload.distinct(workload.read(layers, batch=batch))))
        fused = sorted(pairs.read(chains, "", "", batch)[0], key=_shuffled)
        rounds += [single[::2], single[1::2], fused]
    for some in itertools.zip_longest(*rounds):
        for problem in some:
            if problem is not None and (most_pixels is None or pixels_of(problem) <= most_pixels):
                yield problem


def pixels_of(problem: Problem) -> int:
    first = problem.parts[0] if problem.parts else problem
    assert isinstance(first, Conv2d)
    return first.n * first.h * first.w * first.c


def _shuffled(problem: Problem) -> bytes:
    return hashlib.sha256(str(problem).encode()).digest()


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=Path, default=WORKLOADS / "layers.csv", metavar="CSV")
    parser.add_argument("--pairs", type=Path, default=WORKLOADS / "fused_pairs.csv", metavar="CSV")
    parser.add_argument("--batches", default="32,1", metavar="N,...", help="default: %(default)s")
    parser.add_argument("--configs", type=int, default=16, metavar="N", help="of a layer; default: %(default)s")
    parser.add_argument("--pair-configs", type=int, default=10, metavar="N", help="of a pair; default: %(default)s")
    parser.add_argument("--most-elements", type=int, metavar="N", help="of x: leave larger problems out")
    parser.add_argument("--repeats", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, required=True, help="begin no problem after this time")
    parser.add_argument("--device")
    parser.add_argument("--db", required=True, help="what it has is not measured again")
    parser.add_argument("--out", type=Path, required=True, help="all rows of the database as text, compressed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    begin = time.monotonic()
    options = options_of(arguments)
    device = open_device(options.device)
    place, protocol = Place(device.name, device.target), replace(protocol_for(device), repeats=options.repeats)
    batches = [int(text) for text in options.batches.split(",")]
    # Many oracles at a time with one thread per core each would slow each other down.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    workers = max(1, len(os.sched_getaffinity(0)) - 1)
    spawn = multiprocessing.get_context("spawn")
    # Timing has priority: these processes are nice.
    pool = ProcessPoolExecutor(workers, spawn, initializer=os.nice, initargs=(10,))
    broken = False
    with Database.open(options.db) as database:
        known = set(database.problems(device.name, device.target.name))
        every = problems_of(options.layers, options.pairs, batches, options.most_elements)
        left = (problem for problem in every if problem not in known)
        counts = {True: options.pair_configs, False: options.configs}
        waiting: deque[Any] = deque()
        while not broken and time.monotonic() - begin < options.seconds:
            for problem in itertools.islice(left, 2 * workers - len(waiting)):
                count = counts[bool(problem.parts)]
                waiting.append((problem, pool.submit(prepare, str(problem), place, count)))
            if not waiting:
                break
            # Take the first that is ready, so that a large oracle does not block the others.
            problem, job = next((one for one in waiting if one[1].done()), waiting[0])
            waiting.remove((problem, job))
            broken = _store(problem, job, device, protocol, database)
            release(device)
        options.out.write_bytes(gzip.compress(dump(database.measurements()).encode(), mtime=0))
    pool.shutdown(wait=True, cancel_futures=True)  # cancels jobs that have not begun
    if broken:
        sys.exit(BROKEN)


def _store(problem: Problem, job: Any, device: Device, protocol: TimingProtocol, database: Database) -> bool:
    """Store the measurements; return true if a kernel broke the device's context."""
    try:
        ready = job.result()
    except Exception as error:  # no kernel, or a process that died: the problem is left out, with a message
        print(f"{problem}: {type(error).__name__}: {' '.join(str(error).split())[:SAID]}", file=sys.stderr)
        return False
    began = time.monotonic()
    rows = measured(problem, ready, device, protocol)
    for row in rows:
        database.add(row)
    best = min((row.median_us for row in rows if row.median_us is not None), default=float("nan"))
    wrong = [f"{row.outcome}: {row.config}: {(row.reason or '')[:SAID]}" for row in rows if not row.correct]
    said = f"{len(rows)} configs in {time.monotonic() - began:.2f} s, best {best:.2f} us"
    print(f"{problem}: {said} {'; '.join(wrong)}", file=sys.stderr, flush=True)
    return any(row.outcome == "runtime" for row in rows)


if __name__ == "__main__":
    main()
