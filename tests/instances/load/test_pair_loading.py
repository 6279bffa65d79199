"""Loading of plans: the chosen binary, its sources, and the arguments that an instance passes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from exactness import expected, run

import qconv
from qconv import generator
from qconv.device import cache, open_device
from qconv.generator import Plan
from qconv.instances.choose import Choice
from qconv.instances.load import pair as loading
from qconv.instances.load.executable import Packed
from qconv.instances.load.instance import Instance
from qconv.instances.load.pair import Pair, load
from qconv.ops import registry
from qconv.problem.chain import chain_of
from qconv.problem.convolution import Conv2d

PROBLEM = Conv2d(1, 3, 3, 4, 4, 2, 2)
CHAIN = chain_of([PROBLEM, Conv2d(1, 2, 2, 4, 8, 1, 1)])
CPU = open_device("cpu")
PLAN = generator.default(PROBLEM, CPU.target)


def test_a_binary_of_the_toolchain_that_was_measured_is_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = load(PLAN, CPU).binary
    monkeypatch.setenv("QCONV_CACHE", str(tmp_path / "cache"))
    for toolchain in ("g++ 1", "g++ 2", "g++ 3"):
        cache.publish(generator.render(PLAN), "cpu", (), ".so", honest.data, toolchain, 1.0, {})
    for toolchain in ("g++ 1", "g++ 2", "g++ 3"):
        assert load(PLAN, CPU, toolchain).binary.toolchain == toolchain


def test_what_is_rendered_already_is_not_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = generator.unfused_plan(CHAIN, CPU.target)
    sources = [generator.render(kernel) for kernel in plan.kernels]

    def refuse(plan: Plan) -> None:
        raise AssertionError("rendered again")

    for module in (loading.generator, loading.generator.source):
        monkeypatch.setattr(module, "render", refuse)
    pair = load(plan, CPU, sources=sources)
    assert isinstance(pair, Pair)
    drawn = registry.draw(CHAIN, 1)
    assert run(pair, drawn).tobytes() == expected(CHAIN, drawn).tobytes()


def test_an_instance_is_a_choice_that_runs() -> None:
    choice = Choice(PLAN, "nearest", "nearest: a test", None)
    instance = Instance(choice, load(PLAN, CPU))
    assert (instance.problem, instance.plan, instance.device) == (PROBLEM, PLAN, CPU)
    assert (instance.origin, instance.reason) == ("nearest", "nearest: a test")
    assert instance.binary.path.is_file()
    drawn = registry.draw(PROBLEM, 2)
    x, w = drawn.arrays
    want = expected(PROBLEM, drawn)
    packed = instance.pack(w, **drawn.parameters)
    assert isinstance(packed, Packed)
    outs = [np.zeros_like(want) for _ in range(3)]
    assert packed(x, out=outs[0]) is outs[0]
    assert instance(x, w, out=outs[1], **drawn.parameters) is outs[1]
    assert instance.bind(x, w, out=outs[2], **drawn.parameters)() is outs[2]
    assert all(out.tobytes() == want.tobytes() for out in outs)


def test_who_asks_for_a_layer_gets_an_instance_of_several_kernels_as_well() -> None:
    qconv.forget()
    instance = qconv.lookup(CHAIN, "cpu")
    assert isinstance(instance, Instance)
    assert isinstance(instance.executable, Pair)
    drawn = registry.draw(CHAIN, 3)
    assert run(instance, drawn).tobytes() == expected(CHAIN, drawn).tobytes()
