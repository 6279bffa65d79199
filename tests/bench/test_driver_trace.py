"""The counts from a trace in the profiler's format."""

from __future__ import annotations

from typing import Any

import pytest
from driver_trace import RUN, counted


def event(category: str, name: str, at: float, **more: Any) -> dict[str, Any]:
    return {"cat": category, "name": name, "ts": at, "dur": 1.0, **more}


EVENTS = [
    {"name": "process_name", "ph": "M"},  # it has neither category nor time
    event("user_annotation", RUN, 100.0) | {"dur": 50.0},
    event("gpu_user_annotation", RUN, 130.0),
    event("cuda_driver", "cuGraphLaunch", 101.0),
    event("kernel", "convolution", 140.0),
    event("kernel", "convolution", 190.0),
    event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 139.0, args={"bytes": 64}),
    event("cuda_runtime", "cudaDeviceSynchronize", 151.0),
    event("cuda_sync", "Context Sync", 151.0),
]


def test_a_recorded_run_has_its_kernels_and_no_wait() -> None:
    assert counted(EVENTS) == {
        "kernels": 2,
        "copies_to_device": 0,
        "bytes_to_device": 0,
        "copies_to_host": 0,
        "bytes_to_host": 0,
        "copies_on_device": 1,
        "bytes_on_device": 64,
        "synchronizations": 0,
    }


def test_copies_and_waits_of_an_island_are_counted() -> None:
    island = [
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 120.0, args={"bytes": 10}),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 160.0, args={"bytes": 5}),  # it ends after the call
        event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 125.0, args={"bytes": 7}),
        event("cuda_runtime", "cudaStreamSynchronize", 121.0),
        event("cuda_sync", "Stream Sync", 121.0),
        event("cuda_sync", "Stream Wait Event", 122.0),
    ]
    found = counted(EVENTS + island)
    assert (found["copies_to_host"], found["bytes_to_host"], found["copies_to_device"]) == (2, 15, 1)
    assert found["synchronizations"] == 1


def test_a_wait_that_only_one_of_both_records_shows_counts() -> None:
    assert counted([*EVENTS, event("cuda_sync", "Event Sync", 110.0)])["synchronizations"] == 1
    assert counted([*EVENTS, event("cuda_driver", "cuStreamSynchronize", 110.0)])["synchronizations"] == 1


def test_a_trace_without_the_gpu_is_no_proof() -> None:
    with pytest.raises(ValueError, match="has no kernel"):
        counted([each for each in EVENTS if each.get("cat") != "kernel"])
