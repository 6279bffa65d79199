"""A quantized model beside the float model that it was made from: the error of each layer and of the outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from qconv.onnx.model import loaded, session_with, source_of
from qconv.onnx.options import EXACT_SUMS, Bits, settings
from qconv.onnx.quantizer import PRODUCTS
from qconv.onnx.runtimes import Runtime, Runtimes
from qconv.onnx.session import Session

# Ops that a convolution's kernel computes as well.
ACTIVATIONS = ("Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid")


@dataclass
class Ratio:
    """The signal and the noise of all samples, as sums of squares."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: Any, given: Any) -> None:
        self.signal += float(np.sum(np.square(wanted, dtype=np.float64)))
        self.noise += float(np.sum(np.square(np.subtract(given, wanted, dtype=np.float64))))

    @property
    def decibels(self) -> float | None:
        """Return 10 log10(signal / noise), or None where there is no noise, or no signal."""
        return 10 * math.log10(self.signal / self.noise) if self.signal and self.noise else None

    def __str__(self) -> str:
        if self.decibels is None:
            return "exact" if not self.noise else "no signal"
        return f"{self.decibels:.1f} dB"


@dataclass(frozen=True)
class Steps:
    """The integers of a quantized tensor: scale, zero point, type."""

    scale: Any
    zero_point: Any
    low: int
    high: int

    def rounded(self, values: Any) -> tuple[Any, int]:
        """Return real values rounded to the steps, and how many lie beyond the ends."""
        steps = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero_point
        clipped = np.clip(steps, self.low, self.high)
        return (clipped - self.zero_point) * self.scale, int(np.count_nonzero(steps != clipped))


@dataclass
class Layer:
    """The error of the tensor that a layer makes. `error` is against the float model, with the errors of all layers in
    front; `rounding` is that of rounding the float model's tensor alone; `clipped` of `values` lie beyond the ends of
    the type."""

    name: str
    op: str
    tensor: str
    steps: Steps
    error: Ratio = field(default_factory=Ratio)
    rounding: Ratio = field(default_factory=Ratio)
    clipped: int = 0
    values: int = 0

    def add(self, wanted: Any, given: Any) -> None:
        self.error.add(wanted, given)
        rounded, clipped = self.steps.rounded(wanted)
        self.rounding.add(wanted, rounded)
        self.clipped += clipped
        self.values += wanted.size

    @property
    def clipped_share(self) -> float:
        return self.clipped / self.values if self.values else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "op": self.op,
            "tensor": self.tensor,
            "error_db": self.error.decibels,
            "rounding_db": self.rounding.decibels,
            "clipped_share": self.clipped_share,
        }


@dataclass
class Output:
    """The error of an output. Of tensors with two or more axes, `equal` of `places` have the same largest element along
    axis 1, the classes of a classifier or of a pixel."""

    name: str
    error: Ratio = field(default_factory=Ratio)
    equal: int = 0
    places: int = 0

    def add(self, wanted: Any, given: Any) -> None:
        self.error.add(wanted, given)
        if wanted.ndim >= 2 and wanted.shape[1] > 1:
            same = np.argmax(wanted, axis=1) == np.argmax(given, axis=1)
            self.equal += int(np.count_nonzero(same))
            self.places += same.size

    @property
    def agreement(self) -> float | None:
        return self.equal / self.places if self.places else None

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "error_db": self.error.decibels, "argmax_agreement": self.agreement}


@dataclass(frozen=True)
class Comparison:
    """The layers in the order of the model, and its outputs: by ONNX Runtime, and by a session on `device` if one was
    given. `runtimes` are the other systems, if they were asked for."""

    layers: tuple[Layer, ...]
    outputs: tuple[Output, ...]
    samples: int
    on_device: tuple[Output, ...] = ()
    device: str | None = None
    runtimes: tuple[Runtime, ...] = ()

    @property
    def worst(self) -> list[Layer]:
        """Return the layers with the largest error first; those that are exact are none of them."""
        known = [(one.error.decibels, at, one) for at, one in enumerate(self.layers) if one.error.decibels is not None]
        return [one for _, _, one in sorted(known, key=lambda each: each[:2])]

    def as_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "layers": [one.as_dict() for one in self.layers],
            "outputs": [one.as_dict() for one in self.outputs],
            "device": self.device,
            "on_device": [one.as_dict() for one in self.on_device],
            "runtimes": [one.as_dict() for one in self.runtimes],
        }


def compare(
    real: str | Path,
    quantized: str | Path,
    samples: Iterable[Mapping[str, Any]],
    device: str | None = None,
    runtimes: bool = False,
) -> Comparison:
    """Run both models on the samples. Tensors are matched by the names that ONNX Runtime's quantizer keeps, in the QDQ
    format. `device` also runs the quantized model in a session there, and `runtimes` compares the modes of other
    systems."""
    protos = loaded(source_of(real)), loaded(source_of(quantized))
    layers = _layers(*protos)
    names = [value.name for value in protos[0].graph.output]
    if names != [value.name for value in protos[1].graph.output]:
        raise ValueError(f"{quantized} has other outputs than {real}: give a model that was quantized from it")
    config = settings(EXACT_SUMS, Bits.INTEGERS)
    tensors = [one.tensor for one in layers.values()]
    inside = session_with(protos[0], list(layers), config), session_with(protos[1], tensors, config)
    whole = session_with(protos[1], [], config)
    session = None if device is None else Session(quantized, device)
    outputs = tuple(Output(name) for name in names)
    on_device = () if session is None else tuple(Output(name) for name in names)
    others = Runtimes(quantized) if runtimes else None
    count = 0
    for feeds in samples:
        count += 1
        if others is not None:
            others.add(feeds)
        wanted, given = (one.run(None, dict(feeds)) for one in inside)
        for layer, ours, theirs in zip(layers.values(), wanted[len(names) :], given[len(names) :], strict=True):
            layer.add(ours, theirs)
        for output, ours, theirs in zip(outputs, wanted, whole.run(None, dict(feeds)), strict=False):
            output.add(ours, theirs)
        if session is not None:
            for output, ours, theirs in zip(on_device, wanted, session.run(None, feeds), strict=False):
                output.add(ours, theirs)
    where, modes = None if session is None else session.device.name, () if others is None else others.found
    return Comparison(tuple(layers.values()), outputs, count, on_device, where, modes)


def _layers(real: onnx.ModelProto, quantized: onnx.ModelProto) -> dict[str, Layer]:
    """Return the layers of both models by the float model's tensor. `tensor` is the quantized model's, as it is read
    there. A layer with weights is named instead of the activation behind it. Raise ValueError where no tensor is in
    both."""
    made_by = {name: node for node in real.graph.node for name in node.output}
    steps_of = {node.output[0]: node for node in quantized.graph.node if node.op_type == "QuantizeLinear"}
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in quantized.graph.initializer}
    ends = {value.name for value in (*real.graph.output, *quantized.graph.output)}
    found: dict[str, Layer] = {}
    for node in quantized.graph.node:
        quantizing = steps_of.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        maker = None if quantizing is None else made_by.get(quantizing.input[0])
        if quantizing is None or maker is None or {quantizing.input[0], node.output[0]} & ends:
            continue
        name = quantizing.input[0]
        scale, zero = (held.get(each) for each in quantizing.input[1:3])
        if scale is not None and zero is not None and scale.ndim == 0 and name not in found:
            limits = np.iinfo(zero.dtype)
            steps = Steps(float(scale), int(zero), int(limits.min), int(limits.max))
            weighted = made_by.get(maker.input[0]) if maker.op_type in ACTIVATIONS else None
            named = maker if weighted is None or weighted.op_type not in PRODUCTS else weighted
            op = maker.op_type if named is maker else f"{named.op_type} {maker.op_type}"
            found[name] = Layer(named.name or name, op, node.output[0], steps)
    if not found:
        raise ValueError(
            "no tensor of the quantized model has the name of one of the float model: give a model in the QDQ format, "
            "as qconv-tune quantize makes it, and the model that it was made from"
        )
    return found
