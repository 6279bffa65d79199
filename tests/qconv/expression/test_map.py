"""The oracle of `map`, against NumPy written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from random_expressions import map_of, maps

from qconv.cli.command_line import commands
from qconv.expression import Map
from qconv.op import Sample
from qconv.ops import registry

RNG = np.random.default_rng(11)


def result(problem: Map, *arrays: object) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    (made,) = registry.compute(problem, Sample(tuple(np.asarray(each) for each in arrays)))
    assert made.shape == problem.outputs[0].shape
    assert str(made.dtype) == problem.y_type
    return made


def test_a_broadcast_sum() -> None:
    a, b = RNG.standard_normal((3, 4, 5)).astype(np.float32), RNG.standard_normal((4, 1)).astype(np.float32)
    problem = map_of((3, 4, 5), "float32", ["float32*60", "float32*4"], "y=add(x0[i0*20+i1*5+i2],x1[i1])")
    assert np.array_equal(result(problem, a.ravel(), b.ravel()), a + b)


def test_a_transposed_slice_with_steps() -> None:
    x = RNG.integers(-128, 128, (6, 9), np.int8)
    problem = map_of((3, 3), "int8", ["int8*54"], "y=x0[(i1*2)*9+i0*3+1]")
    assert np.array_equal(result(problem, x.ravel()), x[::2, 1::3].T)


def test_a_pad() -> None:
    x = RNG.integers(0, 256, (4, 5), np.uint8)
    problem = map_of((6, 8), "uint8", ["uint8*20"], "y=guarded(x0[(i0-1)*5+i1-2],7,i0-1,4,i1-2,5)")
    assert np.array_equal(result(problem, x.ravel()), np.pad(x, ((1, 1), (2, 1)), constant_values=7))


def test_a_gather() -> None:
    x, table = RNG.standard_normal((7, 4)).astype(np.float16), np.array([6, 0, 3], np.int32)
    problem = map_of((3, 4), "float16", ["float16*28", "int32*3!0..6"], "y=x0[x1[i0]*4+i1]")
    assert np.array_equal(result(problem, x.ravel(), table), x[table])


def test_a_depth_to_space() -> None:
    x = RNG.integers(-1000, 1000, (2, 8, 3, 5), np.int16)
    at = "i0*120+((i2%2)*2+i3%2)*30+i1*15+i2/2*5+i3/2"
    problem = map_of((2, 2, 6, 10), "int16", ["int16*240"], f"y=x0[{at}]")
    want = x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 6, 10)
    assert np.array_equal(result(problem, x.ravel()), want)


def test_a_dequantized_product_quantized_again() -> None:
    x, scale = RNG.integers(-128, 128, (5, 6), np.int8), np.float32(0.037)
    do = "a=multiply(to_float32(subtract(x0[i0*6+i1],x2[0])),x1[0]);b=round(multiply(a,3.0))"
    do += ";y=to_int32(minimum(maximum(b,-128.0),127.0))"
    problem = map_of((5, 6), "int8", ["int8*30", "float32*1!", "int8*1!"], do)
    want = np.clip(np.rint((x.astype(np.float32) - 3) * scale * np.float32(3)), -128, 127).astype(np.int8)
    assert np.array_equal(result(problem, x.ravel(), [scale], np.array([3], np.int8)), want)


def test_what_does_not_depend_on_an_axis_is_repeated() -> None:
    problem = map_of((2, 3), "int64", ["int64*2"], "y=x0[i0]")
    assert result(problem, np.array([5, -6])).tolist() == [[5, 5, 5], [-6, -6, -6]]
    assert result(map_of((2, 2), "bool", [], "y=True")).all()


def test_inputs_outputs_and_bytes() -> None:
    problem = map_of((4, 6), "float16", ["int8*24", "float32*1!"], "y=multiply(to_float32(x0[i0*6+i1]),x1[0])")
    assert [(each.name, each.shape, each.dtype) for each in (*problem.inputs, *problem.outputs)] == [
        ("x0", (24,), "int8"),
        ("x1", (1,), "float32"),
        ("y", (4, 6), "float16"),
    ]
    assert problem.packed == ("x1",)
    assert problem.io_bytes == 24 + 4 + 48


def test_random_problems_have_varied_outputs() -> None:
    """An expression may be constant; most are not."""
    large = [problem for problem in maps(6, 100) if problem.elements >= 8]
    varied = [len(np.unique(result(problem, *registry.draw(problem, 1).arrays))) > 1 for problem in large]
    assert sum(varied) >= 0.75 * len(large) >= 50


@pytest.mark.parametrize("seed", [1, 2])
def test_data_are_of_the_seed(seed: int) -> None:
    problem = map_of((4,), "int32", ["int32*4"], "y=x0[i0]")
    first, again = (registry.draw(problem, seed).arrays[0] for _ in range(2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, registry.draw(problem, seed + 1).arrays[0])


ASKED = ["map", "--shape", "40,32", "--operands", "float32*1280,float32*32!", "--y-type", "float16"]
ASKED += ["--do", "a = multiply(x0[i0*32 + i1], x1[i1]); y = exp(a)"]
KEY = (
    "map:shape=40,32:in=float32*1280,float32*32!:out=float16:do=t0=x0[i0*32+i1];t1=x1[i1];t2=multiply(t0,t1);t3=exp(t2)"
)


def test_a_command_writes_its_source() -> None:
    said = CliRunner().invoke(commands, ["source", *ASKED, "--target", "cpu"])
    assert said.exit_code == 0, said.output
    header = "".join(line.removeprefix("//").strip() for line in said.output.splitlines()[:3])
    assert KEY in header


def test_a_command_runs_and_verifies_it() -> None:
    said = CliRunner().invoke(commands, ["run", *ASKED, "--device", "cpu", "--verify", "--json"])
    assert json.loads(said.stdout)["verified"] is True


def test_a_command_says_what_is_wrong() -> None:
    said = CliRunner().invoke(commands, ["source", *ASKED[:-1], "y=x0[i0*32+i1+1]", "--target", "cpu"])
    assert "reads elements 1 to 1280 of 1280: guard it" in said.output + str(said.exception)
    said = CliRunner().invoke(commands, ["source", "map", "--shape", "4", "--target", "cpu"])
    assert "map needs --y-type" in said.output + str(said.exception)


def test_it_is_tuned_looked_up_and_exported(tmp_path: Path) -> None:
    database = ["--db", str(tmp_path / "tune.sqlite")]
    tuned = CliRunner().invoke(commands, ["tune", *ASKED, "--device", "cpu", "--trials", "3", *database])
    assert tuned.exit_code == 0, tuned.output
    found = CliRunner().invoke(commands, ["lookup", KEY, "--device", "cpu", "--json", *database])
    assert json.loads(found.stdout)["origin"] == "exact", found.output
    made = CliRunner().invoke(commands, ["export", *database, "--out", str(tmp_path / "sources")])
    assert made.exit_code == 0, made.output
    assert any("map" in path.name for path in (tmp_path / "sources").rglob("*"))
