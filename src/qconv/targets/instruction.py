"""Matrix instructions as data: which lane holds which element of A, B and D.

The same tables choose the tile of a generated kernel, drive its emulation in tests and fill the documentation. A layout
is therefore written once, as dimensions, and checked when it is built.

    D[m, n] = C[m, n] + sum over k of A[m, k] * B[k, n]        one warp (or wavefront) per instruction
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from qconv.dtypes import ELEMENT_TYPES, ElementType

Axis = Literal["m", "n", "k", "copy"]

REGISTER_BITS = 32


@dataclass(frozen=True)
class Dim:
    """A dimension of a lane number or an element number: each of its `size` steps moves `stride` along `axis`.

    Axis "copy" does not move: lanes that differ only in such a dimension hold the same element.
    """

    size: int
    axis: Axis
    stride: int

    def along(self, axis: str) -> int:
        """Return the distance that one step moves along `axis`, 0 for other axes."""
        return self.stride if axis == self.axis else 0

    def __post_init__(self) -> None:
        if self.size < 2:
            raise ValueError(f"dimension size {self.size} along {self.axis!r}: it counts to 2 or more; leave it out")
        if self.axis not in ("m", "n", "k", "copy"):
            raise ValueError(f"dimension axis {self.axis!r}: an axis is 'm', 'n', 'k' or 'copy'; use one of these")
        if self.axis == "copy" and self.stride != 0:
            raise ValueError(f"copy dimension with stride {self.stride}: a copy moves nowhere; give stride 0")
        if self.axis != "copy" and self.stride < 1:
            raise ValueError(
                f"dimension stride {self.stride} along {self.axis!r}: strides are positive; give 1 or more"
            )


@dataclass(frozen=True)
class Fragment:
    """The distribution of one operand tile over the lanes of a warp.

    A lane number and an element number are mixed-radix numbers. Their dimensions, least significant first, add up to
    the coordinates of the element. Elements fill a lane's registers from the lowest bits of the first.
    """

    row_axis: Axis
    column_axis: Axis
    lane: tuple[Dim, ...]
    element: tuple[Dim, ...]
    element_bits: int = 8

    def __post_init__(self) -> None:
        if self.element_bits not in (8, 16, 32):
            raise ValueError(f"{self.element_bits}-bit elements: registers hold 4, 2 or 1 of them; give 8, 16 or 32")
        for dim in self.element:
            if dim.axis == "copy":
                raise ValueError(
                    "copy dimension among the elements: hardware wants copies in other lanes; move it to lane="
                )
        for axis in (self.row_axis, self.column_axis):
            self._check_axis(axis)
        for dim in (*self.lane, *self.element):
            if dim.axis not in (self.row_axis, self.column_axis, "copy"):
                raise ValueError(
                    f"dimension along {dim.axis!r} in a {self.row_axis} x {self.column_axis} tile: "
                    f"dimensions lie along the axes of the tile; use one of these"
                )
        if self.elements % self.elements_per_register:
            raise ValueError(
                f"{self.elements} elements of {self.element_bits} bits per lane: lanes hold whole 32-bit "
                f"registers; give a multiple of {self.elements_per_register}"
            )
        if self.replication not in (1, 2):
            raise ValueError(
                f"replication {self.replication}: instructions read an element from one lane or from two; "
                f"give at most one copy dimension, of size 2"
            )

    def _check_axis(self, axis: Axis) -> None:
        # The strides number 0, 1, 2, ... once each exactly when, sorted, each stride is the product of the sizes before
        # it: a larger stride leaves a gap, a smaller one an overlap. So importing this module enumerates nothing.
        covered = 1
        for dim in sorted(self._dims(axis), key=lambda dim: dim.stride):
            if dim.stride != covered:
                problem = "is never held" if dim.stride > covered else "is held more than once"
                raise ValueError(
                    f"dimension {dim} along {axis!r}: coordinate {min(covered, dim.stride)} {problem}; "
                    f"give stride {covered}"
                )
            covered *= dim.size

    def _dims(self, axis: Axis) -> Iterator[Dim]:
        return (dim for dim in (*self.lane, *self.element) if dim.axis == axis)

    def extent(self, axis: Axis) -> int:
        """Return the number of rows, columns or copies along `axis`."""
        return prod(dim.size for dim in self._dims(axis))

    @property
    def shape(self) -> tuple[int, int]:
        """Return the rows and columns of the operand tile."""
        return self.extent(self.row_axis), self.extent(self.column_axis)

    @property
    def replication(self) -> int:
        """Return the number of lanes that hold each element: 1, or 2 where the hardware requires copies."""
        return self.extent("copy")

    @property
    def lanes(self) -> int:
        """Return the number of lanes of the fragment."""
        return prod(dim.size for dim in self.lane)

    @property
    def elements(self) -> int:
        """Return the number of elements per lane."""
        return prod(dim.size for dim in self.element)

    @property
    def elements_per_register(self) -> int:
        """Return the number of elements per 32-bit register."""
        return REGISTER_BITS // self.element_bits

    @property
    def registers(self) -> int:
        """Return the number of 32-bit registers per lane."""
        return self.elements // self.elements_per_register

    def coordinates(self, lane: int, element: int) -> tuple[int, int]:
        """Return the (row, column) of the element that `lane` holds at position `element`."""
        if not 0 <= lane < self.lanes:
            raise ValueError(f"lane {lane}: this fragment has {self.lanes} lanes; give 0 to {self.lanes - 1}")
        if not 0 <= element < self.elements:
            raise ValueError(f"element {element}: a lane holds {self.elements} elements; give 0 to {self.elements - 1}")
        place = {self.row_axis: 0, self.column_axis: 0, "copy": 0}
        for number, dims in ((lane, self.lane), (element, self.element)):
            for dim in dims:
                number, count = divmod(number, dim.size)
                place[dim.axis] += count * dim.stride
        return place[self.row_axis], place[self.column_axis]


@dataclass(frozen=True, kw_only=True)
class Multiplies:
    """The operand types of an instruction and its accumulator type. Every pair of an `a_types` and a `b_types` is
    legal. All have one size, because their elements are adjacent along k."""

    name: str
    a_types: tuple[str, ...]
    b_types: tuple[str, ...]
    sum_type: str
    lost_bits: int = field(default=0, kw_only=True)  # of the 24 that fp32 has, which its sums are without

    def __post_init__(self) -> None:
        if self.sum_type not in ELEMENT_TYPES:
            raise ValueError(f"{self.name}: sum_type={self.sum_type!r}: no element type; add it to qconv/dtypes.py")
        for operand, types in (("A", self.a_types), ("B", self.b_types)):
            known = [name for name in types if name in ELEMENT_TYPES]
            if len(known) != len(types) or not types or len(set(types)) != len(types):
                raise ValueError(
                    f"{self.name}: types {types} for {operand}: element types, each once; list one or more of "
                    f"{', '.join(ELEMENT_TYPES)}"
                )
        sizes = {ELEMENT_TYPES[name].bits for name in (*self.a_types, *self.b_types)}
        if len(sizes) > 1:
            raise ValueError(
                f"{self.name}: operands of {sorted(sizes)} bits: all have one size; make two entries of it"
            )

    def accepts(self, a_type: str, b_type: str) -> bool:
        """True where the instruction multiplies these two types."""
        return a_type in self.a_types and b_type in self.b_types

    def serves(self, a_type: ElementType, b_type: ElementType) -> bool:
        """True where the instruction multiplies these two types and accumulates in the type of the contract."""
        return self.accepts(a_type.name, b_type.name) and self.sum_type == a_type.sums

    @property
    def operand_bits(self) -> int:
        return ELEMENT_TYPES[self.a_types[0]].bits

    @property
    def sum(self) -> ElementType:
        return ELEMENT_TYPES[self.sum_type]


@dataclass(frozen=True, kw_only=True)
class DotProduct(Multiplies):
    """A dot product of two 32-bit words, which a single thread computes.

    `templates/dot/<file>.j2` defines it, as `dot`."""

    vendor: str
    file: str = ""  # empty: `name`

    @property
    def elements(self) -> int:
        """Return the number of elements per word."""
        return REGISTER_BITS // self.operand_bits

    @property
    def template(self) -> str:
        return f"dot/{self.file or self.name}.j2"


@dataclass(frozen=True, kw_only=True)
class MatrixInstruction(Multiplies):
    """A matrix instruction: its shape, its types and the fragments of its operands.

    C has the layout of D. `mnemonic` is the PTX instruction or the compiler builtin. Where the types are part of its
    name, it has placeholders {a} and {b}, which `spell` fills.
    """

    m: int
    n: int
    k: int
    lanes: int
    a: Fragment
    b: Fragment
    d: Fragment
    mnemonic: str
    clocks: int = 0  # per SIMD, on AMD; NVIDIA's rates are in products
    file: str = ""  # in templates/mma, if lanes hold the same bytes and sums as those of another instruction
    operand: str = ""  # C++ type of a float in the vectors that the compiler's builtin takes

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name or not self.mnemonic:
            raise ValueError(f"instruction {self.name!r} with mnemonic {self.mnemonic!r}: both are needed; name them")
        if self.lanes not in (32, 64):
            raise ValueError(f"{self.name}: {self.lanes} lanes: a warp has 32 or 64; give one of these")
        self._check_operand("A", self.a, ("m", "k"), (self.m, self.k), self.operand_bits)
        self._check_operand("B", self.b, ("k", "n"), (self.k, self.n), self.operand_bits)
        self._check_operand("D", self.d, ("m", "n"), (self.m, self.n), self.sum.bits)
        if self.d.replication != 1:
            raise ValueError(
                f"{self.name}: {self.d.replication} copies of D: a sum is written once; drop the copy dimension"
            )

    def _check_operand(
        self, operand: str, fragment: Fragment, axes: tuple[Axis, Axis], shape: tuple[int, int], bits: int
    ) -> None:
        if (fragment.row_axis, fragment.column_axis) != axes:
            raise ValueError(
                f"{self.name}: {operand} is a {fragment.row_axis} x {fragment.column_axis} tile: "
                f"{operand} is {axes[0]} x {axes[1]}; name its axes so"
            )
        if fragment.shape != shape:
            raise ValueError(
                f"{self.name}: the fragment of {operand} is {fragment.shape[0]} x {fragment.shape[1]}: "
                f"{axes[0]} x {axes[1]} is {shape[0]} x {shape[1]}; correct its dimensions"
            )
        if fragment.lanes != self.lanes:
            raise ValueError(
                f"{self.name}: {operand} is spread over {fragment.lanes} lanes: "
                f"the instruction has {self.lanes}; correct the lane dimensions"
            )
        if fragment.element_bits != bits:
            raise ValueError(
                f"{self.name}: {operand} has {fragment.element_bits}-bit elements: {bits} are needed; "
                f"give element_bits={bits}"
            )

    @property
    def k_bytes(self) -> int:
        """Return the bytes per row of A, or per column of B."""
        return self.k * self.operand_bits // 8

    def spell(self, a_type: str, b_type: str) -> str:
        """Return the mnemonic for these two types: the PTX instruction or the compiler builtin."""
        if not self.accepts(a_type, b_type):
            raise ValueError(
                f"{self.name}: {a_type} x {b_type}: it takes {' or '.join(self.a_types)} by "
                f"{' or '.join(self.b_types)}; use one of these, or the dot4 path"
            )
        return self.mnemonic.format(a=ELEMENT_TYPES[a_type].short, b=ELEMENT_TYPES[b_type].short)


@dataclass(frozen=True, kw_only=True)
class WarpgroupInstruction(Multiplies):
    """A matrix instruction that a warpgroup of four warps executes, in several widths n.

    Both operands are K-major in shared memory, as matrices of `matrix_rows` rows of `matrix_bytes` bytes. Only the sums
    are in registers. `mnemonic` has placeholders for the width and the types, which `spell` fills.
    """

    m: int
    k: int
    widths: tuple[int, ...]
    lanes: int
    matrix_rows: int
    matrix_bytes: int
    mnemonic: str
    immediates: str = ""  # operands in PTX behind the predicate, which say that nothing is negated or transposed

    def __post_init__(self) -> None:
        super().__post_init__()
        of_matrix = 8 * self.matrix_bytes // self.operand_bits
        for what, size, whole in (("m", self.m, self.matrix_rows), ("k", self.k, of_matrix)):
            if size % whole:
                raise ValueError(f"{self.name}: {what}={size}: factors are whole matrices; give a multiple of {whole}")
        for n in self.widths:
            self.d(n)

    @property
    def k_bytes(self) -> int:
        """Return the bytes of a row that one instruction multiplies."""
        return self.k * self.operand_bits // 8

    @property
    def immediates_of_registers(self) -> str:
        """Return the immediates where A is in registers: it is never transposed, and has no operand that says so."""
        return self.immediates.removesuffix(", 0")

    def d(self, n: int) -> Fragment:
        """Return the fragment of the sums for a width. A warp holds 16 rows; a lane holds two adjacent columns of every
        eight, in two rows."""
        if n not in self.widths:
            raise ValueError(f"{self.name}: n={n}: it has {', '.join(map(str, self.widths))}; use one of these")
        eights = (Dim(n // 8, "n", 8),) if n > 8 else ()
        fragment = Fragment(
            "m",
            "n",
            lane=(Dim(4, "n", 2), Dim(8, "m", 1), Dim(self.lanes // 32, "m", 16)),
            element=(Dim(2, "n", 1), Dim(2, "m", 8), *eights),
            element_bits=self.sum.bits,
        )
        if fragment.shape != (self.m, n):
            raise ValueError(f"{self.name}: D is {fragment.shape}, not {(self.m, n)}; correct m or the lanes")
        return fragment

    def spell(self, n: int, a_type: str, b_type: str) -> str:
        """Return the PTX instruction for a width and these two types."""
        if n not in self.widths or not self.accepts(a_type, b_type):
            raise ValueError(f"{self.name}: n={n} of {a_type} x {b_type}: there is no such instruction; use a warp's")
        return self.mnemonic.format(n=n, a=ELEMENT_TYPES[a_type].short, b=ELEMENT_TYPES[b_type].short)


@dataclass(frozen=True, kw_only=True)
class TensorMemoryInstruction(Multiplies):
    """A matrix instruction that one thread issues, in several widths n, with its sums in tensor memory: row i of D is
    in lane i, and column j in column j counted from the first.

    Both operands are K-major in shared memory, in the swizzle of TMA.
    """

    m: int
    k: int
    widths: tuple[int, ...]
    columns: int  # 32-bit columns of tensor memory
    least_columns: int  # the smallest allocation; all are powers of two
    mnemonic: str

    def __post_init__(self) -> None:
        super().__post_init__()
        for columns in (self.columns, self.least_columns):
            if columns < 1 or columns & (columns - 1):
                raise ValueError(f"{self.name}: {columns} columns: allocations are powers of two; give one")
        if not self.widths or max(self.widths) > self.columns:
            raise ValueError(f"{self.name}: widths {self.widths}: D has {self.columns} columns at most; give some")

    def allocated(self, columns: int) -> int:
        """Return the size of the smallest allocation with this number of columns."""
        if not 0 < columns <= self.columns:
            raise ValueError(f"{self.name}: {columns} columns: there are {self.columns}; give 1 to as many")
        return max(self.least_columns, 1 << (columns - 1).bit_length())
