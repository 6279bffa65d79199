"""The cost of a database of many measurements: lookups, lists, merges, and bytes on disk.

    python bench/database.py --rows 1000000 --problems 10000 [--url URL] [--out FILE.json]

Creates a database (a temporary SQLite file, or tables in the empty database of --url, which remain there), fills it
with invented but realistic rows, always the same ones, and times the operations that users wait for. Each lookup is
timed in a fresh process that has planned and rendered a kernel, but opened no database. It needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from document import write_document
from made_rows import DEVICE, MadeRows, batches, problems, winner
from sqlalchemy import create_engine, make_url, text

from qconv import Conv2d
from qconv.op import Problem
from qconv.tune_db.database import Database
from qconv.tune_db.layered import Layered
from qconv.tune_db.measurement import Measurement

LOOKUPS = 7
# Looks up problems in turn. The cost models' own proposals, which do not depend on the database, are timed separately.
LOOK_UP = '''
import json, sys, time
import qconv, qconv.instances.choose.lookup, qconv.instances.load.serving, qconv.tune_db.database, qconv.tune_db.layered
from qconv import generator
from qconv.targets.target import target
class Place:
    name, target = sys.argv[1], target(sys.argv[2])
cheapest, spent = generator.cheapest, 0.0
def timed_cheapest(*given):
    global spent
    begin = time.perf_counter()
    made = cheapest(*given)
    spent += time.perf_counter() - begin
    return made
generator.cheapest = timed_cheapest
class Timed:
    """Layers, and how long they took to answer."""
    def __init__(self, layers):
        self.layers, self.spent = layers, 0.0
    def __getattr__(self, name):
        return lambda *given, **named: self.timed(lambda: getattr(self.layers, name)(*given, **named))
    def timed(self, ask):
        begin = time.perf_counter()
        answer = ask()
        self.spent += time.perf_counter() - begin
        return self.each(answer) if hasattr(answer, "__next__") else answer
    def each(self, answers):
        while (answer := self.timed(lambda: next(answers, None))) is not None:
            yield answer
first = qconv.parse(sys.argv[4])
generator.render_kernels(qconv.instances.choose.lookup.choose(first, Place(), qconv.tune_db.layered.Layered([])).plan)
begin = time.perf_counter()
with qconv.tune_db.database.Database.open(sys.argv[3], create=False) as rows:
    rows.best(first, sys.argv[1], sys.argv[2])
answers = [{"origin": "best", "ms": (time.perf_counter() - begin) * 1e3}]
for problem in map(qconv.parse, sys.argv[4:]):
    spent, begin = 0.0, time.perf_counter()
    with qconv.instances.load.serving.open_layers(sys.argv[3], Place()) as layers:
        timed = Timed(layers)
        timed.spent += time.perf_counter() - begin
        choice = qconv.instances.choose.lookup.choose(problem, Place(), timed)
    took = time.perf_counter() - begin
    database_ms = timed.spent * 1e3
    answers.append(
        {"origin": choice.origin, "ms": (took - spent) * 1e3, "database_ms": database_ms, "model_ms": spent * 1e3}
    )
print(json.dumps(answers))
'''


class Batch(Layered):
    """A source with only the methods that a merge calls."""

    def __init__(self, rows: list[Measurement]) -> None:
        super().__init__([])
        self.rows = rows

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        return self.rows


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def fill(url: str, rows: MadeRows, count: int) -> float:
    """Fill in batches, so that a million rows need not be in memory."""

    def work() -> None:
        with Database.open(url) as database:
            for batch in batches(rows, count):
                database.merge(Batch(batch))

    return seconds(work)


def looked_up(url: str, asked: list[Conv2d]) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", LOOK_UP, *DEVICE, url, *map(str, asked)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    answers: list[dict[str, Any]] = json.loads(answer.stdout)
    return answers


def lookups(url: str, known: list[Conv2d], unknown: list[Conv2d]) -> dict[str, Any]:
    """Return the medians of: opening and asking for the best; the first choice of a process; a later choice there; and
    the database's part of the first, including opening it. The rest of a choice renders sources."""
    figures: dict[str, Any] = {}
    for name, asked in (("exact", known), ("unknown", unknown)):
        runs = [looked_up(url, [asked[2 * i], asked[2 * i + 1]]) for i in range(LOOKUPS)]
        for at, when in enumerate(("open_best", "cold", "again")):
            figures[f"{name}_{when}_ms"] = statistics.median(run[at]["ms"] for run in runs)
        figures[f"{name}_database_ms"] = statistics.median(run[1]["database_ms"] for run in runs)
        figures[f"{name}_origins"] = sorted({answer["origin"] for run in runs for answer in run[1:]})
    figures["model_ms"] = statistics.median(answer["model_ms"] for run in runs for answer in run[1:])
    return figures


def listed(url: str) -> float:
    command = [sys.executable, "-m", "qconv.cli", "db", "list", "--best", "--db", url]
    return seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def merged(url: str, other: str) -> tuple[float, list[int]]:
    with Database.open(url) as database, Database.open(other, create=False) as source:
        begin = time.perf_counter()
        counts = database.merge(source)
        return time.perf_counter() - begin, list(counts)


def bytes_of(url: str) -> int:
    """Return the size on disk with indexes: of a file, or of a server's tables."""
    if "://" not in url:
        # The last connection to close a database in WAL mode moves the log into the file.
        return sum(path.stat().st_size for path in Path(url).parent.glob(Path(url).name + "*"))
    engine = create_engine(make_url(url))
    with engine.connect() as connection:
        tables = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'qconv%'"
        size = int(connection.execute(text(tables)).scalar_one())
    engine.dispose()
    return size


def measure(url: str, folder: Path, rows: int, count: int, merge_rows: int) -> dict[str, Any]:
    made = MadeRows(problems(count), per_problem=rows // count)
    figures: dict[str, Any] = {"rows": rows, "problems": count, "fill_s": fill(url, made, rows)}
    figures["bytes_a_row"] = bytes_of(url) / rows
    known = [made.problems[i * (count - 1) // (2 * LOOKUPS)] for i in range(2 * LOOKUPS)]
    with Database.open(url) as database:
        for problem in known:
            database.add(winner(problem))
    figures |= lookups(url, known, [unknown(problem) for problem in known])
    figures["list_best_s"] = statistics.median(listed(url) for _ in range(3))
    # Half of the merged rows are new; the others exist already, and some of these are older.
    other = str(folder / "other.sqlite")
    later = MadeRows(made.problems, made.per_problem, first=made.per_problem - made.per_problem // 2, later=True)
    fill(other, later, merge_rows)
    figures["merge_rows"] = merge_rows
    figures["merge_s"], figures["merge_counts"] = merged(url, other)
    return figures


def unknown(problem: Conv2d) -> Conv2d:
    """Return a layer of the same kind that has no rows."""
    return replace(problem, n=24)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--merge-rows", type=int, default=100_000)
    parser.add_argument("--url", help="of an empty database; without it an SQLite file in a temporary folder")
    parser.add_argument("--out", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or str(Path(folder, "tune.sqlite"))
        figures = measure(url, Path(folder), options.rows, options.problems, options.merge_rows)
    for name, value in figures.items():
        print(f"{name:<20}{value:12.3f}" if isinstance(value, float) else f"{name:<20}{value!s:>12}")
    if options.out is not None:
        write_document(options.out, figures)


if __name__ == "__main__":
    main()
