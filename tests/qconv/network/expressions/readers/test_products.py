"""Each product and convolution beside ONNX Runtime, or onnx's reference: integers are equal, and floats differ by at
most 4e-6 of 1 or the number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from expressed_layers import keys_of
from one_expression import Arrays, computed, expected, model_of

BYTES = ("int8", "uint8")


def check(op: str, arrays: Arrays, dtype: str = "float32", **attributes: Any) -> None:
    want = expected(model_of(op, arrays, dtype, **attributes), arrays)
    got = computed(op, arrays, want, **attributes)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, 4e-6, 4e-6)
    else:
        np.testing.assert_array_equal(got, want)


def reals(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def whole(dtype: str, *shape: int, seed: int = 1) -> Any:
    """Draw integers; int8 of 7 bits: without VNNI, ONNX Runtime saturates sums of larger ones with uint8."""
    low, high = (-64, 63) if dtype == "int8" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return np.random.default_rng(seed).integers(low, high, shape, dtype, endpoint=True)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 5), (5, 4)),
        ((5,), (5, 4)),
        ((3, 5), (5,)),
        ((5,), (5,)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((4, 3, 5), (5, 2)),
        ((5,), (4, 5, 2)),
        ((1, 1), (1, 1)),
    ],
)
def test_matrices_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    check("MatMul", {"a": reals(*a), "b": reals(*b, seed=2)})
    if len(a) > 1 < len(b):
        for left, right in (("uint8", "int8"), ("uint8", "uint8")):
            check("MatMulInteger", {"a": whole(left, *a), "b": whole(right, *b)}, "int32")


@pytest.mark.parametrize(
    ("op", "shape", "kind"),
    [
        ("MatMulInteger", (5, 1), "reduce"),
        ("MatMulInteger", (5,), "reduce"),
        ("MatMulInteger", (5, 4), "matmul"),
        ("MatMul", (5, 1), "matmul"),
    ],
)
def test_integers_by_a_vector_are_a_reduction(op: str, shape: tuple[int, ...], kind: str) -> None:
    """Sums of floats keep the order of a product."""
    draw = reals if op == "MatMul" else partial(whole, "uint8")
    arrays = {"a": draw(3, 5), "b": draw(*shape)}
    (key,) = keys_of(model_of(op, arrays, "float32" if op == "MatMul" else "int32"))
    assert key.startswith(f"{kind}:")
    check(op, arrays, "float32" if op == "MatMul" else "int32")


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(trans_a: int, trans_b: int) -> None:
    a, b = (5, 3) if trans_a else (3, 5), (4, 5) if trans_b else (5, 4)
    for bias in (None, (4,), (3, 1), (3, 4), (1,)):
        arrays = {"a": reals(*a), "b": reals(*b, seed=2), "c": None if bias is None else reals(*bias, seed=3)}
        check("Gemm", arrays, transA=trans_a, transB=trans_b, alpha=0.5, beta=-1.5)
    check("Gemm", arrays, transA=trans_a, transB=trans_b)
    arrays |= {"c": reals(4) * np.float32(np.nan)}
    want = arrays["a"].T if trans_a else arrays["a"]
    want = want @ (arrays["b"].T if trans_b else arrays["b"])
    got = computed("Gemm", arrays, want, transA=trans_a, transB=trans_b, beta=0.0)
    np.testing.assert_allclose(got, want, 4e-6, 4e-6)


def test_a_fused_product_transposes_and_scales() -> None:
    arrays = {"a": reals(2, 5, 3), "b": reals(2, 4, 5, seed=2)}
    check("com.microsoft.FusedMatMul", arrays, transA=1, transB=1, alpha=0.125)


@pytest.mark.parametrize("zeros", [((), ()), ((), (4,)), ((1,), (1,))])
def test_integers_minus_zero_points(zeros: Any) -> None:
    a_zero, b_zero = (whole("uint8", *shape, seed=5) for shape in zeros)
    arrays = {"a": whole("uint8", 2, 3, 5), "b": whole("uint8", 5, 4, seed=2), "a_zero": a_zero, "b_zero": b_zero}
    check("MatMulInteger", arrays, "int32")
    arrays["b_zero"] = None
    check("MatMulInteger", arrays, "int32")


@pytest.mark.parametrize("per_column", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_integers_to_floats(per_column: bool, bias: bool) -> None:
    count = (4,) if per_column else ()
    arrays = {
        "a": whole("uint8", 3, 5), "b": whole("int8", 5, 4, seed=2), "a_scale": np.float32(0.03),
        "b_scale": np.abs(reals(*count, seed=3)), "a_zero": np.uint8(9), "b_zero": whole("int8", *count, seed=4),
        "bias": reals(4, seed=5) if bias else None,
    }  # fmt: skip
    check("com.microsoft.MatMulIntegerToFloat", arrays)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("per_column", [False, True])
def test_quantized_products(dtype: str, per_column: bool) -> None:
    count = (4,) if per_column else ()
    arrays = {
        "a": whole(dtype, 2, 3, 5), "a_scale": np.float32(0.03), "a_zero": whole(dtype, seed=7),
        "b": whole("int8", 5, 4, seed=2), "b_scale": np.full(count, 0.02, np.float32),
        "b_zero": np.zeros(count, np.int8), "y_scale": np.float32(1.7), "y_zero": whole(dtype, seed=8),
    }  # fmt: skip
    check("QLinearMatMul", arrays, dtype)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "bij,bkj->bik", "bhid,bhjd->bhij", "i,j->ij", "ij,ij->i"])
def test_einsum(equation: str) -> None:
    sizes = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 3, "d": 6}
    terms = equation.partition("->")[0].split(",")
    shapes = [tuple(sizes[one] for one in term) for term in terms]
    arrays = {f"x{at}": reals(*shape, seed=at) for at, shape in enumerate(shapes)}
    check("Einsum", arrays, equation=equation)


WINDOWS: list[dict[str, Any]] = [
    {},
    {"pads": [1, 2, 0, 1], "strides": [2, 1]},
    {"dilations": [2, 1], "pads": [1, 0, 2, 0]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 3]},
    {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
    {"auto_pad": "VALID"},
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(window: dict[str, Any], groups: int) -> None:
    arrays = {"x": reals(2, 4, 6, 5), "w": reals(6, 4 // groups, 3, 2, seed=2), "bias": reals(6, seed=3)}
    check("Conv", arrays, group=groups, **window)
    bytes_of = {"x": whole("uint8", 2, 4, 6, 5), "w": whole("uint8", 6, 4 // groups, 3, 2, seed=2)}
    check("ConvInteger", bytes_of | {"x_zero": np.uint8(77), "w_zero": np.uint8(99)}, "int32", group=groups, **window)


@pytest.mark.parametrize("spatial", [1, 3])
def test_convolutions_of_other_ranks(spatial: int) -> None:
    sizes, kernel = (6, 5, 4)[:spatial], (3, 2, 2)[:spatial]
    check("Conv", {"x": reals(2, 4, *sizes), "w": reals(6, 4, *kernel, seed=2)}, pads=[1] * 2 * spatial)


@pytest.mark.parametrize(
    "window",
    [
        {},
        {"strides": [2, 3], "pads": [1, 0, 0, 1]},
        {"strides": [3, 2], "output_padding": [2, 1]},
        {"dilations": [2, 2], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2], "output_shape": [8, 6]},
    ],
    ids=str,
)
@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions(window: dict[str, Any], groups: int) -> None:
    arrays = {"x": reals(2, 4, 4, 3), "w": reals(4, 3, 3, 2, seed=2), "bias": reals(3 * groups, seed=3)}
    check("ConvTranspose", arrays, group=groups, **window)


def test_shapes_without_a_product_are_named() -> None:
    with pytest.raises(AssertionError, match=r"the shapes \(3, 5\) and \(4, 5\) have no product"):
        computed("MatMul", {"a": reals(3, 5), "b": reals(4, 5)}, reals(3, 5))


@pytest.mark.parametrize("depth", [258, 259, 3000])
def test_sums_beyond_the_whole_numbers_of_a_float_are_exact(depth: int) -> None:
    """Every product is odd and as large as can be, so that fp32 would lose the last bit of some sums."""
    a, b = np.full((3, depth), 255, np.uint8), np.full((depth, 4), 255, np.uint8)
    a[1, ::3] = 253
    check("MatMulInteger", {"a": a, "b": b}, "int32")


@pytest.mark.parametrize("equation", ["...ij,...jk->...ik", "iij,jk->ik"])
def test_other_equations_are_named(equation: str) -> None:
    arrays = {"a": reals(3, 3, 5), "b": reals(5, 4)}
    with pytest.raises(AssertionError, match="two tensors with axes named once, without dots"):
        computed("Einsum", arrays, reals(3, 4), equation=equation)
