"""The launches of a run, and where everything lies that they read and write."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped

from qconv.device.traced import Copied, Gathered, Launched, Spot, TracedDevice
from qconv.errors import Unshippable
from qconv.instances.load.building import Place
from qconv.network.ship.network_export import program_of
from qconv.network.ship.program import Program, written_whole
from qconv.onnx.ship import shippable
from qconv.targets.target import target

CPU = Place("", target("cpu"))


@pytest.fixture(scope="module")
def residual() -> list[Program]:
    return [program_of(shippable(model), CPU) for model in shipped.known(shipped.residual(), [1, 2])]


def test_its_ports(residual: list[Program]) -> None:
    for batch, program in zip((1, 2), residual, strict=True):
        (given,), (made,) = program.inputs, program.outputs
        assert (given.name, given.dtype, given.shape) == ("x", "float32", (batch, 3, 16, 16))
        assert (made.dtype, made.shape) == ("float32", (batch, 5))


def test_what_is_read_was_written(residual: list[Program]) -> None:
    """Before a step reads a place of the arena, another has written all of it; states are written by the setup."""
    for program in residual:
        held = {number for number, place in program.places.items() if place.space in ("input", "constant")}
        for step in (*program.setup, *program.steps):
            assert step.read - step.written <= held, step
            held |= step.written
        assert {number for number, place in program.places.items() if place.space == "output"} <= held


def test_arrays_that_are_used_at_one_time_lie_apart(residual: list[Program]) -> None:
    for program in residual:
        sizes: dict[int, int] = {}
        last = {number: at for at, step in enumerate(program.steps) for number in step.read}
        first = {number: at for at, step in reversed(list(enumerate(program.steps))) for number in step.read}
        arena = [number for number in last if program.places[number].space == "arena"]
        for step in program.steps:
            if isinstance(step, Launched):
                for _, spot in step.pointers:
                    sizes[spot.allocation] = max(sizes.get(spot.allocation, 0), spot.offset + 1)
        assert len(arena) > 3
        for one in arena:
            for other in arena:
                if one < other and first[other] < last[one]:
                    assert program.places[one].offset != program.places[other].offset, (one, other)
        assert all(0 <= program.places[number].offset < program.arena_bytes for number in arena)


def test_weights_are_folded_when_it_is_opened(residual: list[Program]) -> None:
    (program, _) = residual
    assert program.setup
    assert all(isinstance(step, Launched) and step.launch.when == "prepare" for step in program.setup)
    assert len(program.state_bytes) >= 1
    whole = set(range(len(program.constants)))
    assert program.resident <= whole


def test_layers_name_their_launches(residual: list[Program]) -> None:
    assert all(step.layer for step in residual[0].steps)


def test_tensors_that_steps_complete(residual: list[Program]) -> None:
    """Each of them once, in the order of the steps, in the arena or an output."""
    program = residual[0]
    assert [one.step for one in program.made] == list(range(len(program.steps)))
    assert {program.at(one.spot).space for one in program.made} == {"arena", "output"}
    assert all(one.spot.allocation in program.steps[one.step].written for one in program.made)
    assert program.made[-1].name == program.outputs[0].name
    assert len({one.name for one in program.made}) == len(program.made)


def test_what_a_layer_only_views_is_no_tensor_of_a_step() -> None:
    program = program_of(shippable(shipped.known(shipped.moving())[0]), CPU)
    made = {one.name for one in program.made}
    assert made >= {"q", "sum"}
    assert made.isdisjoint({"same", "constant"})


def test_outputs_have_arrays_of_their_own() -> None:
    (model,) = shipped.known(shipped.moving())
    program = program_of(shippable(model), CPU)
    outputs = [number for number, place in program.places.items() if place.space == "output"]
    assert len(outputs) == len(program.outputs) == 6
    assert sorted(program.places[number].number for number in outputs) == [0, 1, 2, 3, 4, 5]
    assert set(outputs) <= {number for step in program.steps for number in step.written}
    copied = [program.places[step.to.allocation].number for step in program.steps if isinstance(step, Copied)]
    assert {program.outputs[number].name for number in copied} == {"same", "constant"}
    assert not any(program.places[number].space == "input" for step in program.steps for number in step.written)
    assert all(isinstance(step, Launched | Copied | Gathered) for step in program.steps)


def test_outputs_that_are_one_array_or_a_part_of_it_are_copied() -> None:
    device = TracedDevice(CPU.target, CPU.name)
    before, array = device.empty((6,), "float32"), device.empty((2, 3), "float32")
    found = written_whole(device, {"one": array, "two": array, "part": array[1:], "before": before}, 1)
    assert found == [1, 2, 3, 4]
    assert [(step.source, step.bytes) for step in device.steps if isinstance(step, Copied)] == [
        (Spot(1, 0), 24),
        (Spot(1, 12), 12),
        (Spot(0, 0), 24),
    ]


@pytest.mark.parametrize("place", [CPU, Place("", target("sm_90a"))], ids=["cpu", "sm_90a"])
def test_an_output_in_another_order_is_where_its_kernel_writes(place: Place) -> None:
    program = program_of(shippable(shipped.known(shipped.turned())[0]), place)
    launched = [step for step in program.steps if isinstance(step, Launched)]
    assert [step.layer for step in launched] == ["conv"]
    assert len(program.steps) == 1


def test_a_layer_that_runs_elsewhere_is_named() -> None:
    says = r"(?s)^1 layer runs elsewhere, and cannot be exported; qconv-tune build writes.*:\n  LSTM"
    with pytest.raises(Unshippable, match=says):
        program_of(shippable(shipped.known(shipped.fails())[0]), CPU)


def test_programs_of_two_batches_read_the_same_constants(residual: list[Program]) -> None:
    one, two = (set(program.constants) for program in residual)
    assert one == two
    assert all(one)
