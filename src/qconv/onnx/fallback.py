"""Runs subgraphs of a model in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from qconv.network import Layer
from qconv.network.runner import Subgraph
from qconv.onnx.model import ORT_ERRORS, ReadModel, session_options
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
        return self._ready(layers, self._extracted(layers, outputs))

    def function(self, layers: Sequence[Layer], x: str, y: str) -> Callable[[Any], Any]:
        """The layers as a function of arrays of any shape: what is known of the shapes of their tensors is left out."""
        proto = self._extracted(layers, [y])
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.ClearField("shape")
        run = self._ready(layers, proto)
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


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
