"""quantize, dequantize, requantize, choose_qparams, quantize_dynamic on arrays of any shape match the oracle's bits."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conversion_calls import compute

import qconv
from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.device import Device
from qconv.dtypes import FLOAT8

SHAPE = (3, 4, 5, 6)
# axis, block -> (outer, channels, inner), and the shape of the scales
VIEWS: dict[str, tuple[dict[str, Any], tuple[int, int, int], tuple[int, ...]]] = {
    "tensor": ({}, (1, 1, 360), ()),
    "axis": ({"axis": 1}, (3, 4, 30), (4,)),
    "last": ({"axis": -1}, (60, 6, 1), (6,)),
    "axes": ({"axis": (1, 2)}, (3, 20, 6), (4, 5)),
    "token": ({"axis": "token"}, (1, 60, 6), (3, 4, 5)),
    "block": ({"axis": 2, "block": 2}, (12, 5, 6), (3, 4, 3, 6)),
}


def real(dtype: str = "float32") -> Any:
    return (np.random.default_rng(0).integers(-999, 999, SHAPE) / 8).astype(dtype)


def whole(dtype: str = "int8") -> Any:
    info = np.iinfo(dtype)
    return np.random.default_rng(1).integers(info.min, info.max, SHAPE, endpoint=True).astype(dtype)


def scales(shape: tuple[int, ...], seed: int = 2) -> Any:
    return np.exp2(np.random.default_rng(seed).integers(-3, 3, shape)).astype("float32")


def zeros(shape: tuple[int, ...], seed: int = 3) -> Any:
    return np.random.default_rng(seed).integers(-99, 99, shape).astype("int8")


def sizes(view: str) -> tuple[dict[str, Any], dict[str, Any], tuple[int, ...]]:
    given, whole, shape = VIEWS[view]
    return (
        given,
        dict(zip(("outer", "channels", "inner"), whole, strict=True)) | {"block": given.get("block", 0)},
        shape,
    )


def oracle(problem: Any, x: Any, *parameters: Any) -> tuple[Any, ...]:
    flat = [
        np.asarray(array).astype(tensor.dtype).reshape(-1)
        for tensor, array in zip(problem.inputs[1:], parameters, strict=True)
    ]
    return compute(problem, (x.reshape(problem.shape), *flat))


def assert_same(got: Any, want: Any, shape: tuple[int, ...]) -> None:
    assert (got.shape, got.dtype) == (shape, want.dtype)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("view", VIEWS)
def test_quantize_and_dequantize(view: str) -> None:
    given, extents, shape = sizes(view)
    x, scale, zero = real(), scales(shape), zeros(shape)
    y = qconv.quantize(x, scale, zero, **given)
    (want,) = oracle(Quantize(**extents, zero_point=True), x, scale, zero)
    assert_same(y, want, SHAPE)
    back = qconv.dequantize(y, scale, zero, **given)
    (want,) = oracle(Dequantize(**extents, zero_point=True), y, scale, zero)
    assert_same(back, want, SHAPE)


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("view", VIEWS)
def test_8_bit_floats(view: str, dtype: str) -> None:
    given, extents, shape = sizes(view)
    x, scale = real("bfloat16"), scales(shape)
    y = qconv.quantize(x, scale, out_type=dtype, **given)
    (want,) = oracle(Quantize(**extents, x_type="bfloat16", out_type=dtype), x, scale)
    assert_same(y, want, SHAPE)
    back = qconv.dequantize(y, scale, out_type="float16", **given)
    (want,) = oracle(Dequantize(**extents, x_type=dtype, out_type="float16"), y, scale)
    assert_same(back, want, SHAPE)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_8_bit_floats_have_a_scale_alone(dtype: str) -> None:
    x = real("float16")
    scale, zero = qconv.choose_qparams(x, axis=1, out_type=dtype)
    problem = Dynamic(3, 4, 30, x_type="float16", out_type=dtype)
    y, want = oracle(problem, x)
    assert_same(scale, want, (4,))
    assert zero is None
    assert_same(qconv.quantize(x, scale, zero, axis=1, out_type=dtype), y, SHAPE)
    got, scale, zero = qconv.quantize_dynamic(x, axis=1, out_type=dtype)
    assert_same(got, y, SHAPE)
    assert_same(scale, want, (4,))
    assert zero is None


@pytest.mark.parametrize("view", VIEWS)
def test_requantize(view: str) -> None:
    given, extents, shape = sizes(view)
    x, of_x, of_y = whole("uint8"), scales(shape), scales(shape, 5)
    problem = Requantize(**extents, x_type="uint8", y_zero_point=True, order="multiply_divide")
    y = qconv.requantize(x, of_x, of_y, None, zeros(shape), order="multiply_divide", **given)
    assert_same(y, oracle(problem, x, of_x, of_y, zeros(shape))[0], SHAPE)


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "block"])
def test_choose_and_dynamic(view: str) -> None:
    given, extents, shape = sizes(view)
    del extents["block"]
    x = real()
    scale, zero = qconv.choose_qparams(x, **given)
    wanted = oracle(Choose(**extents), x)
    assert_same(scale, wanted[0], shape)
    assert_same(zero, wanted[1], shape)
    y, *chosen = qconv.quantize_dynamic(x, **given)
    assert_same(y, oracle(Dynamic(**extents), x)[0], SHAPE)
    assert [array.tobytes() for array in chosen] == [scale.tobytes(), zero.tobytes()]
    # quantize accepts the chosen parameters.
    assert_same(qconv.quantize(x, scale, zero, **given), y, SHAPE)


def test_numbers_lists_and_single_arrays_are_per_tensor() -> None:
    x = real()
    want = oracle(Quantize(1, 1, 360, zero_point=True), x, [0.5], [3])[0]
    for scale in (0.5, [0.5], np.float64(0.5), np.full((1, 1), 0.5, "float16"), np.asarray(0.5, "bfloat16")):
        for zero in (3, [3], np.int8(3), np.full(1, 3, "int64")):
            for given in ({}, {"axis": 1}, {"axis": "token"}):
                assert_same(qconv.quantize(x, scale, zero, **given), want, SHAPE)


def test_one_zero_point_serves_many_scales() -> None:
    x, scale = real(), scales((4,))
    assert_same(
        qconv.quantize(x, scale, 7, axis=1, out_type="uint8"),
        qconv.quantize(x, scale.reshape(1, 4, 1, 1), [7] * 4, axis=1, out_type="uint8"),
        SHAPE,
    )


@pytest.mark.turns
@pytest.mark.parametrize("x_type", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("out_type", ["int8", "uint8", "int16", "uint16", "int32"])
def test_types(x_type: str, out_type: str) -> None:
    x = real(x_type)
    precision = "float64" if x_type == "float64" else "float32"
    problem = Quantize(1, 1, 360, x_type=x_type, out_type=out_type, zero_point=True, precision=precision)
    y = qconv.quantize(x, 0.1, 5, out_type=out_type, precision=precision)
    assert_same(y, oracle(problem, x, np.float32(0.1), 5)[0], SHAPE)
    problem = Dequantize(1, 1, 360, x_type=out_type, out_type=x_type, zero_point=True)
    assert_same(
        qconv.dequantize(y, 0.1, 5, out_type=x_type), oracle(problem, y, np.float32(0.1), 5)[0].astype(x_type), SHAPE
    )


def test_scales_of_either_order_of_bytes() -> None:
    x = real()
    for scale, zero_point in ((np.float32(0.5), np.int32(3)), (np.linspace(0.1, 2, SHAPE[1]), np.arange(SHAPE[1]))):
        swapped = [np.asarray(value).astype(value.dtype.newbyteorder()) for value in (scale, zero_point)]
        axis = 1 if np.ndim(scale) else None
        assert np.array_equal(qconv.quantize(x, *swapped, axis=axis), qconv.quantize(x, scale, zero_point, axis=axis))


def test_a_mode_is_the_system_that_it_names() -> None:
    x = real()
    for mode in ("ort", "torch-fbgemm", "decomposed"):
        y = qconv.quantize(x, 0.1, 3, mode=mode)
        problem = Quantize.of(mode, outer=1, channels=1, inner=360, zero_point=True, out_type="int8")
        assert_same(y, oracle(problem, x, 0.1, 3)[0], SHAPE)
    y, scale, zero = qconv.quantize_dynamic(x, mode="ort")
    assert (y.dtype, scale.shape, zero.shape) == (np.uint8, (), ())
    # a single flag
    assert not np.array_equal(qconv.quantize(x, 0.1), qconv.quantize(x, 0.1, rounding="rtz"))


def test_arrays_with_no_axis_and_with_one() -> None:
    assert_same(qconv.quantize(np.asarray(1.25, "float32"), 0.5), np.asarray(2, "int8"), ())
    scale, zero = qconv.choose_qparams(np.arange(4, dtype="float32"), axis="token")
    assert (scale.shape, zero.shape) == ((), ())


def test_x_is_not_copied_and_out_is_written() -> None:
    x = real()
    out = np.empty(SHAPE, "int8")
    assert qconv.quantize(x, 0.5, out=out) is out
    assert out.tobytes() == qconv.quantize(x, 0.5).tobytes()
    with pytest.raises(ValueError, match=r"x is not contiguous in its shape .*: copy it with ascontiguousarray"):
        qconv.quantize(x.transpose(3, 2, 1, 0), 0.5)
    with pytest.raises(ValueError, match=r"out is not contiguous"):
        qconv.quantize(x, 0.5, out=np.empty((*SHAPE, 2), "int8")[..., 0])
    with pytest.raises(ValueError, match=r"out has shape \(3,\); it must be"):
        qconv.quantize(x, 0.5, out=out[:, 0, 0, 0].copy())
    with pytest.raises(ValueError, match=r"x lies at address .*alignment: copy it"):
        qconv.quantize(np.frombuffer(bytearray(4 * 64 + 1), "uint8")[1:].view("float32"), 0.5)


X = np.zeros((2, 6, 4), "float32")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: qconv.quantize(X, 0.5, axis=1, channels_last=True), r"quantize has no 'channels_last'; it has"),
        (lambda: qconv.quantize([1.0], 0.5), r"x must be an array; it is list"),
        (lambda: qconv.quantize(X[:0], 0.5), r"x has shape \(0, 6, 4\) and so no element"),
        (lambda: qconv.choose_qparams(X[:, :0]), r"x has shape \(2, 0, 4\) and so no element"),
        (lambda: qconv.quantize(X.astype("int8"), 0.5), r"x_type='int8' is not one of float32"),
        (lambda: qconv.quantize(X, [1.0, 2.0]), r"scale has shape \(2,\).* takes one number, or give an axis"),
        (lambda: qconv.quantize(X, [1.0, 2.0], axis=1), r"takes one number or \(6,\) or \(1, 6, 1\)"),
        (lambda: qconv.quantize(X, np.ones((2, 2, 4)), axis=1, block=2), r"takes one number or \(2, 3, 4\)"),
        (lambda: qconv.quantize(X, np.ones(6), [1, 2], axis=1), r"zero_point has shape \(2,\)"),
        (lambda: qconv.quantize(X, 0.5, axis=3), r"axis=3 must be between -3 and 2"),
        (lambda: qconv.quantize(X, 0.5, axis=True), r"axis=True must be an integer"),
        (lambda: qconv.quantize(X, 0.5, axis=(0, 2)), r"axes must be neighbours"),
        (lambda: qconv.quantize(X, 0.5, axis=()), r"axes must be neighbours"),
        (lambda: qconv.quantize(X, 0.5, axis="row"), r"axis='row'.*'token' or None"),
        (lambda: qconv.quantize(X[0, 0, 0].reshape(()), 0.5, axis="token"), r"axis='token'.* an array with axes"),
        (lambda: qconv.quantize(X, 0.5, block=2), r"block=2 with axis=None: blocks lie along one axis"),
        (lambda: qconv.quantize(X, 0.5, axis=1, block=-1), r"block=-1 must be between 0 and"),
        (lambda: qconv.quantize(X, 0.5, 1.5), r"zero_point has type float64; it must hold integers"),
        (lambda: qconv.quantize(X, "0.5"), r"scale \(str\) is not an array"),
        (lambda: qconv.requantize(X.astype("int8"), 0.5, None), r"y_scale \(NoneType\) is not an array"),
        (lambda: qconv.quantize(X, None), r"scale \(NoneType\) is not an array"),
        (lambda: qconv.quantize(X, 0.5, 200), r"zero_point holds 200..200; a zero point of int8 is -128 to 127"),
        (lambda: qconv.dequantize(X.astype("uint8"), 0.5, -1), r"a zero point of uint8 is 0 to 255"),
        (lambda: qconv.quantize(X, 0.5, mode="ortt"), r"mode='ortt'.*did you mean 'ort'"),
        (lambda: qconv.requantize(X.astype("int8"), 1, 1, mode="torch-fbgemm"), r"requantize in mode 'torch-fbgemm'"),
        (lambda: qconv.quantize(X, 0.5, qoutient="divide"), r"quantize has no 'qoutient' \(did you mean 'quotient'"),
        (lambda: qconv.quantize(X, 0.5, x_type="float64"), r"quantize has no 'x_type'"),
        (lambda: qconv.quantize(X, 0.5, outer=3), r"quantize has no 'outer'"),
        (lambda: qconv.quantize(X, 0.5, mode=qconv.Mode()), r"mode=Mode.* must be the name of a system: quantize"),  # type: ignore[arg-type]
        (lambda: qconv.choose_qparams(X, mapping="affine"), r"mapping='affine' is not one of"),
        (lambda: qconv.quantize(X, 0.5, device="cuda:77"), r"(?i)cuda"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, says: str) -> None:
    with pytest.raises((ValueError, qconv.DeviceError), match=says):
        call()


@pytest.mark.gpu
@pytest.mark.parametrize("view", VIEWS)
def test_on_a_gpu_scales_may_lie_on_either_side(view: str, gpu: Device) -> None:
    upload = gpu.upload
    given, _, shape = sizes(view)
    x, scale, zero = real(), scales(shape), zeros(shape)
    want = qconv.quantize(x, scale, zero, **given)
    for place in (upload, np.asarray):
        for scale_type in ("float32", "float64", "float16", ml_dtypes.bfloat16):
            y = qconv.quantize(upload(x), place(scale.astype(scale_type)), place(zero), **given)
            assert_same(y.get(), want, SHAPE)
    out = upload(np.empty(SHAPE, "int8"))
    assert qconv.quantize(upload(x), scale, zero, out=out, **given) is out
    assert_same(out.get(), want, SHAPE)
    assert_same(
        qconv.dequantize(out, upload(scale), zero, **given).get(), qconv.dequantize(want, scale, zero, **given), SHAPE
    )


@pytest.mark.gpu
def test_on_a_gpu_nothing_waits_between_choosing_and_quantizing(gpu: Device) -> None:
    upload = gpu.upload
    x = real()
    wanted = qconv.quantize_dynamic(x, axis="token")
    for got, want in zip(qconv.quantize_dynamic(upload(x), axis="token"), wanted, strict=True):
        assert_same(got.get(), want, want.shape)
    there = qconv.choose_qparams(upload(x), axis="token")
    assert_same(qconv.quantize(upload(x), *there, axis="token").get(), wanted[0], SHAPE)
