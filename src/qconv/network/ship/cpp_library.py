"""The C++ library that opens shipped networks, compiled once for this machine, to be called from Python."""

from __future__ import annotations

import ctypes
import os
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path

from qconv.device import cpu_runtime, folders
from qconv.errors import DeviceError, KernelMissing
from qconv.network.ship.folder import LIBRARY, SHARED

FLAGS = (*cpu_runtime.RUNTIME_FLAGS, "-Os", "-fvisibility=hidden")
LINKED = ("-shared", "-pthread", "-Wl,-z,defs", "-ldl")
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


@cache
def library(kind: str) -> ctypes.CDLL:
    """Return the library for "cpu", "cuda" or "hip", compiled at the first call on this machine. Raise DeviceError
    where the driver's header is missing, and CompileError without a compiler."""
    return declared(ctypes.CDLL(str(built(kind))))


def built(kind: str) -> Path:
    cache = folders.make("network")
    define = () if kind == "cpu" else (f"-DQCONV_NETWORK_{kind.upper()}",)
    objects = [_compiled(name, define, cache) for name in SOURCES]
    if kind != "cpu":
        includes = (f"-I{_include_of(kind)}", f"-Dqconv=qconv_{kind}", *OWN_FLAGS[kind])
        objects.append(_compiled(f"qconv_engine_{kind}.cpp", (*define, *includes), cache))
    return cpu_runtime.build({}, LINKED, ".so", cache, objects)


def _compiled(source: str, flags: Sequence[str], cache: Path) -> Path:
    try:
        return cpu_runtime.build(_files(source), [*FLAGS, *flags, "-c"], ".o", cache)
    except KernelMissing:
        raise KernelMissing(
            f"the library of shipped networks is not in {folders.described()}, and QCONV_NO_COMPILE forbids compiling "
            "it: open the folder once without it"
        ) from None


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
    for name in ("program_count", "input_count", "output_count", "step_count", "made_count"):
        getattr(c, f"qconv_network_{name}").restype = ctypes.c_size_t
    c.qconv_network_workspace_bytes.restype = ctypes.c_uint64
    return c
