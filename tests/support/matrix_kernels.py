"""Kernels made of the CPU device's templates for matrix instructions, and data for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from fragments import scatter
from numpy.typing import NDArray

from qconv.dtypes import ELEMENT_TYPES
from qconv.generator.coefficients import polynomials
from qconv.generator.definitions import used
from qconv.generator.source import _environment
from qconv.targets.instruction import Fragment, MatrixInstruction

Array = NDArray[Any]

# Undefines the macro of this name in the minimal prelude of the other kernels.
_NO_MACRO = "#undef barrier\n"


def with_prelude(text: str, wants: Iterable[str] = (), **constants: int) -> str:
    """Return the text behind what it uses of the CPU prelude, and behind the constants that a plan emits."""
    lines = [f"constexpr int {name} = {value};\n" for name, value in constants.items()]
    template = _environment().from_string('//% include "prelude/cpu.j2"\n')
    prelude = template.render(wants=set(wants), polynomials=polynomials())
    return _NO_MACRO + "".join(lines) + used(prelude + text)


def multiply_kernel(name: str, instruction: MatrixInstruction, a_type: str, b_type: str) -> str:
    """Return a kernel that adds one product: its input is every thread's registers of a, b and d, its output those of
    d."""
    sizes = {"A": instruction.a.registers, "B": instruction.b.registers, "D": instruction.d.registers}
    signed = {"A": a_type == "int8", "B": b_type == "int8"}
    template = _environment().from_string('//% include "instruction/emulated.j2"\n')
    words = {"a_word": ELEMENT_TYPES[a_type].word, "b_word": ELEMENT_TYPES[b_type].word}
    page = template.render(instruction=instruction, **words)
    return f"""
namespace in_{name} {{
using Sum = {ELEMENT_TYPES[instruction.sum_type].ctype};
constexpr bool {", ".join(f"{operand}_SIGNED = {str(is_signed).lower()}" for operand, is_signed in signed.items())};
constexpr int {", ".join(f"{operand}_REGISTERS = {count}" for operand, count in sizes.items())};
{page}
}}
KERNEL({name}) {{
    unsigned a[{sizes["A"]}], b[{sizes["B"]}];
    in_{name}::Sum d[{sizes["D"]}];
    const int* mine = input + t * {sum(sizes.values())};
    for (auto& word : a) word = static_cast<unsigned>(*mine++);
    for (auto& word : b) word = static_cast<unsigned>(*mine++);
    __builtin_memcpy(d, mine, sizeof d);
    in_{name}::multiply_add(a, b, d);
    __builtin_memcpy(output + t * {sizes["D"]}, d, sizeof d);
}}
"""


def registers(tiles: Sequence[Array], fragments: Sequence[Fragment]) -> list[int]:
    """Return the input of the kernel above."""
    held = [scatter(tile, fragment) for tile, fragment in zip(tiles, fragments, strict=True)]
    return [int(word) for word in np.concatenate(held, axis=1).view(np.int32).ravel()]
