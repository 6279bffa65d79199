"""Random expressions: every function and type, and operands that are read in every way that an index can say.

`Drawer` makes expressions of any axes; `maps` are whole problems. The seed determines them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

import numpy as np

from qconv.expression import FUNCTIONS, Axis, Guard, Index, Load, Map, Node, Number, Operand, Position, call, flat
from qconv.expression.function import BOOL, COMPUTED, FLOAT, INT, LONG, Function
from qconv.expression.index import unflat
from qconv.expression.node import Lookup, text_of
from qconv.expression.problem import STORED

TYPES = (FLOAT, INT, LONG, BOOL)
# A function that makes a value of each type, and the type that it takes.
MAKERS: dict[str, list[tuple[Function, str]]] = {
    made: [(one, taken) for one in FUNCTIONS.values() for taken in one.takes if (one.result or taken) == made]
    for made in TYPES
}
NUMBERS: dict[str, Sequence[float | int | bool]] = {
    FLOAT: (0.0, -0.0, 1.0, -1.5, 0.1, 3e38, 1e-40, float("inf"), float("-inf"), float("nan"), 88.0),
    INT: (0, 1, -1, 7, 31, 255, -(2**31), 2**31 - 1),
    LONG: (0, 1, -3, 40, 2**40 + 1, -(2**63), 2**63 - 1),
    BOOL: (False, True),
}


class Drawer:
    """Draws nodes of these axes. The operands that they read are in `operands`, in the order of their names."""

    def __init__(self, rng: random.Random, axes: Sequence[Axis], most_operands: int = 12) -> None:
        self.rng, self.axes = rng, axes
        self.operands: list[Operand] = []
        self._most = most_operands
        self._made: list[Node] = []

    def node(self, dtype: str, depth: int) -> Node:
        """Return a node of a type, with at most `depth` functions in a row; some nodes are used again."""
        again = [node for node in self._made if node.dtype == dtype]
        if again and self.rng.random() < 0.2:
            return self.rng.choice(again)
        made = self._leaf(dtype) if depth == 0 or self.rng.random() < 0.1 else self._call(dtype, depth)
        self._made.append(made)
        return made

    def _call(self, dtype: str, depth: int) -> Node:
        if self.rng.random() < 0.05 and len(self.operands) < self._most - 5:
            return self.looked_up(dtype, depth)
        function, taken = self.rng.choice(MAKERS[dtype])
        types = [taken] * function.arity
        if function.name == "select":
            types[0] = BOOL
        return call(function.name, *(self.node(each, depth - 1) for each in types))

    def _leaf(self, dtype: str) -> Node:
        chance = self.rng.random()
        if dtype == INT and chance < 0.1:
            return Position(flat(map(Index.of, self.axes), (axis.extent for axis in self.axes)))
        if chance < 0.15 or len(self.operands) >= self._most - 5:
            return Number(self.rng.choice(NUMBERS[dtype]), dtype)
        return self.load(dtype)

    def looked_up(self, dtype: str, depth: int) -> Lookup:
        """Return an element of a new operand whose place is a value."""
        last = self.rng.choice((0, 1, 6, 63, 200))
        place = self.node(INT, depth - 1)
        clamped = call("minimum", call("maximum", place, Number(0, INT)), Number(last, INT))
        if last & (last + 1) == 0 and self.rng.random() < 0.5:
            clamped = call("bit_and", place, Number(last, INT))
        stored = self.rng.choice([name for name, computed in COMPUTED.items() if computed == dtype])
        name = self._add(Operand(stored, last + 1, self.rng.random() < 0.2))
        return Lookup(name, clamped, dtype)

    def load(self, dtype: str) -> Load:
        """Return a load of a new operand, whose axes are some of those of the expression, in any order."""
        kept = [axis for axis in self.axes if self.rng.random() < 0.8]
        if self.rng.random() < 0.4:
            self.rng.shuffle(kept)
        indices, shape, guards = [], [], []
        for axis in kept:
            index, extent, guard = self._along(axis)
            indices.append(index)
            shape.append(extent)
            guards += [guard] if guard is not None else []
        at = flat(indices, shape)
        if not guards and kept == list(self.axes) and len(kept) > 1 and self.rng.random() < 0.2:
            at = self._reshaped(at, shape)
        stored = self.rng.choice([name for name, computed in COMPUTED.items() if computed == dtype])
        name = self._add(Operand(stored, max(1, prod(shape)), self.rng.random() < 0.2))
        fill = Number(self.rng.choice(NUMBERS[dtype]), dtype) if guards else None
        return Load(name, at, dtype, tuple(guards), fill)

    def mixed(self, root: Node) -> Node:
        """Return the node in the place of some elements of an operand, because many random nodes are constant."""
        other = self.load(root.dtype)
        some = self.load(INT)
        return call("select", call("less", some, Number(20, INT)), root, other)

    def _add(self, operand: Operand) -> str:
        self.operands.append(operand)
        return f"x{len(self.operands) - 1}"

    def _along(self, axis: Axis) -> tuple[Index, int, Guard | None]:
        """Return how an axis reads an axis of an operand: the index, the operand's extent, and a guard."""
        own, extent = Index.of(axis), axis.extent
        ways: list[Callable[[], tuple[Index, int, Guard | None]]] = [
            lambda: (own, extent, None),
            lambda: (own, extent, None),
            lambda: (own * 2 + 1, 2 * extent + 1, None),
            lambda: (own * -1 + (extent - 1), extent, None),
            lambda: (own // 2, (extent + 1) // 2, None),
            lambda: (own % 3, 3, None),
            lambda: (own - 2, extent, Guard(own - 2, extent)),
            lambda: (own + 1, extent, Guard(own + 1, extent)),
            lambda: (own // 2, extent, Guard(own % 2, 1)),
            lambda: self._gathered(own, extent),
        ]
        return self.rng.choice(ways)()

    def _gathered(self, own: Index, extent: int) -> tuple[Index, int, Guard | None]:
        if len(self.operands) >= self._most - 2:
            return own, extent, None
        most = self.rng.randint(1, 9)
        name = self._add(Operand("int32", max(1, own.high + 1), True, 0, most))
        return Index.entry(name, own, np.array([0, most, *[1] * extent])), most + 1, None

    def _reshaped(self, at: Index, shape: Sequence[int]) -> Index:
        """Return the offset of the element whose axes are transposed behind a reshape."""
        places = unflat(at, (prod(shape[:-1]), shape[-1]))
        return flat(reversed(places), (shape[-1], prod(shape[:-1])))


def every_function() -> Map:
    """Return a problem whose kernel contains all functions."""
    loads = {dtype: Load(f"x{at}", Index(), dtype) for at, dtype in enumerate(TYPES)}
    said: list[Node] = []
    for function in FUNCTIONS.values():
        arguments = [loads[function.takes[0]]] * function.arity
        if function.name == "select":
            arguments[0] = loads[BOOL]
        said.append(call("to_bool", call(function.name, *arguments)))
    root = reduce(lambda one, other: call("bit_xor", one, other), said)
    return Map(operands=tuple(Operand(dtype, 1) for dtype in TYPES), y_type=BOOL, do=text_of(root))


def shape_of(rng: random.Random) -> tuple[int, ...]:
    """Return a shape of none to four axes, whose last is often a multiple of a vector."""
    axes = [rng.choice((1, 2, 3, 5, 8)) for _ in range(rng.randint(0, 3))]
    return (*axes, rng.choice((1, 7, 16, 48, 33, 128, 320, 1040))) if rng.random() < 0.97 else ()


def maps(seed: int, count: int, depth: int = 4) -> list[Map]:
    return [_map(random.Random(f"maps {seed} {index}"), depth) for index in range(count)]


def _map(rng: random.Random, depth: int) -> Map:
    shape = shape_of(rng)
    drawer = Drawer(rng, [Axis(f"i{at}", extent) for at, extent in enumerate(shape)])
    dtype = rng.choice((FLOAT, FLOAT, INT, INT, LONG, BOOL))
    root = drawer.node(dtype, depth)
    if rng.random() < 0.7:
        root = drawer.mixed(root)
    return Map(operands=tuple(drawer.operands), y_type=rng.choice(STORED[dtype]), do=text_of(root), shape=shape)


def map_of(shape: Sequence[int], y_type: str, operands: Sequence[str], do: str) -> Map:
    """Return the map of texts, as the command reads them."""
    return Map.of({"shape": tuple(shape), "in": ",".join(operands), "out": y_type, "do": do})


_HIDDEN = 8 * 197 * 768
# Typical layers between the products and convolutions of a network.
TYPICAL = {
    "a sum of halves": map_of((_HIDDEN,), "float16", [f"float16*{_HIDDEN}"] * 2, "y=add(x0[i0],x1[i0])"),
    "bytes through a gelu": map_of(
        (8 * 197, 768),
        "int8",
        [f"int8*{_HIDDEN}", "float32*1!", "int8*1!", "float32*1!"],
        "a=multiply(to_float32(subtract(x0[i0*768+i1],x2[0])),x1[0])"
        ";b=multiply(multiply(a,0.5),add(erf(multiply(a,0.70710678)),1.0))"
        ";y=to_int32(minimum(maximum(round(divide(b,x3[0])),-128.0),127.0))",
    ),
    "a factor and an offset per channel": map_of(
        (8, 96, 3136),
        "float32",
        ["float16*2408448", "float32*96!", "float32*96!"],
        "y=maximum(add(multiply(x0[i0*301056+i1*3136+i2],x1[i1]),x2[i1]),0.0)",
    ),
    "a padded image": map_of(
        (8, 226, 226, 3),
        "uint8",
        ["uint8*1204224"],
        "y=guarded(x0[i0*150528+i1*672+i2*3+i3-675],114,i1-1,224,i2-1,224)",
    ),
    "rows of a table": map_of(
        (8, 128, 512), "float16", ["float16*15360000", "int32*128!0..29999"], "y=x0[x1[i1]*512+i2]"
    ),
    "a comparison of integers": map_of(
        (64, 1000),
        "bool",
        ["int64*64000", "int64*64", "bool*1000"],
        "y=bit_and(less(x0[i0*1000+i1],x1[i0]),logical_not(x2[i1]))",
    ),
    "a normalization of groups": map_of(
        (8, 1024, 32, 2),
        "uint8",
        ["uint8*524288", "float32*256", "float32*32!", "uint8*64!", "float32*2!"],
        "a=to_float32(subtract(x0[i0*65536+i1*64+i2*2+i3],x3[0]));b=multiply(subtract(a,x1[i0*32+i2]),x2[i2])"
        ";c=add(b,to_float32(x3[i2*2+i3]));y=quantize(c,x4[0],x4[1],0.0,255.0)",
    ),
    "channels last": map_of((8, 3136, 96), "int8", ["int8*2408448"], "y=x0[i0*301056+i2*3136+i1]"),
}
