"""Where kernels run. This package is the only one that imports cupy.

`open_device("cpu")`, `open_device("cuda:1")`, or `open_device(None)` for the first GPU, else the CPU device.
`open_device("cpu.gfx942")` is the CPU device as well, executing the matrix instructions of that architecture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol

from qconv.device.cache import Binary
from qconv.errors import DeviceError
from qconv.generator import Plan
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import TensorMap
from qconv.target import TARGETS, Target


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
    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def zeros(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def fill(self, array: Any, byte: int) -> None: ...
    def copy(self, array: Any, to: Any) -> None: ...  # between two of the same size
    def rolled(self, array: Any, by: int) -> Any: ...  # a copy, its elements so many places further on
    def same(self, one: Any, other: Any) -> bool: ...  # bit for bit
    def on(self, stream: Any) -> AbstractContextManager[Any]: ...  # allocations and copies in this stream's order
    def synchronize(self) -> None: ...
    def replay(self, launches: Sequence[Callable[[Any], Any]]) -> Callable[[], float]:
        """The launches back to back, ready to be repeated: each call does them all once, and gives us a launch."""
        ...

    def time_us(self, launches: Sequence[Callable[[Any], None]], repeats: int) -> tuple[float, ...]: ...


def open_device(spec: str | None = None) -> Device:
    """Raises DeviceError, with the remedy, where there is no such device."""
    if spec is None:
        spec = default_spec()
    if spec == "cuda" or spec == "hip":
        spec += ":0"
    return _open(spec)


@lru_cache(maxsize=64)
def _open(spec: str) -> Device:
    cpus = {name: target for name, target in TARGETS.items() if target.vendor == "cpu"}
    if spec in cpus:
        from qconv.device.cpu import CpuDevice

        return CpuDevice(cpus[spec])
    kind, _, index = spec.partition(":")
    if kind not in ("cuda", "hip") or not (index.isascii() and index.isdigit()):
        raise DeviceError(f"the device {spec!r} is not known; use {', '.join(cpus)}, cuda, cuda:N, hip or hip:N")
    try:
        from qconv.device.gpu import GpuDevice
    except (ImportError, OSError) as error:
        extra = "cuda" if kind == "cuda" else "rocm"
        raise DeviceError(
            f"the device {spec} needs CuPy, which cannot be imported ({error}); install it (pip install "
            f"'qconv-tune[{extra}]') or use --device cpu"
        ) from None
    return GpuDevice(kind, int(index))


@lru_cache(maxsize=1)
def default_spec() -> str:
    """The first GPU, else `cpu`."""
    return next(iter(gpu_specs()), "cpu")


def gpu_specs() -> list[str]:
    try:
        from qconv.device import gpu
    except (ImportError, OSError):
        return []
    return gpu.specs()
