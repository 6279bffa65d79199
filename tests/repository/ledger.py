"""A ledger of the tests that ran in several runs of pytest, and of those that never ran.

    QCONV_TESTS_LEDGER=ledger python -m pytest -m "not slow"        # adds a line for each test
    python tests/repository/ledger.py ledger --one-in 15 --out left  # those that ran in none: pytest @left
    python tests/repository/ledger.py ledger --one-in 15             # exit status 1: one ran in none, and why

A test is expected to run unless it is marked `gpu` or `--one-in` leaves it out. The existing tests are collected anew:
a file that no run collected is also reported.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

VARIABLE = "QCONV_TESTS_LEDGER"
RAN, SKIPPED = "ran", "skipped"
NEVER = "no run came to it"


class Ledger:
    """A pytest plugin that adds a line to a file for each test, and for each file that was skipped as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._add(report.nodeid, SKIPPED, reason_of(report))
        elif report.when == "call" or report.failed:
            self._add(report.nodeid, RAN)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._add(report.nodeid, SKIPPED, reason_of(report))

    def _add(self, test: str, outcome: str, reason: str = "") -> None:
        with self._path.open("a") as lines:
            lines.write(json.dumps([test, outcome, reason]) + "\n")


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


@dataclass(eq=False)
class Collection:
    """A pytest plugin that records the existing tests without running any."""

    tests: dict[str, bool] = field(default_factory=dict)  # whether each is expected to run
    files: set[Path] = field(default_factory=set)  # files that have tests, even if they are left out
    skipped: dict[str, str] = field(default_factory=dict)  # files skipped as a whole -> the reason

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self.files.add(item.path)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped[report.nodeid] = reason_of(report)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.tests = {item.nodeid: item.get_closest_marker("gpu") is None for item in session.items}


def collected(arguments: Iterable[str], root: Path) -> Collection:
    """Collect the tests below `root`, as pytest finds them with these arguments."""
    found, said = Collection(), io.StringIO()
    before = Path.cwd()
    os.chdir(root)
    try:
        with contextlib.redirect_stdout(said):
            options = ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(root)]
            status = pytest.main([*options, *arguments], plugins=[found])
    finally:
        os.chdir(before)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the tests cannot be collected\n{said.getvalue()[-4000:]}")
    return found


def missing(ledger: Path, found: Collection, root: Path) -> dict[str, str]:
    """Map each test that never ran, and each file without tests, to the last reason in the ledger."""
    ran, reasons = set(), dict[str, str]()
    for line in ledger.read_text().splitlines() if ledger.exists() else []:
        test, outcome, reason = json.loads(line)
        if outcome == RAN:
            ran.add(test)
        else:
            reasons[test] = reason
    expected = [test for test, is_expected in found.tests.items() if is_expected and test not in ran]
    left = {test: reasons.get(test) or reasons.get(test.partition("::")[0]) or NEVER for test in expected}
    named = {root / file for file in found.skipped}
    unseen = sorted(file for file in (root / "tests").rglob("test_*.py") if file not in found.files | named)
    return left | found.skipped | {str(file.relative_to(root)): "pytest collects nothing in it" for file in unseen}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ledger", type=Path, help=f"the file that {VARIABLE} named")
    parser.add_argument("--one-in", default="1", metavar="N", help="leaves out the tests that pytest's option does")
    parser.add_argument("--out", type=Path, metavar="FILE", help="lists them there, one a line, and exits with 0")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the repository, if it is another")
    options = parser.parse_args(arguments)
    found = collected(["--one-in", options.one_in], options.root)
    left = missing(options.ledger, found, options.root)
    if options.out is not None:
        options.out.write_text("".join(f"{test}\n" for test in left))
        print(f"{len(left)} of {len(found.tests)} tests are left")
        return 0
    for test, reason in left.items():
        print(f"{test}: {reason}")
    on_gpus = sum(not is_expected for is_expected in found.tests.values())
    print(f"{len(found.tests)} tests: {on_gpus} need a GPU, {len(left)} ran in no run")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
