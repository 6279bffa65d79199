"""Give shipped winners and recorded results today's digest if today's kernel is shown to have the machine code that was
measured.

    python tests/support/shipped_digests.py COMMIT...               # those at which rows may have been measured
    python tests/support/shipped_digests.py $(git rev-list HEAD)    # or any, the latest first: slower
    python tests/support/shipped_digests.py --results COMMIT...     # of bench/results, as page_tables.py reads them

A row's source is the one whose digest the row has; the first of the commits that renders it proves this. That source
and today's are compiled by the toolchain that the row names, and compared as same_code.py does, launches included.
Times stay as measured. A row without such a proof keeps its digest: lookup then says that it is of an older template,
and a table leaves it out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from revisions import ROOT, WORKING_TREE, Answer, Case, Revision
from same_code import CODE, RENAMED, TEXT, Verdict, back, judged, renamed

from qconv.device.compile import compiler_for
from qconv.targets.target import TARGETS
from qconv.tune_db.measurement import Measurement
from qconv.tune_db.text import as_dict, dump, parse

SHIPPED, RESULTS = ROOT / "instances" / "shipped", ROOT / "bench" / "results"


@dataclass(frozen=True)
class Measured:
    """A kernel that was measured: what it was made of, by which compiler, and the digest of its source then."""

    problem: str
    config: str  # JSON
    target: str
    toolchain: str
    digest: str

    @classmethod
    def of(cls, row: Measurement) -> Measured:
        values = as_dict(row)
        return cls(values["problem"], json.dumps(values["config"]), row.target, row.toolchain, row.digest)


def case_of(number: int, kernel: Measured) -> Case:
    made = {"problem": kernel.problem, "config": json.loads(kernel.config), "target": kernel.target}
    return {"name": f"row {number}", **made}


def answered(name: str, cases: Sequence[Case]) -> list[Answer]:
    with tempfile.TemporaryDirectory() as folder:
        return Revision(name, Path(folder)).answers(cases)


def measured(kernels: Sequence[Measured], cases: Sequence[Case], commits: Sequence[str]) -> dict[int, Answer]:
    """Return the source of each kernel that one of the commits renders as it was measured."""
    found: dict[int, Answer] = {}
    for commit in commits:
        missing = [at for at in range(len(kernels)) if at not in found]
        if not missing:
            break
        answers = answered(commit, [renamed(cases[at], back(RENAMED)) for at in missing])
        of_it = {at: answer for at, answer in zip(missing, answers, strict=True) if _is_of(kernels[at], answer)}
        print(f"{commit}: {len(of_it)} of {len(missing)} sources", flush=True)
        found |= of_it
    return found


def _is_of(kernel: Measured, answer: Answer) -> bool:
    return bool(answer.get("digest") == kernel.digest)


def is_shown(kernel: Measured, verdict: Verdict) -> bool:
    """Return true if the proof holds for the row's toolchain: another one may compile either source differently."""
    same_toolchain = verdict.kind == TEXT or compiler_for(TARGETS[kernel.target]).toolchain == kernel.toolchain
    return same_toolchain and verdict.kind in (TEXT, CODE)


def proved(kernels: Sequence[Measured], commits: Sequence[str], jobs: int) -> dict[Measured, str]:
    """Return today's digest of each kernel that is of today's source, or is proved to have its machine code."""
    cases = [case_of(number, kernel) for number, kernel in enumerate(kernels, start=1)]
    today = answered(WORKING_TREE, cases)
    stale = [at for at, kernel in enumerate(kernels) if not _is_of(kernel, today[at])]
    olds = measured([kernels[at] for at in stale], [cases[at] for at in stale], commits)
    proofs: dict[int, Answer] = {stale[at]: answer for at, answer in olds.items()}
    verdicts = judged([(cases[at], old, today[at]) for at, old in proofs.items()], jobs)
    shown = {at for at, verdict in zip(proofs, verdicts, strict=True) if is_shown(kernels[at], verdict)}
    for at, verdict in zip(proofs, verdicts, strict=True):
        if at not in shown:
            print(f"{kernels[at].problem}: {verdict.kind}: {verdict.says}")
    print(
        f"{len(kernels)} kernels, {len(kernels) - len(stale)} of today's source; of {len(proofs)} of the others the "
        f"source was found, and {len(shown)} have its machine code ({sum(v.kind == TEXT for v in verdicts)} its very "
        f"text): {len(kernels) - len(stale) + len(shown)} are current now"
    )
    current = {at for at in range(len(kernels)) if at not in stale} | shown
    return {kernels[at]: today[at]["digest"] for at in current}


def refresh_winners(commits: Sequence[str], jobs: int) -> None:
    for path in sorted(SHIPPED.glob("*.json")):
        rows = parse(path.read_text(), path.name)
        digests = proved([Measured.of(row) for row in rows], commits, jobs)
        fresh = [replace(row, digest=digests.get(Measured.of(row), row.digest)) for row in rows]
        path.write_text(dump(fresh))


def recorded(document: dict[str, Any]) -> Iterator[Measured]:
    """Yield the kernels of a file of results that name their digests; see bench/current.py."""
    device = document.get("device")
    if not isinstance(device, dict) or device.get("target") not in TARGETS:
        return
    target, toolchain = device["target"], document.get("toolchain", "")
    for row in document.get("rows", ()):
        digests, problems = row.get("digests", {}), row.get("problems", {})
        for name, config in row.get("configs", {}).items():
            if name in digests:
                problem = problems.get(name, row.get("problem", name))
                yield Measured(problem, json.dumps(config), target, toolchain, digests[name])
        if "configs" not in row and row.get("digest") and row.get("config"):
            yield Measured(row["problem"], json.dumps(row["config"]), target, toolchain, row["digest"])


def refresh_results(commits: Sequence[str], jobs: int) -> None:
    """Replace digests in the text of the files: a digest is of one source."""
    files = {path: path.read_text() for path in sorted(RESULTS.glob("*/*.json"))}
    documents = {path: json.loads(text) for path, text in files.items()}
    kernels = dict.fromkeys(kernel for document in documents.values() for kernel in recorded(document))
    digests = proved(list(kernels), commits, jobs)
    changed = {kernel.digest: now for kernel, now in digests.items() if kernel.digest != now}
    for path, text in files.items():
        for old, now in changed.items():
            text = text.replace(f'"{old}"', f'"{now}"')
        path.write_text(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="+")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compile")
    parser.add_argument("--results", action="store_true", help="of bench/results, not of the shipped winners")
    options = parser.parse_args(arguments)
    (refresh_results if options.results else refresh_winners)(options.commits, options.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
