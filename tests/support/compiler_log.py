"""Warnings in the output of NVRTC, nvcc and clang."""

from __future__ import annotations

# A constant that is never read: a family's pages declare the same constants in every kernel, and not each reads all.
UNUSED = "#177-D"
TIP = "The warnings can be suppressed"


def has_warning(log: str) -> bool:
    """True if the log has a warning other than that of an unused constant."""
    lines = (line for line in log.lower().splitlines() if TIP.lower() not in line)
    return any("warning" in line and UNUSED.lower() not in line for line in lines)
