"""Show that a rename, a move or a refactor changed no machine code.

    python tests/support/same_code.py OLD             # a commit, against the working tree
    python tests/support/same_code.py OLD NEW --random 50 --jobs 2

OLD draws the cases: every golden one, every shipped winner, and random plans of all families and targets. Each revision
renders them by its own code. Where the texts differ, both are compiled by the same compiler and disassembled, and the
instructions are compared one by one, register for register (machine_code/listing.py lists the ignored names). Exit
status 1: a case differs, or could not be shown to be the same.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from machine_code.listing import first_difference, listing
from revisions import WORKING_TREE, Answer, Case, Revision

from qconv.errors import CompileError
from qconv.generator import Source
from qconv.generator.source import code_of
from qconv.targets.target import TARGETS

# Old -> new. A family ("simt"), a field of a family's config ("mma.tail"), a target ("sm_90a").
RENAMED: dict[str, str] = {}
# Functions of the CPU runtime that kernels call, old -> new.
RENAMED_CALLS: dict[str, str] = {}

TEXT, CODE, DIFFERENT, UNKNOWN = "text identical", "code identical", "code different", "not compiled"


@dataclass(frozen=True)
class Verdict:
    case: Case
    kind: str
    says: str = ""


def back(names: Mapping[str, str]) -> dict[str, str]:
    """Return the table from the new names to the old."""
    turned = {}
    for old, new in names.items():
        family, _, field = old.partition(".")
        turned[f"{names.get(family, family)}.{new}" if field else new] = field or old
    return turned


def renamed(case: Case, names: Mapping[str, str]) -> Case:
    """Return the case in the new revision's names."""
    target = names.get(case["target"], case["target"])
    return case | {"config": _renamed_config(case["config"], names), "target": target}


def _renamed_config(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    family = config["family"]
    values: dict[str, Any] = {"family": names.get(family, family)}
    for name, value in config.items():
        if name != "family":
            inner = _renamed_config(value, names) if isinstance(value, dict) else value
            values[names.get(f"{family}.{name}", name)] = inner
    return values


def compare(case: Case, old: Answer, new: Answer) -> Verdict:
    """Compare both revisions' answers to a case."""
    if "refused" in old or "refused" in new:
        same = "refused" in old and "refused" in new
        return Verdict(case, TEXT if same else DIFFERENT, f"{old.get('refused')}  ->  {new.get('refused')}")
    shapes = [[one["shape"] for kernel in each["kernels"] for one in kernel["launches"]] for each in (old, new)]
    if shapes[0] != shapes[1]:
        return Verdict(case, DIFFERENT, f"launched as {shapes[0]}  ->  {shapes[1]}")
    if len(old["kernels"]) != len(new["kernels"]):
        return Verdict(case, DIFFERENT, f"{len(old['kernels'])} sources  ->  {len(new['kernels'])}")
    pairs = [pair for pair in zip(old["kernels"], new["kernels"], strict=True) if pair[0]["text"] != pair[1]["text"]]
    try:
        differences = [
            first_difference(*(_listing(case, kernel, not at) for at, kernel in enumerate(p))) for p in pairs
        ]
    except CompileError as error:
        # No compiler is needed if the texts differ only in comments and layout: they are the same program.
        if all(code_of(one["text"]) == code_of(other["text"]) for one, other in pairs):
            return Verdict(case, CODE, "by its text")
        return Verdict(case, UNKNOWN, str(error).splitlines()[0])
    if differs := next(filter(None, differences), ""):
        return Verdict(case, DIFFERENT, differs)
    return Verdict(case, CODE if pairs else TEXT)


def _listing(case: Case, kernel: Answer, is_old: bool) -> list[str]:
    source = Source(kernel["text"], "", kernel["suffix"])
    names = [launch["kernel"] for launch in kernel["launches"]]
    return listing(source, TARGETS[case["target"]], names, RENAMED_CALLS if is_old else {})


def judged(triples: Iterable[tuple[Case, Answer, Answer]], jobs: int) -> list[Verdict]:
    """Compare in `jobs` processes; cases that need no compiling are fast."""
    columns = list(zip(*triples, strict=True))
    if not columns:
        return []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(compare, *columns, chunksize=4))


def report(verdicts: Sequence[Verdict]) -> str:
    """Return a table, and the first difference of each case."""
    kinds = (TEXT, CODE, DIFFERENT, UNKNOWN)
    rows = [f"| cases | {' | '.join(kinds)} |", f"|{'---|' * (1 + len(kinds))}"]
    for name, of_name in {"golden": _golden, "shipped": _shipped, "random": _random, "all": _every}.items():
        counts = Counter(verdict.kind for verdict in verdicts if of_name(verdict.case))
        rows.append(f"| {sum(counts.values())} {name} | {' | '.join(str(counts[kind]) for kind in kinds)} |")
    failed = [verdict for verdict in verdicts if verdict.kind in (DIFFERENT, UNKNOWN)]
    return "\n".join([*(f"{v.case['name']} ({v.case['target']}): {v.kind}: {v.says}" for v in failed), *rows])


def _shipped(case: Case) -> bool:
    return bool(case["name"].startswith("row "))


def _every(case: Case) -> bool:
    return True


def _random(case: Case) -> bool:
    return bool(case["name"].startswith("random "))


def _golden(case: Case) -> bool:
    return not _shipped(case) and not _random(case)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", default=WORKING_TREE, help="a commit; without one, the working tree")
    parser.add_argument("--random", type=int, default=200, metavar="N", help="number of random plans")
    parser.add_argument("--seed", type=int, default=0, help="of the random plans")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile")
    parser.add_argument("--without", action="append", default=[], metavar="TARGET", help="leaves its cases out")
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="beside those of the table")
    options = parser.parse_args(arguments)
    names = RENAMED | dict(one.split("=", 1) for one in options.rename)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        old, new = Revision(options.old, Path(one)), Revision(options.new, Path(other))
        cases = [case for case in old.drawn(options.random, options.seed) if case["target"] not in options.without]
        today = list(map(partial(renamed, names=names), cases))
        triples = list(zip(today, old.answers(cases), new.answers(today), strict=True))
    verdicts = judged(triples, options.jobs)
    print(report(verdicts))
    print(f"{time.monotonic() - begin:.0f} s")
    return 1 if any(verdict.kind in (DIFFERENT, UNKNOWN) for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
