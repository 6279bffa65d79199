"""Light layers of bytes: sums, products, tables and movement between convolutions.

Each has a kernel of its own, which is one launch. Where several are neighbours, or one is beside an expression, they
become parts of one, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from qconv.expression.index import Index
from qconv.expression.node import Node, Number, call
from qconv.network.expressions.lazy import Array, Indices, Lazy, Place, Reader, stored
from qconv.network.expressions.readers import READERS
from qconv.network.expressions.readers.joining import concat
from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Served
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.concatenation import Joined
from qconv.network.layers.convolution import IntegerConvolution
from qconv.network.layers.folds import with_sum, with_table
from qconv.network.layers.movement import Moving, Reshaped, Transposed
from qconv.network.layers.pixel_blocks import Blocks
from qconv.network.layers.shuffle import Shuffled
from qconv.network.layers.table import Tabulated
from qconv.tensor_ops import Add
from qconv.tensor_ops.binary import steps, turned
from qconv.tensor_ops.concat import MOST_TENSORS

ReadLight = Callable[[Reader], Lazy]
# Neighbouring layers that compute, from which on one kernel is worth more than theirs.
FEWEST = 2
# Layers that would copy element by element, where an expression has vectors, or is no copy.
COPIES = (Blocks, Reshaped, Shuffled, Transposed)


def taken_over(network: Network, served: Mapping[str, Served]) -> dict[str, ReadLight]:
    """Return the light layers that are to be parts of expressions, with their readers, by their names."""
    readers: dict[str, ReadLight] = {}
    taken: dict[str, ReadLight] = {}
    for layer in network.layers:
        one = served.get(layer.name)
        if isinstance(one, Joined) and len(one.inputs) > MOST_TENSORS and layer.op in READERS:
            taken[layer.name] = READERS[layer.op]
        elif one is not None and not _joins_a_convolution(network, served, one):
            read = _reader(network, one)
            if read is not None:
                readers[layer.name] = read
    taken |= {name: read for name, read in readers.items() if isinstance(served[name], COPIES)}
    for group in _groups(network, served, readers):
        computing = [layer for layer in group if isinstance(served.get(layer.name), QuantizedBinary | Tabulated)]
        if len(computing) >= FEWEST or any(layer.name not in served for layer in group):
            taken |= {layer.name: readers[layer.name] for layer in group if layer.name in readers}
    for pair in _cuts_and_readers(network, served, readers):
        taken |= {name: readers[name] for name in pair}
    return taken


def _cuts_and_readers(
    network: Network, served: Mapping[str, Served], readers: Mapping[str, ReadLight]
) -> Iterator[tuple[str, str]]:
    """Yield each layer that cuts a part out of a tensor, with the light layer that alone reads the part."""
    for name in readers:
        one = served[name]
        if not isinstance(one, Joined) or len(one.inputs) > 1:
            continue
        behind = network.only_consumer(one.y)
        if behind is not None and behind.name in readers and not isinstance(served[behind.name], Joined):
            yield name, behind.name


def is_a_view(network: Network, one: Served | None) -> bool:
    """True where a layer copies nothing, whatever the open extents: the flattening of single pixels behind a global
    pool."""
    shapes = [network.tensor(name).shape for name in (one.inputs[0], one.y)] if isinstance(one, Reshaped) else [None]
    return all(shape is not None and all(extent == 1 for extent in shape[2:]) for shape in shapes)


def _joins_a_convolution(network: Network, served: Mapping[str, Served], one: Served) -> bool:
    """True where the convolution before a sum or a table may compute it."""
    for name in one.inputs:
        maker = network.producers.get(name)
        before = None if maker is None else served.get(maker.name)
        if not isinstance(before, IntegerConvolution):
            continue
        if isinstance(one, Tabulated) and with_table(network, before, one) is not None:
            return True
        if isinstance(one, QuantizedBinary) and one.kind is Add and with_sum(network, before, one) is not None:
            return True
    return False


def _groups(network: Network, served: Mapping[str, Served], readers: Mapping[str, ReadLight]) -> Iterator[list[Layer]]:
    """Yield the largest sets of light layers and of layers without kernels that read each other's tensors."""
    members = [layer for layer in network.layers if layer.name in readers or layer.name not in served]
    names = {layer.name for layer in members}
    seen: set[str] = set()
    for layer in members:
        group, waiting = [], [layer]
        while waiting:
            each = waiting.pop()
            if each.name in seen or each.name not in names:
                continue
            seen.add(each.name)
            group.append(each)
            waiting += [maker for name in each.reads if (maker := network.producers.get(name)) is not None]
            waiting += [reader for name in each.outputs for reader in network.consumers.get(name, ())]
        if group:
            yield group


def _reader(network: Network, one: Served) -> ReadLight | None:
    """Return the reader of a light layer, or None for another one."""
    if isinstance(one, QuantizedBinary):
        return partial(_binary, one)
    if isinstance(one, Tabulated):
        return partial(_tabulated, one)
    if isinstance(one, Joined) and any(table is not None for table in one.tables):
        return partial(_joined, one)
    if isinstance(one, Shuffled):
        shape = network.tensor(one.inputs[0]).extents
        is_known = shape is not None and not one.is_shuffle_of(shape)
        return partial(_in_turn, one.layer.unfolded) if is_known else None
    is_moving = isinstance(one, Moving) and len(one.layer.unfolded) == 1
    return READERS.get(one.layer.op) if is_moving else None


def _looked_up(reader: Reader, x: Lazy, table: Array) -> Lazy:
    """Return the entries of a table for bytes."""
    name, last = reader.add(table), Number(len(table) - 1, "int32")
    return Lazy(x.shape, str(table.dtype), lambda indices: Place(name, call("bit_and", x.at(indices), last), "int32"))


def _in_turn(layers: Sequence[Layer], reader: Reader) -> Lazy:
    """Read layers of which each reads the one before."""
    x = reader.x()
    for layer in layers:
        x = READERS[layer.op](Reader(layer, reader.network, [x], reader.added))
    return x


def _tabulated(one: Tabulated, reader: Reader) -> Lazy:
    return _looked_up(reader, reader.x(), one.table)


def _joined(one: Joined, reader: Reader) -> Lazy:
    """Read a concatenation of tensors, some of which have a table."""
    parts = [reader.of(name) for name in one.inputs]
    parts = [
        part if table is None else _looked_up(reader, part, table)
        for part, table in zip(parts, one.tables, strict=True)
    ]
    layer = replace(reader.layer, op="Concat", inputs=("",) * len(parts))
    return concat(Reader(layer, reader.network, parts, reader.added))


def _constant(reader: Reader, array: Array) -> Lazy:
    return stored(reader.add(array), array.shape, str(array.dtype))


def _binary(one: QuantizedBinary, reader: Reader) -> Lazy:
    """Read a sum or a product by the steps of its kernel."""
    operands = [reader.of(each) if isinstance(each, str) else _constant(reader, each) for each in one.operands]
    shape = tuple(np.broadcast_shapes(*(operand.shape for operand in operands)))
    try:
        problem, is_turned, _ = one.problem([operand.shape for operand in operands])
    except ValueError:  # no kernel of its own has these shapes
        return READERS[one.layer.op](reader)
    parameters = problem.checked(dict(turned(one.parameters) if is_turned else one.parameters))
    values = {
        each.name: reader.vector(np.asarray([each.value(problem, parameters)], each.dtype))
        for step in steps(problem)
        for each in step.arguments
    }
    a, b = (operand.expanded(shape) for operand in (reversed(operands) if is_turned else operands))

    def number(name: str) -> Node:
        return values[name](Index())

    def at(indices: Indices) -> Node:
        left, right = a(indices), b(indices)
        if isinstance(problem, Add):
            terms = {"a": (left, number("a_ratio")), "b": (right, number("b_ratio"))}
            total = number("offset")
            for name in (problem.added_first, "a" if problem.added_first == "b" else "b"):
                total = call("fma", call("to_float32", terms[name][0]), terms[name][1], total)
        else:
            moved = call("subtract", left, number("a_zero")), call("subtract", right, number("b_zero"))
            whole = call("to_float32", call("multiply", *moved))
            total = call("add", call("multiply", whole, number("ratio")), number("y_zero"))
        clamped = call("minimum", call("maximum", total, number("low")), number("high"))
        return call("nearest", clamped)

    return Lazy(shape, problem.out_type, at)
