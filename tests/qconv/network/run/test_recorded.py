"""A recorded segment: it gives the same bits for any inputs, and does not overwrite its earlier outputs."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.network import Layer, Network, Runner, Tensor, Value, read_layer
from qconv.network.graph.served import Prepared, Served
from qconv.network.run import runner as running

CPU = open_device("cpu")
RNG = np.random.default_rng(11)
W, V = (RNG.integers(-9, 9, shape).astype("int8") for shape in ((6, 4, 1, 1), (5, 4, 2, 2)))


class Counting(CpuDevice):
    recorded = 0
    copied = 0  # arrays of more than a few bytes, copied from device to device

    def copy(self, array: Any, to: Any) -> None:
        self.copied += 1
        super().copy(array, to)

    def record(self, work: Any, place: Any = None) -> Any:
        self.recorded += 1
        return super().record(work, place)


def network() -> Network:
    """Return a network of two convolutions of one input."""
    layers = (Layer("one", "ConvInteger", ("x", "w"), ("y",)), Layer("two", "ConvInteger", ("x", "v"), ("z",)))
    tensors = {"x": Tensor("x", "int8", (None, 4, None, None)), "y": Tensor("y", "int32"), "z": Tensor("z", "int32")}
    return Network(("x",), ("y", "z"), layers, tensors, {"w": W, "v": V})


def runner_on(device: CpuDevice) -> Runner:
    read = network()
    return Runner(read, {layer.name: read_layer(layer, read) for layer in read.layers}, device, Nowhere())


class Nowhere:
    def prepare(self, layers: Any, inputs: Any, outputs: Any) -> Any:
        """Prepare an empty image, which no kernel serves."""
        return lambda given: {name: np.zeros((0, 5, 3, 3), np.int32) for name in outputs}


def wanted(x: Any, w: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), w.shape[2:], (2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w.astype(np.int64))


def images(count: int = 2, size: int = 4) -> Any:
    return RNG.integers(-100, 100, (count, 4, size, size)).astype("int8")


def given(device: CpuDevice, x: Any, way: str) -> Value:
    if way == "host":
        return Value(device, host=x)
    return Value(device, there=x) if way == "there" else Value(device, channels_last=x.transpose(0, 2, 3, 1).copy())


@pytest.mark.parametrize("way", ["host", "there", "channels last"])
def test_the_second_run_of_a_form_is_recorded_and_later_ones_are_right(way: str) -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    inputs = [images() for _ in range(4)]  # each at its own address
    values = [given(device, x, way) for x in inputs]
    for x, value in zip(inputs, values, strict=True):
        made = runner.run({"x": value}, ["y", "z"])
        np.testing.assert_array_equal(made["y"].on_host, wanted(x, W))
        np.testing.assert_array_equal(made["z"].on_host, wanted(x, V))
    assert device.recorded == 1


@pytest.mark.parametrize("way", ["there", "channels last"])
def test_what_is_given_in_the_same_place_is_read_there(way: str) -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    held = given(device, images(), way)

    def copies_of(value: Value, x: Any) -> int:
        before = device.copied
        np.testing.assert_array_equal(runner.run({"x": value}, ["y"])["y"].on_host, wanted(x, W))
        return device.copied - before

    def again() -> int:
        """Write other images to the same array, and run."""
        x = images()
        held.array[...] = x if way == "there" else x.transpose(0, 2, 3, 1)
        return copies_of(held.with_array(held.array), x)

    again(), again()
    in_place = again()
    others = [images() for _ in range(3)]
    elsewhere = [copies_of(given(device, x, way), x) for x in others]
    assert device.recorded == 2
    assert elsewhere[1:] == [in_place + 1] * 2
    assert again() == in_place + 1  # it moved once, and is copied from then on
    assert device.recorded == 2


def test_either_order_of_axes_has_a_recording_of_its_own() -> None:
    """The images are as wide as they have channels, so that the arrays have one shape."""
    device = Counting(CPU.target)
    runner = runner_on(device)
    for way in ("there", "there", "channels last", "there", "channels last"):
        x = images()
        np.testing.assert_array_equal(runner.run({"x": given(device, x, way)}, ["y"])["y"].on_host, wanted(x, W))
    assert device.recorded == 2


def test_what_it_gave_before_stays() -> None:
    runner = runner_on(CpuDevice(CPU.target))
    inputs = [images() for _ in range(4)]
    made = [runner.run({"x": Value(CPU, host=x)}, ["y"])["y"] for x in inputs]
    for x, y in zip(inputs, made, strict=True):
        np.testing.assert_array_equal(y.on_host, wanted(x, W))


def test_an_output_whose_channels_move_is_copied_once() -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    for x in [images() for _ in range(3)]:
        device.copied = 0
        made = runner.run({"x": given(device, x, "there")}, ["y"])["y"]
        in_the_run = device.copied
        np.testing.assert_array_equal(made.on_device, wanted(x, W))
        assert not made.is_channels_last
        assert device.copied == in_the_run
    assert in_the_run == 3  # the input, and the two outputs, which this device's recording has in arrays of its own


def test_what_it_is_given_stays() -> None:
    runner, inputs = runner_on(CpuDevice(CPU.target)), [images() for _ in range(4)]
    kept = [x.copy() for x in inputs]
    for x in (inputs[0], *inputs, *inputs):
        runner.run({"x": Value(CPU, there=x)}, ["y"])
    np.testing.assert_array_equal(inputs, kept)


def test_every_form_has_a_recording_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MOST_RECORDINGS", 2)
    device = Counting(CPU.target)
    runner = runner_on(device)
    shapes = [(1, 4), (2, 4), (1, 5)]
    for count, size in [*shapes, *shapes, *shapes, shapes[-1]]:
        x = images(count, size)
        y = runner.run({"x": Value(device, host=x)}, ["y"])["y"]
        np.testing.assert_array_equal(y.on_host, wanted(x, W))
    assert len(runner._recordings) == 2
    assert all(isinstance(form[0], tuple) for _, forms in runner._recordings for form in forms)


def test_inner_tensors_are_recorded_beside_the_outputs() -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    for wants in (["y"], ["y", "z"], ["z"], ["y"]):
        x = images()
        made = runner.run({"x": Value(device, host=x)}, wants)
        for name, w in (("y", W), ("z", V)):
            if name in wants:
                np.testing.assert_array_equal(made[name].on_host, wanted(x, w))


def test_a_segment_of_which_a_layer_ran_elsewhere_is_not_recorded() -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    for _ in range(3):
        runner.run({"x": Value(device, host=np.zeros((0, 4, 4, 4), np.int8))}, ["y"])
    assert device.recorded == 0
    x = images()
    for _ in range(2):
        made = runner.run({"x": Value(device, host=x)}, ["y"])
    assert device.recorded == 1
    np.testing.assert_array_equal(made["y"].on_host, wanted(x, W))


def test_a_shape_that_runs_elsewhere_is_not_recorded_behind_one_that_runs_here() -> None:
    device = Counting(CPU.target)
    runner = runner_on(device)
    runner.run({"x": Value(device, host=images())}, ["y"])
    for _ in range(3):
        runner.run({"x": Value(device, host=np.zeros((0, 4, 4, 4), np.int8))}, ["y"])
    assert device.recorded == 0


def test_a_recording_keeps_what_its_launches_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed weights of a shape are evicted by others; a graph would read their freed memory."""
    monkeypatch.setattr(running, "MOST_SHAPES", 1)
    runner = runner_on(CpuDevice(CPU.target))
    for _ in range(2):
        runner.run({"x": Value(CPU, host=images(2))}, ["y", "z"])
    packed = [weakref.ref(made) for known in runner._prepared.values() for made in known.values()]
    runner.run({"x": Value(CPU, host=images(3))}, ["y", "z"])
    assert len(packed) == 2
    assert all(made() is not None for made in packed)
    runner._recordings.clear()
    gc.collect()
    assert all(made() is None for made in packed)


def test_the_profile_runs_each_layer_by_itself() -> None:
    runner = runner_on(CpuDevice(CPU.target))
    for _ in range(3):
        rows = runner.profile({"x": Value(CPU, host=images())}).rows
        assert [(row.name, row.op) for row in rows] == [("one", "ConvInteger"), ("two", "ConvInteger")]


class Doubled:
    """x + x, and the number of live tensors of its kind after it."""

    def __init__(self, at: int, made: list[weakref.ref[Value]], alive: list[int]) -> None:
        self.layer = Layer(str(at), "Double", (f"t{at}",), (f"t{at + 1}",))
        self.inputs, self.y, self.why = self.layer.inputs, self.layer.outputs[0], ""
        self._made, self._alive = made, alive

    def prepare(self, shapes: Any, device: Any) -> Prepared:
        return self

    def __call__(self, *inputs: Value) -> Value:
        value = Value(CPU, there=inputs[0].on_device * 2)
        self._made.append(weakref.ref(value))
        self._alive.append(sum(each() is not None for each in self._made))
        return value


def test_a_tensor_between_layers_goes_with_its_last_reader() -> None:
    """A recording's memory is then the live bytes, not the sum of all tensors."""
    made: list[weakref.ref[Value]] = []
    alive: list[int] = []
    chain = [Doubled(at, made, alive) for at in range(5)]
    served: dict[str, Served] = {one.layer.name: one for one in chain}
    read = Network(("t0",), ("t5",), tuple(one.layer for one in chain), {"t0": Tensor("t0", "int8", (3,))}, {})
    y = Runner(read, served, CPU, Nowhere()).run({"t0": Value(CPU, host=np.ones(3, np.int8))}, ["t5"])["t5"]
    assert y.on_host.tolist() == [32] * 3
    assert max(alive) <= 2
