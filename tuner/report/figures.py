"""The figures of a report, as SVG."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from qconv.op import Problem
from qconv.tune_db.measurement import Measurement
from qconv.tuner.report.charts import Axis, Bar, Plane, bars
from qconv.tuner.report.layer import Layer
from qconv.tuner.report.roofline import ROOFLINES

MOST_FIELDS, FEWEST_OF_A_FIELD = 12, 8
LEAST_PART = 0.005  # of the variance; less would be shown as 0 %


def roofline(layers: Sequence[Layer], device: str) -> str | None:
    """Chart each winner's rate over its operations per byte. None on the CPU device."""
    # Problems without operations have no place on a logarithmic axis.
    points = [(one.problem.operations / one.problem.io_bytes, one.tops, one) for one in layers if one.tops]
    if not points:
        return None
    known = ROOFLINES.get(device)
    highest = max([tops for _, tops, _ in points] + ([known.tops] if known else []))
    lowest = min(tops for _, tops, _ in points)
    ridge = [known.tops / known.tb_per_s] if known else []
    few = min([x for x, _, _ in points] + ridge)
    many = max([x for x, _, _ in points] + ridge)
    x = Axis("operations per byte", 10 ** math.floor(math.log10(few)), many * 3, log=True)
    y = Axis("TOPS", 10 ** math.floor(math.log10(lowest)), highest * 1.6, log=True)
    plane = Plane(x, y, f"TOPS over operations per byte of {len(points)} problems")
    if known:
        begin = max(x.low, y.low / known.tb_per_s)
        plane.line([(begin, begin * known.tb_per_s), (ridge[0], known.tops), (x.high, known.tops)], "second")
        plane.word(x.high, known.tops, f"{known.tops:,.0f} TOPS, {known.tb_per_s:g} TB/s", "end")
    for across, tops, one in points:
        plane.point(across, tops, f"{one.problem}: {one.best_us:.2f} us, {tops:.1f} TOPS")
    return plane.svg()


def convergence(layers: Sequence[Layer]) -> str | None:
    """Chart how soon the searches found their winners. None where nothing was searched."""
    curves = [one.convergence() for one in layers if len(one.rows) > 1]
    if not curves:
        return None
    most = max(len(curve) for curve in curves)
    plane = Plane(
        Axis("trials", 0, most), Axis("best time over best so far", 0, 1.0), "How soon searches found the best"
    )
    for curve in curves:
        plane.line(list(enumerate(curve, 1)), "mark", 1, 0.25)
    whole = [[curve[min(i, len(curve) - 1)] for curve in curves] for i in range(most)]
    plane.line([(i, statistics.mean(values)) for i, values in enumerate(whole, 1)], "second", 3)
    return plane.svg()


def importance(rows: Sequence[Measurement]) -> str | None:
    """Chart the fraction of the variance of log times that each field explains alone. It is computed within each
    problem and family, and averaged over these weighted by their rows. None where no field explains any."""
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
    shown = [Bar(name, part, f"{part:.0%}") for name, part in most if part >= LEAST_PART]
    return bars(shown, "Which fields explain the times") if shown else None


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


def failures(rows: Sequence[Measurement]) -> str | None:
    counts = Counter(row.outcome for row in rows if not row.correct)
    by_outcome = [Bar(outcome, count, str(count)) for outcome, count in counts.most_common()]
    return bars(by_outcome, "Failures by outcome") if by_outcome else None
