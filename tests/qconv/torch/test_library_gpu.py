"""PyTorch's stream, graphs and compiler on a GPU; nothing waits once the weights are packed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

import qconv.torch  # noqa: E402
from qconv.torch import conversion  # noqa: E402

pytestmark = pytest.mark.gpu
ops = torch.ops.qconv
CALL = {"padding": 1, "x_scale": 0.02, "x_zero_point": 3, "y_scale": 0.1, "y_zero_point": 7, "activation": "relu"}


@pytest.fixture(autouse=True)
def _there(gpu: Any) -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    yield
    qconv.torch.forget()


def drawn(*shape: int, dtype: Any = torch.int8, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max + 1, shape, dtype=dtype, generator=generator)


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", drawn(64, 32, 3, 3, seed=1))
        self.register_buffer("w2", drawn(32, 64, 1, 1, seed=2))
        self.register_buffer("scales", torch.linspace(0.001, 0.005, 64))

    def forward(self, real: Any) -> Any:
        x = ops.quantize(real, 0.05, 3)
        y = ops.conv2d(x, self.w, self.scales, **CALL)
        y = ops.conv2d(y, self.w2, 0.01, None, x, x_scale=0.1, residual_scale=0.05, residual_zero_point=3, y_scale=0.2)
        y = ops.add(ops.max_pool2d(y, 3, 1, 1), y, a_scale=0.2, b_scale=0.2, y_scale=0.3)
        return ops.dequantize(ops.global_avg_pool2d(y, x_scale=0.3, y_scale=0.1), 0.1)


REAL = torch.linspace(-6, 6, 2 * 32 * 14 * 14).reshape(2, 32, 14, 14)


def expected(network: Any, x: Any) -> Any:
    """Return the network's output on the CPU device."""
    cpu = Network()
    cpu.load_state_dict({name: value.cpu() for name, value in network.state_dict().items()})
    return cpu(x.cpu())


def test_the_gpu_has_the_bits_of_the_cpu_device() -> None:
    network = Network().cuda()
    y = network(REAL.cuda())
    assert y.is_cuda
    assert torch.equal(y.cpu(), expected(network, REAL))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.uint8])
def test_every_type_of_output(dtype: Any) -> None:
    x, w = drawn(1, 16, 9, 9), drawn(24, 16, 3, 3, seed=1)
    want = ops.conv2d(x, w, 0.004, x_scale=0.02, out_dtype=dtype)
    assert torch.equal(ops.conv2d(x.cuda(), w.cuda(), 0.004, x_scale=0.02, out_dtype=dtype).cpu(), want)


def test_scales_and_zero_points_of_channels_on_the_gpu() -> None:
    scale, zero = torch.linspace(0.01, 0.09, 32), torch.arange(32)
    want = ops.quantize(REAL, scale, zero, axis=1)
    for layout in (torch.contiguous_format, torch.channels_last):
        x = REAL.cuda().contiguous(memory_format=layout)
        assert torch.equal(ops.quantize(x, scale.cuda(), zero.cuda(), axis=1).cpu(), want)


def test_it_runs_on_the_current_stream() -> None:
    network, x = Network().cuda(), REAL.cuda()
    network(x)
    negated = x.neg()  # loads a kernel of PyTorch's, which waits for running work
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        network(negated)  # allocates the stream's own memory, which waits too
        torch.cuda.synchronize()
        torch.cuda._sleep(1_000_000_000)
        y = network(negated)
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(y.cpu(), expected(network, -REAL))


def test_nothing_waits_once_the_weights_are_packed() -> None:
    network, x = Network().cuda(), REAL.cuda()
    network(x)
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(1_000_000_000)
        network(x)
        assert not torch.cuda.current_stream().query()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_graph_is_captured_and_replayed() -> None:
    network, x = Network().cuda(), REAL.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        network(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = network(x)
    for real in (REAL, -REAL, REAL * 0.5):
        x.copy_(real)
        other = [torch.randn(64, 64, device="cuda") for _ in range(8)]  # memory that is reused in between
        graph.replay()
        assert torch.equal(y.cpu(), expected(network, real)), len(other)


def test_weights_that_are_written_are_packed_again() -> None:
    network, x = Network().cuda(), REAL.cuda()
    before = network(x)
    network.w.neg_()
    after = network(x)
    assert torch.equal(after.cpu(), expected(network, REAL))
    assert not torch.equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor(mode: str) -> None:
    """As the first action of a process: tensors that a call caches must not be in the memory of a graph."""
    conversion._numbers.clear()
    network, x = Network().cuda(), REAL.cuda()
    compiled = torch.compile(network, fullgraph=True, mode=mode)
    with torch.no_grad():
        for real in (REAL, -REAL, REAL * 0.5, REAL):
            assert torch.equal(compiled(x.copy_(real)).cpu(), expected(network, real))
