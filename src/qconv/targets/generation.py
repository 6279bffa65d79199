"""The generations of GPUs, with the instructions and features that all architectures of one have in common.

A target is a generation and limits (`qconv.targets.target`). Generators ask for a feature, an instruction or a limit,
and never for a generation by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from qconv.targets.instruction import DotProduct, MatrixInstruction, TensorMemoryInstruction, WarpgroupInstruction
from qconv.targets.instruction_tables import (
    DP4A,
    FLOATS_OF_AMD,
    FLOATS_OF_NVIDIA,
    MFMA_16X16X16,
    MFMA_16X16X32,
    MFMA_16X16X64,
    MFMA_32X32X8,
    MFMA_32X32X16,
    MFMA_32X32X32,
    MFMA_OF_BFLOATS,
    MFMA_OF_FLOATS_3,
    MFMA_OF_FLOATS_4,
    MFMA_OF_HALVES,
    MMA_M8N8K16,
    MMA_M16N8K8_TF32,
    MMA_M16N8K16_BF16,
    MMA_M16N8K16_F16,
    MMA_M16N8K32,
    MMA_M16N8K32_FP8,
    ON_THE_CPU,
    SDOT4,
    SUDOT4,
    TCGEN05_M128K32,
    WGMMA_M64K32,
    WGMMA_OF_FLOATS,
    WMMA_GFX11,
    WMMA_GFX12,
    WMMA_GFX12_OF_FLOATS,
)

Vendor = Literal["nvidia", "amd", "cpu"]
Feature = Literal["async_copies", "overlaps_launches", "clusters", "bulk_copies", "tensor_maps", "packs_floats"]

VENDORS = ("nvidia", "amd", "cpu")
FEATURES: dict[Feature, str] = {
    "async_copies": "copies from device to shared memory go past the registers",
    "overlaps_launches": "a kernel may start while the one before it in the stream ends",
    "clusters": "blocks may read each other's shared memory",
    "bulk_copies": "one thread asks for any number of bytes, from device or to another block's memory",
    "tensor_maps": "one thread asks for a tile of an array, or for the pixels that a filter's tap reads",
    "packs_floats": "one instruction rounds two floats half to even, clamps them and makes bytes of them",
}


@dataclass(frozen=True)
class Generation:
    """A generation of GPUs. On AMD: warp = wavefront, SM = compute unit, register = VGPR."""

    name: str
    vendor: Vendor
    warp_size: int
    dots: tuple[DotProduct, ...]  # at most one per pair of types
    registers_per_thread: int  # registers that a thread can address
    registers_per_sm: int  # 32-bit registers, counted per lane
    instructions: tuple[MatrixInstruction, ...] = field(default=(), repr=False)
    warpgroup: WarpgroupInstruction | None = field(default=None, repr=False)  # of a warpgroup, four warps; of bytes
    warpgroup_of_floats: tuple[WarpgroupInstruction, ...] = field(default=(), repr=False)
    tensor_memory: TensorMemoryInstruction | None = field(default=None, repr=False)  # accumulates in tensor memory
    features: frozenset[Feature] = frozenset()
    # The last word of a buffer descriptor for untyped bytes, on targets where out-of-bounds loads through one return
    # zeros.
    buffer_word: int | None = None
    simds: int = 4  # per SM, each with its part of the registers and of the warps
    register_granule: int = 8  # registers per thread of a warp are allocated in multiples of this

    def __post_init__(self) -> None:
        if self.vendor not in VENDORS:
            raise ValueError(f"vendor {self.vendor!r}: not one of {', '.join(VENDORS)}; use one of these")
        for dot in self.dots:
            if dot.vendor != self.vendor:
                raise ValueError(
                    f"{self.name}: dots={dot.name!r}: a product of {dot.vendor}'s; use one of {self.vendor}'s"
                )
        if self.warp_size not in (32, 64):
            raise ValueError(f"{self.name}: warp_size={self.warp_size}: a warp has 32 or 64 lanes; give one of these")
        for limit in ("registers_per_thread", "registers_per_sm", "simds", "register_granule"):
            if getattr(self, limit) < 1:
                raise ValueError(f"{self.name}: {limit}={getattr(self, limit)}: limits are positive; give 1 or more")
        unknown = sorted(self.features - FEATURES.keys())
        if unknown:
            raise ValueError(f"{self.name}: features {unknown}: not among {', '.join(FEATURES)}; use those")
        if self.features and self.vendor == "amd":
            raise ValueError(
                f"{self.name}: features {sorted(self.features)}: no kernel here has them on AMD; leave them out"
            )
        self._check_instructions()

    def _check_instructions(self) -> None:
        names = [instruction.name for instruction in self.instructions]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: instructions {names}: each is listed once; drop the repeated one")
        for instruction in self.instructions:
            if instruction.lanes != self.warp_size:
                raise ValueError(
                    f"{self.name}: {instruction.name} has {instruction.lanes} lanes: a warp here has "
                    f"{self.warp_size}; use an instruction of that width"
                )

    def emulated(self) -> Generation:
        """Return this generation for the CPU device, which multiplies four bytes in C++ and emulates everything
        else."""
        return replace(self, name=f"{self.name} on the CPU", vendor="cpu", dots=ON_THE_CPU)


def _nvidia(name: str, features: frozenset[Feature], *instructions: MatrixInstruction) -> Generation:
    return Generation(
        name=name,
        vendor="nvidia",
        warp_size=32,
        dots=(DP4A, *FLOATS_OF_NVIDIA),
        registers_per_thread=255,
        registers_per_sm=65536,
        instructions=instructions,
        features=features,
    )


# NVIDIA: CUDA programming guide 13, section 5.1, "Compute Capabilities". 8.0 added cp.async; 9.0 added programmatic
# dependent launch, clusters, bulk copies, TMA, and F2IP (two instructions in ptxas before). Only 9.0 has wgmma. tcgen05
# multiplies bytes on 10.0 and 11.0 but not on 10.3.
_FROM_AMPERE: frozenset[Feature] = frozenset({"async_copies"})
_FROM_HOPPER: frozenset[Feature] = _FROM_AMPERE | {
    "overlaps_launches",
    "clusters",
    "bulk_copies",
    "tensor_maps",
    "packs_floats",
}
TURING = _nvidia("Turing", frozenset(), MMA_M8N8K16)
_OF_AMPERE = (MMA_M16N8K32, MMA_M16N8K16_F16, MMA_M16N8K16_BF16, MMA_M16N8K8_TF32)
_OF_ADA = (*_OF_AMPERE, MMA_M16N8K32_FP8)
AMPERE = _nvidia("Ampere", _FROM_AMPERE, *_OF_AMPERE)
ADA = _nvidia("Ada", _FROM_AMPERE, *_OF_ADA)
HOPPER = replace(_nvidia("Hopper", _FROM_HOPPER, *_OF_ADA), warpgroup=WGMMA_M64K32, warpgroup_of_floats=WGMMA_OF_FLOATS)
BLACKWELL = _nvidia("Blackwell", _FROM_HOPPER, *_OF_ADA)
BLACKWELL_100 = replace(BLACKWELL, name="Blackwell 10.0", tensor_memory=TCGEN05_M128K32)
BLACKWELL_110 = replace(BLACKWELL_100, name="Blackwell 11.0")


def _cdna(
    name: str,
    vgpr_file_kib: int,
    registers_per_thread: int,
    *instructions: MatrixInstruction,
    register_granule: int = 8,
) -> Generation:
    return Generation(
        name=name,
        vendor="amd",
        warp_size=64,
        dots=(SDOT4, *FLOATS_OF_AMD),
        registers_per_thread=registers_per_thread,
        registers_per_sm=vgpr_file_kib * 1024 // 4,
        instructions=instructions,
        buffer_word=0x20000,
        register_granule=register_granule,
    )


def _rdna(
    name: str,
    dot: DotProduct,
    vgpr_file_kib: int,
    register_granule: int,
    buffer_word: int,
    *instructions: MatrixInstruction,
) -> Generation:
    return Generation(
        name=name,
        vendor="amd",
        warp_size=32,
        dots=(dot, *FLOATS_OF_AMD),
        registers_per_thread=256,
        registers_per_sm=vgpr_file_kib * 1024 // 4,
        instructions=instructions,
        buffer_word=buffer_word,
        simds=2,
        register_granule=register_granule,
    )


# AMD: ROCm's "GPU hardware specifications" for the VGPR file, LLVM's AMDGPU usage for the dot product and for
# addressable VGPRs. CDNA 2 to 4 address accumulation registers and VGPRs as one file of 512; CDNA 1 has its 256 KiB of
# accumulation registers in a separate file, which is not counted. Register granules are those of LLVM's
# getVGPRAllocGranule. The buffer word is from the ISA documents: 32-bit elements and, on RDNA, bounds that are compared
# with the offset.
VEGA = _cdna("Vega", 256, 256, register_granule=4)
CDNA_1 = _cdna("CDNA 1", 256, 256, MFMA_32X32X8, MFMA_16X16X16, *MFMA_OF_HALVES, register_granule=4)
CDNA_2 = _cdna("CDNA 2", 512, 512, MFMA_32X32X8, MFMA_16X16X16, *MFMA_OF_HALVES, *MFMA_OF_BFLOATS)
CDNA_3 = _cdna("CDNA 3", 512, 512, MFMA_32X32X16, MFMA_16X16X32, *MFMA_OF_FLOATS_3)
_BYTES_OF_CDNA_4 = (MFMA_32X32X32, MFMA_16X16X64, MFMA_32X32X16, MFMA_16X16X32)
CDNA_4 = _cdna("CDNA 4", 512, 512, *_BYTES_OF_CDNA_4, *MFMA_OF_FLOATS_4)
RDNA_2 = _rdna("RDNA 2", SDOT4, 256, 16, 0x31014000)
RDNA_3 = _rdna("RDNA 3", SUDOT4, 384, 24, 0x31004000, WMMA_GFX11)
# In RDNA 3.5, gfx1151 has the VGPRs of gfx1100, and gfx1150 two thirds of them.
RDNA_3_5 = replace(RDNA_3, name="RDNA 3.5")
RDNA_3_5_SMALL = _rdna("RDNA 3.5 with fewer registers", SUDOT4, 256, 16, 0x31004000, WMMA_GFX11)
RDNA_4 = _rdna("RDNA 4", SUDOT4, 384, 24, 0x31004000, WMMA_GFX12, *WMMA_GFX12_OF_FLOATS)

# The CPU runs generated kernels in tests. It has as many registers as the largest GPU, so that it rejects no GPU's
# config.
CPU = Generation("CPU", "cpu", warp_size=32, dots=ON_THE_CPU, registers_per_thread=512, registers_per_sm=131072)
