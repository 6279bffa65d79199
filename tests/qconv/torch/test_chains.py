"""Convolutions of a graph in one kernel: where that is faster, with the bits of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from stored_times import one_kernel, store  # noqa: E402
from torch_networks import targets  # noqa: E402

import qconv.torch  # noqa: E402
from qconv import generator  # noqa: E402
from qconv.device import open_device  # noqa: E402
from qconv.fused import Chain  # noqa: E402
from qconv.instances.serving import forget  # noqa: E402
from qconv.op import Problem  # noqa: E402
from qconv.problem import Conv2d  # noqa: E402
from qconv.torch import chains, convolution  # noqa: E402
from qconv.torch.chains import LAYERS, OPS  # noqa: E402

# The CPU device has no matrix instructions of its own, and kernels for several convolutions need them.
DEVICE = open_device("cpu.sm_80")
CONVOLUTIONS = ["qconv.conv2d.default", "qconv.conv2d.scalar", "qconv.conv2d.default"]


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "times.sqlite"))
    for module in (chains, convolution):
        monkeypatch.setattr(module, "device_of", lambda place: DEVICE)
    forget()
    qconv.torch.forget()
    yield tmp_path / "times.sqlite"
    forget()
    qconv.torch.forget()


def integers(*shape: int, seed: int = 0) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


class Inverted(torch.nn.Module):
    """1x1, depthwise 3x3 with one scale, and 1x1 with a residual."""

    def __init__(self, mid_zero_point: int = 5, is_seen: bool = False) -> None:
        super().__init__()
        self.read_as, self.is_seen = mid_zero_point, is_seen
        for number, shape in enumerate([(32, 16, 1, 1), (32, 1, 3, 3), (16, 32, 1, 1)], 1):
            self.register_buffer(f"w{number}", integers(*shape, seed=number))
        self.register_buffer("wide", torch.linspace(0.001, 0.003, 32))
        self.register_buffer("narrow", torch.linspace(0.001, 0.002, 16))
        self.register_buffer("bias", torch.arange(-16, 16, dtype=torch.int32) * 50)

    def forward(self, x: Any) -> Any:
        op = torch.ops.qconv.conv2d
        a = op(x, self.w1, self.wide, self.bias, x_scale=0.02, y_scale=0.05, y_zero_point=5, activation="relu6")
        numbers = {"x_scale": 0.05, "x_zero_point": self.read_as, "y_scale": 0.03, "y_zero_point": -3}
        b = op(a, self.w2, 0.004, padding=1, groups=32, **numbers)
        numbers = {"x_scale": 0.03, "x_zero_point": -3, "y_scale": 0.1, "residual_scale": 0.02}
        c = op(b, self.w3, self.narrow, residual=x, **numbers)
        return (b, c) if self.is_seen else c


def graph_of(*arguments: Any) -> tuple[Any, Any]:
    x = integers(2, 16, 5, 6, seed=9).to(memory_format=torch.channels_last)
    return torch.export.export(Inverted(*arguments), (x,)).module(), x


def found_in(graph: Any, x: Any) -> tuple[list[Conv2d], dict[int, list[Chain]]]:
    """The problems of its convolutions, and of the chains that it has, by how many they are."""
    layers = [layer.problem for layer in chains.convolutions_of(graph, [x])]
    counts = {count: range(len(layers) - count + 1) for count in OPS}
    return layers, {count: [chains.chain_of(layers[i : i + count]) for i in at] for count, at in counts.items()}


def stored(times: Path, graph: Any, x: Any, wanted: Problem, us: float) -> None:
    """10 us for each convolution, `us` for one chain, and more for the others."""
    plain, every = found_in(graph, x)
    others = [one for of in every.values() for one in of if one != wanted]
    tens = [(generator.default(one, DEVICE.target), 10.0) for one in plain]
    timed = [*((one, 1000.0) for one in others), (wanted, us)]
    store(times, DEVICE, [*tens, *((one_kernel(one, DEVICE.target), time_us) for one, time_us in timed)])
    forget()


@pytest.mark.parametrize(("count", "at"), [(2, 0), (2, 1), (3, 0)])
def test_what_was_measured_to_be_faster_is_one_op_with_the_same_bits(count: int, at: int, times: Path) -> None:
    graph, x = graph_of()
    wanted = found_in(graph, x)[1][count][at]
    stored(times, graph, x, wanted, 9.0 * count)
    fused = qconv.torch.fuse(graph, x)
    left = list(CONVOLUTIONS)
    left[at : at + count] = [f"qconv.{OPS[count]}.default"]
    assert list(targets(fused)) == left
    assert f"one kernel measured at {9 * count:.2f} us, {10 * count:.2f} us unfused" in qconv.torch.explain(fused)
    assert torch.equal(fused(x), graph(x))
    assert wanted in qconv.torch.problems(fused, x)
    assert list(targets(graph)) == CONVOLUTIONS


def test_what_was_measured_to_be_slower_stays_but_is_worth_measuring(times: Path) -> None:
    graph, x = graph_of()
    wanted = found_in(graph, x)[1][2][0]
    stored(times, graph, x, wanted, 21.0)
    assert list(targets(qconv.torch.fuse(graph, x))) == CONVOLUTIONS
    assert qconv.torch.alternatives(graph, x) == (wanted,)


@pytest.mark.parametrize("arguments", [(4,), (5, True)])
def test_what_is_read_otherwise_or_by_others_stays(arguments: Any, times: Path) -> None:
    """The first two differ in the zero point between them; or somebody else sees what the second gives."""
    graph, x = graph_of(*arguments)
    of_two = found_in(*graph_of())[1][2]
    for one in of_two:
        store(times, DEVICE, [(one_kernel(one, DEVICE.target), 1.0)])
    forget()
    kept = of_two[1 if arguments == (4,) else 0]
    assert [one for one in of_two if one in qconv.torch.alternatives(graph, x)] == [kept]


def test_a_network_without_convolutions_stays() -> None:
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    assert list(targets(qconv.torch.fuse(module, torch.ones(2)))) == list(targets(module))


def test_the_longest_op_has_as_many_layers_as_its_schema() -> None:
    assert max(OPS) == max(LAYERS)
