"""A convolution followed by a max pool: the problem, its key, its parameters, and the two unfused kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from exactness import assert_same, expected, run
from random_pooled import WINDOWS, pooled_problems

import qconv
from qconv import Conv2d, FusedConv2d, PooledConv2d, Quantization, generator, parse
from qconv.cli.command_line import commands
from qconv.device import open_device
from qconv.device.cpu import CpuDevice
from qconv.generator.families.unfused import Unfused
from qconv.instances.load.pair import Pair, load
from qconv.instances.load.serving import lookup
from qconv.ops import convolution, registry
from qconv.ops import pooled as pooled_op
from qconv.ops.pooled import ask
from qconv.ops.registry import op_of
from qconv.sampling.operands import Variety
from qconv.targets.target import TARGETS
from qconv.tensor_ops import MaxPool
from qconv.tune_db.database import Database
from qconv.tune_db.nearness import distance, shape_of
from qconv.tuner.search.tune import tune
from qconv.tuner.workloads.listing import with_batch

GIVES = Quantization(per_channel=True, x_zero_point=True, y_zero_point=True, bias="int32", activation="relu")
FIRST = Conv2d(2, 11, 13, 3, 8, 5, 4, stride=2, pad=2, quantization=GIVES)
PROBLEM = PooledConv2d.over(FIRST, window=3, window_stride=2, window_pad=1)
TARGET = TARGETS["cpu"]
KEY = "conv2d_pool:n=1:h=9:w=9:c=3:k=4:r=3:s=3"


def test_a_key_is_read_back() -> None:
    assert str(PROBLEM) == f"conv2d_pool:{str(FIRST).removeprefix('conv2d:')}:window=3,3:window_stride=2,2:" + (
        "window_pad=1,1,1,1"
    )
    for problem in (PROBLEM, *pooled_problems(seed=1, count=40)):
        assert parse(str(problem)) == problem
        assert hash(parse(str(problem))) == hash(problem)
        assert op_of(problem).read(problem.key) == problem


def test_what_is_left_out_of_a_key_is_the_default() -> None:
    plain = PooledConv2d(1, 9, 9, 3, 4, 3, 3, window=(2, 2))
    assert str(plain).endswith(":out_type=int8:window=2,2")
    assert parse(f"{KEY}:window=2") == plain
    assert parse(f"{KEY}:window_pad=0,0,0,0:window=2,2:window_stride=1,1") == plain
    # Any difference makes another problem.
    others = [
        parse(f"{KEY}:window={rest}")
        for rest in ("2,3", "3,2", "2:window_stride=2", "2:window_stride=1,2", "2:window_pad=1,0,0,0", "2:ceil_mode")
    ]
    assert len({plain, parse(f"{KEY}:window=2:out_type=uint8"), *others}) == 2 + len(others)
    assert plain != plain.first
    assert replace(plain, ceil_mode=True) in others


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"window": (2, 2, 2)}, r"window=\(2, 2, 2\) must be one integer or 2 of them"),
        ({"window": 2.0}, r"window=2.0 must be one integer or 2 of them"),
        ({"window": None}, "window=None must be one integer"),
        ({"window": (2, "x")}, "window='x' must be an integer"),
        ({"window": 0}, "window=0 must be between 1 and"),
        ({"window": 20}, "of the pool: the window spans 20 along h, but the padded input has only 9"),
        ({"window_stride": 0}, "window_stride=0 must be between 1 and"),
        ({"window_stride": (1, 1, 1)}, r"window_stride=\(1, 1, 1\) must be one integer or 2 of them"),
        ({"window_pad": -1}, "window_pad=-1 must be between 0 and"),
        ({"window_pad": (1, 1)}, r"window_pad=\(1, 1\) must be one integer or 4 of them"),
        ({"window_pad": 2}, "of the pool: pad=2,2,2,2 with r=2: a pad must be smaller than the window"),
        ({"ceil_mode": "yes"}, "of the pool: ceil_mode='yes' must be True or False"),
        ({"layout": "nchw"}, "layout=nchw: a convolution and the pool behind it take and give nhwc"),
        ({"crop": 1}, "a pool follows an output as it lies, without pixel_shuffle and crop"),
        ({"quantization": Quantization(out_type="int32")}, "out_type=int32: a pool behind a convolution takes int8 or"),
        ({"quantization": Quantization(out_type="float16")}, "out_type=float16: a pool behind a convolution"),
        ({"quantization": Quantization(residual="int8")}, "residual=int8: nothing is added in front of the pool; run"),
        ({"stride": 0}, "stride=0 must be between 1"),
    ],
)
def test_what_is_no_such_problem_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PooledConv2d(1, 9, 9, 3, 4, 1, 1, **{"window": 2, **given})


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        ("", "has no window, which the pool needs"),
        (":window=2,2,2", r"window=\(2, 2, 2\) must be one integer or 2"),
        (":window=a", "window='a' in a problem key must be an integer"),
        (":window=2,", "window='' in a problem key must be an integer"),
        (":window", "'window' needs a value"),
        (":window=2:window=3", "'window' stands twice"),
        (":window=2:ceil_mode=1", "'ceil_mode' is a flag and takes no value"),
        (
            ":window=2:dilation_of_pool=2",
            "unknown field 'dilation_of_pool'.*residual_add, window, window_stride, window",
        ),
        (":window=2:residual=int8", "residual=int8: nothing is added"),
        (":window=2:layout=nchw", "layout=nchw"),
        (f":window=2+{FIRST}", "key"),
    ],
)
def test_what_is_no_such_key_is_refused(rest: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(KEY + rest)
    with pytest.raises(ValueError, match="unknown field 'window'"):
        parse("conv2d:n=1:h=9:w=9:c=3:k=4:r=3:s=3:window=2")


def test_it_is_made_of_its_parts() -> None:
    pool = MaxPool(2, 6, 7, 8, 3, 3, stride=2, pad=1)
    assert PROBLEM.parts == (FIRST, pool)
    assert PooledConv2d.behind(FIRST, pool) == PROBLEM
    assert (PROBLEM.y_shape, PROBLEM.outputs) == ((2, 3, 4, 8), pool.outputs)
    assert [tensor.name for tensor in PROBLEM.inputs] == ["x", "w"]
    ceil = PooledConv2d.behind(FIRST, replace(pool, pad=0, ceil_mode=True))
    assert (ceil.ceil_mode, ceil.y_shape) == (True, (2, 3, 3, 8))
    with pytest.raises(ValueError, match=r"dilation=\(2, 1\) of the pool behind a convolution must be 1,1"):
        PooledConv2d.behind(FIRST, replace(pool, dilation=(2, 1)))
    for other in (replace(pool, x_type="uint8"), replace(pool, h=7), replace(pool, c=9)):
        with pytest.raises(ValueError, match=r"the pool takes .*, but the convolution gives"):
            PooledConv2d.behind(FIRST, other)


def test_it_counts_what_reaches_memory() -> None:
    """The intermediate tensor does not count."""
    between = 2 * 6 * 7 * 8
    assert PROBLEM.io_bytes == FIRST.io_bytes - between + 2 * 3 * 4 * 8
    assert PROBLEM.operations == FIRST.operations


def test_no_chain_has_a_pool_within_it() -> None:
    small = Conv2d(1, 9, 9, 8, 8, 1, 1)
    pooled = PooledConv2d.over(small, window=1)
    for pair in ((small, pooled), (pooled, small)):
        with pytest.raises(ValueError, match="has a pool behind it: run that convolution by itself"):
            FusedConv2d(*pair)


def test_of_more_images() -> None:
    more = with_batch(PROBLEM, 5)
    assert isinstance(more, PooledConv2d)
    assert (more.n, more.window, more.rest.n) == (5, (3, 3), 5)


def test_the_oracle_is_both_in_turn() -> None:
    drawn = registry.draw(PROBLEM, 3)
    x, w = drawn.arrays
    between = convolution.conv2d(FIRST, x, w, FIRST.checked(drawn.parameters))
    padded = np.full((2, 8, 9, 8), -128, np.int8)
    padded[:, 1:7, 1:8] = between
    windows = [[padded[:, i : i + 3, j : j + 3].max((1, 2)) for j in range(0, 7, 2)] for i in range(0, 5, 2)]
    assert_same(registry.compute(PROBLEM, drawn)[0], np.array(windows).transpose(2, 0, 1, 3), "both in turn")
    assert np.unique(between).size > 100
    assert np.unique(windows).size > 40


@pytest.mark.turns
@pytest.mark.parametrize("first", [0, 20])
def test_two_kernels_in_turn_have_the_bits_of_the_oracle(first: int) -> None:
    for index, problem in enumerate(pooled_problems(seed=2, count=40)[first : first + 20], first):
        made = load(generator.default(problem, TARGET), CpuDevice(TARGET, seed=index % 6))
        drawn = registry.draw(problem, index)
        assert_same(run(made, drawn), expected(problem, drawn), str(problem))


def test_the_random_ones_have_everything() -> None:
    found = pooled_problems(seed=2, count=40)
    assert {one.window for one in found} == set(WINDOWS)
    assert {step for one in found for step in one.window_stride} == {1, 2, 3}
    assert {one.quantization.out_type for one in found} == {"int8", "uint8"}
    assert len({(one.ceil_mode, any(one.window_pad)) for one in found}) == 4
    assert sum(one.ceil_mode and one.y_shape != replace(one, ceil_mode=False).y_shape for one in found) >= 3
    assert any(one.h % 2 and one.w % 2 for one in found)


def test_a_pair_is_packed_bound_and_read_back() -> None:
    device, drawn = CpuDevice(TARGET), registry.draw(PROBLEM, 5)
    plan = generator.unfused_plan(PROBLEM, TARGET)
    assert isinstance(plan.config, Unfused)
    assert plan.config.second.family == "pooling"
    assert generator.config_from_json(plan.config.as_json()) == plan.config
    pair = load(plan, device)
    assert isinstance(pair, Pair)
    want = expected(PROBLEM, drawn)
    x, w = (device.upload(array) for array in drawn.arrays)
    packed = pair.pack(w, **drawn.parameters)
    assert_same(packed(x), want, "packed")
    by_name = pair.pack(w=np.ascontiguousarray(w.transpose(0, 3, 1, 2)), w_layout="kcrs", **drawn.parameters)
    assert_same(by_name(x), want, "in another layout")
    bound = packed.beside(w).bind(x)
    bound.refold()
    assert_same(bound(), want, "bound")
    assert_same(packed.unpack()["first"]["w"], drawn.arrays[1], "unpacked")
    assert packed.unpack(w_layout="kcrs")["first"]["w"].shape == (8, 3, 5, 4)
    with pytest.raises(ValueError, match="leave it out"):
        packed.bind(x, overlap=True)
    with pytest.raises(ValueError, match="y_scale"):
        pair.pack(w, **{**drawn.parameters, "y_scale": -1.0})
    with pytest.raises(ValueError, match="it takes w"):
        pair.pack(w, w, **drawn.parameters)


def test_it_is_tuned_and_looked_up(tmp_path: Path) -> None:
    device, where = open_device("cpu"), str(tmp_path / "tune.sqlite")
    with Database.open(where) as database:
        outcome = tune(PROBLEM, device, database, trials=2)
        (row,) = database.measurements(problem=PROBLEM)
    assert outcome.best is not None
    assert (row.config.family, row.outcome) == ("unfused", "correct")
    qconv.forget()
    instance = lookup(PROBLEM, "cpu", where)
    assert (instance.origin, instance.plan.config) == ("exact", outcome.best.config)
    drawn = registry.draw(PROBLEM, 7)
    assert_same(run(instance, drawn), expected(PROBLEM, drawn), "looked up")


def test_problems_of_the_same_window_are_nearest(tmp_path: Path) -> None:
    where, device = str(tmp_path / "tune.sqlite"), open_device("cpu")
    for other, far in (({"n": 4}, 1.0), ({"window": 2}, 0.5), ({"window": 2, "window_stride": 1}, 1.0)):
        near = replace(PROBLEM, **other)  # type: ignore[arg-type]
        assert distance(shape_of(PROBLEM), shape_of(near)) == far
    with Database.open(where) as database:
        tune(PROBLEM, device, database, trials=1)
    qconv.forget()
    assert lookup(replace(PROBLEM, n=3), "cpu", where).origin == "nearest"
    assert lookup(PROBLEM.first, "cpu", where).reason.startswith("exact")  # a part that was tuned on the way


def test_the_command_tunes_it_and_lookup_has_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QCONV_DB", str(tmp_path / "tune.sqlite"))
    qconv.forget()
    flags = "--n 1 --h 9 --w 9 --c 3 --k 4 --r 3 --s 3 --window 2 --window-stride 2 --device cpu"
    said = CliRunner().invoke(commands, ["tune", "conv2d_pool", *flags.split(), "--trials", "4", "--json"])
    assert said.exit_code == 0, said.output
    said = CliRunner().invoke(commands, ["lookup", "conv2d_pool", *flags.split(), "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert (found["origin"], parse(found["problem"])) == ("exact", parse(f"{KEY}:window=2:window_stride=2"))
    listed = CliRunner().invoke(commands, ["db", "list"])
    assert "conv2d_pool:n=1:h=9" in listed.output
    qconv.forget()


IMAGE = "--n 2 --h 9 --w 10 --c 3 --k 8 --r 3 --s 3"


def test_the_command_runs_and_verifies_it() -> None:
    flags = (
        f"{IMAGE} --pad 1 --window 3,2 --window-stride 2 --window-pad 1,0,1,1 --ceil-mode --out-type uint8 --bias int32"
    )
    said = CliRunner().invoke(commands, ["run", "conv2d_pool", *flags.split(), "--device", "cpu", "--verify", "--json"])
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["verified"] is True
    wanted = {"window": (3, 2), "window_stride": 2, "window_pad": (1, 0, 1, 1), "ceil_mode": True}
    q = Quantization(out_type="uint8", bias="int32")
    assert parse(found["problem"]) == PooledConv2d(2, 9, 10, 3, 8, 3, 3, pad=1, quantization=q, **wanted)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (IMAGE, "conv2d_pool needs --window"),
        (f"{IMAGE} --window 2 --residual int8", "conv2d_pool has no option --residual, which belongs to conv2d"),
        (f"{IMAGE} --window 2 --layout nchw", "conv2d_pool has no option --layout"),
        (f"{IMAGE} --window 2 --window-pad 2", "a pad must be smaller than the window"),
        (f"{IMAGE} --window 2,2,2", "must be one integer or 2 of them"),
        (f"{IMAGE} --window 2 --out-type int32", "out_type=int32: a pool behind a convolution takes int8 or uint8"),
    ],
)
def test_what_the_command_refuses(flags: str, says: str) -> None:
    said = CliRunner().invoke(commands, ["source", "conv2d_pool", *flags.split(), "--target", "cpu"])
    assert said.exit_code != 0
    assert says in (str(said.exception) if said.exit_code == 1 else " ".join(said.output.split()))


def test_help_tells_all_of_it() -> None:
    said = CliRunner().invoke(commands, ["help", "conv2d_pool"])
    assert said.exit_code == 0
    options = ("--window ", "--window-stride", "--window-pad", "--ceil-mode", "--stride", "--bias", "--table")
    assert all(option in said.output for option in options)
    assert not any(option in said.output for option in ("--residual", "--layout", "--crop", "--dilation-of-pool"))


def test_what_the_options_ask_for() -> None:
    sizes = {name: getattr(FIRST, name) for name in ("n", "h", "w", "c", "k", "r", "s")}
    asked = ask({**sizes, "window": (3, 2), "window_stride": (2, 1), "ceil_mode": True})
    assert asked == PooledConv2d(**sizes, window=(3, 2), window_stride=(2, 1), ceil_mode=True)


def test_the_one_liner_is_max_pool_of_conv2d() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (2, 9, 10, 3), dtype=np.int8)
    w = rng.integers(-128, 128, (8, 3, 3, 3), dtype=np.int8)
    given: dict[str, Any] = {
        "pad": 1, "stride": (1, 2), "x_scale": 0.02, "w_scale": np.linspace(0.001, 0.004, 8, dtype=np.float32),
        "y_scale": 0.05, "x_zero_point": 3, "y_zero_point": 7, "bias": rng.integers(-999, 999, 8, dtype=np.int32),
        "activation": "clamp", "low": -1.0, "high": 5.0, "out_type": "uint8",
    }  # fmt: skip
    y = qconv.conv2d_pool(x, w, 3, window_stride=2, window_pad=1, ceil_mode=True, **given)
    between = qconv.conv2d(x, w, **given)
    assert_same(y, qconv.max_pool(between, 3, stride=2, pad=1, ceil_mode=True), "one after the other")
    out = np.empty_like(y)
    kcrs = np.ascontiguousarray(w.transpose(0, 3, 1, 2))
    named = {"window": (3, 3), "window_stride": 2, "window_pad": (1, 1, 1, 1), "ceil_mode": True}
    assert qconv.conv2d_pool(x, kcrs, w_layout="kcrs", out=out, **named, **given) is out
    assert_same(out, y, "KCRS")
    table = np.arange(256, dtype=np.uint8)[::-1].copy()
    looked_up = qconv.conv2d_pool(x, w, 2, table=table, **given)
    assert_same(looked_up, qconv.max_pool(table[between], 2), "a table in front of the pool")
    with pytest.raises(ValueError, match="w_layout='crsk' is not one of krsc, kcrs"):
        qconv.conv2d_pool(x, w, 2, w_layout="crsk")
    for wrong in ({"residual": between}, {"padding": 1}, {"layout": "nchw"}):
        with pytest.raises(
            ValueError, match=f"{next(iter(wrong))} is not known; conv2d_pool takes stride, dilation, pad"
        ):
            qconv.conv2d_pool(x, w, 2, **{**given, **wrong})


def test_data_are_drawn_again_where_the_largest_are_too_often_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    one = parse(
        "conv2d_pool:n=3:h=10:w=13:c=128:k=64:r=6:s=1:stride=3,1:pad=5,5,3,1:groups=8:per_channel:y_zero_point:"
        "bias=int32:activation=relu6:window=3,3:window_stride=2,1"
    )

    def lacks() -> str:
        (y,) = registry.compute(one, registry.draw(one, 327))
        return Variety.of(y.reshape(-1, 64)).lacks()

    assert lacks() == ""
    assert registry.draw(one, 327).forced == ()
    monkeypatch.setattr(pooled_op, "DRAWS", 0)
    assert lacks() == "one value in 53% of 6528 outputs, more than 50%"
    assert registry.draw(one, 327).forced == (f"{lacks()} behind the pool, in 1 draws",)
    # Large samples are drawn once.
    monkeypatch.setattr(pooled_op, "MOST_OPERATIONS", 0)
    assert registry.draw(one, 327).forced == ()
