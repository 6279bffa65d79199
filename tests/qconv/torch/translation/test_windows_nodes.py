"""Pools and resizes are those of PyTorch: the same elements, and means up to one step of the output."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import as_one_expression, dq, integers, lowered, q, targets  # noqa: E402

X = integers(2, 8, 6, 4)
WINDOWS = {
    "max_pool2d": lambda x: functional.max_pool2d(x, (3, 2), (2, 1), (1, 0)),
    "max_pool2d, dilated": lambda x: functional.max_pool2d(x, 2, 1, dilation=2, ceil_mode=True),
    "max_pool1d": lambda x: functional.max_pool1d(x.flatten(2), 3, 2, 1),
    "avg_pool2d": lambda x: functional.avg_pool2d(x, 3, 2, 1, True, True),
    "avg_pool2d, inside": lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False) * 0.5,
    "avg_pool1d": lambda x: functional.avg_pool1d(x.flatten(2), 5, 2),
    "adaptive, one": lambda x: functional.adaptive_avg_pool2d(x, 1) * 0.5,
    "adaptive, equal": lambda x: functional.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive, larger": lambda x: functional.adaptive_avg_pool2d(x, (6, 8)),
    "adaptive, of rows": lambda x: functional.adaptive_avg_pool1d(x.flatten(2), 4),
    "linear": lambda x: functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "linear, aligned": lambda x: functional.interpolate(x, (11, 7), mode="bilinear", align_corners=True),
    "linear, smaller": lambda x: functional.interpolate(x, (4, 3), mode="bilinear"),
    "linear, of rows": lambda x: functional.interpolate(x.flatten(2), 37, mode="linear"),
    "cubic": lambda x: functional.interpolate(x, (9, 8), mode="bicubic"),
}


@pytest.mark.turns
@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str) -> None:
    found = as_one_expression(lambda m, x: q(WINDOWS[name](dq(x))), X)
    assert found.largest <= 1
    assert found.differing <= found.count / 20


@pytest.mark.parametrize(
    "given", [{"scale_factor": 2}, {"scale_factor": (1.5, 0.5)}, {"size": (13, 7)}, {"size": (3, 9)}]
)
def test_the_nearest_is_the_same_element(given: Any) -> None:
    numbers = (0.02, 3, -128, 127, torch.int8)
    found = as_one_expression(lambda m, x: q(functional.interpolate(dq(x), **given), numbers), X)
    assert found.differing == 0


def test_where_another_element_would_be_the_nearest_pytorch_computes_it() -> None:
    module, _ = lowered(lambda m, x: q(functional.interpolate(dq(x), (74, 4))), X)
    assert "aten.upsample_nearest2d.vec" in list(targets(module))


@pytest.mark.parametrize(
    "body",
    [
        lambda m, x: q(functional.adaptive_avg_pool2d(dq(x), (4, 4))),
        lambda m, x: q(functional.avg_pool2d(dq(x), 2, divisor_override=3)),
        lambda m, x: q(functional.avg_pool2d(dq(x)[0], 2)),
    ],
)
def test_other_windows_stay(body: Any) -> None:
    module, _ = lowered(body, X)
    assert any("pool" in target for target in targets(module))
