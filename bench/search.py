"""Searches compared on recorded spaces: how near the optimum they come in a given number of evaluations, without a GPU.

    python bench/search.py bench/spaces/nvidia-h200/*.json.gz --repeats 100 --out bench/results/nvidia-h200
    python bench/search.py bench/spaces/nvidia-h200/*.json.gz --only 'Optuna GP' --repeats 20 --trials 50 --out FOLDER
    python bench/search.py bench/spaces/nvidia-h200/stem.json.gz --only '^(qconv|random)' --repeats 20

`--out` is a folder: search.json there has one row per space and search, which later runs do not repeat. The searches of
Kernel Tuner and of Optuna need `pip install -e '.[search]'`. Optuna's GP takes 0.2 s per evaluation, so its line uses
fewer. `--table` prints search.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import recorded
from document import write_document
from replay import BUDGETS, Replayed, searched, summary
from searchers import searches

Row = dict[str, Any]

NAME = "search.json"
NEEDED = {"Kernel Tuner": ("kernel_tuner",), "Optuna GP": ("torch", "scipy"), "Optuna CMA-ES": ("cmaes",)}
PACKAGES = ("optuna", "kernel-tuner", "cmaes", "torch", "scipy", "numpy")


def missing_for(name: str) -> str | None:
    """Return the first module that a search needs and that is not installed."""
    needed = next((modules for prefix, modules in NEEDED.items() if name.startswith(prefix)), ())
    return next((module for module in needed if importlib.util.find_spec(module) is None), None)


_opened: dict[Path, Replayed] = {}


def row_of(path: Path, name: str, trials: int, seeds: range) -> Row:
    """Return a row, in a worker process that keeps its space."""
    if path not in _opened:
        _opened.clear()
        _opened[path] = Replayed.of(recorded.read(path))
    replayed, begin = _opened[path], time.process_time()
    fractions = [searched(searches()[name], replayed, trials, seed) for seed in seeds]
    about: Row = {"space": path.name.removesuffix(recorded.SUFFIX), "search": name, "configs": len(replayed.plans)}
    took = (time.process_time() - begin) / len(seeds) / trials
    return about | dict(summary(fractions)) | {"ms_per_evaluation": round(1e3 * took, 2)}


def begin_worker() -> None:
    """Limit threads: with as many processes as cores, the threads that PyTorch starts in each would compete."""
    os.nice(5)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def with_error(values: list[float]) -> str:
    """Return a mean and, where there are several values, its standard error."""
    mean = f"{statistics.mean(values):.3f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values) / len(values) ** 0.5:.3f}"


def table(rows: list[Row]) -> str:
    """Return the means over the spaces on which every search of the table was run, equally weighted, and the standard
    errors of these means."""
    names = list(dict.fromkeys(row["search"] for row in rows))
    spaces = {name: {row["space"] for row in rows if row["search"] == name} for name in names}
    common = set.intersection(*spaces.values()) if spaces else set()
    heads = " | ".join(str(budget) for budget in BUDGETS)
    lines = [f"| best over optimum, {len(common)} spaces | {heads} | 95 % within 50 |", "|---|" + "---|" * 6]
    found: dict[str, dict[int, list[float]]] = {}
    for name in names:
        some = [row for row in rows if row["search"] == name and row["space"] in common]
        known = [budget for budget in BUDGETS if all(str(budget) in row["means"] for row in some)]
        found[name] = {budget: [row["means"][str(budget)] for row in some] for budget in known}
    for name in sorted(names, key=lambda name: -statistics.mean(map(statistics.mean, found[name].values() or [[0.0]]))):
        reached = statistics.mean(row["reached"] for row in rows if row["search"] == name and row["space"] in common)
        cells = " | ".join(with_error(found[name][b]) if b in found[name] else "" for b in BUDGETS)
        lines.append(f"| {name} | {cells} | {reached:.2f} |")
    return "\n".join(lines)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", type=Path, nargs="*", metavar="SPACE.json.gz")
    parser.add_argument("--only", default="", metavar="REGEX", help="over the names of the searches")
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--trials", type=int, default=max(BUDGETS))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=Path, help="a folder")
    parser.add_argument("--table", action="store_true", help="run nothing")
    options = parser.parse_args(arguments)
    if options.table and options.out is None:
        parser.error("--table prints what is in --out: give it")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    path = options.out / NAME if options.out else None
    rows: list[Row] = json.loads(path.read_text())["rows"] if path and path.exists() else []
    done = {(row["space"], row["search"]) for row in rows if row["repeats"] >= options.repeats}
    names = [] if options.table else [name for name in searches() if re.search(options.only, name)]
    if missing := {name: module for name in names if (module := missing_for(name)) is not None}:
        sys.exit(f"{', '.join(missing)}: {', '.join(set(missing.values()))} not installed; pip install -e '.[search]'")
    jobs = [(space, name) for space in options.spaces for name in names]
    jobs = [(s, n) for s, n in jobs if (s.name.removesuffix(recorded.SUFFIX), n) not in done]
    with ProcessPoolExecutor(options.workers, initializer=begin_worker) as pool:
        seeds = range(options.repeats)
        for job in [pool.submit(row_of, space, name, options.trials, seeds) for space, name in jobs]:
            row = job.result()
            means = " ".join(f"{mean:.3f}" for mean in row["means"].values())
            print(f"{row['space']:<14} {row['search']:<38} {means}", file=sys.stderr, flush=True)
            rows = [one for one in rows if (one["space"], one["search"]) != (row["space"], row["search"])] + [row]
            if path:
                write_document(path, {"packages": versions(), "rows": rows})
    print(table([row for row in rows if re.search(options.only, row["search"])]))


def versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES if importlib.util.find_spec(name.replace("-", "_"))}


if __name__ == "__main__":
    main()
