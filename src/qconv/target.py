"""What a kernel is compiled for: the limits a plan has to respect and the instructions a template may use.

Adding an architecture whose instructions are known is one entry here; nothing else names an architecture.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from qconv.instruction import MatrixInstruction
from qconv.instruction_tables import (
    MFMA_16X16X16,
    MFMA_16X16X32,
    MFMA_16X16X64,
    MFMA_32X32X8,
    MFMA_32X32X16,
    MFMA_32X32X32,
    MMA_M8N8K16,
    MMA_M16N8K32,
    WMMA_GFX11,
    WMMA_GFX12,
)

Vendor = Literal["nvidia", "amd", "cpu"]
Dot4 = Literal["dp4a", "sdot4", "sudot4", "plain"]

# The 4-way int8 dot products of each vendor. dp4a and sudot4 mix signs; sdot4 stands for the pair
# v_dot4_i32_i8 and v_dot4_u32_u8, whose operands have the same sign; plain is written out in C++.
DOT4_OF_VENDOR: dict[str, tuple[str, ...]] = {
    "nvidia": ("dp4a",),
    "amd": ("sdot4", "sudot4"),
    "cpu": ("plain",),
}
NAME_OF_VENDOR = {"nvidia": r"sm_\d{2,3}a?", "amd": r"gfx[0-9a-f]{3,4}"}
NAME_OF_VENDOR["cpu"] = rf"cpu(\.({NAME_OF_VENDOR['nvidia']}|{NAME_OF_VENDOR['amd']}))?"

KIB = 1024


@dataclass(frozen=True)
class Target:
    """One architecture. On AMD: warp = wavefront, SM = compute unit, shared memory = LDS, register = VGPR."""

    name: str
    vendor: Vendor
    warp_size: int
    smem_bytes: int  # the most shared memory that a block can have, by opt-in where there is one
    smem_bytes_per_sm: int
    registers_per_thread: int  # the most that a thread can address
    registers_per_sm: int  # 32-bit registers, counted per lane
    threads_per_sm: int
    processors: int  # SMs of the largest part that is common
    dot4: Dot4
    instructions: tuple[MatrixInstruction, ...] = field(default=(), repr=False)
    async_copies: bool = False  # from device to shared memory, past the registers
    overlaps_launches: bool = False  # a kernel may start while the one before it in the stream ends
    clusters: bool = False  # blocks may read each other's shared memory
    bulk_copies: bool = False  # one thread asks for any number of bytes, from device or to another block's memory
    warpgroups: bool = False  # four warps multiply together, both factors in shared memory
    packs_floats: bool = False  # one instruction rounds two floats half to even, clamps them and makes bytes of them
    # The last word of a descriptor of plain bytes, where loads through one find zeros outside of its buffer.
    buffer_word: int | None = None
    simds: int = 4  # of an SM, each with its share of the registers and of the warps
    register_granule: int = 8  # a warp's registers are allocated in multiples of so many a thread
    threads_per_block: int = 1024
    grid_y_max: int = 65535

    def __hash__(self) -> int:
        # Plans are cached by target, thousands of times for one problem: what tells targets apart is enough.
        return hash(self.name)

    def __post_init__(self) -> None:
        if self.vendor not in DOT4_OF_VENDOR:
            raise ValueError(f"vendor {self.vendor!r}: not one of {', '.join(DOT4_OF_VENDOR)}; use one of these")
        if not re.fullmatch(NAME_OF_VENDOR[self.vendor], self.name):
            raise ValueError(
                f"target name {self.name!r}: {self.vendor} names match {NAME_OF_VENDOR[self.vendor]!r}; "
                f"use the compiler's name of the architecture"
            )
        for limit in (
            "smem_bytes",
            "smem_bytes_per_sm",
            "registers_per_thread",
            "registers_per_sm",
            "threads_per_block",
            "threads_per_sm",
            "processors",
            "grid_y_max",
        ):
            if getattr(self, limit) < 1:
                raise ValueError(f"{self.name}: {limit}={getattr(self, limit)}: limits are positive; give 1 or more")
        if self.warp_size not in (32, 64):
            raise ValueError(f"{self.name}: warp_size={self.warp_size}: a warp has 32 or 64 lanes; give one of these")
        if self.threads_per_block % self.warp_size:
            raise ValueError(
                f"{self.name}: threads_per_block={self.threads_per_block}: a block is whole warps; "
                f"give a multiple of {self.warp_size}"
            )
        for per_block, per_sm in (
            ("smem_bytes", "smem_bytes_per_sm"),
            ("threads_per_block", "threads_per_sm"),
        ):
            if getattr(self, per_block) > getattr(self, per_sm):
                raise ValueError(
                    f"{self.name}: {per_block}={getattr(self, per_block)}: a block runs on one SM, which has "
                    f"{per_sm}={getattr(self, per_sm)}; give at most that"
                )
        if self.dot4 not in DOT4_OF_VENDOR[self.vendor]:
            raise ValueError(
                f"{self.name}: dot4={self.dot4!r}: {self.vendor} has "
                f"{' or '.join(DOT4_OF_VENDOR[self.vendor])}; use that"
            )
        if self.overlaps_launches and self.vendor == "amd":
            raise ValueError(
                f"{self.name}: overlaps_launches=True: only CUDA has programmatic dependent launch; leave it out"
            )
        if self.async_copies and self.vendor == "amd":
            raise ValueError(f"{self.name}: async_copies=True: no kernel here has them on AMD; leave it out")
        names = [instruction.name for instruction in self.instructions]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name}: instructions {names}: each is listed once; drop the repeated one")
        for instruction in self.instructions:
            if instruction.lanes != self.warp_size:
                raise ValueError(
                    f"{self.name}: {instruction.name} has {instruction.lanes} lanes: a warp here has "
                    f"{self.warp_size}; use an instruction of that width"
                )


def _nvidia(
    name: str,
    processors: int,
    smem_kib: int,
    smem_kib_per_sm: int,
    threads_per_sm: int,
    instruction: MatrixInstruction,
    *,
    async_copies: bool = True,
    overlaps_launches: bool = False,
    clusters: bool = False,
    bulk_copies: bool = False,
    warpgroups: bool = False,
    packs_floats: bool = False,
) -> Target:
    return Target(
        name=name,
        vendor="nvidia",
        warp_size=32,
        smem_bytes=smem_kib * KIB,
        smem_bytes_per_sm=smem_kib_per_sm * KIB,
        registers_per_thread=255,
        registers_per_sm=65536,
        threads_per_sm=threads_per_sm,
        processors=processors,
        dot4="dp4a",
        instructions=(instruction,),
        async_copies=async_copies,
        overlaps_launches=overlaps_launches,
        clusters=clusters,
        bulk_copies=bulk_copies,
        warpgroups=warpgroups,
        packs_floats=packs_floats,
    )


def _amd(
    name: str,
    processors: int,
    warp_size: int,
    lds_kib: int,
    vgpr_file_kib: int,
    registers_per_thread: int,
    threads_per_sm: int,
    dot4: Dot4,
    *instructions: MatrixInstruction,
    register_granule: int = 8,
    buffer_word: int = 0x20000,
) -> Target:
    return Target(
        name=name,
        vendor="amd",
        warp_size=warp_size,
        smem_bytes=lds_kib * KIB,
        smem_bytes_per_sm=lds_kib * KIB,
        registers_per_thread=registers_per_thread,
        registers_per_sm=vgpr_file_kib * KIB // 4,
        threads_per_sm=threads_per_sm,
        processors=processors,
        dot4=dot4,
        instructions=instructions,
        buffer_word=buffer_word,
        simds=4 if warp_size == 64 else 2,
        register_granule=register_granule,
    )


# NVIDIA: CUDA programming guide 13, section 5.1, "Compute Capabilities".
# An SM keeps 1 KiB of shared memory per block for itself from 8.0 on, hence 163 of 164 KiB. The SMs are those of the
# T4, A100, A10, L40S, H200, B200 and RTX 5090. cp.async is there from 8.0 on, and from 9.0 on programmatic dependent
# launch, clusters, copies in bulk and F2IP (of which ptxas made two instructions before). wgmma is 9.0's alone.
_HOPPER = {"overlaps_launches": True, "clusters": True, "bulk_copies": True, "packs_floats": True}
_NVIDIA = (
    _nvidia("sm_75", 40, 64, 64, 1024, MMA_M8N8K16, async_copies=False),
    _nvidia("sm_80", 108, 163, 164, 2048, MMA_M16N8K32),
    _nvidia("sm_86", 84, 99, 100, 1536, MMA_M16N8K32),
    _nvidia("sm_89", 142, 99, 100, 1536, MMA_M16N8K32),
    _nvidia("sm_90a", 132, 227, 228, 2048, MMA_M16N8K32, warpgroups=True, **_HOPPER),
    _nvidia("sm_100a", 148, 227, 228, 2048, MMA_M16N8K32, **_HOPPER),
    _nvidia("sm_120", 170, 99, 100, 1536, MMA_M16N8K32, **_HOPPER),
)

# AMD: ROCm's "GPU hardware specifications" for LDS and the VGPR file, rocminfo for threads, LLVM's AMDGPU
# usage for the dot product and for addressable VGPRs. gfx90a, gfx942 and gfx950 address accumulation
# registers and VGPRs as one file of 512; on gfx908 the 256 KiB of accumulation registers are apart and not
# counted. RDNA counts a compute unit, half of a work-group processor: 64 of its 128 KiB of LDS, which is also
# the most that a block can have. The compute units are those of the MI50, MI100, one die of the MI250X at 104, MI300X,
# MI355X, RX 6900 XT, RX 7900 XTX and RX 9070 XT. Granules of registers are those of LLVM's getVGPRAllocGranule.
# A buffer's word is from the ISA documents: elements of 32 bits, and on RDNA bounds that are compared with the offset.
_AMD = (
    _amd("gfx906", 60, 64, 64, 256, 256, 2560, "sdot4", register_granule=4),
    _amd("gfx908", 120, 64, 64, 256, 256, 2560, "sdot4", MFMA_32X32X8, MFMA_16X16X16, register_granule=4),
    _amd("gfx90a", 104, 64, 64, 512, 512, 2048, "sdot4", MFMA_32X32X8, MFMA_16X16X16),
    _amd("gfx942", 304, 64, 64, 512, 512, 2048, "sdot4", MFMA_32X32X16, MFMA_16X16X32),
    _amd("gfx950", 256, 64, 160, 512, 512, 2048, "sdot4", MFMA_32X32X32, MFMA_16X16X64, MFMA_32X32X16, MFMA_16X16X32),
    _amd("gfx1030", 80, 32, 64, 256, 256, 1024, "sdot4", register_granule=16, buffer_word=0x31014000),
    _amd("gfx1100", 96, 32, 64, 384, 256, 1024, "sudot4", WMMA_GFX11, register_granule=24, buffer_word=0x31004000),
    _amd("gfx1201", 64, 32, 64, 384, 256, 1024, "sudot4", WMMA_GFX12, register_granule=24, buffer_word=0x31004000),
)

# The CPU runs generated kernels in tests. As large as the largest GPU, it turns no config of theirs away.
_CPU = Target(
    name="cpu",
    vendor="cpu",
    warp_size=32,
    smem_bytes=227 * KIB,
    smem_bytes_per_sm=228 * KIB,
    registers_per_thread=512,
    registers_per_sm=131072,
    threads_per_sm=2560,
    processors=4,
    dot4="plain",
)


def _emulation(entry: Target) -> Target:
    """The CPU device with the matrix instructions, the copies, the clusters and the limits of another architecture, so
    that kernels which use them run, and fail, where there is no such GPU."""
    name = f"{_CPU.name}.{entry.name}"
    return replace(entry, name=name, vendor="cpu", processors=_CPU.processors, dot4=_CPU.dot4)


# One architecture for each set of matrix instructions; sm_75 has no asynchronous copies, sm_80 has, and sm_90a has
# warpgroups, clusters and launches that overlap.
_EMULATED = tuple(
    _emulation(entry)
    for entry in (*_NVIDIA, *_AMD)
    if entry.name in ("sm_75", "sm_80", "sm_90a", "gfx908", "gfx942", "gfx950", "gfx1100", "gfx1201")
)

TARGETS: dict[str, Target] = {entry.name: entry for entry in (*_NVIDIA, *_AMD, *_EMULATED, _CPU)}


def target(name: str) -> Target:
    """The target called `name`, as in "sm_90a", "gfx942", "cpu" or "cpu.gfx942"."""
    if name in TARGETS:
        return TARGETS[name]
    near = difflib.get_close_matches(name, TARGETS, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"target {name!r} is not one of {_listed(TARGETS.values())}{hint}")


def target_of_compute_capability(major: int, minor: int) -> Target:
    """The target whose code runs best on an NVIDIA device of this compute capability.

    Code for sm_86 runs on 8.6 and on any later 8.x (CUDA programming guide 13, "Binary Compatibility"); code
    for an architecture-specific target, such as sm_90a, runs on that very capability only.
    """
    best: tuple[int, Target] | None = None
    for entry in _NVIDIA:
        digits = entry.name.removeprefix("sm_").removesuffix("a")
        entry_major, entry_minor = int(digits[:-1]), int(digits[-1])
        specific = entry.name.endswith("a")
        runs = entry_major == major and (entry_minor == minor if specific else entry_minor <= minor)
        if runs and (best is None or entry_minor >= best[0]):
            best = entry_minor, entry
    if best is None:
        raise ValueError(
            f"compute capability {major}.{minor} is unknown: no code of {_listed(_NVIDIA)} runs there; "
            f"add an entry for sm_{major}{minor} to qconv/target.py"
        )
    return best[1]


def target_of_gcn_arch(gcn_arch_name: str) -> Target:
    """The target of an AMD device, from HIP's gcnArchName, as in "gfx90a:sramecc+:xnack-".

    The features after the colon choose among builds of one target; code that names none of them runs on all.
    """
    name = gcn_arch_name.split(":")[0]
    if name in TARGETS and TARGETS[name].vendor == "amd":
        return TARGETS[name]
    raise ValueError(
        f"AMD architecture {gcn_arch_name!r} is unknown: no code of {_listed(_AMD)} runs there; "
        f"add an entry for {name!r} to qconv/target.py"
    )


def _listed(targets: Iterable[Target]) -> str:
    return ", ".join(entry.name for entry in targets)
