"""A timed row: what was run, where, with which toolchain, and with which outcome. Also the order of rows by speed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from qconv.generator import Config, config_from_json
from qconv.op import Problem, quoted
from qconv.ops.registry import parse

# The outcomes of the FAIR T4 results format, which makes its export a loop.
OUTCOMES = ("correct", "constraints", "compile", "runtime", "timeout", "correctness")
# Medians within this fraction of each other are a tie: repeated runs of one kernel differ as much.
NOISE = 0.01
# Phase of a row whose few repeats only showed that it is far slower than the best.
SCREENED = "screened"
# Phases of a row measured in sequence, among the launches of a network: its last race kept the config, or chose another
# one.
KEPT, LOST = "kept in sequence", "lost in sequence"
# The largest integer that every database stores.
INT_MAX = 2**31 - 1


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Measurement:
    """A measurement. Correct rows have times and their median; all others have a reason. Unknown values are None."""

    problem: Problem
    config: Config
    device: str  # name, such as "NVIDIA H200"
    target: str
    toolchain: str  # compiler and version, such as "nvrtc 13.0"
    digest: str  # digest of the generated source
    outcome: str
    reason: str | None = None
    times_us: tuple[float, ...] = ()
    median_us: float | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    smem_bytes: int | None = None
    compile_ms: float | None = None
    protocol: dict[str, Any] | None = field(default=None, hash=False)  # timing protocol, by field name
    created_at: datetime = field(default_factory=_now)

    def __post_init__(self) -> None:
        if not isinstance(self.problem, Problem):
            raise ValueError(f"problem={self.problem!r} must be a qconv problem")
        if not isinstance(self.config, Config):
            raise ValueError(f"config={self.config!r} must be a qconv.generator.Config")
        for name in ("device", "target", "toolchain", "digest"):
            _check_word(name, getattr(self, name))
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome={quoted(self.outcome)} is not one of {', '.join(OUTCOMES)}")
        self._check_times()
        self._check_reason()
        for name in ("registers", "spill_bytes", "smem_bytes"):
            _check_count(name, getattr(self, name))
        if self.compile_ms is not None:
            object.__setattr__(self, "compile_ms", _number("compile_ms", self.compile_ms))
        if self.protocol is not None:
            object.__setattr__(self, "protocol", _plain(self.protocol))
        if not isinstance(self.created_at, datetime) or self.created_at.tzinfo is None:
            raise ValueError(f"created_at={self.created_at!r} must be a time with its zone: datetime.now(UTC)")
        object.__setattr__(self, "created_at", self.created_at.astimezone(UTC))

    def _check_times(self) -> None:
        if not isinstance(self.times_us, (tuple, list)):
            raise ValueError(f"times_us={quoted(self.times_us)} must be a list of numbers")
        times = tuple(_number("a time of times_us", time, above_zero=True) for time in self.times_us)
        object.__setattr__(self, "times_us", times)
        if self.outcome != "correct":
            if times or self.median_us is not None:
                raise ValueError(f"outcome={self.outcome!r} with times; only correct kernels are timed: leave them out")
            return
        if not times or self.median_us is None:
            raise ValueError("outcome='correct' without times_us and median_us; time the kernel before storing it")
        median = _number("median_us", self.median_us, above_zero=True)
        if not min(times) <= median <= max(times):
            raise ValueError(f"median_us={median} lies outside its times_us ({min(times)} to {max(times)})")
        object.__setattr__(self, "median_us", median)

    def _check_reason(self) -> None:
        if self.outcome == "correct":
            if self.reason is not None:
                raise ValueError(f"outcome='correct' with a reason ({quoted(self.reason)}); only failures have one")
            return
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise ValueError(f"outcome={self.outcome!r} with reason={quoted(self.reason)}; say why it failed")
        # A compiler's message may contain any byte, but a text column may not. Replace what it cannot store, so that no
        # failure is lost.
        clean = self.reason.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        object.__setattr__(self, "reason", clean)

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of a row: storing another row with this key replaces it. A config timed by itself and the same
        config in sequence have different keys."""
        return (
            str(self.problem),
            self.config.as_json(),
            self.device,
            self.target,
            self.toolchain,
            self.digest,
            *(("in sequence",) if self.in_sequence else ()),
        )

    @property
    def correct(self) -> bool:
        return self.outcome == "correct"

    @property
    def screened(self) -> bool:
        """True where only a few repeats were timed, because the kernel was far slower than the best."""
        return self._phase == SCREENED

    @property
    def in_sequence(self) -> bool:
        """True where the kernel was timed among the launches of a network. Such times compare only with each other."""
        return self._phase in (KEPT, LOST)

    @property
    def _phase(self) -> object:
        return None if self.protocol is None else self.protocol.get("phase")


def complexity(config: Config) -> int:
    """Return the product of the config's integers: smaller tiles, fewer pipeline stages and fewer splits are
    simpler."""
    return math.prod(max(1, value) for value in config.as_dict().values() if isinstance(value, int))


def ranked(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return the correct rows, fastest first. Screened rows follow all rows timed in full, because few repeats can be
    lucky."""
    return sorted((m for m in measurements if m.correct), key=lambda m: (m.screened, m.median_us))


def best_of(measurements: Iterable[Measurement]) -> Measurement | None:
    """Return the first row by rank. Ties within noise go to the simpler config."""
    order = ranked(measurements)
    timed = [(m.median_us, m) for m in order if m.median_us is not None and m.screened == order[0].screened]
    if not timed:
        return None
    if len(timed) == 1:
        return timed[0][1]
    limit = min(median for median, _ in timed) * (1 + NOISE)
    tied = [(complexity(m.config), median, m.key, m) for median, m in timed if median <= limit]
    # The key makes the answer independent of the order in which the rows are stored.
    return min(tied, key=lambda row: row[:3])[3]


def kept_of(in_sequence: Iterable[Measurement]) -> Measurement | None:
    """Return the row that the last race of a network kept; of several networks, the one that was raced last."""
    kept = [m for m in in_sequence if m._phase == KEPT]
    return max(kept, key=lambda m: (m.created_at, m.key), default=None)


def best_of_each(measurements: Iterable[Measurement]) -> list[Measurement]:
    """Return the best row of every problem, device and target, in the order of their names."""
    return [best for group in rivals(measurements) if (best := best_of(group)) is not None]


def rivals(measurements: Iterable[Measurement]) -> list[list[Measurement]]:
    """Return the rows of every problem, device and target, in the order of their names."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for m in measurements:
        groups.setdefault((str(m.problem), m.device, m.target), []).append(m)
    return [group for _, group in sorted(groups.items())]


# Parsers of what a database column or a JSON file holds. Each raises ValueError for anything else.


def read_problem(key: object) -> Problem:
    if not isinstance(key, str):
        raise ValueError(f"problem={quoted(key)} must be the key of a problem")
    return _problem(key)


@lru_cache(maxsize=4096)
def _problem(key: str) -> Problem:
    problem = parse(key)
    if str(problem) != key:
        raise ValueError(f"problem={quoted(key)} is not in its canonical form, {str(problem)!r}")
    return problem


def read_config(text: object) -> Config:
    if not isinstance(text, str):
        raise ValueError(f"config={quoted(text)} must be JSON text")
    return _config(text)


@lru_cache(maxsize=4096)
def _config(text: str) -> Config:
    config = config_from_json(text)
    if config.as_json() != text:
        raise ValueError(f"config={quoted(text)} is not in its canonical form, {config.as_json()!r}")
    return config


def read_time(text: object) -> datetime:
    if isinstance(text, str):
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            time = None
        # One form only, because databases compare times as text.
        if time is not None and time.tzinfo is not None and time_text(time) == text:
            return time
    raise ValueError(f"created_at={quoted(text)} must be a UTC time like {time_text(datetime(2026, 1, 2, tzinfo=UTC))}")


def time_text(time: datetime) -> str:
    """Format a time with a constant width, so that texts sort as times do."""
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def _check_word(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{name}={quoted(value)} must be text of one line, and not empty")


def _check_count(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INT_MAX:
        raise ValueError(f"{name}={quoted(value)} must be an integer between 0 and {INT_MAX}, or None where unknown")


def _number(name: str, value: object, above_zero: bool = False) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and (number > 0 or (number == 0 and not above_zero)):
            return number
    rule = "positive" if above_zero else "not negative"
    raise ValueError(f"{name} is {quoted(value)}; it must be a finite number, {rule}")


def _plain(protocol: object) -> dict[str, Any]:
    """Return a copy as JSON gives it back, so that a stored row equals the given one and cannot be changed later."""
    try:
        copy = json.loads(json.dumps(protocol, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"protocol={quoted(protocol)} cannot be written as JSON: {error}") from None
    if not isinstance(copy, dict):
        raise ValueError(f"protocol={quoted(protocol)} must be a mapping from names to plain values")
    return copy
