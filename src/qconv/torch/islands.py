"""Islands of a graph: the nodes between quantized layers, as few expressions.

The nodes of the graph are the layers of a `Network`: under ONNX's names those that have a translation, all others as
they are. The network's own fusion decides which of them are one kernel. A kernel between floats that PyTorch itself
computes stays with PyTorch, whose compiler joins it with its neighbours."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from qconv.network import Layer, Network, Served, Tensor
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.fuse import fuse
from qconv.network.graph.served import OfImages
from qconv.torch.extents import extent_of, hint_of, value_of
from qconv.torch.pattern import (
    DEQUANTIZE,
    QUANTIZE,
    Unmatched,
    attribute,
    constant,
    held,
    quantized,
    replace,
    target_of,
)
from qconv.torch.program import Constant, Described, Program, Step
from qconv.torch.tensor_ops import between
from qconv.torch.translation import NodeLayers, translated
from qconv.torch.translation.movement import GETITEM, RESHAPES, SPLITS, part_of
from qconv.torch.translation.node_layers import shaped, tensor_of
from qconv.torch.volumes import IS_VIEW

# Ops that are views in PyTorch, wherever their elements are.
VIEWS = (
    *RESHAPES,
    *("aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.slice.Tensor", "aten.select.int"),
    *("aten.expand.default", "aten.alias.default", "aten.detach.default", GETITEM),
)
BYTES = ("int8", "uint8")
PYTORCHS = "it is between floats that PyTorch computes, whose compiler joins it with them"
# Ops of this project that read and write rows, or tensors in any order.
ROWS = ("qconv.linear", "qconv.quantize", "qconv.dequantize", "qconv.expression")


@dataclass(frozen=True)
class Island:
    """An expression: its program, the nodes that it reads and replaces, and the node whose output it makes."""

    program: Program
    inputs: tuple[Any, ...]
    nodes: tuple[Any, ...]
    last: Any

    @property
    def says(self) -> str:
        """Return the nodes that it computes, without conversions."""
        named = ["split" if target_of(node) == GETITEM else target_of(node) for node in self.nodes]
        kept = [name.removeprefix("aten.").partition(".")[0] for name in named if not _converts(name)]
        shown = [f"{count} x {name}" if count > 1 else name for name, count in _counted(kept)]
        return ", ".join(shown or ["conversions"]) + " as one expression"


def _counted(names: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, names.count(name)) for name in dict.fromkeys(names)]


def lower_islands(module: Any, written: frozenset[Any]) -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """Replace the nodes between quantized layers by expressions, or by an op of their own where there is one. Return
    the new ops, as rows of the report, and why each other node stays."""
    islands = Islands(module.graph)
    found = [island for island in islands.read(written) if not islands.is_left(island)]
    ours = islands.ours(found)
    rows, instead = list[tuple[str, str, str]](), dict[Any, Any]()
    for island in found:
        own = between(island.last)
        if own is not None and own.nodes == frozenset(island.nodes):
            instead[island.last] = own.lower()
            rows.append((island.last.name, *own.row))
        elif island.last in ours:
            instead[island.last] = _replaced(island, instead, islands.follows)
            rows.append((island.last.name, "qconv.expression", island.says))
        else:
            islands.why_not |= {node.name: PYTORCHS for node in island.nodes}
    return rows, islands.why_not


def _replaced(island: Island, instead: Mapping[Any, Any], constants: Collection[Any]) -> Any:
    """Put an expression in the place of the nodes, and return it."""
    last = island.last
    with last.graph.inserting_before(last):
        inputs = [_input(last, at, each, instead, constants) for at, each in enumerate(island.inputs)]
        text = island.program.renamed().text
        made = last.graph.call_function(torch.ops.qconv.expression.default, (inputs,), {"program": text})
    replace(last, made)
    return made


def _input(before: Any, at: int, one: Any, instead: Mapping[Any, Any], constants: Collection[Any]) -> Any:
    """Return the node of an input. A tensor without one, and what follows from constants alone, is held from now on."""
    if not isinstance(one, torch.fx.Node):
        return held(before, f"_qconv_{before.name}_{at}", one)
    return attribute(before, one, constant(one)) if one in constants else instead.get(one, one)


def _converts(target: str) -> bool:
    return target.startswith((QUANTIZE, DEQUANTIZE))


@dataclass
class Islands:
    """The graph as a network, while its nodes are read. `why_not` has the reason of each node that has no layers."""

    graph: Any
    of_nodes: dict[str, NodeLayers] = field(default_factory=dict)
    why_not: dict[str, str] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    steps: dict[str, tuple[Step, Any]] = field(default_factory=dict)  # with their nodes, by the names of layers
    tensors: dict[str, Described] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    images: dict[str, Served] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)  # dynamic extents, as in the graph's own example
    follows: set[Any] = field(default_factory=set)  # nodes that follow from constants alone

    def read(self, written: frozenset[Any]) -> list[Island]:
        """Return the expressions. Nodes that read `written` memory stay."""
        for node in self.graph.nodes:
            self._read(node, written)
        network, served, left = fuse(self._network(), self.images)
        for layer in network.layers:
            if layer.name in left and layer.name in self.steps:
                self.why_not[self.steps[layer.name][1].name] = str(left[layer.name])
        found = {one.y: one for layer in network.layers if isinstance(one := served.get(layer.name), Expressed)}
        islands = (self._island(one, found) for one in found.values() if self._is_of_node(one.y))
        return [island for island in islands if island is not None]

    def _is_of_node(self, name: str) -> bool:
        """True for the output of a node, and not a tensor between its layers."""
        return name in self.steps and self.steps[name][1].name == name

    def _read(self, node: Any, written: frozenset[Any]) -> None:
        self._describe(node)
        reads = node.all_input_nodes
        if node.op in ("placeholder", "get_attr", "output"):
            self.follows |= {node} if node.op == "get_attr" else set()
            return
        if node.op == "call_function" and reads and self.follows.issuperset(reads):
            self.follows.add(node)
            return
        if _is_split(node):
            return
        try:
            layers = self._translated(node, written)
        except Unmatched as reason:
            self.why_not[node.name] = str(reason)
            self._keep(node)
            return
        self.of_nodes[node.name] = layers
        self.tensors |= layers.tensors
        self.constants |= layers.constants
        for step in layers.steps:
            self.layers.append(Layer(step.output, step.op, step.inputs, (step.output,), self._known(step)))
            self.steps[step.output] = step, node

    def _describe(self, node: Any) -> None:
        tensor = tensor_of(node)
        if tensor is None:
            return
        self.tensors[node.name] = shaped(tensor)
        for size in tensor.shape:
            if not isinstance(size, int) and (hint := hint_of(size)) is not None:
                self.known[str(extent_of(size))] = hint

    def _translated(self, node: Any, written: frozenset[Any]) -> NodeLayers:
        if node.op != "call_function":
            raise Unmatched(f"no op here computes {node.target}")
        if not written.isdisjoint((node, *node.all_input_nodes)):
            raise Unmatched("it reads or makes memory that another node writes")
        if IS_VIEW in node.meta:
            raise Unmatched("it is a view of a volume as images")
        if self._is_end(node):
            raise Unmatched("ops here convert float32 from and to 8 bits, with one constant scale")
        layers = translated(node)
        self._check_extents(layers)
        return layers

    def _is_end(self, node: Any) -> bool:
        """True for a node that quantizes a tensor in memory for several readers, which are to read its bytes."""
        return quantized(node) is not None and len(node.users) > 1 and node.args[0].name not in self.of_nodes

    def _check_extents(self, layers: NodeLayers) -> None:
        """Raise Unmatched where an extent has no value in the graph's own example."""
        try:
            for one in layers.tensors.values():
                [value_of(extent, self.known) for extent in one.shape]
        except ValueError as error:
            raise Unmatched(str(error)) from None

    def _known(self, step: Step) -> Mapping[str, Any]:
        return step.layer(self.known).attributes

    def _keep(self, node: Any) -> None:
        """Append a node as it is, which reads its inputs from memory."""
        layer = Layer(node.name, str(node.target), tuple(each.name for each in self._sources(node)), (node.name,))
        self.layers.append(layer)
        target = target_of(node)
        described = self.tensors.get(node.name)
        if target.startswith("qconv.") and not target.startswith(ROWS) and described and len(described.shape) > 2:
            self.images[node.name] = OfImages(layer, layer.inputs, node.name)

    @staticmethod
    def _sources(node: Any) -> list[Any]:
        """Return the nodes that a node reads. One that takes a part of a split that is no layer reads what is split."""
        reads = [each if not _is_split(each) else each.args[0] for each in node.all_input_nodes]
        return [each for each in reads if isinstance(each, torch.fx.Node)]

    def _network(self) -> Network:
        made = {name for layer in self.layers for name in layer.outputs}
        inputs = dict.fromkeys(name for layer in self.layers for name in layer.reads if name not in made)
        tensors = {
            name: Tensor(name, one.dtype, tuple(value_of(extent, self.known) for extent in one.shape))
            for name, one in self.tensors.items()
            if all(isinstance(extent, int) or extent in self.known for extent in one.shape)
        }
        (end,) = (node for node in self.graph.nodes if node.op == "output")
        outputs = tuple(node.name for node in end.all_input_nodes)
        constants = {name: one.array(self.known) for name, one in self.constants.items()}
        given = tuple(name for name in inputs if name not in constants)
        return Network(given, outputs, tuple(self.layers), tensors, constants)

    def _island(self, one: Expressed, found: Mapping[str, Expressed]) -> Island | None:
        """Return an expression with the nodes that it replaces; None where one of its tensors has no kernel."""
        parts = {part.name for part in self._parts(one, found)}
        steps = [(step, node) for name, (step, node) in self.steps.items() if name in parts]
        nodes = tuple(dict.fromkeys(node for _, node in steps))
        made = {step.output for step, _ in steps}
        read = dict.fromkeys(name for step, _ in steps for name in step.inputs if name and name not in made)
        constants = {name: self.constants[name] for name in read if name in self.constants}
        inputs = [name for name in read if name not in constants]
        sources = [self._source(nodes, name) for name in inputs]
        if any(source is None for source in sources):
            return None
        tensors = {name: self.tensors[name] for name in (*inputs, *(step.output for step, _ in steps))}
        is_last = one.kernel(one.lasts).is_last
        program = Program(tuple(inputs), tuple(step for step, _ in steps), tensors, constants, is_last)
        return Island(program, tuple(sources), nodes, self.steps[one.y][1])

    def _parts(self, one: Expressed, found: Mapping[str, Expressed]) -> Iterator[Layer]:
        """Yield the layers of an expression, and of those that make tensors between the layers of a node for it."""
        yield from one.layer.parts
        made = {name for part in one.layer.parts for name in part.outputs}
        for name in {name for part in one.layer.parts for name in part.inputs} - made:
            if name in found and not self._is_of_node(name):
                yield from self._parts(found[name], found)

    def _source(self, nodes: Sequence[Any], name: str) -> Any:
        """Return the node of a tensor, or the tensor itself where the module is to hold it; None where there is
        neither."""
        for node in nodes:
            layers = self.of_nodes[node.name]
            if name in layers.buffers:
                return layers.buffers[name]
            if name in layers.reads:
                return layers.reads[name]
        return None

    def ours(self, found: Sequence[Island]) -> set[Any]:
        """Return the outputs of those expressions that read or make integers, or are next to an op of this project, and
        of those next to them."""
        ours = {island.last for island in found if self._is_beside_integers(island)}
        every, before = {island.last for island in found}, -1
        while len(ours) > before:
            before = len(ours)
            for island in found:
                read = every.intersection(each for each in island.inputs if isinstance(each, torch.fx.Node))
                if island.last in ours:
                    ours |= read
                elif not ours.isdisjoint(read):
                    ours.add(island.last)
        return ours

    def _is_beside_integers(self, island: Island) -> bool:
        ends = (*island.inputs, island.last)
        if any(self._is_bytes(node) for node in (*ends, *island.nodes)):
            return True
        beside = [node for node in ends if isinstance(node, torch.fx.Node)]
        return any(map(_is_op, (*beside, *island.last.users)))

    def _is_bytes(self, node: Any) -> bool:
        one = self.tensors.get(node.name) if isinstance(node, torch.fx.Node) else None
        return one is not None and one.dtype in BYTES

    def is_left(self, island: Island) -> bool:
        """True for a single conversion, which has an op with the graph's own bits, and for views that cost nothing."""
        targets = [target_of(node) for node in island.nodes]
        if len(targets) == 1 and _converts(targets[0]):
            return True
        if any(target not in VIEWS for target in targets):
            return False
        if not any(map(_is_op, island.last.users)):
            return True
        return all(target in RESHAPES for target in targets) and not self._has_two_orders(island)

    def _has_two_orders(self, island: Island) -> bool:
        """True where a reshape moves elements of images with the channels last."""
        shapes = [self.tensors[node.name].shape for node in island.inputs if isinstance(node, torch.fx.Node)]
        return any(len(shape) > 3 and shape[1] != 1 and any(size != 1 for size in shape[2:]) for shape in shapes)


def _is_op(node: Any) -> bool:
    """True for an op of this project that computes in integers."""
    return target_of(node).startswith("qconv.")


def _is_split(node: Any) -> bool:
    """True where a node gives several tensors, each of which is read as a part of its input."""
    if target_of(node) not in SPLITS:
        return False
    return all(str(user.target) == GETITEM and part_of(user) is not None for user in node.users)
