"""The child process of one device: a request a line on stdin, measurements a line on stdout.

An illegal address is sticky and kills the context, and a kernel may hang: this process is expendable. It ends when its
stdin does, so that it does not outlive a tuner that was killed; in the middle of a kernel as well.
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

# How often a worker whose requests have ended looks whether its tuner is there.
LOOK_S = 0.1


def main() -> None:
    # Whatever a library prints must not come between the answers.
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
            input_sets = None  # its arrays make room
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
    """The lines of stdin. Where they end because the tuner did, so does this process, whatever it does by then."""
    lines: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        begun = b""
        while received := os.read(0, 65536):  # not by sys.stdin, which no thread may read when the interpreter ends
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
