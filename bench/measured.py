"""Measured configs of many problems in one small file: the data to which the cost models' corrections are fitted.

The rows of a problem are grouped by family: the config's integers in the order of its fields, the median in
microseconds, and whether the templates at packing time gave that very source (1) or older ones did (0). The kernels of
an unfused chain are configs themselves, as text.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from document import write_document

from qconv import Conv2d, generator, parse
from qconv.errors import Infeasible
from qconv.generator import Config, Plan, config_from_json
from qconv.op import Problem
from qconv.targets.target import target
from qconv.tune_db.measurement import Measurement

PATH = Path(__file__).with_name("measured") / "nvidia-h200.json.gz"
DIGITS = 4
NEWEST, OLDER = 1, 0


@dataclass(frozen=True)
class Row:
    plan: Plan
    us: float
    is_newest: bool  # measured on the newest templates of its time

    @property
    def is_current(self) -> bool:
        """Return true if today's kernel of this config takes about as long. Older kernels of `wgmma` waited for each
        residual in device memory, or computed its address: they took 1.1 to 2.4 times as long."""
        problem = self.plan.problem
        has_residual = isinstance(problem, Conv2d) and problem.quantization.residual != "none"
        return self.is_newest or self.plan.config.family != "wgmma" or not has_residual


def pack(rows: Iterable[Measurement], path: Path) -> int:
    """Write the correct rows that can be planned, only the newest of a config on a device; return their number."""
    packed: dict[str, dict[str, dict[str, list[Any]]]] = {}
    devices = set()
    for row in sorted(rows, key=lambda row: row.created_at):
        if not row.correct or row.median_us is None or not generator.predicts_time(row.problem):
            continue
        try:
            plan = generator.plan(row.problem, row.config, target(row.target))
        except Infeasible:
            continue
        devices.add((row.device, row.target))
        newest = generator.render_kernels(plan).digest == row.digest
        own = packed.setdefault(str(row.problem), {}).setdefault(row.config.family, {})
        known = own.get(row.config.as_json())
        if known is None or newest or not known[-1]:
            time_us = float(f"{row.median_us:.{DIGITS}g}")
            own[row.config.as_json()] = [*_values(row.config), time_us, NEWEST if newest else OLDER]
    if len(devices) != 1:
        raise ValueError(f"the rows are of {len(devices)} devices; a file has those of one: {sorted(devices)}")
    ((device, name),) = devices
    problems = {
        key: {family: sorted(own.values(), key=str) for family, own in sorted(families.items())}
        for key, families in sorted(packed.items())
    }
    said = {"device": device, "target": name, "problems": problems}
    write_document(path, said)
    return sum(len(own) for families in problems.values() for own in families.values())


def read(path: Path = PATH) -> dict[Problem, list[Row]]:
    """Read the rows, without configs that later templates no longer support."""
    said = json.loads(gzip.decompress(path.read_bytes()))
    on = target(said["target"])
    found: dict[Problem, list[Row]] = {}
    for key, families in said["problems"].items():
        problem = parse(key)
        for family, rows in families.items():
            for *values, us, newest in rows:
                try:
                    plan = generator.plan(problem, _config(family, values), on)
                except Infeasible:
                    continue
                found.setdefault(problem, []).append(Row(plan, us, newest == NEWEST))
    return found


def _values(config: Config) -> list[Any]:
    if config.family == "unfused":
        return [config.as_json()]
    return [getattr(config, field.name) for field in fields(config)]


def _config(family: str, values: list[Any]) -> Config:
    if family == "unfused":
        return config_from_json(values[0])
    known = generator.FAMILIES[family]
    return known.config(*values)
