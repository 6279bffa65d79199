"""Launches with attributes by cuLaunchKernelEx, which CuPy's driver module lacks, through ctypes (NVIDIA only), and the
shared memory that an overlapping launch requests.

An overlapping kernel lets the next one begin as soon as it begins itself, and only then waits for the previous one. In
a sequence of short launches, a dozen may therefore be resident, all but the first waiting. The hardware places the
blocks of a late launch wherever there is room: several share one multiprocessor, which multiplies their time, while
others stay idle. So a launch requests the shared memory that its blocks would leave unused, and the next launch begins
only where blocks of this one end.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from qconv.device import thread_context
from qconv.errors import LaunchError
from qconv.generator.plan import Launch, ceil_div

PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class Value(ctypes.Union):
    """CUlaunchAttributeValue: 64 bytes, aligned to 8."""

    _fields_: ClassVar[Any] = [
        ("whole", ctypes.c_uint64 * 8),
        ("allowed", ctypes.c_int),
    ]


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_: ClassVar[Any] = [("id", ctypes.c_int), ("value", Value)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_: ClassVar[Any] = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("smem_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


@lru_cache(maxsize=1)
def driver() -> Any:
    """Return the driver library that CuPy has loaded. Calls release the GIL, as CuPy's do."""
    return ctypes.CDLL("libcuda.so.1")


def launcher(function: int, launch: Launch, pointers: int) -> Callable[[int], None]:
    """Return a launch that may begin before the previous one has ended. Call it with the address of a stream.

    The driver reads the stream from a struct. Each stream has its own, so that two threads may launch on two streams.
    After the first launch on a stream, the overhead is one dictionary hit and one foreign call without conversions:
    about half a microsecond besides the driver's time (`extended_ns` of bench/host_cost.py)."""
    launch_kernel, address, extra = driver().cuLaunchKernelEx, ctypes.c_void_p(function), ctypes.c_void_p(None)
    parameters = ctypes.c_void_p(pointers)
    held = (Attribute * 1)(Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, Value(allowed=1)))
    configs: dict[int, Any] = {}

    def config_for(stream: int) -> Any:
        config = LaunchConfig(launch.grid, (launch.threads, 1, 1), launch.smem_bytes, stream, held, 1)
        # The reference keeps the struct alive, and the struct its attributes.
        return configs.setdefault(stream, ctypes.byref(config))

    def run(stream: int) -> None:
        status = launch_kernel(configs.get(stream) or config_for(stream), address, parameters, extra)
        if status == thread_context.INVALID_CONTEXT:
            thread_context.give()
            status = launch_kernel(configs[stream], address, parameters, extra)
        if status:
            raise LaunchError(f"{launch} was refused: {reason(status)}")

    return run


def reason(status: int) -> str:
    """Return the driver's message for a status."""
    text = ctypes.c_char_p()
    driver().cuGetErrorString(status, ctypes.byref(text))
    return f"CUDA error {status}, {(text.value or b'unknown').decode()}"


UNIT = 128  # bytes of shared memory per allocation unit
# A cluster lies in one group of multiprocessors (GPC). An undamaged group has 16 or 18, always an even number.
OF_GROUP = 16


@dataclass(frozen=True)
class Multiprocessors:
    """The limits of an NVIDIA GPU on resident blocks, besides registers and threads."""

    count: int
    smem_bytes: int  # per multiprocessor
    most_bytes: int  # per block, at most
    reserved_bytes: int  # per block, in addition to what it can use

    def blocks_of_each(self, launch: Launch) -> int:
        """Return the least number of blocks per multiprocessor that makes all blocks of the launch resident
        together."""
        # Multiprocessors per group that whole clusters leave idle. Clusters of two leave none.
        lost = self.count // OF_GROUP * max(0, launch.cluster - 2)
        return ceil_div(math.prod(launch.grid) + lost, self.count)

    def room(self, launch: Launch, static_bytes: int) -> int:
        """Return the dynamic shared memory with which a multiprocessor holds no more blocks of the launch than that."""
        share = min(self.smem_bytes // self.blocks_of_each(launch) - self.reserved_bytes, self.most_bytes)
        return max(launch.smem_bytes, share // UNIT * UNIT - static_bytes)
