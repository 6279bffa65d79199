"""The context of a thread. A thread has none before it calls CUDA's runtime, and the driver's own calls need one."""

from __future__ import annotations

INVALID_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT: what the driver's calls return in a thread without one


def give() -> None:
    """Give this thread the context of its current device."""
    from cupy_backends.cuda.api import driver, runtime  # tensor maps are imported where there is no CuPy, too

    runtime.setDevice(runtime.getDevice())
    if not driver.ctxGetCurrent():  # before CUDA 12; this call would break another thread's capture of a graph
        runtime.free(0)
