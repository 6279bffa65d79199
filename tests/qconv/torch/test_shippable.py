"""A lowered graph as a network: the bits of the module, on the kernels of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

import numpy as np  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch_functions import Function, Y, conv, dq, integers, of, q  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.device import Device, open_device  # noqa: E402
from qconv.errors import Unshippable  # noqa: E402
from qconv.network import Runner, Value  # noqa: E402
from qconv.torch import convolution  # noqa: E402
from qconv.torch.shippable import shippable  # noqa: E402

X = integers(2, 8, 6, 4)
WHOLE = (-128, 127, torch.int8)


def lowered(body: Callable[..., Any], *inputs: Any) -> Any:
    return qconv.torch.lower(torch.export.export(Function(body), inputs))


def check(module: Any, *inputs: Any, device: Device | None = None) -> list[str]:
    """Compare the network with the module, bit for bit, and return the ops of its layers."""
    found = shippable(module, [x.shape for x in inputs])
    device = device or open_device("cpu")
    runner = Runner(found.network, found.served, device, None)  # type: ignore[arg-type]
    feeds = {name: Value(device, host=x.numpy()) for name, x in zip(found.network.inputs, inputs, strict=True)}
    got = runner.run(feeds, found.network.outputs)
    with torch.no_grad():
        wanted = tree_leaves(module(*inputs))
    assert [value.dtype for value in got.values()] == [str(one.dtype).removeprefix("torch.") for one in wanted]
    for value, one in zip(got.values(), wanted, strict=True):
        np.testing.assert_array_equal(value.on_host, one.numpy())
    return [layer.op for layer in found.network.layers]


def windows(m: Any, x: Any) -> Any:
    y = dq(q(functional.max_pool2d(conv(m, dq(x)), 2)), Y)
    return q(functional.avg_pool2d(y, (1, 2), ceil_mode=True)), dq(q(y.mean((2, 3), keepdim=True)), Y)


def pools(m: Any, x: Any) -> Any:
    """A max pool, an average and a global average of bytes."""
    most = q(functional.max_pool2d(dq(x), 3, 2, 1), (0.02, 3, *WHOLE))
    return most, q(functional.avg_pool2d(dq(x), 3, 2, 1)), q(functional.adaptive_avg_pool2d(dq(x), 1))


def residual(m: Any, x: Any) -> Any:
    y = dq(q(torch.relu(conv(m, dq(x)))), Y)
    return q(conv(m, y) + y)


def sums(m: Any, x: Any) -> Any:
    """Sums and products of a tensor with itself, and a sum with a number per channel, which is an expression."""
    one = x[:, :, :1, :1]
    return q(torch.relu(dq(x) + dq(x))), q(dq(x) * dq(x, Y)), q(dq(one) + dq(x.flip(1)))


def moves(m: Any, x: Any) -> Any:
    """Bytes that are moved as they are, and parts of a split."""
    one, other = q(torch.cat([dq(x), dq(x)], 1), (0.02, 3, *WHOLE)).chunk(2, 1)
    turned = q(dq(one).permute(0, 2, 3, 1), (0.02, 3, *WHOLE))
    return turned, q(conv(m, dq(other))), x


def rows(m: Any, x: Any) -> Any:
    weights = of.dequantize_per_tensor(m.filters[:, :, 0, 0], 0.1, 0, *WHOLE)
    first = dq(q(functional.linear(dq(x.permute(0, 2, 3, 1)), weights)), Y)
    return q(functional.linear(first, weights) + first), functional.linear(first, weights)


def transposed(m: Any, x: Any) -> Any:
    weights = of.dequantize_per_tensor(m.filters, 0.01, 0, *WHOLE)
    return q(functional.conv_transpose2d(dq(x), weights, stride=2, output_padding=1))


def of_rows(m: Any, x: Any) -> Any:
    weights = of.dequantize_per_tensor(m.filters[:, :, 0], 0.01, 0, *WHOLE)
    return q(functional.conv1d(dq(x[:, :, 0]), weights, padding=1))


def volumes(m: Any, x: Any) -> Any:
    """Convolutions of images that are frames, and of frames beside each other."""
    weights = of.dequantize_per_tensor(m.filters[..., None], 0.01, 0, *WHOLE)
    y = dq(q(functional.conv3d(dq(x.unflatten(2, (2, 3))), weights, stride=(1, 2, 1))), Y)
    long = of.dequantize_per_tensor(m.filters[..., None].repeat(1, 1, 2, 1, 1), 0.01, 0, *WHOLE)
    return q(functional.conv3d(y, long, padding=(1, 0, 0)))


def floats(m: Any, x: Any) -> Any:
    """Two expressions of several layers, with constants of their own."""
    y = dq(q(conv(m, dq(x))), Y)
    narrow = dq(q(conv(m, dq(q(functional.silu(y) * 2), Y))), Y)
    return q(conv(m, dq(q(torch.sigmoid(narrow.mean((2, 3), keepdim=True) + 1) * narrow), Y)))


BODIES: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "windows": (windows, {"qconv.conv2d"}),
    "pools": (pools, {"qconv.max_pool2d", "qconv.avg_pool2d", "qconv.global_avg_pool2d"}),
    "residual": (residual, {"qconv.conv2d"}),
    "sums": (sums, {"qconv.add", "qconv.mul"}),
    "moves": (moves, {"qconv.conv2d"}),
    "rows": (rows, {"qconv.linear"}),
    "transposed": (transposed, {"qconv.conv_transpose2d"}),
    "rows of pixels": (of_rows, {"qconv.conv2d"}),
    "volumes": (volumes, {"qconv.conv2d"}),
    "floats": (floats, {"qconv.conv2d"}),
}


@pytest.mark.parametrize("name", BODIES)
def test_its_bits(name: str) -> None:
    body, ops = BODIES[name]
    assert ops <= set(check(lowered(body, X), X))


class Fused(torch.nn.Module):  # type: ignore[misc]
    """Two convolutions in one kernel, and a convolution with a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", integers(16, 16, 1, 1, seed=1))
        self.register_buffer("scale", torch.full((1,), 0.004))

    def forward(self, x: Any) -> Any:
        ops, numbers = torch.ops.qconv, {"x_scale": 0.02, "y_scale": 0.05}
        own = {"first_w_scale": self.scale, "second_w_scale": self.scale}
        y = ops.conv2d_conv2d(x, self.w, self.w, mid_scale=0.05, **numbers, **own)
        return ops.conv2d_pool(y, self.w, self.scale, window=2, **numbers)


def test_ops_of_several_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device with matrix instructions, which kernels for several convolutions need."""
    device, x = open_device("cpu.sm_80"), integers(2, 16, 8, 8)
    monkeypatch.setattr(convolution, "device_of", lambda place: device)
    module = qconv.torch.lower(torch.export.export(Fused(), (x,)))
    qconv.torch.forget()
    assert check(module, x, device=device) == ["qconv.conv2d_conv2d", "qconv.conv2d_pool"]
    qconv.torch.forget()


@pytest.mark.parametrize("narrow", [False, True])
def test_conversions_at_the_ends_are_those_of_the_graph(narrow: bool) -> None:
    """They round ties as the graph does, where ONNX divides, and have its narrow range."""
    values = (0.03, 3, *((-100, 90, torch.int8) if narrow else WHOLE))

    def body(m: Any, x: Any) -> Any:
        return dq(q(conv(m, dq(q(x, values), values))), Y)

    real = ((torch.arange(-96, 96) * 2 + 0.5) * 0.03).reshape(1, 8, 6, 4)
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(check(lowered(body, real), real))


def test_other_shapes_of_a_dynamic_graph() -> None:
    def body(m: Any, x: Any) -> Any:
        return q(conv(m, dq(q(torch.tanh(dq(x))), Y))).flatten(1)

    dynamic = {"inputs": ({0: torch.export.Dim("n", min=1, max=64), 2: torch.export.Dim("h", min=4, max=64)},)}
    module = qconv.torch.lower(torch.export.export(Function(body), (X,), dynamic_shapes=dynamic))
    for shape in ((1, 8, 6, 4), (3, 8, 9, 4)):
        check(module, integers(*shape))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda m, x: torch.cumsum(dq(x), 1), "cumsum: no op here computes aten.cumsum.default"),
        (lambda m, x: torch.cumsum(dq(x), 1).tanh().cumsum(1), "tanh: it is between floats that PyTorch computes"),
    ],
)
def test_what_stays_in_pytorch_is_named(body: Any, says: str) -> None:
    with pytest.raises(Unshippable, match=r"(?s)stays? in PyTorch, and cannot be shipped:\n.*" + says):
        shippable(lowered(body, X), [X.shape])


def test_a_scale_that_is_computed_is_named() -> None:
    class Computed(torch.nn.Module):
        def forward(self, x: Any, scale: Any) -> Any:
            return torch.ops.qconv.quantize(x, scale)

    module = qconv.torch.lower(torch.export.export(Computed(), (X.float(), torch.ones(1))))
    with pytest.raises(Unshippable, match="quantize: the graph computes its scale"):
        shippable(module, [X.shape, (1,)])
