"""A network with prescribed kernels, on the CPU device: the prescribed ones are launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import quantized_networks as networks

from qconv import generator
from qconv.device import open_device
from qconv.instances.choose import Choice
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import load
from qconv.network.run.contender import Contender
from qconv.onnx import Session
from qconv.op import Problem
from qconv.tune_db.database import Database

DEVICE = open_device("cpu")


@pytest.fixture(scope="module")
def rows() -> Iterator[Database]:
    with Database.open("sqlite://") as database:
        yield database


@pytest.fixture(scope="module")
def session() -> Session:
    model = networks.quantized(networks.mobilenet_like(), "QOperator", "u8s8", per_channel=False)
    session = Session(model, "cpu")
    session.run(None, {"x": networks.images(2, 5)})
    return session


@pytest.fixture(scope="module")
def contender(session: Session, rows: Database) -> Contender:
    return session.contender(rows, in_sequence=True)


def outputs(contender: Contender) -> Any:
    runner, values = contender._runner, contender._values()
    (made,) = runner.run(values, runner.network.outputs).values()
    return np.array(made.on_host)


def other_kernel(problem: Problem, than: Instance) -> Instance:
    plans, _ = generator.space(problem, DEVICE.target)
    plan = next(plan for plan in plans if plan.config != than.plan.config)
    return Instance(Choice(plan, "default", "another"), load(plan, DEVICE))


def test_it_has_the_kernels_of_the_session(session: Session, contender: Contender) -> None:
    assert list(contender.kernels) == list(dict.fromkeys(one for one in session.problems if one in contender.kernels))
    whys = {row.why.rpartition("; ")[2] for row in session.explain().rows}
    assert {kernel.why.rpartition("; ")[2] for kernel in contender.kernels.values()} <= whys
    assert {problem.n for problem in contender.kernels if hasattr(problem, "h")} == {2}, "as the session ran last"


def test_another_kernel_takes_the_place_of_one_and_no_bit_changes(contender: Contender) -> None:
    before = contender.kernels
    problem = next(one for one in before if one.op == "conv2d")
    other = other_kernel(problem, before[problem])
    after = contender.with_kernels({problem: other})
    assert after.kernels == before | {problem: other}
    assert contender.kernels == before
    np.testing.assert_array_equal(outputs(after), outputs(contender))


def test_every_kernel_has_a_time_among_the_others(contender: Contender) -> None:
    times_us = contender.launch_us()
    assert times_us.keys() == contender.kernels.keys()
    assert all(us > 0 for us in times_us.values())
    assert contender.run_ms(2) > 0


def test_a_session_that_never_ran_has_no_shape(rows: Database) -> None:
    model = networks.quantized(networks.mobilenet_like(), "QOperator", "u8s8", per_channel=False)
    with pytest.raises(ValueError, match="the shape of its input 'x' is unknown before the first run"):
        Session(model, "cpu").contender(rows, in_sequence=True)
