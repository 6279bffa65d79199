"""Offsets in an arena: no two live tensors overlap, whatever the graph, and little is wasted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from qconv.device.memory import ALIGNMENT, Allocation
from qconv.network.run.memory import Block, Memory, blocks_of, place

SEEDS = range(200)


def most_live_bytes(blocks: Sequence[Block]) -> int:
    """Return the lower bound of the arena's size."""
    begins = (block.begin for block in blocks)
    return max((sum(one.bytes for one in blocks if one.begin <= at < one.end) for at in begins), default=0)


@dataclass
class Work:
    """Random layers in sequence, each of which reads some live tensors, writes one, and may need scratch memory;
    tensors without further readers are freed."""

    allocations: list[Allocation]
    layers: list[tuple[tuple[int, ...], int]]  # inputs and output of each layer, by number

    @classmethod
    def of(cls, seed: int) -> Work:
        rng = np.random.default_rng(seed)
        sizes, ends, wishes = list[int](), list[int | None](), list[tuple[int, ...]]()
        live, layers = list[int](), list[tuple[tuple[int, ...], int]]()
        usual = int(rng.integers(1, 900))
        for _ in range(int(rng.integers(1, 40))):
            read = tuple(int(one) for one in rng.permutation(live)[: rng.integers(0, 4)])
            made = len(sizes)
            in_place = bool(read) and rng.random() < 0.5
            sizes.append(sizes[read[0]] if in_place else usual if rng.random() < 0.5 else int(rng.integers(1, 3000)))
            wishes.append(read[:1] if in_place else ())
            ends.append(None)
            if rng.random() < 0.2:  # scratch of this layer alone
                sizes.append(int(rng.integers(1, 3000)))
                wishes.append(())
                ends.append(len(sizes))
            layers.append((read, made))
            for one in [*read]:
                if rng.random() < 0.6:
                    live.remove(one)
                    ends[one] = len(sizes)
            live.append(made)
        return cls([Allocation(*each) for each in zip(sizes, ends, wishes, strict=True)], layers)


def run(work: Work, offsets: tuple[int | None, ...]) -> None:
    """Run every layer: it fills its output with its number, and checks that its inputs are intact."""
    memory: dict[int, int] = {}

    def cells(number: int) -> range:
        offset = offsets[number]
        assert offset is not None
        return range(offset, offset + work.allocations[number].bytes)

    placed = {number for number, offset in enumerate(offsets) if offset is not None}
    makes = {made: read for read, made in work.layers}
    for number in sorted(placed | set(makes)):
        for one in makes.get(number, ()):
            if one in placed:
                assert {memory[cell] for cell in cells(one)} == {one}, f"{number} reads {one}"
        if number in placed:
            memory |= dict.fromkeys(cells(number), number)


@pytest.mark.turns
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_in_use_stays(seed: int) -> None:
    work = Work.of(seed)
    placement = place(work.allocations)
    run(work, placement.offsets)
    for number, one in enumerate(work.allocations):
        assert (placement.offsets[number] is None) == (one.end is None)
    blocks = blocks_of(work.allocations)
    assert most_live_bytes(blocks) <= placement.arena_bytes <= sum(block.bytes for block in blocks)
    assert all(offset is None or offset % ALIGNMENT == 0 for offset in placement.offsets)
    for number, offset in enumerate(placement.offsets):
        assert offset is None or offset + work.allocations[number].bytes <= placement.arena_bytes
    assert place(tuple(work.allocations)) == placement


def test_a_lifetime_that_ends_one_step_early_is_seen() -> None:
    """The check of the test above notices such a plan."""
    caught = 0
    for seed in SEEDS:
        work = Work.of(seed)
        early = [
            one if one.end is None else Allocation(one.bytes, max(number + 1, one.end - 1), one.instead_of)
            for number, one in enumerate(work.allocations)
        ]
        try:
            run(work, place(early).offsets)
        except AssertionError:
            caught += 1
    assert caught > len(SEEDS) // 4  # in the others nothing else was placed there


def test_little_is_wasted() -> None:
    """Relative to the live bytes, over all random graphs."""
    least = most = 0
    for seed in SEEDS:
        allocations = Work.of(seed).allocations
        least += most_live_bytes(blocks_of(allocations))
        most += place(allocations).arena_bytes
    assert most < 1.05 * least


def test_the_last_reader_may_write_over_what_it_reads() -> None:
    chain = [Allocation(1000, 2), Allocation(1000, 3, (0,)), Allocation(1000, 4, (1,))]
    assert place(chain).arena_bytes == 1000 + 24
    assert place(chain).offsets == (0, 0, 0)
    assert place([Allocation(one.bytes, one.end + 1, one.instead_of) for one in chain if one.end]).arena_bytes == 3072


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Allocation(1000, 3), Allocation(1000, 3, (0,))),  # the first is read when a third is made
        (Allocation(1000, 2), Allocation(999, 3, (0,))),  # of another size
        (Allocation(1000, None), Allocation(1000, 3, (0,))),  # kept
    ],
)
def test_in_place_is_only_what_nobody_reads(first: Allocation, second: Allocation) -> None:
    blocks = blocks_of([first, second])
    assert all(len(block.numbers) == 1 for block in blocks)
    assert len(blocks) == (1 if first.end is None else 2)


def test_what_it_says() -> None:
    placement = place([Allocation(100, 1), Allocation(300, None), Allocation(600, 3)])
    one = Memory.of(placement)
    assert one == Memory(1, 2, 700, 768, 300)
    assert one + one == Memory(2, 4, 1400, 1536, 600)
    assert str(one) == ("memory of 1 recorded run: 2 tensors between layers of 700 B lie in 768 B; outputs in 300 B")
    assert place([]).arena_bytes == 0
