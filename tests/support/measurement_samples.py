"""Measurements to store. A separate module, because processes that a test starts create the same rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from qconv.generator import FAMILIES, Config
from qconv.problem.convolution import Conv2d
from qconv.targets.target import TARGETS
from qconv.tune_db.measurement import Measurement

PROBLEM = Conv2d(1, 14, 14, 64, 64, 3, 3, pad=(1, 1, 1, 1))
CONFIGS: tuple[Config, ...] = tuple(itertools.islice(FAMILIES["simt"].configs(PROBLEM, TARGETS["sm_90a"]), 400))
Make = Callable[..., Measurement]


def make_measurement(number: int = 0, **given: Any) -> Measurement:
    values: dict[str, Any] = {
        "problem": PROBLEM,
        "config": CONFIGS[number],
        "device": "NVIDIA H200",
        "target": "sm_90a",
        "toolchain": "nvrtc 13.0",
        "digest": "d1",
        "outcome": "correct",
        "created_at": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    }
    if given.get("outcome", "correct") == "correct":
        values |= {
            "times_us": (11.0, 10.1, 10.3),
            "median_us": 10.3,
            "registers": 40,
            "spill_bytes": 0,
            "smem_bytes": 8704,
            "compile_ms": 812.5,
            "protocol": {"name": "events", "repeats": 3},
        }
    else:
        values |= {"reason": "it says why"}
    if given.get("median_us") is not None and "times_us" not in given:
        values["times_us"] = (given["median_us"],)
    return Measurement(**values | given)


def nth_measurement(number: int, digest: str) -> Measurement:
    """Return the measurement with this number; numbers give distinct rows."""
    return make_measurement(number % len(CONFIGS), digest=f"{digest}-{number // len(CONFIGS)}")
