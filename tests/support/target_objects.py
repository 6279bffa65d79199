"""Objects of every kernel family for a target, and what the readers of machine code find in them.

    python tests/support/target_objects.py                # all targets, into bench/results/machine-code/objects.json
    python tests/support/target_objects.py sm_87 gfx950   # these alone: the rows of others stay

A family is tried with the problems of its golden cases, and compiled for the first that it can serve on the target, in
the config that its cost model likes best. `python bench/page_tables.py` then makes the pages' tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from compiler_log import has_warning
from disassembly import disassembled, unset_addresses
from golden_cases import CASES, plan_of
from machine_code import amd, nvidia

from qconv import generator
from qconv.device.binary import resources
from qconv.device.compile import compiler_for
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.op import Problem
from qconv.targets.target import TARGETS, Target, target

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "bench/results/machine-code/objects.json"


@dataclass(frozen=True)
class Made:
    """An object, and the verdict of the reader: `refused` names what it found."""

    target: str
    toolchain: str
    family: str
    problem: str
    config: str
    bytes: int
    registers: int
    spill_bytes: int
    matrix_instructions: int
    barriers: int
    refused: tuple[str, ...]


@lru_cache(maxsize=1)
def problems() -> dict[str, tuple[Problem, ...]]:
    """Return the problems of each family's golden cases. A chain that runs unfused is kernels of other families."""
    found: dict[str, dict[Problem, None]] = {}
    for name in CASES:
        plan = plan_of(name)
        if len(plan.kernels) == 1:
            found.setdefault(plan.config.family, {})[plan.problem] = None
    return {family: tuple(listed) for family, listed in found.items()}


def plan_of_family(family: str, on: Target) -> Plan | None:
    """Return a plan of the family for the target, or None where it serves none of its problems there."""
    for problem in problems()[family]:
        try:
            plans = generator.cheapest(problem, on, 1)
        except Infeasible:
            continue
        for plan in plans:
            if plan.config.family == family:
                return plan
    return None


def made_for(on: Target) -> Iterator[Made]:
    """Yield an object of each family that serves the target. Raises CompileError where there is no compiler for it."""
    compiler = compiler_for(on)
    for family in problems():
        if (plan := plan_of_family(family, on)) is not None:
            yield made(plan, compiler.toolchain)


def made(plan: Plan, toolchain: str) -> Made:
    source = generator.render(plan)
    binary, log = compiler_for(plan.target).run(source)
    needs = [resources(binary, launch.kernel, log) for launch in plan.launches]
    if plan.target.vendor == "amd":
        reading = amd.read(binary, plan.target.warp_size)
        matrix, barriers = reading.matrix, reading.barriers
        refused = amd.refusals(source, plan.target, binary)
    else:
        text = disassembled(binary)
        code = [one for instructions, _ in nvidia.parse(text).values() for one in instructions]
        matrix = sum(one.operation.partition(".")[0].endswith("MMA") for one in code)
        barriers = sum(one.operation.startswith("BAR.") for one in code)
        refused = [*nvidia.complaints(text), *nvidia.serialized(log), *unset_addresses(binary)]
    return Made(
        target=plan.target.name,
        toolchain=toolchain,
        family=plan.config.family,
        problem=str(plan.problem),
        config=plan.config.as_json(),
        bytes=len(binary),
        registers=max(one.registers for one in needs),
        spill_bytes=max(one.spill_bytes or 0 for one in needs),
        matrix_instructions=matrix,
        barriers=barriers,
        refused=(*refused, *([log] if has_warning(log) else [])),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help="default: every one")
    given = [target(name) for name in parser.parse_args(arguments).targets]
    sys.path.insert(0, str(ROOT / "bench"))
    from document import write_document

    rows = (
        {}
        if not RECORD.is_file()
        else {(row["target"], row["family"]): row for row in json.loads(RECORD.read_text())["rows"]}
    )
    for on in given or [entry for entry in TARGETS.values() if entry.vendor != "cpu"]:
        rows = {key: row for key, row in rows.items() if key[0] != on.name}
        rows |= {(one.target, one.family): asdict(one) for one in made_for(on)}
        own = [row for (name, _), row in rows.items() if name == on.name]
        print(f"{on.name}: {len(own)} objects, {sum(bool(row['refused']) for row in own)} refused", flush=True)
    listed = list(TARGETS)
    order = sorted(rows, key=lambda key: (listed.index(key[0]), list(problems()).index(key[1])))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    write_document(RECORD, {"commit": commit.stdout.strip(), "rows": [rows[key] for key in order]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
