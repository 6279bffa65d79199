"""The convolutions of `torch.ops.qconv` compared with the oracle at tolerance 0, and their refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from random_fused import fused_problems  # noqa: E402
from random_pooled import pooled_problems  # noqa: E402
from random_problems import problems  # noqa: E402
from torch_calls import arguments, bits, conv2d_call, images, nhwc, pooled_call  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.arithmetic.quantization import Quantization  # noqa: E402
from qconv.ops import registry  # noqa: E402
from qconv.problem.convolution import Conv2d  # noqa: E402
from qconv.targets.target import TARGETS  # noqa: E402

ops = torch.ops.qconv
Q = Quantization(per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32", activation="relu")
PROBLEM = Conv2d(2, 9, 7, 16, 24, 3, 3, stride=(2, 1), pad=(1, 0, 2, 1), quantization=Q)
DRAWN = registry.draw(PROBLEM, 3)
(WANT,) = registry.compute(PROBLEM, DRAWN)
ARGS, NAMED = conv2d_call(PROBLEM, DRAWN)


def changed(**values: Any) -> Any:
    return ops.conv2d(*ARGS, **{**NAMED, **values})


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(12))
def test_random_convolutions_equal_the_oracle(seed: int) -> None:
    for problem in problems(500 + seed, 3):
        problem = replace(problem, layout="nhwc")
        drawn = registry.draw(problem, seed)
        args, named = conv2d_call(problem, drawn)
        (want,) = registry.compute(problem, drawn)
        assert np.array_equal(nhwc(ops.conv2d(*args, **named)), bits(want)), str(problem)


@pytest.mark.turns
@pytest.mark.parametrize(("op", "layers"), [("conv2d_conv2d", 2), ("conv2d_block", 3)])
@pytest.mark.parametrize("seed", range(3))
def test_random_chains_equal_the_oracle(op: str, layers: int, seed: int) -> None:
    for problem in fused_problems(seed, 2, TARGETS["cpu"], layers):
        drawn = registry.draw(problem, seed)
        args, named = arguments(problem, drawn)
        (want,) = registry.compute(problem, drawn)
        assert np.array_equal(nhwc(getattr(ops, op)(*args, **named)), bits(want)), str(problem)


@pytest.mark.turns
@pytest.mark.parametrize("seed", range(3))
def test_random_convolutions_with_a_pool_equal_the_oracle(seed: int) -> None:
    for problem in pooled_problems(seed, 5):
        drawn = registry.draw(problem, seed)
        args, named = pooled_call(problem, drawn)
        (want,) = registry.compute(problem, drawn)
        assert np.array_equal(nhwc(ops.conv2d_pool(*args, **named)), bits(want)), str(problem)


def test_a_pool_takes_bytes_and_one_tensor() -> None:
    with pytest.raises(ValueError, match="out_type=float32: a pool behind a convolution takes int8 or uint8"):
        ops.conv2d_pool(*ARGS[:3], x_scale=0.5, window=[2], out_dtype=torch.float32)
    with pytest.raises(ValueError, match="the window spans 9 along h, but the padded input has only 7"):
        ops.conv2d_pool(*ARGS[:3], x_scale=0.5, window=[9])
    with pytest.raises(ValueError, match="of the pool: pad=2,2,2,2 with r=2"):
        ops.conv2d_pool(*ARGS[:3], x_scale=0.5, window=[2], window_padding=[2])
    with pytest.raises(RuntimeError, match="missing value for argument 'window'"):
        ops.conv2d_pool(*ARGS[:3], x_scale=0.5)


@pytest.mark.parametrize("seed", range(3))
def test_a_matrix_is_of_1x1_filters(seed: int) -> None:
    quantization = replace(Q, residual="uint8", residual_zero_point=True, out_type="uint8", x_type="uint8")
    problem = Conv2d(15, 1, 1, 40, 24, 1, 1, quantization=quantization)
    drawn = registry.draw(problem, seed)
    (x, w, scale, bias, residual), named = conv2d_call(problem, drawn)
    window = ("stride", "padding", "dilation", "groups")
    named = {name: value for name, value in named.items() if name not in window}
    rows = ops.linear(x.reshape(3, 5, 40), w.reshape(24, 40), scale, bias, residual.reshape(3, 5, 24), **named)
    (want,) = registry.compute(problem, drawn)
    assert rows.shape == (3, 5, 24)
    assert np.array_equal(rows.numpy().reshape(want.shape), want)


def test_memory_formats_change_no_bit() -> None:
    x, w, *rest = ARGS
    strided = torch.empty(2, 32, 9, 7, dtype=x.dtype)[:, ::2].copy_(x)
    for taken in (x, x.contiguous(), strided):
        for weights in (w, w.contiguous()):
            assert np.array_equal(nhwc(ops.conv2d(taken, weights, *rest, **NAMED)), WANT)


def test_a_view_at_an_odd_address_is_copied() -> None:
    x = ARGS[0]
    flat = torch.empty(x.numel() + 1, dtype=x.dtype)
    odd = flat[1:].view(2, 9, 7, 16).permute(0, 3, 1, 2).copy_(x)
    assert odd.data_ptr() % 2
    assert np.array_equal(nhwc(ops.conv2d(odd, *ARGS[1:], **NAMED)), WANT)


def test_channels_last_is_taken_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    array_of = qconv.torch.convolution.array_of
    monkeypatch.setattr(qconv.torch.convolution, "array_of", lambda t: seen.append(t.data_ptr()) or array_of(t))
    changed()
    y = changed()
    assert seen[-2:] == [ARGS[0].data_ptr(), y.data_ptr()]


def test_scales_as_numbers_and_as_tensors() -> None:
    problem = replace(PROBLEM, quantization=replace(Q, per_channel=False))
    drawn = registry.draw(problem, 5)
    (x, w, scale, bias), named = conv2d_call(problem, drawn)
    (want,) = registry.compute(problem, drawn)
    numbers = [name for name in named if name.endswith(("scale", "zero_point"))]
    tensors = {name: torch.from_numpy(np.asarray(named[name])) for name in numbers if name != "w_zero_point"}
    for called in (
        ops.conv2d(x, w, scale, bias, **named),
        ops.conv2d(x, w, scale.reshape(1), bias, **named),
        ops.conv2d(x, w, scale.item(), bias, **named),
        ops.conv2d(x, w, scale, bias, **{**named, **tensors}),
    ):
        assert np.array_equal(nhwc(called), want)


@pytest.mark.parametrize("mode", ["torch-onednn", "order=multiply_reciprocal:bias_scaling=real"])
def test_modes(mode: str) -> None:
    arithmetic = qconv.torch.convolution.mode_of(mode)
    named_mode = arithmetic if isinstance(arithmetic, qconv.Mode) else Quantization.of(mode).mode
    quantization = replace(Q, bias="float32", mode=named_mode)
    problem = replace(PROBLEM, quantization=quantization)
    drawn = registry.draw(problem, 6)
    args, named = conv2d_call(problem, drawn)
    (want,) = registry.compute(problem, drawn)
    assert np.array_equal(nhwc(ops.conv2d(*args, **named, mode=mode)), want)


def test_the_output_has_the_type_of_x_unless_given() -> None:
    x = torch.zeros(1, 4, 3, 3, dtype=torch.uint8)
    w = torch.zeros(2, 4, 1, 1, dtype=torch.int8)
    assert ops.conv2d(x, w, 1.0).dtype == torch.uint8
    assert ops.conv2d(x, w, 1.0, out_dtype=torch.float32).dtype == torch.float32


def test_no_image_gives_no_image() -> None:
    y = ops.conv2d(ARGS[0][:0], *ARGS[1:], **NAMED)
    assert y.shape == (0, *images(WANT).shape[1:])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda x, w: (x[0], w), r"x has shape \(16, 9, 7\); it must have four axes, NCHW"),
        (lambda x, w: (x, w[0]), r"w has shape .*; it must have four axes, KCRS"),
        (lambda x, w: (x.float(), w), "x has type torch.float32; it must be torch.int8 or torch.uint8: quantize"),
        (lambda x, w: (x[:, :8], w), r"w has 16 channels a group in groups=1, but what it convolves has 8 channels"),
        (lambda x, w: (x, w[:5]), r"w_scale has shape \(24,\); it must be"),
    ],
)
def test_wrong_tensors_are_refused(spoil: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ops.conv2d(*spoil(*ARGS[:2]), *ARGS[2:], **NAMED)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"padding": (1, 2, 3)}, "padding=.1, 2, 3. must be one integer, two"),
        ({"stride": 0}, "stride=0 must be between 1 and"),
        ({"stride": []}, r"stride=\(\) must be one integer or 2 of them"),
        ({"dilation": (1, 2, 3)}, r"dilation=\(1, 2, 3\) must be one integer or 2 of them"),
        ({"dilation": 9}, "the window spans 19 along h, but the padded input has only 12: pad more"),
        ({"activation": "rleu"}, "activation='rleu'"),
        ({"mode": "torch"}, "mode='torch'"),
        ({"mode": "ordre=multiply"}, "mode='ordre=multiply': .*; flags are rounding"),
        ({"mode": "order=multiply_reciprocal:"}, "mode='order=multiply_reciprocal:': .*; flags are rounding"),
        ({"x_scale": -1.0}, "every scale must be finite and positive"),
        ({"residual_scale": 1.0}, "residual_scale was given"),
        ({"x_scale": torch.ones(3), "y_scale": torch.ones(1)}, r"x_scale has shape \(3,\); it must be one number"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], says: str) -> None:
    if "x_scale" in values and not isinstance(values["x_scale"], float):
        numbers = {n: v for n, v in NAMED.items() if n.endswith(("scale", "zero_point")) and n != "w_zero_point"}
        values = {name: torch.tensor(value) for name, value in numbers.items()} | values
    with pytest.raises(ValueError, match=says):
        changed(**values)


def test_a_matrix_of_other_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"w has shape \(2, 5\), but the last axis of x has 4 elements"):
        ops.linear(torch.zeros(3, 4, dtype=torch.int8), torch.zeros(2, 5, dtype=torch.int8), 1.0)


def test_a_residual_has_the_shape_of_the_output() -> None:
    x, w = torch.zeros(3, 4, 8, dtype=torch.int8), torch.zeros(16, 8, dtype=torch.int8)
    for shape in ((4, 3, 16), (12, 16), (3, 4, 8)):
        with pytest.raises(ValueError, match=r"residual has shape .*; it must have that of the output, \(3, 4, 16\)"):
            ops.linear(x, w, 1.0, None, torch.zeros(shape, dtype=torch.int8), residual_scale=1.0)
    n, k, p, q = images(WANT).shape
    with pytest.raises(ValueError, match=rf"residual has shape \(1, .*; it must have .*, \({n}, {k}, {p}, {q}\)"):
        ops.conv2d(*ARGS, torch.zeros(1, k, p, q, dtype=torch.int8), **NAMED, residual_scale=1.0)


def test_a_row_has_an_axis() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(\); it must have an axis"):
        ops.linear(torch.zeros((), dtype=torch.int8), torch.zeros(2, 5, dtype=torch.int8), 1.0)
