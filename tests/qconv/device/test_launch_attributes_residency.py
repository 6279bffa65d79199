"""The number of resident blocks per SM of an H200, by the requested shared memory."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from qconv.device.launch_attributes import UNIT, Multiprocessors
from qconv.generator.plan import Launch

H200 = Multiprocessors(132, 228 * 1024, 227 * 1024, 1024)


def launch_of(blocks: int, smem_bytes: int, cluster: int = 1) -> Launch:
    return Launch("conv2d_mma", (blocks, 1, 1), 128, smem_bytes, cluster=cluster)


def resident(room: int, static_bytes: int) -> int:
    """Return the number of blocks, by the units of allocation."""
    taken = -(-(room + static_bytes) // UNIT) * UNIT + H200.reserved_bytes
    return H200.smem_bytes // taken


@pytest.mark.parametrize("static_bytes", [0, 16, 1000])
@pytest.mark.parametrize(
    ("blocks", "cluster", "of_each"),
    [
        (1, 1, 1),
        (132, 1, 1),
        (133, 1, 2),
        (392, 1, 3),
        (400, 1, 4),
        (256, 2, 2),
        # Measured on an H200: two blocks each are too few for 64 clusters of four and for 32 of eight.
        (224, 4, 2),
        (256, 4, 3),
        (256, 8, 3),
    ],
)
def test_as_many_are_resident_as_there_have_to_be(blocks: int, cluster: int, of_each: int, static_bytes: int) -> None:
    launch = launch_of(blocks, 4096, cluster)
    assert H200.blocks_of_each(launch) == of_each
    room = H200.room(launch, static_bytes)
    assert resident(room, static_bytes) == of_each
    assert room + static_bytes <= H200.most_bytes


def test_a_launch_gets_what_it_needs() -> None:
    assert H200.room(launch_of(100_000, 49152), 0) == 49152
    assert H200.room(launch_of(132, 227 * 1024), 0) == 227 * 1024


def test_a_launch_asks_for_it_only_where_it_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = pytest.importorskip("qconv.device.gpu", reason="CuPy is not installed")
    launch, asked, allowed = launch_of(98, 65536), list[Launch](), dict[tuple[int, int], int]()

    class Module:
        def load(self, binary: bytes) -> None:
            assert binary == b"binary"

        def get_function(self, name: str) -> Any:
            assert name == launch.kernel
            return SimpleNamespace(ptr=7)

    class Driver:
        launchKernel = None  # CuPy's name

        @staticmethod
        def funcGetAttribute(attribute: int, function: int) -> int:
            assert (attribute, function) == (1, 7)
            return 1000

        @staticmethod
        def funcSetAttribute(function: int, attribute: int, value: int) -> None:
            allowed[function, attribute] = value

    def launcher(function: int, launch: Launch, pointers: int) -> Any:
        asked.append(launch)
        return lambda stream: None

    monkeypatch.setattr(gpu, "Module", Module)
    monkeypatch.setattr(gpu, "driver", Driver)
    monkeypatch.setattr(gpu.launch_attributes, "launcher", launcher)
    device = SimpleNamespace(current=nullcontext(), only=True, multiprocessors=H200)
    kernel = gpu.GpuKernel(device, SimpleNamespace(launches=[launch]), SimpleNamespace(data=b"binary"))
    kernel.bind(launch, b"arguments")
    assert (asked, allowed) == ([], {(7, 8): 65536})
    kernel.bind(launch, b"arguments", overlap=True)
    kernel.bind(launch, b"arguments", overlap=True)
    room = H200.room(launch, 1000)
    assert asked == [replace(launch, smem_bytes=room)] * 2
    assert allowed == {(7, 8): room}
