"""A shipped network that is open on a device: its programs, and their runs."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import ref

import numpy as np

from qconv.device import Device
from qconv.errors import DeviceError, LaunchError
from qconv.network.graph.value import Counted, Value
from qconv.network.run.buffers import NONE, Buffer, settled
from qconv.network.ship.cpp_library import ANSWER, Tensor, library
from qconv.network.ship.parts import OpenedPart
from qconv.network.ship.program import Port
from qconv.op import WIDEST

# For all programs together. Each has outputs and a workspace of its own; the least recently used is dropped.
MOST_GRAPHS = 8
# The runs that are remembered until they recur.
MOST_SEEN = 64
# The exceptions of statuses, by their numbers in qconv_network.h; others are LaunchError.
ERRORS: dict[int, type[Exception]] = {1: ValueError, 2: ValueError, 3: ValueError, 4: DeviceError, 5: MemoryError}

ALIGNMENT = 256  # of a workspace

Addresses = tuple[int, ...]
# A program, the addresses of its inputs, and those of outputs that are bound.
Key = tuple[int, Addresses, tuple[int | None, ...]]


@dataclass(frozen=True)
class Ports:
    """The inputs and outputs of a program."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(port.shape for port in self.inputs)


@dataclass(frozen=True)
class _Workspace:
    array: Any  # keeps the memory
    address: int


OpenPart = Callable[[bytes], OpenedPart]


def no_part(content: bytes) -> OpenedPart:
    raise ValueError("the folder has layers that no kernel computes: open it by qconv.onnx.Session")


class OpenedNetwork:
    """An open network. A run whose inputs lie where those of an earlier one lay is a graph, as the library has them."""

    def __init__(self, folder: Path, device: Device, open_part: OpenPart = no_part) -> None:
        self._device = device
        named = "cpu" if device.target.vendor == "cpu" else device.spec
        self._c = library(named.split(":")[0])
        self._network = ctypes.c_void_p()
        _check(self._c, self._c.qconv_network_open(bytes(folder), named.encode(), ctypes.byref(self._network)))
        count = self._c.qconv_network_program_count(self._network)
        self.programs = tuple(Ports(self._ports("input", at), self._ports("output", at)) for at in range(count))
        self._graphs: dict[Key, Graph] = {}
        self._seen: dict[Key, None] = {}
        self._alone = Lock()  # a graph has a single set of outputs
        self._calls = [self._files_called(at) for at in range(count)]
        files = dict.fromkeys(file for files in self._calls for file in files)
        self._parts = {file: open_part((folder / file.decode()).read_bytes()) for file in files}
        self._failed: Exception | None = None  # of the last run
        # Without a reference to this network, which would keep itself alive.
        self._answer = ANSWER(partial(_answer, ref(self)))
        _check(self._c, self._c.qconv_network_set_answer(self._network, self._answer, None))

    def __del__(self) -> None:
        self._graphs = {}
        if getattr(self, "_network", None):
            self._device.synchronize()  # its last run has to have ended
            self._c.qconv_network_close(self._network)

    def workspace_bytes(self, program: int) -> int:
        return int(self._c.qconv_network_workspace_bytes(self._network, ctypes.c_size_t(program)))

    def run(self, program: int, inputs: Sequence[Any], buffers: Mapping[str, Buffer] = NONE) -> dict[str, Value]:
        """Run with contiguous arrays on the device, on its current stream. The last kernels write to the buffers where
        they can; other outputs are copied there."""
        addresses, ports = self._addresses(program, inputs), self.programs[program].outputs
        for port in ports:
            if port.name in buffers and not port.is_counted:
                buffers[port.name].check(port.shape, port.dtype)
        bound = [_written_by_kernels(port, buffers.get(port.name)) for port in ports]
        with self._alone:
            outputs = self._replayed(program, addresses, bound)
            if outputs is None:
                outputs = self._outputs(program, bound)
                workspace = self._workspace(program)  # until the launches are queued, in the order of the stream
                arrays = self._arrays(addresses, outputs, workspace)
                number, stream = ctypes.c_size_t(program), ctypes.c_void_p(self._device.stream)
                status = self._c.qconv_network_run(self._network, number, stream, *arrays)
                failed, self._failed = self._failed, None
                if failed is not None:
                    raise failed
                _check(self._c, status)
        made = {
            port.name: (Counted if port.is_counted else Value)(self._device, there=array)
            for port, array in zip(ports, outputs, strict=True)
        }
        for port, there in zip(ports, bound, strict=True):
            if port.name in buffers and there is None:
                value = settled(self._device, made[port.name])
                buffers[port.name].check(value.shape, value.dtype)
                buffers[port.name].write(value)
        return made

    def graph(self, program: int, inputs: Sequence[Any]) -> Graph:
        """Return the run with these arrays as a graph, which keeps them and this network."""
        own = [None] * len(self.programs[program].outputs)
        return Graph(self, program, self._addresses(program, inputs), own, (self, *inputs))

    def _addresses(self, program: int, inputs: Sequence[Any]) -> Addresses:
        ports = self.programs[program].inputs
        return tuple(self._device.adopt(port.name, array)[1] for port, array in zip(ports, inputs, strict=True))

    def _replayed(self, program: int, addresses: Addresses, bound: Sequence[Any]) -> list[Any] | None:
        """Return the outputs of a graph: the bound ones, and copies of the others. None for the first run with arrays
        at these addresses, and for a program that calls, which no graph can."""
        if self._calls[program]:
            return None
        written = (None if array is None else self._device.adopt("out", array)[1] for array in bound)
        key = (program, addresses, tuple(written))
        graph = self._graphs.pop(key, None)
        if graph is None:
            if key not in self._seen:
                self._seen[key] = None
                if len(self._seen) > MOST_SEEN:
                    del self._seen[next(iter(self._seen))]
                return None
            graph = Graph(self, program, addresses, bound)
        self._graphs[key] = graph  # most recently used
        if len(self._graphs) > MOST_GRAPHS:
            del self._graphs[next(iter(self._graphs))]
        return graph.launched()

    def _outputs(self, program: int, bound: Sequence[Any]) -> list[Any]:
        """Return the bound arrays, and new ones for the others."""
        pairs = zip(self.programs[program].outputs, bound, strict=True)
        return [self._device.empty(port.shape, port.dtype) if array is None else array for port, array in pairs]

    def _workspace(self, program: int) -> _Workspace:
        size = self.workspace_bytes(program)
        array = self._device.empty((size + ALIGNMENT,), "uint8")
        address = self._device.adopt("workspace", array)[1]
        return _Workspace(array, address + -address % ALIGNMENT)

    def _arrays(self, inputs: Addresses, outputs: Sequence[Any], workspace: _Workspace) -> tuple[Any, ...]:
        written = [self._device.adopt("output", array)[1] for array in outputs]
        return _pointers(inputs), _pointers(written), ctypes.c_void_p(workspace.address)

    def _files_called(self, program: int) -> list[bytes]:
        count = self._c.qconv_network_call_count(self._network, ctypes.c_size_t(program))
        files = [ctypes.c_char_p() for _ in range(count)]
        for at, file in enumerate(files):
            numbers = ctypes.c_size_t(program), ctypes.c_size_t(at)
            _check(self._c, self._c.qconv_network_call_of(self._network, *numbers, ctypes.byref(file)))
        return [file.value or b"" for file in files]

    def answered(self, file: bytes, stream: Any, inputs: Any, outputs: Any) -> int:
        """Run a part, with arrays at these addresses on the device. Return 0, or 1 where it fails."""
        part = self._parts[file]
        try:
            _check(self._c, self._c.qconv_network_synchronize(self._network, ctypes.c_void_p(stream)))
            given = [np.empty(port.shape, port.dtype) for port in part.inputs]
            for at, array in enumerate(given):
                self._moved("download", ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(inputs[at]), array)
            for at, (port, array) in enumerate(zip(part.outputs, part.run(given), strict=True)):
                if (array.shape, str(array.dtype)) != (port.shape, port.dtype):
                    raise ValueError(
                        f"{port.name!r} was made with the shape {array.shape}, and the folder was built for "
                        f"{port.shape}: open the model itself in a session"
                    )
                held = np.ascontiguousarray(array)
                self._moved("upload", ctypes.c_void_p(outputs[at]), ctypes.c_void_p(held.ctypes.data), held)
        except Exception as error:  # C++ cannot pass it on
            self._failed = error
            return 1
        return 0

    def _moved(self, way: str, to: Any, source: Any, array: Any) -> None:
        move = getattr(self._c, f"qconv_network_{way}")
        _check(self._c, move(self._network, to, source, ctypes.c_uint64(array.nbytes)))

    def _ports(self, kind: str, program: int) -> tuple[Port, ...]:
        ask = getattr(self._c, f"qconv_network_{kind}")
        found = []
        for at in range(getattr(self._c, f"qconv_network_{kind}_count")(self._network)):
            tensor = Tensor()
            _check(self._c, ask(self._network, ctypes.c_size_t(program), ctypes.c_size_t(at), ctypes.byref(tensor)))
            shape = tuple(tensor.shape[: tensor.rank])
            found.append(Port(tensor.name.decode(), tensor.type.decode(), shape, bool(tensor.is_counted)))
        return tuple(found)


class Graph:
    """A run as a graph, with a workspace of its own, and with outputs of its own but for those that are bound."""

    def __init__(
        self,
        network: OpenedNetwork,
        program: int,
        inputs: Addresses,
        bound: Sequence[Any],
        kept: tuple[Any, ...] = (),
    ) -> None:
        self._c, self._device, self._kept = network._c, network._device, kept
        self._bound = bound
        self.outputs = network._outputs(program, bound)
        self._workspace = network._workspace(program)
        self._graph = ctypes.c_void_p()
        arrays = network._arrays(inputs, self.outputs, self._workspace)
        number = ctypes.c_size_t(program)
        _check(self._c, self._c.qconv_graph_create(network._network, number, *arrays, ctypes.byref(self._graph)))

    def __del__(self) -> None:
        if getattr(self, "_graph", None):
            self._device.synchronize()  # its last launch has to have ended
            self._c.qconv_graph_free(self._graph)

    def launch(self) -> None:
        _check(self._c, self._c.qconv_graph_launch(self._graph, ctypes.c_void_p(self._device.stream)))

    def launched(self) -> list[Any]:
        """Launch it, and return copies of its own outputs, which the next launch writes."""
        self.launch()
        pairs = zip(self.outputs, self._bound, strict=True)
        return [self._copied(array) if bound is None else bound for array, bound in pairs]

    def _copied(self, array: Any) -> Any:
        copy = self._device.empty(array.shape, str(array.dtype))
        self._device.copy(array, copy)
        return copy


def _written_by_kernels(port: Port, buffer: Buffer | None) -> Any:
    """Return the array of a buffer that kernels can write to: in the model's order, and with aligned vectors."""
    if buffer is None or port.is_counted or buffer.there.is_channels_last or buffer.address % WIDEST:
        return None
    return buffer.there.array


def _answer(network: ref[OpenedNetwork], context: Any, file: bytes, stream: Any, inputs: Any, outputs: Any) -> int:
    opened = network()
    return 1 if opened is None else opened.answered(file, stream, inputs, outputs)


def _check(c: ctypes.CDLL, status: int) -> None:
    if status:
        said: bytes = c.qconv_network_last_error()
        raise ERRORS.get(status, LaunchError)(said.decode())


def _pointers(addresses: Sequence[int]) -> Any:
    return (ctypes.c_void_p * len(addresses))(*addresses)
