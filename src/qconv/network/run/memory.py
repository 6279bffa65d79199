"""Placement of the intermediate tensors of a recording in one arena. A tensor may take the place of one that is no
longer read, or whose last reader writes it.

Tensors that leave the recorded layers (outputs of the network, and inputs of layers elsewhere) have memory of their
own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from qconv.device.memory import ALIGNMENT, Allocation, Placement


@dataclass(frozen=True)
class Block:
    """A place in the arena, and the allocations that occupy it in turn. It is in use from allocation number `begin` to
    before number `end`."""

    numbers: tuple[int, ...]
    bytes: int
    end: int

    @property
    def begin(self) -> int:
        return self.numbers[0]

    def meets(self, other: Block) -> bool:
        """True where both are in use at some time."""
        return self.begin < other.end and other.begin < self.end


@dataclass(frozen=True)
class Memory:
    """The memory of recorded runs for intermediate tensors and kernel workspaces: their number, their bytes, and the
    bytes of the arenas that hold them. `kept_bytes` are those of outputs, which are outside."""

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
    """Place allocations deterministically. Two heuristics are tried; the one that needs less memory wins."""
    blocks = blocks_of(allocations)
    rules: tuple[Callable[[Block], tuple[int, ...]], ...] = (
        lambda block: (-block.bytes, block.begin),  # large ones first, while there is room everywhere
        lambda block: (block.begin, -block.bytes),  # in order: packs long chains of equal tensors tighter
    )
    ways = [_best_fit(sorted(blocks, key=rule)) for rule in rules]
    offsets, arena_bytes = min(ways, key=lambda way: way[1])
    by_number = {number: offset for block, offset in offsets.items() for number in block.numbers}
    sizes = tuple(one.bytes for one in allocations)
    return Placement(arena_bytes, sizes, tuple(by_number.get(number) for number in range(len(allocations))))


def blocks_of(allocations: Sequence[Allocation]) -> tuple[Block, ...]:
    """Return the places of all allocations that are freed."""
    blocks: dict[int, Block] = {}  # by the number of their last allocation
    for number, one in enumerate(allocations):
        if one.end is None:
            continue
        size, before = _rounded(one.bytes), None
        for other in one.instead_of:
            found = blocks.get(other)
            # No allocation since means no launch since that might still read the other.
            if found is not None and found.end == number + 1 and allocations[other].bytes == one.bytes:
                before = blocks.pop(other)
                break
        numbers = (number,) if before is None else (*before.numbers, number)
        blocks[number] = Block(numbers, size, one.end)
    return tuple(sorted(blocks.values(), key=lambda block: block.begin))


def _best_fit(blocks: Iterable[Block]) -> tuple[dict[Block, int], int]:
    """Place each block in the smallest gap between simultaneously used ones that holds it, else after them all."""
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
