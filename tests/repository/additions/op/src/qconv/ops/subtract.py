"""The op `subtract`: the saturating difference of two int8 arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from qconv.op import Array, Op, Option, Problem, Sample, Tensor, checked_size, read_integer, read_key


@dataclass(frozen=True, eq=False)
class Subtract(Problem):
    op: ClassVar[str] = "subtract"
    count: int
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", checked_size("count", self.count, 1))
        self._name(f"subtract:count={self.count}")

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("a", (self.count,), "int8"), Tensor("b", (self.count,), "int8"))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.count,), "int8"),)

    @property
    def io_bytes(self) -> int:
        return 3 * self.count

    @property
    def extents(self) -> dict[str, int]:
        return {"count": self.count}

    @property
    def kinds(self) -> tuple[object, ...]:
        return ()


def read(key: str) -> Subtract:
    _, given = read_key(key, ())
    if set(given) != {"count"}:
        raise ValueError(f"the key {key!r} must give count, and nothing else")
    return Subtract(read_integer("count", given["count"]))


def ask(given: dict[str, Any]) -> Subtract:
    return Subtract(given["count"])


def draw(problem: Subtract, seed: int, fixed: dict[str, int]) -> Sample:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-128, 128, (2, problem.count), dtype=np.int8)
    return Sample((a, b))


def compute(problem: Subtract, drawn: Sample) -> tuple[Array, ...]:
    a, b = (array.astype(np.int32) for array in drawn.arrays)
    return (np.clip(a - b, -128, 127).astype(np.int8),)


OP = Op(
    name="subtract",
    says="One tensor less another.",
    problems=(Subtract,),
    read=read,
    ask=ask,
    options=(Option("count", "subtract: elements of each array.", "integer", required=True),),
    draw=draw,
    compute=compute,
)
