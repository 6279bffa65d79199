"""What a block of the `wgmma` family has in shared memory: slots of pixels, of weights and of residuals.

What the families that multiply slabs by a warpgroup's instruction, or in tensor memory, have in common: the copy
engine (TMA) brings so many bytes of every pixel of a tile, in im2col order, and of every channel's weights, and zeros
for taps outside of the image.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from qconv.generator import tensor_map
from qconv.generator.persistent import PersistentPlan
from qconv.generator.plan import Constant, ceil_div
from qconv.generator.tensor_map import CHUNK, TensorMap
from qconv.problem.convolution import Conv2d

# A consumer has two instructions of 64 output channels for each run of 32 bytes of the reduction.
CHANNELS = 128
# Bytes of a pixel, and of a channel's weights, that are multiplied together: what a swizzle of 128 bytes exchanges.
SLAB = 128
MBARRIER_BYTES = 8


def why_residual_is_not_staged(problem: Conv2d) -> str | None:
    """Why the epilogue reads the residual in device memory, four channels or one at a time, and not a tile of it."""
    residual = problem.quantization.types.residual
    if residual is None:
        return "there is none"
    if problem.k * residual.bytes % CHUNK:
        return f"k={problem.k}: the copy engine moves rows of whole {CHUNK} bytes; pad the output channels"
    return None


@dataclass(frozen=True)
class SlabPlan(PersistentPlan):
    """The plan of persistent blocks, which multiply slab after slab of a tile."""

    @property
    def slab(self) -> int:
        """Bytes of a pixel, and of a channel's weights, that are multiplied together: what a swizzle exchanges."""
        return SLAB

    @property
    def slabs(self) -> int:
        return self.problem.r * self.problem.s * ceil_div(self.problem.c, self.slab)

    @property
    def slab_constants(self) -> tuple[Constant, ...]:
        return (
            Constant("SLAB", self.slab, "bytes of the reduction that are multiplied together"),
            Constant("SLABS", self.slabs, f"of a tile: for each {self.slab} channels, all taps"),
        )


def maps(
    problem: Conv2d, pixels: int, weights: str, rows: int, channels: int, slab: int = SLAB
) -> tuple[TensorMap, TensorMap]:
    """Slabs of so many pixels, and of so many channels of an array of weights that has so many rows. Channels past the
    last are zeros of x, whatever the weights have there."""
    of_pixels = tensor_map.im2col(problem, slab, pixels, swizzle=slab)
    w_type = problem.quantization.types.w.name
    of_weights = tensor_map.matrix(weights, w_type, rows, problem.reduction, channels, slab, swizzle=slab)
    return replace(of_pixels, l2_promotion=256), replace(of_weights, l2_promotion=256)
