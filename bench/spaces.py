"""Time all configs of some problems, or as many as the time allows; searches are judged on the recorded times.

    python bench/spaces.py --seconds 390 --most 1500 --out bench/spaces/nvidia-h200
    python bench/spaces.py stem pair --seconds 390 --workers 15 --device cuda:0 --out bench/spaces/nvidia-h200

One file per problem, NAME.json.gz, in Kernel Tuner's cache format: see `recorded.py`. The configs come in an order
drawn by --seed: those timed within the limit are a uniform sample of the space, and so are the first --most. Every
kernel is compared with the oracle before it counts. A second run continues from the files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import recorded
from recorded import RecordedSpace
from report import driver_version, head

from qconv import generator, parse
from qconv.device import Device, open_device
from qconv.device.compile import build, compiler_for
from qconv.errors import CompileError
from qconv.generator import Plan, Source
from qconv.op import Problem
from qconv.targets.target import Target
from qconv.tune_db.measurement import Measurement
from qconv.tuner.measure.candidate import Candidate
from qconv.tuner.measure.child import Child
from qconv.tuner.measure.protocol import TimingProtocol, protocol_for

TIMEOUT_S = 20.0  # per config
COMPILE_S = 60.0
SAVED_EVERY_S = 20.0
# Twice the last-level cache of an H100 or H200: a launch finds no data of the previous one there.
ROTATED_BYTES, REPEATS = 110_000_000, 5
INT8 = "x_type=int8:w_type=int8:out_type=int8"
FLOAT16 = "x_type=float16:w_type=float16:out_type=float16"
CHANNELS = "per_channel:bias=int32"
PAIR = (
    f"conv2d:n=32:h=56:w=56:c=256:k=128:r=1:s=1:{INT8}:{CHANNELS}:activation=relu"
    f"+conv2d:n=32:h=56:w=56:c=128:k=128:r=3:s=3:stride=2,2:pad=1,1,1,1:{INT8}:{CHANNELS}"
)
DW_PW = (
    f"conv2d:n=32:h=14:w=14:c=384:k=384:r=3:s=3:pad=1,1,1,1:groups=384:{INT8}:{CHANNELS}:activation=relu6"
    f"+conv2d:n=32:h=14:w=14:c=384:k=96:r=1:s=1:{INT8}:{CHANNELS}"
)
# Layers of networks, those that compile fastest first: a config of a stem takes two seconds.
PROBLEMS = {
    "depthwise": f"conv2d:n=32:h=56:w=56:c=144:k=144:r=3:s=3:pad=1,1,1,1:groups=144:{INT8}",
    "grouped": f"conv2d:n=32:h=56:w=56:c=128:k=128:r=3:s=3:pad=1,1,1,1:groups=32:{INT8}",
    "pair": PAIR,
    "dense_large": f"conv2d:n=32:h=56:w=56:c=64:k=64:r=3:s=3:pad=1,1,1,1:{INT8}",
    "pointwise": f"conv2d:n=32:h=14:w=14:c=256:k=1024:r=1:s=1:{INT8}",
    "dense_small": f"conv2d:n=1:h=7:w=7:c=512:k=512:r=3:s=3:pad=1,1,1,1:{INT8}",
    "pointwise_80": f"conv2d:n=32:h=80:w=80:c=80:k=80:r=1:s=1:{INT8}",
    "pair_dw_pw": DW_PW,
    "dense_deep": f"conv2d:n=32:h=7:w=7:c=512:k=512:r=3:s=3:pad=1,1,1,1:{INT8}",
    "stem": f"conv2d:n=32:h=224:w=224:c=3:k=64:r=7:s=7:stride=2,2:pad=3,3,3,3:{INT8}",
    # No cost model has a constant that was fitted on these.
    "depthwise_7x7": f"conv2d:n=32:h=28:w=28:c=192:k=192:r=7:s=7:pad=3,3,3,3:groups=192:{INT8}:{CHANNELS}",
    "depthwise_float16": f"conv2d:n=32:h=28:w=28:c=240:k=240:r=5:s=5:pad=2,2,2,2:groups=240:{FLOAT16}",
    "pointwise_narrow": f"conv2d:n=32:h=56:w=56:c=64:k=256:r=1:s=1:{INT8}:{CHANNELS}",
    "dense_float16": f"conv2d:n=32:h=28:w=28:c=128:k=128:r=3:s=3:pad=1,1,1,1:{FLOAT16}",
    "transposed": f"conv2d:n=8:h=32:w=32:c=128:k=256:r=2:s=2:pad=1,1,1,1:pixel_shuffle=2,2:crop=1,1,1,1:{INT8}",
}


@lru_cache(maxsize=4)
def problem_of(key: str) -> Problem:
    return parse(key)


def compiled(key: str, config: str, target: Target, toolchain: str) -> tuple[tuple[Source, ...], str, str | None]:
    """Compile in a separate process; return sources, digest with the binaries in the cache, and the compiler's
    error."""
    plan = generator.plan(problem_of(key), generator.config_from_json(config), target)
    candidate, refused = Candidate.of(plan), None
    try:
        for source, kernel in zip(candidate.sources, plan.kernels, strict=True):
            build(source, kernel, toolchain, COMPILE_S)
    except CompileError as error:
        refused = str(error)
    return candidate.sources, candidate.digest, refused


class Sweep:
    """One device, one worker that times, and a pool of processes that compile ahead."""

    def __init__(self, device: Device, pool: ProcessPoolExecutor, ahead: int, protocol: TimingProtocol) -> None:
        self.device = device
        self.protocol = protocol
        self.toolchain = compiler_for(device.target).toolchain
        self._pool = pool
        self._ahead = ahead

    def run(self, space: RecordedSpace, plans: Sequence[Plan], until: float, path: Path) -> None:
        """Time plans in order until that time.monotonic(), and save the results from time to time."""
        left = deque(plan for plan in plans if plan.config not in space.times_us)
        waiting: deque[tuple[Plan, Future[tuple[tuple[Source, ...], str, str | None]]]] = deque()
        best_us, saved = min((t for t in space.times_us.values() if t is not None), default=None), time.monotonic()
        with Child(self.device, self.protocol, TIMEOUT_S) as child:
            child.start()
            while (left or waiting) and time.monotonic() < until:
                while left and len(waiting) < self._ahead:
                    plan = left.popleft()
                    job = (str(plan.problem), plan.config.as_json(), self.device.target, self.toolchain)
                    waiting.append((plan, self._pool.submit(compiled, *job)))
                plan, future = waiting.popleft()
                row = self._measured(child, plan, *future.result(), best_us)
                space.add(row)
                if row.median_us is not None:
                    best_us = min(row.median_us, best_us or row.median_us)
                if time.monotonic() > saved + SAVED_EVERY_S:
                    recorded.write(path, space)
                    saved = time.monotonic()
        for _, future in waiting:
            future.cancel()
        recorded.write(path, space)

    def _measured(
        self,
        child: Child,
        plan: Plan,
        sources: tuple[Source, ...],
        digest: str,
        refused: str | None,
        best_us: float | None,
    ) -> Measurement:
        candidate = Candidate(plan, sources, digest)
        if refused is not None:
            return candidate.failed(self.device, self.toolchain, "compile", refused)
        return child.measure(candidate, best_us)


def begun(key: str, sweep: Sweep, path: Path, seed: int, most: int | None) -> tuple[RecordedSpace, list[Plan]]:
    """Return the file's contents, and the plans in the drawn order, up to `most`."""
    device = sweep.device
    plans, _ = generator.space(parse(key), device.target)
    size = len(plans)
    random.Random(seed).shuffle(plans)
    plans = plans[:most]
    space = recorded.read(path) if path.exists() else RecordedSpace(parse(key), device.name, device.target.name)
    if (str(space.problem), space.device) != (key, device.name):
        raise SystemExit(f"{path} is of {space.problem} on {space.device}: choose another --out")
    space.about |= {
        "configs": size,
        "seed": seed,
        "toolchain": sweep.toolchain,
        "driver": driver_version(),
        "protocol": sweep.protocol.as_dict(),
        "commit": head(),
    }
    return space, plans


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROBLEMS)}; default: all")
    parser.add_argument("--key", help="another problem than these; NAME is its file's then")
    parser.add_argument("--most", type=int, metavar="CONFIGS", help="of a problem; default: all")
    parser.add_argument("--seconds", type=float, default=390.0, help="for all problems together")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    if options.key and len(options.names) != 1:
        parser.error("--key is one problem: give it one NAME, for its file")
    if unknown := sorted(set(options.names) - set(PROBLEMS)) if not options.key else []:
        parser.error(f"{', '.join(unknown)}: not known; use some of {', '.join(PROBLEMS)}, or --key")
    return options


def main(arguments: list[str] | None = None) -> None:
    options = parsed(arguments)
    end = time.monotonic() + options.seconds
    keys = {options.names[0]: options.key} if options.key else {n: PROBLEMS[n] for n in options.names or PROBLEMS}
    device = open_device(options.device)
    protocol = protocol_for(device)
    if protocol.rotated_bytes:
        protocol = replace(protocol, rotated_bytes=ROTATED_BYTES)
    protocol = replace(protocol, repeats=REPEATS)
    # A forked child would inherit the GPU's context; a nice one leaves a core to the timing worker.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, initializer=os.nice, initargs=(5,)) as pool:
        sweep = Sweep(device, pool, 4 * options.workers, protocol)
        paths = {name: options.out / f"{name}{recorded.SUFFIX}" for name in keys}
        spaces = {n: begun(k, sweep, paths[n], options.seed, options.most) for n, k in keys.items()}
        for position, (name, (space, plans)) in enumerate(spaces.items()):
            # The remaining seconds are distributed in proportion to the remaining configs.
            left = [sum(p.config not in s.times_us for p in ps) for s, ps in list(spaces.values())[position:]]
            share = left[0] / max(1, sum(left))
            now = time.monotonic()
            sweep.run(space, plans, now + share * (end - now), paths[name])
            failures = dict(Counter(space.failures.values()))
            best = f"{space.best_us:.4g} us" if len(space.failures) < len(space.times_us) else "none"
            print(
                f"{name}: {len(space.times_us)} of {space.about['configs']} configs in {time.monotonic() - now:.0f} s, "
                f"best {best}, failures {failures}",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    main()
