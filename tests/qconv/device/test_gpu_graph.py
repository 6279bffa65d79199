"""The memory of a graph, on a stand-in for CuPy with host memory and with lists of functions as graphs: CuPy itself is
tested on GPUs."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import qconv.device
from qconv.device.memory import Trace, wish
from qconv.network.run.memory import place

SIZE = 300


class Memory:
    def __init__(self, size: int) -> None:
        self._held = ctypes.create_string_buffer(size + 256)
        self.ptr = -(-ctypes.addressof(self._held) // 256) * 256


class Pool:
    def malloc(self, size: int) -> Memory:
        return Memory(size)


class FunctionMemory:
    """Memory that, as CuPy's, frees itself when the last reference is gone."""

    def __init__(self, size: int, allocate: Callable[[int, int], int], free: Callable[[int, int], None]) -> None:
        self._free, self.ptr = free, 0
        self.ptr = allocate(size, 0)

    def __del__(self) -> None:
        if self.ptr:
            self._free(self.ptr, 0)


class FunctionAllocator:
    def __init__(self, *functions: Any) -> None:
        self._functions = functions

    def malloc(self, size: int) -> FunctionMemory:
        return FunctionMemory(size, *self._functions)


class Stream:
    def __init__(self) -> None:
        self.launched: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        return

    def __exit__(self, *error: Any) -> None:
        return

    def begin_capture(self) -> None:
        self.launched = []

    def end_capture(self) -> list[Callable[[], None]]:
        return self.launched


class Place:
    """One allocator and one stream, and arrays of bytes that are filled or added up."""

    def __init__(self) -> None:
        self.stream = Stream()
        self._malloc: Any = None

    @contextlib.contextmanager
    def using_allocator(self, malloc: Any) -> Iterator[None]:
        before, self._malloc = self._malloc, malloc
        yield
        self._malloc = before

    def fill(self, byte: int, size: int = SIZE) -> Any:
        made = self._malloc(size)
        to = made.ptr
        self.stream.launched.append(lambda: ctypes.memset(to, byte, size) and None)
        return made

    def added(self, a: Any, b: Any) -> Any:
        """Return a + b, possibly in the memory of `a`."""
        wish([a.ptr])
        made = self._malloc(SIZE)
        one, other, to = a.ptr, b.ptr, made.ptr

        def add() -> None:
            sums = bytes(x + y for x, y in zip(content(one), content(other), strict=True))
            ctypes.memmove(to, sums, SIZE)

        self.stream.launched.append(add)
        return made


def content(address: int) -> bytes:
    return ctypes.string_at(address, SIZE)


@pytest.fixture
def here() -> Place:
    return Place()


@pytest.fixture
def gpu_graph(here: Place, monkeypatch: pytest.MonkeyPatch) -> Any:
    cuda = SimpleNamespace(
        Memory=Memory, MemoryPool=Pool, PythonFunctionAllocator=FunctionAllocator, using_allocator=here.using_allocator
    )
    runtime = SimpleNamespace(CUDARuntimeError=RuntimeError)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", SimpleNamespace(runtime=runtime))
    path = Path(qconv.device.__file__).with_name("gpu_graph.py")
    spec = importlib.util.spec_from_file_location("stand_in_gpu_graph", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_graph_writes_an_arena_and_outputs_of_their_own(here: Place, gpu_graph: Any) -> None:
    addresses: list[int] = []

    def work() -> list[Any]:
        a, b = here.fill(1), here.fill(2)
        c = here.added(a, b)  # 3, in the memory of a
        addresses[:] = [a.ptr, b.ptr, c.ptr]
        del a, b
        d = here.added(c, here.fill(4))  # 7, in the memory of c; the 4 is in that of b
        del c
        return [here.added(d, d)]

    (made,), graph, kept = gpu_graph.placed_graph(work, place, here.stream)
    arena, outputs = kept
    assert addresses == [arena.ptr, arena.ptr + 512, arena.ptr]
    assert [one.ptr for one in outputs] == [made.ptr]
    for _ in range(2):
        for launch in graph:
            launch()
        assert content(made.ptr) == bytes([14]) * SIZE


def test_other_work_has_no_place(here: Place, gpu_graph: Any) -> None:
    sizes = iter([300, 301])
    assert gpu_graph.placed_graph(lambda: [here.fill(1, next(sizes))], place, here.stream) is None
    with here.stream, gpu_graph.allocating_by(lambda size, _: size, lambda address, _: None):
        assert here._malloc(7).ptr == 7


def test_a_capture_that_fails_ends(here: Place, gpu_graph: Any) -> None:
    ended: list[bool] = []
    end_capture = here.stream.end_capture
    here.stream.end_capture = lambda: ended.append(True) or end_capture()  # type: ignore[method-assign,func-returns-value]
    with pytest.raises(ValueError, match="refused"), gpu_graph.captured(here.stream):
        raise ValueError("refused")
    assert ended == [True]
    trace = Trace()
    with gpu_graph._traced_by(trace, Pool()):
        here._malloc(5)
        assert [one.end for one in trace.allocations] == [1]
