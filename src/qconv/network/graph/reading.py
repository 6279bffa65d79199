"""The inputs of one layer, for the readers of layers. An input that is not as a kernel needs it raises `Unserved`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qconv.network.graph.graph import Layer, Network
from qconv.network.graph.served import Reason, Served, Unserved
from qconv.tensor_ops.problem import BYTES

Array = NDArray[Any]
# The inputs of ONNX Runtime's quantized unary ops that are scales and zero points.
NUMBERS = {"x_scale": 1, "x_zero_point": 2, "y_scale": 3, "y_zero_point": 4}


class Reading:
    """The inputs of one layer by number, and the checks that kernels require of them."""

    def __init__(self, layer: Layer, network: Network) -> None:
        self.layer = layer
        self.network = network

    def name(self, number: int) -> str:
        return self.layer.inputs[number] if number < len(self.layer.inputs) else ""

    def constant(self, number: int, what: str) -> Array:
        name = self.name(number)
        array = self.network.constant(name) if name else None
        if array is None:
            says = f"{name!r} is computed" if name else "it is not given"
            raise Unserved(f"the kernels need a constant {what}: {says}")
        return array

    def optional(self, number: int, what: str) -> Array | None:
        return self.constant(number, what) if self.name(number) else None

    def x(self, number: int = 0) -> tuple[str, str]:
        """Return the name and type of an input that must not be a constant."""
        name = self.name(number)
        if name in self.network.constants:
            raise Unserved(f"its input {name!r} is a constant")
        return name, self.dtype(number)

    def dtype(self, number: int) -> str:
        """Return the type of an input, constant or not."""
        name = self.name(number)
        array, tensor = self.network.constant(name), self.network.tensor(name)
        dtype = tensor.dtype if array is None else str(array.dtype)
        if dtype not in BYTES:
            raise Unserved(f"its input {name!r} is {dtype}; the kernels read {' and '.join(BYTES)}")
        return dtype

    def weights(self, number: int, ranks: tuple[int, ...]) -> Array:
        w = self.constant(number, "w")
        if str(w.dtype) not in BYTES or w.ndim not in ranks:
            has = " or ".join(map(str, ranks))
            raise Unserved(f"w is {w.dtype} with {w.ndim} dimensions; the kernels read bytes with {has}")
        return w

    def scales(self, numbers: Mapping[str, int], k: int) -> dict[str, Any]:
        """Return scales and zero points: one number, or for the weights one per output. Equal numbers are returned as
        one, which needs no kernel of its own."""
        found = {}
        for name, number in numbers.items():
            array = self.optional(number, name)
            if array is None:
                continue
            if array.size not in ((1, k) if name.startswith("w_") else (1,)):
                raise Unserved(
                    f"{name} has {array.size} values; the kernels take one, or one per output for the weights"
                )
            found[name] = one_where_same(array.reshape(-1))
        return found


def read_each(
    network: Network, served: Mapping[str, Served], op: str, read: Callable[[Reading], Served]
) -> tuple[dict[str, Served], dict[str, Reason]]:
    """Return the served layers with those of an op that a reader takes, and why it does not take the others."""
    found, left = dict(served), dict[str, Reason]()
    for layer in network.layers:
        if layer.op == op:
            try:
                found[layer.name] = read(Reading(layer, network))
            except Unserved as error:
                left[layer.name] = error.reason
    return found, left


def one_where_same(array: Array) -> Array:
    """Return a single number if all values are equal, else the array."""
    return np.asarray(array.flat[0]) if array.size and (array == array.flat[0]).all() else array
