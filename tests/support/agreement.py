"""The agreement of a session's default meaning with `bits="onnxruntime"`, which has the bits of ONNX Runtime itself: of
the outputs of whole networks, and of single layers that are given equal inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import numpy_helper

from qconv.network import Value
from qconv.onnx import Session

INTEGERS = ("int8", "uint8")
ALONE_BATCHES = 4
# Returns what a caller decides by an output, such as the numbers of the largest channels.
Decide = Callable[[Any], Any]


@dataclass(frozen=True)
class Integers:
    """Counts of integers: how many differ by one, and by more."""

    elements: int = 0
    by_one: int = 0
    by_more: int = 0

    @classmethod
    def of(cls, differences: Any) -> Integers:
        found = np.abs(differences)
        return cls(found.size, int((found == 1).sum()), int((found > 1).sum()))

    def __add__(self, other: Integers) -> Integers:
        return Integers(self.elements + other.elements, self.by_one + other.by_one, self.by_more + other.by_more)

    @property
    def share(self) -> float:
        """Return the share of integers that differ."""
        return (self.by_one + self.by_more) / self.elements if self.elements else 0.0


@dataclass
class Agreement:
    """Comparisons of outputs. `outputs` are integers, or floats that a DequantizeLinear makes, in its quanta; `largest`
    is the largest difference of other floats over the range of their output. `layers` are by ops, of layers whose
    inputs were ONNX Runtime's; `of_floats` are their largest differences where they make floats. `layers_compared` of
    `layers_in_all` ended in a tensor that ONNX Runtime has."""

    outputs: Integers = field(default_factory=Integers)
    largest: float | None = None
    same: int = 0
    decisions: int = 0
    layers: dict[str, Integers] = field(default_factory=dict)
    of_floats: dict[str, float] = field(default_factory=dict)
    layers_compared: int = 0
    layers_in_all: int = 0

    @property
    def decided_alike(self) -> float | None:
        return self.same / self.decisions if self.decisions else None

    @property
    def alone(self) -> Integers:
        return sum(self.layers.values(), Integers())

    def add_output(self, got: Any, want: Any, quantum: float | None, decide: Decide) -> None:
        if quantum is not None:
            self.outputs += Integers.of(np.rint((got.astype(np.float64) - want) / quantum))
        elif str(want.dtype) in INTEGERS:
            self.outputs += Integers.of(got.astype(np.int32) - want)
        elif want.dtype.kind == "f":
            self.largest = max(self.largest or 0.0, of_range(got, want))
        mine, theirs = (np.ravel(decide(array)) for array in (got, want))
        self.same += int((mine == theirs).sum())
        self.decisions += theirs.size

    def add_layer(self, op: str, got: Any, want: Any, quantum: float | None = None) -> None:
        """Compare what a layer makes: integers, or floats in quanta where a DequantizeLinear makes them."""
        self.layers_compared += 1
        if quantum is not None:
            got, want = np.rint(got / quantum), np.rint(want / quantum)
        elif want.dtype.kind == "f":
            self.of_floats[op] = max(self.of_floats.get(op, 0.0), of_range(got, want))
            return
        self.layers[op] = self.layers.get(op, Integers()) + Integers.of(got.astype(np.int64) - want.astype(np.int64))


def of_range(got: Any, want: Any) -> float:
    """Return the largest difference over the range of what is wanted."""
    span = max(float(np.ptp(want)), 1e-30)
    return float(np.abs(got.astype(np.float64) - want).max()) / span


def largest_channel(y: Any) -> Any:
    """Return the numbers of the largest channels, or integers as they are."""
    if y.dtype.kind != "f" or y.ndim < 2 or y.shape[1] == 1:
        return y if y.dtype.kind != "f" else []
    return y.argmax(1)


def measured(
    model: onnx.ModelProto,
    batches: Iterable[dict[str, Any]],
    decide: Decide = largest_channel,
    reference: Any = None,
    config: Mapping[str, str] | None = None,
) -> Agreement:
    """Run a quantized model of known shapes by default, and in ONNX Runtime with this config, or in the session that is
    given. Without one, the layers are compared one by one as well, in the first batches."""
    session = Session(model, "cpu", fused_convolutions=False, pools_in_convolutions=False)
    theirs = reference or networks.reference(model, config)
    alone = None if reference else Alone(session, model, config)
    found = Agreement()
    for at, feeds in enumerate(batches):
        add_outputs(found, model, session.run(None, feeds), theirs.run(list(session.output_names), feeds), decide)
        if alone is not None and at < ALONE_BATCHES:
            alone.add(feeds, found)
    return found


def add_outputs(found: Agreement, model: onnx.ModelProto, got: list[Any], want: list[Any], decide: Decide) -> None:
    """Compare all outputs of a model."""
    for value, mine, theirs in zip(model.graph.output, got, want, strict=True):
        found.add_output(mine, theirs, quantum(model, value.name), decide)


class Alone:
    """The layers of a session one by one: each is given ONNX Runtime's tensors. A tensor that ONNX Runtime's model
    lacks, such as one in another order of axes, is what the layers before made of ONNX Runtime's. Layers that ONNX
    Runtime runs are left out."""

    def __init__(self, session: Session, model: onnx.ModelProto, config: Mapping[str, str] | None = None) -> None:
        self._device, self._runner = session.device, session._described.runner
        layers = [layer for layer in self._runner._in_order() if layer.key in self._runner._steps]
        self._steps = [self._runner._steps[layer.key] for layer in layers]
        known = {name for node in model.graph.node for name in node.output if name}
        asked = dict.fromkeys(name for one in self._steps for name in (*one.inputs, one.y) if name in known)
        self._names, self._quanta = tuple(asked), {name: quantum(model, name) for name in asked}
        self._theirs = networks.reference(networks.with_outputs(model, self._names), config)

    def add(self, feeds: dict[str, Any], found: Agreement) -> None:
        theirs = dict(zip(self._names, self._theirs.run(list(self._names), feeds), strict=True))
        values = {**feeds, **theirs}
        found.layers_in_all += len(self._steps)
        for one in self._steps:
            y = self._made(one, values)
            values.setdefault(one.y, y)
            if one.y in theirs:
                op = " ".join(dict.fromkeys(part.op.removeprefix("com.microsoft.") for part in one.layer.unfolded))
                found.add_layer(op, y, theirs[one.y], self._quanta[one.y])

    def _made(self, one: Any, values: Mapping[str, Any]) -> Any:
        prepared = self._runner._prepare(one, tuple(values[name].shape for name in one.inputs))
        assert prepared is not None, f"{one.layer.name} runs elsewhere"
        return prepared(*(Value(self._device, host=values[name]) for name in one.inputs)).on_host


def quantum(model: onnx.ModelProto, name: str) -> float | None:
    """Return the scale of the DequantizeLinear that makes an output, or None where something else does."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if name in node.output and node.op_type == "DequantizeLinear" and node.input[1] in held:
            return float(np.max(numpy_helper.to_array(held[node.input[1]])))
    return None
