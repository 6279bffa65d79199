"""An array of any shape seen as (outer, channels, inner), where the channels are the axes that have scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from qconv.op import checked_size

# None: one scale for the whole array. Otherwise an axis, or adjacent ones, or "token": all but the last.
Axis = int | Sequence[int] | str | None


@dataclass(frozen=True)
class View:
    """A caller's array as (outer, channels, inner). The channels are the axes from `first` up to, but not including,
    `last`."""

    shape: tuple[int, ...]
    first: int = 0
    last: int = 0
    block: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        outer, channels = prod(self.shape[: self.first]), prod(self.kept)
        return {"outer": outer, "channels": channels, "inner": prod(self.shape[self.last :]), "block": self.block}

    @property
    def kept(self) -> tuple[int, ...]:
        return self.shape[self.first : self.last]

    @property
    def scale_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shapes in which an array of scales is accepted."""
        before, after = self.shape[: self.first], self.shape[self.last :]
        if self.block:
            return ((*before, -(-self.kept[0] // self.block), *after),)
        return (self.kept, (prod(self.kept),), (*(1 for _ in before), *self.kept, *(1 for _ in after)))


def view_of(shape: tuple[int, ...], axis: Axis, block: Any = 0) -> View:
    rank, block = len(shape), checked_size("block", block, 0)
    if 0 in shape:
        raise ValueError(f"x has shape {shape} and so no element: there is nothing to convert; leave the call out")
    if axis is None:
        axes: list[Any] = []
    elif isinstance(axis, str):
        if axis != "token" or not rank:
            rule = "an array with axes" if axis == "token" else "an integer, neighbouring integers, 'token' or None"
            raise ValueError(f"axis={axis!r} with x of shape {shape}: it needs {rule}")
        axes = list(range(rank - 1))
    else:
        axes = list(axis) if isinstance(axis, (tuple, list)) else [axis]
        axes = [checked_size("axis", each, -rank, rank - 1) % rank for each in axes]
        if not axes or axes != list(range(axes[0], axes[0] + len(axes))):
            raise ValueError(f"axis={axis!r}: axes must be neighbours in their order, as in (0, 1); transpose x first")
    if block and len(axes) != 1:
        raise ValueError(f"block={block} with axis={axis!r}: blocks lie along one axis; give it as an integer")
    return View(shape, axes[0] if axes else 0, axes[-1] + 1 if axes else 0, block)
