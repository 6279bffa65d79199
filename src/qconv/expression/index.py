"""Index expressions: which element of an operand a kernel reads, as a function of the axes that it loops over.

An index is a sum of atoms times integers, simplified as it is made: an axis, a quotient or a remainder of another
index, or an entry of a table of constants. Its text is an expression in C++ and in Python alike, where `/` rounds down,
because no dividend is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Axis:
    """An axis that a kernel loops over, from 0 to before `extent`."""

    name: str
    extent: int

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return self.extent - 1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """An index divided by a number, rounded down."""

    of: Index
    by: int

    @property
    def low(self) -> int:
        return self.of.low // self.by

    @property
    def high(self) -> int:
        return self.of.high // self.by

    def __str__(self) -> str:
        return f"{self.of.grouped} / {self.by}"


@dataclass(frozen=True)
class Remainder:
    of: Index
    by: int

    @property
    def low(self) -> int:
        return 0

    @property
    def high(self) -> int:
        return min(self.of.high, self.by - 1)

    def __str__(self) -> str:
        return f"{self.of.grouped} % {self.by}"


@dataclass(frozen=True)
class Entry:
    """An entry of an int32 operand whose values never change and lie between `low` and `high`."""

    table: str
    at: Index
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.table}[{self.at}]"


Atom = Axis | Quotient | Remainder | Entry


@dataclass(frozen=True)
class Index:
    """A sum of atoms, each times an integer, and a constant."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @cached_property
    def _hash(self) -> int:
        return hash((self.terms, self.constant))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, axis: Axis) -> Index:
        return cls(((axis, 1),)) if axis.extent > 1 else cls()

    @classmethod
    def entry(cls, table: str, at: Index, values: Array) -> Index:
        """Return the entry of a table. Values that rise evenly, one by one or a few equal ones at a time, need no
        table."""
        values = np.asarray(values, np.int64)
        numbers = np.arange(values.size)
        repeats = int((values == values[0]).argmin()) or values.size
        step = int(values[repeats] - values[0]) if repeats < values.size else 0
        if (values == values[0] + numbers // repeats * step).all():
            return at // repeats * step + int(values[0]) if step else cls((), int(values[0]))
        return cls(((Entry(table, at, int(values.min()), int(values.max())), 1),))

    @cached_property
    def low(self) -> int:
        return self.constant + sum(times * (atom.low if times > 0 else atom.high) for atom, times in self.terms)

    @cached_property
    def high(self) -> int:
        return self.constant + sum(times * (atom.high if times > 0 else atom.low) for atom, times in self.terms)

    @cached_property
    def largest(self) -> int:
        """Return a bound of the magnitude of every number on the way to the index."""
        products = (abs(times) * max(abs(atom.low), abs(atom.high)) for atom, times in self.terms)
        inner = (_inside(atom).largest for atom, _ in self.terms if not isinstance(atom, Axis))
        return max(abs(self.constant) + sum(products), *inner, 0)

    @property
    def atoms(self) -> Iterable[Atom]:
        """Yield all atoms, including those inside others."""
        for atom, _ in self.terms:
            yield atom
            if not isinstance(atom, Axis):
                yield from _inside(atom).atoms

    @cached_property
    def axes(self) -> frozenset[Axis]:
        return frozenset(atom for atom in self.atoms if isinstance(atom, Axis))

    @cached_property
    def entries(self) -> frozenset[Entry]:
        return frozenset(atom for atom in self.atoms if isinstance(atom, Entry))

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(entry.table for entry in self.entries)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        return _sum([*self.terms, *other.terms], self.constant + other.constant)

    def __sub__(self, other: Index | int) -> Index:
        return self + other * -1

    def __mul__(self, number: int) -> Index:
        return _sum([(atom, times * number) for atom, times in self.terms], self.constant * number)

    def __floordiv__(self, number: int) -> Index:
        """Divide, and round down."""
        if number == 1:
            return self
        whole, rest = self._split(number)
        if rest.high < number:
            return whole
        if coarse := rest._coarse(number):
            return whole + coarse[0] // (number // coarse[2])
        inner = rest.terms[0][0]
        if isinstance(inner, Quotient) and rest == Index(((inner, 1),)):
            return whole + inner.of // (inner.by * number)
        return whole + Index(((Quotient(rest, number), 1),))

    def __mod__(self, number: int) -> Index:
        _, rest = self._split(number)
        if rest.high < number:
            return rest
        if coarse := rest._coarse(number):
            return coarse[0] % (number // coarse[2]) * coarse[2] + coarse[1]
        inner = rest.terms[0][0]
        if isinstance(inner, Remainder) and rest == Index(((inner, 1),)) and inner.by % number == 0:
            return inner.of % number
        return Index(((Remainder(rest, number), 1),))

    def _split(self, number: int) -> tuple[Index, Index]:
        """Return a quotient and a rest, which is not negative, and may still exceed the number."""
        whole = Index(tuple((atom, times // number) for atom, times in self.terms if times % number == 0))
        rest = Index(tuple((atom, times) for atom, times in self.terms if times % number))
        # So that no dividend is negative, and none is larger than it need be.
        steps = (rest.low + self.constant) // number
        return whole + steps, rest + (self.constant - steps * number)

    def _coarse(self, number: int) -> tuple[Index, Index, int] | None:
        """Return an index, a fine part and their unit, a divisor of the number, such that this index is the first times
        the unit, and the fine part never reaches the unit; None where there are no such."""
        for count in range(len(self.terms), 0, -1):
            unit = gcd(number, *(times for _, times in self.terms[:count]))
            fine = Index(self.terms[count:], self.constant % unit)
            if unit > 1 and fine.low >= 0 and fine.high < unit:
                terms = tuple((atom, times // unit) for atom, times in self.terms[:count])
                return Index(terms, self.constant // unit), fine, unit
        return None

    def substituted(self, replaced: Callable[[Axis], Index]) -> Index:
        """Return the index with another index in the place of each axis."""
        total = Index((), self.constant)
        for atom, times in self.terms:
            if isinstance(atom, Axis):
                inner = replaced(atom)
            elif isinstance(atom, Quotient):
                inner = atom.of.substituted(replaced) // atom.by
            elif isinstance(atom, Remainder):
                inner = atom.of.substituted(replaced) % atom.by
            else:
                at = atom.at.substituted(replaced)
                inner = Index(((Entry(atom.table, at, atom.low, atom.high), 1),))
            total = total + inner * times
        return total

    def renamed(self, tables: Mapping[str, str]) -> Index:
        """Return the index with other names of its tables."""

        def of(atom: Atom) -> Atom:
            if isinstance(atom, Axis):
                return atom
            if isinstance(atom, Entry):
                return Entry(tables[atom.table], atom.at.renamed(tables), atom.low, atom.high)
            return type(atom)(atom.of.renamed(tables), atom.by)

        return _sum([(of(atom), times) for atom, times in self.terms], self.constant)

    def evaluated(self, axes: Mapping[str, Array], tables: Mapping[str, Array]) -> Array:
        """Return the values of the index for those of the axes."""
        total = np.asarray(self.constant, np.int64)
        for atom, times in self.terms:
            if isinstance(atom, Axis):
                value = axes[atom.name]
            elif isinstance(atom, Entry):
                value = tables[atom.table][atom.at.evaluated(axes, tables)].astype(np.int64)
            elif isinstance(atom, Quotient):
                value = atom.of.evaluated(axes, tables) // atom.by
            else:
                value = atom.of.evaluated(axes, tables) % atom.by
            total = total + value * times
        return total

    @property
    def grouped(self) -> str:
        """Return the text, in parentheses if it is more than one name."""
        text = str(self)
        return text if text.isidentifier() else f"({text})"

    def __str__(self) -> str:
        # A minus in front of a quotient would be read as part of the dividend.
        ordered = sorted(self.terms, key=lambda term: term[1] < 0)
        first_is_constant = not ordered or ordered[0][1] < 0
        text = str(self.constant) if first_is_constant else ""
        for atom, times in ordered:
            product = str(atom) if times in (1, -1) else f"{atom} * {abs(times)}"
            text += f" {'-' if times < 0 else '+'} {product}" if text else product
        if self.constant and not first_is_constant:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}"
        return text


def _inside(atom: Quotient | Remainder | Entry) -> Index:
    return atom.at if isinstance(atom, Entry) else atom.of


def _sum(terms: Iterable[tuple[Atom, int]], constant: int) -> Index:
    """Add up equal atoms. A quotient and a remainder of the same division join again."""
    total: dict[Atom, int] = {}
    for atom, times in terms:
        total[atom] = total.get(atom, 0) + times
    for atom in [atom for atom in total if isinstance(atom, Remainder)]:
        quotient = atom.of // atom.by
        times = total[atom]
        if len(quotient.terms) == 1 and total.get(quotient.terms[0][0]) == atom.by * times * quotient.terms[0][1]:
            del total[atom], total[quotient.terms[0][0]]
            joined = (atom.of - quotient.constant * atom.by) * times + constant
            return _sum([*total.items(), *joined.terms], joined.constant)
    ordered = sorted(
        ((atom, times) for atom, times in total.items() if times), key=lambda term: (-abs(term[1]), str(term[0]))
    )
    return Index(tuple(ordered), constant)


def joining(outer: Axis, inner: Axis, joined: Axis) -> Callable[[Axis], Index]:
    """Return what `substituted` puts in the place of each axis where two neighbours become one."""
    whole = Index.of(joined)

    def replaced(axis: Axis) -> Index:
        if axis == outer:
            return whole // inner.extent
        return whole % inner.extent if axis == inner else Index.of(axis)

    return replaced


def flat(indices: Iterable[Index], shape: Iterable[int]) -> Index:
    """Return the offset of an element in a contiguous array."""
    total = Index()
    for index, extent in zip(indices, shape, strict=True):
        total = total * extent + index
    return total


def unflat(offset: Index, shape: Iterable[int]) -> tuple[Index, ...]:
    """Return the indices of the element at an offset of a contiguous array."""
    found: list[Index] = []
    extents = list(shape)
    for at, extent in reversed(list(enumerate(extents))):
        found.append(offset % extent if at else offset)
        offset = offset // extent
    return tuple(reversed(found))
