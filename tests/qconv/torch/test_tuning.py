"""Tuning covers all kernels of a module, and its next call uses the winners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

import qconv.torch  # noqa: E402
from qconv.instances.load import serving  # noqa: E402
from qconv.torch import packing  # noqa: E402

ops = torch.ops.qconv


class Network(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("w", torch.ones(8, 8, 1, 1, dtype=torch.int8))
        self.register_buffer("scales", torch.full((8,), 0.01))

    def forward(self, x: Any) -> Any:
        x = ops.quantize(x, 0.5, 1, mode="decomposed")
        y = ops.conv2d(x, self.w, self.scales, x_scale=0.5, x_zero_point=1, y_scale=0.5)
        return ops.global_avg_pool2d(ops.conv2d(y, self.w, self.scales, x_scale=0.5, y_scale=0.5))


X = torch.ones(1, 8, 4, 4)


def test_every_kernel_of_a_call_is_a_problem() -> None:
    network = Network()
    network(X)  # entries that are packed already count too
    found = qconv.torch.problems(network, X)
    assert [problem.op for problem in found] == ["quantize", "conv2d", "conv2d", "global_average_pool"]
    assert found == qconv.torch.problems(network, X)


def test_nothing_is_noted_outside() -> None:
    with serving.noted() as outer:
        (problem, *_) = qconv.torch.problems(Network(), X)
        assert not outer
        serving.lookup(problem, "cpu")
    serving.lookup(problem, "cpu")
    assert outer == [problem]


def test_the_next_call_has_the_winners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "db.sqlite"))
    network = Network()
    before = network(X)
    results = qconv.torch.tune(network, X, budget=1, device="cpu")
    assert len(results) == 4
    assert not packing._kept
    assert torch.equal(network(X), before)
