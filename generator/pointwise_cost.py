"""The cost model of the `pointwise` family: what a multiprocessor does for its pixels, by the units that do it. Fitted
to 813 kernels of 34 problems on an H200, whose logarithms differ by 0.13, and scaled to 1,670 of all layers since."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

from qconv.generator.cost_units import at_once

# Clocks: of a launch, until the first bytes come and the last have gone; of an instruction, where all warps have some
# to issue, and in the chain of one warp; of an access to shared memory; of a product.
LAUNCHED, ISSUED, CHAINED, ACCESSED, MULTIPLIED = 3780, 0.25, 2.6, 1.0, 3.5
# Bytes of device memory that come to a multiprocessor, or go, in a clock.
MEMORY = 17.3
POWER = 2.5
# What a parameter of eight channels takes, which comes anew from the first-level cache, as instructions.
PARAMETER = 10


@lru_cache(maxsize=4096)
def wavefronts(pixel_bytes: int, vector_bytes: int, quarter_bytes: int, swapped: int) -> int:
    """How often shared memory is accessed for one instruction of a warp whose lanes have eight pixels, four lanes each:
    a lane its vector, so many bytes behind its neighbour's. `swapped` is the bit of the row that bit 0 changes with."""
    at_once_lanes = 32 if vector_bytes <= 4 else 128 // vector_bytes
    words_of_banks: list[dict[int, set[int]]] = [defaultdict(set) for _ in range(32 // at_once_lanes)]
    for lane in range(32):
        row = lane // 4
        low, high = row & 1, row >> swapped & 1
        pixel = row ^ ((low ^ high) << swapped | (low ^ high)) if swapped else row
        first = pixel * pixel_bytes + lane % 4 * quarter_bytes
        for word in range(first // 4, (first + vector_bytes - 1) // 4 + 1):
            words_of_banks[lane // at_once_lanes][word % 32].add(word)
    return sum(max(len(words) for words in banks.values()) for banks in words_of_banks)


def swapped_bit(pixel_bytes: int, vector_bytes: int) -> int:
    """As `pixel_of_lane` of the page: 0 where the rows are in order."""
    if vector_bytes != 16:
        return 0
    return 2 if pixel_bytes * 4 % 128 == 64 else 1 if pixel_bytes * 2 % 128 == 64 else 0


def clocks(issued: float, multiplied: float, chained: float, bytes_of_processor: float, weight_words: int) -> float:
    """A launch: what all warps of a multiprocessor issue, or its shared memory does; its products; the chain of one
    warp; the bytes. The longest of them, and more where several are about as long."""
    body = at_once(at_once(max(issued, multiplied), bytes_of_processor / MEMORY, POWER), chained, POWER)
    return LAUNCHED + body + weight_words / 4.4
