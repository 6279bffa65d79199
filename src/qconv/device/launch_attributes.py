"""Launches with attributes: cuLaunchKernelEx, which CuPy's driver module lacks, through ctypes. NVIDIA only.

How many blocks of a launch are resident at a time: what a launch that overlaps asks shared memory for.

A kernel that overlaps lets the next one begin when it begins itself, and only then waits for the one before it. So does
the next: in a sequence of short launches a dozen may be resident at a time, all but the first of them waiting. The
hardware puts the blocks of one that comes late where room is, several onto one multiprocessor while others have none,
and there they take as many times longer. A launch that asks for as much shared memory as its blocks leave unused gives
that room to nobody: the next one begins where blocks of this one end.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from qconv.errors import LaunchError
from qconv.generator.plan import Launch, ceil_div

PROGRAMMATIC_STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class Value(ctypes.Union):
    """CUlaunchAttributeValue: 64 bytes at an address of 8."""

    _fields_: ClassVar[Any] = [
        ("whole", ctypes.c_uint64 * 8),
        ("allowed", ctypes.c_int),
    ]


class Attribute(ctypes.Structure):
    """CUlaunchAttribute"""

    _fields_: ClassVar[Any] = [("id", ctypes.c_int), ("value", Value)]


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig"""

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
    """The one that CuPy has loaded. Its calls leave the GIL to others, as CuPy's do."""
    return ctypes.CDLL("libcuda.so.1")


def launcher(function: int, launch: Launch, pointers: int) -> Callable[[int], None]:
    """A launch that may begin before the one ahead of it has ended. Call it with the address of a stream.

    The driver reads the stream out of a struct: each stream has one of its own, so that two threads may launch on two
    streams. After the first launch on a stream, what is left is one dictionary hit and one foreign call with nothing to
    convert: about half a microsecond beside what the driver takes (`extended_ns` of bench/host_cost.py)."""
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
        if status:
            raise LaunchError(f"{launch} was refused: {reason(status)}")

    return run


def reason(status: int) -> str:
    """What the driver calls a status of its own."""
    text = ctypes.c_char_p()
    driver().cuGetErrorString(status, ctypes.byref(text))
    return f"CUDA error {status}, {(text.value or b'unknown').decode()}"


UNIT = 128  # that shared memory is given out in
# A cluster lies in one group of multiprocessors (GPC). A group has 16 or 18 where none is broken, always an even
# number.
OF_GROUP = 16


@dataclass(frozen=True)
class Multiprocessors:
    """What bounds the blocks of an NVIDIA GPU's, beside registers and threads."""

    count: int
    smem_bytes: int  # of each
    most_bytes: int  # that a block may have
    reserved_bytes: int  # of each block, beside what it may use

    def blocks_of_each(self, launch: Launch) -> int:
        """As few as let all blocks of the launch be resident together."""
        # In each group, what whole clusters do not fill: with pairs of blocks there is nothing.
        lost = self.count // OF_GROUP * max(0, launch.cluster - 2)
        return ceil_div(math.prod(launch.grid) + lost, self.count)

    def room(self, launch: Launch, static_bytes: int) -> int:
        """The dynamic shared memory of a launch with which a multiprocessor holds no more of its blocks than that."""
        share = min(self.smem_bytes // self.blocks_of_each(launch) - self.reserved_bytes, self.most_bytes)
        return max(launch.smem_bytes, share // UNIT * UNIT - static_bytes)
