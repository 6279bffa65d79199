"""The agreement of a session's default meaning with `bits="onnxruntime"`, which has the bits of ONNX Runtime itself: of
the outputs of whole networks, and of single layers that are given equal inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import quantized_networks as networks
from onnx import numpy_helper

from qconv.network import Value
from qconv.onnx import Session

INTEGERS = ("int8", "uint8")
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
    inputs were ONNX Runtime's."""

    outputs: Integers = field(default_factory=Integers)
    largest: float | None = None
    same: int = 0
    decisions: int = 0
    layers: dict[str, Integers] = field(default_factory=dict)

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
            span = max(float(np.ptp(want)), 1e-30)
            self.largest = max(self.largest or 0.0, float(np.abs(got.astype(np.float64) - want).max()) / span)
        mine, theirs = (np.ravel(decide(array)) for array in (got, want))
        self.same += int((mine == theirs).sum())
        self.decisions += theirs.size


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
) -> Agreement:
    """Run a quantized model of known shapes as it is by default, and in ONNX Runtime, or in the session that is given.
    Without one, the first of the batches is given to the layers one by one as well."""
    session, found = Session(model, "cpu", fused_convolutions=False, pools_in_convolutions=False), Agreement()
    quanta = {value.name: _quantum(model, value.name) for value in model.graph.output}
    theirs = reference or networks.reference(model)
    for at, feeds in enumerate(batches):
        wanted = theirs.run(list(session.output_names), feeds)
        for name, got, want in zip(session.output_names, session.run(None, feeds), wanted, strict=True):
            found.add_output(got, want, quanta[name], decide)
        if reference is None and not at:
            found.layers = layers_alone(session, model, feeds)
    return found


def layers_alone(session: Session, model: onnx.ModelProto, feeds: dict[str, Any]) -> dict[str, Integers]:
    """Return the differences of integer layers whose inputs are ONNX Runtime's, by their ops."""
    runner = session._described.runner
    steps = [runner._steps[layer.key] for layer in runner._in_order() if layer.key in runner._steps]
    known = {name for node in model.graph.node for name in node.output if name}
    names = [name for name in dict.fromkeys(name for one in steps for name in (*one.inputs, one.y)) if name in known]
    values = networks.tensors_by_ort(model, feeds, names) | feeds
    found: dict[str, Integers] = {}
    for one in steps:
        if not {*one.inputs, one.y} <= values.keys() or str(values[one.y].dtype) not in INTEGERS:
            continue
        prepared = runner._prepare(one, tuple(values[name].shape for name in one.inputs))
        if prepared is None:
            continue
        y = prepared(*(Value(session.device, host=values[name]) for name in one.inputs)).on_host
        op = " ".join(dict.fromkeys(part.op.removeprefix("com.microsoft.") for part in one.layer.unfolded))
        found[op] = found.get(op, Integers()) + Integers.of(y.astype(np.int32) - values[one.y])
    return found


def _quantum(model: onnx.ModelProto, name: str) -> float | None:
    """Return the scale of the DequantizeLinear that makes an output, or None where something else does."""
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if name in node.output and node.op_type == "DequantizeLinear" and node.input[1] in held:
            return float(np.max(numpy_helper.to_array(held[node.input[1]])))
    return None
