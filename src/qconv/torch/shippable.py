"""A lowered graph as a network for inputs of known shapes, as an exported folder has it.

The layers are the graph's own: its ops of this project, with their kernels, and the expressions and movement between
them, which are fused as those of a session are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from qconv.device import Device
from qconv.errors import Unshippable
from qconv.network import Layer, Network, Served, Tensor, Value
from qconv.network.expressions.fuse import fuse
from qconv.network.graph.served import OfImages, Prepared
from qconv.network.layers.boundary import End, has_channels_last
from qconv.network.ship.network_export import Shippable
from qconv.torch import convolution, elementwise, transposed
from qconv.torch.arrays import NHWC, array_of, name_of
from qconv.torch.integer_inputs import GUARDS
from qconv.torch.library import given_of
from qconv.torch.lowering import REPORT, copy_of
from qconv.torch.pattern import Unmatched, constant, target_of
from qconv.torch.program import program_of
from qconv.torch.translation import translated
from qconv.torch.translation.node_layers import tensor_of

Run = Callable[[Sequence[Value]], Value]
Start = Callable[[Device], Run]
# Arguments that are tensors of the network; all others are constants.
ACTIVATIONS = ("x", "residual", "a", "b")
CONVERSIONS = {"quantize": "QuantizeLinear", "dequantize": "DequantizeLinear"}


class _Started:
    """An op that is ready on a device."""

    problems = ()
    why = "an op of the graph"

    def __init__(self, run: Run) -> None:
        self._run = run

    def __call__(self, *inputs: Value) -> Value:
        return self._run(inputs)


@dataclass(frozen=True, eq=False)
class OfRows:
    """An op of this project on rows. `start` makes it ready on a device."""

    layer: Layer
    inputs: tuple[str, ...]
    y: str
    start: Start

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        return _Started(self.start(device))


@dataclass(frozen=True, eq=False)
class OfImagesReady(OfImages):
    """An op of this project on images. `start` makes it ready on a device."""

    start: Start

    def prepare(self, shapes: Sequence[tuple[int, ...]], device: Device) -> Prepared:
        return _Started(self.start(device))


def shippable(lowered: Any, shapes: Sequence[Sequence[int]]) -> Shippable:
    """Return the network of a module from `lower`, for inputs of these shapes. Raise Unshippable, with the nodes, where
    some stay in PyTorch."""
    module = copy_of(lowered)
    check_lowered(module)
    _with_shapes(module, shapes)
    reading = _Reading()
    for node in module.graph.nodes:
        reading.read(node)
    _refuse(reading.left)
    network, served, why_not = fuse(reading.network, reading.with_ends())
    _refuse({name: str(why) for name, why in why_not.items()})
    return Shippable(network, served)


def check_lowered(module: Any) -> None:
    """Raise Unshippable for nodes that stay in PyTorch."""
    _refuse({row.layer: row.says for row in module.meta[REPORT] if row.op is None})


def _refuse(left: Mapping[str, str]) -> None:
    if left:
        shown = "\n".join(f"  {name}: {why}" for name, why in left.items())
        number = "1 node stays" if len(left) == 1 else f"{len(left)} nodes stay"
        raise Unshippable(f"{number} in PyTorch, and cannot be shipped:\n{shown}")


def _with_shapes(module: Any, shapes: Sequence[Sequence[int]]) -> None:
    """Give every node an example for inputs of these shapes. Sizes become numbers."""
    for guard in [node for node in module.graph.nodes if node.target == GUARDS]:
        module.graph.erase_node(guard)
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]

    interpreter = torch.fx.Interpreter(module)
    run_node = interpreter.run_node

    def seen(node: Any) -> Any:
        node.meta["val"] = run_node(node)
        return node.meta["val"]

    interpreter.run_node = seen
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        examples = [
            torch.empty(tuple(shape), dtype=tensor_of(node).dtype, device=tensor_of(node).device)
            for node, shape in zip(inputs, shapes, strict=True)
        ]
        interpreter.run(*examples)


@dataclass
class _Reading:
    """The network, while the nodes of the graph are read."""

    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    served: dict[str, Served] = field(default_factory=dict)
    ends: list[End] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def network(self) -> Network:
        outputs = tuple(dict.fromkeys(self.outputs))
        return Network(tuple(self.inputs), outputs, tuple(self.layers), self.tensors, self.constants)

    def with_ends(self) -> dict[str, Served]:
        """Return the served layers with the conversions, each in the order of axes of the layers next to it."""
        network = self.network
        found = dict(self.served)
        for end in self.ends:
            beside = [*network.consumers.get(end.y, ()), network.producers.get(end.inputs[0])]
            names = [layer.name for layer in beside if layer is not None]
            meets = any(has_channels_last(self.served[name]) for name in names if name in self.served)
            found[end.layer.name] = replace(end, meets_last=meets)
        return found

    def read(self, node: Any) -> None:
        if node.op == "output":
            self.outputs += [each.name for each in node.all_input_nodes]
            return
        tensor = tensor_of(node)
        if tensor is None or (node.op == "call_function" and not isinstance(tensor, torch.Tensor)):
            return  # a size, or a tuple whose elements are read
        self._describe(node.name, name_of(tensor.dtype), tensor.shape)
        if node.op == "placeholder":
            self.inputs.append(node.name)
        elif (value := constant(node)) is not None:
            self.constants[node.name] = array_of(value.cpu())
        else:
            try:
                self._layers(node)
            except (Unmatched, ValueError) as reason:
                self.left[node.name] = str(reason)

    def _describe(self, name: str, dtype: str, shape: Sequence[Any]) -> None:
        self.tensors[name] = Tensor(name, dtype, tuple(int(extent) for extent in shape))

    def _layers(self, node: Any) -> None:
        target = target_of(node)
        if target == "qconv.expression.default":
            self._expression(node)
        elif target.startswith("qconv."):
            self._op(node, target.split(".")[1])
        else:
            made = translated(node)
            for name, one in made.tensors.items():
                self._describe(name, one.dtype, one.shape)
            self.constants |= {name: one.array({}) for name, one in made.constants.items()}
            self.constants |= {name: array_of(tensor.cpu()) for name, tensor in made.buffers.items()}
            self.layers += [step.layer({}) for step in made.steps]

    def _expression(self, node: Any) -> None:
        given = given_of(node.target, node.args, node.kwargs)
        program = program_of(given["program"])
        network = program.network([tuple(tensor_of(each).shape) for each in given["inputs"]])
        names = {"": ""} | {name: f"{node.name}.{name}" for name in (*network.tensors, *network.constants)}
        names |= {name: each.name for name, each in zip(program.inputs, given["inputs"], strict=True)}
        names[program.output] = node.name
        for name, one in network.tensors.items():
            self.tensors.setdefault(names[name], Tensor(names[name], one.dtype, one.shape))
        self.constants |= {names[name]: array for name, array in network.constants.items()}
        for layer in network.layers:
            inputs, (output,) = tuple(names[name] for name in layer.inputs), (names[name] for name in layer.outputs)
            self.layers.append(Layer(output, layer.op, inputs, (output,), layer.attributes))

    def _op(self, node: Any, op: str) -> None:
        """Read an op of this project. Constants are on the host, and activations are examples without elements."""
        nodes = given_of(node.target, node.args, node.kwargs)
        given: dict[str, Any] = {}
        for name, value in nodes.items():
            is_node = isinstance(value, torch.fx.Node)
            found = constant(value) if is_node else value
            if is_node and found is None and name not in ACTIVATIONS:
                raise Unmatched(f"the graph computes its {name}")
            given[name] = value.meta["val"] if is_node and found is None else found
            if isinstance(given[name], torch.Tensor) and found is not None:
                given[name] = found.detach().cpu()
        if op in CONVERSIONS:
            self._conversion(node, op, given)
            return
        read = [name for name in ACTIVATIONS if isinstance(nodes.get(name), torch.fx.Node)]
        inputs = tuple(nodes[name].name for name in read if nodes[name].name not in self.constants)
        layer = Layer(node.name, f"qconv.{op}", tuple(nodes[name].name for name in read), (node.name,))
        shape = tuple(node.meta["val"].shape)
        if op in elementwise.CALLS:
            held = [self.constants.get(nodes[name].name) for name in read]
            start = _called(elementwise.CALLS[op](given), held, shape)
        elif op == "linear":
            start = _multiplied(given, [given[name] for name in read], shape)
        else:
            start = _convolved(op, given, [given[name] for name in read], shape)
        kind = OfImagesReady if len(shape) == 4 and op != "linear" else OfRows
        self.layers.append(layer)
        self.served[node.name] = kind(layer, inputs, node.name, start)

    def _conversion(self, node: Any, op: str, given: Mapping[str, Any]) -> None:
        x, y = node.args[0], tensor_of(node)
        scale, zero = (np.asarray(0 if given[name] is None else given[name]) for name in ("scale", "zero_point"))
        types = [name_of(each.dtype) for each in (tensor_of(x), y)]
        real, integer = types if op == "quantize" else types[::-1]
        if real != "float32" or scale.size != 1 or zero.size != 1:
            raise Unmatched(f"it converts {real}, or has a scale per channel; a folder has conversions of float32")
        limits = {name: given[name] for name in ("low", "high") if given.get(name) is not None}
        layer = Layer(node.name, CONVERSIONS[op], (x.name,), (node.name,))
        self.layers.append(layer)
        self.ends.append(End(layer, scale, zero, integer, mode=given["mode"], limits=limits))


def _example(value: Any, shape: Sequence[int]) -> Any:
    return torch.empty(tuple(shape), dtype=value.dtype, device="meta")


def _convolved(op: str, given: Mapping[str, Any], read: Sequence[Any], shape: Sequence[int]) -> Start:
    images = [_example(value, [value.shape[axis] for axis in NHWC]) for value in read]
    own = transposed.as_convolution(given) if op == "conv_transpose2d" else given
    own = {**own, "residual": given.get("residual")}

    def start(device: Device) -> Run:
        packed, _ = convolution.packed_on(own, images, device)

        def run(values: Sequence[Value]) -> Value:
            y = packed.in_sequence(*(device.contiguous(value.channels_last) for value in values))
            return Value(device, channels_last=y.reshape([shape[axis] for axis in NHWC]))

        return run

    return start


def _multiplied(given: Mapping[str, Any], read: Sequence[Any], shape: Sequence[int]) -> Start:
    """Multiply rows as images of one pixel each."""
    sizes = [(value.numel() // value.shape[-1], 1, 1, value.shape[-1]) for value in read]
    pixels = [_example(value, size) for value, size in zip(read, sizes, strict=True)]

    def start(device: Device) -> Run:
        packed, _ = convolution.packed_on({**given, **convolution.ONE_PIXEL}, pixels, device)

        def run(values: Sequence[Value]) -> Value:
            rows = [device.contiguous(value.on_device).reshape(size) for value, size in zip(values, sizes, strict=True)]
            return Value(device, there=packed.in_sequence(*rows).reshape(tuple(shape)))

        return run

    return start


def _called(call: elementwise.ArrayCall, held: Sequence[Any], shape: Sequence[int]) -> Start:
    """Call a function of arrays, of images with their channels last. `held` has the operands, with None for those that
    are computed."""
    is_image = len(shape) == 4

    def start(device: Device) -> Run:
        constants = [None if one is None else Value(device, there=device.upload(one)) for one in held]

        def run(values: Sequence[Value]) -> Value:
            left = iter(values)
            operands = [next(left) if one is None else one for one in constants]
            arrays = [device.contiguous(_of_rank(device, each, len(shape)).in_order(is_image)) for each in operands]
            y = call.function(*arrays, *call.others, **call.named, device=device)
            order = [shape[axis] for axis in NHWC] if is_image else shape
            return Value.ordered(device, y.reshape(tuple(order)), is_image)

        return run

    return start


def _of_rank(device: Device, value: Value, rank: int) -> Value:
    """Return a tensor with leading axes of 1, as broadcasting adds them."""
    missing = rank - len(value.shape)
    return value if not missing else Value(device, there=value.on_device.reshape((1,) * missing + value.shape))
