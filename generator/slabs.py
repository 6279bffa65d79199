"""Plans of persistent blocks that multiply in slabs of the reduction, with warpgroup or tcgen05 instructions.

For each slab TMA copies 128 bytes of every pixel of a tile, in im2col order with zeros for taps outside the image, and
128 bytes of every output channel's weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from qconv.generator import tensor_map
from qconv.generator.persistent import PersistentPlan
from qconv.generator.plan import Constant, ceil_div
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d

# Output channels per consumer: two instructions of 64 channels for each 32 bytes of the reduction.
CHANNELS = 128
# Bytes of the reduction per slab, which is one row of a 128-byte swizzle.
SLAB = 128
MBARRIER_BYTES = 8


def why_residual_is_not_staged(problem: Conv2d) -> str | None:
    """Return why the epilogue has to read the residual from device memory, in vectors or single elements, instead of
    through a staged tile. None where it can be staged."""
    residual = problem.quantization.types.residual
    if residual is None:
        return "there is none"
    if problem.k * residual.bytes % CHUNK:
        return f"k={problem.k}: TMA copies rows of multiples of {CHUNK} bytes; pad the output channels"
    return None


@dataclass(frozen=True)
class SlabPlan(PersistentPlan):
    """The plan of persistent blocks that multiply the slabs of a tile one after the other."""

    @property
    def slab(self) -> int:
        """Bytes of the reduction per slab, which is one row of the swizzle."""
        return SLAB

    @property
    def slabs(self) -> int:
        return self.problem.r * self.problem.s * ceil_div(self.problem.c, self.slab)

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB", self.slab, "bytes of the reduction per slab"),
            Constant("SLABS", self.slabs, f"slabs per tile: all taps of each {self.slab} channels"),
        )


def maps(
    problem: Conv2d, pixels: int, weights: str, rows: int, channels: int, slab: int = SLAB
) -> tuple[TensorMap, TensorMap]:
    """Return the tensor maps of the pixels (`pixels` per slab) and of the weights (`channels` of the array's `rows` per
    slab). Channels of x past the last are zeros, whatever the weights have there."""
    of_pixels = tensor_map.im2col(problem, slab, pixels, swizzle=slab)
    w_type = problem.quantization.types.w.name
    of_weights = tensor_map.matrix(weights, w_type, rows, problem.reduction, channels, slab, swizzle=slab)
    return replace(of_pixels, l2_promotion=256), replace(of_weights, l2_promotion=256)
