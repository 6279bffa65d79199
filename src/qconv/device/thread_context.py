"""The context of a thread. A thread has none before it calls CUDA's runtime, and the driver's own calls need one."""

from __future__ import annotations

INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: what the driver's calls return in a thread without one


def give() -> None:
    """Give this thread the context of its current device."""
    from cupy_backends.cuda.api import runtime  # tensor maps are imported where there is no CuPy, too

    runtime.free(0)
