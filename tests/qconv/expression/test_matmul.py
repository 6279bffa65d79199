"""A product of expressions as a problem: its key, its refusals, its oracle."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from random_matmuls import convolution, matmuls, transposed

from qconv.cli.command_line import commands
from qconv.expression import MatMul
from qconv.op import Sample
from qconv.ops import registry

PLAIN = "matmul:m=2:n=3:k=4:in=float32*8,float32*12:out=float32:"
DO = "do=t0=x0[m0*4+k0];t1=x1[k0*3+n0];t2=multiply(t0,t1);t3=sum_of(t2)"


def test_its_key() -> None:
    problem = registry.parse(PLAIN + DO)
    assert isinstance(problem, MatMul)
    assert str(problem) == PLAIN + DO
    assert str(registry.parse(PLAIN + "order=m0,n0:" + DO)) == PLAIN + DO
    other = registry.parse(PLAIN + "order=n0,m0:" + DO)
    assert "out=float32:order=n0,m0:do=" in str(other)
    assert other != problem
    assert registry.parse(str(other)) == other
    assert (problem.outputs[0].shape, other.outputs[0].shape) == ((2, 3), (3, 2))
    assert problem.operations == 2 * 2 * 3 * 4
    assert problem.extents == {"batch": 1, "m": 2, "n": 3, "k": 4}
    for random in matmuls(7, 30):
        assert registry.parse(str(random)) == random


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (DO.replace("sum_of(t2)", "add(t2,t2)"), r"are one sum_of\(multiply\(left, right\)\); the expression has none"),
        (DO.replace("sum_of", "maximum_of"), "the expression has maximum_of"),
        (DO + ";t4=sum_of(multiply(t0,t0));t5=add(t3,t4)", "the expression has sum_of, sum_of"),
        (DO.replace("sum_of(t2)", "sum_of(t0)"), "the expression has sum_of"),
        (DO.replace("x0[m0*4+k0]", "x0[n0]"), "the left factor reads n0; it has no axes of n"),
        (DO.replace("x1[k0*3+n0]", "x1[m0]"), "the right factor reads m0; it has no axes of m"),
        (DO + ";t4=add(t3,x0[k0])", "what follows the sum reads k0; it has no axes of k"),
        (DO + ";t4=add(t3,to_float32(position(k0)))", "what follows the sum reads k0"),
        ("order=m0:" + DO, "order='m0' must name each axis of the output once: m0,n0"),
        ("order=m0,n0,k0:" + DO, "must name each axis of the output once"),
        (DO.replace("x0[m0*4+k0]", "x0[m0*5+k0]"), "reads elements 0 to 8 of 8: guard it"),
    ],
)
def test_what_is_refused(changed: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        registry.parse(PLAIN + changed)


def test_sums_are_longer_than_any_tensor() -> None:
    """The elements of m, n and k together exceed an int32; those of the output do not."""
    problem = registry.parse(
        "matmul:m=4096:n=4096:k=4096:in=float32*1,float32*1:out=float32:"
        + DO.replace("x0[m0*4+k0]", "x0[0]").replace("x1[k0*3+n0]", "x1[0]")
    )
    assert problem.operations == 2 * 4096**3
    with pytest.raises(ValueError, match="split them"):
        registry.parse(str(problem).replace("m=4096:n=4096", "m=65536:n=65536"))


def drawn(problem: MatMul, seed: int) -> tuple[Sample, NDArray[np.floating], list[NDArray[np.float64]]]:
    sample = registry.draw(problem, seed)
    (y,) = registry.compute(problem, sample)
    return sample, y, [array.astype(np.float64) for array in sample.arrays]


def near(y: NDArray[np.floating], expected: NDArray[np.float64]) -> bool:
    return bool(np.allclose(y, expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max()))


def test_batches_of_matrices() -> None:
    problem = MatMul.of(
        {
            "batch": [2, 3],
            "m": [4],
            "n": [5],
            "k": [6, 2],
            "out": "float32",
            "order": "n0,b1,b0,m0",
            "in": "float32*288,float32*180,float32*5",
            "do": "s=sum_of(multiply(x0[b0*144+b1*48+m0*12+k0*2+k1],x1[b1*60+k0*10+k1*5+n0]));t=add(s,x2[n0])",
        }
    )
    _, y, (a, b, c) = drawn(problem, 1)
    expected = np.einsum("abmkl,bkln->nbam", a.reshape(2, 3, 4, 6, 2), b.reshape(3, 6, 2, 5))
    assert near(y, expected + c[:, None, None, None])


def test_a_sum_is_one_chain_in_order() -> None:
    """a + b - a is not b: the first two are added first."""
    problem = registry.parse(
        "matmul:m=1:n=2:k=3:in=float32*3,float32*6:out=float32:do=s=sum_of(multiply(x0[k0],x1[n0*3+k0]))"
    )
    left, right = np.array([2**24, 1, 2**24], np.float32), np.array([1, 1, -1, 0, 1, 0], np.float32)
    (y,) = registry.compute(problem, Sample((left, right)))
    assert y.tolist() == [[0.0, 1.0]]
    # A product that is rounded before it is added loses its last bit, 2^-24.
    left[:], right[:] = [1, 1 + 2**-12, 0], [-1 - 2**-11, 1 + 2**-12, 0, 0, 0, 0]
    (y,) = registry.compute(problem, Sample((left, right)))
    assert y.tolist() == [[2.0**-24, 0.0]]


@pytest.mark.parametrize(("dtype", "bits"), [("int32", 32), ("int64", 64)])
def test_integers_wrap_around(dtype: str, bits: int) -> None:
    problem = registry.parse(
        f"matmul:m=3:n=4:k=9:in={dtype}*27,{dtype}*36:out={dtype}:do=s=sum_of(multiply(x0[m0*9+k0],x1[k0*4+n0]))"
    )
    sample = registry.draw(problem, 2)
    (y,) = registry.compute(problem, sample)
    a, b = (array.astype(object) for array in sample.arrays)
    assert ((a.reshape(3, 9) @ b.reshape(9, 4) - y.astype(object)) % 2**bits == 0).all()


def test_a_convolution_of_groups() -> None:
    problem = convolution(2, (7, 6), 6, 4, (3, 2), stride=2, dilation=2, pad=2, groups=2)
    _, y, (x, w, bias) = drawn(problem, 3)
    x, w = x.reshape(2, 7, 6, 6), w.reshape(4, 3, 2, 3)
    padded = np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0))).reshape(2, 11, 10, 2, 3)
    windows = sliding_window_view(padded, (5, 3), (1, 2))[:, ::2, ::2, ..., ::2, ::2]
    expected = np.einsum("ipqgcrs,gnrsc->ipqgn", windows, w.reshape(2, 2, 3, 2, 3)) + bias.reshape(2, 2)
    assert near(y, expected)


def test_a_transposed_convolution() -> None:
    problem = transposed(1, (3, 4), 2, 3, 3, 2)
    _, y, (x, w) = drawn(problem, 4)
    x, w = x.reshape(3, 4, 2), w.reshape(2, 3, 3, 3)
    expected = np.zeros((7, 9, 3))
    for row, column in np.ndindex(3, 4):
        expected[2 * row : 2 * row + 3, 2 * column : 2 * column + 3] += np.einsum("c,cnrs->rsn", x[row, column], w)
    assert near(y[0], expected)


def test_an_oracle_in_parts_is_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = matmuls(5, 9)[8]
    sample = registry.draw(problem, 1)
    (whole,) = registry.compute(problem, sample)
    monkeypatch.setattr("qconv.expression.matmul.CHUNK", 7)
    (parts,) = registry.compute(problem, sample)
    assert np.array_equal(whole, parts, equal_nan=True)


def test_a_command_names_its_axes() -> None:
    """The options --n and --k are a convolution's."""
    axes = ["--batch-axes", "2", "--m-axes", "5,2", "--n-axes", "7", "--k-axes", "3"]
    what = ["--in", "float32*60,float32*21", "--out-type", "float32", "--order", "n0,b0,m1,m0"]
    do = "s=sum_of(multiply(x0[b0*30+m0*6+m1*3+k0],x1[k0*7+n0]))"
    said = CliRunner().invoke(commands, ["source", "matmul", *axes, *what, "--do", do, "--target", "cpu"])
    assert said.exit_code == 0, said.output
    header = "".join(line.removeprefix("//").strip() for line in said.output.splitlines()[:3])
    assert "matmul:batch=2:m=5,2:n=7:k=3:in=float32*60,float32*21:out=float32:order=n0,b0,m1,m0:do=" in header
