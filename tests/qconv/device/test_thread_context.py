"""Calls of the driver in a thread without a context: refused once, and repeated with one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import Conv2d
from qconv.device import gpu, launch_attributes, tensor_maps, thread_context
from qconv.generator.plan import Launch
from qconv.generator.tensor_map import im2col, matrix

LAUNCH = Launch("k", (1, 1, 1), 32, 0)
PIXELS = im2col(Conv2d(1, 8, 8, 64, 64, 3, 3, pad=1), 64, 8)
CALLS: dict[str, Callable[[], Any]] = {
    "a launch": lambda: gpu._plain(1, LAUNCH, 2)(3),
    "a launch with attributes": lambda: launch_attributes.launcher(1, LAUNCH, 2)(3),
    "a tensor map of tiles": lambda: tensor_maps.encoded(matrix("w", "int8", 8, 64, 8, 64), 16),
    "a tensor map of windows": lambda: tensor_maps.encoded(PIXELS, 16),
}


class Refused(gpu.driver.CUDADriverError):  # type: ignore[misc,name-defined] # CuPy has no types
    def __init__(self, status: int) -> None:
        self.status = status


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what happens: statuses of the driver's calls, of which the first ones are those in the list."""
    found: list[object] = []
    answers = [201]

    def call(*_: object) -> int:
        status = answers.pop(0) if answers else 0
        found.append(status)
        return status

    def launch_kernel(*_: object) -> None:
        if status := call():
            raise Refused(status)

    names = ("cuLaunchKernelEx", "cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col")
    monkeypatch.setattr(launch_attributes, "driver", lambda: SimpleNamespace(**dict.fromkeys(names, call)))
    monkeypatch.setattr(gpu, "driver", SimpleNamespace(launchKernel=launch_kernel, CUDADriverError=Refused))
    monkeypatch.setattr(thread_context, "give", lambda: found.append("a context"))
    return found


@pytest.mark.parametrize("name", CALLS)
def test_it_is_repeated_once(name: str, happened: list[object]) -> None:
    CALLS[name]()
    assert happened == [201, "a context", 0]


def test_another_refusal_is_an_error(happened: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_context, "INVALID_CONTEXT", 0)
    with pytest.raises(Refused):
        CALLS["a launch"]()
    assert happened == [201]


@pytest.mark.parametrize(("current", "freed"), [(7, []), (0, [0])])
def test_a_call_that_ends_captures_is_the_last_resort(
    current: int, freed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from cupy_backends.cuda.api import driver, runtime

    found: list[int] = []
    monkeypatch.setattr(runtime, "getDevice", lambda: 1)
    monkeypatch.setattr(runtime, "setDevice", lambda index: None)
    monkeypatch.setattr(runtime, "free", found.append)
    monkeypatch.setattr(driver, "ctxGetCurrent", lambda: current)
    thread_context.give()
    assert found == freed
