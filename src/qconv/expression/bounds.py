"""The values that an index takes where guards hold, which decide whether a load stays within its operand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod

import numpy as np

from qconv.expression.index import Array, Axis, Entry, Index, Quotient
from qconv.expression.node import Guard

# Combinations of variables that are tried. Where there are more, the guards are not considered, and bounds are wider.
MOST_TRIED = 2**22

Variable = Axis | Entry


def bounds(index: Index, guards: Sequence[Guard]) -> tuple[int, int] | None:
    """Return bounds of an index where all guards hold, or None where they never do.

    Variables are independent of each other unless a term or a guard joins them. Each group of joined variables is tried
    in all combinations, if a guard limits it."""
    low = high = index.constant
    terms = [Index((term,)) for term in index.terms]
    for group in _groups([*terms, *(guard.index for guard in guards)]):
        part = Index(tuple(each.terms[0] for each in terms if group.issuperset(_variables(each))))
        own = [guard for guard in guards if group.issuperset(_variables(guard.index))]
        found = _tried(part, own, group) if own else (part.low, part.high)
        if found is None:
            return None
        low, high = low + found[0], high + found[1]
    return low, high


def _variables(index: Index) -> Iterator[Variable]:
    for atom, _ in index.terms:
        if isinstance(atom, Axis | Entry):
            yield atom
        else:
            yield from _variables(atom.of)


def _groups(indices: Iterable[Index]) -> list[frozenset[Variable]]:
    groups: list[frozenset[Variable]] = []
    for index in indices:
        joined = frozenset(_variables(index))
        joined = joined.union(*(group for group in groups if group & joined))
        groups = [*(group for group in groups if not group & joined), joined]
    return groups


def _tried(part: Index, guards: Sequence[Guard], group: frozenset[Variable]) -> tuple[int, int] | None:
    variables = sorted(group, key=str)
    if prod(each.high - each.low + 1 for each in variables) > MOST_TRIED:
        return part.low, part.high
    grid = np.ogrid[tuple(slice(each.low, each.high + 1) for each in variables)]
    values = dict(zip(variables, grid, strict=True))
    allowed = np.asarray(True)
    for guard in guards:
        at = _values(guard.index, values)
        allowed = allowed & (at >= 0) & (at < guard.extent)
    found, allowed = np.broadcast_arrays(_values(part, values), allowed)
    inside = found[allowed]
    return (int(inside.min()), int(inside.max())) if inside.size else None


def _values(index: Index, values: Mapping[Variable, Array]) -> Array:
    total = np.asarray(index.constant)
    for atom, times in index.terms:
        if isinstance(atom, Axis | Entry):
            value = values[atom]
        else:
            of = _values(atom.of, values)
            value = of // atom.by if isinstance(atom, Quotient) else of % atom.by
        total = total + value * times
    return total
