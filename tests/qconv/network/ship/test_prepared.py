"""A setup that runs when a network is exported makes what it would make where the network is opened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import shipped_networks as shipped
from built_library import builds

from qconv.device.traced import Copied, Filled, Gathered, Spot, Step
from qconv.instances.load.building import Place as Built
from qconv.network.ship.folder import write
from qconv.network.ship.network_export import program_of
from qconv.network.ship.plan import plan_of
from qconv.network.ship.prepared import prepared
from qconv.network.ship.program import Place, Program
from qconv.onnx.ship import shippable
from qconv.targets.target import target

pytestmark = pytest.mark.thirds

CPU = target("cpu")
CONTENT = bytes(range(24))


@pytest.fixture(scope="module")
def residual() -> Program:
    return program_of(shippable(shipped.known(shipped.residual(), [2])[0]), Built("", CPU))


def test_nothing_is_left_to_make(residual: Program) -> None:
    made = prepared(residual, CPU)
    assert residual.setup
    assert (made.setup, made.state_bytes) == ((), ())
    assert len(made.constants) > len(residual.resident)
    assert made.resident == frozenset(range(len(made.constants)))  # weights that only the setup reads are left out
    assert made.steps == residual.steps
    assert prepared(made, CPU).constants == made.constants


@builds
@pytest.mark.slow
@pytest.mark.parametrize(("name", "model"), [("cpu", shipped.residual), ("cpu.sm_90a", shipped.wide)])
def test_both_folders_have_the_same_bits(name: str, model: object, tmp_path: Path) -> None:
    """One that makes its states when it is opened, and one that has them."""
    assert callable(model)
    on = target(name)
    program = program_of(shippable(shipped.known(model(), [2])[0]), Built("", on))
    assert program.setup
    opened_there, has_them = tmp_path / "opened", tmp_path / "made"
    write([plan_of(on, [program])], opened_there, {})
    write([plan_of(on, [prepared(program, on)])], has_them, {})
    assert "\nsetup\nlaunch " in (opened_there / name / "plan.txt").read_text()
    assert "\nsetup\nprogram " in (has_them / name / "plan.txt").read_text()
    (tmp_path / "empty.cpp").write_text("")
    library = shipped.Library(
        shipped.compiled(has_them, tmp_path / "empty.cpp", tmp_path / "network.so", "-shared", "-fPIC")
    )
    (given,) = program.inputs
    fed = {"x": np.random.default_rng(7).standard_normal(given.shape).astype(np.float32)}
    outputs = []
    for folder in (opened_there, has_them):
        status, network = library.open(folder)
        assert status == 0, library.error
        (found,) = library.run(network, fed).values()
        outputs.append(found)
    assert np.ptp(outputs[0]) > 0
    np.testing.assert_array_equal(outputs[0], outputs[1])


def small(setup: tuple[Step, ...], steps: tuple[Step, ...], states: int) -> Program:
    """Return a program of one constant, whose allocation is 0, and of states of 24 bytes, which are 1, 2 and so on.
    What it writes is 9."""
    places = {0: Place("constant", 0, 0), 9: Place("output", 0, 0)}
    places |= {1 + number: Place("state", number, 0) for number in range(states)}
    return Program((), (), setup, steps, places, (CONTENT,), (24,) * states, 0)


def copied(to: int, source: int, size: int = 24, at: int = 0) -> Copied:
    return Copied(Spot(to, at), "layer", Spot(source, 0), size)


def test_each_kind_of_step() -> None:
    turned = Gathered(Spot(3, 2), "layer", Spot(0, 10), 2, (2, 3), (2, -4))  # of words
    setup = (
        Filled(Spot(1, 4), "layer", 8, 0xAB),
        copied(2, 0, 5, at=3),
        turned,
    )
    made = prepared(small(setup, tuple(copied(9, number) for number in (1, 2, 3)), 3), CPU)
    assert (made.setup, made.state_bytes) == ((), ())
    words = [10, 11, 6, 7, 2, 3, 12, 13, 8, 9, 4, 5]
    assert [made.constants[made.places[number].number] for number in (1, 2, 3)] == [
        bytes(4) + b"\xab" * 8 + bytes(12),
        bytes(3) + CONTENT[:5] + bytes(16),
        bytes(2) + bytes(words) + bytes(10),
    ]
    assert CONTENT not in made.constants  # the setup alone has read it


def test_what_a_run_writes_is_made_where_it_is_opened() -> None:
    """A counter that every run leaves as it found it, beside weights; scratch memory, which nothing makes."""
    counter = Filled(Spot(1, 0), "layer", 24, 0)
    program = small((counter, copied(2, 0)), (copied(1, 2), copied(9, 1), copied(3, 0), copied(9, 3)), 3)
    made = prepared(program, CPU)
    assert made.setup == (counter,)
    assert [made.places[number] for number in (1, 2, 3)] == [
        Place("state", 0, 0),
        Place("constant", 1, 0),
        Place("state", 1, 0),
    ]
    assert made.state_bytes == (24, 24)
    assert made.constants == (CONTENT, CONTENT)


def test_a_step_of_the_setup_that_is_left_keeps_what_it_reads() -> None:
    weights, counter = copied(2, 0), copied(1, 2)
    made = prepared(small((weights, counter), (copied(1, 0, 4), copied(9, 1)), 2), CPU)
    assert made.setup == (counter,)
    assert made.places[2].space == "constant"
    assert made.constants[made.places[2].number] == CONTENT


@dataclass(frozen=True)
class Both(Filled):
    """A step that writes another state as well."""

    other: int

    @property
    def written(self) -> frozenset[int]:
        return super().written | {self.other}


def test_a_state_is_made_in_one_place() -> None:
    """A step that writes a state that is kept keeps the others that it writes, and so do the steps that write these."""
    fills = (
        Filled(Spot(3, 0), "layer", 24, 1),
        Both(Spot(3, 0), "layer", 4, 2, other=1),
        Both(Spot(1, 0), "layer", 4, 3, other=2),
    )
    program = small(fills, (copied(2, 0), copied(9, 1)), 3)
    assert prepared(program, CPU).setup == fills
    assert prepared(replace(program, steps=(copied(9, 1), copied(9, 2))), CPU).setup == ()
