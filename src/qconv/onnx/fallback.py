"""The fallback: subgraphs of a model that run in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import onnx
import onnxruntime

from qconv.network import Layer
from qconv.network.run.runner import Subgraph
from qconv.onnx.blocked import DECIDED_ALREADY
from qconv.onnx.model import FOLDED_ALREADY, ORT_ERRORS, ReadModel, forget_shape, is_cpu_only, part_of, session_options
from qconv.onnx.resizing import orders, turned
from qconv.onnx.tensor import Unsupported


class Fallback:
    """Runs each subgraph in an InferenceSession of its own, on NumPy arrays without a copy."""

    def __init__(
        self,
        model: ReadModel,
        config: Mapping[str, str],
        providers: Sequence[str],
        alone: Mapping[str, bool] | None = None,
    ) -> None:
        """`alone` has the layers that run by themselves, and whether their channels are last. By default, ONNX Runtime
        is asked."""
        self._model = model
        self._config = dict(config)
        self._providers = list(providers)
        if alone is None:
            alone = orders(model, config) if is_cpu_only(providers) else {}
        self._alone = alone
        self._without = FOLDED_ALREADY | (DECIDED_ALREADY if is_cpu_only(providers) else frozenset())

    def for_model(self, model: ReadModel) -> Fallback:
        """Return the fallback of the same model with known shapes, which has the same bits."""
        return Fallback(model, self._config, self._providers, self._alone)

    @property
    def turned(self) -> frozenset[str]:
        """Return the names of the layers that run with the channels last, which changes their bits."""
        return frozenset(name for name, is_turned in self._alone.items() if is_turned)

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        """Prepare one subgraph, split at layers that must run by themselves."""
        groups = groupby(layers, lambda layer: layer.name if layer.name in self._alone else "")
        parts: list[Subgraph] = []
        read = set(outputs)
        for part in reversed([list(part) for _, part in groups]):
            made = dict.fromkeys(name for layer in part for name in layer.outputs if name in read)
            parts.insert(0, self._prepared(part, list(made)))
            read |= {name for layer in part for name in layer.reads}
        if len(parts) == 1:
            return parts[0]

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            values = dict(given)
            for part in parts:
                values |= part(values)
            return {name: values[name] for name in outputs}

        return run

    def _prepared(self, layers: Sequence[Layer], outputs: Sequence[str]) -> Subgraph:
        """Prepare a subgraph. Declared input shapes help ONNX Runtime, but are sometimes wrong: for a pool in ceil
        mode, the inferred extent exceeds the real one. Inputs that contradict them get a subgraph without declared
        shapes."""
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
        """True where the inputs match the declared shapes. A sequence of tensors has no shape, and none is declared."""
        tensors = ((self._model.network.tensor(name), value) for name, value in given.items())
        return all(tensor.shape is None or tensor.may_be(np.shape(value)) for tensor, value in tensors)

    def function(self, layers: Sequence[Layer], x: str, y: str) -> Callable[[Any], Any]:
        """Return the layers as a function of arrays of any shape, without declared shapes."""
        run = self._ready(layers, _without_shapes(self._extracted(layers, [y])))
        return lambda array: run({x: array})[y]

    def _ready(self, layers: Sequence[Layer], proto: onnx.ModelProto) -> Subgraph:
        options = session_options(self._config)
        if layers[0].name in self._alone:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            session = onnxruntime.InferenceSession(
                proto.SerializeToString(), options, providers=self._providers, disabled_optimizers=set(self._without)
            )
        except ORT_ERRORS as error:
            named = ", ".join(dict.fromkeys(layer.op for layer in layers))
            raise Unsupported(f"ONNX Runtime does not take the part of the model with {named}: {error}") from None
        wanted = [value.name for value in session.get_outputs()]
        taken = {value.name for value in session.get_inputs()}

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            # ONNX Runtime takes a bare number only as a 0-d array.
            feeds = {name: _array(value) for name, value in given.items() if name in taken}
            try:
                return dict(zip(wanted, session.run(wanted, feeds), strict=True))
            except ORT_ERRORS as error:
                raise ValueError(f"ONNX Runtime: {error}") from None

        return run

    def _extracted(self, layers: Sequence[Layer], outputs: Sequence[str]) -> onnx.ModelProto:
        nodes = [node for name in dict.fromkeys(layer.name for layer in layers) for node in self._nodes(name)]
        return part_of(self._model, layers, nodes, outputs)

    def _nodes(self, name: str) -> list[onnx.NodeProto]:
        if name not in self._model.nodes:
            raise Unsupported(
                f"{name} is a conversion that floats of 16 bits need, and its kernel is of another shape: onnx infers "
                "a wrong shape for this model; leave floats out, or correct the model (a pool in ceil mode, say)"
            )
        node, network = self._model.nodes[name], self._model.network
        if name not in self.turned:
            return [node]
        return turned(node, len(network.tensor(node.input[0]).shape or ()), network.constants)


def _without_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    for value in (*proto.graph.input, *proto.graph.output):
        forget_shape(value)
    return proto


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
