"""A matrix instruction as the kernels use it: pixels by channels per instruction, and the template files that emit
it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from qconv.arithmetic.quantization import Quantization
from qconv.dtypes import ELEMENT_TYPES
from qconv.targets.instruction import MatrixInstruction
from qconv.targets.target import Target


@dataclass(frozen=True)
class InstructionFiles:
    """The instruction of a page and the template files that emit it. A family's roles have fields of the same names."""

    instruction: MatrixInstruction
    spelled: str  # mnemonic in PTX
    atom: str
    operation: str
    sums_may_sink: bool  # the compiler may move the sums into divergent branches; see instruction/wmma.j2
    fragments: str
    a_word: str  # of floats: the prelude's C++ type that reads the elements of A from a word
    b_word: str


@dataclass(frozen=True)
class Atom:
    instruction: MatrixInstruction

    @cached_property
    def is_nvidia(self) -> bool:
        return self.instruction.name.startswith("mma_")

    @cached_property
    def pixels(self) -> int:
        return self.instruction.m if self.is_nvidia else self.instruction.n

    @cached_property
    def channels(self) -> int:
        return self.instruction.n if self.is_nvidia else self.instruction.m

    @cached_property
    def block_k(self) -> int:
        """Bytes of the reduction per fragment."""
        if self.is_nvidia:
            return self.instruction.k_bytes
        return 16 * math.prod(dim.size for dim in self.instruction.b.lane if dim.axis == "k")

    @cached_property
    def lane_channels(self) -> int:
        """Channels of one pixel whose sums a lane holds."""
        axis = "n" if self.is_nvidia else "m"
        return math.prod(dim.size for dim in self.instruction.d.element if dim.axis == axis)

    @property
    def lane_words(self) -> int:
        """Words of the weights that a lane reads per fragment."""
        return self.instruction.b.registers if self.is_nvidia else 4

    def files(self, q: Quantization, target: Target, operands: str) -> InstructionFiles:
        """Return the files for these types. `operands` names where the lanes read pixels: `tiles` or `windows`."""
        return self.files_of(q.x_type, q.w_type, target, operands)

    def files_of(self, x_type: str, w_type: str, target: Target, operands: str) -> InstructionFiles:
        name = self.instruction.file or self.instruction.name
        # NVIDIA has one file per instruction; AMD's instructions share files where their layouts agree.
        atom = name if self.is_nvidia else "mfma" if name.startswith("mfma") else f"wmma_{name.rpartition('_')[2]}"
        operation = "emulated" if target.vendor == "cpu" else atom if self.is_nvidia else atom.partition("_")[0]
        # NVIDIA multiplies pixels by channels, AMD channels by pixels.
        a_type, b_type = (x_type, w_type) if self.is_nvidia else (w_type, x_type)
        return InstructionFiles(
            instruction=self.instruction,
            spelled=self.instruction.spell(x_type, w_type),
            atom=atom,
            operation=f"instruction/{operation}.j2",
            sums_may_sink=operation == "wmma",
            fragments=f"fragments/{'ldmatrix' if self.is_nvidia else 'rows'}_of_{operands}.j2",
            a_word=ELEMENT_TYPES[a_type].word,
            b_word=ELEMENT_TYPES[b_type].word,
        )
