"""Schemas and overloads: the overload of a call, and the accepted arguments."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.torch.schema import overloads  # noqa: E402

ops = torch.ops.qconv
X, W, ONE = torch.zeros(1, 2, 3, 3, dtype=torch.int8), torch.zeros(4, 2, 1, 1, dtype=torch.int8), torch.tensor(0.5)


class Called(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("args", "named", "overload"),
    [
        ((X, W, torch.ones(4)), {"x_scale": 0.5}, "default"),
        ((X, W, 0.5), {"x_scale": 0.5}, "scalar"),
        ((X, W, 0.5), {}, "scalar"),
        ((X, W, ONE), {"x_scale": ONE}, "tensor"),
        ((X, W, torch.ones(4)), {"y_scale": ONE, "x_scale": ONE}, "tensor"),
    ],
)
def test_a_tensor_is_not_taken_for_a_number(args: Any, named: dict[str, Any], overload: str) -> None:
    """Reading the tensor would wait for it, and it would not be part of a graph."""
    with Called() as called:
        ops.conv2d(*args, **named)
    assert f"qconv.conv2d.{overload}" in called.names
    if overload == "tensor":
        assert called.names[0] == "qconv.conv2d.tensor"


def test_every_overload_is_another() -> None:
    schemas = [overload.schema for overload in overloads()]
    assert len(schemas) == len(set(schemas)) == 32
    assert qconv.torch.library.LIBRARY.ns == "qconv"


def test_a_chain_has_what_each_convolution_has() -> None:
    names = {each.name for each in ops.conv2d_block.default._schema.arguments}
    for layer in ("first", "second", "third"):
        assert {f"{layer}_{name}" for name in ("w_scale", "bias", "stride", "padding", "activation", "low")} <= names
    assert {"w3", "mid2_scale", "mid2_dtype", "residual_scale"} <= names
    assert "mid2_scale" not in {each.name for each in ops.conv2d_conv2d.default._schema.arguments}
