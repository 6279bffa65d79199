"""Two convolutions in one: the problem, its key, its parameters, and the two ways to run it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from exactness import assert_same, expected, run
from overlaps import asked_to_overlap

import qconv
from qconv import Conv2d, FusedBlock, FusedConv2d, Quantization, generator, parse
from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.generator.families.unfused import Unfused
from qconv.instances.load.pair import Pair, load
from qconv.instances.load.serving import lookup
from qconv.ops import convolution, registry
from qconv.ops.chain import chained
from qconv.targets.target import TARGETS
from qconv.tune_db.database import Database
from qconv.tune_db.measurement import best_of
from qconv.tuner.search.tune import tune

GIVES = Quantization(per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32", activation="leaky_relu")
TAKES = Quantization(per_channel=True, x_zero_point=True, w_zero_point=True, bias="float32", residual="int8")
FIRST = Conv2d(1, 8, 8, 16, 16, 3, 3, pad=1, groups=16, quantization=GIVES)
SECOND = Conv2d(1, 8, 8, 16, 24, 1, 1, quantization=TAKES)
PROBLEM = FusedConv2d(FIRST, SECOND)
TARGET = TARGETS["cpu.sm_80"]


def test_a_key_is_read_back() -> None:
    assert parse(str(PROBLEM)) == PROBLEM
    assert str(PROBLEM) == f"{FIRST}+{SECOND}"
    assert chained(str(FIRST), "conv2d:k=24:r=1:s=1:per_channel:w_zero_point:bias=float32:residual=int8") == PROBLEM


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (FIRST, replace(SECOND, h=7), "make them equal"),
        (
            replace(FIRST, quantization=Quantization(out_type="int32")),
            SECOND,
            "gives int32",
        ),
        (FIRST, replace(SECOND, quantization=replace(TAKES, x_type="uint8")), "x_type=uint8"),
        (FIRST, replace(SECOND, quantization=replace(TAKES, x_zero_point=False)), "one zero point"),
        (replace(FIRST, quantization=replace(GIVES, residual="int8")), SECOND, "only the second can add one"),
        (replace(FIRST, layout="nchw"), SECOND, "nhwc"),
        (replace(FIRST, crop=1), SECOND, "shuffles or crops its output"),
        ("conv2d", SECOND, "must be a qconv.Conv2d"),
    ],
)
def test_what_does_not_chain_is_refused(first: Conv2d, second: Conv2d, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        FusedConv2d(first, second)


@pytest.mark.parametrize("key", [f"{PROBLEM}+{SECOND}+{SECOND}", f"quantize:x=1+{SECOND}", f"{FIRST}+"])
def test_what_is_no_pair_of_keys_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match=r"key|two or three"):
        parse(key)


def test_the_oracle_is_both_in_turn() -> None:
    drawn = registry.draw(PROBLEM, 3)
    x, w1, w2, residual = drawn.arrays
    given = PROBLEM.of_layer("first", drawn.parameters), PROBLEM.of_layer("second", drawn.parameters)
    mid = convolution.conv2d(FIRST, x, w1, FIRST.checked(given[0]))
    y = convolution.conv2d(SECOND, mid, w2, SECOND.checked(given[1]), residual)
    assert_same(registry.compute(PROBLEM, drawn)[0], y, "both in turn")
    assert np.unique(mid).size > 100
    assert np.unique(y).size > 50


def test_a_parameter_of_either_is_checked_and_named() -> None:
    parameters = registry.draw(PROBLEM, 3).parameters
    with pytest.raises(ValueError, match=r"first_scale.*they are x_scale"):
        PROBLEM.checked(parameters | {"first_scale": 1.0})
    with pytest.raises(ValueError, match="of the second convolution: bias"):
        PROBLEM.checked(parameters | {"second_bias": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match="of the first convolution: y_scale"):
        PROBLEM.checked(parameters | {"mid_scale": -1.0})


def test_it_counts_what_reaches_memory() -> None:
    assert PROBLEM.io_bytes == FIRST.io_bytes + SECOND.io_bytes - 2 * 8 * 8 * 16
    assert PROBLEM.operations == FIRST.operations + SECOND.operations


def test_in_one_kernel_nothing_between_the_two_is_an_argument() -> None:
    plan, _ = generator.space(PROBLEM, TARGET, likely=True)
    arrays = {field.role: field.elements for field in plan[0].fields if field.is_pointer}
    assert set(arrays) == {"x", "w1", "w2", "y", "residual", "workspace", "value"}
    # Workspaces beside the caller's arrays: folded sums and repacked weights.
    assert {f.name for f in plan[0].fields if f.role == "workspace"} == {"offset", "taps", "fragments"}


def test_each_of_two_launches_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first one's output, as the first does for the launch before."""
    target = TARGETS["cpu.sm_90a"]
    device, drawn = CpuDevice(target), registry.draw(PROBLEM, 5)
    pair = load(generator.unfused_plan(PROBLEM, target), device)
    asked = asked_to_overlap(True, monkeypatch)
    x, w1, w2, residual = (device.upload(array) for array in drawn.arrays)
    packed = pair.pack(w1, w2, **drawn.parameters)
    assert packed.gains_by_overlap
    assert_same(packed.bind(x, residual, overlap=True)(), expected(PROBLEM, drawn), "overlapping")
    assert asked == [True, True]


def test_unfused_is_the_same_bit_for_bit() -> None:
    device, drawn = CpuDevice(TARGET), registry.draw(PROBLEM, 5)
    pair = load(generator.unfused_plan(PROBLEM, TARGET), device)
    assert isinstance(pair, Pair)
    assert_same(run(pair, drawn), expected(PROBLEM, drawn), "unfused")
    x, w1, w2, residual = (device.upload(array) for array in drawn.arrays)
    packed = pair.pack(w1, w2, **drawn.parameters)
    assert_same(packed(x, residual), expected(PROBLEM, drawn), "packed")
    bound = packed.beside(w1, w2).bind(x, residual)
    bound.refold()
    assert_same(bound(), expected(PROBLEM, drawn), "bound")
    unpacked = packed.unpack()
    assert unpacked["first"]["w"] is not None
    assert unpacked["second"]["w"] is not None
    with pytest.raises(ValueError, match=r"unfused on .* does not wait by itself .*: leave it out"):
        packed.bind(x, residual, overlap=True)
    with pytest.raises(ValueError, match="w1, w2"):
        pair.pack(w1, **drawn.parameters)


def test_a_target_without_matrix_instructions_runs_the_two_unfused() -> None:
    assert generator.default(PROBLEM, TARGETS["cpu"]).config.family == "unfused"
    assert generator.space(PROBLEM, TARGETS["cpu"])[0] == []


def test_a_config_of_two_is_read_back() -> None:
    config = generator.unfused_plan(PROBLEM, TARGET).config
    assert isinstance(config, Unfused)
    assert generator.config_from_json(config.as_json()) == config
    with pytest.raises(ValueError, match="unfused"):
        generator.config_from_json('{"family": "unfused","first":{"family":"simt"}}')


@pytest.mark.slow
def test_both_compete_and_lookup_gives_the_faster(tmp_path: Path) -> None:
    device, where = open_device("cpu.sm_80"), str(tmp_path / "tune.sqlite")
    with Database.open(where) as database:
        outcome = tune(PROBLEM, device, database, trials=2)
        rows = database.measurements(problem=PROBLEM)
        again = tune(PROBLEM, device, database, trials=2)
    families = {row.config.family for row in rows}
    assert families == {"unfused", "fused"}
    assert (outcome.measured, again.measured, again.known) == (3, 0, 3)
    assert outcome.best is not None
    assert outcome.best == best_of(rows)
    assert outcome.of_families == {one: best_of(row for row in rows if row.config.family == one) for one in families}
    qconv.forget()
    instance = lookup(PROBLEM, "cpu.sm_80", where)
    assert (instance.origin, instance.plan.config) == ("exact", outcome.best.config)
    drawn = registry.draw(PROBLEM, 7)
    assert_same(run(instance, drawn), expected(PROBLEM, drawn), "looked up")


def test_the_one_liner_is_conv2d_of_conv2d() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (1, 8, 8, 16), dtype=np.int8)
    w1 = rng.integers(-128, 128, (16, 3, 3, 1), dtype=np.int8)
    w2 = rng.integers(-128, 128, (24, 1, 1, 16), dtype=np.int8)
    bias, scales = rng.integers(-999, 999, 24, dtype=np.int32), np.full(24, 0.005, np.float32)
    first = {"pad": 1, "groups": 16, "w_scale": 0.004, "activation": "relu"}
    second = {"bias": bias, "w_scale": scales}
    scales_of = {"x_scale": 0.02, "mid_scale": 0.05, "y_scale": 0.1, "x_zero_point": 3, "mid_zero_point": -5}
    y = qconv.conv2d_conv2d(x, w1, w2, first=first, second=second, **scales_of)
    mid = qconv.conv2d(x, w1, x_scale=0.02, y_scale=0.05, x_zero_point=3, y_zero_point=-5, **first)  # type: ignore[arg-type]
    assert_same(y, qconv.conv2d(mid, w2, x_scale=0.05, y_scale=0.1, x_zero_point=-5, **second), "one after the other")
    with pytest.raises(ValueError, match=r"'padding'.*stride, dilation, pad"):
        qconv.conv2d_conv2d(x, w1, w2, first={"padding": 1})
    with pytest.raises(ValueError, match="first=1 must be a dict of what conv2d takes"):
        qconv.conv2d_conv2d(x, w1, w2, first=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="of the first convolution: out_type='int32', which the next would multiply"):
        qconv.conv2d_conv2d(x, w1, w2, first={"pad": 1, "groups": 16, "out_type": "int32"})
    with pytest.raises(ValueError, match="of the second convolution: stride=0 must be"):
        qconv.conv2d_conv2d(x, w1, w2, first=first, second={"stride": 0})


EXPAND = Conv2d(1, 8, 8, 16, 32, 1, 1, quantization=GIVES)
FILTER = Conv2d(1, 8, 8, 32, 32, 3, 3, pad=1, groups=32, quantization=GIVES)
BLOCK = FusedBlock(EXPAND, FILTER, Conv2d(1, 8, 8, 32, 16, 1, 1, quantization=TAKES))


def test_three_are_a_chain_as_well() -> None:
    assert parse(str(BLOCK)) == BLOCK
    keys = ("k=32:r=3:s=3:pad=1,1,1,1:groups=32", "k=16:r=1:s=1")
    short = chained("conv2d:n=1:h=8:w=8:c=16:k=32:r=1:s=1:out_type=uint8", *(f"conv2d:{key}" for key in keys))
    assert short.layers["third"].x_shape == (1, 8, 8, 32)
    assert BLOCK.io_bytes == sum(one.io_bytes for one in BLOCK.layers.values()) - 2 * (8 * 8 * 32 * 2)
    with pytest.raises(ValueError, match="third has x_type=uint8"):
        replace(BLOCK, third=replace(BLOCK.third, quantization=replace(TAKES, x_type="uint8")))
    with pytest.raises(ValueError, match=r"'mid3_scale'.*three convolutions.*mid2_scale"):
        BLOCK.checked({"mid3_scale": 1.0})


def test_three_are_their_oracles_in_turn_in_every_way() -> None:
    device, drawn = CpuDevice(TARGET), registry.draw(BLOCK, 3)
    x, *weights, residual = drawn.arrays
    for layer, w in zip(BLOCK.LAYERS, weights, strict=True):
        one = BLOCK.layers[layer]
        last = (residual,) if layer == "third" else ()
        x = convolution.conv2d(one, x, w, one.checked(BLOCK.of_layer(layer, drawn.parameters)), *last)
        assert np.unique(x).size > 50
    assert_same(registry.compute(BLOCK, drawn)[0], x, "in turn")
    together = generator.space(BLOCK, TARGET, likely=True)[0][0]
    assert together.config.family == "block"
    # The first alone, followed by one kernel, or by two.
    best = {str(BLOCK.rest): generator.space(BLOCK.rest, TARGET, likely=True)[0][0].config}
    pair = generator.unfused_plan(BLOCK, TARGET, lambda p: best.get(str(p)) or generator.default(p, TARGET).config)
    best[str(BLOCK.rest)] = generator.unfused_plan(BLOCK.rest, TARGET).config
    three = generator.unfused_plan(BLOCK, TARGET, lambda p: best.get(str(p)) or generator.default(p, TARGET).config)
    for plan in (together, pair, three):
        assert generator.config_from_json(plan.config.as_json()) == plan.config
        made = load(plan, device)
        assert_same(run(made, drawn), x, str(plan.config))
        packed = made.pack(*weights, **drawn.parameters)
        assert_same(packed.beside(*weights)(drawn.arrays[0], residual), x, "packed")
        packed.unpack()


def test_what_warpgroups_read_was_fenced_for_the_async_proxy() -> None:
    """Every layer whose outputs warpgroups read is followed by a fence, in more plans than run here: test_fences.py
    shows that it is necessary."""
    dense = FusedBlock(EXPAND, replace(EXPAND, c=32), replace(EXPAND, c=32, k=16))
    kernels = [p for p in generator.space(dense, TARGETS["cpu.sm_90a"])[0] if p.config.on_wgmma]  # type: ignore[attr-defined]
    assert {p.config.on_wgmma for p in kernels} == {1, 2, 3}  # type: ignore[attr-defined]
    fence = "void fence_input() { tile::fence_proxy_async(); }"
    for plan in kernels[::50]:
        _, *layers, kernel = re.split(
            r"^namespace (?:first|second|third) \{$|^struct Layers \{$", generator.render(plan).text, flags=re.M
        )
        for layer, page, step in zip(BLOCK.LAYERS, layers, ("await_input", "await_second", "await_third"), strict=True):
            awaits = kernel.split(f"void {step}() {{", 1)[1].split("\n    }\n", 1)[0]
            is_fenced = fence in page and f"{layer}.fence_input();" in awaits
            assert is_fenced == (layer in plan.weights.on_wgmma), (layer, str(plan.config))  # type: ignore[attr-defined]


@pytest.mark.slow
def test_all_ways_of_three_compete(tmp_path: Path) -> None:
    device, where = open_device("cpu.sm_80"), str(tmp_path / "tune.sqlite")
    with Database.open(where) as database:
        tune(BLOCK, device, database, trials=2)
        families = {row.config.family for row in database.measurements(problem=BLOCK)}
        rest = {row.config.family for row in database.measurements(problem=BLOCK.rest)}
    assert (families, rest) == ({"unfused", "block"}, {"unfused", "fused"})


def test_the_one_liner_takes_three() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (1, 6, 6, 8), dtype=np.int8)
    shapes = ((16, 1, 1, 8), (16, 3, 3, 1), (8, 1, 1, 16))
    w1, w2, w3 = (rng.integers(-128, 128, shape, dtype=np.int8) for shape in shapes)
    of = [{"w_scale": 0.004, "activation": "relu"}, {"pad": 1, "groups": 16, "w_scale": 0.01}, {"w_scale": 0.005}]
    named = dict(zip(("first", "second", "third"), of, strict=True))
    between = {"mid_scale": 0.05, "mid_zero_point": -5, "mid2_scale": 0.1, "mid2_zero_point": 7}
    y = qconv.conv2d_conv2d(
        x, w1, w2, w3, **named, x_scale=0.02, y_scale=0.2, residual=x, residual_scale=0.3, **between
    )  # type: ignore[arg-type]
    mid = qconv.conv2d(x, w1, x_scale=0.02, y_scale=0.05, y_zero_point=-5, **of[0])  # type: ignore[arg-type]
    mid = qconv.conv2d(mid, w2, x_scale=0.05, x_zero_point=-5, y_scale=0.1, y_zero_point=7, **of[1])  # type: ignore[arg-type]
    last = {"x_scale": 0.1, "x_zero_point": 7, "y_scale": 0.2, "residual": x, "residual_scale": 0.3}
    assert_same(y, qconv.conv2d(mid, w3, **last, **of[2]), "one after the other")  # type: ignore[arg-type]
    for given in ({"third": {}}, {"mid2_scale": 0.1}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} was given without w3"):
            qconv.conv2d_conv2d(x, w1, w2, **given)  # type: ignore[arg-type]


FIRST_KEY = (
    "conv2d:n=1:h=5:w=5:c=8:k=8:r=3:s=3:pad=1,1,1,1:groups=8:x_type=int8:w_type=int8:out_type=uint8:y_zero_point"
)
SECOND_KEY = "conv2d:k=16:r=1:s=1:w_type=int8:out_type=int8"


def test_the_command_takes_two_keys() -> None:
    from qconv.cli.command_line import commands

    runner = CliRunner()
    given = ["fused", "--first", FIRST_KEY, "--second", SECOND_KEY]
    ran = runner.invoke(commands, ["run", *given, "--device", "cpu.sm_80", "--verify", "--json"])
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert found["verified"] is True
    assert parse(found["problem"]) == chained(FIRST_KEY, SECOND_KEY)
    third = ["--third", "conv2d:k=8:r=1:s=1", "--device", "cpu.sm_80", "--verify", "--json"]
    ran = runner.invoke(commands, ["run", *given, *third])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["verified"] is True
    refused = runner.invoke(commands, ["source", "fused", "--first", FIRST_KEY])
    assert refused.exit_code == 2
    assert "needs --second" in refused.output
    refused = runner.invoke(commands, ["source", *given, "--n", "3"])
    assert refused.exit_code == 2
    assert "global_average_pool: give --first KEY" in refused.output
