"""A model, rewritten by ONNX Runtime, as layers and tensors.

Which quantized layers are folded into integer ones affects bits. ONNX Runtime's own optimizer decides it here, so that
the result is what it would run itself: QLinearConv where it folds, a float Conv between DequantizeLinear and
QuantizeLinear where it does not.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from qconv.network import Layer, Network, Tensor
from qconv.onnx.graph import STANDARD
from qconv.onnx.tensor import Unsupported
from qconv.op import quoted

# All exceptions of ONNX Runtime. A RuntimeError is about a type that NumPy lacks.
ORT_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(kind for kind in vars(state).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    UnicodeDecodeError,  # from a message of its own that quotes a name in invalid UTF-8
)
CPU_ONLY = ("CPUExecutionProvider",)
Source = str | bytes
# All optimizations except those for the layouts of ONNX Runtime's kernels; and all default ones.
NO_LAYOUTS = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
DEFAULT_LEVEL = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
EVERY_OPTIMIZATION = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
# The optimizers that move, remove and fold DequantizeLinear and QuantizeLinear. They have processed the whole model; on
# a part of it, they might fold differently, which would change bits.
FOLDED_ALREADY = frozenset(
    {
        *("DoubleQDQPairsRemover", "DQMatMulNBitsFusion", "EnsureUniqueDQForNodeUnit", "QDQPropagationTransformer"),
        *("QDQS8ToU8Transformer", "QDQSelectorActionTransformer", "WeightBiasQuantization", "WhereDummyDq"),
    }
)
# Settings of how an optimized model is saved. Only `rewritten` reads that file.
SAVING = ("session.save_model_format", "session.optimized_model_external_initializers")
# The version of the format from which an initializer need not be an input, and one that is may be overridden.
CONSTANTS_ARE_NO_INPUTS = 4
LARGEST = 2**31 - 1  # bytes per protobuf message
# Element types as ONNX Runtime spells them.
_ELEMENTS = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A network, and the nodes from which its layers were read, by the layer's name."""

    network: Network
    nodes: Mapping[str, onnx.NodeProto]
    proto: onnx.ModelProto
    values: Mapping[str, onnx.ValueInfoProto]  # of every tensor that is not constant


def is_cpu_only(providers: Sequence[Any]) -> bool:
    """True where only the CPU provider runs: others have different bits. Each entry is a name, or a name and its
    options."""
    return [one if isinstance(one, str) else one[0] for one in providers] == list(CPU_ONLY)


def session_options(config: Mapping[str, str]) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are also raised
    for name, value in config.items():
        if name.startswith(SAVING):
            continue
        try:
            options.add_session_config_entry(name, value)
        except ORT_ERRORS as error:
            raise ValueError(f"ONNX Runtime does not take the setting {quoted(name)} of config: {error}") from None
    return options


def is_folder(model: object) -> bool:
    # pathlib takes "" for the current folder; a caller does not.
    return isinstance(model, str | Path) and model != "" and Path(model).is_dir()


def source_of(model: onnx.ModelProto | bytes | str | Path) -> Source:
    """Return a path, or the bytes of a model."""
    if isinstance(model, onnx.ModelProto):
        if model.ByteSize() > LARGEST:
            raise Unsupported(f"the model has {model.ByteSize()} bytes, in memory at most {LARGEST}: give its path")
        return bytes(model.SerializeToString())
    if isinstance(model, bytes):
        return model
    if not isinstance(model, str | Path):
        raise ValueError(f"a model is a path, bytes or an onnx.ModelProto; {type(model).__name__} was given")
    if not Path(model).is_file():
        raise ValueError(f"there is no file {str(model)!r}; give the path of an ONNX model")
    return str(model)


def loaded(source: Source) -> onnx.ModelProto:
    """Load a model unchanged, including external data."""
    try:
        return onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
    except Exception as error:  # from protobuf's reader, or from onnx for missing external data
        what = source if isinstance(source, str) else f"what was given ({len(source)} bytes)"
        said = " ".join(str(error).split())[:200]
        raise Unsupported(f"{what} cannot be read as an ONNX model: {said}") from None


@contextmanager
def _in_memory() -> Iterator[str]:
    """Yield the path of an in-memory file: a read-only image may have no folder for temporary files."""
    file = os.memfd_create("rewritten.onnx")
    try:
        yield f"/proc/self/fd/{file}"
    finally:
        os.close(file)


def rewritten(
    source: Source, config: Mapping[str, str], level: Any = NO_LAYOUTS, without: Collection[str] = ()
) -> onnx.ModelProto:
    """Return the model after ONNX Runtime's optimizations of this level, except the named ones."""
    with _in_memory() as path:
        options = session_options(config)
        options.graph_optimization_level = level
        options.optimized_model_filepath = path
        try:
            session = onnxruntime.InferenceSession(
                source, options, providers=list(CPU_ONLY), disabled_optimizers=set(without)
            )
        except ORT_ERRORS as error:
            raise Unsupported(f"onnxruntime {onnxruntime.__version__} does not take the model: {error}") from None
        proto = onnx.load(path, load_external_data=False)
    # Before version 4 of the format, every constant is also an input. One that was folded away no longer is.
    asked = {value.name for value in (*session.get_inputs(), *session.get_overridable_initializers())}
    for value in [value for value in proto.graph.input if value.name not in asked]:
        proto.graph.input.remove(value)
    if isinstance(source, str):  # paths of external data are relative to the model
        onnx.load_external_data_for_model(proto, str(Path(source).parent))
    if proto.ByteSize() > LARGEST:
        raise Unsupported(f"the model has {proto.ByteSize()} bytes with its constants; at most {LARGEST} are supported")
    return proto


def read(proto: onnx.ModelProto, config: Mapping[str, str]) -> ReadModel:
    graph = proto.graph
    nodes = dict(zip(_unique_names(graph.node), graph.node, strict=True))
    constants = {name: numpy_helper.to_array(tensor) for name, tensor in constants_of(proto).items()}
    values = {value.name: value for value in (*graph.input, *typed_outputs(proto, config))}
    tensors = {name: tensor_of(value) for name, value in values.items()}
    tensors |= {name: Tensor(name, str(array.dtype), array.shape) for name, array in constants.items()}
    network = Network(
        inputs=tuple(value.name for value in graph.input if value.name not in constants),
        outputs=tuple(value.name for value in graph.output),
        layers=tuple(_layer(name, node) for name, node in nodes.items()),
        tensors=tensors,
        constants=constants,
        opset=next((opset.version for opset in proto.opset_import if opset.domain in STANDARD), 0),
    )
    return ReadModel(network, nodes, proto, values)


def constants_of(proto: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Return the initializers that no caller may override."""
    declared = {value.name for value in proto.graph.input} if proto.ir_version >= CONSTANTS_ARE_NO_INPUTS else set()
    return {tensor.name: tensor for tensor in proto.graph.initializer if tensor.name not in declared}


def part_of(
    model: ReadModel, layers: Sequence[Layer], nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Return a model of these layers alone, as these nodes, with the constants that they read."""
    made = {name for layer in layers for name in layer.outputs}
    read = dict.fromkeys(name for layer in layers for name in layer.reads if name not in made)
    constants = [name for name in read if name in model.network.constants]
    held = {tensor.name: tensor for tensor in model.proto.graph.initializer}
    graph = helper.make_graph(
        nodes,
        model.proto.graph.name or "part",
        [model.values[name] for name in read if name not in constants],
        [model.values[name] for name in outputs],
        [held[name] for name in constants],
    )
    part = onnx.ModelProto(ir_version=model.proto.ir_version, graph=graph)
    part.opset_import.extend(model.proto.opset_import)
    part.functions.extend(model.proto.functions)
    return part


def typed_outputs(proto: onnx.ModelProto, config: Mapping[str, str]) -> list[onnx.ValueInfoProto]:
    """Return every node's outputs with the types that ONNX Runtime infers. Unlike onnx, it knows its own ops."""
    own = {value.name for value in proto.graph.output}
    names = [name for node in proto.graph.node for name in node.output if name]
    session = session_with(
        proto, [name for name in names if name not in own], config, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    made = set(names)
    return [_typed(output) for output in session.get_outputs() if output.name in made]


def _typed(output: Any) -> onnx.ValueInfoProto:
    """Parse a type such as `tensor(uint8)`, or a sequence of tensors."""
    element = re.fullmatch(r"(seq\()?tensor\((\w+)\)\)?", output.type)
    if element is None or element[2] not in _ELEMENTS:
        return onnx.ValueInfoProto(name=output.name)
    # An empty shape is a scalar's or an unknown one. Extents with the same name are equal.
    shape = output.shape or None
    typed = helper.make_tensor_type_proto(_ELEMENTS[element[2]], shape)
    return helper.make_value_info(output.name, helper.make_sequence_type_proto(typed) if element[1] else typed)


def session_with(
    proto: onnx.ModelProto, inside: Sequence[str], config: Mapping[str, str], level: Any = DEFAULT_LEVEL
) -> onnxruntime.InferenceSession:
    """Return ONNX Runtime's session of a model whose further outputs are these tensors."""
    asked = onnx.ModelProto()
    asked.CopyFrom(proto)
    asked.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    options = session_options(config)
    options.graph_optimization_level = level
    try:
        return onnxruntime.InferenceSession(asked.SerializeToString(), options, providers=list(CPU_ONLY))
    except ORT_ERRORS as error:
        raise Unsupported(f"onnxruntime {onnxruntime.__version__} does not take the model: {error}") from None


def forget_shape(value: onnx.ValueInfoProto) -> None:
    """Remove the declared shape. Without a declaration, clearing a field would declare a tensor without an element
    type."""
    if value.type.HasField("tensor_type"):
        value.type.tensor_type.ClearField("shape")


def tensor_of(value: onnx.ValueInfoProto) -> Tensor:
    if not value.type.HasField("tensor_type"):
        return Tensor(value.name)
    declared = value.type.tensor_type
    dtype = "object" if declared.elem_type == onnx.TensorProto.STRING else _dtype(declared.elem_type)
    if not declared.HasField("shape"):
        return Tensor(value.name, dtype)
    sizes = (dim.dim_value if dim.HasField("dim_value") else None for dim in declared.shape.dim)
    return Tensor(value.name, dtype, tuple(sizes))


def _dtype(number: int) -> str | None:
    try:
        return str(helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        return None


def _unique_names(nodes: Any) -> list[str]:
    taken: dict[str, None] = {}
    for number, node in enumerate(nodes):
        name = node.name or next(filter(None, node.output), "") or f"{node.op_type}_{number}"
        taken[f"{name}#{number}" if name in taken else name] = None
    return list(taken)


def _layer(name: str, node: onnx.NodeProto) -> Layer:
    attributes = {
        entry.name: helper.get_attribute_value(entry)
        for entry in node.attribute
        if entry.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)
    }
    op = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    captured = tuple(dict.fromkeys(read_within(node)))
    return Layer(name, op, tuple(node.input), tuple(node.output), attributes, captured)


def read_by(node: onnx.NodeProto) -> list[str]:
    """Return the inputs of a node, including those that its subgraphs read from outside."""
    return [*node.input, *read_within(node)]


def read_within(node: onnx.NodeProto) -> list[str]:
    """Return the outer tensors that the subgraphs of a node read."""
    return [name for graph in _graphs_of(node) for name in _read_from_outside(graph)]


def _graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for entry in node.attribute:
        if entry.type == onnx.AttributeProto.GRAPH:
            yield entry.g
        yield from entry.graphs


def _read_from_outside(graph: onnx.GraphProto) -> list[str]:
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in read_by(node)]
    read += [value.name for value in graph.output]
    return [name for name in read if name and name not in own]
