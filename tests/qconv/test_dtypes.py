"""The table of element types, and the requirements of a convolution on its operands and sums."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from qconv import Conv2d, Quantization
from qconv.arithmetic.mode import Mode
from qconv.arithmetic.quantization import X_TYPES
from qconv.dtypes import ELEMENT_TYPES, ElementType


@pytest.mark.parametrize("element_type", ELEMENT_TYPES.values(), ids=ELEMENT_TYPES)
def test_numpy_agrees(element_type: ElementType) -> None:
    kind = element_type.numpy
    assert (kind.name, kind.itemsize, 8 * kind.itemsize) == (
        element_type.array_type,
        element_type.bytes,
        element_type.bits,
    )
    if element_type.is_integer:
        limits = np.iinfo(kind)
        assert element_type.range == (limits.min, limits.max)
        assert element_type.is_signed == (limits.min < 0)
    else:
        assert kind.kind == "b" or ml_dtypes.finfo(kind).bits == element_type.bits
        with pytest.raises(ValueError, match=f"{element_type.name} is no integer type"):
            assert element_type.range


def test_products_add_up_in_a_type_of_the_table() -> None:
    floats = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "tfloat32")
    assert ("int8", "uint8", *floats) == X_TYPES
    assert [ELEMENT_TYPES[name].sums for name in X_TYPES] == ["int32"] * 2 + ["float32"] * 6
    for element_type in ELEMENT_TYPES.values():
        assert element_type.sums is None or element_type.sums in ELEMENT_TYPES


def test_a_tfloat32_is_a_float_without_its_lowest_bits() -> None:
    given = np.array([0x3F801FFF, 0xBF802000, 0x00001FFF, 0x7F800000], np.uint32).view(np.float32)
    kept = ELEMENT_TYPES["tfloat32"].multiplied(given)
    assert kept.view(np.uint32).tolist() == [0x3F800000, 0xBF802000, 0, 0x7F800000]
    assert ELEMENT_TYPES["float32"].multiplied(given).view(np.uint32).tolist() == given.view(np.uint32).tolist()


def test_the_largest_product_is_that_of_the_ranges() -> None:
    for x_type, x_zero, largest in (("int8", False, 128), ("int8", True, 255), ("uint8", False, 255)):
        q = Quantization(x_type, "int8", x_zero_point=x_zero)
        assert q.largest_product == largest * 128


def real(**given: object) -> Quantization:
    return Quantization(**({"x_type": "float16", "w_type": "float16", "out_type": "float32"} | given))  # type: ignore[arg-type]


def test_a_type_that_no_op_multiplies_is_refused() -> None:
    with pytest.raises(ValueError, match="x_type='float64' is not one of int8, uint8"):
        Quantization(x_type="float64")
    with pytest.raises(ValueError, match="w_type='int32' is not one of int8, uint8"):
        Quantization(w_type="int32")


def test_real_sums_have_no_integer_limit() -> None:
    problem = Conv2d(1, 4, 4, 2**18, 4, 3, 3, quantization=real())
    assert problem.quantization.types.sum.name == "float32"
    assert problem.io_bytes == 2 * (16 * 2**18 + 36 * 2**18) + 4 * 4 * problem.pixels


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"x_zero_point": True}, "x_zero_point=True with x_type='float16': only integers have a zero point"),
        ({"w_zero_point": True}, "w_zero_point=True with w_type='float16': only integers have a zero point"),
        ({"w_type": "int8"}, "x_type='float16' with w_type='int8': their products add up in float32 and int32"),
        (
            {"x_type": "int8", "w_type": "int8", "residual": "float16"},
            "residual='float16' .*: integer sums take a residual of int8 or uint8",
        ),
        ({"residual": "float16", "residual_zero_point": True}, "residual='float16': only integers have a zero point"),
        ({"bias": "int32"}, "bias='int32' .* x_type='float16', whose products add up in float32: real sums"),
        (
            {"out_type": "int32"},
            "out_type='int32' with x_type='float16', whose products add up in float32: the sums have",
        ),
        (
            {"bias": "float32", "out_type": "int8", "mode": Mode(bias_scaling="int32")},
            "bias_scaling='int32' with x_type='float16', whose products add up in float32: real sums",
        ),
    ],
)
def test_what_real_sums_have_not_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        real(**given)


def test_integers_of_another_size_are_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = replace(ELEMENT_TYPES["int32"], name="int64", bytes=8, limits=(-(2**63), 2**63 - 1))
    monkeypatch.setitem(ELEMENT_TYPES, wide.name, wide)
    monkeypatch.setitem(ELEMENT_TYPES, "int16", replace(ELEMENT_TYPES["int16"], sums=wide.name))
    with pytest.raises(ValueError, match="x_type='int16', whose products add up in int64: only int32 sums are"):
        Quantization("int16", "int16")
