"""CUDA graphs of recorded work, and the memory that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import cupy
from cupy_backends.cuda.api import runtime

from qconv.device import memory


def allocating_by(allocate: Callable[[int, int], int], free: Callable[[int, int], None]) -> AbstractContextManager[Any]:
    """Allocate this thread's memory by these functions within the context: (bytes, device) to address, and back."""
    made: AbstractContextManager[Any] = cupy.cuda.using_allocator(
        cupy.cuda.PythonFunctionAllocator(allocate, free).malloc
    )
    return made


@contextmanager
def captured(stream: Any) -> Iterator[list[Any]]:
    """Yield a list that receives the graph of the launches on the stream. Capture also ends where the work fails."""
    graphs: list[Any] = []
    stream.begin_capture()
    try:
        yield graphs
    except BaseException:
        with suppress(runtime.CUDARuntimeError):
            stream.end_capture()
        raise
    graphs.append(stream.end_capture())


Graph = tuple[list[Any], Any]  # with the arrays that the work makes


def graph_of(work: Callable[[], Sequence[Any]], stream: Any, allocating: AbstractContextManager[Any]) -> Graph:
    with stream, allocating, captured(stream) as graphs:
        arrays = list(work())
    return arrays, graphs[0]


def placed_graph(
    work: Callable[[], Sequence[Any]], place: memory.Place, stream: Any
) -> tuple[list[Any], Any, object] | None:
    """Return the work's graph, with its memory in one arena, or None where the work differs each time. The work is
    captured twice: the first graph only shows which memory the work requests, and is never launched."""
    pool, trace = cupy.cuda.MemoryPool(), memory.Trace()
    with memory.tracing(trace):
        traced = graph_of(work, stream, _traced_by(trace, pool))
    placement = place(trace.allocations)
    del traced
    arena, kept = cupy.cuda.Memory(max(placement.arena_bytes, 1)), list[Any]()
    placed = memory.Placed(placement)

    def allocate(size: int, _: int) -> int:
        offset = placed.take(size)
        if offset is not None:
            return int(arena.ptr) + offset
        kept.append(cupy.cuda.Memory(size))
        return int(kept[-1].ptr)

    try:
        arrays, graph = graph_of(work, stream, allocating_by(allocate, lambda address, _: None))
    except memory.OtherWork:
        return None
    return arrays, graph, (arena, kept)


def _traced_by(trace: memory.Trace, pool: Any) -> AbstractContextManager[Any]:
    held: dict[int, Any] = {}

    def allocate(size: int, _: int) -> int:
        pointer = pool.malloc(size)
        held[pointer.ptr] = pointer
        trace.take(pointer.ptr, size)
        return int(pointer.ptr)

    def free(address: int, _: int) -> None:
        trace.give(address)
        del held[address]

    return allocating_by(allocate, free)
