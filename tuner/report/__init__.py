"""The report of a database on one device, as one page: the winners beside the untuned defaults, the roofline and peers,
the convergence of the searches, the importance of the fields, and failures."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from qconv.errors import DatabaseError
from qconv.op import Problem
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.report import figures
from qconv.tuner.report.columns import columns_of
from qconv.tuner.report.layer import Layer
from qconv.tuner.report.network import NetworkPage
from qconv.tuner.report.roofline import floor_us
from qconv.tuner.workloads.result import untuned

FIGURES = ("roofline", "convergence", "importance", "failures")
MOST_REASONS = 12


@dataclass(frozen=True)
class Report:
    device: str
    target: str
    toolchains: tuple[str, ...]
    layers: tuple[Layer, ...]
    rows: tuple[Measurement, ...]
    network: NetworkPage | None = None

    @property
    def of_floor(self) -> float | None:
        return _mean(layer.of_floor for layer in self.layers)

    @property
    def gain(self) -> float | None:
        return _mean(layer.gain for layer in self.layers)

    @property
    def over_peers(self) -> float | None:
        return _mean(layer.over_peer for layer in self.layers)

    @property
    def failed(self) -> int:
        return sum(not row.correct for row in self.rows)

    @property
    def is_on_cpu(self) -> bool:
        return target(self.target).vendor == "cpu"

    @property
    def last(self) -> str | None:
        """Return when a row was last stored."""
        last = max((row.created_at for row in self.rows), default=None)
        return None if last is None else f"{last:%Y-%m-%d %H:%M:%S} UTC"

    def figures(self) -> dict[str, str]:
        """Return the figures that have something to show."""
        made = (
            figures.roofline(self.layers, self.device),
            figures.convergence(self.layers),
            figures.importance(self.rows),
            figures.failures(self.rows),
        )
        return {name: svg for name, svg in zip(FIGURES, made, strict=True) if svg is not None}

    def html(self, refresh_s: int | None = None) -> str:
        """Return the page. With `refresh_s`, a browser reads it again after as many seconds."""
        loader = jinja2.PackageLoader("qconv.tuner.report", "")
        page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
        reasons = Counter(
            (row.outcome, (row.reason or "").partition("\n")[0][:160]) for row in self.rows if not row.correct
        )
        return page.get_template("report.j2").render(
            report=self,
            figures=self.figures(),
            columns=columns_of(self.layers),
            reasons=reasons.most_common(MOST_REASONS),
            refresh_s=refresh_s,
        )


def _mean(ratios: Iterable[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if known else None


def read(
    database: Database,
    device: str | None,
    peers: Mapping[str, tuple[str, float]],
    network: NetworkPage | None = None,
    with_machine_code: bool = False,
) -> Report:
    """Read the rows of one device: `device`, or else the one with the most rows."""
    places = Counter({place: len(database.measurements(device=place)) for place in database.devices()})
    if device is None and places:
        device = places.most_common(1)[0][0]
    if device is None or not places[device]:
        there = ", ".join(sorted(places)) or "none"
        raise DatabaseError(f"{database.where} has no row of {device or 'any device'}; it has of: {there}")
    rows = database.measurements(device=device)
    groups: dict[Problem, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.problem, []).append(row)
    layers = []
    for problem, own in groups.items():
        best = best_of(own)
        if best is not None and best.median_us is not None:
            beside = floor_us(problem, device), peers.get(str(problem)), _default(best, own)
            layers.append(Layer(problem, tuple(own), best, best.median_us, *beside, with_machine_code))
    layers.sort(key=lambda layer: -layer.best_us)
    toolchains = tuple(sorted({row.toolchain for row in rows}))
    return Report(device, rows[0].target, toolchains, tuple(layers), tuple(rows), network)


def _default(best: Measurement, rows: Sequence[Measurement]) -> Measurement | None:
    """Return the row of the untuned default. None where it was not measured; one row alone has no rival to be."""
    if len(rows) == 1:
        return None
    config = untuned(best.problem, target(best.target)).config
    own = (row for row in rows if row.config == config and row.correct and row.toolchain == best.toolchain)
    return max(own, key=lambda row: row.created_at, default=None)


def peers_of(paths: Iterable[Path]) -> dict[str, tuple[str, float]]:
    """Read each problem's best peer from results files of bench/; of several, from the last one that has it."""
    return {problem: peer for path in paths for problem, peer in _peers_of(path).items()}


def _peers_of(path: Path) -> dict[str, tuple[str, float]]:
    try:
        rows = json.loads(path.read_text())["rows"]
        return {row["problem"]: (row["best_peer"], row["best_peer_us"]) for row in rows if row.get("best_peer_us")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has no rows with problem, best_peer and best_peer_us ({error}): give a file of bench/results"
        ) from None
