"""A library exported for the CPU, built by CMake, and called through its C interface."""

from __future__ import annotations

import ctypes
import itertools
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qconv.device.cache import Binary
from qconv.instances.library import write as writing
from qconv.instances.library.vectors import given
from qconv.instances.load.winners import Winner
from qconv.op import Array, Problem, Sample

OK, BAD_ARGUMENT, NO_KERNEL, NO_DEVICE, NO_MEMORY = 0, 1, 2, 3, 4
TYPES = {np.dtype(np.int32): 1, np.dtype(np.float32): 2, np.dtype(np.float64): 3}

SUPPORT = Path(__file__).parent
STUB_CUDA = SUPPORT / "stub_cuda"  # the header of CUDA's driver, as far as a library needs it
INCLUDES = (Path("/usr/local/cuda/include"), Path("/usr/include"))  # of whole drivers, where they are installed
LACKS = next((name for name in ("cmake", "g++") if shutil.which(name) is None), None)
builds = pytest.mark.skipif(
    LACKS is not None or platform.machine() != "x86_64", reason=f"no {LACKS}, or no CPU of x86_64"
)


def without(*programs: str) -> pytest.MarkDecorator:
    missing = [name for name in programs if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"no {', '.join(missing)}")


CROSS, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"


def emulated(program: Path, driver: Path | None = None) -> list[object]:
    paths = [] if driver is None else ["-E", f"LD_LIBRARY_PATH={driver}"]
    return [EMULATOR, "-L", "/usr/aarch64-linux-gnu", *paths, program]


def including(header: str) -> Path:
    """Return the folder with the header of a driver, or skip the test."""
    found = next((path for path in INCLUDES if (path / header).exists()), None)
    return found or pytest.skip(f"no {header}")


def build(folder: Path, *options: str, into: Path | None = None) -> Path:
    """Build the library and return its build folder. If the build fails, show the compiler's output."""
    into = into or folder / "build"
    for command in (
        ["cmake", "-S", str(folder), "-B", str(into), "-DCMAKE_CXX_FLAGS=-Wall -Werror", *options],
        ["cmake", "--build", str(into), "-j2"],
    ):
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    return into


def write_uncompiled(winners: Iterable[Winner], folder: Path) -> Path:
    """Write a library for a GPU whose binaries are empty: no stub of a driver reads them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "_compiled", lambda _: Binary(b"none" * 16, Path("kernel.bin"), "no compiler", 0.0, {}))
        writing.write(winners, folder)
    return folder


def stub_driver(folder: Path, compiler: str = "g++") -> Path:
    """Build the stub of CUDA's driver into a folder, and return the folder."""
    folder.mkdir(exist_ok=True)
    flags = ["-std=c++17", "-shared", "-fPIC", f"-I{STUB_CUDA}", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([compiler, *flags, SUPPORT / "stub_cuda.cpp", "-o", folder / "libcuda.so.1"], check=True)
    return folder


class Parameter(ctypes.Structure):
    """`qconv_parameter` of qconv_kernels.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("count", ctypes.c_size_t),
        ("values", ctypes.c_void_p),
    )


def parameters(values: Mapping[str, Array]) -> Any:
    """Return the parameters in C's form; the arrays must outlive it."""
    rows = [
        Parameter(name.encode(), TYPES[array.dtype], array.size, array.ctypes.data) for name, array in values.items()
    ]
    return (Parameter * len(rows))(*rows)


def addresses(arrays: Iterable[Array | int]) -> Any:
    found = [array if isinstance(array, int) else array.ctypes.data for array in arrays]
    return (ctypes.c_void_p * len(found))(*found)


class Library:
    """A shared library, so that Python can call it."""

    def __init__(self, path: Path) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in ("qconv_last_error", "qconv_key_of", "qconv_parameter_of"):
            getattr(self.c, name).restype = ctypes.c_char_p
        self.c.qconv_kernel_at.restype = ctypes.c_void_p
        self.c.qconv_kernel_count.restype = ctypes.c_size_t
        self.c.qconv_workspace_bytes.restype = ctypes.c_size_t
        self.device = ctypes.c_void_p()
        assert self.c.qconv_open(0, ctypes.byref(self.device)) == OK, self.error

    @property
    def error(self) -> str:
        return str(self.c.qconv_last_error().decode())

    def lookup(self, key: str) -> tuple[int, ctypes.c_void_p]:
        kernel = ctypes.c_void_p()
        return self.c.qconv_lookup(self.device, key.encode(), ctypes.byref(kernel)), kernel

    def taken(self, key: str) -> set[str]:
        """Return the names of the problem's parameters."""
        _, kernel = self.lookup(key)
        names = (self.c.qconv_parameter_of(kernel, ctypes.c_size_t(i), None) for i in itertools.count())
        return {name.decode() for name in itertools.takewhile(lambda name: name is not None, names)}

    def values(self, problem: Problem, drawn: Sample) -> dict[str, Array]:
        """Return the drawn parameters that the problem uses."""
        taken = self.taken(str(problem))
        return {name: value for name, value in given(drawn).items() if name in taken}

    def pack(
        self, key: str, weights: list[Array], values: Mapping[str, Array], stream: int | None = None
    ) -> tuple[int, ctypes.c_void_p]:
        status, kernel = self.lookup(key)
        assert status == OK, self.error
        packed = ctypes.c_void_p()
        rows, on = parameters(values), ctypes.c_void_p(stream)
        status = self.c.qconv_pack(
            self.device,
            kernel,
            addresses(weights),
            rows,
            ctypes.c_size_t(len(rows)),
            on,
            ctypes.byref(packed),
        )
        return status, packed

    def workspace(self, key: str, packed: ctypes.c_void_p, stream: int | None = None) -> Array:
        """Return prepared memory for launches of a problem; it must outlive them."""
        _, kernel = self.lookup(key)
        made = aligned(np.full(self.c.qconv_workspace_bytes(kernel), 0x33, np.uint8))
        prepare = self.c.qconv_workspace_prepare
        status = prepare(packed, pointer(made), ctypes.c_size_t(made.nbytes), ctypes.c_void_p(stream))
        assert status == OK, self.error
        return made

    def launch(
        self,
        packed: ctypes.c_void_p,
        inputs: Sequence[Array],
        outputs: Sequence[Array | int],
        workspace: Array,
        stream: int | None = None,
        overlap: bool = False,
    ) -> int:
        """Launch with these arrays, or with outputs at these addresses, and return the status."""
        launch = self.c.qconv_launch_overlapping if overlap else self.c.qconv_launch
        room = ctypes.c_size_t(workspace.nbytes)
        status: int = launch(
            packed, addresses(inputs), addresses(outputs), pointer(workspace), room, ctypes.c_void_p(stream)
        )
        return status

    def call(self, problem: Problem, drawn: Sample) -> tuple[Array, ...]:
        """Call the kernel once, through all four steps."""
        arrays = [aligned(array) for array in drawn.arrays]
        named = dict(zip((tensor.name for tensor in problem.inputs), arrays, strict=True))
        weights = [named.pop(name) for name in problem.packed]
        outputs = [aligned(np.zeros(tensor.shape, tensor.dtype)) for tensor in problem.outputs]
        values = self.values(problem, drawn)
        status, packed = self.pack(str(problem), weights, values)
        assert status == OK, self.error
        workspace = self.workspace(str(problem), packed)
        assert self.launch(packed, list(named.values()), outputs, workspace) == OK, self.error
        self.c.qconv_packed_free(packed)
        return tuple(outputs)


def pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def aligned(array: Array) -> Array:
    """Return a copy at an address that every kernel accepts."""
    whole = np.empty(array.nbytes + 64, np.uint8)
    at = -whole.ctypes.data % 64
    made: Array = whole[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
