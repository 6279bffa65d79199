"""The partial sums of a tile's blocks in device memory: the last block reads them, and they are complete."""

from __future__ import annotations

from qconv import generator
from tests.templates.test_mma_sanitizers import LATE, PLANS, finding


def test_a_block_arrives_when_all_of_its_threads_have_added() -> None:
    """One thread of the first block is late. A block on another core, which comes last, would miss its sums."""
    plan = PLANS["parts of a tile"]
    text = generator.render(plan).text
    adds, begins = "__device__ __forceinline__ bool add_up(", "    Sum* const sums = args.sums"
    assert (text.count(adds), text.count(begins)) == (1, 1)
    text = text.replace(adds, f'extern "C" int usleep(unsigned);\n{adds}')
    text = text.replace(begins, f"    if (tile_part.begin == 0 && tile::thread() == 1) usleep(50000);\n{begins}")
    assert finding(plan, text, "address", LATE)[0] == "clean"
