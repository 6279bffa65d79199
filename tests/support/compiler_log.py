"""Warnings in the output of NVRTC, nvcc and clang."""

from __future__ import annotations

# A line that says how to suppress a warning.
TIP = "the warnings can be suppressed"


def has_warning(log: str) -> bool:
    return any("warning" in line and TIP not in line for line in log.lower().splitlines())
