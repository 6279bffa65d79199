"""Results as if they had been measured on today's kernels: tests must not depend on how old the committed ones are."""

from __future__ import annotations

import copy
import json
from typing import Any

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import config_from_json
from qconv.ops.registry import parse
from qconv.targets.target import target


def of_today(document: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with today's digests, of the rows whose config is still feasible."""
    made, on = copy.deepcopy(document), target(document["device"]["target"])
    rows = []
    for row in made["rows"]:
        try:
            plan = generator.plan(parse(row["problem"]), config_from_json(json.dumps(row["config"])), on)
        except (Infeasible, ValueError):
            continue
        rows.append(row | {"digest": generator.render_kernels(plan).digest})
    return made | {"rows": rows}
