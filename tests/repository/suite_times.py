"""The time of a run of the tests: a table by kind and one by file, from pytest's JUnit reports.

    python -m pytest -q -n auto --dist worksteal -m "not slow" --junitxml=fast.xml
    python tests/repository/suite_times.py fast.xml

Times of several reports are added up. They are seconds of the workers: with two workers, twice the wall clock.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

MOST_FILES = 25
REST = "the rest"
# The first match determines the kind: a part of the file's name, as pytest reports it, or of the test's.
KINDS = (
    ("sanitizer", "sanitizers: builds and runs"),
    ("generator.test_compiles", "compiling for targets, reading machine code"),
    ("generator.test_amd_code", "compiling for targets, reading machine code"),
    ("generator.test_nvidia_code", "compiling for targets, reading machine code"),
    ("generator.test_same_code", "compiling for targets, reading machine code"),
    ("instances.test_export", "compiling for targets, reading machine code"),
    ("tests.generator.", "planning, spaces and sources"),
    ("tests.instances.", "lookup and instances"),
    ("tests.templates.", "kernels against the oracle"),
    ("qconv.cli", "the command line"),
    ("qconv.device", "the CPU device"),
    ("tests.qconv.", "problems, arithmetic and one-liners"),
    ("tests.hostile.", "hostile input and faults"),
    ("tests.conformance.", "other systems"),
    ("tests.tuner.", "the tuner"),
    ("tests.tune_db.", "the database"),
    ("tests.bench.", "bench"),
    ("tests.repository.", "the repository's own rules"),
)


@dataclass(frozen=True)
class Timed:
    file: str  # tests.generator.test_plan
    test: str
    seconds: float

    @property
    def kind(self) -> str:
        return next((kind for part, kind in KINDS if part in f"{self.file}::{self.test}"), REST)


def read(report: Path) -> Iterator[Timed]:
    """Yield every test of a report that took any time, including its fixtures."""
    for case in ElementTree.parse(report).iter("testcase"):
        yield Timed(case.get("classname", ""), case.get("name", ""), float(case.get("time", "0")))


def table(timed: Iterable[Timed]) -> str:
    every = list(timed)
    total = sum(each.seconds for each in every)
    kinds, files = defaultdict[str, float](float), defaultdict[str, float](float)
    for each in every:
        kinds[each.kind] += each.seconds
        files[each.file] += each.seconds
    longest = [sorted(times.items(), key=lambda item: -item[1]) for times in (kinds, files)]
    lines = [f"| of {total:.0f} s in {len(every)} tests | s | share |", "|---|---|---|"]
    for name, seconds in (*longest[0], *longest[1][:MOST_FILES]):
        lines.append(f"| {name} | {seconds:.1f} | {seconds / total:.0%} |" if total else f"| {name} | 0.0 | 0% |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", type=Path, nargs="+", help="what pytest --junitxml wrote")
    options = parser.parse_args(arguments)
    if missing := [str(report) for report in options.reports if not report.is_file()]:
        sys.exit(f"no such report: {', '.join(missing)}; write one with pytest --junitxml=FILE")
    print(table(each for report in options.reports for each in read(report)))


if __name__ == "__main__":
    main()
