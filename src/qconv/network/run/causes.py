"""Causes: why layers run elsewhere or in floats, with everything that follows from each, the weightiest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol


class Row(Protocol):
    """A layer of a report, as far as its cause needs it."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def follows(self) -> str | None: ...
    @property
    def cure(self) -> str | None: ...
    @property
    def operations(self) -> int | None: ...
    @property
    def bytes_in(self) -> int | None: ...
    @property
    def bytes_out(self) -> int | None: ...


@dataclass(frozen=True)
class Cause:
    """A cause. `layers` have it themselves, and are counted in `ops`; the multiplies and adds (`operations`), and the
    `bytes` that these layers read and write across, are also those of the layers that follow from them. `cure` is what
    a user can do, None where nothing is known."""

    why: str
    ops: Mapping[str, int]
    layers: tuple[str, ...]
    operations: int = 0
    bytes: int = 0
    cure: str | None = None

    def __str__(self) -> str:
        return f"{counted(self.ops)}: {self.why}"

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "ops": dict(self.ops), "layers": list(self.layers)}


def causes_of(rows: Sequence[Row]) -> tuple[Cause, ...]:
    """Return the causes of these rows, that of the most multiplications first, then of the most bytes."""
    by_name = {row.name: row for row in rows}
    found: dict[str, dict[str, list[Row]]] = {}  # by the reason, then by the layer that has it
    for row in rows:
        root = _root(row, by_name)
        found.setdefault(root.why, {}).setdefault(root.name, []).append(row)
    causes = (_cause([by_name[name] for name in own], [*chain(*own.values())]) for own in found.values())
    return tuple(sorted(causes, key=lambda one: (-one.operations, -one.bytes, -len(one.layers))))


def _root(row: Row, by_name: Mapping[str, Row]) -> Row:
    """Return the layer because of which this one is where it is: itself, or one that it follows."""
    passed = {row.name}
    while row.follows is not None and row.follows in by_name and row.follows not in passed:
        row = by_name[row.follows]
        passed.add(row.name)
    return row


def _cause(own: Sequence[Row], rows: Sequence[Row]) -> Cause:
    crossing = sum((row.bytes_in or 0) + (row.bytes_out or 0) for row in rows)
    return Cause(
        own[0].why,
        Counter(row.op for row in own),
        tuple(row.name for row in own),
        sum(row.operations or 0 for row in rows),
        crossing,
        own[0].cure,
    )


def counted(ops: Mapping[str, int]) -> str:
    return ", ".join(f"{op} {count}" for op, count in ops.items())
