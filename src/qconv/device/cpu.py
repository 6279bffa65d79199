"""The CPU device: it runs the same generated sources with one fiber per GPU thread, slowly and exactly."""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import os
import platform
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from qconv.device import cpu_runtime, folders, memory, program, tensor_maps
from qconv.device.cache import Binary, Loaded
from qconv.errors import KernelMissing
from qconv.generator import Plan
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import TENSOR_MAP_ALIGNMENT, TensorMap
from qconv.host_array import UNREADABLE, as_numpy, check_unmasked
from qconv.targets.target import Target


def runtime_cache() -> Path:
    return folders.make("cpu")


def find_runtime() -> Path | None:
    """Return the built runtime from the first layer that has it, or None."""
    found = ((layer, layer.root / "cpu" / cpu_runtime.runtime_name()) for layer in folders.layers())
    return next((path for layer, path in found if folders.is_whole(path, layer)), None)


def found_runtime() -> Path:
    """Return the runtime, built if no layer has it and compilation is allowed."""
    found = find_runtime()
    if found is None and program.is_forbidden():
        raise KernelMissing(
            f"the CPU device's runtime is not in {folders.described()}, and QCONV_NO_COMPILE forbids compiling it; run "
            "beforehand, without QCONV_NO_COMPILE: qconv-tune build --target cpu"
        )
    return found or cpu_runtime.build_runtime(runtime_cache())


class CpuKernel(Loaded):
    def __init__(self, target: Target, binary: Binary, launches: Iterable[Launch], seed: int = 0) -> None:
        cpu_runtime.load_runtime(found_runtime)
        library = ctypes.CDLL(str(binary.path))
        self._entries = {
            launch.kernel: ctypes.cast(getattr(library, f"{launch.kernel}_entry"), ctypes.c_void_p).value or 0
            for launch in launches
        }
        # ctypes never unloads. Linux allows 65530 mappings a process, and a search or a test run loads thousands.
        weakref.finalize(self, _ctypes.dlclose, library._handle).atexit = False
        self._warp_size = target.warp_size
        self._seed = seed

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> CpuLaunch:
        """Bind arguments to a launch. It returns when it is done, with or without `overlap`: see `run_overlapped`."""
        packed = aligned(arguments)
        shape = (launch.grid, launch.threads, launch.smem_bytes, launch.cluster)
        grid = cpu_runtime.launched_grid(
            self._entries[launch.kernel], packed, *shape, warp_size=self._warp_size, seed=self._seed
        )
        return CpuLaunch(self, packed, grid)


@dataclass(frozen=True, eq=False)
class CpuLaunch:
    """A kernel with its arguments, ready to run."""

    kernel: CpuKernel  # keeps its code loaded
    arguments: ctypes.Array[Any]
    grid: cpu_runtime.LaunchedGrid

    def __call__(self, stream: Any = None) -> None:
        if stream is not None:
            raise ValueError(f"stream={stream!r} was given, but the CPU device has no streams: leave it out")
        cpu_runtime.run_grid(self.grid)


def aligned(arguments: bytes) -> ctypes.Array[Any]:
    """Copy argument bytes to an address with the alignment of a tensor map."""
    whole = ctypes.create_string_buffer(len(arguments) + TENSOR_MAP_ALIGNMENT)
    at = -ctypes.addressof(whole) % TENSOR_MAP_ALIGNMENT
    packed = (ctypes.c_char * len(arguments)).from_buffer(whole, at)
    packed.raw = arguments
    return packed


def run_overlapped(launches: Sequence[CpuLaunch]) -> None:
    """Run launches with programmatic dependent launch, as late as possible: each begins before the previous one has
    done anything, which then runs when a thread first waits for it. With an odd seed, they run one after the other."""
    before = None
    for launch in launches:
        grid = cpu_runtime.LaunchedGrid.from_buffer_copy(launch.grid)
        if before is not None:
            grid.before = ctypes.pointer(before)
        before = grid
    if before is not None:
        cpu_runtime.run_grid(before)


class Allocator:
    """The source of arrays while work is recorded: host memory, traced if there is a trace."""

    def __init__(self, trace: memory.Trace | None = None) -> None:
        self._trace = trace

    def take(self, size: int) -> Any:
        raw = np.empty(size, np.uint8)
        if self._trace is not None:
            address = int(raw.__array_interface__["data"][0])
            self._trace.take(address, size)
            weakref.finalize(raw, self._trace.give, address).atexit = False
        return raw


class PlacedAllocator(Allocator):
    def __init__(self, placement: memory.Placement, arena: Any) -> None:
        super().__init__()
        self._placed = memory.Placed(placement)
        self._arena = arena

    def take(self, size: int) -> Any:
        offset = self._placed.take(size)
        return super().take(size) if offset is None else self._arena[offset : offset + size]


_allocators: ContextVar[Allocator | None] = ContextVar("allocator", default=None)


@contextlib.contextmanager
def allocating_by(allocator: Allocator) -> Iterator[None]:
    token = _allocators.set(allocator)
    try:
        yield
    finally:
        _allocators.reset(token)


def _empty(shape: tuple[int, ...], dtype: str) -> Any:
    size, allocator = prod(shape) * np.dtype(dtype).itemsize, _allocators.get()
    if allocator is None or not size:
        return np.empty(shape, dtype)
    # Views keep the whole allocation alive, and nothing else does.
    return np.ndarray(shape, dtype, allocator.take(size))


def _copied(array: Any) -> Any:
    made = _empty(array.shape, array.dtype)
    made[...] = array
    return made


def aligned_bytes(size: int) -> Any:
    whole = np.empty(size + memory.ALIGNMENT, np.uint8)
    begin = -int(whole.__array_interface__["data"][0]) % memory.ALIGNMENT
    return whole[begin : begin + size]


class CpuDevice:
    """The machine's own CPU; a target such as cpu.gfx942 adds that architecture's matrix instructions by emulation. It
    runs any plan for the CPU. `seed` chooses the order of everything that a GPU leaves undefined, as in
    `cpu_runtime.h`; 0 is the fastest."""

    def __init__(self, target: Target, seed: int = 0) -> None:
        self.target = target
        self._seed = seed

    def __repr__(self) -> str:
        return f"<CpuDevice {self.spec}: {self.name}>"

    @property
    def spec(self) -> str:
        return self.target.name

    @property
    def stream(self) -> None:
        return None

    @cached_property
    def name(self) -> str:
        return f"{self.target.name} {_model()}, {os.cpu_count()} cores"

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target.name,
            "system": platform.system(),
            "machine": platform.machine(),
        }

    def load(self, plan: Plan, binary: Binary) -> CpuKernel:
        return CpuKernel(plan.target, binary, plan.launches, self._seed)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        return tensor_maps.described(tensor_map, address)

    def adopt(self, name: str, array: Any) -> tuple[Any, int]:
        check_unmasked(name, array)
        if not isinstance(array, np.ndarray):
            if hasattr(array, "__cuda_array_interface__"):
                raise ValueError(f"{name} lies on a GPU, but the kernel runs on the CPU device: move it to the host")
            try:
                host = as_numpy(array)
                array = host if isinstance(host, np.ndarray) else np.from_dlpack(array)
            except UNREADABLE as error:
                raise ValueError(
                    f"{name} ({type(array).__name__}) is not an array the CPU device can read: {error}"
                ) from None
        if name == "out" and not array.flags.writeable:
            raise ValueError("out is read-only: give an array that can be written")
        return array, int(array.__array_interface__["data"][0])

    def address_here(self, array: Any) -> int | None:
        return None  # its arrays are the host's

    def upload(self, array: Any) -> Any:
        return np.array(array, order="C")  # a copy, as on a GPU: the caller may overwrite the original

    def download(self, array: Any) -> Any:
        return as_numpy(array)

    def contiguous(self, array: Any) -> Any:
        return array if array.ndim and array.flags.c_contiguous else _copied(np.atleast_1d(array))

    def exchanged(self, array: Any) -> Any:
        return self.contiguous(array.transpose(0, 2, 1))

    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Sequence[int] = ()) -> Any:
        memory.wish(instead_of)
        return _empty(shape, dtype)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        made = _empty(shape, dtype)
        made[...] = 0
        return made

    def fill(self, array: Any, byte: int) -> None:
        array.view(np.uint8)[...] = byte

    def copy(self, array: Any, to: Any) -> None:
        to[...] = array

    def write(self, array: Any, to: Any) -> None:
        to[...] = array

    def rolled(self, array: Any, by: int) -> Any:
        return np.roll(array, by)

    def same(self, one: Any, other: Any) -> bool:
        return np.array_equal(one.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))

    def on(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def synchronize(self) -> None:
        return

    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        """Run the launches in order, timed by the wall clock."""

        def again() -> float:
            begin = time.perf_counter_ns()
            for launch in launches:
                launch(None)
            return (time.perf_counter_ns() - begin) / 1e3 / len(launches)

        return again

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]:
        """Return one time per repeat, after one untimed run."""
        again = self.replay(launches)
        again()
        return tuple(again() for _ in range(repeats))

    def record(
        self, work: Callable[[], Sequence[Any]], place: memory.Place | None = None
    ) -> tuple[list[Any], Callable[[], None]]:
        """Record work. The CPU device has no graphs: the work runs again, and its results are copied to the same
        arrays."""
        trace = memory.Trace()
        with memory.tracing(trace), allocating_by(Allocator(trace)):
            arrays = list(work())
        placement = None if place is None else place(trace.allocations)
        arena = None if placement is None else aligned_bytes(placement.arena_bytes)

        def again() -> None:
            allocator = Allocator() if placement is None else PlacedAllocator(placement, arena)
            try:
                with allocating_by(allocator):
                    made = work()
            except memory.OtherWork:
                made = work()
            for array, each in zip(arrays, made, strict=True):
                self.copy(each, array)

        return arrays, again


def _model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
