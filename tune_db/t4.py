"""Export to the FAIR T4 format of the autotuning community (results and metadata, version 1.0.0).

The format fixes names but not units; these are the units of Kernel Tuner, its most common writer: times in ms. It has
no field for a row's own problem and device, so they are among its named measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qconv.tune_db.measurement import Measurement, time_text

SCHEMA_VERSION = "1.0.0"
OBJECTIVE = "time"


def results(measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Return the content of a results file. Write it with `json.dump`."""
    return {"schema_version": SCHEMA_VERSION, "results": [_result(m) for m in measurements]}


def metadata(
    measurements: Iterable[Measurement],
    *,
    operating_system: str | None = None,
    device_query: Mapping[str, Any] | None = None,
    requirements: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the content of the metadata file. Devices and toolchains come from the rows; the arguments are what only
    the measuring machine knows."""
    rows = list(measurements)
    devices = sorted({(m.device, m.target) for m in rows})
    hardware: dict[str, Any] = {
        "hardware_description": [{"device": device, "target": target} for device, target in devices]
    }
    if operating_system is not None:
        hardware["operating_system"] = operating_system
    environment = {
        "device_query": dict(device_query or {}),
        "requirements": [*sorted({m.toolchain for m in rows}), *requirements],
    }
    return {"schema_version": SCHEMA_VERSION, "metadata": {"hardware": hardware, "environment": environment}}


def _result(m: Measurement) -> dict[str, Any]:
    times: dict[str, Any] = {"runtimes": [time / 1000 for time in m.times_us]}
    if m.compile_ms is not None:
        times["compilation_time"] = m.compile_ms
    named = [
        (OBJECTIVE, None if m.median_us is None else m.median_us / 1000, "ms"),
        ("registers", m.registers, ""),
        ("spill_bytes", m.spill_bytes, "B"),
        ("smem_bytes", m.smem_bytes, "B"),
        ("reason", m.reason, ""),
        ("problem", str(m.problem), ""),
        ("device", m.device, ""),
        ("target", m.target, ""),
        ("toolchain", m.toolchain, ""),
        ("digest", m.digest, ""),
    ]
    return {
        "timestamp": time_text(m.created_at),
        "configuration": m.config.as_dict(),
        "objectives": [OBJECTIVE],
        "times": times,
        "invalidity": m.outcome,
        "correctness": 1 if m.correct else 0,
        "measurements": [
            {"name": name, "value": value, "unit": unit} for name, value, unit in named if value is not None
        ],
    }
