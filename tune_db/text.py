"""Measurements as text for review: the format of the shipped winners.

The file is a JSON list with one measurement per line, in a fixed order and form, so that a changed winner is a changed
line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from qconv.errors import DatabaseError
from qconv.op import Problem, quoted
from qconv.tune_db.measurement import Measurement, best_of, ranked, read_config, read_problem, read_time, time_text
from qconv.tune_db.nearness import Neighbour, distance, kin, shape_of

_NAMES = tuple(f.name for f in fields(Measurement))
# The time is required: a measurement that is read must not default to now.
_NEEDED = tuple(f.name for f in fields(Measurement) if f.default is MISSING)


def dump(measurements: Iterable[Measurement]) -> str:
    """Format measurements, sorted by key. Unknown values are omitted."""
    lines = [json.dumps(as_dict(m)) for m in sorted(measurements, key=lambda m: m.key)]
    return "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"


def as_dict(m: Measurement) -> dict[str, Any]:
    """Return plain values by field name. Unknown values are omitted."""
    values = {name: getattr(m, name) for name in _NAMES}
    values |= {"problem": str(m.problem), "config": m.config.as_dict(), "created_at": time_text(m.created_at)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


def parse(text: str, origin: str) -> list[Measurement]:
    """Parse the output of `dump`. `origin` is the file's name, for messages. Raises DatabaseError for anything
    wrong."""
    rows: dict[tuple[str, ...], int] = {}
    measurements = []
    for number, record in enumerate(_records(text, origin), start=1):
        m = _row(record, number, origin)
        if (first := rows.setdefault(m.key, number)) != number:
            raise _wrong(origin, number, f"it has the problem, config, device, toolchain and digest of row {first}")
        measurements.append(m)
    return measurements


def _records(text: str, origin: str) -> list[object]:
    try:
        records = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DatabaseError(f"{origin}: not JSON as dumped ({error}); bring back a copy, or dump it anew") from error
    if not isinstance(records, list):
        raise DatabaseError(
            f"{origin}: it is not a list of measurements; give what db export --format text wrote (the format t4 is "
            "for other programs), or bring back a copy"
        )
    return records


def _row(record: object, number: int, origin: str) -> Measurement:
    try:
        return _measurement(record)
    except ValueError as error:
        raise _wrong(origin, number, str(error)) from error


def _wrong(origin: str, number: int, why: str) -> DatabaseError:
    return DatabaseError(f"{origin}: row {number}: {why}; mend or remove this row")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError(f"a name stands twice among {quoted(', '.join(name for name, _ in pairs))}")
    return values


def from_dict(values: object, origin: str) -> Measurement:
    """Build a measurement from the output of `as_dict`. Raises DatabaseError, whose message begins with `origin`, for
    anything wrong."""
    try:
        return _measurement(values)
    except ValueError as error:
        raise DatabaseError(f"{origin}: {error}; give what qconv.tune_db.text.as_dict writes") from error


def _measurement(record: object) -> Measurement:
    if not isinstance(record, dict):
        raise ValueError(f"{quoted(record)} is not a measurement: an object with named values")
    for name in _NEEDED:
        if name not in record:
            raise ValueError(f"it has no {name}")
    for name, value in record.items():
        if name not in _NAMES:
            raise ValueError(f"{quoted(name)} is no field of a measurement; known: {', '.join(_NAMES)}")
        if value is None:
            raise ValueError(f"{name} is null; what is unknown is left out")
    config = json.dumps(record["config"], separators=(",", ":"))
    return Measurement(
        **record
        | {
            "problem": read_problem(record["problem"]),
            "config": read_config(config),
            "created_at": read_time(record["created_at"]),
        }
    )


def is_text(path: str) -> bool:
    """True where a file begins like the output of `dump`. A database begins differently, and a URL is no file."""
    try:
        with open(path, "rb") as file:
            return file.read(1) in (b"[", b"{")
    except OSError:
        return False


def read(path: str) -> TextLayer:
    """Read a file written by `dump` and check every row. Raises DatabaseError for anything wrong."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DatabaseError(
            f"{path}: cannot be read as text ({error}); give what db export --format text wrote"
        ) from None
    parse(text, path)
    return TextLayer(text, path)


class TextLayer:
    """The rows of a file written by `dump`, as a source of measurements. A row is parsed on first use, because a lookup
    needs few."""

    def __init__(self, text: str, origin: str) -> None:
        self._origin = origin
        self._records = dict(enumerate(_records(text, origin), start=1))
        self._read: dict[int, Measurement] = {}
        self._of_problem: dict[str, list[int]] = {}
        for number, record in self._records.items():
            key = record.get("problem") if isinstance(record, dict) else None
            self._of_problem.setdefault(str(key), []).append(number)

    def measurements(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        rows = self._rows(problem, device, target)
        return [m for m in rows if not m.in_sequence]

    def in_sequence(
        self, *, problem: Problem | None = None, device: str | None = None, target: str | None = None
    ) -> list[Measurement]:
        rows = self._rows(problem, device, target)
        return [m for m in rows if m.in_sequence]

    def best(self, problem: Problem, device: str, target: str) -> Measurement | None:
        return best_of(self.measurements(problem=problem, device=device, target=target))

    def ranked(self, problem: Problem, device: str, target: str) -> Iterator[Measurement]:
        return iter(ranked(self.measurements(problem=problem, device=device, target=target)))

    def near(self, problem: Problem, device: str, target: str, within: float) -> Iterator[tuple[float, Problem]]:
        """Generate the near problems. Parses only the problems of the rows."""
        own, own_kin = shape_of(problem), kin(problem.key)
        found: dict[Neighbour, Problem] = {}
        for key, numbers in self._of_problem.items():
            if kin(key) == own_kin and any(self._is_correct(number, device, target) for number in numbers):
                other = self._problem(key, numbers[0])
                shape = shape_of(other)
                if shape.group == own.group and (far := distance(own, shape)) <= within:
                    found[Neighbour(far, key)] = other
        return iter([(neighbour.distance, found[neighbour]) for neighbour in sorted(found)])

    @property
    def devices(self) -> frozenset[tuple[str, str]]:
        """The devices of the rows, each with its target. Parses no row."""
        records = (record for record in self._records.values() if isinstance(record, dict))
        return frozenset((str(record.get("device")), str(record.get("target"))) for record in records)

    def problems(self, device: str, target: str) -> list[Problem]:
        return sorted({m.problem for m in self.measurements(device=device, target=target) if m.correct}, key=str)

    def _rows(self, problem: Problem | None, device: str | None, target: str | None) -> list[Measurement]:
        numbers = self._records if problem is None else self._of_problem.get(str(problem), [])
        rows = map(self._row, numbers)
        return [m for m in rows if device in (None, m.device) and target in (None, m.target)]

    def _is_correct(self, number: int, device: str, target: str) -> bool:
        record = self._records[number]
        if not isinstance(record, dict):
            return self._row(number).correct  # raises its error
        return (record.get("device"), record.get("target"), record.get("outcome")) == (device, target, "correct")

    def _problem(self, key: str, number: int) -> Problem:
        try:
            return read_problem(key)
        except ValueError as error:
            raise _wrong(self._origin, number, str(error)) from error

    def _row(self, number: int) -> Measurement:
        if number not in self._read:
            self._read[number] = _row(self._records[number], number, self._origin)
        return self._read[number]
