"""Random samples are sensitive: `draw` gives outputs of many values, in every tensor of every kind of problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from random_fused import fused_problems
from sample_variety import KINDS, TARGET, count, problems_of, tensors

from qconv import Conv2d, FusedBlock, Quantization
from qconv.arithmetic.epilogue import multiplier
from qconv.arithmetic.quantization import ACTIVATIONS, Parameters
from qconv.ops import convolution, draft, registry, window
from qconv.ops.registry import Sample
from qconv.problem.chain import Chain
from qconv.sampling.operands import Variety

# Problems of each kind in the fast suite: small ones are many.
MANY = {"depthwise": 60, "direct": 40, "conversions": 100, "matrix": 15}
LAYER = Conv2d(*(2, 9, 9, 12, 20, 3, 3), pad=1)


def quantized(**spec: Any) -> Conv2d:
    return replace(LAYER, quantization=Quantization(**spec))


@pytest.mark.turns
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_vary(kind: str) -> None:
    row, wrong = count(kind, 0, MANY.get(kind, 24))
    assert not wrong, "\n".join(wrong)
    # Most samples keep the promise; for the others, padding makes it impossible.
    assert kind == "conversions" or row["forced"] <= 0.1 * row["tensors"]


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_of_many_problems_vary(kind: str) -> None:
    row, wrong = count(kind, 5, 200)
    assert not wrong, "\n".join(wrong)
    assert kind == "conversions" or row["forced"] <= 0.06 * row["tensors"]


def test_what_lacks_variety_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """First attempts lack variety more often than the results of `draw`."""
    problems = problems_of("problems", 7, 120)

    def lacking() -> set[int]:
        return {index for index, problem in enumerate(problems) if registry.draw(problem, index).forced}

    lacks_in_the_end = lacking()
    monkeypatch.setattr(draft, "ATTEMPTS", 1)
    assert lacks_in_the_end < lacking()


def test_variety_names_the_rule_that_is_broken() -> None:
    spread = np.arange(1024, dtype=np.int32).reshape(256, 4)
    assert not Variety.of(spread).lacks()
    assert "31 values in 1024 outputs" in Variety.of(spread % 31).lacks()
    assert "one value in 51%" in Variety.of(np.where(spread < 520, 0, spread)).lacks()
    spread[:, 2] = 7
    assert "1 channels of one value" in Variety.of(spread).lacks()
    # Too few to require many values, or a channel that is not constant.
    assert not Variety.of(np.arange(4, dtype=np.int8).reshape(1, 4)).lacks()


def test_only_a_problem_that_allows_no_other_is_forced() -> None:
    """If the sample gives a reason, it holds: padding makes up most of the windows."""
    named = 0
    for index, problem in enumerate(problems_of("problems", 2, 200)):
        (seen,) = window.windows([problem], np.random.default_rng(0))
        if seen.padding_only.mean() < 0.2:
            continue
        drawn = registry.draw(problem, index)
        if drawn.forced:
            named += 1
            (rows,) = tensors(problem, drawn)
            assert Variety.of(rows).lacks()
            assert seen.padding_only.mean() >= 0.45, problem
    assert named


def test_filters_are_placed_for_all_pixels_not_for_those_looked_at() -> None:
    """Without a bias, the filters shift the sums. Of a layer with many products, 16 pixels are examined."""
    layer = Conv2d(1, 14, 14, 256, 256, 3, 3, quantization=Quantization(activation="relu6", out_type="uint8"))
    (seen,) = window.windows([layer], np.random.default_rng(0))
    assert len(seen.pixels) == window.LEAST_PIXELS
    for seed in range(4):
        (rows,) = tensors(layer, registry.draw(layer, seed))
        assert not Variety.of(rows).lacks(most=0.45), seed


def test_the_same_seed_gives_the_same_sample() -> None:
    for problem in (*problems_of("problems", 3, 8), *problems_of("three", 3, 4)):
        one, two, other = (registry.draw(problem, seed) for seed in (1, 1, 2))
        assert all(np.array_equal(a, b) for a, b in zip(one.arrays, two.arrays, strict=True))
        assert one.parameters.keys() == two.parameters.keys()
        assert all(np.array_equal(one.parameters[name], two.parameters[name]) for name in one.parameters)
        assert not np.array_equal(one.arrays[0], other.arrays[0]) or one.arrays[0].size == 1


@pytest.mark.parametrize("bias", ["none", "int32", "float32"])
@pytest.mark.parametrize("x_zero", [-128, 0, 127])
@pytest.mark.parametrize("y_zero", [-128, 3, 127])
def test_zero_points_that_the_caller_chose_are_kept(bias: str, x_zero: int, y_zero: int) -> None:
    problem = quantized(x_zero_point=True, w_zero_point=True, y_zero_point=True, bias=bias)
    fixed = {"x_zero_point": x_zero, "y_zero_point": y_zero}
    for seed in range(4):
        drawn = registry.draw(problem, seed, fixed)
        assert {name: int(drawn.parameters[name]) for name in fixed} == fixed
        (rows,) = tensors(problem, drawn)
        assert not drawn.forced
        assert not Variety.of(rows).lacks()


def test_a_zero_point_that_forbids_all_outputs_but_one_is_named() -> None:
    drawn = registry.draw(quantized(y_zero_point=True, activation="relu"), 1, {"y_zero_point": 127})
    (reason,) = drawn.forced
    assert "y_zero_point=127" in reason


def test_a_value_outside_its_type_is_refused() -> None:
    with pytest.raises(ValueError, match="must be integers from -128 to 127"):
        registry.draw(quantized(x_zero_point=True), 1, {"x_zero_point": 300})


@pytest.mark.parametrize("activation", [name for name in ACTIVATIONS if name != "none"])
def test_activations_are_met_on_both_sides_of_their_bends(activation: str) -> None:
    ends = {"relu": (0.0,), "leaky_relu": (0.0,), "relu6": (0.0, 6.0), "hardswish": (-1.0, 0.0, 1.0)}
    for bias in ("none", "int32"):
        problem = quantized(activation=activation, bias=bias, y_zero_point=True, x_zero_point=True)
        for seed in range(6):
            drawn = registry.draw(problem, seed)
            bends = ends.get(activation, (-0.5, 0.0, 0.5))
            if activation == "clamp":
                bends = (float(drawn.parameters["low"]), float(drawn.parameters["high"]))
            real = before_the_activation(problem, drawn)
            for bend in bends:
                assert 0.003 < np.mean(real < bend) < 0.997, (bias, seed, bend)


def before_the_activation(problem: Conv2d, drawn: Sample) -> Any:
    straight = replace(problem.quantization, activation="none", out_type="float32", y_zero_point=False, residual="none")
    unused = ("y_scale", "y_zero_point", "slope", "low", "high")
    parameters = {name: value for name, value in drawn.parameters.items() if name not in unused}
    (real,) = registry.compute(replace(problem, quantization=straight), Sample(drawn.arrays, parameters))
    return real


def test_a_quarter_of_the_scales_are_powers_of_two_and_make_ties() -> None:
    problem = quantized(per_channel=True, bias="int32", y_zero_point=True)
    with_ties = powers = 0
    for seed in range(80):
        drawn = registry.draw(problem, seed)
        checked = problem.checked(drawn.parameters)
        factor = multiplier(problem.quantization, checked).astype(np.float64)
        if (np.log2(factor) != np.rint(np.log2(factor))).any():
            continue
        powers += 1
        acc = convolution.accumulate(problem, *drawn.arrays, checked) + checked.bias
        with_ties += bool((acc * factor % 1 == 0.5).sum() > 3)
    assert 8 <= powers <= 32
    assert with_ties >= powers / 2


def test_zero_points_at_the_ends_and_saturated_outputs_occur() -> None:
    problem = quantized(x_zero_point=True, w_zero_point=True, per_channel=True, y_zero_point=True, bias="int32")
    at_an_end = saturated = 0
    for seed in range(40):
        drawn = registry.draw(problem, seed)
        at_an_end += int(drawn.parameters["x_zero_point"]) in (-128, 127)
        (y,) = registry.compute(problem, drawn)
        saturated += bool(0.001 < np.mean((y == -128) | (y == 127)) < 0.3)
    assert 2 <= at_an_end <= 20
    assert saturated >= 20


def test_a_large_layer_is_calibrated_on_a_few_of_its_outputs() -> None:
    problem = Conv2d(*(32, 28, 28, 128, 128, 3, 3), pad=1)
    (seen,) = window.windows([problem], np.random.default_rng(0))
    assert len(seen.pixels) * problem.k * problem.reduction <= window.MOST_PRODUCTS
    assert len(seen.pixels) >= window.LEAST_PIXELS
    # The examined part represents the whole: the sums of the oracle.
    small = replace(problem, n=1, h=14, w=14)
    (seen,) = window.windows([small], np.random.default_rng(0))
    assert not seen.complete
    drawn = registry.draw(small, 1)
    x, w = drawn.arrays
    rows = window.rows_of(x, "nhwc", seen.reads)
    got = window.sums(seen, window.gathered(seen, rows, 0), w.reshape(small.k, -1))
    want = convolution.accumulate(small, x, w, Parameters()).reshape(-1, small.k)
    assert np.array_equal(got, want[seen.pixels])


def test_a_wrong_intermediate_tensor_shows_in_the_outputs() -> None:
    """A block of three whose intermediate tensor was wrong in 540 bytes once passed on five seeds: its outputs were 45
    everywhere."""
    rng = np.random.default_rng(0)
    for index, problem in enumerate(fused_problems(11, 20, TARGET, 3)):
        drawn = registry.draw(problem, index)
        if drawn.forced:
            continue
        assert isinstance(problem, FusedBlock)
        for layer in ("first", "second"):
            right, wrong = (outputs_with(problem, drawn, layer, rng, bytes_wrong) for bytes_wrong in (0, 540))
            assert np.array_equal(right, registry.compute(problem, drawn)[0])
            assert not np.array_equal(wrong, right), f"sample {index}, behind the {layer}: {problem}"


def outputs_with(problem: Chain, drawn: Sample, spoiled: str, rng: np.random.Generator, bytes_wrong: int) -> Any:
    checked = problem.checked(drawn.parameters)
    x, *others = drawn.arrays
    for layer, one in problem.layers.items():
        w, *others = others
        x = convolution.conv2d(one, x, w, getattr(checked, layer), *(others if one is problem.last else ()))
        if layer == spoiled:
            # Only values that the next layer reads: a stride may skip the rest.
            flat = x.reshape(-1)
            at = rng.permutation(flat.size)[:bytes_wrong]
            flat[at] ^= rng.integers(1, 128, len(at)).astype(x.dtype)
    return x
