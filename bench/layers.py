"""Tune, verify and time a list of layers with its peers in the same run; write one suite.

    python bench/layers.py LAYERS.csv --suite dense --trials 200 --db tune.sqlite --out bench/results/nvidia-h200

LAYERS.csv has the columns of peers_h200.csv or of layers.csv: see workload.py. Times in the csv (columns `*_us`) are
copied into the rows. With --no-tune, the kernels are those of `qconv.lookup`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import peers
from current import digest_of
from report import Report
from roofline import floor_us
from table import means, show
from timing import Runner, described, interleaved_us, release, runner_of
from workload import Layer, chosen_by, distinct, parser_of, typed

import qconv
from qconv.device import Device, open_device
from qconv.ops import registry
from qconv.tune_db.database import Database
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for
from qconv.tuner.measure.verification import mismatch
from qconv.tuner.search.tune import tune

Row = dict[str, Any]

TIMEOUT_S = 60.0  # per config
# The time with overlapping launches (programmatic dependent launch), as in a session; not compared with peers.
OVERLAPPING = "overlapping"


def tuned(problem: qconv.Conv2d, device: Device, db: str, trials: int, child: Child) -> Row:
    """Tune, and return the row's fields about the search."""
    with Database.open(db) as database:
        outcome = tune(problem, device, database, trials=trials, child=child)
    if outcome.best is None:
        raise RuntimeError(f"no config worked: {outcome.failures}")
    default = outcome.default.median_us if outcome.default else None
    return {"trials": outcome.measured + outcome.known, "default_us": default, "failures": outcome.failures}


def measured(
    layers: list[Layer],
    device: Device,
    protocol: TimingProtocol,
    db: str | None,
    names: list[str],
    limit_s: float | None,
) -> Row:
    """Return one row for layers of the same problem."""
    first, problem = layers[0], layers[0].problem
    qconv.forget()
    instance = qconv.lookup(problem, device.spec, db)
    drawn = registry.draw(problem, 1)
    wrong = mismatch(instance.executable, drawn)
    output = instance(*(device.upload(array) for array in drawn.arrays), **drawn.parameters)
    device.synchronize()
    case = peers.Case(problem, drawn, output, device, protocol, db, limit_s)
    ready, missing = peers.prepare(names, case)
    runners: dict[str, Runner] = {"ours": runner_of(instance.executable, drawn, protocol)}
    if instance.plan.overlaps:
        runners[OVERLAPPING] = runner_of(instance.executable, drawn, protocol, overlap=True)
    times = interleaved_us(runners | {name: peer.run for name, peer in ready.items()}, protocol)
    time_us = times.pop("ours")
    overlapping_us = times.pop(OVERLAPPING, None)
    others = {name: value for name, value in times.items() if name in peers.OTHERS}
    best = min(others, key=others.__getitem__) if others else None
    floor = floor_us(problem, device.name)
    row: Row = {
        "name": first.name,
        "problem": str(problem),
        "time_us": time_us,
        "overlapping_us": overlapping_us,
        "floor_us": floor,
        "tops": problem.operations / time_us / 1e6,
        "of_floor": floor / time_us if floor else None,
        "peers": times,
        "best_peer": best,
        "best_peer_us": others[best] if best else None,
        "over_best_peer": others[best] / time_us if best else None,
        "missing": missing,
        "peer_facts": {name: peer.facts for name, peer in ready.items()},
        "config": instance.plan.config.as_dict(),
        "digest": digest_of(instance.plan),
        "origin": instance.origin,
        "verified": wrong is None,
    }
    if wrong is not None:
        row["mismatch"] = wrong
    if len(layers) > 1:
        row["layers"] = [layer.name for layer in layers]
    return row | first.published


def model_totals(rows: list[Row], layers: list[Layer]) -> Row:
    """Return the total times of each model's layers, run one after the other: ours and the best peers'."""
    by_problem = {row["problem"]: row for row in rows}
    totals: Row = {}
    for layer in layers:
        row = by_problem.get(str(layer.problem))
        if row is None or layer.model is None:
            continue
        total = totals.setdefault(layer.model, {"layers": 0, "time_us": 0.0, "floor_us": 0.0, "best_peer_us": 0.0})
        total["layers"] += 1
        for name in ("time_us", "floor_us", "best_peer_us"):
            # With a layer missing from a peer, the sums would not be comparable.
            known = total[name] is not None and row.get(name) is not None
            total[name] = total[name] + row[name] if known else None
    return totals


def summary(rows: list[Row], layers: list[Layer]) -> Row:
    said: Row = {
        "rows": len(rows),
        "verified": sum(row["verified"] for row in rows),
        "geometric_means": means(rows),
        "slower_than_best_peer": [row["name"] for row in rows if (row["over_best_peer"] or 1.0) < 1.0],
    }
    compared = [row for row in rows if row.get("cutlass_sm80_us")]
    if compared:
        said["slower_than_cutlass_sm80"] = [row["name"] for row in compared if row["time_us"] > row["cutlass_sm80_us"]]
    models = model_totals(rows, layers)
    return said | ({"models": models} if models else {})


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--types", metavar="X,W,Y", help="of the operands and the output; default: int8, all three")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--no-tune", action="store_true")
    parser.add_argument("--peers", default=",".join(peers.PEERS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument(
        "--peer-seconds", type=float, help="how long a peer may try its plans for one layer; default: all"
    )
    parser.add_argument("--device")
    parser.add_argument("--db", help="needed to tune")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    if options.db is None and not options.no_tune:
        parser.error("--db says where the measurements go; or give --no-tune")
    names = [name for name in options.peers.split(",") if name]
    if unknown := set(names) - set(peers.PEERS):
        parser.error(f"--peers {','.join(sorted(unknown))}: not known; use some of {','.join(peers.PEERS)}")
    device = open_device(options.device)
    protocol = protocol_for(device)
    layers = chosen_by(options, typed(options.types))
    report = Report(options.out, options.suite, device, described(protocol), options.commit)
    rows: list[Row] = []
    child = Child(device, protocol, TIMEOUT_S)
    for problem, same in distinct(layers).items():
        searched = {} if options.no_tune else tuned(problem, device, options.db, options.trials, child)
        row = measured(same, device, protocol, options.db, names, options.peer_seconds) | searched
        release(device)
        rows.append(row)
        report.write(rows, summary(rows, layers))
        shown = ", ".join(f"{name} {value:.2f}" for name, value in row["peers"].items())
        print(
            f"{row['name']:<24}{row['time_us']:10.2f} us{row['tops']:8.1f} TOPS  {shown}", file=sys.stderr, flush=True
        )
    child.stop()
    show(f"{options.suite} on {device.name}", rows)
    for model, total in summary(rows, layers).get("models", {}).items():
        print(f"{model:<32}{total['layers']:4} layers {total['time_us']:10.1f} us")
    if wrong := [row["name"] for row in rows if not row["verified"]]:
        sys.exit(f"these differ from the oracle: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
