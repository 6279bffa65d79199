"""The output table of a convolution: each output is looked up by the byte to which it was requantized."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, check, check_all, expected, run
from random_fused import fused_plan, fused_problems
from random_matrix import matrix_plan, matrix_problems
from random_special import SHAPES, special_plan, special_problems

from qconv import Conv2d, FusedConv2d, Mode, Quantization, generator, parse
from qconv.device import open_device
from qconv.generator.families.simt import Simt
from qconv.instances.load.pair import load
from qconv.ops import chain, registry
from qconv.problem.chain import Chain, chain_of
from qconv.targets.target import TARGETS

CPU = open_device("cpu")
SM_80, SM_90A = TARGETS["cpu.sm_80"], TARGETS["cpu.sm_90a"]
EMULATED = {
    "wgmma": SM_90A,
    "halo": SM_90A,
    "halo_split": SM_90A,
    "stem_wgmma": SM_90A,
    "tcgen05": TARGETS["cpu.sm_100a"],
}
OUT_TYPES = ("int8", "uint8")
FEW = Conv2d(2, 5, 6, 16, 20, 3, 3, pad=1)
MODES = (
    Mode(),
    Mode(zero_point_add="before_round"),
    Mode(rounding="half_away", clamp="symmetric"),
    Mode(multiplier="fp64"),
)
# Every byte, as the sum of one product: x * 1, with scales of 1.
SINGLE = Conv2d(1, 16, 16, 1, 1, 1, 1)


def looked_up(problem: Conv2d, out_type: str = "") -> Conv2d:
    """Return the problem with a table, if its outputs are bytes."""
    q = problem.quantization
    out_type = out_type or (q.out_type if q.requantizes else "uint8")
    if q.mode.requantizes_before_residual:
        q = replace(q, mode=Mode(), inner_zero_point=False)
    if not q.requantizes:
        q = Quantization(q.x_type, q.w_type, x_zero_point=q.x_zero_point, w_zero_point=q.w_zero_point, bias="int32")
    return replace(problem, quantization=replace(q, out_type=out_type, table=True))


def of_chain(problem: Chain) -> Chain:
    *before, last = problem.layers.values()
    return chain_of([*before, looked_up(last)])


@pytest.mark.turns
@pytest.mark.parametrize("family", SHAPES)
def test_special_kernels_are_the_oracle(family: str) -> None:
    target = EMULATED.get(family, SM_80)
    problems = [looked_up(one) for one in special_problems(family, 27, 6)]
    check_all([special_plan(family, one, target, "table") for one in problems], 20)


@pytest.mark.turns
@pytest.mark.parametrize("name", ["cpu.sm_90a", "cpu.gfx1100"])
def test_matrix_kernels_are_the_oracle(name: str) -> None:
    target = TARGETS[name]
    problems = [looked_up(one) for one in matrix_problems(27, 6, target)]
    check_all([matrix_plan(one, target, "table") for one in problems], 30)


WAYS: list[dict[str, int]] = [{"persist": 1}, {"staged": 1}, {"split": 2}, {"persist": 1, "stream_k": 1}]


@pytest.mark.turns
@pytest.mark.parametrize("wanted", WAYS, ids=str)
def test_every_way_of_a_matrix_kernel_to_its_outputs(wanted: dict[str, int]) -> None:
    problem = looked_up(Conv2d(2, 9, 9, 64, 96, 3, 3, pad=1, quantization=Quantization(per_channel=True)))
    check_all([matrix_plan(problem, SM_90A, "table", **wanted)], 40)


@pytest.mark.turns
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_the_kernel_that_serves_everything_is_the_oracle(layout: str) -> None:
    rng = random.Random(f"table {layout}")
    for out_type in OUT_TYPES:
        for mode in MODES:
            q = Quantization("uint8", "int8", out_type, True, True, True, True, "int32", "relu6", table=True, mode=mode)
            plans = generator.space(replace(FEW, layout=layout, quantization=q), CPU.target)[0]
            check(rng.choice([one for one in plans if isinstance(one.config, Simt)]), CPU, seed=3)


@pytest.mark.turns
@pytest.mark.parametrize("layers", [2, 3])
def test_the_last_of_a_chain_is_the_oracle(layers: int) -> None:
    for name in ("cpu.sm_90a", "cpu.gfx1100"):
        target = TARGETS[name]
        problems = [of_chain(one) for one in fused_problems(27, 4, target, layers)]
        check_all([fused_plan(one, target, "table") for one in problems], 50)


@pytest.mark.turns
@pytest.mark.parametrize("out_type", OUT_TYPES)
@pytest.mark.parametrize("activation", ["none", "relu", "relu6", "hardswish"])
def test_it_is_that_of_two_kernels(activation: str, out_type: str) -> None:
    """Compares with the bytes without the table, looked up after the activation, the zero point and the clamp."""
    q = Quantization(out_type=out_type, y_zero_point=True, bias="int32", activation=activation, table=True)
    problem = replace(FEW, quantization=q)
    plain = replace(problem, quantization=replace(q, table=False))
    drawn = registry.draw(problem, 5)
    parameters = dict(drawn.parameters)
    table = parameters.pop("table")
    bytes_of = run(load(generator.default(plain, CPU.target), CPU), registry.Sample(drawn.arrays, parameters))
    got = run(load(generator.default(problem, CPU.target), CPU), drawn)
    assert_same(got, table[bytes_of.view(np.uint8)], str(problem))
    assert_same(got, expected(problem, drawn), str(problem))


@pytest.mark.parametrize("out_type", OUT_TYPES)
def test_every_byte_has_an_entry(out_type: str) -> None:
    """The entry of -1 is number 255; values outside the type use that of its end."""
    problem = replace(SINGLE, quantization=Quantization(out_type, out_type, out_type, table=True))
    table = np.random.default_rng(1).permutation(256).astype(np.uint8).view(out_type)
    x = np.arange(256, dtype=np.uint8).view(out_type).reshape(1, 16, 16, 1)
    for factor in (1, 3):
        w = np.full((1, 1, 1, 1), factor, out_type)
        info = np.iinfo(out_type)
        sums = np.clip(x.astype(np.int32) * factor, info.min, info.max).ravel()
        want = np.array([table[at % 256] for at in sums], out_type).reshape(x.shape)
        got = run(load(generator.default(problem, CPU.target), CPU), registry.Sample((x, w), {"table": table}))
        assert_same(got, want, out_type)


def test_the_key_says_it() -> None:
    problem = replace(FEW, quantization=Quantization(y_zero_point=True, table=True))
    assert str(problem).endswith(":out_type=int8:y_zero_point:table")
    assert parse(str(problem)) == problem
    assert problem != replace(FEW, quantization=Quantization(y_zero_point=True))
    pair = FusedConv2d(FEW, replace(Conv2d(2, 5, 6, 20, 8, 1, 1), quantization=Quantization(table=True)))
    assert parse(str(pair)) == pair
    assert chain.chained(str(pair.first), str(pair.second)) == pair


def parameters(**given: Any) -> None:
    replace(FEW, quantization=Quantization(table="table" in given or not given)).checked(given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Quantization(out_type="float16", table=True), "looked up by its byte"),
        (lambda: Quantization(table=1), "must be True or False"),  # type: ignore[arg-type]
        (
            lambda: Quantization(residual="int8", table=True, mode=Mode(residual_add="requantized")),
            "no kernel has a table after QLinearAdd",
        ),
        (parameters, "table was not given, but the problem looks its outputs up"),
        (lambda: FEW.checked({"table": np.zeros(256, "int8")}), "table was given, but the problem looks no outputs up"),
        (lambda: parameters(table=np.zeros(255, "int8")), "it must have 256 integers from -128 to 127"),
        (lambda: parameters(table=np.full(256, 128)), "type int64; it must have 256 integers"),
        (lambda: parameters(table=np.zeros(256)), "type float64; it must have 256 integers"),
        (
            lambda: FusedConv2d(looked_up(FEW, "int8"), Conv2d(2, 5, 6, 20, 8, 1, 1)),
            "the first has a table: only the outputs of the second",
        ),
    ],
)
def test_what_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()
