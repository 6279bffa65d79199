"""A clamp after a convolution is folded into it if no bit changes, and is left alone otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qconv.network import IntegerConvolution, Layer, Network, Tensor, fold_clamps, read_layer
from qconv.ops.convolution import conv2d

SCALE, ZERO = 0.37, 11


def network_with(**changed: Any) -> Network:
    """Return x -> QLinearConv -> DequantizeLinear -> Relu or Clip -> QuantizeLinear."""
    given = {"clamp": "Relu", "scale": SCALE, "zero": ZERO, "out": "int8", "outputs": ("y",), "limits": ()} | changed
    given = {"own": SCALE, "read": (np.float32(SCALE), np.int8(ZERO)), "attributes": {}} | given
    numbers = {
        "x_s": np.float32(0.11),
        "x_z": np.int8(3),
        "w": np.random.default_rng(5).integers(-128, 128, (4, 3, 1, 1)).astype("int8"),
        "w_s": np.float32(0.02),
        "w_z": np.int8(0),
        "q_s": np.float32(given["own"]),
        "q_z": np.int8(ZERO),
        "r_s": given["read"][0],
        "r_z": given["read"][1],
        "y_s": np.asarray(given["scale"], np.asarray(given["read"][0]).dtype),
        "y_z": np.asarray(given["zero"], given["out"]),
        **{f"limit{at}": np.float32(value) for at, value in enumerate(given["limits"]) if value is not None},
    }
    limits = ("" if value is None else f"limit{at}" for at, value in enumerate(given["limits"]))
    layers = (
        Layer("conv", "QLinearConv", ("x", "x_s", "x_z", "w", "w_s", "w_z", "q_s", "q_z"), ("q",)),
        Layer("dq", "DequantizeLinear", ("q", "r_s", "r_z"), ("r",)),
        Layer("clamp", given["clamp"], ("r", *limits), ("c",), given["attributes"]),
        Layer("quantize", "QuantizeLinear", ("c", "y_s", "y_z"), ("y",)),
    )
    constants = {name: np.asarray(value) for name, value in numbers.items()}
    return Network(("x",), given["outputs"], layers, {"x": Tensor("x", "int8", (1, 3, 7, 9))}, constants)


def folded(network: Network) -> tuple[Network, IntegerConvolution]:
    served = {"conv": read_layer(network.layers[0], network)}
    network, served = fold_clamps(network, served)
    return network, served["conv"]


def computed(convolution: IntegerConvolution, x: Any) -> Any:
    """Compute the convolution by the oracle, in the layout of the kernels."""
    problem = convolution.problem((1, 3, 7, 9))
    w = convolution.weights.transpose(0, 2, 3, 1)
    return conv2d(problem, x, w, problem.checked(dict(convolution.parameters)))


@pytest.mark.parametrize("are_attributes", [False, True])
@pytest.mark.parametrize(
    ("clamp", "limits"),
    [
        ("Relu", ()),
        ("Clip", (0.0, 6.0)),
        ("Clip", (-3.3, 17.02)),
        ("Clip", (2.59, 2.59)),
        ("Clip", (-1e30, 9.0)),
        ("Clip", (1.5, None)),
        ("Clip", (None, 3.0)),
        ("Clip", (None, None)),
    ],
)
def test_a_folded_clamp_has_the_bits_of_the_four_layers(
    clamp: str, limits: tuple[float | None, ...], are_attributes: bool
) -> None:
    """The limits are inputs, or attributes up to opset 10; without a limit, every byte passes."""
    named = {name: value for name, value in zip(("min", "max"), limits, strict=False) if value is not None}
    given: dict[str, Any] = {"attributes": named} if are_attributes else {"limits": limits}
    network = network_with(clamp=clamp, **given)
    unfolded = read_layer(network.layers[0], network)
    network, convolution = folded(network)
    assert [layer.name for layer in network.layers] == ["conv"]
    assert [part.name for part in convolution.layer.unfolded] == ["conv", "dq", "clamp", "quantize"]
    assert convolution.y == "y"
    x = np.random.default_rng(6).integers(-128, 128, (1, 7, 9, 3)).astype("int8")
    q = computed(unfolded, x)
    low, high = (0.0, np.inf) if clamp == "Relu" else (named.get("min", -np.inf), named.get("max", np.inf))
    real = np.clip((q.astype(np.float32) - np.float32(ZERO)) * np.float32(SCALE), np.float32(low), np.float32(high))
    wanted = np.clip(np.rint(real / np.float32(SCALE)) + ZERO, -128, 127)
    assert len(np.unique(q)) > 40
    np.testing.assert_array_equal(computed(convolution, x), wanted)


@pytest.mark.parametrize(
    "changed",
    [
        {"scale": 0.36},
        {"zero": ZERO + 1},
        {"read": (np.float32(0.36), np.int8(ZERO))},
        {"read": (np.float32(SCALE), np.int8(ZERO + 1))},
        {"read": (np.float32(0.36), np.int8(ZERO)), "scale": 0.36},
        {"read": (np.float32([SCALE] * 4), np.int8([ZERO] * 4))},
        {"scale": [SCALE] * 4, "zero": [ZERO] * 4},
        {"own": 0.5, "read": (np.float16(0.5), np.int8(ZERO)), "scale": 0.5},
        {"zero": ZERO, "out": "uint8"},
        {"outputs": ("y", "q")},
        {"outputs": ("y", "c")},
        {"clamp": "Sigmoid"},
        {"clamp": "Clip", "limits": (np.nan, 1.0)},
        {"clamp": "Clip", "limits": (2.0, 1.0)},
    ],
)
def test_what_would_change_bits_is_left_alone(changed: dict[str, Any]) -> None:
    network, convolution = folded(network_with(**changed))
    assert [layer.name for layer in network.layers] == ["conv", "dq", "clamp", "quantize"]
    assert (convolution.y, convolution.activation) == ("q", "none")


@pytest.mark.parametrize(("clamp", "limits"), [("Relu", ()), ("Clip", ("low",))])
def test_a_clamp_behind_sums_is_left_alone(clamp: str, limits: tuple[str, ...]) -> None:
    """They have no scale, and neither a reader's scale nor a zero point need exist."""
    layers = (
        Layer("conv", "ConvInteger", ("x", "w"), ("q",)),
        Layer("dq", "DequantizeLinear", ("q", "s"), ("r",)),
        Layer("clamp", clamp, ("r", *limits), ("c",)),
        Layer("quantize", "QuantizeLinear", ("c", "s"), ("y",)),
    )
    constants = {"w": np.ones((4, 3, 1, 1), np.int8), "s": np.float32(0.5), "low": np.float32(0.0)}
    held = {name: np.asarray(value) for name, value in constants.items()}
    network, convolution = folded(Network(("x",), ("y",), layers, {"x": Tensor("x", "int8", (1, 3, 7, 9))}, held))
    assert len(network.layers) == 4
    assert (convolution.y, convolution.activation) == ("q", "none")


def test_a_limit_that_is_computed_is_left_alone() -> None:
    network = network_with(clamp="Clip", limits=(0.0, 6.0))
    constants = {name: array for name, array in network.constants.items() if name != "limit1"}
    network, _ = folded(Network(network.inputs, network.outputs, network.layers, network.tensors, constants))
    assert len(network.layers) == 4
