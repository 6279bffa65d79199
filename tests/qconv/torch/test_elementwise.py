"""Sums, products and pools of `torch.ops.qconv` match the one-liners on NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from torch_calls import images, nhwc  # noqa: E402

import qconv.torch  # noqa: E402

ops = torch.ops.qconv
RNG = np.random.default_rng(1)


def drawn(*shape: int, dtype: str = "int8") -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


A, NUMBERS = drawn(2, 5, 7, 12), {"a_scale": 0.02, "b_scale": 0.03, "y_scale": 0.05, "b_zero_point": -4}


@pytest.mark.parametrize("op", ["add", "mul"])
@pytest.mark.parametrize("shape", [(2, 5, 7, 12), (1, 1, 1, 12), (2, 1, 1, 12), (1, 1, 1, 1)])
def test_two_images(op: str, shape: tuple[int, ...]) -> None:
    b = drawn(*shape)
    for activation in ("none", "relu"):
        want = getattr(qconv, op)(A, b, activation=activation, y_zero_point=-9, **NUMBERS)
        y = getattr(ops, op)(images(A), images(b), activation=activation, y_zero_point=-9, **NUMBERS)
        assert np.array_equal(nhwc(y), want)
        y = getattr(ops, op)(
            images(A).contiguous(), images(b).contiguous(), activation=activation, y_zero_point=-9, **NUMBERS
        )
        assert np.array_equal(nhwc(y), want)


@pytest.mark.parametrize("op", ["add", "mul"])
def test_missing_axes_are_the_first(op: str) -> None:
    b = drawn(1, 1, 1, 12)
    want = getattr(qconv, op)(A, b, **NUMBERS)
    assert np.array_equal(nhwc(getattr(ops, op)(images(A), images(b)[0], **NUMBERS)), want)
    want = getattr(qconv, op)(b, A, **NUMBERS)
    assert np.array_equal(nhwc(getattr(ops, op)(images(b)[0], images(A), **NUMBERS)), want)


@pytest.mark.parametrize("op", ["add", "mul"])
def test_rows(op: str) -> None:
    a, b = drawn(6, 40), drawn(40, dtype="uint8")
    want = getattr(qconv, op)(a, b, a_scale=0.02, b_scale=0.01, y_scale=0.03, out_type="uint8")
    y = getattr(ops, op)(
        torch.from_numpy(a), torch.from_numpy(b), a_scale=0.02, b_scale=0.01, y_scale=0.03, out_dtype=torch.uint8
    )
    assert np.array_equal(y.numpy(), want)


@pytest.mark.parametrize(
    "window",
    [
        {},
        {"stride": 2, "padding": 1},
        {"stride": (1, 2), "padding": (0, 1), "dilation": (2, 1)},
        {"stride": 2, "padding": (1, 0, 0, 1), "ceil_mode": True},
    ],
)
def test_max_pool(window: dict[str, Any]) -> None:
    x = drawn(2, 10, 11, 8)
    pad = window.get("padding", 0)
    geometry = {"stride": 3, **window, "pad": (*pad, *pad) if isinstance(pad, tuple) and len(pad) == 2 else pad}
    geometry.pop("padding", None)
    assert np.array_equal(nhwc(ops.max_pool2d(images(x), 3, **window)), qconv.max_pool(x, 3, **geometry))


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("flags", [(False, True), (True, False), (True, True)])
def test_average_pool(padding: int, flags: tuple[bool, bool]) -> None:
    x, (ceil_mode, count_include_pad) = drawn(2, 10, 11, 8, dtype="uint8"), flags
    named = {"x_scale": 0.05, "x_zero_point": 3, "y_scale": 0.04, "y_zero_point": -7}
    geometry = {"stride": 2, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    want = qconv.average_pool(x, (3, 2), pad=padding, out_type="int8", **geometry, **named)
    y = ops.avg_pool2d(images(x), (3, 2), padding=padding, out_dtype=torch.int8, **geometry, **named)
    assert np.array_equal(nhwc(y), want)


def test_the_average_of_an_image() -> None:
    x, named = drawn(3, 6, 5, 9), {"x_scale": 0.05, "x_zero_point": 3, "y_scale": 0.01, "y_zero_point": -7}
    want = qconv.global_average_pool(x, **named)
    assert np.array_equal(nhwc(ops.global_avg_pool2d(images(x), **named)), want)
    assert np.array_equal(nhwc(ops.avg_pool2d(images(x), (6, 5), **named)), want)


def test_windows_count_as_pytorch_counts_them() -> None:
    for size in range(5, 12):
        for stride in (1, 2, 3):
            for padding in (0, 1):
                x = torch.zeros(1, 2, size, size)
                want = torch.nn.functional.max_pool2d(x, 3, stride, padding, ceil_mode=True).shape
                y = torch.ops.qconv.max_pool2d(x.to(torch.int8), 3, stride, padding, ceil_mode=True)
                assert y.shape == want


def test_a_graph_of_pools_is_not_held_to_remainders() -> None:
    """Dynamic sizes may be odd or even."""

    class Pool(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return ops.max_pool2d(x, 3, 2, 1, ceil_mode=True)

    x = images(drawn(2, 16, 16, 8))
    dynamic = {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    program = torch.export.export(Pool(), (x,), dynamic_shapes={"x": dynamic}).module()
    for height, width in ((16, 16), (13, 16), (8, 9)):
        taken = x[:, :, :height, :width]
        assert torch.equal(program(taken), Pool()(taken))


def test_no_image_gives_no_image() -> None:
    x = torch.zeros(0, 8, 6, 6, dtype=torch.int8)
    assert ops.max_pool2d(x, 2).shape == (0, 8, 3, 3)
    assert ops.avg_pool2d(x, 3, 2).shape == (0, 8, 2, 2)
    assert ops.global_avg_pool2d(x).shape == (0, 8, 1, 1)
    assert ops.add(x, x).shape == x.shape
    with pytest.raises(ValueError, match="pixels=0"):
        ops.global_avg_pool2d(torch.zeros(2, 8, 0, 6, dtype=torch.int8))


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"kernel_size": 0}, "kernel_size=0 must be between 1 and"),
        ({"kernel_size": 2, "stride": 0}, "stride=0 must be between 1 and"),
        ({"kernel_size": 7}, "the window spans 7 along h, but the padded input has only 6"),
    ],
)
def test_no_windows_are_refused(window: dict[str, Any], says: str) -> None:
    x = torch.zeros(1, 8, 6, 6, dtype=torch.int8)
    for op in (ops.max_pool2d, ops.avg_pool2d):
        with pytest.raises(ValueError, match=says):
            op(x, **window)


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x has shape \(4, 4\); it must have four axes, NCHW"):
        ops.global_avg_pool2d(torch.zeros(4, 4, dtype=torch.int8))
