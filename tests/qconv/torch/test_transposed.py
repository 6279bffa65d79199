"""torch.ops.qconv.conv_transpose2d, and transposed convolutions of PT2E graphs that become it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402

import qconv.torch  # noqa: E402

of = torch.ops.quantized_decomposed
# Powers of two: the floats of both computations are exact.
X, Y = (2.0**-4, 3, -128, 127, torch.int8), (2.0**3, -7, -128, 127, torch.int8)
WINDOWS: dict[str, dict[str, Any]] = {
    "a filter as large as the stride": {"stride": 2},
    "pads": {"stride": 2, "padding": 1, "output_padding": 1},
    "uneven": {"stride": (3, 1), "padding": (2, 0), "dilation": (1, 2), "output_padding": (2, 0)},
}


def integers(*shape: int, seed: int = 0) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


class Up(torch.nn.Module):
    """A transposed convolution between quantized tensors, and a Relu before the last quantization."""

    def __init__(self, window: dict[str, Any], taps: int, groups: int = 1, per_channel: bool = True) -> None:
        super().__init__()
        self.window, self.per_channel = {**window, "groups": groups}, per_channel
        self.register_buffer("w", integers(8, 4, taps, taps, seed=1))
        self.register_buffer("scales", 2.0 ** torch.arange(-6, -2))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("bias", torch.arange(4 * groups) * 8.0)

    def forward(self, x: Any) -> Any:
        w = of.dequantize_per_tensor(self.w, 2.0**-5, 0, -128, 127, torch.int8)
        if self.per_channel:
            w = of.dequantize_per_channel(self.w, self.scales, self.zeros, 1, -128, 127, torch.int8)
        made = functional.conv_transpose2d(of.dequantize_per_tensor(x, *X), w, self.bias, **self.window)
        return of.quantize_per_tensor(torch.relu(made), *Y)


def lowered(network: Up, x: Any) -> tuple[Any, Any]:
    program = torch.export.export(network, (x,)).module()
    module = qconv.torch.lower(program)
    with torch.no_grad():
        assert torch.equal(module(x), program(x))
    return module, qconv.torch.explain(module)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(("groups", "per_channel"), [(1, True), (2, False)])
def test_a_layer_of_a_graph(window: str, groups: int, per_channel: bool) -> None:
    network = Up(WINDOWS[window], 2 if window.startswith("a filter") else 3, groups, per_channel)
    _, says = lowered(network, integers(2, 8, 5, 6, seed=2))
    assert says == "conv_transpose2d: qconv.conv_transpose2d, with relu, quantized"


def test_scales_of_one_group_stay() -> None:
    _, says = lowered(Up({"stride": 2}, 2, groups=2, per_channel=True), integers(2, 8, 5, 6))
    assert "scales for the outputs of one group, and it has several groups" in says


def test_a_residual_and_numbers_as_tensors() -> None:
    x, w, added = integers(1, 8, 4, 4), integers(8, 4, 2, 2, seed=1), integers(1, 4, 8, 8, seed=2)
    given = {"stride": [2, 2], "y_scale": 64.0, "residual_scale": 8.0}
    y = torch.ops.qconv.conv_transpose2d(x, w, torch.tensor(0.5), None, added, **given)
    sums = functional.conv_transpose2d(x.double(), w.double(), stride=2) * 0.5 + added.double() * 8
    assert torch.equal(y, (sums / 64).round().clamp(-128, 127).to(torch.int8))


def test_weights_of_another_number_of_channels() -> None:
    with pytest.raises((ValueError, RuntimeError), match="but x has 8 channels: CKRS weights have as many in front"):
        torch.ops.qconv.conv_transpose2d(integers(1, 8, 4, 4), integers(4, 8, 2, 2), torch.tensor(0.5), None)
