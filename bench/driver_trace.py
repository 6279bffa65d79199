"""Copies and host synchronisations of a run on a GPU, from the driver's own trace (CUPTI, by PyTorch's profiler)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Event = dict[str, Any]

# The run's name in the trace.
RUN = "run of a session"
CALLS = ("cuda_runtime", "cuda_driver")
# Copies by how the trace names them.
COPIES = {"to_device": "HtoD", "to_host": "DtoH", "on_device": "DtoD"}


def traced(run: Callable[[], Any], synchronize: Callable[[], None]) -> dict[str, int]:
    """Trace one run, and the work that it leaves on the GPU."""
    from torch._C._profiler import _ExperimentalConfig
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = (ProfilerActivity.CPU, ProfilerActivity.CUDA)
    synchronize()
    with tempfile.TemporaryDirectory() as folder:
        with profile(
            activities=activities, experimental_config=_ExperimentalConfig(enable_cuda_sync_events=True)
        ) as found:
            with record_function(RUN):
                run()
            synchronize()
        path = Path(folder, "trace.json")
        found.export_chrome_trace(str(path))
        return counted(json.loads(path.read_text())["traceEvents"])


def counted(events: Iterable[Event]) -> dict[str, int]:
    """Count the kernels, the copies with their bytes, and the calls within the run in which the host waits. Raise
    ValueError for a trace without the GPU's part, which would show no copies either."""
    events = list(events)
    (span,) = (event for event in events if event.get("name") == RUN and event.get("cat") == "user_annotation")
    begin, end = span["ts"], span["ts"] + span["dur"]
    found = {"kernels": sum(event.get("cat") == "kernel" for event in events)}
    if not found["kernels"]:
        raise ValueError("the trace has no kernel: the driver's activities were not recorded")
    for name, way in COPIES.items():
        copies = [event for event in events if event.get("cat") == "gpu_memcpy" and way in event["name"]]
        found |= {f"copies_{name}": len(copies), f"bytes_{name}": sum(each["args"]["bytes"] for each in copies)}
    within = [event for event in events if begin <= event.get("ts", 0.0) <= end]
    calls = sum(event.get("cat") in CALLS and "Synchronize" in event["name"] for event in within)
    # A wait of one stream for another's event is none of the host's.
    waits = sum(event.get("cat") == "cuda_sync" and "Wait" not in event["name"] for event in within)
    return found | {"synchronizations": max(calls, waits)}
