"""DepthToSpace and SpaceToDepth: blocks of pixels that become channels, or the other way round, in one copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qconv.device import Device
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Prepared, Unserved
from qconv.network.graph.value import Shape, Value
from qconv.network.layers.movement import Moving

# The order of the parts of the channels in DepthToSpace: the block's row, its column, and the rest.
MODES = ("DCR", "CRD")
# The order of axes in which a block's rows lie next to the rows of pixels: it is its own inverse.
ROWS_BESIDE_PIXELS = (0, 1, 3, 2, 4, 5)


@dataclass(frozen=True, eq=False)
class Blocks(Moving):
    """A move of square blocks. `parts_first`: the rest of the channels varies fastest, as it always does in
    SpaceToDepth."""

    size: int
    to_space: bool
    parts_first: bool = True

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        (shape,) = shapes
        if len(shape) != 4:
            raise ValueError(f"x has shape {shape}; {self.layer.op} takes four axes")
        n, c, h, w = shape
        size = self.size
        if self.to_space:
            if c % size**2:
                raise ValueError(f"x has {c} channels, which is no multiple of blocksize={size} squared")
            rest = c // size**2
            split = (n, h, w, size, size, rest) if self.parts_first else (n, h, w, rest, size, size)
            axes = ROWS_BESIDE_PIXELS if self.parts_first else (0, 1, 4, 2, 5, 3)
            return _Blocks(split, axes, (n, h * size, w * size, rest), device)
        if h % size or w % size:
            raise ValueError(f"x has {h} x {w} pixels, which are no multiples of blocksize={size}")
        split = (n, h // size, size, w // size, size, c)
        return _Blocks(split, ROWS_BESIDE_PIXELS, (n, h // size, w // size, c * size**2), device)


class _Blocks:
    """A move prepared for one shape. Its tensors have the channels last."""

    why = "no kernel: the same bytes in another order"
    problems = ()

    def __init__(self, split: Shape, axes: Sequence[int], made: Shape, device: Device) -> None:
        self._split, self._axes, self._made, self._device = split, tuple(axes), made, device

    def __call__(self, *inputs: Value) -> Value:
        (x,) = inputs
        array = self._device.contiguous(x.channels_last).reshape(self._split).transpose(self._axes)
        return Value(self._device, channels_last=self._device.contiguous(array).reshape(self._made))


def depth_to_space(reading: Reading) -> Blocks:
    mode = reading.layer.attributes.get("mode", b"DCR").decode()
    if mode not in MODES:
        raise Unserved(f"mode={mode!r} is not one of {', '.join(MODES)}")
    return _blocks(reading, to_space=True, parts_first=mode == "DCR")


def space_to_depth(reading: Reading) -> Blocks:
    return _blocks(reading, to_space=False)


def _blocks(reading: Reading, to_space: bool, parts_first: bool = True) -> Blocks:
    x, _ = reading.x()
    size = int(reading.layer.attributes["blocksize"])
    return Blocks(reading.layer, (x,), reading.layer.outputs[0], size, to_space, parts_first)
