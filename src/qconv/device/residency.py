"""How many blocks of a launch are resident at a time: what a launch that overlaps asks shared memory for.

A kernel that overlaps lets the next one begin when it begins itself, and only then waits for the one before it. So does
the next: in a sequence of short launches a dozen may be resident at a time, all but the first of them waiting. The
hardware puts the blocks of one that comes late where room is, several onto one multiprocessor while others have none,
and there they take as many times longer. A launch that asks for as much shared memory as its blocks leave unused gives
that room to nobody: the next one begins where blocks of this one end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from qconv.generator.plan import Launch, ceil_div

UNIT = 128  # that shared memory is given out in
# A cluster lies in one group of multiprocessors (GPC). A group has 16 or 18 where none is broken, always an even
# number.
OF_GROUP = 16


@dataclass(frozen=True)
class Multiprocessors:
    """What bounds the blocks of an NVIDIA GPU's, beside registers and threads."""

    count: int
    smem_bytes: int  # of each
    most_bytes: int  # that a block may have
    reserved_bytes: int  # of each block, beside what it may use

    def blocks_of_each(self, launch: Launch) -> int:
        """As few as let all blocks of the launch be resident together."""
        # In each group, what whole clusters do not fill: with pairs of blocks there is nothing.
        lost = self.count // OF_GROUP * max(0, launch.cluster - 2)
        return ceil_div(math.prod(launch.grid) + lost, self.count)

    def room(self, launch: Launch, static_bytes: int) -> int:
        """The dynamic shared memory of a launch with which a multiprocessor holds no more of its blocks than that."""
        share = min(self.smem_bytes // self.blocks_of_each(launch) - self.reserved_bytes, self.most_bytes)
        return max(launch.smem_bytes, share // UNIT * UNIT - static_bytes)
