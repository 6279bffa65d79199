"""Tune, verify and time a list of layers; writes bench/results rows.

    python bench/layers.py LAYERS.csv --suite simt --trials 24 --db tune.sqlite --out bench/results/nvidia-h200

LAYERS.csv needs the columns name, N, H, W, C, K, R, S, stride, pad, groups; `floor_us` and `best_peer_us` are
copied where it has them. `--only` takes a regular expression over the names.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Any

from report import write

import qconv
from qconv.device import open_device
from qconv.tune_db.database import Database
from qconv.tuner.protocol import protocol_for
from qconv.tuner.tune import tune


def problem_of(row: dict[str, str]) -> qconv.Conv2d:
    n, h, w, c, k, r, s, stride, pad, groups = (
        int(row[name]) for name in ("N", "H", "W", "C", "K", "R", "S", "stride", "pad", "groups")
    )
    return qconv.Conv2d(n, h, w, c, k, r, s, stride=(stride, stride), pad=(pad,) * 4, groups=groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=Path)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--device")
    parser.add_argument("--db", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="what the results say they were measured on; default: this checkout's HEAD")
    options = parser.parse_args()
    device = open_device(options.device)
    results: list[dict[str, Any]] = []
    with Database.open(options.db) as database, options.layers.open() as lines:
        for layer in csv.DictReader(lines):
            if not re.search(options.only, layer["name"]):
                continue
            problem = problem_of(layer)
            outcome = tune(problem, device, database, trials=options.trials)
            if outcome.best is None or outcome.best.median_us is None:
                sys.exit(f"{layer['name']}: no config worked: {outcome.failures}")
            time_us = outcome.best.median_us
            row: dict[str, Any] = {
                "name": layer["name"],
                "problem": str(problem),
                "time_us": time_us,
                "tops": problem.operations / time_us / 1e6,
                "default_us": outcome.default.median_us if outcome.default else None,
                "config": outcome.best.config.as_dict(),
                "trials": options.trials,
                "verified": True,
            }
            for name in ("floor_us", "best_peer_us"):
                if layer.get(name):
                    row[name] = float(layer[name])
            results.append(row)
            print(f"{row['name']:<18}{time_us:10.2f} us{row['tops']:8.1f} TOPS  {outcome.best.config}", flush=True)
    protocol = protocol_for(device).as_dict()
    write(options.out, options.suite, device, protocol, options.commit, results)


if __name__ == "__main__":
    main()
