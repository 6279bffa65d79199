"""The C++ library that opens shipped networks, compiled once for this machine, to be called from Python."""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path

from qconv.device import cpu_runtime, folders, program
from qconv.errors import DeviceError, KernelMissing
from qconv.network.ship.folder import LIBRARY, SHARED

FLAGS = (*cpu_runtime.RUNTIME_FLAGS, "-Os", "-fvisibility=hidden")
LINKED = ("-shared", "-pthread", "-Wl,-z,defs", "-Wl,-s", "-ldl")
# The folder of the cache, and of each layer.
FOLDER = "network"
SOURCES = ("qconv_network.cpp", "qconv_shipped.cpp", "qconv_engine_cpu.cpp")
# The driver's header of each kind of device, the variables that say where its toolkit is, and its usual place.
HEADERS = {
    "cuda": ("cuda.h", ("CUDA_PATH", "CUDA_HOME"), "/usr/local/cuda"),
    "hip": ("hip/hip_runtime_api.h", ("ROCM_PATH", "HIP_PATH"), "/opt/rocm"),
}
OWN_FLAGS = {"cuda": (), "hip": ("-D__HIP_PLATFORM_AMD__",)}


class Tensor(ctypes.Structure):
    """`qconv_network_tensor` of qconv_network.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("rank", ctypes.c_uint),
        ("shape", ctypes.c_uint64 * 8),
        ("bytes", ctypes.c_uint64),
        ("is_counted", ctypes.c_int),
    )


# `qconv_network_answer` of qconv_network.h.
ANSWER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    *(ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p)),
)


@cache
def library(kind: str) -> ctypes.CDLL:
    """Return the library for "cpu", "cuda" or "hip", compiled at the first call on this machine. Raise DeviceError
    where the driver's header is missing, and CompileError without a compiler."""
    return declared(ctypes.CDLL(str(built(kind))))


def built(kind: str) -> Path:
    """Return the library's file, of the first layer that has it, or built now."""
    sources = (*SOURCES, *(() if kind == "cpu" else (f"qconv_engine_{kind}.cpp",)))
    # As it does not depend on the compiler, a machine that has the file needs none.
    texts = {name: text for source in sources for name, text in _files(source).items()}
    name = f"{kind}-{cpu_runtime.digest((*FLAGS, *LINKED), texts)}"
    for layer in folders.layers():
        if folders.is_whole(path := layer.root / FOLDER / f"{name}.so", layer):
            return path
    if program.is_forbidden():
        raise KernelMissing(
            f"the library of shipped networks is not in {folders.described()}, and QCONV_NO_COMPILE forbids compiling "
            "it: open the folder once without it, or let qconv-tune build write it"
        )
    cache = folders.make(FOLDER)
    flags = {source: [*FLAGS, "-c"] for source in sources}
    if kind != "cpu":
        flags = {source: [*of, f"-DQCONV_NETWORK_{kind.upper()}"] for source, of in flags.items()}
        flags[sources[-1]] += [f"-I{_include_of(kind)}", f"-Dqconv=qconv_{kind}", *OWN_FLAGS[kind]]
    objects = [cpu_runtime.build(_files(source), flags[source], ".o", cache) for source in sources]
    return cpu_runtime.build({}, LINKED, ".so", cache, objects, name)


def _files(source: str) -> dict[str, str]:
    """Return the source, and all headers."""
    own = {name: ("network.ship", name) for name in LIBRARY.values() if name.endswith(".h")}
    shared = {name: ("instances.library", name) for name in SHARED}
    texts = {name: _text(*place) for name, place in ({source: ("network.ship", source)} | own | shared).items()}
    return texts | {"cpu_runtime.h": cpu_runtime.runtime_sources()["cpu_runtime.h"]}


def _text(package: str, name: str) -> str:
    return (resources.files(f"qconv.{package}") / name).read_text(encoding="utf-8")


def _include_of(kind: str) -> Path:
    header, _, usual = HEADERS[kind]
    found = next((path for path in _includes(kind) if (path / header).is_file()), None)
    if found is None:
        raise DeviceError(
            f"there is no {header}, against which the library of shipped networks is compiled: install the toolkit, or "
            f"set {HEADERS[kind][1][0]} to its folder, such as {usual}"
        )
    return found


def _includes(kind: str) -> Iterator[Path]:
    _, variables, usual = HEADERS[kind]
    for root in (*(os.environ[name] for name in variables if name in os.environ), usual, "/usr"):
        yield Path(root, "include")
    # NVIDIA's packages, which CuPy and PyTorch bring.
    yield from sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/include"))


def declared(c: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the types of the functions that return or take more than an int."""
    for name in ("last_error", "target", "device", "status_text"):
        getattr(c, f"qconv_network_{name}").restype = ctypes.c_char_p
    for name in ("program_count", "input_count", "output_count", "step_count", "made_count", "call_count"):
        getattr(c, f"qconv_network_{name}").restype = ctypes.c_size_t
    c.qconv_network_workspace_bytes.restype = ctypes.c_uint64
    return c
