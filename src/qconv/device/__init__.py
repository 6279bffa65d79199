"""The devices that kernels run on. Only this package imports cupy.

`open_device("cpu")` and `open_device("cuda:1")` open a device by name; `open_device(None)` opens the first GPU, or the
CPU device without one. `open_device("cpu.gfx942")` is a CPU device that emulates the matrix instructions of that
architecture.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol

from qconv.device.cache import Binary
from qconv.device.memory import Place
from qconv.device.presence import seen_gpus
from qconv.errors import DeviceError, first_line
from qconv.generator import Plan
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import TensorMap
from qconv.op import quoted
from qconv.targets.target import TARGETS, Target, canonical, emulation_of

log = logging.getLogger("qconv")


class Kernel(Protocol):
    """A binary loaded onto a device."""

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        """Return a launch with packed arguments. Call it with a stream of the device's kind, or None for the current
        one.

        With `overlap`, it may begin before the previous launch has ended; the kernel must then wait by itself."""
        ...


class Device(Protocol):
    """The interface of a device, for the tuner, the instances and the command line."""

    @property
    def spec(self) -> str: ...  # as the user writes it: "cpu", "cuda:0"
    @property
    def name(self) -> str: ...  # as the database stores it: "NVIDIA H200"
    @property
    def target(self) -> Target: ...
    @property
    def stream(self) -> int | None: ...  # the address of the current stream, where there are streams
    def facts(
        self,
    ) -> dict[str, Any]: ...  # driver, clocks, cores: the conditions of a measurement
    def load(self, plan: Plan, binary: Binary) -> Kernel: ...
    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """Return the TENSOR_MAP_BYTES bytes that a kernel takes as the tensor map of the array at this address."""
        ...

    def adopt(self, name: str, array: Any) -> tuple[Any, int]: ...  # zero-copy: (the device's array, its address)
    def address_here(self, array: Any) -> int | None: ...  # of a contiguous array of the device's own kind, on it
    def upload(self, array: Any) -> Any: ...
    def download(self, array: Any) -> Any: ...
    def contiguous(self, array: Any) -> Any: ...  # copied if it is not
    def exchanged(self, array: Any) -> Any: ...  # a copy with the last two of three axes exchanged
    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Sequence[int] = ()) -> Any:
        """Allocate an array. `instead_of` are addresses of arrays whose place it may take, if the kernel that writes it
        is their last reader. Only a recording that plans memory uses them."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def fill(self, array: Any, byte: int) -> None: ...
    def copy(self, array: Any, to: Any) -> None: ...  # both have the same size
    def write(self, array: Any, to: Any) -> None: ...  # like `copy`, from a NumPy array
    def rolled(self, array: Any, by: int) -> Any: ...  # a copy, rotated by `by` elements
    def same(self, one: Any, other: Any) -> bool: ...  # bit for bit
    def on(self, stream: Any) -> AbstractContextManager[Any]: ...  # allocations and copies follow this stream's order
    def synchronize(self) -> None: ...
    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        """Prepare launches to run back to back. Each call of the result runs all of them once and returns us per
        launch."""
        ...

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]: ...
    def record(
        self, work: Callable[[], Sequence[Any]], place: Place | None = None
    ) -> tuple[list[Any], Callable[[], None]]:
        """Record work. Return the arrays that it makes, and a function that repeats it on the current stream, writing
        the same arrays.

        The work may only launch, copy and allocate, and it writes only arrays that it has just allocated. It must have
        run once before, so that everything is loaded, and the arrays that it reads must stay where they are. `place`
        lays the arrays that the work does not return out in one arena."""
        ...


def open_device(spec: str | None = None) -> Device:
    """Open a device. Raise DeviceError, with the remedy, where it does not exist."""
    if spec is None:
        spec = default_spec()
    if not isinstance(spec, str):
        raise _unknown(spec)
    if spec == "cuda" or spec == "hip":
        spec += ":0"
    name = canonical(spec)
    return _open(name if name.startswith("cpu") else spec)


def _unknown(spec: object) -> DeviceError:
    cpus = ", ".join(name for name, target in TARGETS.items() if target.vendor == "cpu")
    target = TARGETS.get(canonical(spec)) if isinstance(spec, str) else None
    says = "is not known"
    if target is not None:
        says = (
            f"is a target, not a device: it is compiled for with --target, and {emulation_of(target).name} emulates it"
        )
    return DeviceError(f"the device {quoted(spec)} {says}; use {cpus}, cuda, cuda:N, hip or hip:N")


@lru_cache(maxsize=64)
def _open(spec: str) -> Device:
    cpus = {name: target for name, target in TARGETS.items() if target.vendor == "cpu"}
    if spec in cpus:
        from qconv.device.cpu import CpuDevice

        return CpuDevice(cpus[spec])
    kind, _, index = spec.partition(":")
    if kind not in ("cuda", "hip") or not (index.isascii() and index.isdigit()):
        raise _unknown(spec)
    if (missing := why_no_cupy()) is not None:
        extra = "cuda" if kind == "cuda" else "rocm"
        raise DeviceError(
            f"the device {spec} needs CuPy, which cannot be imported ({missing}); install it (pip install "
            f"'qconv-tune[{extra}]') or use --device cpu"
        )
    from qconv.device.gpu import GpuDevice

    return GpuDevice(kind, int(index))


@lru_cache(maxsize=1)
def default_spec() -> str:
    """Return the first GPU, or `cpu`. Warn if a GPU is present but unusable."""
    found = gpu_specs()
    if not found and (why := why_unused()) is not None:
        log.warning("%s; using the CPU device, which is slow (--device cpu says that it is meant)", why)
    return found[0] if found else "cpu"


def gpu_specs() -> list[str]:
    if why_no_cupy() is not None:
        return []
    from qconv.device import gpu

    return gpu.specs()


def why_no_cupy() -> str | None:
    """Return the message of a failed import of CuPy, in one line. A partial installation may raise any exception."""
    try:
        import_module("qconv.device.gpu")
    except Exception as error:
        return first_line(error)
    return None


def why_unused() -> str | None:
    """Return why a GPU that is present cannot be used, and the remedy, or None."""
    for seen in seen_gpus():
        if (missing := why_no_cupy()) is not None:
            return f"{seen}, but CuPy cannot be imported ({missing}): to use it, pip install 'qconv-tune[{seen.extra}]'"
        from qconv.device import gpu

        if (failure := gpu.failure()) is not None:
            return f"{seen}, but its driver gives no device ({failure}): install or update the {seen.vendor} driver"
    return None
