"""QuantizeLinear and DequantizeLinear beside ONNX Runtime: every bit, with ties and numbers out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from float8_boundaries import float8_boundaries
from one_expression import computed, expected, model_of, network_of

from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.network.expressions.fuse import fuse

QUANTIZED = ("int8", "uint8", "int16", "uint16")
SHAPE = (3, 12, 5)
# The shape of the scales, and the attributes that say so.
SCALES: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "tensor": ((), {}),
    "axis 0": ((3,), {"axis": 0}),
    "axis 1": ((12,), {}),
    "last axis": ((5,), {"axis": -1}),
    "blocks": ((3, 3, 5), {"axis": 1, "block_size": 4}),
    "uneven blocks": ((3, 3, 5), {"axis": 1, "block_size": 5}),
}


def whole_range(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def exactly(op: str, arrays: dict[str, Any], y_dtype: str, constants: tuple[str, ...] = (), **attributes: Any) -> None:
    want = expected(model_of(op, arrays, y_dtype, **attributes), arrays)
    got = computed(op, arrays, want, constants, **attributes)
    assert (got.dtype, got.shape) == (np.dtype(y_dtype), want.shape)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("are_constant", [True, False])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", QUANTIZED)
def test_quantize(dtype: str, scales: str, are_constant: bool) -> None:
    shape, attributes = SCALES[scales]
    rng = np.random.default_rng(1)
    scale = np.exp2(rng.integers(-4, 1, shape)).astype(np.float32)  # quotients are exact: half of them are ties
    x = (rng.integers(-(2**17), 2**17, SHAPE) / 2).astype(np.float32)
    x[0] /= 512
    arrays = {"x": x, "scale": scale, "zero": whole_range(rng, dtype, shape)}
    exactly("QuantizeLinear", arrays, dtype, ("scale", "zero") if are_constant else (), **attributes)


def same_floats(got: Any, want: Any) -> None:
    """Compare numbers, with the signs of zeros."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def of_every_boundary(dtype: str, x_type: str, scale: Any) -> Any:
    """Return elements whose quotients are numbers of an 8-bit float, ties, their neighbours, and special numbers."""
    units = np.random.default_rng(5).permutation(float8_boundaries(dtype))
    with np.errstate(over="ignore"):
        return (np.resize(units, (3, 360, 5)) * scale).astype(x_type)


@pytest.mark.parametrize("x_type", ["float32", "float16"])
@pytest.mark.parametrize("scales", ["tensor", "last axis"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_quantize_to_8_bit_floats(dtype: str, scales: str, x_type: str) -> None:
    shape, attributes = SCALES[scales]
    scale = np.exp2(np.random.default_rng(6).integers(-4, 1, shape)).astype(x_type)
    arrays = {"x": of_every_boundary(dtype, x_type, scale), "scale": scale}
    arrays["zero"] = np.zeros(shape, ELEMENT_TYPES[dtype].numpy)
    for given, constants in ((arrays, ("scale", "zero")), (arrays, ()), ({"x": arrays["x"], "scale": scale}, ())):
        typed = {} if "zero" in given else {"output_dtype": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))}
        want = expected(model_of("QuantizeLinear", given, dtype, **typed, **attributes), given)
        same_floats(computed("QuantizeLinear", given, want, constants, **typed, **attributes), want)


@pytest.mark.parametrize("y_type", ["float32", "float16"])
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", FLOAT8)
def test_dequantize_of_8_bit_floats(dtype: str, scales: str, y_type: str) -> None:
    shape, attributes = SCALES[scales]
    rng = np.random.default_rng(7)
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    arrays = {"x": rng.choice(every, SHAPE), "scale": rng.uniform(0.01, 0.9, shape).astype(y_type)}
    for given in (arrays, arrays | {"zero": np.zeros(shape, ELEMENT_TYPES[dtype].numpy)}):
        want = expected(model_of("DequantizeLinear", given, y_type, **attributes), given)
        same_floats(computed("DequantizeLinear", given, want, **attributes), want)


def test_8_bit_floats_are_quotients() -> None:
    """Many products with the inverse of 0.3 are on the other side of a tie."""
    dtype = ELEMENT_TYPES["float8_e4m3fn"].numpy
    ties = np.arange(17, 32, 2, dtype=np.float32) / 16 * np.float32(0.3)
    x = np.concatenate([np.nextafter(ties, np.float32(0)), ties, np.nextafter(ties, np.float32(9))])
    arrays = {"x": x, "scale": np.float32(0.3), "zero": np.zeros((), dtype)}
    want = expected(model_of("QuantizeLinear", arrays, "float8_e4m3fn"), arrays)
    same_floats(computed("QuantizeLinear", arrays, want), want)
    products = (x * (np.float32(1) / np.float32(0.3))).astype(dtype)
    assert (products != want).any()


@pytest.mark.parametrize(
    ("zero", "attributes", "says"),
    [
        (0, {"saturate": 0}, "saturate=0; the kernels round what is beyond an 8-bit float to its largest number"),
        (2, {}, "its zero point is 2.0 of float8_e4m3fn; a float has none"),
    ],
)
def test_8_bit_floats_that_are_no_expressions(zero: int, attributes: dict[str, int], says: str) -> None:
    dtype = ELEMENT_TYPES["float8_e4m3fn"].numpy
    arrays = {"x": np.ones(4, np.float32), "scale": np.float32(1), "zero": np.asarray(zero, dtype)}
    network = network_of("QuantizeLinear", arrays, np.zeros(4, dtype), ("zero",), **attributes)
    _, _, why_not = fuse(network, {})
    assert [reason.text for reason in why_not.values()] == [says]


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", [*QUANTIZED, "int32"])
def test_dequantize(dtype: str, scales: str) -> None:
    shape, attributes = SCALES[scales]
    rng = np.random.default_rng(2)
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    zero = whole_range(rng, dtype, shape) if dtype != "int32" else np.zeros(shape, dtype)
    exactly(
        "DequantizeLinear", {"x": whole_range(rng, dtype, SHAPE), "scale": scale, "zero": zero}, "float32", **attributes
    )


def test_zero_points_are_optional() -> None:
    rng = np.random.default_rng(3)
    scale = np.float32(0.3)
    exactly("QuantizeLinear", {"x": rng.uniform(-9, 99, SHAPE).astype(np.float32), "scale": scale}, "uint8")
    exactly("DequantizeLinear", {"x": whole_range(rng, "int8", SHAPE), "scale": scale}, "float32")


def test_the_type_of_the_output_may_be_an_attribute() -> None:
    from onnx import TensorProto

    x = np.random.default_rng(4).uniform(-9, 99, SHAPE).astype(np.float32)
    arrays = {"x": x, "scale": np.float32(0.3)}
    exactly("QuantizeLinear", arrays, "int16", output_dtype=TensorProto.INT16)


def test_scales_of_halves() -> None:
    rng = np.random.default_rng(5)
    for dtype in ("int8", "uint8"):
        scale, zero = np.float16(0.03), whole_range(rng, dtype, ())
        exactly("DequantizeLinear", {"x": whole_range(rng, dtype, SHAPE), "scale": scale, "zero": zero}, "float16")
        x = (rng.standard_normal(SHAPE) * 3).astype(np.float16)
        exactly("QuantizeLinear", {"x": x, "scale": scale, "zero": zero}, dtype)


def test_the_shape_of_scales_is_checked() -> None:
    x, scale = np.zeros((4, 6), np.int8), np.ones((4, 2), np.float32)
    with pytest.raises(AssertionError, match=r"its scales have the shape \(4, 2\), not \(4, 3\)"):
        computed("DequantizeLinear", {"x": x, "scale": scale}, x.astype(np.float32), axis=1, block_size=2)


def operand(rng: Any, name: str, dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    return {
        name: whole_range(rng, dtype, shape),
        f"{name}_scale": np.float32(0.25),
        f"{name}_zero": np.asarray(7, dtype),
    }


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu"])
def test_quantized_functions(op: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    arrays = operand(rng, "a", dtype, (6, 1, 40))
    arrays |= operand(rng, "b", dtype, (5, 1)) if op in ("QLinearAdd", "QLinearMul") else {}
    y_scale = np.float32(1 / 256 if op == "QLinearSigmoid" else 0.5)
    arrays |= {"y_scale": y_scale, "y_zero": np.asarray(3, dtype)}
    attributes = {"alpha": 0.5} if op == "QLinearLeakyRelu" else {}
    exactly(f"com.microsoft.{op}", arrays, dtype, **attributes)
