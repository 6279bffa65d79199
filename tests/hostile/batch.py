"""Many cases of one surface in a separate process: a hang or a crash there is one failure, reported with its seed.

python -m tests.hostile.batch SURFACE FIRST COUNT    # one JSON document: counts, and failures with their inputs
python -m tests.hostile.batch SURFACE --seed SEED    # that case, with its traceback
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import sys
import time
from collections import Counter
from random import Random
from typing import Any

from tests.hostile.judge import Surface, Wrong, judge
from tests.hostile.surfaces import SURFACES

# A case that takes longer hangs. The watchdog is reset at this interval: it starts a thread, which takes longer than
# most cases.
DEADLINE_S, SET_S = 20.0, 1.0
MOST_FAILURES = 20
# One seed is one case: hashes must not influence the draw.
ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}


def case(surface: Surface, seed: int) -> bytes:
    return surface.draw(Random(f"{surface.name} {seed}"))


def run(surface: Surface, first: int, count: int) -> dict[str, Any]:
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    slowest, watched = 0.0, -SET_S
    for seed in range(first, first + count):
        given = case(surface, seed)
        at = time.monotonic()
        if at - watched >= SET_S:
            # Ends the process even where no signal would: inside SQLite, protobuf or a compiler.
            faulthandler.dump_traceback_later(DEADLINE_S, exit=True)
            watched = at
        try:
            counts[judge(surface, given)] += 1
        except Wrong as wrong:
            counts["wrong"] += 1
            failures.append({"seed": seed, "input": base64.b64encode(given).decode(), "wrong": str(wrong)})
        slowest = max(slowest, time.monotonic() - at)
        if len(failures) == MOST_FAILURES:
            break
    faulthandler.cancel_dump_traceback_later()
    took = {"seconds": round(time.monotonic() - begun, 2), "slowest_s": round(slowest, 3)}
    return {"surface": surface.name, **counts, **took, "failures": failures}


def main() -> None:
    name, first, second = sys.argv[1:4]
    surface = SURFACES[name]
    if first == "--seed":
        given = case(surface, int(second))
        print(given)
        print(judge(surface, given))
        return
    # Libraries' output to stdout is redirected: the answer is one document.
    answer = os.dup(1)
    os.dup2(2, 1)
    found = run(surface, int(first), int(second))
    os.write(answer, json.dumps(found, indent=1).encode() + b"\n")


if __name__ == "__main__":
    main()
