"""One network of the zoo, in a process of its own: `zoo.py` starts it, and says when it may time.

It makes the network, quantizes it, runs it in a session, compiles the peer, and compares outputs with ONNX Runtime's.
Before it times anything it writes a line and waits for one: then no other process compiles. Each line is a JSON object:
{"ready": N}, {"row": {...}} with fields of the row of N images, {"done": true}.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from current import kernels_of
from driver_trace import traced
from network_timing import INPUTS, ROUNDS, RUNS, Row, Stopwatch, as_graph, stopwatch_of, timed_ms, torch_events
from networks import run_number
from quantize_network import SEED, export, with_statistics
from timing import release
from zoo_networks import brought

from qconv.device import Device, open_device
from qconv.onnx import Session

# A round has as many runs as take this time, RUNS at most.
ROUND_MS = 50.0
MOST_CAUSES = 6

Say = Callable[[Row], None]


def inputs_of(batch: int, shape: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(batch)
    return [rng.standard_normal((batch, *shape), np.float32) for _ in range(INPUTS)]


def attempted(row: Row, what: str, work: Callable[[], Any]) -> Any:
    """Return what the work gives, or None, with the reason in the row."""
    try:
        return work()
    except Exception as error:  # of third parties, or of a network that is not supported: any is the reason
        row.setdefault("missing", {})[what] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return None


def agreement(mine: list[list[Any]], theirs: list[Any]) -> Row:
    """Compare outputs, one list per input, with ONNX Runtime's for all inputs: the share of equal elements, the largest
    difference over the range of its output, and the share of places where the largest channel is the same."""
    equal, elements, largest, same = 0, 0, 0.0, []
    for at, want in enumerate(theirs):
        got = np.concatenate([outputs[at] for outputs in mine])
        equal, elements = equal + int((got == want).sum()), elements + want.size
        if want.dtype.kind == "f":
            span = max(float(np.ptp(want)), 1e-30)
            largest = max(largest, float(np.abs(got.astype(np.float64) - want).max()) / span)
            if want.ndim > 1 and want.shape[1] > 1:
                same.append(float((got.argmax(1) == want.argmax(1)).mean()))
    return {"equal": equal / elements, "largest": largest, "arg_max": min(same, default=None)}


class Ours:
    """A session of the network."""

    def __init__(self, path: Path, device: Device, threads: int) -> None:
        self._path, self._device = path, device
        begin = time.perf_counter()
        self._session = Session(path, device.spec)
        self._creation_s = time.perf_counter() - begin
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, threads
        self._reference = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        (self._name,) = self._session.input_names
        self._seen: set[str] = set()

    def prepared(self, inputs: list[Any]) -> Row:
        """Run for the first time, and compare one image of each input."""
        begin = time.perf_counter()
        self._session.run_on_device(None, {self._name: self._device.upload(inputs[0])})
        self._device.synchronize()
        first_s = time.perf_counter() - begin
        mine = [[y[:1] for y in self._session.run(None, {self._name: x})] for x in inputs]
        theirs = self._reference.run(None, {self._name: np.concatenate([x[:1] for x in inputs])})
        explanation = self._session.explain()
        problems = [problem for problem in self._session.problems if str(problem) not in self._seen]
        self._seen |= set(map(str, problems))
        return {
            "creation_s": self._creation_s,
            "first_run_s": first_s,
            "agreement": agreement(mine, theirs),
            "layers": len(explanation.rows),
            "elsewhere": dict(explanation.fallen_back),
            "islands": explanation.islands,
            "crossing_bytes": explanation.crossing_bytes,
            "share": explanation.share,
            "causes": list(map(str, explanation.causes[:MOST_CAUSES])),
            **kernels_of(problems, self._device, None, in_sequence=True),
        }

    def ms(self, inputs: list[Any]) -> float:
        there = [self._device.upload(x) for x in inputs]
        run = partial(run_number, self._session, there)
        return median_ms(run, self._device.synchronize, stopwatch_of(self._device))

    def traced(self, inputs: list[Any]) -> Row:
        """Trace a run of a recording."""
        there = [self._device.upload(inputs[0])]
        run = partial(run_number, self._session, there, 0)
        for _ in range(3):
            run()
        return traced(run, self._device.synchronize)

    def again(self, inputs: list[Any]) -> Row:
        """Time another session's creation and first run, with every kernel compiled."""
        begin = time.perf_counter()
        session = Session(self._path, self._device.spec)
        created = time.perf_counter()
        session.run_on_device(None, {self._name: self._device.upload(inputs[0])})
        self._device.synchronize()
        return {"again_creation_s": created - begin, "again_first_run_s": time.perf_counter() - created}


class Peers:
    """The same network in fp16 by PyTorch, channels last, each in one CUDA graph."""

    def __init__(self, model: Any) -> None:
        import torch._inductor.config

        torch._inductor.config.freezing = True
        axes = {parameter.dim() for parameter in model.parameters()}
        self._format = torch.channels_last_3d if 5 in axes else torch.channels_last
        self._model = model.cuda().half().to(memory_format=self._format)
        self._compiled: Any = None

    def prepared(self, inputs: list[Any]) -> None:
        """Compile for these inputs, without timings of cuDNN, which others would disturb."""
        torch._dynamo.reset()
        torch.backends.cudnn.benchmark = False
        self._compiled = torch.compile(self._model, dynamic=False)
        with torch.no_grad():
            self._compiled(self._halves(inputs[:1])[0])

    def eager_ms(self, inputs: list[Any]) -> float:
        return self._ms(self._model, inputs)

    def inductor_ms(self, inputs: list[Any]) -> float:
        return self._ms(self._compiled, inputs)

    def _halves(self, inputs: list[Any]) -> list[Any]:
        return [torch.from_numpy(x).cuda().half().to(memory_format=self._format) for x in inputs]

    def _ms(self, network: Any, inputs: list[Any]) -> float:
        torch.backends.cudnn.benchmark = True
        run, _ = as_graph(network, self._halves(inputs))
        return median_ms(run, torch.cuda.synchronize, torch_events())


def median_ms(run: Callable[[int], Any], synchronize: Callable[[], None], begin: Stopwatch) -> float:
    for number in range(2):
        run(number)
    synchronize()
    began = time.perf_counter()
    run(0)
    synchronize()
    each_ms = (time.perf_counter() - began) * 1e3
    runs = max(1, min(RUNS, int(ROUND_MS / each_ms)))
    return timed_ms(run, synchronize, begin, ROUNDS if runs > 1 else ROUNDS // 2, runs)


def ratios(row: Row) -> Row:
    """Return the peers' times over ours."""
    times = [row[name] for name in ("eager_fp16_ms", "inductor_fp16_ms") if name in row]
    if "ms" not in row or not times:
        return {}
    found = {f"over_{name.removesuffix('_ms')}": row[name] / row["ms"] for name in row if name.endswith("fp16_ms")}
    return found | {"over_faster_peer": min(times) / row["ms"]}


def work(options: argparse.Namespace, say: Say, wait: Callable[[], None]) -> None:
    network, device = brought(options.network), open_device(options.device)
    size = options.size or network.size
    shape = network.shape(size)
    torch.manual_seed(SEED)
    model = with_statistics(network.make(size), shape)
    path = export(model, shape, options.models / f"{options.network}.onnx", options.activations)
    trouble: Row = {}
    ours = attempted(trouble, "ours", lambda: Ours(path, device, options.threads))
    peers = attempted(trouble, "peers", lambda: Peers(model)) if options.peers else None
    batches = [int(batch) for batch in options.batch.split(",")]
    for number, batch in enumerate(batches):
        inputs = inputs_of(batch, shape)
        row: Row = {"batch": batch, "size": size, "missing": dict(trouble.get("missing", {}))}
        if ours is not None:
            row |= attempted(row, "ours", partial(ours.prepared, inputs)) or {}
        if peers is not None:
            attempted(row, "inductor", partial(peers.prepared, inputs))
        say({"ready": batch})
        wait()
        row |= timed(row, ours, peers, inputs, options.frames and number == 0)
        release(device)
        say({"row": row})
    if ours is not None and device.target.vendor != "cpu":
        for batch in batches:
            row = {"batch": batch}
            trace = attempted(row, "trace", partial(ours.traced, inputs_of(batch, shape)))
            say({"row": {"batch": batch, "trace": trace or row["missing"]["trace"]}})
    say({"done": True})


def timed(row: Row, ours: Ours | None, peers: Peers | None, inputs: list[Any], frames: bool) -> Row:
    """Return the times of all that can be timed, and the reasons of the others."""
    found: Row = {"missing": row["missing"]}
    calls: dict[str, Callable[[list[Any]], float]] = {}
    if ours is not None and "ours" not in row["missing"]:
        calls["ms"] = ours.ms
    if peers is not None:
        calls["eager_fp16_ms"] = peers.eager_ms
        if "inductor" not in row["missing"]:
            calls["inductor_fp16_ms"] = peers.inductor_ms
    for name, call in calls.items():
        ms = attempted(found, name, partial(call, inputs))
        found |= {} if ms is None else {name: ms}
    if frames and "ms" in found and ours is not None:
        found |= ours.again(inputs)
    return found | ratios(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", help="as `brought` of zoo_networks.py takes it")
    parser.add_argument("--batch", required=True)
    parser.add_argument("--size", type=int)
    parser.add_argument("--activations", required=True)
    parser.add_argument("--device")
    parser.add_argument("--models", type=Path, required=True, help="a folder for the quantized network")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--frames", action="store_true")
    options = parser.parse_args()
    # The output of libraries goes to the log, which is the standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(options.threads)

    def say(what: Row) -> None:
        print(json.dumps(what), file=answers, flush=True)

    work(options, say, lambda: sys.exit("no more is wanted") if not sys.stdin.readline() else None)


if __name__ == "__main__":
    main()
