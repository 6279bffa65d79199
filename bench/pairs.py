"""Two or three convolutions in one kernel compared with the same ones unfused, and with a peer's; writes one suite.

    python bench/pairs.py PAIRS.csv --kinds '^dw.pw$' --batch 32 --db tune.sqlite --out bench/results/nvidia-h200
    python bench/pairs.py PAIRS.csv --kinds '^pw.dw.pw$' --blocks --batch 1 --db tune.sqlite --out DIRECTORY
    python bench/pairs.py PAIRS.csv --batch 8 --verify --out bench/results/nvidia-h200

PAIRS.csv has the columns of fused_pairs.csv; only rows with nothing between the two convolutions count. With --verify
nothing is timed: the kernel that the cost model would choose to fuse them, and the unfused kernels, are compared with
the oracle. With --blocks, a row and the row that begins with its second convolution form a chain of three. While one
chain is timed, the candidates of the next are compiled.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import statistics
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import peers
from ahead import compile_first
from current import digest_of
from filters import add_filters
from report import Report
from roofline import floor_us
from timing import Runner, described, interleaved_us, release, runner_of
from workload import pair_rows

from qconv import Quantization, generator
from qconv.arithmetic.step import Array
from qconv.device import Device, open_device
from qconv.device.compile import build
from qconv.errors import Infeasible
from qconv.generator import Config
from qconv.instances.choose.lookup import choose
from qconv.instances.load.pair import load
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.ops import registry
from qconv.ops.registry import parse
from qconv.problem.chain import Chain, chain_of
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement, ranked
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import InputSets
from qconv.tuner.search.tune import tune
from qconv.tuner.workloads.listing import chain

Row = dict[str, Any]

TIMEOUT_S = 60.0  # per config


@dataclass(frozen=True)
class Pair:
    name: str
    kind: str
    problem: Chain


Line = dict[str, str]


def name_of(rows: list[Line]) -> str:
    return "+".join((f"{rows[0]['model']}/{rows[0]['layer1']}", *(row["layer2"] for row in rows)))


def kind_of(rows: list[Line]) -> str:
    return "+".join((rows[0]["kind1"], *(row["kind2"] for row in rows)))


def chains_of(path: Path, blocks: bool) -> list[list[Line]]:
    """Return rows with nothing between the two convolutions; for blocks, each with the row that continues it."""
    rows = pair_rows(path)
    if not blocks:
        return [[row] for row in rows]
    following: dict[tuple[str, ...], list[Line]] = {}
    for row in rows:
        following.setdefault((row["model"], row["N"], row["layer1"]), []).append(row)
    return [[row, other] for row in rows for other in following.get((row["model"], row["N"], row["layer2"]), [])]


def of_type(problem: Chain, dtype: str | None) -> Chain:
    """Return the chain with this type for all its tensors, or unchanged."""
    if dtype is None:
        return problem
    q = Quantization(dtype, dtype, dtype)
    return chain_of([replace(one, quantization=q) for one in problem.layers.values()])


def read(
    path: Path, only: str, kinds: str, batch: int | None, blocks: bool = False, dtype: str | None = None
) -> tuple[dict[Chain, list[Pair]], dict[str, str]]:
    """Return the pairs or threes of every problem in the order of the list, and why other rows make no problem."""
    same: dict[Chain, list[Pair]] = {}
    refused: dict[str, str] = {}
    for rows in chains_of(path, blocks):
        name, kind = name_of(rows), kind_of(rows)
        if re.search(only, name) and re.search(kinds, kind):
            try:
                pair = Pair(name, kind, of_type(chain(rows, batch), dtype))
            except ValueError as error:
                refused[name] = str(error)
            else:
                same.setdefault(pair.problem, []).append(pair)
    return same, refused


@dataclass(frozen=True)
class Verification:
    """The kernels to launch, and the expected outputs."""

    configs: dict[str, str]  # by family, as JSON; their kernels are in the cache
    unfused: str | None  # why the convolutions are not fused
    drawn: registry.Sample
    expected: tuple[Array, ...]


def verification(key: str, target_name: str, seed: int) -> Verification:
    """Plan, compile and run the oracle in a separate process, because these take a while."""
    problem = parse(key)
    assert isinstance(problem, Chain)
    plans = {"unfused": generator.unfused_plan(problem, target(target_name))}
    feasible, rejected = generator.space(problem, target(target_name), likely=True)
    unfused = None
    if feasible:
        plans["fused"] = feasible[0]
    else:
        unfused = rejected[0].reason if rejected else "no tile of it fits shared memory"
    for plan in plans.values():
        for kernel in plan.kernels:
            build(generator.render(kernel), kernel)
    drawn = registry.draw(problem, seed)
    configs = {family: plan.config.as_json() for family, plan in plans.items()}
    return Verification(configs, unfused, drawn, registry.compute(problem, drawn))


def verified(problem: Chain, found: Verification, device: Device) -> Row:
    """Compare the fused kernel, if there is one, and the unfused kernels with the oracle."""
    input_sets = InputSets(problem, device, found.drawn, expected=found.expected)
    row: Row = {"mismatch": {}, "configs": {}, "digests": {}}
    if found.unfused is not None:
        row["unfused"] = found.unfused
    for family, config in sorted(found.configs.items()):
        plan = generator.plan(problem, generator.config_from_json(config), device.target)
        row["configs"][family] = plan.config.as_dict()
        row["digests"][family] = digest_of(plan)
        wrong = input_sets.mismatch(load(plan, device))
        if wrong is not None:
            row["mismatch"][family] = wrong
    return row | {"verified": not row["mismatch"]}


def fastest(problem: Chain, device: Device, db: str) -> dict[str, Measurement]:
    """Return the best row of each way: `unfused`, or `fused`, which is one kernel."""
    with open_layers(db, device) as layers:
        rows = ranked(layers.measurements(problem=problem, device=device.name, target=device.target.name))
    return {way_of(row.config): row for row in reversed(rows)}


def way_of(config: Config) -> str:
    return "unfused" if config.family == "unfused" else "fused"


def parts_of(problem: Problem) -> tuple[Problem, ...]:
    """Return the problems to tune, in order."""
    return (problem.first, *parts_of(problem.rest), problem) if isinstance(problem, Chain) else (problem,)


def measured(
    pairs: list[Pair], device: Device, protocol: TimingProtocol, db: str, names: list[str], trials: int, child: Child
) -> Row:
    problem = pairs[0].problem
    with Database.open(db) as database:
        outcome = tune(problem, device, database, trials=trials, child=child)
    drawn = registry.draw(problem, 1)
    input_sets = InputSets(problem, device, drawn)
    runners: dict[str, Runner] = {}
    row: Row = {"trials": outcome.measured + outcome.known, "configs": {}, "digests": {}, "missing": {}, "mismatch": {}}
    for family, best in fastest(problem, device, db).items():
        plan = generator.plan(problem, best.config, device.target)
        runnable = load(plan, device)
        row["configs"][family] = best.config.as_dict()
        row["digests"][family] = digest_of(plan)
        if (wrong := input_sets.mismatch(runnable)) is not None:
            row["mismatch"][family] = wrong
        runners[family] = runner_of(runnable, drawn, protocol)
    for layer, one in problem.layers.items():
        one = replace(one, quantization=replace(one.quantization, residual="none"))  # no peer adds a residual here
        case = peers.Case(one, registry.draw(one, 1), None, device, protocol)
        ready, missing = peers.prepare(names, case)
        runners |= {f"{name} {layer}": peer.run for name, peer in ready.items()}
        row["missing"] |= {f"{name} {layer}": reason for name, reason in missing.items()}
    times = interleaved_us(runners, protocol)
    unfused, fused = times["unfused"], times.get("fused")
    both = {
        name: sum(times[f"{name} {layer}"] for layer in problem.LAYERS)
        for name in names
        if all(f"{name} {layer}" in times for layer in problem.LAYERS)
    }
    best_peer = min(both, key=both.__getitem__) if both else None
    with open_layers(db, device) as layers:
        chosen = way_of(choose(problem, device, layers).plan.config)
    ours = times[chosen]
    return row | {
        "verified": not row["mismatch"],
        "fused_us": fused,
        "unfused_us": unfused,
        "chosen": chosen,
        "time_us": ours,
        "over_unfused": unfused / fused if fused else None,
        "peers": both,
        "over_best_peer": both[best_peer] / ours if best_peer else None,
    }


def summary(rows: list[Row], refused: dict[str, str]) -> Row:
    said: Row = {
        "rows": len(rows),
        "pairs": sum(len(row["pairs"]) for row in rows),
        "verified": sum(row["verified"] for row in rows),
        "not_fused": [row["name"] for row in rows if "unfused" in row],
        "refused": refused,
    }
    for name in ("over_unfused", "over_best_peer"):
        if values := [row[name] for row in rows if row.get(name)]:
            said[f"{name}_geometric_mean"] = statistics.geometric_mean(values)
            said[f"{name}_least"] = min(values)
    if any("chosen" in row for row in rows):
        said["chosen"] = {f: sum(row["chosen"] == f for row in rows) for f in ("fused", "unfused")}
    return said


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--suite", default="pairs")
    add_filters(parser, "pairs", "'^dw\\+pw$'")
    parser.add_argument("--blocks", action="store_true", help="three convolutions, of rows that follow each other")
    parser.add_argument("--type", metavar="TYPE", help="of all tensors: float16, bfloat16, ...; default: int8")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--verify", action="store_true", help="compare with the oracle, time nothing")
    parser.add_argument("--peers", default="cudnn_fp16", metavar="NAMES", help="default: %(default)s")
    parser.add_argument("--begin", type=int, default=0, metavar="NUMBER", help="of the first different pair")
    parser.add_argument("--seconds", type=float, help="begin no pair after this time")
    parser.add_argument("--device")
    parser.add_argument("--db", help="needed to tune")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    if options.db is None and not options.verify:
        parser.error("--db says where the measurements go; or give --verify")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    device = open_device(options.device)
    protocol = protocol_for(device)
    report = Report(options.out, options.suite, device, described(protocol), options.commit)
    names = [name for name in options.peers.split(",") if name]
    child = Child(device, protocol, TIMEOUT_S)
    begin, rows = time.monotonic(), list[Row]()
    every, refused = read(options.pairs, options.only, options.kinds, options.batch, options.blocks, options.type)
    found_pairs = dict(list(every.items())[options.begin :])
    # Timing has priority: these processes are nice.
    workers = None if options.verify else 3
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=os.nice, initargs=(10,))
    ahead: dict[Chain, Future[Verification]] = {}
    compiled: dict[Chain, list[Future[None]]] = {}
    if options.verify:
        # Sixteen oracles at a time with one thread per core each would slow each other down.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        name = device.target.name
        ahead = {p: pool.submit(verification, str(p), name, seed) for seed, p in enumerate(found_pairs)}
    else:
        for p in found_pairs:
            arguments_of = ((str(one), device.target, options.trials) for one in parts_of(p))
            compiled[p] = [pool.submit(compile_first, *each) for each in arguments_of]
    for problem, same in found_pairs.items():
        if options.seconds is not None and time.monotonic() - begin > options.seconds:
            print(f"{options.seconds:g} s are over: the rest was not begun", file=sys.stderr)
            break
        about: Row = {"name": same[0].name, "pairs": [pair.name for pair in same], "kind": same[0].kind}
        about |= {"problem": str(problem), "floor_us": floor_us(problem, device.name), "mid_bytes": problem.mid_bytes}
        try:
            if options.verify:
                found = verified(problem, ahead.pop(problem).result(), device)
            else:
                wait(compiled.pop(problem))
                found = measured(same, device, protocol, options.db, names, options.trials, child)
        except Infeasible as reason:
            found = {"verified": False, "mismatch": {"plan": str(reason)}}
        rows.append(about | found)
        release(device)
        report.write(rows, summary(rows, refused))
        if rows[-1]["mismatch"]:
            print(f"{same[0].name}: {rows[-1]['mismatch']}", file=sys.stderr, flush=True)
        if not options.verify:
            fused = rows[-1]["fused_us"]
            shown = f"fused {fused:.2f}" if fused else "not fused"
            print(
                f"{same[0].name:<60} {rows[-1]['kind']:<12} {shown}, unfused {rows[-1]['unfused_us']:.2f}, "
                + ", ".join(f"{name} {value:.2f}" for name, value in rows[-1]["peers"].items()),
                file=sys.stderr,
                flush=True,
            )
    child.stop()
    pool.shutdown(cancel_futures=True)  # cancels jobs that have not begun
    print(summary(rows, refused))
    if not all(row["verified"] for row in rows):
        sys.exit("some differ from the oracle")


if __name__ == "__main__":
    main()
