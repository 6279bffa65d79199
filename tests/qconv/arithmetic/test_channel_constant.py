"""A constant per channel that is added to the bytes of a convolution, or multiplied with them: kernels of every family
on the CPU device match the oracle, which matches ONNX Runtime (tests/conformance/test_onnxruntime_constant.py)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, check, check_all, expected, run
from random_fused import fused_plan, fused_problems
from random_matrix import matrix_plan, matrix_problems
from random_problems import Decks, with_constant
from random_special import SHAPES, special_plan, special_problems

from qconv import Conv2d, FusedConv2d, Mode, Quantization, generator, parse
from qconv.arithmetic.epilogue import packs, steps
from qconv.device import open_device
from qconv.generator.families.simt import Simt
from qconv.instances.load.pair import load
from qconv.ops import registry
from qconv.problem.chain import Chain, chain_of
from qconv.problem.pooled import PooledConv2d
from qconv.targets.target import TARGETS

CPU = open_device("cpu")
EMULATED = {
    **dict.fromkeys(("wgmma", "halo", "halo_split", "stem_wgmma"), TARGETS["cpu.sm_90a"]),
    "tcgen05": TARGETS["cpu.sm_100a"],
}
FEW = Conv2d(2, 5, 6, 16, 20, 3, 3, pad=1)
BOTH = {"residual": "int8", "mode": Mode(residual_add="requantized")}


def added(problem: Conv2d, decks: Decks, residuals: bool = True) -> Conv2d:
    return replace(problem, quantization=with_constant(problem.quantization, decks, residuals))


@pytest.mark.turns
@pytest.mark.parametrize("family", SHAPES)
def test_special_kernels_are_the_oracle(family: str) -> None:
    decks, target = Decks(random.Random(f"constant {family}")), EMULATED.get(family, TARGETS["cpu.sm_80"])
    problems = [added(one, decks, family != "stem_wgmma") for one in special_problems(family, 31, 6)]
    check_all([special_plan(family, one, target, "constant") for one in problems], 20)


@pytest.mark.turns
@pytest.mark.parametrize("name", ["cpu.sm_90a", "cpu.gfx1100", "cpu.gfx942"])
def test_matrix_kernels_are_the_oracle(name: str) -> None:
    decks, target = Decks(random.Random(f"constant {name}")), TARGETS[name]
    problems = [added(one, decks) for one in matrix_problems(31, 6, target)]
    check_all([matrix_plan(one, target, "constant") for one in problems], 30)


WAYS: list[dict[str, int]] = [{"persist": 1}, {"staged": 1}, {"split": 2}, {"persist": 1, "stream_k": 1}]


@pytest.mark.turns
@pytest.mark.parametrize("wanted", WAYS, ids=str)
def test_every_way_of_a_matrix_kernel_to_its_outputs(wanted: dict[str, int]) -> None:
    q = Quantization(per_channel=True, bias="int32", constant="added")
    problem = Conv2d(2, 9, 9, 64, 96, 3, 3, pad=1, quantization=q)
    check_all([matrix_plan(problem, TARGETS["cpu.sm_90a"], "constant", **wanted)], 40)


@pytest.mark.turns
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_the_kernel_that_serves_everything_is_the_oracle(layout: str) -> None:
    rng = random.Random(f"constant {layout}")
    decks = Decks(rng)
    for _ in range(8):
        q = with_constant(Quantization("uint8", "int8", "uint8", True, True, True, bias="int32"), decks)
        plans = generator.space(replace(FEW, layout=layout, quantization=q), CPU.target)[0]
        check(rng.choice([one for one in plans if isinstance(one.config, Simt)]), CPU, seed=3)


@pytest.mark.turns
@pytest.mark.parametrize("layers", [2, 3])
def test_the_last_of_a_chain_is_the_oracle(layers: int) -> None:
    decks = Decks(random.Random(f"constant {layers}"))

    def of_chain(problem: Chain) -> Chain:
        *before, last = problem.layers.values()
        return chain_of([*before, added(last, decks)])

    for name in ("cpu.sm_90a", "cpu.gfx1100"):
        problems = [of_chain(one) for one in fused_problems(31, 4, TARGETS[name], layers)]
        check_all([fused_plan(one, TARGETS[name], "constant") for one in problems], 50)


def computed(q: Quantization, x: list[int], **numbers: Any) -> list[int]:
    """Return the outputs of sums, by a product with 1."""
    problem = Conv2d(1, 1, len(x), 1, 1, 1, 1, quantization=q)
    drawn = registry.Sample(
        (np.array(x, q.x_type).reshape(1, 1, -1, 1), np.ones((1, 1, 1, 1), q.w_type), *numbers.pop("residuals", ())),
        numbers,
    )
    (y,) = registry.compute(problem, drawn)
    assert_same(run(load(generator.default(problem, CPU.target), CPU), drawn), y, str(problem))
    return [int(one) for one in y.ravel()]


@pytest.mark.parametrize("constant", ["added", "added_first"])
def test_its_own_output_is_rounded_and_clamped_first(constant: str) -> None:
    """Ties go to even, and what saturates is clamped before the constant is added."""
    q = Quantization(constant=constant, y_zero_point=True)
    numbers = {"x_scale": 0.5, "own_scale": 1.0, "own_zero_point": 100, "y_scale": 2.0, "y_zero_point": -7}
    numbers |= {"constant": np.array([30]), "constant_scale": 4.0, "constant_zero_point": 20}
    # own: 0.5 -> 0, 1.5 -> 2, 50 -> 27 (saturated at 127), -50; then own / 2 + 10 * 2 - 7
    assert computed(q, [1, 3, 100, -100], **numbers) == [13, 14, 26, -12]


def test_a_product_is_of_differences_from_the_zero_points() -> None:
    q = Quantization(constant="multiplied", y_zero_point=True)
    numbers = {"x_scale": 1.0, "own_scale": 1.0, "own_zero_point": 10, "y_scale": 8.0, "y_zero_point": -1}
    numbers |= {"constant": np.array([-30]), "constant_scale": 1.0, "constant_zero_point": -33}
    # own: 0, 4, 117 (saturated), -12; each thrice, by 8, minus 1, and then ties to even
    assert computed(q, [0, 4, 124, -12], **numbers) == [-1, 0, 43, -6]


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_a_residual_comes_behind_the_sum_with_the_constant(activation: str) -> None:
    flags = {"residual_zero_point": True, "inner_zero_point": True}
    q = Quantization(constant="added", activation=activation, **flags, **BOTH)  # type: ignore[arg-type]
    residual = np.array([0, 100, -128, 5], "int8").reshape(1, 1, 4, 1)
    numbers = {"own_scale": 1.0, "constant": np.array([50]), "constant_scale": 2.0, "inner_scale": 1.0}
    numbers |= {"residual_scale": 1.0, "residual_zero_point": 5, "y_scale": 2.0, "residuals": (residual,)}
    numbers["inner_zero_point"] = -20
    # own + 100 - 20, clamped to 127; plus 20 and the residual - 5; then half of it, ties to even
    wanted = [46, 121, -16, 28] if activation == "none" else [46, 121, 0, 28]
    assert computed(q, [-4, 100, 1, -45], **numbers) == wanted


def test_a_table_comes_last() -> None:
    q = Quantization(constant="added_first", y_zero_point=True, table=True)
    table = np.random.default_rng(1).permutation(256).astype(np.uint8).view("int8")
    numbers = {"own_scale": 1.0, "constant": np.array([-3]), "constant_scale": 1.0, "y_zero_point": 40, "table": table}
    x = [0, 1, -128, 127, 90]
    assert computed(q, x, **numbers) == [table[min(one - 3 + 40, 127)] for one in x]


def test_the_last_rounding_is_the_packing() -> None:
    q = Quantization(out_type="uint8", constant="added", activation="relu")
    assert packs(q)
    assert [step.name for step in steps(q)][-3:] == ["requantize_own", "add_constant", "requantize"]
    assert steps(q)[-1].cxx == "result = value;", "an unsigned byte has no less than this relu's 0"
    both = replace(q, residual="uint8", mode=Mode(residual_add="requantized"))
    assert [step.name for step in steps(both)][-3:] == ["requantize_sum", "add_requantized", "requantize"]
    # One product and sum for each output: the constant's is made before the launch.
    assert steps(replace(q, constant="added_first"))[-2].cxx.count("fma") == 1


def test_the_key_says_it() -> None:
    problem = replace(FEW, quantization=Quantization(y_zero_point=True, table=True, constant="added_first"))
    assert str(problem).endswith(":out_type=int8:y_zero_point:table:constant=added_first")
    assert parse(str(problem)) == problem
    pair = FusedConv2d(FEW, replace(Conv2d(2, 5, 6, 20, 8, 1, 1), quantization=Quantization(constant="added")))
    assert parse(str(pair)) == pair


GIVEN = {"own_scale": 1.0, "constant": np.arange(20), "constant_scale": 1.0}


def parameters(spec: dict[str, Any] | None = None, **given: Any) -> None:
    replace(FEW, quantization=Quantization(**{"constant": "added", **(spec or {})})).checked({**GIVEN, **given})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Quantization(constant="last"), "constant='last' is not one of none, added, added_first, multiplied"),
        (lambda: Quantization(out_type="float16", constant="added"), "QLinearAdd and QLinearMul are of bytes"),
        (lambda: Quantization(constant="added", mode=Mode(clamp="symmetric")), "clamp='symmetric' with constant='add"),
        (lambda: Quantization(constant="added", residual="int8"), "use residual_add requantized"),
        (lambda: Quantization(constant="added", activation="relu6"), "behind a constant there is none or relu"),
        (lambda: Quantization(constant="added", activation="relu", table=True), "and a table has both"),
        (lambda: parameters(constant=None), "constant was not given, but the problem has a constant"),
        (lambda: parameters(constant=np.arange(19)), "it must have 20 integers from -128 to 127"),
        (lambda: parameters(constant=np.full(20, 128)), "it must have 20 integers from -128 to 127"),
        (lambda: parameters(constant=np.zeros(20)), "type float64; it must have 20 integers"),
        (lambda: parameters(own_scale=None), "own_scale was not given, but the problem has a constant"),
        (lambda: parameters(constant_scale=0.0), "constant_scale holds.*finite and positive"),
        (lambda: parameters(own_zero_point=128), "own_zero_point=128 must be integers from -128 to 127"),
        (lambda: parameters(constant_scale=1e7), "constant_scale / y_scale = 1e\\+07.*check the scales"),
        (
            lambda: parameters({"constant": "multiplied"}, constant_scale=2.0**15),
            "own_scale \\* constant_scale / y_scale = 32768",
        ),
        (lambda: parameters(own_scale=1e-38, x_scale=1e10), "x_scale \\* w_scale / own_scale = inf"),
        (
            lambda: parameters(BOTH, inner_scale=1e-7, residual_scale=1.0),
            "own_scale / inner_scale = 1e\\+07",
        ),
        (lambda: FEW.checked({"constant": np.arange(20)}), "constant was given, but the problem has no constant"),
        (lambda: FEW.checked({"own_zero_point": 3}), "own_zero_point=3 was given, but the problem has no constant"),
        (
            lambda: FusedConv2d(
                replace(FEW, quantization=Quantization(constant="added")), Conv2d(2, 5, 6, 20, 8, 1, 1)
            ),
            "the first has constant=added: only the second can add one",
        ),
        (
            lambda: PooledConv2d.over(replace(FEW, quantization=Quantization(constant="added")), window=2),
            "constant=added: nothing is added in front of the pool",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_the_oracle_sees_each_channel() -> None:
    q = Quantization(per_channel=True, constant="added")
    problem = replace(FEW, quantization=q)
    drawn = registry.draw(problem, 3)
    moved = {**drawn.parameters, "constant": np.roll(drawn.parameters["constant"], 1)}
    assert not np.array_equal(expected(problem, drawn), expected(problem, registry.Sample(drawn.arrays, moved)))
