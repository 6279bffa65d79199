"""Launch each winner of a library by Python's own device and by the library, on a driver that only logs its calls, and
print the logs in terms that do not depend on addresses.

    python stub_session.py LIBRARY TARGET TARGETS...    (a process of its own: its libcuda.so.1 is the stub)
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from built_library import Library, aligned
from library_cases import gpu_winners

from qconv.device import gpu, tensor_maps
from qconv.device.cache import Binary
from qconv.device.launch_attributes import Multiprocessors
from qconv.generator import Plan
from qconv.instances.library.entry import Entry
from qconv.instances.library.export import Exported, served
from qconv.instances.load import pair as loading
from qconv.op import Array, Sample
from qconv.ops import registry

STREAM = 77
DRIVER = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)  # Python's; for AMD, CuPy uses the same names for HIP's
KIND = os.environ.get("QCONV_STUB_KIND", "cuda")
STUBS = [DRIVER] if KIND == "cuda" else [DRIVER, ctypes.CDLL("libamdhip64.so", mode=ctypes.RTLD_GLOBAL)]


class StubModule:
    """A replacement of CuPy's module, which would first ask the runtime for a context. Functions are looked up by the
    names of the library's kernels."""

    kernel: Exported

    def __init__(self) -> None:
        self._module = ctypes.c_void_p()

    def load(self, binary: bytes) -> None:
        assert DRIVER.cuModuleLoadData(ctypes.byref(self._module), binary) == 0

    def get_function(self, name: str) -> Any:
        found = ctypes.c_void_p()
        assert DRIVER.cuModuleGetFunction(ctypes.byref(found), self._module, self.kernel.symbol(name).encode()) == 0
        return SimpleNamespace(ptr=found.value)


class One:
    """The device attributes that GpuKernel needs, for a single device."""

    only = True
    current = contextlib.nullcontext()
    multiprocessors = Multiprocessors(132, 233472, 232448, 1024)  # as the stub says


class StubDevice:
    """A device whose arrays are NumPy's; kernels are launched by the code that launches them on a GPU."""

    def __init__(self, entry: Entry) -> None:
        self._kernels = {id(kernel.plan): kernel for kernel in entry.kernels}

    def load(self, plan: Plan, binary: Binary) -> gpu.GpuKernel:
        StubModule.kernel = self._kernels[id(plan)]
        return gpu.GpuKernel(One(), plan, binary)  # type: ignore[arg-type]

    def encode(self, tensor_map: Any, address: int) -> bytes:
        return tensor_maps.encoded(tensor_map, address)

    def adopt(self, name: str, array: Any) -> tuple[Any, int]:
        return array, array.ctypes.data

    def upload(self, array: Any) -> Any:
        return np.array(array, order="C")

    def download(self, array: Any) -> Any:
        return array

    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Any = ()) -> Any:
        return aligned(np.zeros(shape, dtype))

    zeros = empty

    def fill(self, array: Any, byte: int) -> None:
        array.view(np.uint8)[...] = byte

    def on(self, stream: Any) -> Any:
        return contextlib.nullcontext()

    def synchronize(self) -> None:
        return


@dataclass
class Asked:
    """The driver's calls since the last query, for one entry."""

    arrays: dict[int, str]  # address -> the tensor at that address
    lines: list[list[Any]] = field(default_factory=list)

    def read(self, symbols: dict[str, Exported], log: Iterator[str]) -> None:
        for line in log:
            word, *rest = line.split()
            if word == "attribute":
                self.lines.append([word, rest[0], *rest[1:]])
            elif word == "launch":
                self.lines.append(self._launch(rest, symbols))
            elif word == "load":
                self.lines.append([word])

    def _launch(self, rest: list[str], symbols: dict[str, Exported]) -> list[Any]:
        kernel = symbols[rest[0]]
        return ["launch", rest[0], *rest[1:8], self._arguments(kernel.plan, bytes.fromhex(rest[8]))]

    def _arguments(self, plan: Plan, packed: bytes) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for one, at in zip(plan.fields, plan.offsets, strict=True):
            raw = packed[at : at + one.size_bytes]
            if one.tensor_map is not None:
                address, digest = struct.unpack("<QQ", raw[:16])
                found[one.path] = [self._place(address), digest]
            elif not one.is_pointer:
                found[one.path] = raw.hex()
            else:
                (address,) = struct.unpack("<Q", raw)
                found[one.path] = self._place(address)
                if one.role in ("value", "scratch") and address:
                    found[one.path] = ctypes.string_at(address, 4 * one.elements).hex()
        return found

    def _place(self, address: int) -> str:
        return self.arrays.get(address, "own") if address else "none"


def new_lines(log: Any) -> Iterator[str]:
    yield from log.read().splitlines()


def by_python(entry: Entry, drawn: Sample, arrays: dict[str, Array], out: list[Array]) -> Any:
    """Return the bound kernel, which keeps the arrays alive whose addresses the driver got."""
    runnable = loading.load(entry.served.plan, StubDevice(entry))  # type: ignore[arg-type]
    names = [tensor.name for tensor in entry.problem.inputs if tensor.name not in entry.problem.packed]
    weights = [arrays[name] for name in entry.problem.packed]
    packed = runnable.pack(*weights, stream=STREAM, **drawn.parameters)
    given = [arrays[name] for name in names]
    bound = packed.bind(*given, out=out[0] if len(out) == 1 else tuple(out))
    bound(STREAM)
    if not overlaps(entry):
        return bound
    overlapping = packed.bind(*given, out=out[0] if len(out) == 1 else tuple(out), overlap=True)
    overlapping(STREAM)
    return bound, overlapping


def by_library(library: Library, entry: Entry, drawn: Sample, arrays: dict[str, Array], out: list[Array]) -> Array:
    """Return the workspace, whose address the driver got."""
    names = [tensor.name for tensor in entry.problem.inputs if tensor.name not in entry.problem.packed]
    weights = [arrays[name] for name in entry.problem.packed]
    key = str(entry.problem)
    status, packed = library.pack(key, weights, library.values(entry.problem, drawn), STREAM)
    assert status == 0, library.error
    workspace = library.workspace(key, packed, STREAM)
    inputs = [arrays[name] for name in names]
    for overlap in (False, True)[: 1 + overlaps(entry)]:
        assert library.launch(packed, inputs, out, workspace, STREAM, overlap) == 0, library.error
    return workspace


def overlaps(entry: Entry) -> bool:
    """True where every kernel of the problem can begin before the one in front of it has ended."""
    return all(kernel.plan.overlaps for kernel in entry.kernels)


def known_symbols(entry: Entry) -> dict[str, Exported]:
    """Return the kernels by name, and tell the driver the sizes of their arguments, which it logs."""
    symbols = {kernel.symbol(one.kernel): kernel for kernel in entry.kernels for one in kernel.plan.launches}
    for name, kernel in symbols.items():
        for stub in STUBS:
            stub.stub_arguments(name.encode(), ctypes.c_size_t(kernel.plan.argument_bytes))
    return symbols


def compared(library: Library, entry: Entry, log: Any) -> dict[str, Any]:
    symbols, drawn = known_symbols(entry), registry.draw(entry.problem, 1)
    given = {t.name: aligned(a) for t, a in zip(entry.problem.inputs, drawn.arrays, strict=True)}
    out = [aligned(np.zeros(tensor.shape, tensor.dtype)) for tensor in entry.problem.outputs]
    named = given | {t.name: array for t, array in zip(entry.problem.outputs, out, strict=True)}
    places = {array.ctypes.data: name for name, array in named.items()}
    python, own = Asked(places), Asked(places)
    bound = by_python(entry, drawn, given, out)
    python.read(symbols, new_lines(log))
    del bound
    workspace = by_library(library, entry, drawn, given, out)
    own.read(symbols, new_lines(log))
    del workspace
    return {
        "problem": str(entry.problem),
        "overlaps": overlaps(entry),
        "python": in_any_order(python.lines),
        "library": in_any_order(own.lines),
    }


def in_any_order(lines: list[list[Any]]) -> list[list[Any]]:
    """Sort what is asked of functions, which the library does at once and Python when a launch first needs it."""
    return sorted(line for line in lines if line[0] == "attribute") + [line for line in lines if line[0] != "attribute"]


def main(path: str, served_target: str, targets: list[str]) -> None:
    library = Library(Path(path))
    binary = Binary(b"\0" * 64, Path("kernel.cubin"), "any", 0.0, {})
    for module, name, value in (
        (gpu, "Module", StubModule),
        (gpu, "KIND", KIND),
        (loading, "build", lambda *_: binary),
    ):
        setattr(module, name, value)
    with open(os.environ["QCONV_STUB_LOG"], "a+") as log:
        chosen = [winner for winner in gpu_winners(*targets) if winner.target == served_target]
        answer = [compared(library, Entry(served(winner)), log) for winner in chosen]
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
