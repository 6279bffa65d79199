"""The error that each quantized layer makes by itself: a model of floats in which it alone is quantized."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from qconv.onnx.comparison import ACTIVATIONS, Output, Ratio
from qconv.onnx.model import loaded, session_with, source_of
from qconv.onnx.options import EXACT_SUMS, Bits, settings
from qconv.onnx.quantizer import PRODUCTS, prepared


@dataclass(frozen=True)
class Sensitive:
    """A layer, where all others are floats. `own` is the error of its tensor, of floats that are rounded in front of it
    and behind; `outputs` are the errors of the model's outputs."""

    name: str
    op: str
    own: Ratio = field(default_factory=Ratio)
    outputs: tuple[Output, ...] = ()

    @property
    def worst(self) -> Ratio:
        """The error of the output that suffers most."""
        return min((one.error for one in self.outputs), key=_order)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "op": self.op,
            "own_db": self.own.decibels,
            "outputs_db": self.worst.decibels,
            "outputs": [one.as_dict() for one in self.outputs],
        }


def _order(ratio: Ratio) -> float:
    """Return decibels to sort by; what has no noise is last."""
    return math.inf if ratio.decibels is None else ratio.decibels


def sensitivity(
    real: str | Path,
    quantized: str | Path,
    samples: Iterable[Mapping[str, Any]],
    watch: Callable[[Sequence[onnx.NodeProto]], Iterable[onnx.NodeProto]] = iter,
) -> tuple[Sensitive, ...]:
    """Return the layers with weights, the one whose rounding changes the outputs most first. `quantized` is in the QDQ
    format, made from `real` by ONNX Runtime's quantizer. Samples are kept: all layers are run on them. `watch` iterates
    over the layers."""
    graphs = _Graphs(prepared(source_of(real)), loaded(source_of(quantized)))
    layers = [node for node in graphs.real.graph.node if graphs.is_quantized(node)]
    if not layers:
        raise ValueError(
            "the quantized model has no layer of the float model with quantized weights: give a model in the QDQ "
            "format, as qconv-tune quantize makes it, and the model that it was made from"
        )
    config, kept = settings(EXACT_SUMS, Bits.INTEGERS), [dict(feeds) for feeds in samples]
    names = [value.name for value in graphs.real.graph.output]
    whole = session_with(graphs.real, [], config)
    wanted = [whole.run(names, feeds) for feeds in kept]
    found: list[Sensitive] = []
    for node in watch(layers):
        alone = _Alone(graphs, node)
        layer = Sensitive(node.name, alone.op, outputs=tuple(Output(name) for name in names))
        session = session_with(alone.model, [alone.real, alone.tensor], config)
        for feeds, outputs in zip(kept, wanted, strict=True):
            given = session.run(None, feeds)
            layer.own.add(*given[-2:])
            for output, ours, theirs in zip(layer.outputs, outputs, given, strict=False):
                output.add(ours, theirs)
        found.append(layer)
    return tuple(sorted(found, key=lambda one: _order(one.worst)))


class _Graphs:
    """A float model and the quantized one, whose nodes and tensors have the same names."""

    def __init__(self, real: onnx.ModelProto, quantized: onnx.ModelProto) -> None:
        self.real = real
        self._held = {tensor.name: tensor for tensor in quantized.graph.initializer}
        self._nodes = {node.name: node for node in quantized.graph.node}
        self._made_by = {name: node for node in quantized.graph.node for name in node.output}
        self._rounds = {node.input[0]: node for node in quantized.graph.node if node.op_type == "QuantizeLinear"}
        self._reads = {node.input[0]: node for node in quantized.graph.node if node.op_type == "DequantizeLinear"}

    def is_quantized(self, node: onnx.NodeProto) -> bool:
        """True for a product whose operands are dequantized."""
        twin = self._nodes.get(node.name)
        return (
            twin is not None
            and node.op_type == twin.op_type
            and node.op_type in PRODUCTS
            and all(self._made(name) == "DequantizeLinear" for name in twin.input[:2])
        )

    def _made(self, name: str) -> str:
        maker = self._made_by.get(name)
        return "" if maker is None else maker.op_type

    def operands(self, node: onnx.NodeProto) -> tuple[list[onnx.NodeProto], list[str]]:
        """Return the nodes that round the operands of a layer, and the names of what they give."""
        nodes: list[onnx.NodeProto] = []
        names: list[str] = []
        for name in self._nodes[node.name].input:
            rounds = self._made_by.get(name)
            if rounds is None or rounds.op_type != "DequantizeLinear":
                names.append(name)
                continue
            if (before := self._made_by.get(rounds.input[0])) is not None:
                nodes.append(before)
            names.append(f"{name}/rounded")  # the quantizer keeps the names of some constants
            nodes.append(_with_output(rounds, names[-1]))
        return nodes, names

    def rounding(self, tensor: str) -> tuple[onnx.NodeProto, onnx.NodeProto] | None:
        """Return the nodes that round a tensor of floats, or None where it stays in floats. An output of the model has
        its name behind them, others in front."""
        rounds = self._rounds.get(tensor)
        reads = self._made_by.get(tensor) if rounds is None else self._reads.get(rounds.output[0])
        if rounds is None and reads is not None and reads.op_type == "DequantizeLinear":
            rounds = self._made_by.get(reads.input[0])
        return None if rounds is None or reads is None else (rounds, reads)

    def constants(self, nodes: Iterable[onnx.NodeProto]) -> dict[str, onnx.TensorProto]:
        return {name: self._held[name] for node in nodes for name in node.input if name in self._held}


class _Alone:
    """The float model with one layer quantized, and the activation behind it. `tensor` is what they make, and `real`
    what they make in floats, of the same inputs."""

    def __init__(self, graphs: _Graphs, layer: onnx.NodeProto) -> None:
        self.model = copy.deepcopy(graphs.real)
        graph = self.model.graph
        behind = [node for node in graph.node if layer.output[0] in node.input]
        is_activated = len(behind) == 1 and behind[0].op_type in ACTIVATIONS
        parts = [layer, *behind] if is_activated else [layer]
        self.op = " ".join(part.op_type for part in parts)
        self.tensor, self.real = parts[-1].output[0], f"{parts[-1].output[0]}/real"
        before, operands = graphs.operands(layer)
        after = _rounding_of(graphs, self.tensor)
        rounded = [_with_inputs(layer, operands), *parts[1:]]
        if after:
            rounded[-1] = _with_output(rounded[-1], after[0].input[0])
        made = [*before, *rounded, *after, *_in_floats(parts)]
        at = [node.name for node in graph.node].index(parts[-1].name)
        others = [node for node in graph.node if node.name not in {part.name for part in parts}]
        del graph.node[:]
        graph.node.extend(others[: at + 1 - len(parts)] + made + others[at + 1 - len(parts) :])
        own = {value.name for value in graph.initializer}
        graph.initializer.extend(one for name, one in graphs.constants(made).items() if name not in own)


def _rounding_of(graphs: _Graphs, tensor: str) -> list[onnx.NodeProto]:
    """Return the nodes that round a tensor of floats and give it back under its name."""
    rounding = graphs.rounding(tensor)
    if rounding is None:
        return []
    rounds, reads = rounding
    return [_with_inputs(rounds, [f"{tensor}/sums", *rounds.input[1:]]), _with_output(reads, tensor)]


def _in_floats(parts: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Return copies of a layer and its activation, with names of their own."""
    made: list[onnx.NodeProto] = []
    for part in parts:
        inputs = [f"{name}/real" if made and name == parts[0].output[0] else name for name in part.input]
        made.append(_with_output(_with_inputs(part, inputs), f"{part.output[0]}/real"))
        made[-1].name = f"{part.name}/real"
    return made


def _with_inputs(node: onnx.NodeProto, names: list[str]) -> onnx.NodeProto:
    made = copy.deepcopy(node)
    del made.input[:]
    made.input.extend(names)
    return made


def _with_output(node: onnx.NodeProto, name: str) -> onnx.NodeProto:
    made = copy.deepcopy(node)
    made.output[0] = name
    return made
