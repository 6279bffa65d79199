"""NonMaxSuppression on a kernel. How many boxes it keeps is counted on the device, and known when the run is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qconv.device import Device
from qconv.instances.load.serving import lookup
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.reading import Array, Reading, read_each
from qconv.network.graph.served import Prepared, Reason, Served, Unserved
from qconv.network.graph.value import Counted, Shape, Value
from qconv.tensor_ops import NonMaxSuppression


@dataclass(frozen=True, eq=False)
class Suppressed:
    """A NonMaxSuppression layer. `thresholds` are of the intersection over the union and of the score; NaN for any
    score. A constant input is in `held`."""

    layer: Layer
    most: int
    center: bool
    thresholds: Array
    held: Mapping[str, Array]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(name for name in self.layer.inputs[:2] if name not in self.held)

    @property
    def y(self) -> str:
        return self.layer.outputs[0]

    def prepare(self, shapes: Sequence[Shape], device: Device) -> Prepared:
        return _Suppressed(self, shapes, device)


class _Suppressed:
    """A suppression prepared for boxes and scores of one shape each."""

    def __init__(self, one: Suppressed, shapes: Sequence[Shape], device: Device) -> None:
        known = dict(zip(one.inputs, shapes, strict=True))
        boxes, scores = (known.get(name) or one.held[name].shape for name in one.layer.inputs[:2])
        if len(scores) != 3 or boxes != (scores[0], scores[-1], 4):
            raise ValueError(f"boxes have shape {boxes}, and scores {scores}: they are (B, N, 4) and (B, C, N)")
        images, classes, count = scores
        problem = NonMaxSuppression(images, classes, count, min(one.most, count), one.center)
        instance = lookup(problem, device.spec)
        self.problems = (problem,)
        self.why = instance.why
        self._device, self._packed = device, instance.pack(device.upload(one.thresholds))
        self._names, self._inputs = one.layer.inputs[:2], one.inputs
        self._held = {name: device.upload(np.ascontiguousarray(array)) for name, array in one.held.items()}

    def __call__(self, *inputs: Value) -> Value:
        arrays = self._held | {name: x.in_order(False) for name, x in zip(self._inputs, inputs, strict=True)}
        y = self._packed.in_sequence(*(arrays[name] for name in self._names))
        return Counted(self._device, there=y)


def non_max_suppression(reading: Reading) -> Suppressed:
    network = reading.network
    held = {name: network.constants[name] for name in reading.layer.inputs[:2] if name in network.constants}
    if len(held) == 2:
        raise Unserved("its boxes and its scores are constants")
    most, overlap, score = (
        None if (array := reading.optional(at, what)) is None else array.reshape(-1)[0]
        for at, what in ((2, "number of boxes"), (3, "threshold of the overlap"), (4, "threshold of the score"))
    )
    if most is None or most < 1:
        raise Unserved("it keeps no box: max_output_boxes_per_class is not given, or 0")
    thresholds = np.array([0 if overlap is None else overlap, np.nan if score is None else score], np.float32)
    center = bool(reading.layer.attributes.get("center_point_box", 0))
    return Suppressed(reading.layer, int(most), center, thresholds, held)


def serve_suppressions(network: Network, served: Mapping[str, Served]) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the served layers with the suppressions that the kernel computes, and why the others are not served."""
    return read_each(network, served, "NonMaxSuppression", non_max_suppression)
