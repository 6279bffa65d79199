"""The fallback: subgraphs of a model that run in ONNX Runtime."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from qconv.network import Layer
from qconv.network.run.runner import Subgraph
from qconv.network.ship.parts import OpenedPart, Part
from qconv.network.ship.program import Port
from qconv.onnx import float8
from qconv.onnx.blocked import DECIDED_ALREADY
from qconv.onnx.model import (
    CPU_ONLY,
    FOLDED_ALREADY,
    ORT_ERRORS,
    ReadModel,
    forget_shape,
    is_cpu_only,
    part_of,
    session_options,
    tensor_of,
)
from qconv.onnx.resizing import orders, turned
from qconv.onnx.tensor import Unsupported
from qconv.op import Array

# The metadata of a part: how its session is made.
OPTIONS = "qconv.options"


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
        parts = [self._prepared(part, made) for part, made in self._split(layers, outputs)]
        if len(parts) == 1:
            return parts[0]

        def run(given: Mapping[str, Any]) -> dict[str, Any]:
            values = dict(given)
            for part in parts:
                values |= part(values)
            return {name: values[name] for name in outputs}

        return run

    def parts(
        self, layers: Sequence[Layer], constants: Mapping[str, Any], outputs: Sequence[str], given: Sequence[Port]
    ) -> list[Part]:
        """Return layers as parts of a folder, with the constants that they read, for inputs of these forms."""
        known = {port.name: port for port in given}
        parts = []
        for each, made in self._split(layers, outputs):
            proto = self._fixed(self._extracted(each, made), constants, known)
            options = {"config": self._config, "optimized": each[0].name not in self._alone}
            proto.metadata_props.add(key=OPTIONS, value=json.dumps(options, sort_keys=True))
            parts.append(_part(proto))
            known |= {port.name: port for port in parts[-1].outputs}
        return parts

    def _fixed(
        self, proto: onnx.ModelProto, constants: Mapping[str, Any], known: Mapping[str, Port]
    ) -> onnx.ModelProto:
        """Return a part of the model with constants in place of inputs, and all others with their shapes: the declared
        ones are sometimes wrong."""
        held = {tensor.name for tensor in proto.graph.initializer}
        for value in list(proto.graph.input):
            if value.name in held:
                continue
            if value.name in constants:
                proto.graph.input.remove(value)
                proto.graph.initializer.append(numpy_helper.from_array(np.asarray(constants[value.name]), value.name))
            else:
                _declare(value, known[value.name].shape)
        return proto

    def _split(self, layers: Sequence[Layer], outputs: Sequence[str]) -> list[tuple[list[Layer], list[str]]]:
        """Return the layers of each part, and the tensors that are read of it."""
        groups = groupby(layers, lambda layer: layer.name if layer.name in self._alone else "")
        parts: list[tuple[list[Layer], list[str]]] = []
        read = set(outputs)
        for part in reversed([list(part) for _, part in groups]):
            made = dict.fromkeys(name for layer in part for name in layer.outputs if name in read)
            parts.insert(0, (part, list(made)))
            read |= {name for layer in part for name in layer.reads}
        return parts

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
        is_optimized = layers[0].name not in self._alone
        return _opened(proto, self._config, is_optimized, self._providers, self._without)

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


def _part(proto: onnx.ModelProto) -> Part:
    """Return a part of a model whose inputs have known shapes. A run with zeros shows the shapes of its outputs."""
    for value in proto.graph.output:
        forget_shape(value)
    opened = open_part(proto.SerializeToString())
    made = opened.run([np.zeros(port.shape, port.dtype) for port in opened.inputs])
    for value, array in zip(proto.graph.output, made, strict=True):
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        _declare(value, array.shape)
    outputs = tuple(
        Port(value.name, str(array.dtype), array.shape) for value, array in zip(proto.graph.output, made, strict=True)
    )
    content = proto.SerializeToString(deterministic=True)
    return Part(f"elsewhere/{hashlib.sha256(content).hexdigest()[:16]}.onnx", content, opened.inputs, outputs)


def _declare(value: onnx.ValueInfoProto, shape: Sequence[int]) -> None:
    forget_shape(value)
    value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto())
    for extent in shape:
        value.type.tensor_type.shape.dim.add(dim_value=extent)


def open_part(content: bytes) -> OpenedPart:
    """Open a part of a folder, which runs on ONNX Runtime's CPU provider with the settings that it was made for."""
    proto = onnx.load_from_string(content)
    options = json.loads(next(entry.value for entry in proto.metadata_props if entry.key == OPTIONS))
    run = _opened(proto, options["config"], options["optimized"], CPU_ONLY, FOLDED_ALREADY | DECIDED_ALREADY)
    held = {tensor.name for tensor in proto.graph.initializer}
    inputs = tuple(_port(value) for value in proto.graph.input if value.name not in held)
    outputs = tuple(_port(value) for value in proto.graph.output)

    def run_in_order(given: Sequence[Array]) -> list[Array]:
        made = run({port.name: array for port, array in zip(inputs, given, strict=True)})
        return [made[port.name] for port in outputs]

    return OpenedPart(inputs, outputs, run_in_order)


def _port(value: onnx.ValueInfoProto) -> Port:
    tensor = tensor_of(value)
    return Port(value.name, str(tensor.dtype), tensor.extents or ())


def _opened(
    proto: onnx.ModelProto,
    config: Mapping[str, str],
    is_optimized: bool,
    providers: Sequence[Any],
    without: Collection[str],
) -> Subgraph:
    """Return ONNX Runtime's session of a part of a model as a function."""
    options = session_options(config)
    if not is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=list(providers), disabled_optimizers=set(without)
        )
    except ORT_ERRORS as error:
        named = ", ".join(dict.fromkeys(node.op_type for node in proto.graph.node))
        raise Unsupported(f"ONNX Runtime does not take the part of the model with {named}: {error}") from None
    wanted = [value.name for value in session.get_outputs()]
    taken = {value.name for value in session.get_inputs()}
    outputs_of = partial(float8.run, session) if float8.has_float8(session) else session.run

    def run(given: Mapping[str, Any]) -> dict[str, Any]:
        # ONNX Runtime takes a bare number only as a 0-d array.
        feeds = {name: _array(value) for name, value in given.items() if name in taken}
        try:
            return dict(zip(wanted, outputs_of(wanted, feeds), strict=True))
        except ORT_ERRORS as error:
            raise ValueError(f"ONNX Runtime: {error}") from None

    return run


def _without_shapes(proto: onnx.ModelProto) -> onnx.ModelProto:
    for value in (*proto.graph.input, *proto.graph.output):
        forget_shape(value)
    return proto


def _array(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value
