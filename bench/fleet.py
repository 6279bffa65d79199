"""The load of a fleet on its database and its scheduler: rows per second, and the scheduler's time per visit.

    python bench/fleet.py --db postgresql+psycopg://postgres@HOST/tune [--writers 4] [--json FILE]

No kernel runs: the rows are invented, belong to devices named `bench-*`, and are deleted afterwards. Writers, database
and scheduler share the machine's cores, so the figures describe one small machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import distributed
from document import write_document

from qconv import Conv2d, generator
from qconv.targets.target import target
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import Measurement

PROBLEM = Conv2d(1, 8, 8, 8, 16, 3, 3, pad=(1, 1, 1, 1))
ROWS, TASKS = 1000, 5000  # per writer; for the scheduler


def made_up() -> list[Measurement]:
    """Return one row per config, like that of a fully timed config: with its times and its protocol."""
    cpu = target("cpu")
    times = tuple(100.0 + i for i in range(9))
    protocol = {"name": "made up", "rotated_bytes": 0, "repeats": 9, "phase": "alone"}
    return [
        Measurement(
            *(PROBLEM, plan.config, "bench", cpu.name, "none", generator.render_kernels(plan).digest, "correct"),
            times_us=times,
            median_us=104.0,
            protocol=protocol,
        )
        for plan in generator.space(PROBLEM, cpu)[0]
    ]


def write(where: str, writer: str, rows: list[Measurement], begin: Any, took: Any) -> None:
    """Write every row in its own transaction, as at the end of a trial."""
    with Database.open(where) as database:
        database.devices()  # opens the connection
        begin.wait()
        at, busy = time.perf_counter(), time.process_time()
        for i in range(ROWS):
            database.add(replace(rows[i % len(rows)], device=f"bench-{writer}-{i // len(rows)}"))
        took.put((time.perf_counter() - at, time.process_time() - busy))


def writing(where: str, writers: int) -> dict[str, float]:
    context = multiprocessing.get_context("spawn")
    begin, took = context.Barrier(writers), context.Queue()
    given = made_up()
    every = [
        context.Process(target=write, args=(where, f"{writers}-{number}", given, begin, took))
        for number in range(writers)
    ]
    for process in every:
        process.start()
    passed, busy = zip(*(took.get(timeout=300) for _ in every), strict=True)
    for process in every:
        process.join()
    return {
        f"rows_per_s_of_{writers}": writers * ROWS / max(passed),
        f"writer_ms_per_row_of_{writers}": sum(busy) / writers / ROWS * 1e3,
    }


def forget(where: str) -> None:
    with Database.open(where) as database:
        for device in database.devices():
            if device.startswith("bench-"):
                database.prune(digests_except=frozenset(), device=device)


def same(value: int) -> int:
    return value


def scheduler_ms() -> float:
    """Return the time of the process with the scheduler and the client, per empty task."""
    dask: Any = distributed  # it has no types of its own
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        client.gather([client.submit(same, i, pure=False) for i in range(100)])
        before = time.process_time()
        client.gather([client.submit(same, i, pure=False) for i in range(TASKS)])
        return (time.process_time() - before) / TASKS * 1e3


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", required=True, metavar="URL")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    try:
        said = writing(options.db, 1) | writing(options.db, options.writers)
    finally:
        forget(options.db)
    said["scheduler_ms_per_task"] = scheduler_ms()
    for name, value in said.items():
        print(f"{name:<26}{value:10.2f}")
    if options.json is not None:
        write_document(options.json, said)


if __name__ == "__main__":
    main()
