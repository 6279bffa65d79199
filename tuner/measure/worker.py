"""The worker process of one device. It reads one request per line from stdin and answers with measurements, one line
each, on stdout.

This process is expendable: an illegal address ruins the context for good, and a kernel may hang. It ends with its
stdin, even in the middle of a kernel, so that it does not outlive a tuner that was killed.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

from qconv.device import open_device
from qconv.device.compile import compiler_for
from qconv.errors import CompileError, DeviceError
from qconv.ops import registry
from qconv.ops.registry import parse
from qconv.tune_db.text import as_dict
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.evaluate import evaluate, race
from qconv.tuner.measure.protocol import TimingProtocol
from qconv.tuner.measure.verification import InputSets

# Interval in seconds at which a worker whose requests have ended checks that its tuner is alive.
LOOK_S = 0.1


def main() -> None:
    # Redirect stdout, so that no library prints between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(value: dict[str, object]) -> None:
        answers.write(json.dumps(value) + "\n")

    try:
        device = open_device(sys.argv[1])
        toolchain = compiler_for(device.target).toolchain
    except (DeviceError, CompileError, ValueError) as error:
        answer({"error": str(error)})
        return
    answer({"toolchain": toolchain})
    input_sets = None
    for line in _requests(os.getppid()):
        request = json.loads(line)
        protocol = TimingProtocol(**request["protocol"])
        problem = parse(request["problem"])
        if input_sets is None or input_sets.problem != problem:
            input_sets = None  # frees its arrays
            drawn = registry.draw(problem, request["seed"])
            input_sets = InputSets(problem, device, drawn, protocol.rotated_bytes)
        candidates = [Candidate.from_dict(values, problem, device.target) for values in request["candidates"]]
        if request["race"]:
            rows = race(candidates, input_sets, protocol)
        else:
            rows = [evaluate(candidate, input_sets, protocol, request["best_us"]) for candidate in candidates]
        answer({"measurements": [as_dict(row) for row in rows]})
        if any(row.outcome == "runtime" for row in rows):
            return


def _requests(tuner: int) -> Iterator[bytes]:
    """Generate the lines of stdin. Where they end because the tuner died, end this process, whatever it is doing."""
    lines: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        begun = b""
        # Not through sys.stdin, which no thread may be reading when the interpreter exits.
        while received := os.read(0, 65536):
            *whole, begun = (begun + received).split(b"\n")
            for line in whole:
                lines.put(line)
        lines.put(None)
        while os.getppid() == tuner:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=read, name="requests", daemon=True).start()
    while (line := lines.get()) is not None:
        yield line


if __name__ == "__main__":
    main()
