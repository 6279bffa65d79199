"""The element types: NumPy dtype, size, integer range, names in C and in instructions, and accumulator type."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # targets and instructions import this module for its names alone
    import numpy as np


def teach_numpy() -> None:
    """Register the dtype names of floats that NumPy lacks, such as bfloat16."""
    import ml_dtypes  # noqa: F401


@dataclass(frozen=True)
class ElementType:
    name: str
    ctype: str  # in the generated sources, which include nothing
    stdint: str  # in C headers
    bytes: int
    limits: tuple[int, int] | None = None  # of an integer type
    # The accumulator type of products of two such elements, by the contract. An instruction serves where its own
    # accumulator type is the same. None: no op multiplies elements of this type.
    sums: str | None = None
    short: str = ""  # as instructions spell it
    word: str = ""  # the prelude's C++ type that reads the floats of a 32-bit word
    # Arrays have this type where only the multiplication is less exact: it reads the upper `kept_bits` of an element.
    held_as: str = ""
    kept_bits: int = 32

    @property
    def array_type(self) -> str:
        """The name of the type that arrays of these elements have."""
        return self.held_as or self.name

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        import numpy as np

        teach_numpy()
        return np.dtype(self.array_type)

    def multiplied(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the elements as float32, as they are multiplied."""
        import numpy as np

        real = array.astype(np.float32)
        if self.kept_bits == 32:
            return real
        return (real.view(np.uint32) & np.uint32(2**32 - 2 ** (32 - self.kept_bits))).view(np.float32)

    @property
    def bits(self) -> int:
        return 8 * self.bytes

    @property
    def bits_ctype(self) -> str:
        """Return the unsigned C type of the same size."""
        return {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}[self.bytes]

    @cached_property
    def largest_finite(self) -> float:
        import ml_dtypes

        return float(ml_dtypes.finfo(self.numpy).max)  # type: ignore[no-untyped-call]

    @property
    def is_integer(self) -> bool:
        """True where sums do not depend on order, differences with a zero point are exact, and overflow wraps
        around."""
        return self.limits is not None

    @property
    def is_signed(self) -> bool:
        return self.limits is None or self.limits[0] < 0

    @property
    def largest(self) -> int:
        """Return the largest magnitude of an integer."""
        low, high = self.range
        return max(-low, high)

    @property
    def range(self) -> tuple[int, int]:
        """Return the least and the largest value of an integer type. Raise ValueError for other types."""
        if self.limits is None:
            raise ValueError(f"{self.name} is no integer type: it has no range of whole numbers; use one of {INTEGERS}")
        return self.limits


class Types(NamedTuple):
    """The element types of a convolution."""

    x: ElementType
    w: ElementType
    y: ElementType
    sum: ElementType  # the accumulator type
    residual: ElementType | None

    @property
    def residual_is_integer(self) -> bool:
        return self.residual is not None and self.residual.is_integer


def _real(short: str, word: str) -> dict[str, Any]:
    """Return what an instruction needs to know of a float that is multiplied: the sums are fp32's."""
    return {"sums": "float32", "short": short, "word": word}


# Narrow floats are passed as their bits: sources that include nothing have no such type on every target.
ELEMENT_TYPES = {
    element_type.name: element_type
    for element_type in (
        ElementType("int8", "signed char", "int8_t", 1, (-128, 127), sums="int32", short="s8"),
        ElementType("uint8", "unsigned char", "uint8_t", 1, (0, 255), sums="int32", short="u8"),
        ElementType("int16", "short", "int16_t", 2, (-(2**15), 2**15 - 1)),
        ElementType("uint16", "unsigned short", "uint16_t", 2, (0, 2**16 - 1)),
        ElementType("int32", "int", "int32_t", 4, (-(2**31), 2**31 - 1), short="s32"),
        ElementType("int64", "long long", "int64_t", 8, (-(2**63), 2**63 - 1)),
        ElementType("float16", "unsigned short", "uint16_t", 2, **_real("f16", "Halves")),
        ElementType("bfloat16", "unsigned short", "uint16_t", 2, **_real("bf16", "Bfloats")),
        ElementType("float8_e4m3fn", "unsigned char", "uint8_t", 1, **_real("e4m3", "E4m3s")),
        ElementType("float8_e5m2", "unsigned char", "uint8_t", 1, **_real("e5m2", "E5m2s")),
        ElementType("float32", "float", "float", 4, **_real("", "Floats")),
        # Matrix instructions ignore the lowest bits of a float: of 23 behind the leading one they multiply 10.
        ElementType("tfloat32", "float", "float", 4, **_real("tf32", "Tfloats"), held_as="float32", kept_bits=19),
        ElementType("float64", "double", "double", 8),
        ElementType("bool", "bool", "bool", 1),
    )
}
RANGES = {name: element_type.limits for name, element_type in ELEMENT_TYPES.items() if element_type.limits is not None}
# The types that conversions read and write. Wider integers are indices, which have no scale.
INTEGERS = tuple(name for name in RANGES if ELEMENT_TYPES[name].bytes <= 4)
# A GPU's arrays of these hold their bits as uint8, which every library has.
BITS_OF_FLOAT8 = "uint8"
FLOAT8 = tuple(name for name in ELEMENT_TYPES if name.startswith("float8"))


def why_not_fnuz(name: object) -> str:
    """Return why no kernel has the 8-bit floats of gfx942, as the end of a sentence; "" for any other name."""
    if not isinstance(name, str) or not name.startswith("float8") or not name.endswith("fnuz"):
        return ""
    return (
        "; a FNUZ float, as gfx942 multiplies, is another type than OCP's: its exponent has another bias, and it has "
        f"neither infinity nor -0. It is not served: convert to {' or '.join(FLOAT8)}"
    )
