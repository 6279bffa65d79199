"""The memory of work that is recorded: what it takes and gives back while it is done once, and what lies where in an
arena from then on.

The launches of a recording follow each other on one stream, in the order in which the host asked for memory: what the
host gives back, no later launch reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

# Offsets in an arena: more than any kernel, vector or tensor map asks of an address.
ALIGNMENT = 256


@dataclass(frozen=True)
class Allocation:
    """One of many, which are numbered in the order in which they are made. The allocations from its own to the one
    before number `end` are made while it is in use; `end` is None where it still is when the work is done.
    `instead_of` are the numbers of others of which it may have the place, if nobody reads those any more."""

    bytes: int
    end: int | None
    instead_of: tuple[int, ...] = ()


@dataclass(frozen=True)
class Placement:
    """`sizes` of all allocations in turn, and their `offsets` in the arena, None of those with memory of their own."""

    arena_bytes: int
    sizes: tuple[int, ...]
    offsets: tuple[int | None, ...]


Place = Callable[[Sequence[Allocation]], Placement]


class Trace:
    """Writes down what is taken and given back, by addresses. What takes no bytes is not written down."""

    def __init__(self) -> None:
        self._in_use: dict[int, int] = {}  # by address, its number
        self._sizes: list[int] = []
        self._ends: list[int | None] = []
        self._instead_of: list[tuple[int, ...]] = []
        self._wished: tuple[int, ...] = ()

    def wish(self, addresses: Sequence[int]) -> None:
        """What is taken next may lie there, too."""
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
    """The work asks for other memory than it did when it was traced."""


class Placed:
    """Answers the same work once more with what was placed for it."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._next = 0

    def take(self, size: int) -> int | None:
        """The offset in the arena; None for memory of its own."""
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
    """What this thread takes next may lie where one of these arrays lies, whose last reader writes it."""
    trace = _traces.get()
    if trace is not None:
        trace.wish(addresses)
