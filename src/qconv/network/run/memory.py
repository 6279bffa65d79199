"""Where the tensors between the layers lie: in one arena, in which a tensor has the place of others that nobody reads
any more, or whose last reader writes it.

What leaves the layers of a recording (a network's outputs, and what other sides read) has memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from qconv.device.memory import ALIGNMENT, Allocation, Placement


@dataclass(frozen=True)
class Block:
    """A place, and the allocations that have it one after the other, each instead of the one before it. It is in use
    while the allocations from number `begin` to the one before `end` are made."""

    numbers: tuple[int, ...]
    bytes: int
    end: int

    @property
    def begin(self) -> int:
        return self.numbers[0]

    def meets(self, other: Block) -> bool:
        """Whether both are in use at some time."""
        return self.begin < other.end and other.begin < self.end


@dataclass(frozen=True)
class Memory:
    """What recorded runs need for the tensors between their layers, and for what kernels need while they run: how many
    there are, their bytes, and those of the arenas in which they lie. Outputs, `kept_bytes`, lie by themselves."""

    recordings: int = 0
    tensors: int = 0
    tensor_bytes: int = 0
    arena_bytes: int = 0
    kept_bytes: int = 0

    @classmethod
    def of(cls, placement: Placement) -> Memory:
        placed = [size for size, offset in zip(placement.sizes, placement.offsets, strict=True) if offset is not None]
        return cls(1, len(placed), sum(placed), placement.arena_bytes, sum(placement.sizes) - sum(placed))

    def __add__(self, other: Memory) -> Memory:
        return Memory(*(ours + theirs for ours, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __str__(self) -> str:
        runs = "run" if self.recordings == 1 else "runs"
        return (
            f"memory of {self.recordings} recorded {runs}: {self.tensors} tensors between layers of "
            f"{self.tensor_bytes} B lie in {self.arena_bytes} B; outputs in {self.kept_bytes} B"
        )


def place(allocations: Sequence[Allocation]) -> Placement:
    """The same for the same allocations. Two rules find places; the one that needs less memory is taken."""
    blocks = blocks_of(allocations)
    rules: tuple[Callable[[Block], tuple[int, ...]], ...] = (
        lambda block: (-block.bytes, block.begin),  # the large ones first, while there is room everywhere
        lambda block: (block.begin, -block.bytes),  # as they come: long chains of equal tensors lie closer so
    )
    ways = [_best_fit(sorted(blocks, key=rule)) for rule in rules]
    offsets, arena_bytes = min(ways, key=lambda way: way[1])
    by_number = {number: offset for block, offset in offsets.items() for number in block.numbers}
    sizes = tuple(one.bytes for one in allocations)
    return Placement(arena_bytes, sizes, tuple(by_number.get(number) for number in range(len(allocations))))


def blocks_of(allocations: Sequence[Allocation]) -> tuple[Block, ...]:
    """The places of all that are given back."""
    blocks: dict[int, Block] = {}  # by the number of the last allocation that has it
    for number, one in enumerate(allocations):
        if one.end is None:
            continue
        size, before = _rounded(one.bytes), None
        for other in one.instead_of:
            found = blocks.get(other)
            # Nothing was allocated since, so that nothing was launched that might still read the other.
            if found is not None and found.end == number + 1 and allocations[other].bytes == one.bytes:
                before = blocks.pop(other)
                break
        numbers = (number,) if before is None else (*before.numbers, number)
        blocks[number] = Block(numbers, size, one.end)
    return tuple(sorted(blocks.values(), key=lambda block: block.begin))


def _best_fit(blocks: Iterable[Block]) -> tuple[dict[Block, int], int]:
    """Each in the smallest gap that holds it between those that are in use with it; behind them all, if none does."""
    offsets: dict[Block, int] = {}
    for block in blocks:
        taken = sorted((offset, offset + one.bytes) for one, offset in offsets.items() if one.meets(block))
        gaps: list[tuple[int, int]] = []
        free = 0
        for begin, end in taken:
            if begin - free >= block.bytes:
                gaps.append((begin - free, free))
            free = max(free, end)
        offsets[block] = min(gaps)[1] if gaps else free
    return offsets, max((offset + one.bytes for one, offset in offsets.items()), default=0)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
