"""Compilation targets: a generation and the limits of an architecture.

An architecture of a known generation needs one entry here; no other module names an architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from qconv.dtypes import ElementType
from qconv.targets.generation import (
    ADA,
    AMPERE,
    BLACKWELL,
    BLACKWELL_100,
    BLACKWELL_110,
    CDNA_1,
    CDNA_2,
    CDNA_3,
    CDNA_4,
    CPU,
    HOPPER,
    RDNA_2,
    RDNA_3,
    RDNA_3_5,
    RDNA_3_5_SMALL,
    RDNA_4,
    TURING,
    VEGA,
    Generation,
    Vendor,
)
from qconv.targets.gpu_names import GPU_NAMES, architecture_of_gpu, near_names
from qconv.targets.instruction import DotProduct, MatrixInstruction, TensorMemoryInstruction, WarpgroupInstruction

NAME_OF_VENDOR = {"nvidia": r"sm_\d{2,3}a?", "amd": r"gfx[0-9a-f]{3,4}"}
NAME_OF_VENDOR["cpu"] = rf"cpu(\.({NAME_OF_VENDOR['nvidia']}|{NAME_OF_VENDOR['amd']}))?"

KIB = 1024


@dataclass(frozen=True)
class Target:
    """An architecture. On AMD: warp = wavefront, SM = compute unit, shared memory = LDS, register = VGPR."""

    name: str
    generation: Generation = field(repr=False)
    processors: int  # SMs of the largest common part
    smem_bytes: int  # shared memory per block, with opt-in where it exists
    smem_bytes_per_sm: int
    threads_per_sm: int
    threads_per_block: int = 1024
    grid_y_max: int = 65535

    def __hash__(self) -> int:
        # Plans are cached by target, thousands of times per problem. The name identifies a target.
        return hash(self.name)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME_OF_VENDOR[self.vendor], self.name):
            raise ValueError(
                f"target name {self.name!r}: {self.vendor} names match {NAME_OF_VENDOR[self.vendor]!r}; "
                f"use the compiler's name of the architecture"
            )
        for limit in (
            *("processors", "smem_bytes", "smem_bytes_per_sm"),
            *("threads_per_sm", "threads_per_block", "grid_y_max"),
        ):
            if getattr(self, limit) < 1:
                raise ValueError(f"{self.name}: {limit}={getattr(self, limit)}: limits are positive; give 1 or more")
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

    @property
    def vendor(self) -> Vendor:
        return self.generation.vendor

    @property
    def warp_size(self) -> int:
        return self.generation.warp_size

    @property
    def dots(self) -> tuple[DotProduct, ...]:
        return self.generation.dots

    @property
    def instructions(self) -> tuple[MatrixInstruction, ...]:
        return self.generation.instructions

    @property
    def warpgroup(self) -> WarpgroupInstruction | None:
        return self.generation.warpgroup

    @property
    def warpgroup_of_floats(self) -> tuple[WarpgroupInstruction, ...]:
        return self.generation.warpgroup_of_floats

    def warpgroup_for(self, a_type: ElementType, b_type: ElementType) -> WarpgroupInstruction | None:
        """Return the instruction of a warpgroup that multiplies these types; else the one of bytes, if there is one."""
        return next((each for each in self.warpgroup_of_floats if each.serves(a_type, b_type)), self.warpgroup)

    @property
    def tensor_memory(self) -> TensorMemoryInstruction | None:
        return self.generation.tensor_memory

    @property
    def registers_per_thread(self) -> int:
        return self.generation.registers_per_thread

    @property
    def registers_per_sm(self) -> int:
        return self.generation.registers_per_sm

    @property
    def simds(self) -> int:
        return self.generation.simds

    @property
    def register_granule(self) -> int:
        return self.generation.register_granule

    @property
    def buffer_word(self) -> int | None:
        return self.generation.buffer_word

    @property
    def async_copies(self) -> bool:
        return "async_copies" in self.generation.features

    @property
    def overlaps_launches(self) -> bool:
        return "overlaps_launches" in self.generation.features

    @property
    def clusters(self) -> bool:
        return "clusters" in self.generation.features

    @property
    def bulk_copies(self) -> bool:
        return "bulk_copies" in self.generation.features

    @property
    def tensor_maps(self) -> bool:
        return "tensor_maps" in self.generation.features

    @property
    def packs_floats(self) -> bool:
        return "packs_floats" in self.generation.features

    def blocks_per_sm(self, threads: int, smem_bytes: int, registers: int) -> int:
        """Return the resident blocks per SM, given the registers per thread. 0 where a single block does not fit."""
        allocated = -(-registers // self.register_granule) * self.register_granule
        warps = self.simds * (self.registers_per_sm // self.simds // (allocated * self.warp_size))
        reserved = self.smem_bytes_per_sm - self.smem_bytes  # per block; the largest block leaves exactly that
        return min(
            warps * self.warp_size // threads,
            self.smem_bytes_per_sm // max(1, smem_bytes + reserved),
            self.threads_per_sm // threads,
        )


def _nvidia(
    name: str, generation: Generation, processors: int, smem_kib: int, smem_kib_per_sm: int, threads_per_sm: int
) -> Target:
    return Target(name, generation, processors, smem_kib * KIB, smem_kib_per_sm * KIB, threads_per_sm)


def _amd(name: str, generation: Generation, processors: int, lds_kib: int, threads_per_sm: int) -> Target:
    return Target(name, generation, processors, lds_kib * KIB, lds_kib * KIB, threads_per_sm)


# NVIDIA: CUDA programming guide 13, section 5.1, "Compute Capabilities". From 8.0 on, an SM reserves 1 KiB of shared
# memory per block, hence 163 of 164 KiB. The numbers of SMs are those of the T4, A100, A10, Jetson AGX Orin, L40S,
# H200, B200, B300, Jetson AGX Thor, RTX 5090 and GB10; the B300 is assumed to have as many as the B200. The guide
# leaves 8.8 out: its shared memory is that of CUDA 13.0's cuda_occupancy.h, and its SMs are as many as Orin's, since no
# product is known.
_NVIDIA = (
    _nvidia("sm_75", TURING, 40, 64, 64, 1024),
    _nvidia("sm_80", AMPERE, 108, 163, 164, 2048),
    _nvidia("sm_86", AMPERE, 84, 99, 100, 1536),
    _nvidia("sm_87", AMPERE, 16, 163, 164, 1536),
    _nvidia("sm_88", AMPERE, 16, 99, 100, 1536),
    _nvidia("sm_89", ADA, 142, 99, 100, 1536),
    _nvidia("sm_90a", HOPPER, 132, 227, 228, 2048),
    _nvidia("sm_100a", BLACKWELL_100, 148, 227, 228, 2048),
    _nvidia("sm_103a", BLACKWELL, 148, 227, 228, 2048),
    _nvidia("sm_110a", BLACKWELL_110, 20, 227, 228, 1536),
    _nvidia("sm_120", BLACKWELL, 170, 99, 100, 1536),
    _nvidia("sm_121", BLACKWELL, 48, 99, 100, 1536),
)

# AMD: ROCm's "GPU hardware specifications" for LDS, rocminfo for threads. An RDNA compute unit is half of a work-group
# processor: 64 of its 128 KiB of LDS, which is also the limit per block. The compute units are those of the MI50,
# MI100, one die of the MI250X at 104, MI300X, MI355X, RX 6900 XT, RX 7900 XTX, Radeon 890M (Strix Point), Radeon 8060S
# (Strix Halo), RX 9070 XT and RX 9060 XT.
_AMD = (
    _amd("gfx906", VEGA, 60, 64, 2560),
    _amd("gfx908", CDNA_1, 120, 64, 2560),
    _amd("gfx90a", CDNA_2, 104, 64, 2048),
    _amd("gfx942", CDNA_3, 304, 64, 2048),
    _amd("gfx950", CDNA_4, 256, 160, 2048),
    _amd("gfx1030", RDNA_2, 80, 64, 1024),
    _amd("gfx1100", RDNA_3, 96, 64, 1024),
    _amd("gfx1150", RDNA_3_5_SMALL, 16, 64, 1024),
    _amd("gfx1151", RDNA_3_5, 40, 64, 1024),
    _amd("gfx1201", RDNA_4, 64, 64, 1024),
    _amd("gfx1200", RDNA_4, 32, 64, 1024),
)

# The CPU device has the limits of the largest GPU.
_CPU = Target("cpu", CPU, 4, smem_bytes=227 * KIB, smem_bytes_per_sm=228 * KIB, threads_per_sm=2560)


def _emulation(generation: Generation) -> Target:
    """Return the CPU device with the instructions, features and limits of a generation's first architecture, so that
    kernels that use them run, and fail, without such a GPU."""
    first = next(entry for entry in (*_NVIDIA, *_AMD) if entry.generation is generation)
    name = f"{_CPU.name}.{first.name}"
    return replace(first, name=name, generation=generation.emulated(), processors=_CPU.processors)


# Every other generation has only features that one of these has.
_EMULATED = tuple(map(_emulation, (TURING, AMPERE, HOPPER, BLACKWELL_100, CDNA_1, CDNA_3, CDNA_4, RDNA_3, RDNA_4)))

TARGETS: dict[str, Target] = {entry.name: entry for entry in (*_NVIDIA, *_AMD, *_EMULATED, _CPU)}


def target(name: str) -> Target:
    """Return the target called `name`, in any case: "sm_90a", "gfx942", "cpu", "cpu.gfx942", or a GPU as its vendor
    calls it, "h100", "RTX 4090", "strix-halo", "NVIDIA H200"."""
    if (found := TARGETS.get(name) or TARGETS.get(canonical(str(name)))) is not None:
        return found
    raise ValueError(
        f"target {name!r} is not one of {_listed(TARGETS.values())}, nor a GPU such as h100, orin, rtx4090, mi300x or "
        f"strix-halo{_hint(str(name))}"
    )


def canonical(name: str) -> str:
    """Return the name of the target that a user's name stands for, or the name in lower case, where it stands for no
    target: "H100" -> "sm_90a", "cpu.H100" -> "cpu.sm_90a"."""
    known = name.strip().lower()
    of_cpu, gpu = _parts(known)
    architecture = None if known in TARGETS else architecture_of_gpu(gpu)
    return known if architecture is None else f"{of_cpu}{architecture}"


def emulation_of(entry: Target) -> Target:
    """Return the CPU device whose instructions and features differ least from the target's."""
    own = abilities(entry.generation)
    return min((_CPU, *_EMULATED), key=lambda emulated: len(own ^ abilities(emulated.generation)))


def abilities(generation: Generation) -> frozenset[object]:
    """Return the instructions of bytes and the features of a generation that kernels are written for. Those of floats
    are emulated as well, but not all of a generation's by one target."""
    of_bytes = (each for each in generation.instructions if each.sum.is_integer)
    given = (*of_bytes, generation.warpgroup, generation.tensor_memory, *generation.features)
    return frozenset(given) - {None}


def _parts(name: str) -> tuple[str, str]:
    """Return "cpu." or "", and the rest of the name."""
    rest = name.removeprefix(f"{_CPU.name}.")
    return name.removesuffix(rest), rest


def _hint(name: str) -> str:
    """Return what the user may have meant. An architecture is never mistaken for another one, whose binaries do not run
    there."""
    of_cpu, known = _parts(canonical(name))
    same = [entry for entry in TARGETS if _number(entry) == _number(known)] if _number(known) else []
    if same and not of_cpu:
        return f"; did you mean {same[0]!r}?"
    if of_cpu and (same or known in TARGETS):
        return f"; the CPU device emulates it as {emulation_of(TARGETS[(*same, known)[0]]).name!r}"
    if known in GPU_NAMES:
        return f"; no kernel here is compiled for {known}{'' if name == known else f', which {name!r} is'}"
    if any(re.fullmatch(NAME_OF_VENDOR[vendor], known) for vendor in ("nvidia", "amd")):
        return ""
    named = [gpu for architecture, gpus in GPU_NAMES.items() if architecture in TARGETS for gpu in gpus]
    near = near_names(known, [*(entry for entry in TARGETS if "." not in entry), *named])
    return f"; did you mean {' or '.join(repr(of_cpu + one) for one in near)}?" if near else ""


# CUDA 12's name of an architecture, and CUDA 13's.
_RENAMED = {"101": "110"}


def _number(name: str) -> str:
    """Return the number of an architecture of NVIDIA's, or "": "sm_90a", "sm90", "sm-90f" -> "90"."""
    found = re.fullmatch(r"(?:sm|compute)[ _-]?(\d{2,3})[af]?", name)
    return "" if found is None else _RENAMED.get(found[1], found[1])


def target_of_compute_capability(major: int, minor: int) -> Target:
    """Return the target whose code runs best on an NVIDIA device of this compute capability.

    Code for sm_86 runs on 8.6 and on any later 8.x (CUDA programming guide 13, "Binary Compatibility"). Code for an
    architecture-specific target, such as sm_90a, runs on that capability only.
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
            f"add an entry for sm_{major}{minor} to qconv/targets/target.py"
        )
    return best[1]


def target_of_gcn_arch(gcn_arch_name: str) -> Target:
    """Return the target of an AMD device, from HIP's gcnArchName, as in "gfx90a:sramecc+:xnack-".

    The features after the colon select among builds of one target. Code that names no feature runs on all.
    """
    name = gcn_arch_name.split(":")[0]
    if name in TARGETS and TARGETS[name].vendor == "amd":
        return TARGETS[name]
    raise ValueError(
        f"AMD architecture {gcn_arch_name!r} is unknown: no code of {_listed(_AMD)} runs there; "
        f"add an entry for {name!r} to qconv/targets/target.py"
    )


def _listed(targets: Iterable[Target]) -> str:
    return ", ".join(entry.name for entry in targets)
