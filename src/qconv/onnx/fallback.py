"""Runs subgraphs of a model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from qconv.network import Layer
from qconv.network.runner import Subgraph
from qconv.onnx.model import ORT_ERRORS, ReadModel, forget_shape, session_options
from qconv.onnx.tensor import Unsupported

# The whole model has been folded by then; a part of it alone might be folded otherwise, which would change bits.
FOLDED_ALREADY = {"session.disable_quant_qdq": "1"}


class Fallback:
    """Each subgraph is an InferenceSession of its own, which is given NumPy arrays as they lie."""

    def __init__(self, model: ReadModel, config: Mapping[str, str], providers: Sequence[str]) -> None:
        self._model = model
        self._config = dict(config) | FOLDED_ALREADY
        self._providers = list(providers)
        self._initializers = {tensor.name: tensor for tensor in model.proto.graph.initializer}

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        """What is declared of the shapes of its inputs helps ONNX Runtime, and is wrong at times: for a pool in ceil
        mode, more is inferred than it makes. For such inputs nothing is declared."""
        run = self._ready(layers, self._extracted(layers, outputs))
        of_any_shape: list[Subgraph] = []

        def run_whatever_the_shapes(given: Mapping[str, Any]) -> Mapping[str, Any]:
            if self._are_as_declared(given):
                return run(given)
            if not of_any_shape:
                of_any_shape.append(self._ready(layers, _without_shapes(self._extracted(layers, outputs))))
            return of_any_shape[0](given)

        return run_whatever_the_shapes

    def _are_as_declared(self, given: Mapping[str, Any]) -> bool:
        """A sequence of tensors has no shape, and none is known of it."""
        tensors = ((self._model.network.tensor(name), value) for name, value in given.items())
        return all(tensor.shape is None or tensor.may_be(np.shape(value)) for tensor, value in tensors)

    def function(self, layers: Sequence[Layer], x: str, y: str) -> Callable[[Any], Any]:
        """The layers as a function of arrays of any shape: what is known of the shapes of their tensors is left out."""
        run = self._ready(layers, _without_shapes(self._extracted(layers, [y])))
        return lambda array: run({x: array})[y]

    def _ready(self, layers: Sequence[Layer], proto: onnx.ModelProto) -> Subgraph:
        try:
            session = onnxruntime.InferenceSession(
                proto.SerializeToString(), session_options(self._config), providers=self._providers
            )
        except ORT_ERRORS as error:
            named = ", ".join(dict.fromkeys(layer.op for layer in layers))
            raise Unsupported(f"ONNX Runtime does not take the part of the model with {named}: {error}") from None
        wanted = [value.name for value in session.get_outputs()]
        taken = {value.name for value in session.get_inputs()}

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            # A bare number is an array of no dimensions here.
            feeds = {name: _array(value) for name, value in given.items() if name in taken}
            try:
                return dict(zip(wanted, session.run(wanted, feeds), strict=True))
            except ORT_ERRORS as error:
                raise ValueError(f"ONNX Runtime: {error}") from None

        return run

    def _extracted(self, layers: Sequence[Layer], outputs: Sequence[str]) -> onnx.ModelProto:
        """A model of these layers alone, with the constants that they read."""
        made = {name for layer in layers for name in layer.outputs}
        read = dict.fromkeys(name for layer in layers for name in layer.reads if name not in made)
        constants = [name for name in read if name in self._model.network.constants]
        whole = self._model.proto
        graph = onnx.helper.make_graph(
            [self._model.nodes[name] for name in dict.fromkeys(layer.name for layer in layers)],
            whole.graph.name or "part",
            [self._model.values[name] for name in read if name not in constants],
            [self._model.values[name] for name in outputs],
            [self._initializers[name] for name in constants],
        )
        part = onnx.ModelProto(ir_version=whole.ir_version, graph=graph)
        part.opset_import.extend(whole.opset_import)
        part.functions.extend(whole.functions)
        return part


def _without_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    for value in (*proto.graph.input, *proto.graph.output):
        forget_shape(value)
    return proto


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
