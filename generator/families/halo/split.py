"""The `halo_split` family: `halo` with the input channels divided among the blocks of a cluster.

It is for layers of many channels and few pixels: the filters of all channels do not fit into one block's shared memory,
and few tiles leave most multiprocessors idle. Each block adds up the products of its own channels. Then the blocks send
each other their sums, and each makes the outputs of its own rows of the tile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from qconv.errors import Infeasible
from qconv.generator.families.halo import config as halo_config
from qconv.generator.families.halo.config import Halo
from qconv.generator.families.halo.plan import HaloPlan, make
from qconv.generator.families.halo.windows import ROWS, STEP, is_gathered, reshaped
from qconv.generator.plan import Constant, ceil_div, check_choices
from qconv.problem.convolution import Conv2d
from qconv.targets.target import Target

# The fewest rows of a tile that a warp stages at once.
PAIR_OF_ROWS = 2
# The part of the multiprocessors that clusters of more than two blocks fill: an H100 holds 30 clusters of four.
FILLED = 0.9


@dataclass(frozen=True)
class HaloSplit(Halo):
    family: ClassVar[str] = "halo_split"
    split: int  # blocks of a cluster, which compute a tile together

    @property
    def cluster_blocks(self) -> int:
        return self.split


CHOICES: dict[str, tuple[int, ...]] = {
    "rows": (4, 8, 12, 16, 20, 24),
    "consumers": (2, 3),
    "channels": (64, 128),
    "split": (2, 4, 8),
}
# Clusters of more blocks multiply whole slabs: smaller parts take longer to exchange than to multiply.
MOST_OF_SMALL_PARTS = 4


@dataclass(frozen=True)
class HaloSplitPlan(HaloPlan):
    config: HaloSplit

    @cached_property
    def block_problem(self) -> Conv2d:
        return part_of(self.reshaped, self.config.split)

    @property
    def own_rows(self) -> int:
        return self.config.rows // self.config.split

    @property
    def tile_constants(self) -> tuple[Constant, ...]:
        says = "persistent clusters, which take tiles in turn"
        return (*super().tile_constants[:-1], Constant("BLOCKS", self.blocks, says))


def part_channels(problem: Conv2d, split: int) -> int:
    """Input channels per block, in whole steps. The last block may have fewer."""
    step = STEP // problem.quantization.types.x.bytes
    return ceil_div(problem.c, split * step) * step


def part_of(problem: Conv2d, split: int) -> Conv2d:
    """The problem that a block multiplies. Unless `why_not_split` refuses it, a part has fewer channels than the whole,
    so that it is within the limits of problems."""
    return replace(problem, c=part_channels(problem, split))


def why_none(problem: Conv2d, target: Target) -> str | None:
    if (reason := halo_config.why_none(problem, target)) is not None:
        return reason
    if problem.frames is not None:
        return "a cluster divides the channels of images, and no frames; halo serves it"
    if not target.clusters:
        return f"{target.name} has no clusters of blocks; halo serves it"
    if is_gathered(reshaped(problem)):
        return f"c={problem.c}: lanes that bring pixels bring all channels of each; halo serves it"
    return None


def why_not_split(problem: Conv2d, config: HaloSplit) -> str | None:
    """Why the reshaped problem cannot be split so, or None."""
    part = part_channels(problem, config.split)
    if (config.split - 1) * part >= problem.c:
        return f"split={config.split}: parts of {part} channels are fewer for the problem's {problem.c}; split less"
    part_bytes = part * problem.quantization.types.x.bytes
    if config.split > MOST_OF_SMALL_PARTS and part_bytes % ROWS[-1]:
        return (
            f"split={config.split}: parts of {part_bytes} bytes are no whole slabs of {ROWS[-1]}; split by "
            f"{MOST_OF_SMALL_PARTS} at most"
        )
    if config.rows % (PAIR_OF_ROWS * config.split):
        return (
            f"rows={config.rows}: each of split={config.split} blocks makes the outputs of whole pairs of rows; give a "
            f"multiple of {PAIR_OF_ROWS * config.split}"
        )
    return None


def resident_clusters(target: Target, split: int) -> int:
    """Clusters that the device holds at a time, with one block per multiprocessor."""
    usable = int(FILLED * target.processors) if split > 2 else target.processors
    return max(1, usable // split)


def plan(problem: Conv2d, config: HaloSplit, target: Target) -> HaloSplitPlan:
    check_choices(config, CHOICES)
    tiled = reshaped(problem)
    reason = why_none(problem, target) or why_not_split(tiled, config)
    if reason is not None:
        raise Infeasible(reason)
    split = config.split
    return make(HaloSplitPlan, problem, config, target, part_of(tiled, split), resident_clusters(target, split))


def structure(config: HaloSplit) -> tuple[int, ...]:
    return config.consumers, config.channels, config.split
