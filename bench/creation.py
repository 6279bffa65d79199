"""Time the host's work until a session of a network is ready, for a GPU that need not be here.

    python bench/quantize_network.py models resnet50
    QCONV_CACHE=$(mktemp -d) python bench/creation.py models/resnet50.onnx --batch 8,8,16

Nothing is compiled or launched: the stand-in device finds stand-ins of binaries in the cache, which the first run
fills. A second run in the same cache is a new process with every kernel compiled. Times are of the process's own work,
in seconds: `session`, the creation with an open batch; `prepare`, all lookups, the reading of binaries and the packing
for one batch.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any
from unittest.mock import patch

from qconv.device import Device, cache, compile, cpu, open_device
from qconv.device.cache import Binary
from qconv.generator import Plan, Source
from qconv.instances.load import serving
from qconv.onnx import Session, session
from qconv.targets.target import Target, target

# A binary of a usual size.
BINARY_BYTES = 30_000


class NoKernel:
    """A kernel whose launches do nothing."""

    def bind(self, *_: Any) -> Any:
        return lambda stream=None: None


class Absent(cpu.CpuDevice):
    """A device with the name and the target of a GPU, and arrays of the host."""

    spec = "cuda:0"
    name = ""

    def __init__(self, name: str, of: Target) -> None:
        super().__init__(of)
        self.name = name

    def load(self, plan: Plan, binary: Binary) -> Any:
        return NoKernel()

    def encode(self, *_: Any) -> bytes:
        return bytes(128)


def published(source: Source, of: Target, *_: Any, **__: Any) -> Binary:
    return cache.publish(source, of.name, ("none",), ".cubin", os.urandom(BINARY_BYTES), "a stand-in", 1.0, {})


def created(model: str, batch: int) -> tuple[float, float, int]:
    """Return the seconds of a session's creation and of its preparation, and the number of its problems."""
    begin = time.process_time()
    made = Session(model, Absent.spec)
    ready = time.process_time()
    network = made._model.network
    shapes = {name: [extent or batch for extent in network.tensor(name).shape or ()] for name in made.input_names}
    made.prepare(shapes)
    return ready - begin, time.process_time() - ready, len(set(made.problems))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", default="8,8,16", help="one session after the other in this process")
    parser.add_argument("--device", default="NVIDIA H200")
    parser.add_argument("--target", default="sm_90a")
    given = parser.parse_args()
    os.environ["QCONV_PROCESSES"] = "1"  # others' work would not be counted
    absent = Absent(given.device, target(given.target))

    def opened(spec: str | None = None) -> Device:
        return absent if spec == Absent.spec else open_device(spec)

    patch.object(serving, "open_device", opened).start()
    patch.object(session, "open_device", opened).start()
    patch.object(compile, "compile_source", published).start()
    print(f"imports: {time.process_time():.2f} s")
    for batch in map(int, given.batch.split(",")):
        created_s, prepared_s, problems = created(given.model, batch)
        print(f"batch {batch}: session {created_s:.2f} s, prepare {prepared_s:.2f} s, {problems} problems", flush=True)


if __name__ == "__main__":
    main()
