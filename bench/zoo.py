"""Networks of all usual kinds as users bring them, quantized and in a session, beside the same networks in fp16 by
PyTorch, eager and by Inductor, in the same run.

    python bench/zoo.py --limit-s 500 --out bench/results/nvidia-h200
    python bench/zoo.py --timm dla34,mixer_s16_224 --suite brought --out bench/results/nvidia-h200

The networks are those of `zoo_networks.py`: exported with an open batch and quantized by ONNX Runtime's
`quantize_static` (QDQ, int8 weights per channel). Nothing is tuned. Each network has a process of its own, and a crash
or --limit-s loses no other's rows. --processes networks are prepared at the same time; while one is timed, all others
are stopped. Rows that the file has of this commit and card are not measured again, so that several runs make one table;
`--table` prints it and runs nothing. `--device cpu --size 64` runs everything without a GPU, and without peers.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from network_timing import INPUTS, ROUNDS, RUNS, Row
from quantize_network import OPSETS
from report import Report
from zoo_networks import NETWORKS, brought

from qconv.device import open_device

WORKER = Path(__file__).with_name("zoo_worker.py")
# For a step of a network: preparing for a batch, or timing. And for what is under way when the time of the run is over.
STEP_S, GRACE_S = 300.0, 20.0
# For a process that has said all to end by itself.
EXIT_S = 10.0
OVER = {"eager_fp16": "eager", "inductor_fp16": "Inductor", "faster_peer": "the faster of both"}


class Worker:
    """The process of one network, in a process group with the compilers that it starts."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log, self._is_late = log, False
        one_thread = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # its pool is a group of its own, which would not stop
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,  # a line in a buffer is one that select does not see
                process_group=0,
                env=os.environ | one_thread,
            )

    def line(self, limit_s: float) -> Row | None:
        """Return the next object that it says, or None if it has ended or says nothing for so long."""
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], max(0.0, limit_s))[0]:
            self._is_late = True
            return None
        said = self._process.stdout.readline()
        return json.loads(said) if said else None

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")

    def signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return

    def end(self) -> str:
        """End it, and return how it ended."""
        if not self._is_late:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(EXIT_S)
        self.signal(signal.SIGKILL)
        code = self._process.wait()
        last = ([line for line in self._log.read_text(errors="replace").splitlines() if line.strip()] or [""])[-1]
        return "it took too long" if self._is_late else f"its process ended with {code}: {last[:300]}"


class Floor:
    """All workers. One at a time may have the machine for itself, and none is started meanwhile."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._workers: list[Worker] = []

    def start(self, command: list[str], log: Path) -> Worker:
        with self._alone:
            self._workers.append(Worker(command, log))
            return self._workers[-1]

    def end(self, worker: Worker) -> str:
        ended = worker.end()
        with self._alone:
            self._workers.remove(worker)
        return ended

    @contextmanager
    def alone(self, mine: Worker) -> Iterator[None]:
        with self._alone:
            others = [worker for worker in self._workers if worker is not mine]
            for other in others:
                other.signal(signal.SIGSTOP)
            try:
                yield
            finally:
                for other in others:
                    other.signal(signal.SIGCONT)


class Zoo:
    """The rows of a run, and the networks that are left."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        device = open_device(options.device)
        self._report = Report(options.out, options.suite, device, protocol(options), options.commit)
        self._own = {"card": device.facts()["name"], "commit": self._report.commit, "activations": options.activations}
        rows = json.loads(self._report.path.read_text())["rows"] if self._report.path.exists() else []
        self._rows: dict[tuple[Any, ...], Row] = {key_of(row): row for row in rows}
        self._floor, self._writing = Floor(), threading.Lock()
        self._until = time.monotonic() + options.limit_s

    @property
    def rows(self) -> list[Row]:
        order = [*NETWORKS, *sorted({row["name"] for row in self._rows.values()} - set(NETWORKS))]
        return sorted(self._rows.values(), key=lambda row: (row["batch"], order.index(row["name"])))

    def _row(self, name: str, batch: int) -> Row:
        own: Row = {"name": name, "kind": brought(name).kind, "batch": batch, **self._own}
        found = self._rows.get(key_of(own), {})
        return found if is_of(found, own) else own

    def left(self, name: str) -> list[int]:
        batches = [int(batch) for batch in self._options.batch.split(",")]
        return [batch for batch in batches if "ms" not in self._row(name, batch)]

    def _note(self, name: str, fields: Row) -> None:
        with self._writing:
            row = self._row(name, fields["batch"]) | fields
            self._rows[key_of(row)] = row
            self._report.write(self.rows, summary(self.rows))

    def run(self, name: str, folder: Path) -> None:
        """Measure what is left of a network, unless the time is over."""
        batches = self.left(name)
        if not batches or time.monotonic() > self._until:
            return
        worker = self._floor.start(self._command(name, batches, folder), folder / f"{name}.log")
        try:
            missing = self._heard(name, worker, set(batches))
        finally:
            ended = self._floor.end(worker)
        for batch in missing:
            self._note(name, {"batch": batch, "missing": {"ours": ended}})
            print(f"{name} N={batch}: {ended}", file=sys.stderr, flush=True)

    def _heard(self, name: str, worker: Worker, missing: set[int]) -> set[int]:
        """Note what a worker says until it ends; return the batches that it has not timed."""
        while (said := worker.line(min(STEP_S, self._until + GRACE_S - time.monotonic()))) is not None:
            if "ready" in said:
                with self._floor.alone(worker):
                    worker.go()
                    said = worker.line(STEP_S)
            if said is None or "done" in said:
                break
            self._note(name, said["row"])
            if "trace" not in said["row"]:
                missing.discard(said["row"]["batch"])
                print(line_of(self._row(name, said["row"]["batch"])), file=sys.stderr, flush=True)
        return missing

    def _command(self, name: str, batches: list[int], folder: Path) -> list[str]:
        options = self._options
        peers = not options.no_peers and options.device != "cpu"
        given = {
            "--batch": ",".join(map(str, batches)),
            "--activations": options.activations,
            "--models": str(folder),
            "--threads": str(max(1, (os.cpu_count() or 1) // options.processes)),
            **({"--size": str(options.size)} if options.size else {}),
            **({"--device": options.device} if options.device else {}),
        }
        flags = [*(["--peers"] if peers else []), *(["--frames"] if options.frames else [])]
        words = [word for pair in given.items() for word in pair]
        return [sys.executable, str(WORKER), name, *words, *flags]


def protocol(options: argparse.Namespace) -> Row:
    return {
        "runs": RUNS, "rounds": ROUNDS, "inputs": INPUTS, "statistic": "median", "seconds": 0.0,
        "size": options.size, "processes": options.processes,
    }  # fmt: skip


def key_of(row: Row) -> tuple[Any, ...]:
    return (row["name"], row["batch"], row["activations"])


def is_of(row: Row, own: Row) -> bool:
    """True for a row of the same commit and card."""
    return all(row.get(name) == own[name] for name in ("card", "commit"))


def summary(rows: list[Row]) -> Row:
    """Return counts and geometric means, by batch."""
    found: Row = {"rows": len(rows), "timed": sum("ms" in row for row in rows)}
    for batch in sorted({row["batch"] for row in rows}):
        ours = [row for row in rows if row["batch"] == batch and "ms" in row]
        for name in OVER:
            if known := [row[f"over_{name}"] for row in ours if f"over_{name}" in row]:
                found[f"over_{name}_n{batch}"] = {"mean": statistics.geometric_mean(known), "least": min(known)}
        found[f"whole_n{batch}"] = sum(not row["elsewhere"] for row in ours)
    return found


def line_of(row: Row) -> str:
    """Return a line of the table that is printed."""

    def shown(name: str, digits: int) -> str:
        return f"{row[name]:.{digits}f}" if name in row else "-"

    trace = row.get("trace")
    driver = "-"
    if isinstance(trace, dict):
        driver = f"{trace['copies_to_device']}/{trace['copies_to_host']}/{trace['synchronizations']}"
    found = row.get("agreement")
    compared = f"{found['equal']:.4f} {found['largest']:.1e}" if found else "-"
    numbers = (shown("ms", 4), shown("eager_fp16_ms", 4), shown("inductor_fp16_ms", 4), shown("over_faster_peer", 2))
    cells = [f"{number:>9}" for number in numbers]
    elsewhere = sum(row.get("elsewhere", {}).values())
    why = "; ".join(f"{what}: {reason[:80]}" for what, reason in row.get("missing", {}).items())
    return (
        f"{row['name']:<29} N={row['batch']:<3}{''.join(cells)} {elsewhere:>4} {driver:>8}  {compared}  {why}".rstrip()
    )


def table(rows: list[Row]) -> str:
    head = f"{'network':<29} {'':<5}{'ours ms':>9}{'eager':>9}{'Inductor':>9}{'ratio':>9} else in/out/sync  agreement"
    means = [f"{name}: {value}" for name, value in summary(rows).items()]
    return "\n".join([head, *map(line_of, rows), *means])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", default="1,8,32", help="default: %(default)s")
    parser.add_argument("--only", default="", help="the networks that match a regular expression")
    parser.add_argument("--timm", metavar="NAME,...", help="networks of timm that the zoo does not have, in its place")
    parser.add_argument("--activations", choices=tuple(OPSETS), default="uint8", help="default: %(default)s")
    parser.add_argument("--size", type=int, help="of the images; default: each network's own")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--frames", action="store_true", help="time a second session of each network as well")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="default: %(default)s")
    parser.add_argument("--limit-s", type=float, default=1e9, help="start no network after that time, in seconds")
    parser.add_argument("--table", action="store_true", help="print the rows of the file, and run nothing")
    parser.add_argument("--suite", default="zoo", help="name of the file of results; default: %(default)s")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", help="the commit to record in the results; default: this checkout's HEAD")
    options = parser.parse_args(arguments)
    if options.table:
        print(table(json.loads((options.out / f"{options.suite}.json").read_text())["rows"]))
        return
    known = [f"timm.{name}" for name in options.timm.split(",")] if options.timm else NETWORKS
    chosen = [name for name in known if re.search(options.only, name)]
    for name in chosen:
        brought(name)  # a wrong name ends the run before it begins
    zoo = Zoo(options)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        for done in [pool.submit(zoo.run, name, Path(folder)) for name in chosen]:
            done.result()
    print(table(zoo.rows))


if __name__ == "__main__":
    main()
