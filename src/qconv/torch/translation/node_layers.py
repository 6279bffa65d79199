"""The layers of one node of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import numpy as np
import torch

from qconv.dtypes import FLOAT8, RANGES
from qconv.expression.function import COMPUTED
from qconv.torch.arrays import name_of
from qconv.torch.extents import Extent, extent_of
from qconv.torch.pattern import Unmatched, arguments, constant, target_of
from qconv.torch.program import Constant, Described, Step

# Adds the layers of a node.
Translate = Callable[["NodeLayers"], None]


class NodeLayers:
    """The layers of a node as they are added, the last of which makes the node's output. `given` are the node's
    arguments by the names of its schema, `reads` the nodes whose outputs the layers read."""

    def __init__(self, node: Any) -> None:
        self.node = node
        # An element of a tuple has no schema.
        self.given = arguments(node) if hasattr(node.target, "_schema") else {}
        self.out = described(node)
        self.steps: list[Step] = []
        self.tensors: dict[str, Described] = {}
        self.constants: dict[str, Constant] = {}
        self.reads: dict[str, Any] = {}
        self.buffers: dict[str, Any] = {}  # tensors that are computed once, when the graph is lowered

    @property
    def dtype(self) -> str:
        return self.out.dtype

    @property
    def shape(self) -> tuple[Extent, ...]:
        return self.out.shape

    @property
    def rank(self) -> int:
        return len(self.out.shape)

    def of(self, argument: Any) -> Described:
        """Return the type and the shape of an argument that is a tensor."""
        return described(self._node(argument))

    def x(self, argument: Any) -> str:
        """Return the name of an argument that is a tensor."""
        node = self._node(argument)
        self.tensors[node.name] = described(node)
        self.reads[node.name] = node
        return str(node.name)

    def _node(self, argument: Any) -> Any:
        found = self.given[argument] if isinstance(argument, str) else argument
        if not isinstance(found, torch.fx.Node):
            raise Unmatched(f"{argument}={found} is no tensor")
        return found

    def value(self, name: str) -> Any:
        """Return an argument that is no tensor and does not depend on one."""
        found = self.given[name]
        if isinstance(found, torch.fx.Node) or (
            isinstance(found, list | tuple) and any(isinstance(each, torch.fx.Node) for each in found)
        ):
            raise Unmatched(f"the graph computes its {name}")
        return found

    def tensor_value(self, name: str) -> Any:
        """Return the value of an argument that is a constant tensor; None where it is not given."""
        found = self.given[name]
        if found is None:
            return None
        tensor = constant(self._node(found))
        if tensor is None:
            raise Unmatched(f"the graph computes its {name}")
        return tensor.detach().cpu().double().numpy()

    def numbers(self, values: Sequence[Any], dtype: str, shape: Sequence[Extent] | None = None) -> str:
        """Add a constant vector, and return its name. A shape of () is a single number."""
        name = f"{self.node.name}:{len(self.constants)}"
        self.constants[name] = Constant(dtype, (len(values),) if shape is None else tuple(shape), tuple(values))
        return name

    def number(self, value: float, dtype: str) -> str:
        is_whole = COMPUTED[dtype] in ("int32", "int64")
        return self.numbers((bool(value) if dtype == "bool" else int(value) if is_whole else float(value),), dtype, ())

    def buffer(self, array: Any, shape: Sequence[int]) -> str:
        """Add a tensor of float32 that the module is to hold, and return its name."""
        name = f"{self.node.name}_held{len(self.buffers)}"  # no node has such a name
        place = self.node.meta["val"].device
        self.buffers[name] = torch.from_numpy(np.asarray(array, np.float32).reshape(shape)).to(place)
        self.tensors[name] = Described("float32", tuple(shape))
        return name

    def operand(self, argument: Any, dtype: str) -> str:
        """Return an argument that is a tensor or a number, in a type."""
        found = self.given[argument] if isinstance(argument, str) else argument
        if isinstance(found, torch.fx.Node) and isinstance(found.meta.get("val"), torch.Tensor | None):
            return self.cast(self.x(found), dtype)
        if not isinstance(found, bool | int | float):
            raise Unmatched(f"the graph computes its {argument}")
        if not _has(dtype, found):
            raise Unmatched(f"its {argument} is {found}, which {dtype} does not have")
        return self.number(found, dtype)

    def cast(self, name: str, dtype: str) -> str:
        """Return a tensor in another type."""
        one = self.tensors[name]
        return name if one.dtype == dtype else self.made("Cast", (name,), dtype, one.shape)

    def made(
        self, op: str, inputs: Sequence[str], dtype: str, shape: Sequence[Extent] | None = None, **attributes: Any
    ) -> str:
        """Add a layer in front of the last, and return its output. Its shape is by default that of the node."""
        name = f"{self.node.name}.{len(self.steps)}"
        self.tensors[name] = Described(dtype, self.shape if shape is None else tuple(shape))
        self.steps.append(Step(op, tuple(inputs), name, attributes))
        return name

    def result(self, op: str, *inputs: str, **attributes: Any) -> None:
        """Add the last layer, whose output is the node's."""
        self.tensors[self.node.name] = self.out
        self.steps.append(Step(op, inputs, self.node.name, attributes))

    def same(self, name: str) -> None:
        """Make the output the same as a tensor of the same elements, in the output's type and shape."""
        self.result("Reshape", self.cast(name, self.dtype))

    def axis(self, name: str, rank: int | None = None) -> int:
        """Return an axis, counted from the front."""
        return int(self.value(name)) % max(self.rank if rank is None else rank, 1)


def _has(dtype: str, value: float) -> bool:
    """True for a number of a type; of floats, all but a NaN."""
    if COMPUTED[dtype] == "float32":
        return value == value
    low, high = (0, 1) if dtype == "bool" else RANGES.get(dtype, (-(2**63), 2**63 - 1))
    return value == value and abs(value) != inf and value == int(value) and low <= value <= high


def tensor_of(node: Any) -> Any:
    """Return a tensor with the type and the shape of a node's output; None where it is no tensor or unknown."""
    value = node.meta.get("val")
    if value is None and node.op == "get_attr":
        value = constant(node)
    return value if isinstance(value, torch.Tensor) else None


# PyTorch's conversions to 8-bit floats keep infinities, which those of expressions do not.
HAD = tuple(dtype for dtype in COMPUTED if dtype not in FLOAT8)


def described(node: Any) -> Described:
    """Return the type and the shape of a node's output. Raise Unmatched where it is no tensor that expressions have."""
    tensor = tensor_of(node)
    if tensor is None:
        raise Unmatched(f"the output of {node.name} is no tensor of known shape")
    if name_of(tensor.dtype) not in HAD:
        raise Unmatched(f"{target_of(node) or node.name} gives {tensor.dtype}; expressions have {', '.join(HAD)}")
    return shaped(tensor)


def shaped(tensor: Any) -> Described:
    return Described(name_of(tensor.dtype), tuple(map(extent_of, tensor.shape)))
