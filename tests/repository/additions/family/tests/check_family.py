"""The family that was added is planned, compiled, exact, looked up and asked for like any other."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from random_problems import problems

from qconv import Conv2d, generator
from qconv.cli.command_line import commands
from qconv.device import open_device
from qconv.device.compile import compile_source
from qconv.errors import CompileError, Infeasible
from qconv.generator.families.plain import Plain, why_none
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure.verification import mismatch

CPU = TARGETS["cpu"]
SERVED = [problem for problem in problems(seed=49, count=120) if why_none(problem, CPU) is None][:8]


@pytest.mark.parametrize("problem", SERVED, ids=str)
def test_it_is_exact(problem: Conv2d) -> None:
    plan = generator.plan(problem, Plain(64), CPU)
    assert mismatch(load(plan, open_device("cpu")), registry.draw(problem, seed=1)) is None


def test_it_refuses_what_it_does_not_serve() -> None:
    with pytest.raises(Infeasible, match="plain: it indexes NHWC without groups"):
        generator.plan(Conv2d(1, 8, 8, 8, 8, 3, 3, groups=2), Plain(64), CPU)


@pytest.mark.parametrize("name", ["sm_80", "gfx1100"])
def test_it_compiles_for_a_gpu(name: str) -> None:
    plan = generator.plan(SERVED[0], Plain(128), TARGETS[name])
    try:
        compile_source(generator.render(plan), plan.target, tuple(launch.kernel for launch in plan.launches))
    except CompileError as error:
        if "needs" not in str(error):
            raise
        pytest.skip(str(error).splitlines()[0])


def test_the_command_lists_its_configs() -> None:
    said = CliRunner().invoke(commands, ["space", str(SERVED[0]), "--target", "sm_80"])
    assert said.exit_code == 0, said.output
    assert "plain threads=64" in said.output
