"""The time of an untuned layer: `lookup`'s choice compared with an older checkout's, the tuned winner and peers.

    python bench/untuned.py LAYERS.csv [MORE.csv] --batch 32 --against old.json --trials 24 --db untuned.sqlite \\
        --limit-s 560 --out bench/results/nvidia-h200
    python bench/untuned.py LAYERS.csv [MORE.csv] --batch 32 --write old.json --as 'NVIDIA H200' --target sm_90a

The second command records this checkout's choices and needs no GPU: run in an older checkout, it writes the file for
--against. --hide selects the measurements that count as unknown: those of all networks that include a layer, of the
layer alone, or none. The winner is the shipped one, or that of a search of --trials trials; with --trials 0, layers
without a shipped winner are left out. Layers alternate between classes, so that --limit-s cuts all classes alike;
--resume continues from the rows in --out, each of which records its commit.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from choices import HIDE, Choice, choice_without, hidden_with, read_choices, write_choices
from current import digest_of
from report import Report, head
from roofline import floor_us
from timing import Runner, described, interleaved_us, release, repeated
from workload import Layer, distinct, parser_of, read

from qconv import Conv2d, generator, parse
from qconv.arithmetic.step import Array
from qconv.device import Device, open_device
from qconv.device.compile import build
from qconv.errors import LaunchError
from qconv.generator import Config
from qconv.instances.choose import shipped
from qconv.instances.load.building import Place
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import target as target_of
from qconv.tune_db.database import Database
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import InputSets
from qconv.tuner.search.tune import tune

Row = dict[str, Any]

TIMEOUT_S = 30.0  # per config
AHEAD = 24  # layers whose kernels and oracles are prepared while others are timed
# The compared kernels: the older choice, today's, and the winner of a search.
BEFORE, NOW, TUNED = "before", "now", "tuned"
RATIOS = {
    "now_over_tuned": (TUNED, NOW),
    "before_over_tuned": (TUNED, BEFORE),
    "now_over_before": (BEFORE, NOW),
}


def class_of(problem: Conv2d) -> str:
    """Return the class of a layer: layers that one rule of the choice should serve alike."""
    taps, whole = (problem.r, problem.s), problem.c_group % 64 == 0 and problem.k_group % 64 == 0
    if problem.groups > 1:
        return "depthwise" if problem.c_group == problem.k_group == 1 else "grouped"
    if problem.c < 16:
        return "first layer"
    if problem.oh == problem.ow == 1:
        return "one pixel"
    if taps == (1, 1):
        return "1x1, channels of 64" if whole else "1x1, other channels"
    if problem.r != problem.s:
        return "7x1 and the like"
    if taps == (2, 2):
        return "2x2"
    if not whole:
        return "several taps, other channels"
    return "several taps, channels of 64" if max(problem.c, problem.k) < 512 else "several taps, 512 and more"


def in_turns(problems: list[Conv2d]) -> list[Conv2d]:
    """Return one layer of each class, then another of each, in the same order on every machine."""
    classes: dict[str, list[Conv2d]] = {}
    for problem in sorted(problems, key=lambda one: hashlib.sha256(str(one).encode()).digest()):
        classes.setdefault(class_of(problem), []).append(problem)
    rounds = itertools.zip_longest(*(classes[name] for name in sorted(classes)))
    return [problem for some in rounds for problem in some if problem is not None]


@dataclass(frozen=True)
class Prepared:
    """The kernels to launch and compare; they are in the cache."""

    now: Choice
    before: Choice | None
    failed: dict[str, str]  # reason, by the name of the kernel
    drawn: registry.Sample
    expected: tuple[Array, ...]


def prepare(key: str, place: Place, hidden: frozenset[str], before: Choice | None) -> Prepared:
    """Plan, compile and run the oracle in a separate process, because these take a while."""
    problem = parse(key)
    assert isinstance(problem, Conv2d)
    now = choice_without(problem, place, hidden)
    failed: dict[str, str] = {}
    winner = winner_of(problem, place)
    configs: dict[str, Config | None] = {NOW: now.config, BEFORE: before.config if before else None, TUNED: winner}
    for name, config in configs.items():
        if config is not None:
            try:
                plan = generator.plan(problem, config, place.target)
                build(generator.render(plan), plan)
            except Exception as error:  # infeasible, or refused by the compiler: reported in the row
                failed[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    drawn = registry.draw(problem, 1)
    return Prepared(now, before, failed, drawn, registry.compute(problem, drawn))


def winner_of(problem: Conv2d, place: Place) -> Config | None:
    """Return the shipped winner."""
    best = shipped.layer(place.name).best(problem, place.name, place.target.name)
    return None if best is None else best.config


@dataclass(frozen=True)
class Bench:
    device: Device
    protocol: TimingProtocol
    db: str | None
    trials: int
    peers: list[str]
    peer_seconds: float
    child: Child

    def tuned(self, problem: Conv2d) -> Config | None:
        """Return the shipped winner, or that of a search."""
        winner = winner_of(problem, Place(self.device.name, self.device.target))
        if winner is not None or not self.trials or self.db is None:
            return winner
        with Database.open(self.db) as database:
            outcome = tune(problem, self.device, database, trials=self.trials, child=self.child)
        return None if outcome.best is None else outcome.best.config

    def measured(self, problem: Conv2d, ready: Prepared) -> Row:
        device, failed = self.device, dict(ready.failed)
        configs = {NOW: ready.now.config, TUNED: self.tuned(problem)}
        if ready.before is not None:
            configs[BEFORE] = ready.before.config
        input_sets = InputSets(problem, device, ready.drawn, self.protocol.rotated_bytes, ready.expected)
        runners: dict[Config, Runner] = {}
        digests: dict[str, str] = {}
        for name, config in configs.items():
            if config is None or name in failed:
                continue
            try:
                plan = generator.plan(problem, config, device.target)
                digests[name] = digest_of(plan)
                if config in runners:
                    continue
                runnable = load(plan, device)
                if (wrong := input_sets.mismatch(runnable)) is not None:
                    failed[name] = wrong
                    continue
                runners[config] = repeated(input_sets.replay(runnable))
            except Exception as error:  # whatever a kernel does, the other layers are still timed
                failed[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        expected = device.upload(ready.expected[0])
        case = peers.Case(problem, ready.drawn, expected, device, self.protocol, self.db, self.peer_seconds)
        others, missing = peers.prepare(self.peers, case)
        by_name = {config: str(config) for config in runners}
        every = {by_name[config]: run for config, run in runners.items()}
        times = interleaved_us(every | {name: peer.run for name, peer in others.items()}, self.protocol)
        ways = {n: times[by_name[c]] for n, c in configs.items() if c in by_name and n not in failed}
        return self._row(problem, ready, configs, ways, {name: times[name] for name in others}) | {
            "digests": digests,
            "missing": missing,
            "peer_facts": {name: peer.facts for name, peer in others.items()},
            "failed": failed,
            "verified": not failed,
        }

    def _row(
        self,
        problem: Conv2d,
        ready: Prepared,
        configs: dict[str, Config | None],
        ways: dict[str, float],
        others: dict[str, float],
    ) -> Row:
        best = min(others, key=others.__getitem__, default=None)
        now_us = ways.get(NOW)
        row: Row = {
            "time_us": now_us,
            "tops": problem.operations / now_us / 1e6 if now_us else None,
            "floor_us": floor_us(problem, self.device.name),
            "times_us": ways,
            "peers": others,
            "best_peer": best,
            "best_peer_us": others[best] if best else None,
            "over_best_peer": others[best] / now_us if best and now_us else None,
            "before_over_best_peer": others[best] / ways[BEFORE] if best and BEFORE in ways else None,
            "config": ready.now.config.as_dict(),
            "configs": {name: config.as_dict() for name, config in configs.items() if config is not None},
            "origin": ready.now.origin,
            "reason": ready.now.reason,
        }
        if ready.before is not None:
            row |= {"before_origin": ready.before.origin, "before_reason": ready.before.reason}
        for name, (over, under) in RATIOS.items():
            row[name] = ways[over] / ways[under] if over in ways and under in ways else None
        return row


def prepared(
    problems: list[Conv2d], pool: ProcessPoolExecutor, submit: Callable[[Conv2d], Future[Prepared]]
) -> Iterator[tuple[Conv2d, Prepared | str]]:
    """Yield the prepared layers in order, some ahead of the one being timed; or the error."""
    waiting: deque[tuple[Conv2d, Future[Prepared]]] = deque()
    left = iter(problems)
    while True:
        for problem in itertools.islice(left, AHEAD - len(waiting)):
            waiting.append((problem, submit(problem)))
        if not waiting:
            return
        problem, job = waiting.popleft()
        try:
            yield problem, job.result()
        except Exception as error:  # no kernel, or a process that died: the layer is left out, with a message
            yield problem, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


SHOWN = (*RATIOS, "over_best_peer", "before_over_best_peer")


def summary(rows: list[Row], left_out: dict[str, str]) -> Row:
    """Return geometric means of the ratios, and the worst of each class; above 1, today's choice is faster."""

    def mean(some: list[Row], name: str) -> float | None:
        values = [row[name] for row in some if row[name] is not None]
        return statistics.geometric_mean(values) if values else None

    classes: dict[str, list[Row]] = {}
    for row in rows:
        classes.setdefault(row["class"], []).append(row)
    worst = sorted((row for row in rows if row["now_over_tuned"] is not None), key=lambda row: row["now_over_tuned"])
    return {
        "rows": len(rows),
        "verified": sum(row["verified"] for row in rows),
        "left_out": left_out,
        "geometric_means": {name: mean(rows, name) for name in SHOWN},
        "least_over_tuned": worst[0]["now_over_tuned"] if worst else None,
        "below_half_of_tuned": [row["name"] for row in worst if row["now_over_tuned"] < 0.5],
        "below_best_peer": [row["name"] for row in rows if (row["over_best_peer"] or 1.0) < 1.0],
        "origins": {o: sum(row["origin"] == o for row in rows) for o in sorted({row["origin"] for row in rows})},
        "classes": {
            name: {
                "rows": len(some),
                **{ratio: mean(some, ratio) for ratio in SHOWN},
                "worst": min(
                    ((row["now_over_tuned"], row["name"]) for row in some if row["now_over_tuned"] is not None),
                    default=None,
                ),
            }
            for name, some in sorted(classes.items())
        },
    }


def show(said: Row) -> None:
    def cell(value: float | None) -> str:
        return f"{value:>9.2f}" if value is not None else f"{'':>9}"

    print(f"{'':<32}{'rows':>5}{'now/tun':>9}{'bef/tun':>9}{'now/bef':>9}{'now/peer':>9}{'bef/peer':>9}  worst now/tun")
    for name, one in [*said["classes"].items(), ("all", said["geometric_means"] | {"rows": said["rows"]})]:
        worst = one.get("worst")
        text = f"{worst[0]:.2f} {worst[1]}" if worst else ""
        print(f"{name:<32}{one['rows']:>5}{''.join(cell(one[ratio]) for ratio in SHOWN)}  {text}")
    print(f"below half of the tuned speed: {', '.join(said['below_half_of_tuned']) or 'none'}; {said['origins']}")


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--hide", choices=HIDE, default=HIDE[0], help="default: %(default)s")
    parser.add_argument("--against", type=Path, metavar="FILE", help="the choices of another checkout")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--db", help="needed to tune")
    parser.add_argument("--peers", default=",".join(peers.OTHERS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument(
        "--peer-seconds", type=float, default=0.5, help="how long a peer may try its plans for one layer"
    )
    parser.add_argument("--limit-s", type=float, metavar="SECONDS", help="begin no layer after so long")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    parser.add_argument("--write", type=Path, metavar="FILE", help="only write down what this checkout chooses")
    parser.add_argument("--as", dest="name", help="with --write: the name of a device")
    parser.add_argument("--target", help="with --write: its architecture")
    options = parser.parse_args(arguments)
    if options.write and not (options.name and options.target):
        parser.error("--write opens no device: give its name by --as and its architecture by --target")
    if not options.write and options.out is None:
        parser.error("--out says where the results go; or give --write")
    if options.trials and options.db is None and not options.write:
        parser.error("--db says where the search's measurements go; or give --trials 0")
    return options


def main(arguments: list[str] | None = None) -> None:
    begin = time.monotonic()
    options = options_of(arguments)
    layers = [layer for path in options.layers for layer in read(path, batch=options.batch)]
    hidden = hidden_with(layers, options.hide)
    same = {problem: some for problem, some in distinct(layers).items() if matches(some, options)}
    if options.write:
        place = Place(options.name, target_of(options.target))
        chosen = {str(problem): choice_without(problem, place, hidden[problem]) for problem in same}
        facts = {"commit": options.commit or head(), "device": place.name, "hide": options.hide}
        write_choices(options.write, chosen, **facts)
        return
    before = read_choices(options.against) if options.against else {}
    device = open_device(options.device)
    place, protocol = Place(device.name, device.target), protocol_for(device)
    report = Report(options.out, "untuned", device, described(protocol), options.commit)
    rows: list[Row] = json.loads(report.path.read_text())["rows"] if options.resume and report.path.exists() else []
    done = {row["problem"] for row in rows}
    problems = [problem for problem in in_turns(list(same)) if str(problem) not in done]
    if not options.trials:
        problems = [problem for problem in problems if winner_of(problem, place) is not None]
    left_out: dict[str, str] = {}
    names = [name for name in options.peers.split(",") if name]
    # Many oracles at a time with one thread per core each would slow each other down.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    workers = max(1, len(os.sched_getaffinity(0)) - 2)
    spawn = multiprocessing.get_context("spawn")
    # Timing has priority: these processes are nice.
    pool = ProcessPoolExecutor(workers, spawn, initializer=os.nice, initargs=(10,))

    def submit(problem: Conv2d) -> Future[Prepared]:
        return pool.submit(prepare, str(problem), place, hidden[problem], before.get(str(problem)))

    with Child(device, protocol, TIMEOUT_S) as child:
        bench = Bench(device, protocol, options.db, options.trials, names, options.peer_seconds, child)
        for problem, ready in prepared(problems, pool, submit):
            if options.limit_s is not None and time.monotonic() - begin > options.limit_s:
                print(f"{options.limit_s:g} s are over: the rest was not begun; go on with --resume", file=sys.stderr)
                break
            if isinstance(ready, str):
                left_out[same[problem][0].name] = ready
                continue
            about: Row = {"name": same[problem][0].name, "layers": [layer.name for layer in same[problem]]}
            about |= {"class": class_of(problem), "problem": str(problem), "commit": report.commit}
            rows.append(about | bench.measured(problem, ready))
            release(device)
            report.write(rows, summary(rows, left_out))
            said = {**rows[-1]["times_us"], **rows[-1]["peers"]}
            text = ", ".join(f"{name} {value:.2f}" for name, value in said.items())
            print(f"{rows[-1]['name']:<44}{text}  {rows[-1]['failed'] or ''}", file=sys.stderr, flush=True)
            if any(reason.startswith(LaunchError.__name__) for reason in rows[-1]["failed"].values()):
                print("a kernel broke the device's context: go on with --resume", file=sys.stderr)
                break
    pool.shutdown(cancel_futures=True)  # cancels jobs that have not begun
    show(summary(rows, left_out))
    if wrong := [row["name"] for row in rows if not row["verified"]]:
        sys.exit(f"these failed or differ from the oracle: {', '.join(wrong)}")


def matches(layers: list[Layer], options: argparse.Namespace) -> bool:
    return any(layer.is_chosen(options.only, options.models, options.kinds) for layer in layers)


if __name__ == "__main__":
    main()
