"""Where kernels run. This package is the only one that imports cupy.

`open_device("cpu")`, `open_device("cuda:1")`, or `open_device(None)` for the first GPU, else the CPU device.
`open_device("cpu.gfx942")` is the CPU device as well, executing the matrix instructions of that architecture.
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
from qconv.targets.target import TARGETS, Target

log = logging.getLogger("qconv")


class Kernel(Protocol):
    """A binary loaded onto a device."""

    def bind(self, launch: Launch, arguments: bytes, overlap: bool = False) -> Callable[[Any], None]:
        """The launch with its arguments packed: call it with a stream of the device's kind, or None for the current.

        `overlap`: it may begin before what was launched before it has ended; only of a kernel that waits by itself."""
        ...


class Device(Protocol):
    """What the tuner, the instances and the command line ask of a place to run on."""

    @property
    def spec(self) -> str: ...  # as the user writes it: "cpu", "cuda:0"
    @property
    def name(self) -> str: ...  # as the database stores it: "NVIDIA H200"
    @property
    def target(self) -> Target: ...
    def facts(
        self,
    ) -> dict[str, Any]: ...  # driver, clocks, cores: what a reader of a measurement wants to know
    def load(self, plan: Plan, binary: Binary) -> Kernel: ...
    def encode(self, tensor_map: TensorMap, address: int) -> bytes:
        """What a kernel takes for a tensor map whose array lies there: TENSOR_MAP_BYTES of it."""
        ...

    def adopt(self, name: str, array: Any) -> tuple[Any, int]: ...  # zero-copy: our kind of array, and its address
    def upload(self, array: Any) -> Any: ...
    def download(self, array: Any) -> Any: ...
    def contiguous(self, array: Any) -> Any: ...  # a copy where it is not
    def exchanged(self, array: Any) -> Any: ...  # its last two axes of three change places; a copy
    def empty(self, shape: tuple[int, ...], dtype: str, instead_of: Sequence[int] = ()) -> Any:
        """`instead_of`: addresses of arrays in whose place it may lie, if whoever writes it is the last to read them.
        That is so where a recording has found a place for it."""
        ...

    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def fill(self, array: Any, byte: int) -> None: ...
    def copy(self, array: Any, to: Any) -> None: ...  # between two of the same size
    def write(self, array: Any, to: Any) -> None: ...  # the same, from one of NumPy
    def rolled(self, array: Any, by: int) -> Any: ...  # a copy, its elements so many places further on
    def same(self, one: Any, other: Any) -> bool: ...  # bit for bit
    def on(self, stream: Any) -> AbstractContextManager[Any]: ...  # allocations and copies in this stream's order
    def synchronize(self) -> None: ...
    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        """The launches back to back, ready to be repeated: each call does them all once, and gives us a launch."""
        ...

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]: ...
    def record(
        self, work: Callable[[], Sequence[Any]], place: Place | None = None
    ) -> tuple[list[Any], Callable[[], None]]:
        """The arrays that the work makes, and what does the work again, on the current stream: it writes these arrays.

        The work only launches, copies and allocates, and what it writes it has allocated just before. It must have been
        done once before, so that everything is loaded; and the arrays that it reads must stay where they are. `place`
        lays what the work does not keep out in one arena."""
        ...


def open_device(spec: str | None = None) -> Device:
    """Raises DeviceError, with the remedy, where there is no such device."""
    if spec is None:
        spec = default_spec()
    if not isinstance(spec, str):
        raise _unknown(spec)
    if spec == "cuda" or spec == "hip":
        spec += ":0"
    return _open(spec)


def _unknown(spec: object) -> DeviceError:
    cpus = ", ".join(name for name, target in TARGETS.items() if target.vendor == "cpu")
    return DeviceError(f"the device {quoted(spec)} is not known; use {cpus}, cuda, cuda:N, hip or hip:N")


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
    """The first GPU, else `cpu`; a GPU that is seen, but cannot be used, is told."""
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
    """What an import of it says, in one line. Half of an installation may raise anything."""
    try:
        import_module("qconv.device.gpu")
    except Exception as error:
        return first_line(error)
    return None


def why_unused() -> str | None:
    """One sentence for a GPU that is here while no device is: what it lacks, and where that comes from."""
    for seen in seen_gpus():
        if (missing := why_no_cupy()) is not None:
            return f"{seen}, but CuPy cannot be imported ({missing}): to use it, pip install 'qconv-tune[{seen.extra}]'"
        from qconv.device import gpu

        if (failure := gpu.failure()) is not None:
            return f"{seen}, but its driver gives no device ({failure}): install or update the {seen.vendor} driver"
    return None
