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
from qconv.instances.load.expected import Expectations, LookupTime  # noqa: E402
from qconv.instances.load.serving import forget  # noqa: E402
from qconv.op import Problem  # noqa: E402
from qconv.problem.chain import Chain  # noqa: E402
from qconv.problem.convolution import Conv2d  # noqa: E402
from qconv.problem.pooled import PooledConv2d  # noqa: E402
from qconv.torch import chains, convolution  # noqa: E402
from qconv.torch.chains import LAYERS, OPS  # noqa: E402

# The plain CPU device has no matrix instructions, which kernels for several convolutions need.
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
    """Return the problems of its convolutions, and of its chains by length."""
    layers = [layer.problem for layer in chains.layers_of(graph, [x])]
    counts = {count: range(len(layers) - count + 1) for count in OPS}
    return layers, {count: [chains.chain_of(layers[i : i + count]) for i in at] for count, at in counts.items()}


def stored(times: Path, graph: Any, x: Any, wanted: Problem, us: float) -> None:
    """Store 10 us for each convolution, `us` for one chain, and more for the others."""
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
    """The first two differ in the zero point between them, or the second's output has another reader."""
    graph, x = graph_of(*arguments)
    of_two = found_in(*graph_of())[1][2]
    for one in of_two:
        store(times, DEVICE, [(one_kernel(one, DEVICE.target), 1.0)])
    forget()
    kept = of_two[1 if arguments == (4,) else 0]
    assert [one for one in of_two if one in qconv.torch.alternatives(graph, x)] == [kept]


class Stem(torch.nn.Module):
    """A convolution and a max pool, with scales or with one scale."""

    def __init__(self, per_channel: bool = True, what: str = "") -> None:
        super().__init__()
        self.what = what
        self.register_buffer("w", integers(8, 3, 3, 3, seed=1))
        self.register_buffer("bias", torch.arange(-4, 4, dtype=torch.int32) * 50)
        self.register_buffer("scales", torch.linspace(0.001, 0.003, 8))
        self.per_channel = per_channel

    def forward(self, x: Any) -> Any:
        scale = self.scales if self.per_channel else 0.002
        numbers = {"x_scale": 0.02, "x_zero_point": 3, "y_scale": 0.05, "y_zero_point": -5, "out_dtype": torch.uint8}
        numbers |= {"y_zero_point": 4, "activation": "clamp", "low": -0.1, "high": 9.0}
        if self.what == "residual":
            numbers |= {"residual": torch.zeros(2, 8, 5, 5, dtype=torch.int8), "residual_scale": 1.0}
        a = torch.ops.qconv.conv2d(x, self.w, scale, self.bias, stride=2, padding=[1, 1], **numbers)
        gaps = [2, 1] if self.what == "gaps" else [1, 1]
        b = torch.ops.qconv.max_pool2d(a, [3, 2], [2, 2], [1, 0], dilation=gaps, ceil_mode=True)
        return (a, b) if self.what == "seen" else b


def stem_of(*arguments: Any) -> tuple[Any, Any]:
    x = integers(2, 3, 9, 10, seed=9).to(memory_format=torch.channels_last)
    return torch.export.export(Stem(*arguments), (x,)).module(), x


@pytest.fixture
def pairs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two kernels count as one, so that pools that no kernel serves here become one op too."""
    monkeypatch.setattr(LookupTime, "is_one_kernel", True)


@pytest.mark.parametrize("per_channel", [True, False])
def test_a_convolution_and_a_pool_are_one_op_with_the_same_bits(
    per_channel: bool, times: Path, pairs_count: None
) -> None:
    graph, x = stem_of(per_channel)
    layers = chains.layers_of(graph, [x])
    assert [layer.problem.op for layer in layers] == ["conv2d", "max_pool"]
    wanted = PooledConv2d.behind(*(layer.problem for layer in layers))  # type: ignore[arg-type]
    assert qconv.torch.alternatives(graph, x) == (wanted,)
    assert len(list(targets(qconv.torch.fuse(graph, x)))) == 2  # predicted to be no faster
    overload = "default" if per_channel else "scalar"
    for time_us, left in ((19.0, [f"qconv.conv2d_pool.{overload}"]), (20.0, [f"qconv.conv2d.{overload}", chains.POOL])):
        plain = [(generator.default(layer.problem, DEVICE.target), 10.0) for layer in layers]
        store(times, DEVICE, [*plain, (generator.unfused_plan(wanted, DEVICE.target), time_us)])
        forget()
        fused = qconv.torch.fuse(graph, x)
        assert list(targets(fused)) == left
        assert torch.equal(fused(x), graph(x))
        if time_us < 20:
            assert "conv2d and max_pool2d: qconv.conv2d_pool, one kernel measured" in qconv.torch.explain(fused)
            assert qconv.torch.problems(fused, x) == (wanted,)
            assert torch.equal(torch.export.export(fused, (x,)).module()(x), graph(x))


@pytest.mark.parametrize("what", ["gaps", "seen", "residual"])
def test_pools_that_stay(what: str, times: Path, pairs_count: None) -> None:
    graph, x = stem_of(True, what)
    assert qconv.torch.alternatives(graph, x) == ()


def test_a_pool_for_which_no_kernel_is_stays(times: Path) -> None:
    assert qconv.torch.alternatives(*stem_of()) == ()


@pytest.mark.parametrize(("us", "found"), [(0.1, ["conv2d_pool"]), (1e9, [])])
def test_a_pool_that_may_be_one_kernel_is_worth_measuring(
    us: float, found: list[str], times: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers lookups that return two kernels."""
    graph, x = stem_of()
    monkeypatch.setattr(Expectations, "one_kernel_us", lambda self, problem: us)
    assert [one.op for one in qconv.torch.alternatives(graph, x)] == found
    assert len(list(targets(qconv.torch.fuse(graph, x)))) == 2


class Behind(torch.nn.Module):
    """A chain of two followed by a pool, whose output is convolved again."""

    def __init__(self) -> None:
        super().__init__()
        for number in range(3):
            self.register_buffer(f"w{number}", integers(16, 16, 1, 1, seed=number))

    def forward(self, x: Any) -> Any:
        for number, w in enumerate((self.w0, self.w1, self.w2)):
            x = torch.ops.qconv.conv2d(x, w, 0.01, x_scale=0.5, y_scale=0.5)
            x = torch.ops.qconv.max_pool2d(x, [2, 2]) if number == 1 else x
        return x


def test_a_pool_ends_a_run(times: Path, pairs_count: None) -> None:
    x = integers(1, 16, 6, 6).to(memory_format=torch.channels_last)
    graph = torch.export.export(Behind(), (x,)).module()
    (run,) = chains._runs(graph, (x,), None)
    assert [layer.problem.op for layer in run.layers] == ["conv2d", "conv2d", "max_pool"]
    assert [(span.begin, span.end, span.problem.op) for span in run.spans] == [
        (0, 2, "conv2d_conv2d"),
        (1, 3, "conv2d_pool"),
    ]


def test_a_network_without_convolutions_stays() -> None:
    module = torch.fx.symbolic_trace(torch.nn.ReLU())
    assert list(targets(qconv.torch.fuse(module, torch.ones(2)))) == list(targets(module))


def test_the_longest_op_has_as_many_layers_as_its_schema() -> None:
    assert max(OPS) == max(LAYERS)
