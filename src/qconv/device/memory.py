"""Memory of recorded work: a trace of its allocations in the first run, and their placement in one arena for later
runs.

The launches of a recording follow each other on one stream, in the order in which the host requested memory. No launch
reads memory that the host has freed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# The alignment of offsets in an arena: enough for any kernel, vector or tensor map.
ALIGNMENT = 256


@dataclass(frozen=True)
class Allocation:
    """An allocation of a traced run. Allocations are numbered in order. It is in use until the allocation numbered
    `end` is made; `end` is None if it is still in use at the end of the work. `instead_of` are the numbers of
    allocations whose place it may take, if nobody reads those any more."""

    bytes: int
    end: int | None
    instead_of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The `sizes` of all allocations in order, and their `offsets` in the arena; None for one with memory of its
    own."""

    arena_bytes: int
    sizes: tuple[int, ...]
    offsets: tuple[int | None, ...]


Place = Callable[[Sequence[Allocation]], Placement]


class Trace:
    """A record of allocations and frees, by address. Empty allocations are not recorded."""

    def __init__(self) -> None:
        self._in_use: dict[int, int] = {}  # address -> number
        self._sizes: list[int] = []
        self._ends: list[int | None] = []
        self._instead_of: list[tuple[int, ...]] = []
        self._wished: tuple[int, ...] = ()

    def wish(self, addresses: Sequence[int]) -> None:
        """Allow the next allocation to take the place of these."""
        self._wished = tuple(self._in_use[address] for address in addresses if address in self._in_use)

    def take(self, address: int, size: int) -> None:
        self._in_use[address] = len(self._sizes)
        self._sizes.append(size)
        self._ends.append(None)
        self._instead_of.append(self._wished)
        self._wished = ()

    def give(self, address: int) -> None:
        self._ends[self._in_use.pop(address)] = len(self._sizes)

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        return tuple(map(Allocation, self._sizes, self._ends, self._instead_of))


class OtherWork(RuntimeError):
    """The work requests other memory than it did when it was traced."""


class Placed:
    """The allocator for repeated work: it returns the places that were planned."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._next = 0

    def take(self, size: int) -> int | None:
        """Return the offset in the arena, or None for memory of its own."""
        number, self._next = self._next, self._next + 1
        sizes = self._placement.sizes
        if number >= len(sizes) or sizes[number] != size:
            was = f"{sizes[number]} B" if number < len(sizes) else "none"
            raise OtherWork(f"allocation {number} is of {size} B; when the work was traced, it was {was}")
        return self._placement.offsets[number]


_traces: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(trace: Trace) -> Iterator[None]:
    token = _traces.set(trace)
    try:
        yield
    finally:
        _traces.reset(token)


def wish(addresses: Sequence[int]) -> None:
    """Allow this thread's next allocation to take the place of these arrays, if the kernel that writes it is their last
    reader."""
    trace = _traces.get()
    if trace is not None:
        trace.wish(addresses)
