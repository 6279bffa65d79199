"""A shipped network, opened in Python: the first run with inputs at some address is one by launches, later ones are
graphs, and all have the same bits."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds

import qconv.onnx
from qconv.device import Device, open_device
from qconv.errors import DeviceError
from qconv.network.ship import opened as opening
from qconv.network.ship.opened import OpenedNetwork
from qconv.op import Array

pytestmark = [pytest.mark.slow, builds]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("opened") / "network"
    qconv.onnx.export(shipped.residual(), made, "cpu", batches=[1, 2], vectors=False)
    return made


@pytest.fixture(scope="module")
def device() -> Device:
    return open_device("cpu")


def drawn(network: OpenedNetwork, program: int, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    ports = network.programs[program].inputs
    return [shipped.aligned(rng.standard_normal(port.shape).astype(port.dtype)) for port in ports]


def outputs_of(network: OpenedNetwork, program: int, inputs: list[Array]) -> list[Array]:
    return [value.on_host for value in network.run(program, inputs).values()]


def test_graphs_have_the_bits_of_launches(folder: Path, device: Device) -> None:
    network = OpenedNetwork(folder, device)
    assert [one.shapes[0][0] for one in network.programs] == [1, 2]
    for program in (0, 1):
        one, other = drawn(network, program, 1), drawn(network, program, 2)
        wanted = [outputs_of(network, program, each) for each in (one, other)]
        assert any((a != b).any() for a, b in zip(*wanted, strict=True))
        assert len(network._graphs) == 2 * program
        again = [outputs_of(network, program, each) for each in (one, other, one)]
        assert len(network._graphs) == 2 * program + 2
        for got, want in zip(again, (*wanted, wanted[0]), strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)


def test_outputs_are_the_callers(folder: Path, device: Device) -> None:
    network = OpenedNetwork(folder, device)
    inputs = drawn(network, 0, 1)
    outputs_of(network, 0, inputs)
    first = outputs_of(network, 0, inputs)
    kept = [array.copy() for array in first]
    for array in inputs:
        array[...] = -array
    outputs_of(network, 0, inputs)
    for array, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_graphs_are_few(folder: Path, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MOST_GRAPHS", 2)
    monkeypatch.setattr(opening, "MOST_SEEN", 3)
    network = OpenedNetwork(folder, device)
    inputs = [drawn(network, 0, seed) for seed in range(4)]
    for each in (*inputs, *inputs[1:], *inputs[1:]):
        outputs_of(network, 0, each)
        assert len(network._graphs) <= 2
        assert len(network._seen) <= 3
    assert len(network._graphs) == 2
    del network
    gc.collect()  # graphs are freed before the network that they are of


def test_a_graph_keeps_what_it_needs(folder: Path, device: Device) -> None:
    network = OpenedNetwork(folder, device)
    (x,) = drawn(network, 0, 1)
    wanted = outputs_of(network, 0, [x])
    graph = network.graph(0, [x.copy()])
    del network
    gc.collect()
    for _ in range(2):
        for array in graph.outputs:
            array[...] = 0
        graph.launch()
        for got, want in zip(graph.outputs, wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_what_cannot_be_opened(folder: Path, device: Device, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no network\.txt"):
        OpenedNetwork(tmp_path, device)
    (tmp_path / "network.txt").write_text("qconv-network-9\n")
    with pytest.raises(ValueError, match="has the format qconv-network-9, and this library reads"):
        OpenedNetwork(tmp_path, device)
    assert opening.ERRORS[4] is DeviceError
