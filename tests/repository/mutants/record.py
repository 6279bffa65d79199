"""The verdicts on mutants, in a file of a run's own that `python tests/repository/mutate.py --record FILE` writes.

A verdict is of one wording: where the mutant changes, it is judged anew.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mutants.mutant import Mutant

COLUMNS = ("planted", "fast", "slow", "missed", "equivalent", "GPU only", "not judged")


@dataclass(frozen=True)
class Judged:
    wording: str  # a digest of the mutant
    caught: str  # fast, slow; "" where nothing noticed
    seconds: float
    commit: str  # of the tree that it was planted in
    when: str  # in UTC, as 2026-11-27T19:30:00+00:00


def wording(mutant: Mutant) -> str:
    said = (mutant.symbol, mutant.old, mutant.new, mutant.tests, mutant.slow)
    return hashlib.sha256(repr(said).encode()).hexdigest()[:12]


def load(file: Path) -> dict[str, Judged]:
    return {name: Judged(**row) for name, row in json.loads(file.read_text()).items()} if file.exists() else {}


def save(found: Mapping[str, Judged], file: Path) -> None:
    rows = {name: asdict(found[name]) for name in sorted(found)}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=0) + "\n")


def of(mutant: Mutant, known: Mapping[str, Judged]) -> Judged | None:
    """The verdict on this very wording, if there is one."""
    judged = known.get(mutant.name)
    return judged if judged is not None and judged.wording == wording(mutant) else None


def column(mutant: Mutant, known: Mapping[str, Judged]) -> str:
    judged = of(mutant, known)
    if judged is None:
        return "equivalent" if mutant.gpu and mutant.equivalent else "not judged"
    if mutant.gpu and judged.caught:
        return "GPU only"
    return judged.caught or ("equivalent" if mutant.equivalent else "missed")


def table(areas: Mapping[str, Iterable[Mutant]], known: Mapping[str, Judged]) -> str:
    """Return Markdown: when mutants were judged, how many of each area there are of each kind, and those that were
    missed or not judged."""
    counts: Counter[tuple[str, str]] = Counter()
    listed: dict[str, list[str]] = {"missed": [], "not judged": []}
    for area, mutants in areas.items():
        for mutant in mutants:
            kind = column(mutant, known)
            for row in (area, "**all**"):
                counts[row, "planted"] += 1
                counts[row, kind] += 1
            if kind in listed:
                listed[kind].append(f"- {kind}: `{mutant.symbol}`, {mutant.name}")
    lines = [f"| area | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for row in (*areas, "**all**"):
        lines.append(f"| {row} | {' | '.join(str(counts[row, name]) for name in COLUMNS)} |")
    return "\n".join([_runs(known), "", *lines, "", *listed["missed"], *listed["not judged"]]).rstrip()


def _runs(known: Mapping[str, Judged]) -> str:
    if not known:
        return "No mutant was judged."
    commits = {judged.commit for judged in known.values()}
    last = max(known.values(), key=lambda judged: judged.when)
    return f"Judged in the trees of {len(commits)} commits, the last on {last.when[:10]}: {last.commit}."
