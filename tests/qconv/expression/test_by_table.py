"""Maps as tables and lookups: which ones become two maps, and that their bits stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from expressed_layers import model_of_nodes
from onnx import helper
from session_comparison import RUNS

from qconv.expression import by_table as module
from qconv.expression.by_table import ByTable, by_table
from qconv.expression.map import Map, compute
from qconv.onnx import Session
from qconv.op import Sample
from qconv.ops import registry
from qconv.ops.registry import parse

IMAGES, PIXELS, GROUPS, OF_GROUP = 3, 512, 4, 2
CHANNELS = GROUPS * OF_GROUP
SHAPE = f"map:shape={IMAGES},{PIXELS},{GROUPS},{OF_GROUP}"
X = "x0[i0*4096+i1*8+i2*2+i3]"
# A mean of each group, a factor of each channel, and a quantization.
NORMALIZED = (
    f"t0={X};t1=to_float32(t0);t2=x1[i0*4+i2];t3=subtract(t1,t2);t4=x2[i2*2+i3];t5=multiply(t3,t4);"
    "t6=quantize(t5,0.05,7.0,{low},{high})"
)
LIMITS = {"uint8": ("0.0", "255.0"), "int8": ("-128.0", "127.0")}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a lookup and a launch take no time, and few elements have a table."""
    monkeypatch.setattr(module, "LOOKUP", 0)
    monkeypatch.setattr(module, "LAUNCH", 0)
    monkeypatch.setattr(module, "LEAST_SHARED", 1)


def normalized(dtype: str, mean: str = f"float32*{IMAGES * GROUPS}") -> Any:
    low, high = LIMITS[dtype]
    given = f"{dtype}*{IMAGES * PIXELS * CHANNELS},{mean},float32*{CHANNELS}!"
    return parse(f"{SHAPE}:in={given}:out={dtype}:do={NORMALIZED.format(low=low, high=high)}")


def arrays_of(problem: Map, seed: int = 3) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    made = []
    for operand in problem.operands:
        if operand.dtype == "float32":
            made.append(rng.standard_normal(operand.elements).astype(np.float32))
        else:
            limits = np.iinfo(operand.dtype)
            made.append(rng.integers(limits.min, limits.max, operand.elements, operand.dtype, endpoint=True))
    return tuple(made)


def looked_up(split: ByTable, arrays: tuple[Any, ...]) -> Any:
    (table,) = compute(split.table, Sample(tuple(arrays[at] for at in split.others)))
    (y,) = compute(split.lookup, Sample((arrays[split.byte], table.reshape(-1))))
    return y


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_bits_are_the_same(dtype: str) -> None:
    problem = normalized(dtype)
    split = by_table(problem)
    assert split is not None
    assert not split.is_constant
    assert split.table.shape == (IMAGES, GROUPS, OF_GROUP, 256)
    arrays = arrays_of(problem)
    (want,) = compute(problem, Sample(arrays))
    assert np.unique(want).size > 100
    np.testing.assert_array_equal(looked_up(split, arrays), want)


def test_a_table_of_constants_is_made_once() -> None:
    low, high = LIMITS["uint8"]
    text = NORMALIZED.format(low=low, high=high).replace("x1[i0*4+i2]", "x1[i2]")
    given = f"uint8*{IMAGES * PIXELS * CHANNELS},float32*{GROUPS}!,float32*{CHANNELS}!"
    problem = parse(f"{SHAPE}:in={given}:out=uint8:do={text}")
    assert isinstance(problem, Map)
    split = by_table(problem)
    assert split is not None
    assert split.is_constant
    assert split.table.shape == (GROUPS, OF_GROUP, 256)
    arrays = arrays_of(problem)
    np.testing.assert_array_equal(looked_up(split, arrays), compute(problem, Sample(arrays))[0])


def test_entries_of_other_tables_keep_their_place() -> None:
    """A table of indices, and a table of a function, both constants."""
    text = f"t0={X};t1=bit_and(t0,255);t2=looked_up(x1,t1);t3=x2[x3[i2]];t4=add(t2,t3);t5=wrap_uint8(t4)"
    given = f"uint8*{IMAGES * PIXELS * CHANNELS},uint8*256!,int32*9,int32*{GROUPS}!0..8"
    problem = parse(f"{SHAPE}:in={given}:out=uint8:do={text}")
    assert isinstance(problem, Map)
    split = by_table(problem)
    assert split is not None
    arrays = (*arrays_of(problem)[:3], np.array([8, 0, 5, 2], np.int32))
    np.testing.assert_array_equal(looked_up(split, arrays), compute(problem, Sample(arrays))[0])


ELEMENTS = IMAGES * PIXELS * CHANNELS
AT = X.removeprefix("x0")
NONE = {
    "two bytes of each pixel": f"in=uint8*{ELEMENTS},uint8*{ELEMENTS}:out=uint8:do=t0={X};t1=x1{AT};t2=maximum(t0,t1)",
    "floats": f"in=float32*{ELEMENTS}:out=uint8:do=t0={X};t1=quantize(t0,0.1,0.0,0.0,255.0)",
    "a float output": f"in=uint8*{ELEMENTS}:out=float32:do=t0={X};t1=to_float32(t0);t2=exp(t1)",
    "a number of each pixel": f"in=uint8*{ELEMENTS},uint8*{PIXELS}:out=uint8:do=t0={X};t1=x1[i1];t2=maximum(t0,t1)",
    "a byte outside": f"in=uint8*{ELEMENTS}:out=uint8:do=t0=guarded({X},0,i1,500);t1=add(t0,x0[0]);t2=wrap_uint8(t1)",
}


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_maps_that_stay_one(text: str) -> None:
    problem = parse(f"{SHAPE}:{text}")
    assert isinstance(problem, Map)
    assert by_table(problem) is None


def test_the_first_pixel_of_each_channel_is_as_a_number_of_it() -> None:
    problem = parse(f"{SHAPE}:in=uint8*{ELEMENTS}:out=uint8:do=t0={X};t1=x0[i0*4096+i2*2+i3];t2=maximum(t0,t1)")
    assert isinstance(problem, Map)
    split = by_table(problem)
    assert split is not None
    arrays = arrays_of(problem)
    np.testing.assert_array_equal(looked_up(split, arrays), compute(problem, Sample(arrays))[0])


def random_map(seed: int) -> Any:
    """Return a function of a byte and of operands of some axes, or of tables of their indices."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice(["uint8", "int8"])
    shape = [int(extent) for extent in rng.integers(1, 6, rng.integers(2, 5))]

    def place(axes: list[int]) -> str:
        """Return the place in a contiguous operand of these axes."""
        terms = [f"i{axis}*{int(np.prod([shape[each] for each in axes[at + 1 :]]))}" for at, axis in enumerate(axes)]
        return "+".join(terms) or "0"

    operands, value = [f"{dtype}*{np.prod(shape)}"], f"to_float32(x0[{place(list(range(len(shape))))}])"
    for _ in range(rng.integers(1, 6)):
        axes = sorted(rng.choice(len(shape), rng.integers(0, len(shape)), replace=False).tolist())
        name = f"x{len(operands)}"
        operands.append(f"float32*{max(1, int(np.prod([shape[axis] for axis in axes])))}" + "!" * rng.integers(0, 2))
        at = place(axes)
        if axes and rng.integers(0, 3) == 0:  # in the order of a table
            at = f"x{len(operands)}[{at}]"
            entries = int(np.prod([shape[axis] for axis in axes]))
            operands.append(f"int32*{entries}!0..{entries - 1}")
        value = f"{rng.choice(['add', 'multiply', 'maximum'])}({value},{name}[{at}])"
    low, high = LIMITS[str(dtype)]
    text = f"y=quantize({value},0.05,3.0,{low},{high})"
    return parse(f"map:shape={','.join(map(str, shape))}:in={','.join(operands)}:out={dtype}:do={text}")


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_maps(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_SHARED", 0)
    monkeypatch.setattr(module, "LOOKUP", -(2**40))
    found = 0
    for seed in range(first, first + 40):
        problem = random_map(seed)
        split = by_table(problem)
        if split is not None:
            found += 1
            drawn = registry.draw(problem, seed)
            np.testing.assert_array_equal(looked_up(split, drawn.arrays), compute(problem, drawn)[0], str(problem))
    assert found > 10


def test_a_table_has_to_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = normalized("uint8")
    entries, elements = IMAGES * CHANNELS * 256, problem.elements
    assert by_table(problem) is not None
    monkeypatch.setattr(module, "LEAST_SHARED", elements // entries + 1)
    assert by_table(problem) is None
    monkeypatch.setattr(module, "LEAST_SHARED", 1)
    cost = 13  # to_float32, subtract, multiply, quantize
    monkeypatch.setattr(module, "LAUNCH", (elements - entries) * cost - 1)
    assert by_table(problem) is not None
    monkeypatch.setattr(module, "LAUNCH", (elements - entries) * cost)
    assert by_table(problem) is None
    monkeypatch.setattr(module, "LAUNCH", 0)
    monkeypatch.setattr(module, "LOOKUP", cost)
    assert by_table(problem) is None


def gated(is_constant: bool) -> tuple[Any, dict[str, Any]]:
    """Return a factor of each channel between bytes, of each image or constant."""
    rng = np.random.default_rng(5)
    c, size = 8, 32
    factors = rng.standard_normal((1 if is_constant else 2, c, 1, 1)).astype(np.float32)
    feeds = {"x": rng.integers(0, 255, (2, c, size, size), np.uint8, endpoint=True)}
    constants: dict[str, Any] = {"s": np.float32(0.03), "z": np.uint8(120), "t": np.float32(0.02), "u": np.uint8(131)}
    (constants if is_constant else feeds)["w"] = factors
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["real"]),
        helper.make_node("Mul", ["real", "w"], ["scaled"]),
        helper.make_node("Tanh", ["scaled"], ["n"]),
        helper.make_node("QuantizeLinear", ["n", "t", "u"], ["y"]),
    ]
    return model_of_nodes(nodes, feeds, constants), feeds


@pytest.mark.parametrize("is_constant", [False, True], ids=["of each image", "constant"])
def test_a_session_runs_two_kernels(is_constant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = gated(is_constant)
    split = Session(model, "cpu")
    others = {name: array[::-1].copy() for name, array in feeds.items()}
    got = [split.run(None, fed)[0] for fed in (feeds, others) * RUNS]
    keys = [str(problem) for problem in split.problems]
    assert sum("looked_up(x1,t" in key and "position" in key for key in keys) == 1
    monkeypatch.setattr(module, "LEAST_SHARED", 2**20)
    whole = Session(model, "cpu")
    want = [whole.run(None, fed)[0] for fed in (feeds, others)] * RUNS
    assert len(whole.problems) == len(keys) - (not is_constant)
    for one, wanted in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, wanted)
