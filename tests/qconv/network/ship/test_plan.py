"""Programs that share what is equal in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped

from qconv.device.traced import Launched
from qconv.instances.load.building import Place
from qconv.network.ship.network_export import program_of
from qconv.network.ship.plan import plan_of
from qconv.network.ship.program import Program
from qconv.onnx.ship import shippable
from qconv.targets.target import target

CPU = target("cpu")


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    return [program_of(shippable(model), Place("", CPU)) for model in shipped.known(shipped.residual(), [1, 2])]


def test_equal_programs_are_one_but_for_their_steps(programs: list[Program]) -> None:
    alone, twice = plan_of(CPU, programs[:1]), plan_of(CPU, [programs[0], programs[0]])
    assert twice.constants == alone.constants
    assert twice.state_bytes == alone.state_bytes
    assert [one.step for one in twice.setup] == [one.step for one in alone.setup]
    first, second = twice.programs
    assert first.places == second.places == alone.programs[0].places


def test_batches_share_constants(programs: list[Program]) -> None:
    alone, both = plan_of(CPU, programs[:1]), plan_of(CPU, programs)
    assert [one.content for one in both.constants] == [one.content for one in alone.constants]
    assert len(both.setup) >= len(alone.setup)


def test_other_launches_make_other_states(programs: list[Program]) -> None:
    one = programs[0]
    (first, *rest) = one.setup
    assert isinstance(first, Launched)
    changed = replace(one, setup=(replace(first, arguments=first.arguments[:-1] + b"\x7f"), *rest))
    both = plan_of(CPU, [one, changed])
    assert len(both.state_bytes) == len(plan_of(CPU, [one]).state_bytes) + 1
    states = [
        {place.number for place in program.places.values() if place.space == "state"} for program in both.programs
    ]
    assert states[0] != states[1]


def test_a_constant_that_the_setup_alone_reads_is_not_resident(programs: list[Program]) -> None:
    plan = plan_of(CPU, programs)
    read = {
        place.number
        for program in plan.programs
        for step in program.steps
        for number in step.read
        if (place := program.places[number]).space == "constant"
    }
    assert {at for at, one in enumerate(plan.constants) if one.is_resident} == read


def test_each_binary_has_one_number(programs: list[Program]) -> None:
    plan = plan_of(CPU, programs)
    launched = [step for program in plan.programs for step in program.steps if isinstance(step, Launched)]
    assert {plan.number_of(step.binary) for step in launched} <= set(range(len(plan.binaries)))
    assert all(plan.binaries[plan.number_of(step.binary)].data == step.binary.data for step in launched)
