"""The choice among a peer's plans, with a fake cuDNN: the real one needs a GPU."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from qconv import Conv2d, Quantization
from qconv.device import open_device
from qconv.ops import registry

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[conformance]'")

PROBLEM = Conv2d(2, 6, 5, 8, 12, 3, 3, pad=(1, 0, 1, 2), stride=(1, 2))
# The seconds of a fake clock that only the plans advance.
CLOCK = [0.0]
# Milliseconds of each plan, and its fault.
PLANS = [(9, None), (3, "off by two"), (2, None), (1, "raises"), (0, "does not build"), (4, "off by one")]


class Node:
    """A tensor of the fake graph: it records set_dim and the like."""

    def __init__(self, **given: Any) -> None:
        self.given = given

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("set_"):
            raise AttributeError(name)

        def remember(value: Any) -> Node:
            self.given[name.removeprefix("set_")] = value
            return self

        return remember


class Graph:
    def __init__(self, drawn: registry.Sample, **_: Any) -> None:
        self._y = torch.from_numpy(registry.compute(PROBLEM, drawn)[0])
        self.out: Any = None

    def tensor(self, **given: Any) -> Node:
        return Node(**given)

    def conv_fprop(self, **given: Any) -> Node:
        assert (given["pre_padding"], given["post_padding"]) == ([1, 0], [1, 2])
        assert (given["stride"], given["dilation"]) == ([1, 2], [1, 1])
        return Node()

    def mul(self, **_: Any) -> Node:
        self.out = Node()
        return self.out

    def create_execution_plans(self, modes: list[str]) -> None:
        if "B" in modes:
            raise RuntimeError("this heuristic does not know the graph")

    def validate(self) -> None: ...
    def build_operation_graph(self) -> None: ...
    def check_support(self) -> None: ...

    def get_execution_plan_count(self) -> int:
        return len(PLANS)

    def get_plan_name_at_index(self, index: int) -> str:
        return f"plan {index}"

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return 0

    def build_plan_at_index(self, index: int) -> None:
        if PLANS[index][1] == "does not build":
            raise RuntimeError("not supported")

    def execute_plan_at_index(self, pack: dict[Node, Any], workspace: Any, index: int, handle: Any) -> None:
        took_ms, fault = PLANS[index]
        if fault == "raises":
            raise RuntimeError("execution failed")
        shapes = {tuple(array.shape) for array in pack.values()}
        assert shapes == {(2, 8, 6, 5), (12, 8, 3, 3), (1, 1, 1, 1), (2, 12, 6, 3)}
        y = self._y.permute(0, 3, 1, 2).clone()
        y[0, 0, 0, 0] = (y[0, 0, 0, 0] + {"off by one": 1, "off by two": 2}.get(fault or "", 0)).clamp(-128, 127)
        pack[self.out].copy_(y)
        CLOCK[0] += took_ms / 1e3


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a case whose first output is not an extreme, so that a wrong output is not clamped to the right one."""
    from peers import Case, cudnn_int8

    drawn = next(
        drawn
        for seed in range(99)
        if abs(int(registry.compute(PROBLEM, drawn := registry.draw(PROBLEM, seed))[0][0, 0, 0, 0])) < 120
    )
    cudnn = SimpleNamespace(
        data_type=SimpleNamespace(INT8="int8", INT32="int32", FLOAT="float"),
        heur_mode=SimpleNamespace(A="A", B="B", FALLBACK="FALLBACK"),
        pygraph=lambda **given: Graph(drawn, **given),
        create_handle=lambda: "handle",
        set_stream=lambda handle, stream: None,
        backend_version=lambda: 91900,
    )
    monkeypatch.setitem(__import__("sys").modules, "cudnn", cudnn)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(time, "monotonic", lambda: CLOCK[0])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: int(CLOCK[0] * 1e9))
    cudnn_int8._handle.cache_clear()
    from qconv.tuner.measure.protocol import protocol_for

    device = open_device("cpu")
    return Case(PROBLEM, drawn, registry.compute(PROBLEM, drawn)[0], device, protocol_for(device))


def test_the_fastest_right_plan_wins(made_up: Any) -> None:
    from peers import cudnn_int8

    peer = cudnn_int8.prepare(made_up)
    assert peer.facts["plan"] == "plan 2"
    assert peer.facts["plans"] == {"offered": 6, "tried": 6, "ran": 3, "wrong": 1}
    assert peer.facts["equal"] == 1.0
    assert len(peer.run(3)) == 3


def test_a_limit_ends_the_search_and_is_seen(made_up: Any) -> None:
    from dataclasses import replace

    from peers import cudnn_int8

    peer = cudnn_int8.prepare(replace(made_up, limit_s=0.005))
    assert peer.facts["plan"] == "plan 0"
    assert peer.facts["plans"]["tried"] < peer.facts["plans"]["offered"]


def test_what_cudnn_does_not_compute_is_not_compared(made_up: Any) -> None:
    from dataclasses import replace

    from peers import prepare

    shifted = replace(PROBLEM, quantization=Quantization(x_zero_point=True))
    ready, missing = prepare(["cudnn_int8"], replace(made_up, problem=shifted))
    assert ready == {}
    assert "symmetric" in missing["cudnn_int8"]


def test_an_output_may_be_off_by_one_and_no_more() -> None:
    from peers.cudnn_int8 import compare

    want = torch.tensor([1, 2, -128, 127], dtype=torch.int8)
    assert compare(torch, want, want) == 1.0
    assert compare(torch, torch.tensor([1, 3, -128, 126], dtype=torch.int8), want) == 0.5
    # -128 and 127 are 255 apart, not 1.
    assert compare(torch, torch.tensor([1, 2, 127, 127], dtype=torch.int8), want) is None
