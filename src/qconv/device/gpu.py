"""GPUs through CuPy: arrays, loading, streams, events. On ROCm, CuPy exposes HIP under the same names."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any

import cupy
import numpy as np
from cupy.cuda.function import Module
from cupy_backends.cuda.api import driver, runtime

from qconv.device import array_kernels, launch_attributes, memory, tensor_maps, thread_context
from qconv.device.cache import Binary, Loaded
from qconv.device.compile import build_array_kernels
from qconv.device.gpu_graph import captured, graph_of, placed_graph
from qconv.device.launch_attributes import Multiprocessors
from qconv.dtypes import BITS_OF_FLOAT8, FLOAT8
from qconv.errors import DeviceError, LaunchError
from qconv.generator import Plan
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import TensorMap
from qconv.host_array import as_numpy
from qconv.narrow_floats import as_bits, numpy_of, type_of
from qconv.targets.target import Target, target_of_compute_capability, target_of_gcn_arch

KIND = "hip" if runtime.is_hip else "cuda"
# CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES and CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
STATIC_SHARED, MAX_DYNAMIC_SHARED = 1, 8
# cudaDevAttrMaxSharedMemoryPerMultiprocessor, ...PerBlockOptin and cudaDevAttrReservedSharedMemoryPerBlock
SHARED_OF_EACH, MOST_OF_BLOCK, RESERVED_OF_BLOCK = 81, 97, 111
DEFAULT_LIMIT = 48 * 1024


def specs() -> list[str]:
    try:
        return [f"{KIND}:{index}" for index in range(runtime.getDeviceCount())]
    except runtime.CUDARuntimeError:
        return []


def failure() -> str | None:
    """Return why there is no device, in the runtime's words, or None."""
    try:
        return None if runtime.getDeviceCount() else "it knows none"
    except runtime.CUDARuntimeError as error:
        return str(error)


class GpuKernel(Loaded):
    def __init__(self, device: GpuDevice, plan: Plan, binary: Binary) -> None:
        self._device = device
        self._module = Module()
        with device.current:
            self._module.load(binary.data)
            self._functions = {launch.kernel: self._module.get_function(launch.kernel) for launch in plan.launches}
            for launch in plan.launches:
                if launch.smem_bytes > DEFAULT_LIMIT and KIND == "cuda":
                    pointer = self._functions[launch.kernel].ptr
                    driver.funcSetAttribute(pointer, MAX_DYNAMIC_SHARED, launch.smem_bytes)
        self._spread: dict[Launch, Launch] = {}

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        """Prepare a launch as far as possible, so that each launch is one call of the driver."""
        packed = ctypes.create_string_buffer(arguments, len(arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(packed))
        function, address = self._functions[launch.kernel].ptr, ctypes.addressof(pointers)
        if overlap:
            run = _extended(launch_attributes.launcher(function, self._spread_out(launch), address))
        else:
            run = _plain(function, launch, address)
        current = self._device.current

        def run_there(stream: Any = None) -> None:
            with current:
                run(stream)

        chosen = run if self._device.only else run_there
        chosen.kept = (self, packed, pointers)  # type: ignore[attr-defined] # the addresses must outlive the launcher
        return chosen

    def _spread_out(self, launch: Launch) -> Launch:
        """Return the launch with the shared memory to use when it overlaps; `launch_attributes` says why it needs
        more."""
        if launch not in self._spread:
            function = self._functions[launch.kernel].ptr
            with self._device.current:
                room = self._device.multiprocessors.room(launch, driver.funcGetAttribute(STATIC_SHARED, function))
                driver.funcSetAttribute(function, MAX_DYNAMIC_SHARED, room)
            self._spread[launch] = replace(launch, smem_bytes=room)
        return self._spread[launch]


def _plain(function: int, launch: Launch, pointers: int) -> Callable[[Any], None]:
    launch_kernel, get_stream = driver.launchKernel, cupy.cuda.get_current_stream
    (grid_x, grid_y, grid_z), threads, one = launch.grid, launch.threads, 1
    # HIP kernels have static shared memory only.
    smem_bytes = 0 if KIND == "hip" else launch.smem_bytes

    def run(stream: Any = None) -> None:
        address = get_stream().ptr if stream is None else stream if type(stream) is int else stream_address(stream)
        try:
            launch_kernel(function, grid_x, grid_y, grid_z, threads, one, one, smem_bytes, address, pointers, 0)
        except driver.CUDADriverError as error:
            if error.status != thread_context.INVALID_CONTEXT:
                raise
            thread_context.give()
            launch_kernel(function, grid_x, grid_y, grid_z, threads, one, one, smem_bytes, address, pointers, 0)

    return run


def _extended(launch_on: Callable[[int], None]) -> Callable[[Any], None]:
    get_stream = cupy.cuda.get_current_stream

    def run(stream: Any = None) -> None:
        launch_on(get_stream().ptr if stream is None else stream if type(stream) is int else stream_address(stream))

    return run


def stream_address(stream: Any) -> int:
    """Return the address of a CuPy, PyTorch or numba stream, of any object with `__cuda_stream__`, or the int
    itself."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    for name in ("ptr", "cuda_stream", "handle"):
        value = getattr(stream, name, None)
        if value is not None:
            return int(getattr(value, "value", value) or 0)
    raise ValueError(f"stream={stream!r} is not a stream: give a CuPy or PyTorch stream, or its address as an int")


class _Address:
    """A stream known only by its address, in the protocol by which CuPy adopts streams."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


def _held_as(dtype: str) -> str:
    """Return CuPy's type for elements of a type: it has no float of 8 bits, whose bits lie in a uint8."""
    return BITS_OF_FLOAT8 if dtype in FLOAT8 else dtype


def _bits_of_float8(array: Any) -> Any:
    """Return NumPy's array of 8-bit floats as its bits, and any other unchanged."""
    return array.view(BITS_OF_FLOAT8) if isinstance(array, np.ndarray) and type_of(array) in FLOAT8 else array


class GpuDevice:
    def __init__(self, kind: str, index: int) -> None:
        available = specs()
        if f"{kind}:{index}" not in available:
            why = "none is here, its driver is missing, or CuPy is for another vendor"
            there = f"GPUs: {', '.join(available)}" if available else f"no GPU can be used: {why}"
            raise DeviceError(f"the device {kind}:{index} does not exist here ({there}); use --device cpu or another")
        self.spec = f"{kind}:{index}"
        self.only = len(available) == 1
        self.current = cupy.cuda.Device(index)
        self._properties = runtime.getDeviceProperties(index)
        self.name: str = self._properties["name"].decode()

    def __repr__(self) -> str:
        return f"<GpuDevice {self.spec}: {self.name}>"

    @cached_property
    def target(self) -> Target:
        try:
            if KIND == "hip":
                return target_of_gcn_arch(self._properties["gcnArchName"].decode())
            return target_of_compute_capability(self._properties["major"], self._properties["minor"])
        except ValueError as unknown:
            raise DeviceError(f"{self.spec}, {self.name}: {unknown}; or use --device cpu") from None

    @property
    def stream(self) -> int:
        return int(cupy.cuda.get_current_stream(self.current.id).ptr)

    @cached_property
    def multiprocessors(self) -> Multiprocessors:
        numbers = (SHARED_OF_EACH, MOST_OF_BLOCK, RESERVED_OF_BLOCK)
        limits = [runtime.deviceGetAttribute(number, self.current.id) for number in numbers]
        return Multiprocessors(self._properties["multiProcessorCount"], *limits)

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "target": self.target.name,
            "driver": runtime.driverGetVersion(),
            "processors": self._properties["multiProcessorCount"],
            "clock_mhz": self._properties.get("clockRate", 0) // 1000,
            "l2_bytes": self._properties["l2CacheSize"],
            "clock_now_mhz": self._clock_now_mhz(),
        }

    def _clock_now_mhz(self) -> int | None:
        """Return the current clock of the multiprocessors. None without nvidia-ml-py (the bench extra) or on AMD."""
        try:
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(runtime.deviceGetPCIBusId(self.current.id).encode())
            return int(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM))
        except Exception:  # optional information: whatever the reason, it is missing
            return None

    def load(self, plan: Plan, binary: Binary) -> GpuKernel:
        return GpuKernel(self, plan, binary)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        if not self.target.tensor_maps:
            raise DeviceError(
                f"a tensor map of {tensor_map.array} was asked for, but {self.name} ({self.target.name}) copies "
                "nothing by tensor maps: plan for a target that does"
            )
        with self.current:
            return tensor_maps.encoded(tensor_map, address)

    def adopt(self, name: str, array: Any) -> tuple[Any, int]:
        dtype, array = type_of(array), as_bits(array)
        if not isinstance(array, cupy.ndarray):
            if isinstance(array, np.ndarray):
                raise ValueError(
                    f"{name} is a NumPy array in host memory, but the kernel runs on {self.spec}: move it there"
                )
            try:
                if hasattr(array, "__cuda_array_interface__"):
                    array = cupy.asarray(array)
                elif hasattr(array, "__dlpack__"):
                    array = cupy.from_dlpack(array)
                else:
                    raise TypeError("it has neither __cuda_array_interface__ nor __dlpack__")
            except (TypeError, BufferError, RuntimeError, ValueError) as error:
                raise ValueError(f"{name} ({type(array).__name__}) cannot be used on {self.spec}: {error}") from None
        if dtype == "bfloat16":  # CuPy has this type, and no float of 8 bits
            array = numpy_of(array, dtype)
        if array.device.id != self.current.id:
            raise ValueError(f"{name} lies on GPU {array.device.id}, but the kernel runs on {self.spec}: move it there")
        return array, int(array.data.ptr)

    def address_here(self, array: Any) -> int | None:
        if type(array) is not cupy.ndarray or not array.flags.c_contiguous:
            return None
        memory = array.data
        return int(memory.ptr) if memory.device_id == self.current.id else None

    def upload(self, array: Any) -> Any:
        with self.current:
            return cupy.asarray(_bits_of_float8(array))

    def download(self, array: Any) -> Any:
        """Return a device array as a NumPy array; a number or a list is returned unchanged."""
        if not isinstance(array, cupy.ndarray) and hasattr(array, "__cuda_array_interface__"):
            array = cupy.asarray(array)
        return cupy.asnumpy(self.contiguous(array)) if isinstance(array, cupy.ndarray) else as_numpy(array)

    @cached_property
    def _array_kernels(self) -> dict[str, Any]:
        binary = build_array_kernels(self.target)
        module = Module()
        with self.current:
            module.load(binary.data)
            return {name: module.get_function(name) for name in array_kernels.NAMES}

    def _move(self, kernel: str, grid: tuple[int, int], arguments: bytes) -> None:
        """Launch one of `array_kernels` on the current stream."""
        held = ctypes.create_string_buffer(arguments, len(arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(held))
        launch = Launch(kernel, (*grid, 1), array_kernels.THREADS, 0)
        _plain(self._array_kernels[kernel].ptr, launch, ctypes.addressof(pointers))(None)

    def contiguous(self, array: Any) -> Any:
        if array.flags.c_contiguous:
            return array
        with self.current:
            made = cupy.empty(array.shape, array.dtype)
            self._gather(array, made)
        return made

    def _gather(self, array: Any, into: Any) -> None:
        """Gather without CuPy, which would compile a kernel for it at run time."""
        given = array_kernels.gathered(array.shape, array.strides, array.itemsize, array.data.ptr)
        if not given.is_one_launch:
            for part, its_place in zip(array, into, strict=True):
                self._gather(part, its_place)
        elif array.size:
            arguments = array_kernels.GATHER.pack(array.data.ptr, into.data.ptr, *given.numbers)
            self._move(f"gather_{given.item_bytes}", (given.blocks, 1), arguments)

    def exchanged(self, array: Any) -> Any:
        outers, rows, columns = array.shape
        with self.current:
            x, y = self.contiguous(array), cupy.empty((outers, columns, rows), array.dtype)
            if x.size:
                grid, numbers = array_kernels.launch_of(array.shape, x.itemsize, x.data.ptr)
                arguments = array_kernels.EXCHANGE.pack(x.data.ptr, y.data.ptr, *numbers)
                self._move(f"exchange_{x.itemsize}", grid, arguments)
        return y

    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Sequence[int] = ()) -> Any:
        memory.wish(instead_of)
        with self.current:
            return cupy.empty(shape, _held_as(dtype))

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        with self.current:
            return cupy.zeros(shape, _held_as(dtype))

    def fill(self, array: Any, byte: int) -> None:
        with self.current:
            array.data.memset_async(byte, array.nbytes)

    def copy(self, array: Any, to: Any) -> None:
        with self.current:
            blocks = array_kernels.copy_blocks(to.nbytes, (array.data.ptr, to.data.ptr))
            if blocks:
                arguments = array_kernels.COPY.pack(array.data.ptr, to.data.ptr, to.nbytes // array_kernels.CHUNK)
                self._move("copy", (blocks, 1), arguments)
            else:
                to.data.copy_from_device_async(array.data, to.nbytes)

    def write(self, array: Any, to: Any) -> None:
        with self.current:
            to.set(array)

    def rolled(self, array: Any, by: int) -> Any:
        """Rotate by memory copies alone: CuPy's kernels need the CUDA headers, which may be missing."""
        with self.current:
            made = cupy.empty(array.shape, array.dtype)
            tail = by % max(1, array.size) * array.itemsize
            head = array.nbytes - tail
            made.data.copy_from_device_async(array.data + head, tail)
            (made.data + tail).copy_from_device_async(array.data, head)
        return made

    def same(self, one: Any, other: Any) -> bool:
        with self.current:
            differs = cupy.zeros(1, "uint32")
            blocks = min(8 * self._properties["multiProcessorCount"], -(-one.nbytes // array_kernels.THREADS) or 1)
            addresses = (one.data.ptr, other.data.ptr, differs.data.ptr)
            self._move("differ", (blocks, 1), array_kernels.DIFFER.pack(*addresses, one.nbytes, blocks))
            return not differs.get()[0]

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        with self.current:
            if stream is None:
                yield
            else:
                address = stream if type(stream) is int else stream_address(stream)
                with cupy.cuda.Stream.from_external(_Address(address)):
                    yield

    def synchronize(self) -> None:
        try:
            with self.current:
                runtime.deviceSynchronize()
        except runtime.CUDARuntimeError as error:
            raise LaunchError(f"a kernel on {self.spec} failed: {error}") from None

    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        """Capture the launches in one graph, timed by events around it."""
        with self.current:
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                with captured(stream) as graphs:
                    for launch in launches:
                        launch(stream.ptr)
                (graph,) = graphs
                graph.upload(stream)
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()

        def again() -> float:
            with self.current:
                begin.record(stream)
                graph.launch(stream)
                end.record(stream)
                end.synchronize()
                # `launches` keeps the kernels' arguments alive as long as the graph.
                return float(cupy.cuda.get_elapsed_time(begin, end)) * 1e3 / len(launches)

        return again

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]:
        """Return one time per repeat, after one untimed run."""
        again = self.replay(launches)
        again()
        return tuple(again() for _ in range(repeats))

    def record(
        self, work: Callable[[], Sequence[Any]], place: memory.Place | None = None
    ) -> tuple[list[Any], Callable[[], None]]:
        """Record work as one graph with memory of its own."""
        with self.current:
            pool, stream = cupy.cuda.MemoryPool(), cupy.cuda.Stream(non_blocking=True)
            # Wait for uploads and packing on other streams.
            runtime.deviceSynchronize()
            made = None if place is None else placed_graph(work, place, stream)
            if made is None:
                made = *graph_of(work, stream, cupy.cuda.using_allocator(pool.malloc)), pool
            arrays, graph, kept = made
            graph.upload(stream)
            stream.synchronize()

        def again() -> None:
            with self.current:
                graph.launch(cupy.cuda.get_current_stream())

        again.kept = (kept, arrays)  # type: ignore[attr-defined] # the graph writes there
        return arrays, again
