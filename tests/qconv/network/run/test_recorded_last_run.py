"""Explanations describe a network's last run, whether it was recorded, replayed, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.network import Layer, Network, Reason, Runner, Tensor, Value, read_layer
from qconv.network.run.recorded import LastRun
from qconv.network.run.runner import Subgraph

CPU = open_device("cpu")
HELD = {"w": np.random.default_rng(1).integers(-128, 128, (3, 5)).astype(np.int8)}
LAYERS = (Layer("first", "MatMulInteger", ("x", "w"), ("c",)), Layer("second", "Cast", ("c",), ("y",)))


class Cast:
    """A fallback that casts, or refuses as a strict session does."""

    def __init__(self, strict: bool = False) -> None:
        self._strict = strict

    def prepare(self, layers: Sequence[Layer], inputs: Sequence[str], outputs: Sequence[str]) -> Subgraph:
        if self._strict and "first" in [layer.name for layer in layers]:
            raise ValueError("strict")

        def run(given: Mapping[str, Any]) -> Mapping[str, Any]:
            c = given["c"] if "c" in given else given["x"].astype("int32") @ HELD["w"]
            return {name: {"c": c, "y": c.astype("int8")}[name] for name in outputs}

        return run


class Graphs(CpuDevice):
    """A replay runs no Python, as on a GPU: anything that it would report about the run is dropped."""

    runner: Runner

    def record(self, work: Any, place: Any = None) -> Any:
        arrays, again = super().record(work, place)

        def replay() -> None:
            kept, self.runner._last_run = self.runner._last_run, LastRun()
            again()
            self.runner._last_run = kept

        return arrays, replay


def runner_of(elsewhere: Cast) -> Runner:
    tensors = {"x": Tensor("x", "int8", (None, 3)), "c": Tensor("c", "int32", (None, 5)), "y": Tensor("y", "int8")}
    network = Network(("x",), ("y",), LAYERS, tensors, HELD)
    device = Graphs(CPU.target)
    device.runner = Runner(network, {"first": read_layer(LAYERS[0], network)}, device, elsewhere)
    return device.runner


def explained(runner: Runner, batch: int) -> tuple[str, int | None, int | None]:
    """Run a batch; return where the product ran, and the bytes that cross into and out of it."""
    x = np.random.default_rng(batch).integers(-128, 128, (batch, 3)).astype("int8")
    y = runner.run({"x": Value(CPU, host=x)}, ["y"])["y"].on_host
    np.testing.assert_array_equal(y, (x.astype("int32") @ HELD["w"]).astype("int8"))
    row = runner.explain({"second": Reason("a cast")}).rows[0]
    return row.runs_on, row.bytes_in, row.bytes_out


# The third run of a batch is replayed.
@pytest.mark.parametrize("batches", [(4, 0, 4), (4, 4, 4, 0, 4, 4), (0, 4, 0), (4, 2, 4, 2, 4, 2)])
def test_an_explanation_is_of_the_last_run(batches: Sequence[int]) -> None:
    runner = runner_of(Cast())
    for batch in batches:
        wanted = ("qconv", 3 * batch, 20 * batch) if batch else ("fallback", 0, 0)
        assert explained(runner, batch) == wanted, batch


@pytest.mark.parametrize("runs_before", [1, 2, 3])
def test_a_run_that_was_refused_is_forgotten_with_the_next(runs_before: int) -> None:
    runner = runner_of(Cast(strict=True))
    for _ in range(runs_before):
        assert explained(runner, 4)[0] == "qconv"
    with pytest.raises(ValueError, match="strict"):
        explained(runner, 0)
    assert runner.explain({"second": Reason("a cast")}).rows[0].runs_on == "fallback"
    assert explained(runner, 4) == ("qconv", 12, 80)
