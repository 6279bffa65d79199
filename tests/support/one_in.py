"""Sampling of tests with hundreds of problems: a run may take one in `one_in` of them, and others with each commit."""

from __future__ import annotations

from zlib import crc32


def is_taken(test: str, commit: str, one_in: int) -> bool:
    """Return true if this run takes the test; all processes of a run agree."""
    if one_in < 1:
        raise ValueError(f"one in {one_in}: it must be at least 1, which takes all")
    return crc32(f"{commit} {test}".encode()) % one_in == 0
