"""Correct the cost models by measurements: small trees predict the factor by which a prediction is off.

    python bench/correct.py pack EXPORT.json[.gz] ...   # written by db export --format text or by trials.py
    python bench/correct.py fit                         # writes generator/expect/corrections/
    python bench/correct.py report                      # its error, by leaving out one network at a time

A fit is judged on networks that it does not know: for each network of layers.csv and fused_pairs.csv, trees are fitted
to all problems except those with the geometry of one of its own, at any batch, and rank the measured configs of these.
Their choice is compared with the fastest measured config; `model` is the same for the cost models alone.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import measured
import numpy as np
import pairs
import workload
from boosting import Boosting, fit
from choices import geometry
from numpy.typing import NDArray

from qconv import Conv2d, generator
from qconv.generator.expect import UNKNOWN, Correction, Floats, written
from qconv.generator.plan import Plan
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.tune_db.text import parse as parse_rows

WORKLOADS = Path(__file__).with_name("workloads")
CORRECTIONS = Path(__file__).parents[1] / "generator" / "expect" / "corrections"
GENERATION = "Hopper"
HOW = Boosting()
# A row is weighted by its speed relative to its problem's fastest row, and by this factor if it was measured on older
# templates.
OF_OLDER = 0.5
NEAR = 1.5  # times the fastest; slower rows cannot be chosen
LEAST_ROWS = 40  # least rows of a family with trees
CONFIGS = 6  # least configs of a problem by which a choice is judged

Seen = tuple[float, dict[str, float]]  # the corrected time, and the features


@dataclass(frozen=True)
class Data:
    problems: list[Problem]  # each problem once
    of_row: NDArray[np.int64]  # index of each row's problem
    plans: list[Plan]
    us: Floats
    weights: Floats
    is_current: NDArray[np.bool_]  # true for rows whose time holds for today's kernel

    @cached_property
    def seen(self) -> list[Seen | None]:
        """Return a fit's input for each plan; None for chains of separate kernels, which depend on the other trees."""
        return [None if plan.parts else _seen(plan, {}) for plan in self.plans]


def data_of(path: Path) -> Data:
    found = measured.read(path)
    rows = [(number, row) for number, own in enumerate(found.values()) for row in own]
    best = [min(row.us for row in own) for own in found.values()]
    weights = [best[number] / row.us * (1.0 if row.is_newest else OF_OLDER) for number, row in rows]
    return Data(
        list(found),
        np.array([number for number, _ in rows]),
        [row.plan for _, row in rows],
        np.array([row.us for _, row in rows]),
        np.array(weights),
        np.array([row.is_current for _, row in rows]),
    )


Corrections = dict[str, Correction]


def _seen(plan: Plan, found: Corrections) -> Seen:
    model = generator.model(found.get)
    us = model.base_us(plan)
    return us, model.features(plan, us)


def fitted(data: Data, train: NDArray[np.bool_], spreads: dict[str, float] | None = None) -> Corrections:
    """Fit the trees. Chains of separate kernels come last: they correct the sum of their kernels' expected times."""
    families = np.array([plan.config.family for plan in data.plans])
    order = sorted(set(families.tolist()), key=lambda family: (family == "unfused", family))
    found: Corrections = {}
    for family in order:
        own = np.flatnonzero(train & data.is_current & (families == family))
        if len(own) >= LEAST_ROWS:
            seen = [data.seen[row] or _seen(data.plans[row], found) for row in own]
            bases = np.array([base for base, _ in seen])
            rows = np.array([list(numbers.values()) for _, numbers in seen])
            wanted = np.log(data.us[own] / bases)
            forest = fit(rows, wanted, data.weights[own], data.of_row[own], HOW)
            found[family] = Correction(GENERATION, (spreads or {}).get(family, UNKNOWN), tuple(seen[0][1]), forest)
    return found


def networks() -> dict[str, frozenset[str]]:
    """Return the geometries of each network's layers and pairs."""
    found: dict[str, set[str]] = {}
    for layer in workload.read(WORKLOADS / "layers.csv"):
        found.setdefault(str(layer.model), set()).add(geometry_of(layer.problem))
    for blocks in (False, True):
        for problem, same in pairs.read(WORKLOADS / "fused_pairs.csv", "", "", None, blocks)[0].items():
            for pair in same:
                found.setdefault(pair.name.partition("/")[0], set()).add(geometry_of(problem))
    return {name: frozenset(own) for name, own in found.items()}


def geometry_of(problem: Problem) -> str:
    layers = problem.layers.values() if isinstance(problem, Chain) else (problem,)
    return "+".join(geometry(layer) for layer in layers if isinstance(layer, Conv2d))


@dataclass(frozen=True)
class Judged:
    """Expected times of every row, by trees that did not know a network of its problem; nan where there are none."""

    model_us: Floats
    corrected_us: Floats


def judged(data: Data) -> Judged:
    """Judge all networks. A problem of several networks is judged with the last of them: the fits share all but a few
    rows."""
    geometries = [geometry_of(problem) for problem in data.problems]
    of_row = [geometries[number] for number in data.of_row]
    corrected = np.full(len(data.us), np.nan)
    for own in networks().values():
        held = np.array([geometry in own for geometry in of_row])
        if held.any():
            model = generator.model(fitted(data, ~held).get)
            times = model.expected([data.plans[row] for row in np.flatnonzero(held)])
            corrected[held] = [one.us for one in times]
    plain = generator.model(lambda family: None)
    return Judged(np.array([one.us for one in plain.expected(data.plans)]), corrected)


def ratios(data: Data, times: Floats, wanted: Callable[[Problem], bool]) -> dict[Problem, float]:
    """Return the speed of the choice by these times relative to the fastest, for problems with enough configs. Rows
    that are not current are neither; if a family has only such rows, one of them might be chosen, and the problem is
    left out."""
    found = {}
    families = np.array([plan.config.family for plan in data.plans])
    for number, problem in enumerate(data.problems):
        every = np.flatnonzero(data.of_row == number)
        own = every[data.is_current[every]]
        if set(families[own]) != set(families[every]):
            continue
        if wanted(problem) and len(own) >= CONFIGS and not np.isnan(times[own]).any():
            found[problem] = float(data.us[own].min() / data.us[own[np.argmin(times[own])]])
    return found


def spreads_of(data: Data, found: Judged) -> dict[str, float]:
    """Return the spreads over the rows that may be chosen: those within 1.5 times their problem's fastest."""
    best = np.array([data.us[data.of_row == number].min() for number in range(len(data.problems))])
    near = (data.us <= NEAR * best[data.of_row]) & data.is_current & ~np.isnan(found.corrected_us)
    families = np.array([plan.config.family for plan in data.plans])
    off = np.log(data.us / found.corrected_us)
    return {
        family: float(f"{math.sqrt(float(np.mean(off[near & (families == family)] ** 2))):.2g}")
        for family in sorted(set(families[near].tolist()))
    }


def batch(problem: Problem) -> int:
    first = problem.parts[0] if problem.parts else problem
    assert isinstance(first, Conv2d)
    return first.n


KINDS: dict[str, Callable[[Problem], bool]] = {
    "layers, N=1": lambda problem: not problem.parts and batch(problem) == 1,
    "layers, more": lambda problem: not problem.parts and batch(problem) > 1,
    "chains, N=1": lambda problem: bool(problem.parts) and batch(problem) == 1,
    "chains, more": lambda problem: bool(problem.parts) and batch(problem) > 1,
}


def show(data: Data, found: Judged) -> None:
    print(f"{'':<16}{'problems':>9}{'mean':>8}{'tenth':>8}{'worst':>8}")
    for kind, wanted in KINDS.items():
        for name, times in (("model", found.model_us), ("corrected", found.corrected_us)):
            chosen = ratios(data, np.where(np.isnan(found.corrected_us), np.nan, times), wanted)
            if chosen:
                values = sorted(chosen.values())
                mean, tenth = statistics.geometric_mean(values), float(np.quantile(values, 0.1))
                print(f"{kind:<12} {name:<10}{len(values):>5}{mean:>8.3f}{tenth:>8.3f}{values[0]:>8.3f}")
    for family, spread in spreads_of(data, found).items():
        print(f"{family}: the logarithms of times are off by {spread:.2f}")


def rows_of(path: Path) -> list[Any]:
    raw = path.read_bytes()
    return parse_rows((gzip.decompress(raw) if path.suffix == ".gz" else raw).decode(), str(path))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pack", "fit", "report"))
    parser.add_argument("exports", type=Path, nargs="*", help="to pack")
    parser.add_argument("--data", type=Path, default=measured.PATH, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=CORRECTIONS, help="of a fit; default: %(default)s")
    options = parser.parse_args(arguments)
    if options.what == "pack":
        rows = [row for path in options.exports for row in rows_of(path)]
        print(f"{measured.pack(rows, options.data)} rows in {options.data}")
        return
    data = data_of(options.data)
    found = judged(data)
    show(data, found)
    if options.what == "fit":
        for family, correction in fitted(data, np.ones(len(data.us), bool), spreads_of(data, found)).items():
            (options.out / f"{family}.json").write_text(written(correction))


if __name__ == "__main__":
    main()
