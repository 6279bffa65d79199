"""quantize and dequantize of `torch.ops.qconv` match the one-liners, whatever the tensor's layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

import qconv.torch  # noqa: E402
from qconv.torch import conversion  # noqa: E402

ops = torch.ops.qconv
X = (np.random.default_rng(2).standard_normal((2, 6, 5, 4)) * 3).astype(np.float32)
SCALES, ZEROS = np.linspace(0.01, 0.09, 6), np.arange(6) * 9


def layouts(x: Any) -> list[Any]:
    contiguous = torch.from_numpy(x)
    strided = torch.empty(2, 6, 5, 8)[..., ::2].copy_(contiguous)
    return [contiguous, contiguous.contiguous(memory_format=torch.channels_last), strided]


@pytest.mark.parametrize("mode", [None, "decomposed", "torch-fbgemm", "torch-cudnn"])
def test_one_scale(mode: str | None) -> None:
    zero = 0 if mode == "torch-cudnn" else 5
    want = qconv.quantize(X, 0.037, zero, mode=mode)
    for x in layouts(X):
        q = ops.quantize(x, 0.037, zero, mode=mode)
        assert q.is_contiguous(memory_format=torch.channels_last) == x.is_contiguous(memory_format=torch.channels_last)
        assert np.array_equal(q.numpy(), want)
        scale = torch.tensor(0.037, dtype=torch.float64)
        assert np.array_equal(ops.quantize(x, scale, torch.tensor(zero), mode=mode).numpy(), want)
        back = ops.dequantize(q, 0.037, zero)
        assert np.array_equal(back.numpy(), qconv.dequantize(want, 0.037, zero))


@pytest.mark.parametrize("axis", [1, -3])
def test_a_scale_for_each_channel(axis: int) -> None:
    want = qconv.quantize(X, SCALES, ZEROS, axis=1, out_type="uint8", low=0, high=127)
    want_back = qconv.dequantize(want, SCALES, ZEROS, axis=1, out_type="float16")
    scale, zero = torch.from_numpy(SCALES), torch.from_numpy(ZEROS)
    for x in layouts(X):
        q = ops.quantize(x, scale, zero, axis=axis, out_dtype=torch.uint8, low=0, high=127)
        assert np.array_equal(q.numpy(), want)
        back = ops.dequantize(q, scale.float(), zero, axis=axis, out_dtype=torch.float16)
        assert np.array_equal(back.numpy(), want_back)


def test_bfloat16() -> None:
    x = torch.from_numpy(X).to(torch.bfloat16)
    assert torch.equal(ops.quantize(x, 0.05), ops.quantize(x.float(), 0.05))
    assert ops.dequantize(ops.quantize(x, 0.05), 0.05, out_dtype=torch.bfloat16).dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_8_bit_floats(dtype: Any) -> None:
    for x in layouts(X):
        q = ops.quantize(x, 0.01, out_dtype=dtype)
        assert (q.dtype, q.stride()) == (dtype, torch.empty_like(q).stride())
        assert torch.equal(
            q.view(torch.uint8), (x / torch.tensor(0.01)).clamp(-57344, 57344).to(dtype).view(torch.uint8)
        )
        back = ops.dequantize(q, 0.01, out_dtype=torch.float16)
        assert torch.equal(back, (q.float() * torch.tensor(0.01)).half())
        by_channel = ops.quantize(x, torch.from_numpy(SCALES), axis=1, out_dtype=dtype)
        scales = torch.from_numpy(SCALES).float().reshape(1, -1, 1, 1)
        assert torch.equal(by_channel.float(), (x / scales).to(dtype).float())
    assert torch.equal(ops.quantize(x, 0.01, 0, out_dtype=dtype).float(), q.float())
    for op, given in ((ops.quantize, {"out_dtype": dtype}), (ops.dequantize, {})):
        with pytest.raises(ValueError, match=r"zero_point=True with .*: a float has no zero point"):
            op(q if op is ops.dequantize else x, 0.01, 3, **given)


def test_decomposed_is_pytorchs_own() -> None:
    pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")
    x = torch.from_numpy(X)
    want = torch.ops.quantized_decomposed.quantize_per_tensor(x, 0.0371, 3, -128, 127, torch.int8)
    assert torch.equal(ops.quantize(x, 0.0371, 3, mode="decomposed"), want)


def test_only_so_many_numbers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scale may differ at every call."""
    x = torch.from_numpy(X)
    monkeypatch.setattr(conversion, "_numbers", {})
    monkeypatch.setattr(conversion, "REMEMBERED", 3)
    for scale in (0.1, 0.2, 0.3, 0.4, 0.5, 0.1):
        assert np.array_equal(ops.quantize(x, scale, 5).numpy(), qconv.quantize(X, scale, 5))
    assert len(conversion._numbers) == 3


def test_nothing_gives_nothing() -> None:
    assert ops.quantize(torch.zeros(0, 4), 1.0).shape == (0, 4)


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"zero_point": 200}, "zero_point=200 must be integers from -128 to 127"),
        ({"scale": torch.ones(3), "axis": 1}, r"scale has shape \(3,\); x of shape .* with axis=1"),
        ({"mode": "decomposd"}, "did you mean 'decomposed'"),
    ],
)
def test_wrong_values_are_refused(named: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ops.quantize(torch.from_numpy(X), **{"scale": 1.0, **named})


@pytest.mark.parametrize("axis", [4, -5])
def test_an_axis_that_x_has_not_is_refused(axis: int) -> None:
    for x in layouts(X):
        with pytest.raises(ValueError, match=f"axis={axis} must be between -4 and 3"):
            ops.quantize(x, torch.ones(2), axis=axis)
