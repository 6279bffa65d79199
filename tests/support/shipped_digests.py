"""Give shipped winners today's digest if today's kernel is shown to have the machine code that was measured.

    python tests/support/shipped_digests.py COMMIT...               # those at which rows may have been measured
    python tests/support/shipped_digests.py $(git rev-list HEAD)    # or any, the latest first: slower

A row's source is the one whose digest the row has; the first of the commits that renders it proves this. That source
and today's are compiled by the toolchain that the row names, and compared as same_code.py does, launches included.
Times stay as measured. A row without such a proof keeps its digest: lookup then says that it is of an older template.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from revisions import ROOT, WORKING_TREE, Answer, Case, Revision
from same_code import CODE, RENAMED, TEXT, Verdict, back, judged, renamed

from qconv.device.compile import compiler_for
from qconv.targets.target import TARGETS
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import as_dict, dump, parse

SHIPPED = ROOT / "instances" / "shipped"


def case_of(number: int, row: Measurement) -> Case:
    values = as_dict(row)
    return {"name": f"row {number}", **{name: values[name] for name in ("problem", "config", "target")}}


def answered(name: str, cases: Sequence[Case]) -> list[Answer]:
    with tempfile.TemporaryDirectory() as folder:
        return Revision(name, Path(folder)).answers(cases)


def measured(rows: Sequence[Measurement], cases: Sequence[Case], commits: Sequence[str]) -> dict[int, Answer]:
    """Return the source of each row that one of the commits renders as it was measured."""
    found: dict[int, Answer] = {}
    for commit in commits:
        missing = [at for at in range(len(rows)) if at not in found]
        if not missing:
            break
        answers = answered(commit, [renamed(cases[at], back(RENAMED)) for at in missing])
        of_it = {at: answer for at, answer in zip(missing, answers, strict=True) if _is_of(rows[at], answer)}
        print(f"{commit}: {len(of_it)} of {len(missing)} sources", flush=True)
        found |= of_it
    return found


def _is_of(row: Measurement, answer: Answer) -> bool:
    return bool(answer.get("digest") == row.digest)


def is_shown(row: Measurement, verdict: Verdict) -> bool:
    """Return true if the proof holds for the row's toolchain: another one may compile either source differently."""
    same_toolchain = verdict.kind == TEXT or compiler_for(TARGETS[row.target]).toolchain == row.toolchain
    return same_toolchain and verdict.kind in (TEXT, CODE)


def refreshed(rows: Sequence[Measurement], commits: Sequence[str], jobs: int) -> list[Measurement]:
    """Return the rows, with today's digests where the proof succeeds."""
    cases = [case_of(number, row) for number, row in enumerate(rows, start=1)]
    today = answered(WORKING_TREE, cases)
    stale = [at for at, row in enumerate(rows) if not _is_of(row, today[at])]
    olds = measured([rows[at] for at in stale], [cases[at] for at in stale], commits)
    proofs: dict[int, Answer] = {stale[at]: answer for at, answer in olds.items()}
    verdicts = judged([(cases[at], old, today[at]) for at, old in proofs.items()], jobs)
    shown = {at for at, verdict in zip(proofs, verdicts, strict=True) if is_shown(rows[at], verdict)}
    for at, verdict in zip(proofs, verdicts, strict=True):
        if at not in shown:
            print(f"{rows[at].problem}: {verdict.kind}: {verdict.says}")
    print(
        f"{len(rows)} rows, {len(rows) - len(stale)} of today's source; of {len(proofs)} of the others the source was "
        f"found, and {len(shown)} have its machine code ({sum(v.kind == TEXT for v in verdicts)} its very text): "
        f"{len(rows) - len(stale) + len(shown)} are current now"
    )
    return [replace(row, digest=today[at]["digest"]) if at in shown else row for at, row in enumerate(rows)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile")
    options = parser.parse_args(arguments)
    for path in sorted(SHIPPED.glob("*.json")):
        path.write_text(dump(refreshed(parse(path.read_text(), path.name), options.commits, options.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
