"""The op `channel_shuffle`: interleaves the channels of several groups, as in ShuffleNet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from qconv.op import FULL, LARGEST, WIDEST, Array, Op, Option, Sample, Tensor, alignment, checked_size
from qconv.sampling import operands
from qconv.tensor_ops.problem import TensorOp

# A thread holds one element of every group.
MOST_GROUPS = 64


@dataclass(frozen=True, eq=False)
class ChannelShuffle(TensorOp):
    """A shuffle of `rows` rows of `groups` groups of `width` elements each. A row of the output has the first element
    of each group, then the second of each, and so on."""

    op: ClassVar[str] = "channel_shuffle"

    rows: int
    groups: int
    width: int
    x_type: str = "int8"
    key: str = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    numbers: ClassVar[tuple[str, ...]] = ("rows", "groups", "width")
    types: ClassVar[tuple[str, ...]] = ("x_type",)

    def __post_init__(self) -> None:
        self._check_fields()
        checked_size("groups", self.groups, 1, MOST_GROUPS)
        if self.elements > LARGEST:
            raise ValueError(f"x has {self.elements} elements; at most {LARGEST} are supported: split rows")
        self._name_by_fields()

    @classmethod
    def of(cls, rows: int, channels: int, groups: int, x_type: str) -> Self:
        if checked_size("groups", groups, 1, MOST_GROUPS) and channels % groups:
            raise ValueError(f"groups={groups} does not divide {channels} channels: all groups have as many")
        return cls(rows, groups, channels // groups, x_type)

    @property
    def elements(self) -> int:
        return self.rows * self.groups * self.width

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return (Tensor("x", (self.rows, self.groups, self.width), self.x_type),)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return (Tensor("y", (self.rows, self.width, self.groups), self.x_type),)

    @property
    def extents(self) -> dict[str, int]:
        return {"elements": min(self.elements, FULL), "groups": self.groups}

    @property
    def kinds(self) -> tuple[object, ...]:
        return ()  # the type does not matter, because bytes are only moved

    @property
    def shape_class(self) -> tuple[object, ...]:
        return (alignment(self.width, WIDEST),)


def draw(problem: ChannelShuffle, seed: int, fixed: dict[str, int]) -> Sample:
    """Draw uniform bytes."""
    return Sample((operands.uniform(problem.x_type, problem.inputs[0].shape, np.random.default_rng(seed)),))


def compute(problem: ChannelShuffle, drawn: Sample) -> tuple[Array, ...]:
    (x,) = drawn.arrays
    return (np.ascontiguousarray(x.transpose(0, 2, 1)),)


def _asked(given: dict[str, Any]) -> ChannelShuffle:
    return ChannelShuffle.of(given["rows"], given["c"], given["groups"], given.get("x_type", "int8"))


OP = Op(
    name="channel_shuffle",
    says="Channels dealt out in turn, group by group.",
    problems=(ChannelShuffle,),
    read=ChannelShuffle.read,
    ask=_asked,
    options=(
        Option("rows", "channel_shuffle: pixels of all images.", "integer", required=True),
        Option("c", "input channels", "integer", required=True),
        Option("groups", "channel_shuffle: groups of channels.", "integer", required=True),
        Option("x_type", "channel_shuffle: int8 (default), uint8.", metavar="TYPE"),
    ),
    draw=draw,
    compute=compute,
)
