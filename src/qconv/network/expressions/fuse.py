"""Fusion: the layers that no other kernel serves, as few kernels of expressions.

A tensor stays lazy until something needs it in memory: a layer of another kind, the caller, or a second kernel for
which it would have to be computed again. The rules:

- elementwise functions and movement join their inputs;
- a reduction or a product computes cheap functions of its inputs itself, and is in memory for the next one;
- elementwise functions behind a reduction or a product join it where they read it in the order in which it is made;
- a tensor has its channels last where a layer of another kind reads it, or its own kernel reads neighbours that way;
- functions of one byte become a table where they cost more than a lookup;
- bytes that a product would compute again for each of its tiles are in memory, where that takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from math import prod

from qconv.expression.function import COMPUTED
from qconv.expression.node import Node, in_order
from qconv.expression.problem import MOST_OPERANDS
from qconv.network.expressions.again import is_worth_a_launch
from qconv.network.expressions.byte_tables import Tensors, with_tables
from qconv.network.expressions.expressed import Expressed
from qconv.network.expressions.kernel import Held, Inexpressible, check_one_kernel, folds_of, reads_last
from qconv.network.expressions.lazy import (
    Array,
    Element,
    Lazy,
    Place,
    Reader,
    Shape,
    cost_of,
    has_fold,
    has_product,
    indices_within,
    root_of,
    stored,
)
from qconv.network.expressions.light import ReadLight, taken_over
from qconv.network.expressions.partial import parted
from qconv.network.expressions.readers import FOLDING, READERS, read_by_place
from qconv.network.expressions.readers.movement import READERS as MOVING
from qconv.network.expressions.topk import with_ranks
from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.served import Reason, Served, Unserved
from qconv.network.layers.boundary import has_channels_last

# Functions per element that are computed again rather than stored for a second reader, and for a reduction or a
# product, which read their inputs several times.
CHEAP, FOLDED = 10, 16
# Functions of a dequantization.
WIDENED = 3
# Elements and functions of one kernel.
MOST_READ, MOST_FUNCTIONS = 16, 96
# Functions of a tensor that readers compute which become one kernel, so that these have room beside it.
MOST_JOINED = MOST_FUNCTIONS // 2


@dataclass(frozen=True)
class _Pending:
    """A lazy tensor, and the layers that it consists of."""

    lazy: Lazy
    parts: tuple[Layer, ...]
    constants: Mapping[str, Array]
    reads: frozenset[str]  # tensors in memory

    @cached_property
    def root(self) -> Node:
        """Return the expression of an element, over the axes of the tensor."""
        return root_of(self.lazy)


@dataclass
class _Fusion:
    network: Network
    served: dict[str, Served]
    tensors: dict[str, Tensor]  # of the network, and those that folds become
    lights: Mapping[str, ReadLight] = field(default_factory=dict)
    why_not: dict[str, Reason] = field(default_factory=dict)
    pending: dict[str, _Pending] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    lasts: dict[str, bool] = field(default_factory=dict)  # tensors in memory
    shapes: dict[str, Shape] = field(default_factory=dict)  # of tensors that kernels of expressions make

    @cached_property
    def order(self) -> Mapping[str, int]:
        """Return the places of the layers, by their names."""
        return {layer.name: at for at, layer in enumerate(self.network.layers)}

    def run(self) -> None:
        for layer in self.network.layers:
            if layer.name in self.served and layer.name not in self.lights:
                self._keep(layer)
                continue
            try:
                self._read(layer)
            except Unserved as error:
                if layer.name not in self.served:
                    self.why_not[layer.name] = error.reason
                self._keep(layer)
        for name in self.network.outputs:
            self._store(name)

    def _keep(self, layer: Layer) -> None:
        """Append a layer of another kind, which reads its inputs from memory."""
        for name in layer.reads:
            self._store(name)
        self.layers.append(layer)
        one = self.served.get(layer.name)
        for name in layer.outputs:
            before = self.lasts.get(layer.inputs[0], False) if layer.inputs else False
            self.lasts[name] = one is not None and (has_channels_last(one) or before)

    def _read(self, layer: Layer) -> None:
        made = [name for name in layer.outputs if name]
        read = self.lights.get(layer.name) or READERS.get(layer.op)
        if read is None or layer.captured or len(made) != 1:
            raise Unserved(f"no kernel here computes {layer.op}")
        (y,) = made
        folds = self._folds(layer) and not self._joins_again(layer)
        most = FOLDED if folds else FOLDED - WIDENED if self._is_widened_for_fold(layer) else MOST_FUNCTIONS
        placed = read_by_place(layer, self.network)
        for name in layer.reads:
            if name in self.pending and (name in placed or self._is_stored_for(name, folds, most)):
                self._store(name)
        result = self._result(layer, read)
        if not self._is_one_kernel(result):
            for name in layer.reads:
                if name in self.pending and self._has_fold(name):
                    self._store(name)
            result = self._result(layer, read)
        if not self._is_one_kernel(result) and self._is_cheap(layer):
            result = self._parted(y, result)
        if not self._is_one_kernel(result):
            for name in layer.reads:
                self._store(name)
            result = self._result(layer, read)
            if not self._is_one_kernel(result, is_one_layer=True):
                result = self._parted(y, result)
            if not self._is_one_kernel(result, is_one_layer=True):
                raise Unserved(f"no kernel here computes {layer.op} of these shapes")
        self.pending[y] = self._parted(y, result, only_long=True)
        self.served.pop(layer.name, None)
        if self._is_of_elements(layer) and is_worth_a_launch(self.network, y, self.pending[y].root, self._is_expressed):
            self._store(y)

    def _parted(self, y: str, one: _Pending, only_long: bool = False) -> _Pending:
        """Store folds of a pending tensor as tensors of their own, and return what is left."""
        while (part := parted(one.lazy, self._held_for(one), only_long)) is not None:
            names = (f"{y}/{at}" for at in count())
            name = next(name for name in names if name not in self.tensors and name not in one.constants)
            fold = self._reading(one, part.fold)
            self.tensors[name] = Tensor(name, fold.lazy.dtype, fold.lazy.shape)
            if len(folds_of(fold.root)) > 1:  # folds of folds
                fold = self._parted(name, fold) if not self._is_one_kernel(fold) else fold
            self._append(name, fold)
            one = self._reading(one, part.rest(name))
            if not only_long and self._is_one_kernel(one):
                break
        return one

    def _reading(self, one: _Pending, lazy: Lazy) -> _Pending:
        """Return a part of a pending tensor, which reads fewer tensors."""
        read = {node.tensor for node in in_order(root_of(lazy)) if isinstance(node, Element | Place)}
        return replace(one, lazy=lazy, reads=frozenset(name for name in read if name not in one.constants))

    def _is_widened_for_fold(self, layer: Layer) -> bool:
        """True where what a layer dequantizes is only folded: bytes in memory are a quarter of the real numbers."""
        behind: Layer | None = layer
        if layer.op != "DequantizeLinear":
            return False
        while behind is not None and (behind is layer or behind.op in MOVING):
            behind = self.network.only_consumer(behind.outputs[0])
        return behind is not None and self._folds(behind)

    def _is_stored_for(self, name: str, folds: bool, most: int) -> bool:
        """True where a reader, which computes this many functions of a tensor, needs a pending one in memory."""
        root = self.pending[name].root
        readers = len(self.network.consumers.get(name, ())) + (name in self.network.outputs)
        if self._is_rolled(name):
            readers = 1
        if has_fold(root):
            return folds or readers > 1
        _, functions = cost_of(root)
        if readers > 1:
            most = min(most, MOST_JOINED if self._meet(name) else CHEAP)
        return functions > most

    def _is_rolled(self, name: str) -> bool:
        """True where two layers cut a tensor, and a third one joins its parts again, in the other order: it is read
        once."""
        cuts = self.network.consumers.get(name, ())
        if len(cuts) != 2 or any(cut.op not in ("Slice", "Split") for cut in cuts) or name in self.network.outputs:
            return False
        joins = [self.network.only_consumer(cut.outputs[0]) for cut in cuts]
        elements = [prod(self.network.tensor(each).extents or ()) for each in (name, *(cut.outputs[0] for cut in cuts))]
        return joins[0] is not None and joins[0] is joins[1] and elements[0] == elements[1] + elements[2]

    def _joins_again(self, layer: Layer) -> bool:
        cuts = [self.network.producers.get(name) for name in layer.inputs]
        return layer.op == "Concat" and any(cut is not None and self._is_rolled(cut.inputs[0]) for cut in cuts)

    def _meet(self, name: str) -> bool:
        """True where one of the readers of a tensor has all others as parts, as a product with its own sigmoid has."""
        readers = self.network.consumers.get(name, ())
        names = {reader.name for reader in readers}
        ends = [reader for reader in readers if not self._leads_to(reader, names - {reader.name})]
        return len(ends) == 1 and name not in self.network.outputs

    def _leads_to(self, layer: Layer, ends: Collection[str]) -> bool:
        """True where functions of elements alone lie between a layer and one of others."""
        while self._is_of_elements(layer) and layer.outputs[0] not in self.network.outputs:
            behind = self.network.only_consumer(layer.outputs[0])
            if behind is None or behind.name in ends:
                return behind is not None
            layer = behind
        return False

    def _is_expressed(self, layer: Layer) -> bool:
        return layer.name in self.lights or (layer.op in READERS and layer.name not in self.served)

    def _is_of_elements(self, layer: Layer) -> bool:
        is_known = self._is_expressed(layer) and len(layer.outputs) == 1
        return is_known and layer.op not in FOLDING and layer.op not in MOVING

    def _is_cheap(self, layer: Layer) -> bool:
        """True where each of several kernels may compute the inputs of a layer again."""
        pending = [self.pending[name].root for name in layer.reads if name in self.pending]
        return bool(pending) and all(not has_fold(root) and cost_of(root)[1] <= CHEAP for root in pending)

    def _held_for(self, one: _Pending) -> Callable[[str], Held]:
        """Return how the tensors that an expression reads lie in memory."""

        def held(name: str) -> Held:
            if name in one.constants:
                return Held(one.constants[name].shape, str(one.constants[name].dtype))
            tensor = self.network.tensor(name)
            shape = self.shapes.get(name, tensor.extents or ())
            return Held(shape, tensor.dtype or "", self.lasts.get(name, False) and len(shape) > 2)

        return held

    def _wants_last(self, name: str, one: _Pending) -> bool:
        """True where a tensor should have its channels last: as a reader of another kind wants them, else as they are
        in what a map reads."""
        rank, behind = len(one.lazy.shape), self.network.consumers.get(name, ())
        if rank < 3 or any(name in read_by_place(each, self.network) for each in behind):
            return False
        readers = (each.name for each in behind if each.name not in self.lights)
        if any(has_channels_last(self.served[reader]) for reader in readers if reader in self.served):
            return True
        held = self._held_for(one)
        if self._reads_by_place(one) or (has_product(one.root) and any(map(self._folds, behind))):
            return False
        prefers = None if has_fold(one.root) else reads_last(one.lazy, held)
        alike = [each for each in one.reads if len(held(each).shape) == rank]
        return any(held(each).is_last for each in alike) if prefers is None else prefers

    def _folds(self, layer: Layer) -> bool:
        """True where a layer folds, as a softmax does the rows of a product: as a rule along the last axis."""
        return layer.op in FOLDING and layer.name not in self.lights

    def _reads_by_place(self, one: _Pending) -> bool:
        """True where elements have computed places, which are counted in the model's order: the pixels of a channel are
        close to each other there, and its neighbours are not."""
        return any(isinstance(node, Place) and node.tensor in one.reads for node in in_order(one.root))

    def _has_fold(self, name: str) -> bool:
        return has_fold(self.pending[name].root)

    def _result(self, layer: Layer, read_layer: ReadLight) -> _Pending:
        inputs = [self._input(name) if name else None for name in layer.inputs]
        reader = Reader(layer, self.network, inputs)
        lazy = read_layer(reader)
        if not lazy.elements:
            raise Unserved("its output has no elements")
        before = [self.pending[name] for name in layer.reads if name in self.pending]
        parts = {part.name: part for one in before for part in one.parts} | {layer.name: layer}
        constants = dict(self.network.constants)
        for one in before:
            constants |= one.constants
        lazy = with_tables(lazy, Tensors((constants | reader.added).get, self._type_of), reader.add)
        constants |= reader.added
        nodes = in_order(root_of(lazy))
        read = {node.tensor for node in nodes if isinstance(node, Element | Place)}
        for name in read:
            if 0 in (self.network.tensor(name).extents or ()):
                raise Unserved(f"its input {name!r} has no elements")
        tables = {table for node in nodes for index in indices_within(node) for table in index.tables}
        return _Pending(
            lazy,
            tuple(sorted(parts.values(), key=lambda part: self.order[part.name])),
            {name: constants[name] for name in read | tables if name in constants},
            frozenset(name for name in read if name not in constants),
        )

    def _type_of(self, name: str) -> str | None:
        return self.network.tensor(name).dtype

    def _input(self, name: str) -> Lazy:
        if name in self.pending:
            return self.pending[name].lazy
        array = self.network.constant(name)
        tensor = self.network.tensor(name)
        # A made tensor has a shape, even where inference knows none: it takes a scalar for unknown.
        known = self.shapes.get(name, tensor.extents)
        extents, dtype = (known, tensor.dtype) if array is None else (array.shape, str(array.dtype))
        if extents is None or dtype not in COMPUTED:
            shown = "unknown" if extents is None else f"{extents} of {dtype}"
            maker = self.network.producers.get(name)
            raise Unserved(
                f"its input {name!r} is {shown}; the kernels of expressions read known shapes of {', '.join(COMPUTED)}",
                None if maker is None else maker.name,
            )
        return stored(name, extents, dtype)

    def _is_one_kernel(self, one: _Pending, is_one_layer: bool = False) -> bool:
        """True where one kernel makes the tensor. A single layer may have as many operands as a kernel has."""
        read, functions = cost_of(one.root)
        if not is_one_layer and (read > MOST_READ or functions > MOST_FUNCTIONS):
            return False
        large = [array for array in one.constants.values() if array.size > 1]
        numbers = {str(array.dtype) for array in one.constants.values() if array.size == 1}
        if len(one.reads) + len(large) + len(numbers) > MOST_OPERANDS:
            return False
        try:
            check_one_kernel(one.lazy)
        except Inexpressible:
            return False
        return True

    def _store(self, name: str) -> None:
        """Append the kernel that makes a pending tensor."""
        one = self.pending.pop(name, None)
        if one is not None:
            self._append(name, one)

    def _append(self, name: str, one: _Pending) -> None:
        """Append the kernel that makes a tensor: the output of a layer, or a fold within the last of its layers."""
        of_layer = next((part for part in one.parts if name in part.outputs), None)
        last = of_layer or replace(one.parts[-1], name=name)
        inputs = tuple(sorted(one.reads))
        layer = Layer(last.name, last.op, inputs, (name,), parts=one.parts, is_expression=True)
        held = {each: self._held_for(one)(each) for each in inputs}
        tensors = {each: (tensor.shape, tensor.dtype) for each, tensor in held.items()}
        lasts = frozenset(each for each, tensor in held.items() if tensor.is_last)
        wants_last = of_layer is not None and self._wants_last(name, one)
        made = Expressed(layer, one.lazy, inputs, tensors, one.constants, lasts, wants_last)
        try:
            self.lasts[name] = made.kernel(made.lasts).is_last
        except ValueError as error:  # such as of more elements than kernels count
            if of_layer is None:
                raise Unserved(str(error)) from None
            self._leave(one.parts, str(error))
            return
        self.served[layer.name] = made
        self.shapes[name] = one.lazy.shape
        self.layers.append(layer)

    def _leave(self, parts: Sequence[Layer], why: str) -> None:
        """Append layers that run elsewhere after all."""
        there = {layer.name for layer in self.layers}
        for part in parts:
            if part.name not in there:
                self.layers.append(part)
                self.why_not[part.name] = Reason(why)


def fuse(network: Network, served: Mapping[str, Served]) -> tuple[Network, dict[str, Served], dict[str, Reason]]:
    """Return the network with expressions in the place of layers that they compute, the served layers, and why each
    other layer is not one."""
    network = with_ranks(network)
    tensors = dict(network.tensors)
    fusion = _Fusion(replace(network, tensors=tensors), dict(served), tensors, taken_over(network, served))
    fusion.run()
    return replace(fusion.network, layers=tuple(fusion.layers)).without_unread(), fusion.served, fusion.why_not


def _parts(layer: Layer) -> tuple[Layer, ...]:
    """Return the layers from before folding. A layer of a single part is one of its outputs, and no folded one."""
    return tuple(part for each in layer.parts for part in _parts(each)) if len(layer.parts) > 1 else (layer,)


def unfolded(network: Network, served: Collection[str]) -> Network:
    """Return the network with the parts of those folded layers that are not served after all."""
    layers = (part for layer in network.layers for part in ((layer,) if layer.name in served else _parts(layer)))
    return replace(network, layers=tuple(layers))
