"""plan -> executable: its sources rendered, their binaries found or compiled, and loaded on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from qconv import generator
from qconv.device import Device
from qconv.device.compile import build
from qconv.generator import Plan, Source
from qconv.instances.executable import Executable
from qconv.instances.pair import Pair, Runnable


def load(plan: Plan, device: Device, toolchain: str | None = None, sources: Sequence[Source] | None = None) -> Runnable:
    """With a toolchain named, a binary by it is preferred. `sources` are those of `plan.kernels`, where the caller has
    rendered them already."""
    sources = [generator.render(kernel) for kernel in plan.kernels] if sources is None else sources
    return _loaded(plan, device, toolchain, iter(sources))


def _loaded(plan: Plan, device: Device, toolchain: str | None, sources: Iterator[Source]) -> Runnable:
    if plan.parts:
        first, second = (_loaded(part, device, toolchain, sources) for part in plan.parts)
        assert isinstance(first, Executable)
        return Pair(plan, first, second, device)
    binary = build(next(sources), plan, toolchain)
    return Executable(plan, binary, device.load(plan, binary), device)
