"""The report of a database on one device, as one page: distance to the roofline, convergence of the searches,
importance of the fields, and failures."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from qconv.dtypes import ELEMENT_TYPES
from qconv.errors import DatabaseError
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement, best_of
from qconv.tuner.report.charts import Axis, Bar, Plane, bars
from qconv.tuner.report.network import NetworkPage


@dataclass(frozen=True)
class Roofline:
    """Peak rates of a device. `tops` is dense int8 on the tensor cores, from the data sheet, which is the rate of 8-bit
    floats as well; operands of twice the bytes have half the rate. `tb_per_s` is the measured bandwidth of a device
    copy."""

    tops: float
    tb_per_s: float

    def floor_us(self, problem: Problem) -> float:
        widest = max(ELEMENT_TYPES[tensor.dtype].bytes for tensor in problem.inputs)
        return max(problem.operations * widest / self.tops, problem.io_bytes / self.tb_per_s) / 1e6


ROOFLINES = {"NVIDIA H200": Roofline(tops=1979.0, tb_per_s=4.27)}


def floor_us(problem: Problem, device: str) -> float | None:
    """Return the time that no kernel can beat. None for a device whose rates are unknown: a guess would look like a
    measurement."""
    known = ROOFLINES.get(device)
    return None if known is None else known.floor_us(problem)


MOST_FIELDS, MOST_REASONS, FEWEST_OF_A_FIELD = 12, 12, 8
FIGURES = ("roofline", "convergence", "importance", "failures")


@dataclass(frozen=True)
class Layer:
    """A problem with its rows in the order in which they were first stored, and a peer's time if known. A race stores
    its rows again, so times of creation do not give the order of the search."""

    problem: Problem
    rows: tuple[Measurement, ...]
    best: Measurement
    best_us: float
    floor_us: float | None
    peer: tuple[str, float] | None

    @property
    def label(self) -> str:
        """The key as words that a line may break between, without the types that almost all problems have."""
        return (
            str(self.problem)
            .replace(":x_type=int8:w_type=int8:out_type=int8", "")
            .replace("+", " + ")
            .replace(":", " ")
        )

    @property
    def tops(self) -> float:
        return self.problem.operations / self.best_us / 1e6

    @property
    def of_floor(self) -> float | None:
        return None if self.floor_us is None else self.floor_us / self.best_us

    def convergence(self) -> list[float]:
        """Return the winner's time over the best time so far, after each row."""
        best, found = math.inf, []
        for row in self.rows:
            best = min(best, row.median_us or math.inf)
            found.append(self.best_us / best)
        return found


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
        known = [layer.of_floor for layer in self.layers if layer.of_floor is not None]
        return statistics.geometric_mean(known) if known else None

    @property
    def over_peers(self) -> float | None:
        ratios = [layer.peer[1] / layer.best_us for layer in self.layers if layer.peer is not None]
        return statistics.geometric_mean(ratios) if ratios else None

    def figures(self) -> dict[str, str]:
        made = (roofline(self), convergence(self), importance(self.rows), failures(self.rows))
        return dict(zip(FIGURES, made, strict=True))

    def html(self) -> str:
        loader = jinja2.PackageLoader("qconv.tuner.report", "")
        page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)
        reasons = Counter(
            (row.outcome, (row.reason or "").partition("\n")[0][:160]) for row in self.rows if not row.correct
        )
        return page.get_template("report.j2").render(
            report=self, figures=self.figures(), reasons=reasons.most_common(MOST_REASONS)
        )


def read(database: Database, device: str | None, peers: Mapping[str, tuple[str, float]]) -> Report:
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
            floor, peer = floor_us(problem, device), peers.get(str(problem))
            layers.append(Layer(problem, tuple(own), best, best.median_us, floor, peer))
    layers.sort(key=lambda layer: -layer.best_us)
    toolchains = tuple(sorted({row.toolchain for row in rows}))
    return Report(device, rows[0].target, toolchains, tuple(layers), tuple(rows))


def peers_of(path: Path) -> dict[str, tuple[str, float]]:
    """Read each problem's best peer from a results file of bench/."""
    try:
        rows = json.loads(path.read_text())["rows"]
        return {row["problem"]: (row["best_peer"], row["best_peer_us"]) for row in rows if row.get("best_peer_us")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has no rows with problem, best_peer and best_peer_us ({error}): give a file of bench/results"
        ) from None


def roofline(report: Report) -> str:
    # Problems without operations have no place on a logarithmic axis.
    points = [(one.problem.operations / one.problem.io_bytes, one.tops, one) for one in report.layers if one.tops]
    known = ROOFLINES.get(report.device)
    highest = max([tops for _, tops, _ in points] + ([known.tops] if known else []), default=1.0)
    lowest = min([tops for _, tops, _ in points], default=0.1)
    ridge = [known.tops / known.tb_per_s] if known else []
    few = min([x for x, _, _ in points] + ridge, default=1.0)
    many = max([x for x, _, _ in points] + ridge, default=1000.0)
    x = Axis("operations a byte", 10 ** math.floor(math.log10(few)), many * 3, log=True)
    y = Axis("TOPS", 10 ** math.floor(math.log10(lowest)), highest * 1.6, log=True)
    plane = Plane(x, y, f"TOPS over operations a byte of {len(points)} problems")
    if known:
        begin = max(x.low, y.low / known.tb_per_s)
        plane.line([(begin, begin * known.tb_per_s), (ridge[0], known.tops), (x.high, known.tops)], "second")
        plane.word(x.high, known.tops, f"{known.tops:,.0f} TOPS, {known.tb_per_s:g} TB/s", "end")
    for across, tops, one in points:
        plane.point(across, tops, f"{one.problem}: {one.best_us:.2f} us, {tops:.1f} TOPS")
    return plane.svg()


def convergence(report: Report) -> str:
    curves = [one.convergence() for one in report.layers]
    most = max((len(curve) for curve in curves), default=2)
    plane = Plane(
        Axis("trials", 0, max(most, 2)), Axis("best time over best so far", 0, 1.0), "How soon searches found the best"
    )
    for curve in curves:
        plane.line(list(enumerate(curve, 1)), "mark", 1, 0.25)
    whole = [[curve[min(i, len(curve) - 1)] for curve in curves] for i in range(most)] if curves else []
    plane.line([(i, statistics.mean(values)) for i, values in enumerate(whole, 1)], "second", 3)
    return plane.svg()


def importance(rows: Sequence[Measurement]) -> str:
    """Chart the fraction of the variance of log times that each field explains alone. It is computed within each
    problem and family, and averaged over these weighted by their rows."""
    groups: dict[tuple[Problem, str], list[Measurement]] = {}
    for row in rows:
        if row.median_us is not None:
            groups.setdefault((row.problem, row.config.family), []).append(row)
    explained: dict[str, list[tuple[float, int]]] = {}
    for (_, family), own in groups.items():
        if len(own) < FEWEST_OF_A_FIELD:
            continue
        logs = [math.log(row.median_us or 1.0) for row in own]
        for name in own[0].config.as_dict():
            part = _explained([getattr(row.config, name) for row in own], logs)
            if part is not None:
                explained.setdefault(f"{family}.{name}", []).append((part, len(own)))
    means = {name: sum(p * n for p, n in parts) / sum(n for _, n in parts) for name, parts in explained.items()}
    most = sorted(means.items(), key=lambda item: -item[1])[:MOST_FIELDS]
    return bars([Bar(name, part, f"{100 * part:.0f} %") for name, part in most], "Which fields explain the times")


def _explained(values: Sequence[object], logs: Sequence[float]) -> float | None:
    """Return the explained fraction, corrected for chance as in an adjusted R squared. None where the field or the
    times do not vary."""
    groups: dict[object, list[float]] = {}
    for value, log in zip(values, logs, strict=True):
        groups.setdefault(value, []).append(log)
    whole = statistics.pvariance(logs)
    if len(groups) < 2 or len(groups) >= len(logs) or not whole:
        return None
    within = sum(statistics.pvariance(group) * len(group) for group in groups.values()) / len(logs)
    left = within / whole * (len(logs) - 1) / (len(logs) - len(groups))
    return max(0.0, 1.0 - left)


def failures(rows: Sequence[Measurement]) -> str:
    counts = Counter(row.outcome for row in rows if not row.correct)
    by_outcome = [Bar(outcome, count, str(count)) for outcome, count in counts.most_common()]
    return bars(by_outcome, "Failures by outcome")
