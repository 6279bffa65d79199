"""A conv3d of a PT2E graph is one of images, within one step of the graph's own outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_networks import differences, targets  # noqa: E402

import qconv.torch  # noqa: E402

of = torch.ops.quantized_decomposed
X, Y = (0.02, 3, -128, 127, torch.int8), (0.3, -7, -128, 127, torch.int8)
SHAPE = (2, 8, 5, 6, 7)
VIEWS = {"aten.permute.default", "aten.flatten.using_ints", "aten.unflatten.int"}
GEOMETRIES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "space": ((1, 3, 3), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
    "time": ((3, 1, 1), {"padding": (1, 0, 0), "stride": (2, 1, 1)}),
    "a pixel": ((1, 1, 1), {}),
    "a pixel, strided": ((1, 1, 1), {"stride": 2}),
    "dense": ((3, 3, 3), {"padding": 1}),
    "dense, without pads": ((2, 2, 2), {"stride": (2, 1, 1)}),
    "dense, with gaps": ((2, 3, 2), {"padding": "same", "dilation": (2, 1, 1)}),
    "groups": ((3, 3, 3), {"padding": (2, 1, 0), "stride": 2, "groups": 2}),
    "depthwise": ((2, 3, 3), {"padding": "valid", "groups": 8}),
}


def integers(*shape: int, seed: int = 0) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


def dq(x: Any) -> Any:
    return of.dequantize_per_tensor(x, *X)


def q(x: Any, values: Any = Y) -> Any:
    return of.quantize_per_tensor(x, *values)


class Graph(torch.nn.Module):
    """A module with `body`, whose convolution has these taps."""

    def __init__(self, body: Callable[..., Any], taps: tuple[int, int, int], **window: Any) -> None:
        super().__init__()
        self.body, self.window = body, window
        self.register_buffer("w", integers(8, 8 // window.get("groups", 1), *taps, seed=1))
        self.register_buffer("scales", torch.linspace(0.001, 0.004, 8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("bias", torch.linspace(-2, 2, 8))

    def forward(self, x: Any) -> Any:
        return self.body(self, x)

    def conv(self, x: Any) -> Any:
        filters = of.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return functional.conv3d(dq(x), filters, self.bias, **self.window)


def lowered(graph: Any, x: Any, **given: Any) -> Any:
    program = torch.export.export(graph, (x,), **given).module()
    module = qconv.torch.lower(program)
    for one in differences(program, module, x):
        assert one.largest <= (1 if one.is_integer else 1e-4)
        assert one.differing <= max(one.count / 500, 1) or not one.is_integer
    return module


def of_two(graph: Graph, x: Any) -> Any:
    """Convolve twice."""
    return q(graph.conv(q(torch.relu(graph.conv(x)), X)))


@pytest.mark.turns
@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_geometry(name: str) -> None:
    taps, window = GEOMETRIES[name]
    module = lowered(Graph(lambda m, x: q(torch.relu(m.conv(x))), taps, **window), integers(*SHAPE))
    first, *rest = qconv.torch.explain(module).split("\n")
    assert first == "conv3d: qconv.conv2d, with relu, quantized"
    is_view = name in ("space", "time", "a pixel")
    assert [" as one expression" in row for row in rest] == [True] * (not is_view)
    ops = {"qconv.conv2d.default"} if is_view else {"qconv.conv2d.default", "qconv.expression.default"}
    assert set(targets(module)) - VIEWS == ops


@pytest.mark.turns
@pytest.mark.parametrize("name", ["space", "time", "dense", "groups"])
def test_a_dynamic_batch(name: str) -> None:
    taps, window = GEOMETRIES[name]
    window = {"padding": "same", "groups": window.get("groups", 1)}
    graph, x = Graph(of_two, taps, **window), integers(*SHAPE)
    module = lowered(graph, x, dynamic_shapes={"x": {0: torch.export.Dim("n", min=1, max=64)}})
    for count in (1, 3):
        x = integers(count, *SHAPE[1:], seed=count)
        with torch.no_grad():
            assert (module(x).int() - graph(x).int()).abs().max() <= 1
    assert module(x).is_contiguous(memory_format=torch.channels_last_3d)


def test_volumes_between_convolutions_stay_channels_last() -> None:
    """The second copy of frames reads and writes them so."""
    module = lowered(Graph(of_two, (3, 3, 3), padding=1), integers(*SHAPE))
    programs = [node.kwargs["program"] for node in module.graph.nodes if "expression" in str(node.target)]
    assert len(programs) == 2
    assert all('"channels_last":true' in program for program in programs)


@pytest.mark.parametrize("taps", [(1, 3, 3), (3, 1, 1), (3, 3, 3)])
def test_a_residual_is_one_of_images(taps: tuple[int, int, int]) -> None:
    module = lowered(Graph(lambda m, x: q(m.conv(x) + dq(x)), taps, padding="same"), integers(*SHAPE))
    assert qconv.torch.explain(module).startswith("conv3d: qconv.conv2d, with residual, quantized")
    assert "aten.add.Tensor" not in targets(module)


def test_real_output() -> None:
    module = lowered(Graph(lambda m, x: torch.cumsum(m.conv(x), 1), (3, 3, 3), padding=1), integers(*SHAPE))
    assert qconv.torch.explain(module).startswith("conv3d: qconv.conv2d, with real output")


def test_no_batch_stays() -> None:
    module = lowered(Graph(lambda m, x: q(m.conv(x)), (1, 3, 3)), integers(*SHAPE[1:]))
    assert "conv3d: PyTorch, its input has four axes, one volume without a batch" in qconv.torch.explain(module)


def test_dynamic_frames_stay() -> None:
    graph, x = Graph(lambda m, x: q(m.conv(x)), (3, 3, 3)), integers(*SHAPE)
    module = lowered(graph, x, dynamic_shapes={"x": {2: torch.export.Dim("frames", min=4, max=64)}})
    assert "conv3d: PyTorch, the extents of its volumes or of its weights are not known" in qconv.torch.explain(module)
