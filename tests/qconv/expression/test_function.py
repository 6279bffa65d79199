"""Every scalar function has the same bits in C++ and in NumPy, and the elementary ones are near the real functions."""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from random_expressions import every_function

from qconv import generator
from qconv.device import Device
from qconv.device.cpu_runtime import find_compiler
from qconv.expression import FUNCTIONS, Map, Operand, elementary
from qconv.expression.function import BOOL, CTYPES, FLOAT, Function
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.targets.target import TARGETS
from qconv.tuner.measure.verification import mismatch

Array = NDArray[Any]
CASES = [(function, dtype) for function in FUNCTIONS.values() for dtype in function.takes]
LOOP = """
extern "C" void run_{name}_{dtype}({parameters}, {result}* y, long count) {{
    for (long i = 0; i < count; ++i) y[i] = scalar::{name}({arguments});
}}
"""


def loop(function: Function, dtype: str) -> str:
    types = [CTYPES[dtype]] * function.arity
    if function.name == "select":
        types[0] = "bool"
    names = "abcde"[: function.arity]
    parameters = ", ".join(f"const {ctype}* {name}" for ctype, name in zip(types, names, strict=True))
    arguments = ", ".join(f"{name}[i]" for name in names)
    result = CTYPES[function.result or dtype]
    return LOOP.format(name=function.name, dtype=dtype, parameters=parameters, arguments=arguments, result=result)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return a library with one loop per function and type, around the text that kernels contain."""
    folder = tmp_path_factory.mktemp("functions")
    text = generator.render(generator.default(every_function(), TARGETS["cpu"])).text
    (folder / "functions.cpp").write_text(text + "".join(loop(*case) for case in CASES))
    flags = "-std=c++17 -O1 -march=native -ffp-contract=off -shared -fPIC -Wall -Wextra -Wno-unknown-pragmas -Werror"
    subprocess.run(
        [find_compiler().path, *flags.split(), "functions.cpp", "-o", "functions.so"], cwd=folder, check=True
    )
    return ctypes.CDLL(str(folder / "functions.so"), mode=os.RTLD_LAZY)


ENDS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38)
TURNS = (87.0, -87.0, 88.72, 88.73, -87.4, -103.9, -104.1, 0.625, 8192.0, 1e4, -1e4, 16777216.0, 2147483648.0, 9.3e18)


def drawn(dtype: str, arity: int) -> list[Array]:
    """Return arguments: all combinations of special values, random bits, and numbers of usual magnitudes."""
    rng = np.random.default_rng(1)
    if dtype == BOOL:
        ends: Array = np.array([False, True])
        return [np.array(each) for each in zip(*itertools.product(ends, repeat=arity), strict=True)]
    if dtype == FLOAT:
        ends = np.array(ENDS[:: 1 + (arity > 3)] + (TURNS if arity < 3 else ()), np.float32)
        bits = rng.integers(0, 2**32, (arity, 20_000), np.uint32).view(np.float32)
        usual = rng.standard_normal((arity, 20_000)) * np.exp2(rng.integers(-12, 12, (arity, 20_000)))
        random = np.concatenate([bits, usual.astype(np.float32)], 1)
    else:
        limits = np.iinfo(dtype)
        ends = np.array([0, 1, -1, 2, -3, 7, 31, 32, 33, 63, 64, limits.min, limits.max, limits.min + 1], dtype)
        whole = rng.integers(limits.min, limits.max, (arity, 20_000), dtype, endpoint=True)
        random = np.concatenate([whole, whole >> rng.integers(0, limits.bits, whole.shape, dtype)], 1)
    crossed = np.array(list(itertools.product(ends, repeat=arity)), dtype).T
    return [np.concatenate(pair) for pair in zip(crossed, random, strict=True)]


def arguments_of(function: Function, dtype: str) -> list[Array]:
    if function.name != "select":
        return drawn(dtype, function.arity)
    given = drawn(dtype, 2)
    return [np.arange(given[0].size) % 3 == 0, *given]


def by_kernel(library: ctypes.CDLL, function: Function, dtype: str, given: list[Array]) -> Array:
    y = np.empty(given[0].size, function.result or dtype)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*given, y)]
    getattr(library, f"run_{function.name}_{dtype}")(*pointers, ctypes.c_long(y.size))
    return y


def by_numpy(function: Function, given: list[Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(function.numpy(*given))


@pytest.mark.parametrize(("function", "dtype"), CASES, ids=[f"{function.name}-{dtype}" for function, dtype in CASES])
def test_the_kernel_has_the_bits_of_numpy(library: ctypes.CDLL, function: Function, dtype: str) -> None:
    given = arguments_of(function, dtype)
    got, want = by_kernel(library, function, dtype, given), by_numpy(function, given)
    assert want.dtype == got.dtype
    bits = f"V{got.dtype.itemsize}"
    differs = (got.view(bits) != want.view(bits)) & ~((got != got) & (want != want))
    assert not differs.any(), f"{[a[differs][:3] for a in given]}: {got[differs][:3]} instead of {want[differs][:3]}"


def test_quantize_has_the_bits_of_a_division() -> None:
    """The scales are no extremes; the numbers are ties, their neighbours, and any."""
    rng = np.random.default_rng(4)
    scale = np.exp2(rng.uniform(-60, 60, 400_000)).astype(np.float32)
    halves = (rng.integers(-600, 600, scale.size) / 2).astype(np.float32)
    near = np.nextafter(halves * scale, rng.choice([-np.inf, np.inf], scale.size), dtype=np.float32)
    zero, low, high = (np.full(scale.size, value, np.float32) for value in (3, -128, 127))
    for a in (halves * scale, near, rng.normal(0, 50, scale.size).astype(np.float32) * scale):
        want = np.clip(np.rint(a / scale) + zero, low, high).astype(np.int32)
        np.testing.assert_array_equal(by_numpy(FUNCTIONS["quantize"], [a, scale, zero, low, high]), want)


def uniform(low: float, high: float) -> Array:
    return np.random.default_rng(2).uniform(low, high, 40_000)


def magnitudes(low: float, high: float) -> Array:
    """Return numbers of both signs, between two powers of two."""
    return np.exp2(uniform(low, high)) * np.where(np.arange(40_000) % 2, 1, -1)


@dataclass(frozen=True)
class Real:
    function: Callable[..., Array]
    ulp: float  # the largest error, in units of the last place
    arguments: tuple[Array, ...]


REAL = {
    "exp": Real(np.exp, 3, (uniform(-103, 88.7), magnitudes(-30, 6))),
    "log": Real(np.log, 1, (uniform(0.5, 2), np.abs(magnitudes(-149, 127)))),
    "log1p": Real(np.log1p, 2, (uniform(-0.9999999, 2), np.abs(magnitudes(-149, 127)))),
    "power": Real(np.power, 1, (uniform(0.01, 8), magnitudes(-20, 20))),
    "erf": Real(np.vectorize(math.erf, otypes=[np.float64]), 2, (uniform(-5, 5), magnitudes(-125, 3))),
    "sin": Real(np.sin, 2, (uniform(-1e4, 1e4), magnitudes(-140, 13))),
    "cos": Real(np.cos, 2, (uniform(-1e4, 1e4), magnitudes(-140, 13))),
    "tan": Real(np.tan, 4, (uniform(-1e4, 1e4), magnitudes(-140, 13))),
    "asin": Real(np.arcsin, 3, (uniform(-1, 1), magnitudes(-140, 0))),
    "acos": Real(np.arccos, 2, (uniform(-1, 1), magnitudes(-140, 0))),
    "atan": Real(np.arctan, 3, (uniform(-5, 5), magnitudes(-140, 127))),
    "sinh": Real(np.sinh, 3, (uniform(-89.4, 89.4), magnitudes(-140, 2))),
    "cosh": Real(np.cosh, 3, (uniform(-89.4, 89.4), magnitudes(-140, 2))),
    "asinh": Real(np.arcsinh, 3, (uniform(-5, 5), magnitudes(-140, 127))),
    "acosh": Real(np.arccosh, 3, (uniform(1, 5), np.abs(magnitudes(0, 127)))),
    "atanh": Real(np.arctanh, 3, (uniform(-1, 1), magnitudes(-140, -1))),
}


def test_every_elementary_function_is_compared_with_the_real_one() -> None:
    functions = FUNCTIONS.items()
    own = {name for name, function in functions if getattr(function.numpy, "__module__", "") == elementary.__name__}
    assert set(REAL) == own


@pytest.mark.parametrize("name", REAL)
def test_it_is_near_the_real_function(name: str) -> None:
    real = REAL[name]
    x = np.concatenate(real.arguments).astype(np.float32)
    given = [np.abs(x), np.roll(x, 1) * np.float32(8)] if name == "power" else [x]
    with np.errstate(all="ignore"):
        want = np.asarray(real.function(*(each.astype(np.float64) for each in given)))
        rounded = want.astype(np.float32)
        off = np.abs(by_numpy(FUNCTIONS[name], given) - want) / np.spacing(np.abs(rounded))
    off = np.where(np.isfinite(rounded) & (rounded != 0), off, 0)
    at = off.argmax()
    assert off[at] <= real.ulp, f"{off[at]} at {[each[at] for each in given]}"


@pytest.mark.parametrize("name", REAL)
def test_ends_and_zeros_give_the_results_of_c(name: str) -> None:
    ends = np.array(
        [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, -3.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32
    )
    function = FUNCTIONS[name]
    given = [np.array(each) for each in zip(*itertools.product(ends, repeat=function.arity), strict=True)]
    got = by_numpy(function, given)
    with np.errstate(all="ignore"):
        want = np.asarray(REAL[name].function(*given))
    is_end = (want == 0) | ~np.isfinite(want)
    if name in ("sin", "cos", "tan"):
        is_end &= np.abs(given[0]) != np.float32(3e38)
    assert np.array_equal(got[is_end], want[is_end], equal_nan=True)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    assert np.isfinite(got[~is_end]).all()


def test_a_sine_of_any_angle_is_at_most_one() -> None:
    x = magnitudes(13, 127).astype(np.float32)
    for name in ("sin", "cos"):
        assert np.abs(by_numpy(FUNCTIONS[name], [x])).max() <= 1


@pytest.mark.parametrize(("left", "right"), [(-0.0, 0.0), (0.0, -0.0)])
def test_of_two_zeros_the_positive_one_is_larger(left: float, right: float) -> None:
    given = [np.array([left], np.float32), np.array([right], np.float32)]
    assert not np.signbit(by_numpy(FUNCTIONS["maximum"], given))[0]
    assert np.signbit(by_numpy(FUNCTIONS["minimum"], given))[0]


@pytest.mark.parametrize(
    "name", [name for name, each in FUNCTIONS.items() if each.takes[0] == FLOAT and not each.result]
)
def test_nan_gives_nan(name: str) -> None:
    function = FUNCTIONS[name]
    if name in ("select", "power"):
        return
    one, nan = np.ones(1, np.float32), np.full(1, np.nan, np.float32)
    for at in range(function.arity):
        given = [nan if index == at else one for index in range(function.arity)]
        assert np.isnan(by_numpy(function, given)).all()


@pytest.mark.gpu
@pytest.mark.parametrize(("function", "dtype"), CASES, ids=[f"{function.name}-{dtype}" for function, dtype in CASES])
def test_a_gpu_has_the_bits_of_numpy(function: Function, dtype: str, gpu: Device) -> None:
    given = arguments_of(function, dtype)
    elements, made = given[0].size, function.result or dtype
    operands = tuple(Operand(str(array.dtype), elements) for array in given)
    arguments = ",".join(f"x{at}[i0]" for at in range(function.arity))
    problem = Map(operands, made, f"y={function.name}({arguments})", (elements,))
    assert mismatch(load(generator.default(problem, gpu.target), gpu), Sample(tuple(given))) is None
