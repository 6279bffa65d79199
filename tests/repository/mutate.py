"""Plant the bugs of `mutants` one by one in a copy of the repository, and report which of them the tests notice.

    python tests/repository/mutate.py                      # all of them
    python tests/repository/mutate.py --jobs 2 mma tuner   # those whose name, area or file contains a word
    python tests/repository/mutate.py --sample 12          # some of every area, others for each commit
    python tests/repository/mutate.py --again seen.json    # what an earlier run with --json seen.json refused
    python tests/repository/mutate.py --record FILE        # keeps the verdicts there
    python tests/repository/mutate.py --table FILE         # plants nothing: prints what was kept there, as a table

A mutant is caught if one of its named tests fails, and passes without it. With --whole, mutants that these tests miss
are run against the fast suite, and then the slow one. Exit status 1: one was missed that is not explained as
equivalent, or is not a valid mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mutants import AREAS, record
from mutants.mutant import COMPARE_TEXT, ROOT, Mutant
from mutants.node_ids import node_ids
from mutants.tree import Tree

TIME_LIMIT_S = 600.0
PASSED, FAILED, NOT_DONE = 0, 1, 99  # pytest's exit status; others say that it could not run the tests
# A mutant with one of these is not a program: that it fails says nothing about the tests.
NOT_A_PROGRAM = ("CompileError", "TemplateSyntaxError", "UndefinedError", "SyntaxError", "NameError", "ImportError")
# A source that fails its own static assertions was tested.
REFUSES_ITSELF = "static assertion failed"
# A mutant may have spoilt the cache, so it gets its own.
OWN_CACHE = "src/qconv/device"


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    caught_by: str  # named, fast, slow; "" if nothing noticed
    says: str  # message of the failing test
    seconds: float
    invalid: bool = False
    unfinished: bool = False

    @property
    def is_accepted(self) -> bool:
        return not self.invalid and bool(self.caught_by) != bool(self.mutant.equivalent)

    @property
    def failed(self) -> tuple[str, ...]:
        """Return node ids: the failing test, or the one whose fixture failed; all tests of the mutant if the process
        died."""
        word, _, rest = self.says.partition(" ")
        if word in ("FAILED", "ERROR"):
            return (rest.partition(" - ")[0],)
        return node_ids(self.mutant.tests) if self.caught_by else ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"is_accepted": self.is_accepted}


class Copy:
    """The working tree with its untracked files, in a folder of its own from which `qconv` is imported."""

    def __init__(self, root: Path, cache: Path, limit_s: float = TIME_LIMIT_S) -> None:
        self.root, self.tree, self._cache, self._limit_s = root, Tree(ROOT), cache, limit_s
        listed = subprocess.check_output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
        )
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).exists():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                # The links of src/qconv stay links: they lead to the folders of the copy.
                shutil.copyfile(ROOT / name, root / name, follow_symlinks=False)

    @property
    def _environment(self) -> dict[str, str]:
        """Return the environment; Python writes no bytecode, which a mutant of the same second and length would
        share."""
        return os.environ | {"PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}

    def pytest(self, arguments: Sequence[str], *, own_cache: bool = False) -> tuple[int, str]:
        """Return exit status and output; a run that times out is no verdict, because the machine may be busy."""
        environment = self._environment | {
            "COLUMNS": "400",  # the summary names the error, which a narrow terminal cuts off
            "QCONV_TESTS_CACHE": "" if own_cache else str(self._cache),
        }
        # All tests that take turns: a verdict is of no one commit.
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--one-in", "1", *arguments]
        with subprocess.Popen(
            command, cwd=self.root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=self._limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return NOT_DONE, f"not done within {self._limit_s:g} s"
        return process.returncode, output

    def check_imports(self) -> None:
        """Check that a test in this folder tests this folder, not the installed package."""
        imported = subprocess.check_output(
            [sys.executable, "-c", "import qconv.generator, qconv.tuner; print(qconv.generator.__file__)"],
            cwd=self.root, env=self._environment, text=True,
        )  # fmt: skip
        if not Path(imported.strip()).resolve().is_relative_to(self.root.resolve()):
            raise SystemExit(f"{imported.strip()} is imported instead of the copy in {self.root}")

    def check_honest(self, tests: Sequence[str]) -> None:
        """Check that tests that failed with a mutant pass without one: otherwise they say nothing about it."""
        status, output = self.pytest(tests) if tests else (PASSED, "")
        if status not in (PASSED, NOT_DONE):
            raise SystemExit(f"without a mutant, a test that caught one fails as well\n{output[-4000:]}")

    @contextmanager
    def planted(self, mutant: Mutant) -> Iterator[None]:
        path, text = self.tree.planted(mutant)
        (self.root / path).write_text(text)
        try:
            yield
        finally:
            (self.root / path).write_text(self.tree.texts[path])


def judge(copy: Copy, mutant: Mutant, whole: bool) -> Verdict:
    """Run the named tests and, if these pass and `whole` is set, the suites."""
    begin = time.monotonic()
    ignored = [f"--deselect={test}" for test in COMPARE_TEXT]
    named = [*node_ids(mutant.tests)]
    if not mutant.slow:
        named = ["-m", "gpu" if mutant.gpu else "not slow", *named]
    runs = {"named": named, "fast": ["-m", "not slow", *ignored], "slow": ["-m", "slow", *ignored]}
    own_cache = copy.tree.place(mutant).path.is_relative_to(OWN_CACHE)
    caught_by, says, invalid, unfinished = "", "", False, False
    with copy.planted(mutant):
        for suite, arguments in runs.items() if whole else [("named", named)]:
            status, output = copy.pytest(arguments, own_cache=own_cache)
            says = _reason(output) if status >= 0 else f"the process died by signal {-status}"
            # Killed by a signal: by a wild address that no sanitizer saw, or from outside, as when memory ran out.
            crashed = status < 0
            unfinished = status == NOT_DONE
            invalid = status > FAILED or (REFUSES_ITSELF not in says and any(word in says for word in NOT_A_PROGRAM))
            invalid |= crashed and not mutant.crashes
            if (status == FAILED or crashed) and not invalid:
                caught_by = suite
            if status != PASSED:
                break
    return Verdict(mutant, caught_by, says, round(time.monotonic() - begin, 1), invalid, unfinished)


def _reason(output: str) -> str:
    """Return the line of pytest's summary about the failed test, or the last line."""
    lines = output.strip().splitlines() or [""]
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])[:300]


def sample(count: int, seed: str) -> list[Mutant]:
    """Return `count` mutants that the fast suite should notice here, of one area after the other."""
    rng = random.Random(seed)
    areas = [[m for m in rng.sample(mutants, len(mutants)) if _is_for_samples(m)] for mutants in AREAS.values()]
    rng.shuffle(areas)
    depth = max(map(len, areas))
    in_turn = [area[at] for at in range(depth) for area in areas if at < len(area)]
    return in_turn[:count]


def _is_for_samples(mutant: Mutant) -> bool:
    if mutant.slow or mutant.gpu or mutant.equivalent:
        return False
    return not mutant.needs or find_spec(mutant.needs) is not None


def commit() -> str:
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def run(mutants: Sequence[Mutant], jobs: int = 1, whole: bool = False, limit_s: float = TIME_LIMIT_S) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="qconv-mutants-") as folder:
        copies: queue.Queue[Copy] = queue.Queue()
        for index in range(jobs):
            (root := Path(folder, f"copy{index}")).mkdir()
            copies.put(Copy(root, Path(folder, "cache"), limit_s))
        copies.queue[0].check_imports()

        def judged(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                verdict = judge(copy, mutant, whole)
            finally:
                copies.put(copy)
            print(_line(verdict), flush=True)
            return verdict

        with ThreadPoolExecutor(jobs) as pool:
            verdicts = list(pool.map(judged, mutants))
            failed = sorted({test for v in verdicts if not v.invalid for test in v.failed})
            list(pool.map(Copy.check_honest, copies.queue, [failed[first::jobs] for first in range(jobs)]))
        return verdicts


def _line(verdict: Verdict) -> str:
    word = "INVALID" if verdict.invalid else verdict.caught_by or ("equivalent" if verdict.is_accepted else "MISSED")
    return f"{word:10} {verdict.seconds:6.1f} s  {verdict.mutant.symbol}: {verdict.mutant.name}"


def judged_anew(verdicts: Sequence[Verdict], earlier: Mapping[str, record.Judged]) -> dict[str, record.Judged]:
    """Return the earlier verdicts with these: one that is no verdict changes nothing."""
    known, at, now = dict(earlier), commit()[:10], datetime.now(UTC).isoformat(timespec="seconds")
    for verdict in verdicts:
        mutant = verdict.mutant
        if not verdict.invalid:
            suite = "slow" if mutant.slow or verdict.caught_by == "slow" else "fast"
            caught = suite if verdict.caught_by else ""
            known[mutant.name] = record.Judged(record.wording(mutant), caught, verdict.seconds, at, now)
    every = {mutant.name for mutants in AREAS.values() for mutant in mutants}
    return {name: judged for name, judged in known.items() if name in every}


def named_by(words: Sequence[str], mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return those whose name, area, symbol or file contains one of the words."""
    tree = Tree(ROOT)
    area_of = {mutant.name: area for area, mutants in AREAS.items() for mutant in mutants}
    said = {m.name: (m.name, area_of[m.name], m.symbol, str(tree.place(m).path)) for m in mutants}
    return [m for m in mutants if any(word in text for word in words for text in said[m.name])]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="parts of names, areas or paths; without one, all mutants")
    parser.add_argument("--jobs", type=int, default=1, help="copies that are worked on at once")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of them, chosen by the commit")
    parser.add_argument("--whole", action="store_true", help="what named tests miss meets both suites")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes every verdict there")
    parser.add_argument("--gpu", action="store_true", help="those that only a GPU notices, and no others")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only what an earlier run refused")
    parser.add_argument("--record", type=Path, metavar="FILE", help="keeps the verdicts there, beside those of others")
    parser.add_argument("--table", type=Path, metavar="FILE", help="plants nothing; shows what --record kept there")
    options = parser.parse_args(arguments)
    if options.table:
        print(record.table(AREAS, record.load(options.table)))
        return 0
    chosen = sample(options.sample, commit()) if options.sample else [m for ms in AREAS.values() for m in ms]
    chosen = [mutant for mutant in chosen if mutant.gpu == options.gpu]
    if options.words:
        chosen = named_by(options.words, chosen)
    if options.again:
        accepted = {row["mutant"]["name"] for row in json.loads(options.again.read_text()) if row["is_accepted"]}
        chosen = [mutant for mutant in chosen if mutant.name not in accepted]
    verdicts = run(chosen, options.jobs, options.whole)
    known = judged_anew(verdicts, record.load(options.record) if options.record else {})
    if options.record:
        record.save(known, options.record)
    print(record.table(AREAS, known))
    if options.json:
        options.json.write_text(json.dumps([v.as_dict() for v in verdicts], indent=1) + "\n")
    refused = [verdict for verdict in verdicts if not verdict.is_accepted]
    for verdict in refused:
        print(f"{_line(verdict)}\n    {verdict.mutant.why}\n    {verdict.says}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
