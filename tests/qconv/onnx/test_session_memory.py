"""The arena of a session: whole networks whose unused memory is spoiled before each launch, and its reported size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import quantized_networks as networks
from integer_model import Model
from one_node import whole_range
from session_comparison import assert_equal

from qconv.device import Device, cpu
from qconv.device.memory import Allocation, Placement
from qconv.network.run import recorded
from qconv.network.run.memory import place
from qconv.onnx import Session

POISON = 0xA5
Lifetimes = Callable[[Sequence[Allocation]], list[Allocation]]
Expected = Callable[[Any, dict[str, Any]], list[Any]]


class Spoiling:
    """Spoils all unused memory of an arena before memory is taken from it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, read: Lifetimes = list) -> None:
        self.taken = 0
        self.offsets: tuple[int | None, ...] = ()  # of the last placement
        take = cpu.PlacedAllocator.take
        allocations: dict[Placement, Sequence[Allocation]] = {}

        def placed(given: Sequence[Allocation]) -> Placement:
            placement = place(read(given))
            self.offsets = placement.offsets
            allocations[placement] = given
            return placement

        def spoiled(allocator: Any, size: int) -> Any:
            placement, number = allocator._placed._placement, allocator._placed._next
            free = np.ones(len(allocator._arena), bool)
            for one, offset in zip(allocations[placement][:number], placement.offsets, strict=False):
                if offset is not None and one.end is not None and one.end > number:
                    free[offset : offset + one.bytes] = False
            allocator._arena[free] = POISON
            self.taken += 1
            return take(allocator, size)

        monkeypatch.setattr(recorded, "place", placed)
        monkeypatch.setattr(cpu.PlacedAllocator, "take", spoiled)


def run(model: Any, feeds: dict[str, Any], expected: Expected = networks.by_ort, **settings: Any) -> Session:
    """Run three times: layer by layer, recorded, and in the arena."""
    session = Session(model, "cpu", **settings)
    held = []
    for turn in range(3):
        fed = {name: np.roll(x, turn, -1) for name, x in feeds.items()}
        held.append((session.run_on_device(None, fed), expected(model, fed)))
    for given, wanted in held:  # a run must not overwrite earlier outputs
        for got, want in zip(given, wanted, strict=True):
            assert_equal(np.asarray(got), want, "output")
    return session


@pytest.mark.turns
@pytest.mark.parametrize(
    ("network", "form", "types"),
    [("resnet", "QDQ", "u8s8"), ("mobilenet", "QOperator", "u8u8"), ("mobilenet_v3", "QOperator", "u8s8")],
)
def test_a_network_in_a_spoiled_arena(network: str, form: str, types: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last network has layers in ONNX Runtime, between segments of kernels that each have an arena."""
    spoiling = Spoiling(monkeypatch)
    model = networks.quantized(networks.NETWORKS[network](), form, types, per_channel=True)
    choices = {"sums_in_convolutions": False, "fused_convolutions": False}
    session = run(model, {"x": networks.images(2, 9)}, bits="onnxruntime", **choices)
    memory = session.memory
    assert memory.recordings == sum(segment.served for segment in session._described.runner.segments)
    assert memory.recordings > (network == "mobilenet_v3")
    assert spoiling.taken > 2 * memory.tensors > 0
    assert memory.arena_bytes < 0.8 * memory.tensor_bytes
    assert str(session.explain()).endswith(str(memory))


@pytest.mark.slow
def test_expressions_in_a_spoiled_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their floats are those of a session that runs once, layer by layer, which has no arena."""

    def once(model: Any, feeds: dict[str, Any]) -> list[Any]:
        return Session(model, "cpu").run(None, feeds)

    spoiling = Spoiling(monkeypatch)
    model = networks.quantized(networks.mobilenet_v3_like(), "QOperator", "u8s8", per_channel=True)
    session = run(model, {"x": networks.images(2, 9)}, once)
    assert session.memory.recordings == 1
    assert {"map", "reduce"} <= {problem.op for problem in session.problems}
    assert spoiling.taken > 2 * session.memory.tensors


def test_a_lifetime_that_ends_one_step_early_shows_in_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(given: Sequence[Allocation]) -> list[Allocation]:
        ends = (None if one.end is None else max(at + 1, one.end - 1) for at, one in enumerate(given))
        return [Allocation(one.bytes, end, one.instead_of) for one, end in zip(given, ends, strict=True)]

    Spoiling(monkeypatch, early)
    model = networks.quantized(networks.resnet_like(), "QDQ", "u8s8", per_channel=True)
    with pytest.raises(AssertionError, match="Mismatched elements"):
        run(model, {"x": networks.images(2, 9)}, sums_in_convolutions=False, fused_convolutions=False)


def test_sums_and_tables_lie_in_place_unless_what_they_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def model() -> tuple[Model, str, Any]:
        made = Model()
        made.input(2, 8, 9, 9)
        x_is = made.numbers()
        return made, made.conv("x0", 8, 8, x_is, x_is), x_is

    others = whole_range(np.random.default_rng(0), "uint8", (8, 1, 1))
    unfused: dict[str, Any] = {"sums_in_convolutions": False, "tables_in_convolutions": False, "bits": "onnxruntime"}
    spoiling = Spoiling(monkeypatch)
    chain, y, numbers = model()
    # Tables alone would be one: other bytes are added between them.
    y = chain.node("QLinearSigmoid", [y, *numbers, *numbers], domain="com.microsoft")
    y = chain.add(y, numbers, chain.constant(others), numbers, numbers)
    y = chain.node("QLinearSigmoid", [y, *numbers, *numbers], domain="com.microsoft")
    run(chain.made(chain.conv(y, 8, 4, numbers, numbers)), chain.fed, **unfused)
    # The images channels-last, then the convolution's output, which becomes those of the tables and the sum.
    images, made, *behind, output = spoiling.offsets
    assert images != made
    assert behind == [made] * 3
    assert output is None
    # A sum of what is made of a table's output, and of the table's input.
    twice, y, numbers = model()
    z = twice.node("QLinearSigmoid", [y, *numbers, *numbers], domain="com.microsoft")
    z = twice.add(z, numbers, twice.constant(others), numbers, numbers)
    z = twice.add(z, numbers, y, numbers, numbers)
    run(twice.made(twice.conv(z, 8, 4, numbers, numbers)), twice.fed, **unfused)
    images, made, table, *sums, _ = spoiling.offsets
    assert images == table != made
    assert sums == [table] * 2


def test_a_run_that_is_not_recorded_has_no_arena() -> None:
    model = networks.quantized(networks.mobilenet_like(), "QOperator", "u8s8", per_channel=False)
    session = Session(model, "cpu")
    session.run(None, {"x": networks.images(1, 1)})
    assert session.memory.recordings == 0
    assert "memory" not in str(session.explain())
    session.run(None, {"x": networks.images(1, 2)})
    assert session.memory.recordings == 1


def test_a_sum_never_lies_where_its_second_tensor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output is as large as the first tensor; here the first is a constant, and the second has the size of both."""
    spoiling = Spoiling(monkeypatch)
    made = Model()
    made.input(2, 8, 9, 9)
    numbers = made.numbers()
    y = made.conv("x0", 8, 8, numbers, numbers)
    constant = made.constant(made.rng.integers(0, 256, (2, 8, 9, 9)).astype(np.uint8))
    z = made.add(constant, numbers, y, numbers, numbers)
    run(made.made(made.conv(z, 8, 4, numbers, numbers)), made.fed, sums_in_convolutions=False)
    images, first, sums, _ = spoiling.offsets
    assert images == sums != first


@pytest.mark.gpu
@pytest.mark.parametrize("network", ["resnet", "mobilenet_v3"])
def test_a_graph_reads_nothing_of_its_arena_that_it_has_not_written(network: str, gpu: Device) -> None:
    """Earlier outputs are in other memory."""
    cupy = pytest.importorskip("cupy")
    model = networks.quantized(networks.NETWORKS[network](), "QDQ", "u8s8", per_channel=True)
    session = Session(model, gpu.spec, sums_in_convolutions=False, fused_convolutions=False)
    held = []
    for turn in range(5):
        feeds = {"x": networks.images(3, turn)}
        held.append((session.run_on_device(None, feeds), networks.by_ort(model, feeds)))
        gpu.synchronize()
        for one in session._described.runner._recordings.values():
            if isinstance(one, recorded.Recorded):
                (arena, _), _ = one._replay.kept  # type: ignore[attr-defined]
                assert arena.size >= session.memory.arena_bytes > 0
                cupy.cuda.runtime.memset(arena.ptr, POISON, arena.size)
        gpu.synchronize()
    for given, wanted in held:
        for got, want in zip(given, wanted, strict=True):
            assert_equal(gpu.download(got), want, "output")
