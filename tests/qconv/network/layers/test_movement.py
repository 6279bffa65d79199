"""Layers that only move bytes: their results are NumPy's, channels-last tensors stay so, and where they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.network import IntegerConvolution, Layer, Network, Tensor, Unserved, Value, read_layer, serve_moving

CPU = open_device("cpu")
RNG = np.random.default_rng(9)


def layer_of(op: str, attributes: dict[str, Any] | None = None, constant: Any = None) -> Any:
    held = {} if constant is None else {"k": np.asarray(constant, np.int64)}
    layer = Layer("layer", op, ("x", *held), ("y",), attributes or {})
    return read_layer(layer, Network(("x",), ("y",), (layer,), {"x": Tensor("x", "uint8")}, held))


def both_orders(x: Any) -> list[Value]:
    """Return the value as it is, and channels-last if it has channels."""
    last = [] if x.ndim < 3 else [np.ascontiguousarray(np.moveaxis(x, 1, -1))]
    return [Value(CPU, there=CPU.upload(x)), *(Value(CPU, channels_last=CPU.upload(array)) for array in last)]


FULL = (2, 5, 4, 3)
# The op, its attributes, its constant, the shape of x and that of y.
SHAPES: list[tuple[str, dict[str, Any], Any, tuple[int, ...], tuple[int, ...]]] = [
    ("Flatten", {}, None, FULL, (2, 60)),
    ("Flatten", {}, None, (2, 9, 1, 1), (2, 9)),
    ("Flatten", {}, None, (2, 1, 4, 3), (2, 12)),
    ("Flatten", {"axis": 2}, None, FULL, (10, 12)),
    ("Flatten", {"axis": 0}, None, FULL, (1, 120)),
    ("Flatten", {"axis": -1}, None, FULL, (40, 3)),
    ("Reshape", {}, [0, -1], FULL, (2, 60)),
    ("Reshape", {}, [0, 0, -1], FULL, (2, 5, 12)),
    ("Reshape", {}, [-1, 2, 2, 0], FULL, (10, 2, 2, 3)),
    ("Reshape", {}, [2, 5, 1, 1], (2, 5), (2, 5, 1, 1)),
    ("Reshape", {}, [-1], (2, 5), (10,)),
    ("Reshape", {"allowzero": 1}, [0, 3], (0, 3), (0, 3)),
    ("Squeeze", {}, [2, -1], (2, 5, 1, 1), (2, 5)),
    ("Squeeze", {}, None, (1, 5, 1, 3), (5, 3)),
    ("Squeeze", {}, 0, (1, 5, 1, 3), (5, 1, 3)),
    ("Squeeze", {"axes": [2]}, None, (2, 5, 1, 3), (2, 5, 3)),
    ("Unsqueeze", {}, [2, 3], (2, 5), (2, 5, 1, 1)),
    ("Unsqueeze", {"axes": [-2]}, None, (2, 5, 3), (2, 5, 1, 3)),
    ("Identity", {}, None, FULL, FULL),
]


@pytest.mark.parametrize(("op", "attributes", "constant", "shape", "made"), SHAPES)
def test_another_shape(op: str, attributes: dict[str, Any], constant: Any, shape: Any, made: Any) -> None:
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    one = layer_of(op, attributes, constant).prepare((shape,), CPU)
    for value in both_orders(x):
        y = one(value)
        assert y.shape == made
        np.testing.assert_array_equal(y.on_host, x.reshape(made))


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        (FULL, None),
        *((FULL, perm) for perm in ((0, 2, 3, 1), (0, 3, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2), (3, 1, 0, 2))),
        *(((3, 4), (1, 0)), ((2, 3, 5), (0, 2, 1)), ((2, 3, 5), (2, 0, 1)), ((2, 3, 4, 1, 2), (0, 2, 1, 3, 4))),
    ],
)
def test_another_order(shape: tuple[int, ...], perm: tuple[int, ...] | None) -> None:
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    one = layer_of("Transpose", {} if perm is None else {"perm": perm}).prepare((shape,), CPU)
    for value in both_orders(x):
        y = one(value)
        assert y.shape == x.transpose(perm).shape
        np.testing.assert_array_equal(y.on_host, x.transpose(perm))


@pytest.mark.parametrize(
    ("op", "given", "shape", "channels_last"),
    [
        ("Flatten", {}, (2, 8, 1, 1), True),
        ("Flatten", {}, (2, 1, 4, 3), True),
        ("Reshape", {"constant": [0, 0, -1]}, (2, 8, 4, 3), True),
        ("Reshape", {"constant": [0, 0, 1, 1]}, (2, 8), False),
        ("Unsqueeze", {"constant": [2]}, (2, 8, 3), True),
        ("Identity", {}, (2, 8, 4, 3), True),
        ("Transpose", {"attributes": {"perm": (0, 2, 3, 1)}}, (2, 8, 4, 3), True),
        ("Transpose", {"attributes": {"perm": (0, 3, 1, 2)}}, (2, 4, 3, 8), False),
    ],
)
def test_nothing_is_copied(op: str, given: dict[str, Any], shape: tuple[int, ...], channels_last: bool) -> None:
    x = both_orders(RNG.integers(0, 256, shape).astype(np.uint8))[channels_last]
    y = layer_of(op, **given).prepare((shape,), CPU)(x)
    arrays = [each.channels_last if each.is_channels_last else each.on_device for each in (x, y)]
    assert len({array.ctypes.data for array in arrays}) == 1
    wants_channels = op != "Flatten" and given.get("attributes") != {"perm": (0, 2, 3, 1)}
    assert y.is_channels_last is wants_channels


@pytest.mark.parametrize(
    ("op", "given", "shape"),
    [
        ("Reshape", {"constant": [7, 7]}, (2, 5)),
        ("Reshape", {"constant": [0, 0, 0]}, (2, 5)),
        ("Squeeze", {"constant": [1]}, (2, 5)),
        ("Transpose", {"attributes": {"perm": (0, 1)}}, (2, 5, 3)),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(op: str, given: dict[str, Any], shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="x has shape"):
        layer_of(op, **given).prepare((shape,), CPU)


def test_what_is_not_served_says_why() -> None:
    for op, why in (("Reshape", "constant shape"), ("Unsqueeze", "constant axes")):
        with pytest.raises(Unserved, match=why):
            layer_of(op)


def network_of(*layers: Layer, outputs: tuple[str, ...] = ("y",)) -> tuple[Network, dict[str, Any]]:
    """Return the network of the layers, and their readings; x is the caller's input."""
    held = {"s": np.float32(0.1), "z": np.uint8(9), "w": np.ones((3, 3, 1, 1), np.int8), "w_s": np.float32(1)}
    held["w_z"] = np.int8(0)
    tensors = {name: Tensor(name, "uint8") for name in ("x", *(name for layer in layers for name in layer.outputs))}
    network = Network(("x",), outputs, layers, tensors, held)
    served = {}
    for layer in layers:
        try:
            served[layer.name] = read_layer(layer, network)
        except Unserved:
            continue
    return network, served


def conv(x: str, y: str) -> Layer:
    return Layer(y, "QLinearConv", (x, "s", "z", "w", "w_s", "w_z", "s", "z"), (y,))


def turn(x: str, y: str) -> Layer:
    return Layer(y, "Transpose", (x,), (y,), {"perm": (0, 1, 3, 2)})


def other(x: str, y: str) -> Layer:
    return Layer(y, "Other", (x,), (y,))


def test_they_run_where_what_they_move_is_made() -> None:
    layers = (conv("x", "c"), turn("c", "t"), turn("t", "u"), other("u", "o"), turn("o", "y"))
    served, left = serve_moving(*network_of(*layers))
    assert list(served) == ["c", "t", "u"]
    assert list(left) == ["y"]
    assert "come from elsewhere" in str(left["y"])
    assert isinstance(served["c"], IntegerConvolution)


@pytest.mark.parametrize("first", [other("x", "q"), Layer("q", "QuantizeLinear", ("x", "s", "z"), ("q",)), None])
def test_what_the_caller_brings_is_moved_by_who_reads_it(first: Layer | None) -> None:
    begin = [] if first is None else [first]
    x = "x" if first is None else "q"
    here = first is None or first.op == "QuantizeLinear"
    layers = (*begin, turn(x, "t"), turn("t", "u"), conv("u", "y"))
    assert list(serve_moving(*network_of(*layers))[0]) == (["t", "u", "y"] if here else ["y"])
    # Another reader in the fallback, or the caller, needs it there.
    assert list(serve_moving(*network_of(*layers, other("u", "o")))[0]) == ["y"]
    assert list(serve_moving(*network_of(*layers, outputs=("y", "u")))[0]) == ["y"]
