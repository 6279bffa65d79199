"""Measurements as db list prints them: chosen, sorted, and in a terminal with what all rows share said once, so that
their keys are told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qconv.cli.table import table
from qconv.op import BETWEEN

if TYPE_CHECKING:
    from qconv.tune_db.measurement import Measurement

# Failures come last, whatever comes first.
SORTS: dict[str, Callable[[Measurement], tuple[Any, ...]]] = {
    "time": lambda row: (row.median_us is None, row.median_us or 0.0),
    "problem": lambda row: (str(row.problem), row.median_us is None, row.median_us or 0.0),
    "config": lambda row: (str(row.config), row.median_us is None, row.median_us or 0.0),
    "measured": lambda row: (row.created_at,),
}
NAMES = ("time", "config", "problem", "device", "reason")
CSV_NAMES = (
    *("problem", "config", "device", "target", "toolchain", "outcome", "median_us", "registers", "spill_bytes"),
    *("smem_bytes", "created_at", "reason"),
)


@dataclass(frozen=True)
class Wanted:
    """The rows to print: those with each of `parts` in the key of their problem and `config` in their config; `failed`
    are those without a time."""

    parts: tuple[str, ...] = ()
    config: str | None = None
    failed: bool = False
    sort: str | None = None
    limit: int | None = None

    def chosen(self, rows: Sequence[Measurement]) -> list[Measurement]:
        found = [row for row in rows if self._has(row)]
        if self.sort is not None:
            found.sort(key=SORTS[self.sort])
        return found[: self.limit]

    def _has(self, row: Measurement) -> bool:
        key = str(row.problem)
        is_of = all(part in key for part in self.parts) and (self.config is None or self.config in str(row.config))
        return is_of and (not self.failed or not row.correct)


def shown(rows: Sequence[Measurement], columns: int | None) -> str:
    """Format the rows. In a terminal, what all devices, keys or configs have is said once, above the table."""
    told = {
        "config": [str(row.config) for row in rows],
        "problem": [str(row.problem) for row in rows],
        "device": [row.device for row in rows],
    }
    above = []
    if columns is not None and rows:
        for name, separator in (("problem", ":"), ("config", " "), ("device", None)):
            shared, told[name] = without_shared(told[name], separator)
            above += [f"{name:<8} {shared}"] if shared else []
    times, reasons = [time_of(row) for row in rows], [one_line(row.reason) for row in rows]
    cells = list(zip(times, told["config"], told["problem"], told["device"], reasons, strict=True))
    return "\n".join([*above, table(NAMES, cells, columns, whole=("time", "problem"))])


def without_shared(texts: Sequence[str], separator: str | None) -> tuple[str, list[str]]:
    """Return the parts that all texts have, and the rest of each. The key of a chain has parts twice, and is kept."""
    if len(set(texts)) == 1:
        return texts[0], [""] * len(texts)
    if separator is None or any(BETWEEN in text for text in texts):
        return "", list(texts)
    parts = [text.split(separator) for text in texts]
    common = set(parts[0]).intersection(*parts[1:])
    rest = [separator.join(part for part in each if part not in common) for each in parts]
    return separator.join(part for part in parts[0] if part in common), [one or "-" for one in rest]


def csv_of(rows: Sequence[Measurement]) -> list[list[Any]]:
    return [
        [
            *(row.problem, row.config.as_json(), row.device, row.target, row.toolchain, row.outcome, row.median_us),
            *(row.registers, row.spill_bytes, row.smem_bytes, row.created_at.isoformat(), one_line(row.reason) or None),
        ]
        for row in rows
    ]


def time_of(row: Measurement) -> str:
    return f"{row.median_us:.2f} us" if row.median_us is not None else row.outcome


def one_line(reason: str | None) -> str:
    return " ".join((reason or "").split())
