"""A convolution with three axes as one of images: the nodes around it, with the geometry that sessions have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher

from qconv.network.layers.frames import CopiedFrames
from qconv.network.layers.volume import Images, Volume
from qconv.torch.pattern import REPLACES, Unmatched

aten = torch.ops.aten
# The order of axes in which frames are images, N, D, C, H, W: it is its own inverse.
FRAMES_FIRST = [0, 2, 1, 3, 4]
# The key, in a node's meta, of a view of a volume as images, which stays a view.
IS_VIEW = "qconv_view"


@dataclass(frozen=True)
class VolumeNodes:
    """The nodes that make images of volumes and volumes of images. `shape` is C, D, H, W, and `images` are those of one
    volume: the batch may be dynamic."""

    volume: Volume
    shape: tuple[int, ...]
    images: Images
    zero_point: int

    @classmethod
    def of(cls, values: Mapping[str, Any], shape: Any, filters: Any, zero_point: int) -> VolumeNodes:
        """Return the nodes of a call of conv3d. `shape` is its input's, `filters` that of its weights."""
        if shape is None or filters is None or not all(isinstance(extent, int) for extent in (*shape[1:], *filters)):
            raise Unmatched("the extents of its volumes or of its weights are not known")
        t, r, s = filters[2:]
        stride, dilation = (_triple(values[name]) for name in ("stride", "dilation"))
        pads = _pads(values["padding"], (t, r, s), dilation)
        attributes = {"strides": stride, "dilations": dilation, "pads": pads, "group": values["groups"]}
        volume = Volume((t, r, s), attributes)
        return cls(volume, tuple(shape[1:]), volume.images((1, *shape[1:])), zero_point)

    @property
    def window(self) -> dict[str, Any]:
        given = self.images.window
        return {"stride": given["stride"], "padding": given["pad"], "dilation": given["dilation"]}

    def weights(self, w: Any) -> Any:
        return torch.from_numpy(self.volume.filters(w.detach().cpu().numpy())).to(w.device)

    def of_x(self, x: Any) -> Any:
        """Return the images that the convolution reads. A copy of frames is one expression, with the orders of axes
        before and behind it."""
        frames = self.images.frames
        if frames is None:
            return self.of_y(x)
        return _call(aten.flatten.using_ints, _call(aten.permute.default, self._beside(x, frames), FRAMES_FIRST), 0, 1)

    def of_y(self, node: Any) -> Any:
        """Return a volume as images."""
        if self.volume.is_of_time:
            return _view(_call(aten.flatten.using_ints, node, 3, 4))
        return _view(_call(aten.flatten.using_ints, _view(_call(aten.permute.default, node, FRAMES_FIRST)), 0, 1))

    def back(self, images: Any) -> Any:
        """Return the images of the output as a volume."""
        if self.volume.is_of_time:
            return _view(_call(aten.unflatten.int, images, 3, list(self.shape[2:])))
        volumes = _view(_call(aten.unflatten.int, images, 0, [-1, self.images.shape[0]]))
        return _view(_call(aten.permute.default, volumes, FRAMES_FIRST))

    def value(self, of_volume: Any) -> Any:
        """Return an example of the images of the output, from one of its volume."""
        if not isinstance(of_volume, torch.Tensor):
            return None
        with enable_python_dispatcher():
            return of_volume.flatten(3, 4) if self.volume.is_of_time else of_volume.permute(FRAMES_FIRST).flatten(0, 1)

    def _beside(self, x: Any, copied: CopiedFrames) -> Any:
        """Return the frames under the filter beside each other in the channels of each group."""
        frames, groups = copied.frames, copied.groups
        last = (frames.images - 1) * frames.stride
        if frames.pads:
            pads = [0, 0, 0, 0, frames.before, frames.behind]
            x = _call(aten.constant_pad_nd.default, x, pads, self.zero_point)
        if groups > 1:
            x = _call(aten.unflatten.int, x, 1, [groups, -1])
        begins = [tap * frames.dilation for tap in range(frames.taps)]
        along = 2 + (groups > 1)
        parts = [_call(aten.slice.Tensor, x, along, begin, begin + last + 1, frames.stride) for begin in begins]
        made = _call(aten.cat.default, parts, along - 1) if len(parts) > 1 else parts[0]
        return _call(aten.flatten.using_ints, made, 1, 2) if groups > 1 else made


def _triple(given: Any) -> list[int]:
    values = [given] if isinstance(given, int) else list(given)
    return values * 3 if len(values) == 1 else values


def _pads(given: Any, taps: tuple[int, ...], dilation: list[int]) -> list[int]:
    """Return the pads in front of each axis, then those behind. With "same", the odd element is behind."""
    if not isinstance(given, str):
        return _triple(given) * 2
    rooms = [(size - 1) * gap if given == "same" else 0 for size, gap in zip(taps, dilation, strict=True)]
    return [room // 2 for room in rooms] + [room - room // 2 for room in rooms]


def _call(target: Any, *given: Any) -> Any:
    """Return a new node with its example, in the place where its graph inserts nodes."""
    nodes = given[0] if isinstance(given[0], list) else given[:1]
    made = nodes[0].graph.call_function(target, given)
    made.meta[REPLACES] = None  # no node of the graph as it was given
    values = [node.meta.get("val") for node in nodes]
    if all(isinstance(value, torch.Tensor) for value in values):
        with enable_python_dispatcher():  # a dynamic batch stays one
            made.meta["val"] = target(values if isinstance(given[0], list) else values[0], *given[1:])
    return made


def _view(node: Any) -> Any:
    node.meta[IS_VIEW] = True
    return node
