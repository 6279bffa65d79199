"""A device that need not be present: kernels are compiled for its target, and their launches are noted instead of run.

Its arrays are NumPy's, in a range of addresses of its own that is never used twice. Only what was uploaded has
content.
"""

from __future__ import annotations

import bisect
import contextlib
import ctypes
import mmap
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from qconv.device import array_kernels, memory
from qconv.device.cache import Binary
from qconv.device.compile import build_array_kernels
from qconv.errors import Unshippable
from qconv.generator import Plan
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import TENSOR_MAP_BYTES, TensorMap
from qconv.host_array import as_numpy, check_unmasked
from qconv.targets.target import Target

# Addresses without memory behind them until they are written.
SPACE_BYTES = 2**40
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's mmap lacks


@dataclass(frozen=True)
class Spot:
    """A place in an allocation, which is known by its number."""

    allocation: int
    offset: int


@dataclass(frozen=True)
class Launched:
    """A launch. `arguments` has zeros in the place of addresses: `pointers` and `maps` say, by the offset among the
    arguments, what lies there. `written` are the numbers of the allocations that it writes."""

    binary: Binary
    launch: Launch
    arguments: bytes
    pointers: tuple[tuple[int, Spot], ...]
    maps: tuple[tuple[int, TensorMap, Spot], ...]
    overlap: bool
    written: frozenset[int]
    layer: str

    @property
    def read(self) -> frozenset[int]:
        """The numbers of all allocations that it refers to."""
        spots = (*(spot for _, spot in self.pointers), *(spot for _, _, spot in self.maps))
        return frozenset(spot.allocation for spot in spots)


@dataclass(frozen=True)
class _Written:
    to: Spot
    layer: str

    @property
    def written(self) -> frozenset[int]:
        return frozenset({self.to.allocation})

    @property
    def read(self) -> frozenset[int]:
        return self.written


@dataclass(frozen=True)
class Filled(_Written):
    bytes: int
    byte: int


@dataclass(frozen=True)
class _Moved(_Written):
    source: Spot

    @property
    def read(self) -> frozenset[int]:
        return self.written | {self.source.allocation}


@dataclass(frozen=True)
class Copied(_Moved):
    bytes: int


@dataclass(frozen=True)
class Gathered(_Moved):
    """A copy into a contiguous array, of elements that lie at these strides. On a GPU it is a launch."""

    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes


@dataclass(frozen=True)
class Called:
    """A call of the program that runs the network: layers that no kernel computes, which are a file of the folder. Its
    arrays are contiguous, each with its bytes."""

    file: str
    content: bytes
    inputs: tuple[tuple[Spot, int], ...]
    outputs: tuple[tuple[Spot, int], ...]
    layer: str

    @property
    def written(self) -> frozenset[int]:
        return frozenset(spot.allocation for spot, _ in self.outputs)

    @property
    def read(self) -> frozenset[int]:
        return self.written | {spot.allocation for spot, _ in self.inputs}


Step = Launched | Filled | Copied | Gathered | Called


class TracedKernel:
    """A compiled plan, whose launches are noted."""

    def __init__(self, device: TracedDevice, plan: Plan, binary: Binary) -> None:
        self._device, self._binary = device, binary
        outputs = {tensor.name for tensor in plan.problem.outputs} | {"scratch"}
        places = list(zip(plan.offsets, plan.fields, strict=True))
        self._pointers = [
            (offset, field.role in outputs, field.role == "workspace")
            for offset, field in places
            if field.is_pointer and field.tensor_map is None
        ]
        self._maps = [
            (offset, field.tensor_map, field.tensor_map.array in outputs)
            for offset, field in places
            if field.tensor_map is not None
        ]

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        def launched(stream: Any = None) -> None:
            self._device.note(self._launched(launch, arguments, overlap))

        return launched

    def _launched(self, launch: Launch, arguments: bytes, overlap: bool) -> Launched:
        rest, pointers, maps = bytearray(arguments), [], []
        written: set[int] = set()
        prepares = launch.when == "prepare"
        for offset, is_output, is_workspace in self._pointers:
            address = _taken(rest, offset, 8)
            if address:
                pointers.append((offset, self._device.spot(address)))
                if is_workspace if prepares else is_output:
                    written.add(pointers[-1][1].allocation)
        for offset, tensor_map, is_output in self._maps:
            address = _taken(rest, offset, TENSOR_MAP_BYTES)
            if address:
                maps.append((offset, tensor_map, self._device.spot(address)))
                if is_output and not prepares:
                    written.add(maps[-1][2].allocation)
        return Launched(
            self._binary,
            launch,
            bytes(rest),
            tuple(pointers),
            tuple(maps),
            overlap,
            frozenset(written),
            self._device.layer,
        )


def _taken(arguments: bytearray, offset: int, size: int) -> int:
    """Return the address at an offset, and clear the bytes that stand for it."""
    (address,) = struct.unpack_from("Q", arguments, offset)
    arguments[offset : offset + size] = bytes(size)
    return int(address)


class TracedDevice:
    """A device that notes what is launched, as `steps`, and what is allocated, by numbers in order. `layer` names what
    is launched now."""

    def __init__(self, target: Target, name: str) -> None:
        self.target, self.name = target, name
        self.spec = target.name if target.vendor == "cpu" else "cuda:0" if target.vendor == "nvidia" else "hip:0"
        self.stream = None
        self.steps: list[Step] = []
        self.layer = ""
        self.sizes: list[int] = []
        self.ends: dict[int, int] = {}  # by number: how many allocations there were when it was freed
        self.instead_of: dict[int, tuple[int, ...]] = {}
        self._space = mmap.mmap(-1, SPACE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._space))
        self._begins: list[int] = []
        self._next = 0
        self._uploaded: set[int] = set()

    def note(self, step: Step) -> None:
        self._uploaded -= step.written
        self.steps.append(step)

    def spot(self, address: int) -> Spot:
        number = bisect.bisect_right(self._begins, address - self._first) - 1
        offset = address - self._first - self._begins[number] if number >= 0 else -1
        if not 0 <= offset <= self.sizes[number]:
            raise ValueError(f"{address:#x} is no address of {self.name or self.target.name}: allocate it there")
        return Spot(number, offset)

    def content(self, number: int) -> bytes | None:
        """Return the bytes of an allocation that was uploaded and not written since."""
        begin = self._begins[number]
        return self._space[begin : begin + self.sizes[number]] if number in self._uploaded else None

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "target": self.target.name}

    def load(self, plan: Plan, binary: Binary) -> TracedKernel:
        return TracedKernel(self, plan, binary)

    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """Return the address alone: a map is made where the network runs."""
        return struct.pack("Q", address).ljust(TENSOR_MAP_BYTES, b"\0")

    def adopt(self, name: str, array: Any) -> tuple[Any, int]:
        check_unmasked(name, array)
        address = int(array.__array_interface__["data"][0])
        if array.size:
            self.spot(address)
        return array, address

    def address_here(self, array: Any) -> int | None:
        return None  # nothing runs here

    def upload(self, array: Any) -> Any:
        host = np.array(as_numpy(array), order="C")
        made = self.empty(host.shape, str(host.dtype))
        made[...] = host
        if made.size:
            self._uploaded.add(self._of(made).allocation)
        return made

    def download(self, array: Any) -> Any:
        host = as_numpy(array)
        if isinstance(host, np.ndarray) and host.size and self._is_here(host):
            if self._of(host).allocation not in self._uploaded:
                raise Unshippable(
                    f"{self.layer or 'a layer'} waits for the host, which reads what a kernel has written"
                )
            return host.copy()
        return host

    def _is_here(self, array: Any) -> bool:
        return 0 <= int(array.__array_interface__["data"][0]) - self._first < self._next

    def _of(self, array: Any) -> Spot:
        return self.spot(int(array.__array_interface__["data"][0]))

    def contiguous(self, array: Any) -> Any:
        if array.ndim and array.flags.c_contiguous:
            return array
        made = self.empty(np.atleast_1d(array).shape, str(array.dtype))
        if array.size:
            self._gather(array, made)
        return made

    def _gather(self, array: Any, made: Any) -> None:
        to, source = self._of(made), self._of(array)
        shape, strides = tuple(array.shape), tuple(array.strides)
        if self.target.vendor == "cpu":
            self.note(Gathered(to, self.layer, source, array.itemsize, shape, strides))
            return
        given = array_kernels.gathered(shape, strides, array.itemsize, source.offset)
        if not given.is_one_launch:
            for part, its_place in zip(array, made, strict=True):
                self._gather(part, its_place)
            return
        arguments = array_kernels.GATHER.pack(0, 0, *given.numbers)
        self._move(f"gather_{given.item_bytes}", (given.blocks, 1, 1), arguments, source, to)

    def exchanged(self, array: Any) -> Any:
        if self.target.vendor == "cpu":
            return self.contiguous(array.transpose(0, 2, 1))
        outers, rows, columns = array.shape
        x, y = self.contiguous(array), self.empty((outers, columns, rows), str(array.dtype))
        if x.size:
            source = self._of(x)
            (across, down), numbers = array_kernels.launch_of(array.shape, x.itemsize, source.offset)
            arguments = array_kernels.EXCHANGE.pack(0, 0, *numbers)
            self._move(f"exchange_{x.itemsize}", (across, down, 1), arguments, source, self._of(y))
        return y

    def _move(self, kernel: str, grid: tuple[int, int, int], arguments: bytes, source: Spot, to: Spot) -> None:
        """Note a launch of one of `array_kernels`, which take the arrays first."""
        binary = build_array_kernels(self.target, ahead=True)
        launch = Launch(kernel, grid, array_kernels.THREADS, 0)
        pointers = ((0, source), (8, to))
        written = frozenset({to.allocation})
        self.note(Launched(binary, launch, arguments, pointers, (), False, written, self.layer))

    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Sequence[int] = ()) -> Any:
        kind = np.dtype(dtype)
        size = prod(shape) * kind.itemsize
        if not size:
            return np.empty(shape, kind)
        number, begin = len(self.sizes), self._next
        self._next = begin + -(-size // memory.ALIGNMENT) * memory.ALIGNMENT
        if self._next > SPACE_BYTES:
            raise Unshippable(
                f"the network asks for more than {SPACE_BYTES} bytes while it is traced: ask for fewer shapes"
            )
        self._begins.append(begin)
        self.sizes.append(size)
        self.instead_of[number] = tuple(self.spot(address).allocation for address in instead_of)
        raw = (ctypes.c_ubyte * size).from_address(self._first + begin)
        # Views keep the whole allocation alive, and nothing else does.
        weakref.finalize(raw, self._free, number).atexit = False
        return np.ndarray(shape, kind, memoryview(raw))

    def _free(self, number: int) -> None:
        self.ends[number] = len(self.sizes)

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any:
        made = self.empty(shape, dtype)
        self.fill(made, 0)
        return made

    def fill(self, array: Any, byte: int) -> None:
        if array.size:
            self.note(Filled(self._of(array), self.layer, array.nbytes, byte))

    def copy(self, array: Any, to: Any) -> None:
        if not array.size:
            return
        source, target = self._of(array), self._of(to)
        blocks = 0
        if self.target.vendor != "cpu":
            blocks = array_kernels.copy_blocks(to.nbytes, (source.offset, target.offset))
        if blocks:
            arguments = array_kernels.COPY.pack(0, 0, to.nbytes // array_kernels.CHUNK)
            self._move("copy", (blocks, 1, 1), arguments, source, target)
        else:
            self.note(Copied(target, self.layer, source, to.nbytes))

    def write(self, array: Any, to: Any) -> None:
        self.copy(self.upload(array), to)

    def call(self, file: str, content: bytes, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Note a call of the program that runs the network."""
        given, made = (tuple((self._of(array), int(array.nbytes)) for array in arrays) for arrays in (inputs, outputs))
        self.note(Called(file, content, given, made, self.layer))

    def rolled(self, array: Any, by: int) -> Any:
        raise Unshippable("arrays are rotated in tests alone")

    def same(self, one: Any, other: Any) -> bool:
        raise Unshippable("nothing runs while a network is traced, so nothing can be compared")

    def on(self, stream: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def launching(self, layer: str) -> Iterator[None]:
        """Name what is launched within the context."""
        before, self.layer = self.layer, layer
        try:
            yield
        finally:
            self.layer = before

    def synchronize(self) -> None:
        return

    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        raise Unshippable("nothing runs while a network is traced, so nothing is timed")

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]:
        raise Unshippable("nothing runs while a network is traced, so nothing is timed")

    def record(
        self, work: Callable[[], Sequence[Any]], place: memory.Place | None = None
    ) -> tuple[list[Any], Callable[[], None]]:
        raise Unshippable("a network is traced once, and not recorded")
