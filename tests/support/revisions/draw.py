"""Draw cases by the code of the revision in a folder: python draw.py <folder> <random plans> <seed>. The output is a
JSON list of golden cases, shipped winners and random plans of every family and target."""

from __future__ import annotations

import itertools
import json
import random
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from alone import check, forget_installed

forget_installed()
FOLDER = Path(sys.argv[1])
sys.path += sorted({str(file.parent) for file in (FOLDER / "tests").rglob("*.py")})

from golden_cases import CASES, plan_of  # noqa: E402
from random_conversions import conversions  # noqa: E402
from random_fused import fused_plan, fused_problems  # noqa: E402
from random_matrix import matrix_plan, matrix_problems  # noqa: E402
from random_problems import problems  # noqa: E402
from random_special import SHAPES, special_plan, special_problems  # noqa: E402

from qconv import generator  # noqa: E402
from qconv.errors import Infeasible  # noqa: E402
from qconv.generator import FAMILIES, Plan  # noqa: E402
from qconv.targets.target import TARGETS, Target  # noqa: E402


def case_of(name: str, plan: Plan) -> dict[str, Any]:
    config = json.loads(plan.config.as_json())
    return {"name": name, "problem": str(plan.problem), "config": config, "target": plan.target.name}


def shipped() -> Iterator[dict[str, Any]]:
    for path in sorted((resources.files("qconv.instances") / "shipped").iterdir(), key=lambda path: path.name):
        if path.name.endswith(".json"):
            for number, row in enumerate(json.loads(path.read_text()), start=1):
                yield {"name": f"row {number} of {path.name}"} | {n: row[n] for n in ("problem", "config", "target")}


def random_plan(family: str, target: Target, seed: int) -> Plan:
    """Return a random plan of the family; raise Infeasible or IndexError if the target has none."""
    if family in ("fused", "block", "unfused"):
        layers = 3 if family == "block" else 2 + seed % 2 * (family == "unfused")
        if not target.instructions:
            raise Infeasible("no matrix instruction")
        (chain,) = fused_problems(seed, 1, target, layers)
        return generator.unfused_plan(chain, target) if family == "unfused" else fused_plan(chain, target, seed)
    if family == "mma":
        if not target.instructions:
            raise Infeasible("no matrix instruction")
        (problem,) = matrix_problems(seed, 1, target)
        return matrix_plan(problem, target, seed)
    if family in SHAPES:
        (problem,) = special_problems(family, seed, 1)
        return special_plan(family, problem, target, seed)
    if family == "simt":
        (problem,) = problems(seed, 1)
        return special_plan(family, problem, target, seed)
    of_family = [one for one in conversions(seed, 10) if one.op in FAMILIES[family].ops]
    return special_plan(family, of_family[0], target, seed)  # type: ignore[arg-type]


def randomly(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield cases of every family in turn, and of each family every target in turn."""
    rng = random.Random(f"cases {seed}")
    turns = {family: itertools.cycle(rng.sample(list(TARGETS), len(TARGETS))) for family in FAMILIES}
    for number in range(count):
        family = list(FAMILIES)[number % len(FAMILIES)]
        for target in itertools.islice(turns[family], len(TARGETS)):
            try:
                plan = random_plan(family, TARGETS[target], seed * 10_000 + number)
            except (Infeasible, IndexError, StopIteration):
                continue
            yield case_of(f"random {number}: {family} on {target}", plan)
            break


def main() -> None:
    golden = [case_of(name, plan_of(name)) for name in CASES]
    drawn = [*golden, *shipped(), *randomly(int(sys.argv[2]), int(sys.argv[3]))]
    check(sys.argv[1])
    json.dump(drawn, sys.stdout)


if __name__ == "__main__":
    main()
