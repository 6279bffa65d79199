"""The kernels of maps give the oracle's elements, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from float8_boundaries import float8_boundaries
from random_expressions import TYPICAL, map_of, maps

from qconv import generator
from qconv.device import open_device
from qconv.dtypes import ELEMENT_TYPES, FLOAT8
from qconv.errors import Infeasible
from qconv.expression import Map
from qconv.generator.families.expression import map as map_family
from qconv.generator.families.expression.branches import chains_of
from qconv.generator.families.expression.map import MapConfig, MapPlan
from qconv.instances.load.pair import load
from qconv.op import Sample
from qconv.ops import registry
from qconv.targets.target import TARGETS
from qconv.tuner.measure import sanitized
from qconv.tuner.measure.verification import mismatch

CPU = open_device("cpu")
# A normalization of groups: the scale and the offset of an image's group, then those of each channel.
GROUPS = (
    "a=to_float32(subtract(x0[i0*80+i1*16+i2*2+i3],x3[0]));b=multiply(subtract(a,x1[i0*8+i2]),x2[i2]);"
    "c=add(b,to_float32(x3[i2*2+i3]));y=quantize(c,x4[0],x4[1],0.0,255.0)"
)
# Tables of 256 entries for each channel, and for each channel of each image.
ROWS = "y=looked_up(x1,add(position(i1*256),bit_and(x0[i0*16+i1],255)))"
ROWS_OF_IMAGES = "y=looked_up(x1,add(position(i0*32768+i2*1024+i3*256),bit_and(x0[i0*1664+i1*128+i2*4+i3],255)))"
# Each with a config, and the operands that it reads as vectors.
NAMED: dict[str, tuple[Map, tuple[int, int, int], tuple[str, ...]]] = {
    "no axis": (map_of((), "float32", ["float16*1"], "y=exp(x0[0])"), (128, 1, 1), ()),
    "an axis of one, innermost": (
        map_of((5, 3, 1), "int16", ["int8*15"], "y=multiply(x0[i0*3+i1],300)"),
        (128, 1, 1),
        (),
    ),
    "an axis of one, outermost": (
        map_of((1, 960), "bool", ["bool*960"], "y=logical_not(x0[i1])"),
        (128, 8, 1),
        ("x0",),
    ),
    "vectors of 16 bytes, and a number per row": (
        map_of((17, 64), "float32", ["float32*1088", "float32*17"], "y=multiply(x0[i0*64+i1],x1[i0])"),
        (128, 4, 4),
        ("x0",),
    ),
    "vectors of two loads": (
        map_of((33, 32), "int64", ["int64*1056", "int8*32"], "y=add(x0[i0*32+i1],to_int64(x1[i1]))"),
        (128, 16, 1),
        ("x0", "x1"),
    ),
    "one operand read twice, once by vectors": (
        map_of((18, 16), "uint8", ["uint8*288"], "y=subtract(x0[i0*16+i1],x0[i1*18+i0])"),
        (128, 4, 1),
        ("x0",),
    ),
    "a vector of several groups": (
        map_of((30, 5, 8, 2), "uint8", ["uint8*2400", "float32*240", "float32*8!", "uint8*16!", "float32*2!"], GROUPS),
        (128, 16, 1),
        ("x0", "x3"),
    ),
    "rows of a table that lanes side by side look up": (
        map_of((83, 16), "uint8", ["uint8*1328", "uint8*4096"], ROWS),
        (128, 4, 1),
        ("x0",),
    ),
    "rows of a table that two lanes look up": (
        map_of((2, 13, 32, 4), "int8", ["int8*3328", "int8*65536"], ROWS_OF_IMAGES),
        (128, 4, 2),
        ("x0",),
    ),
    "a vector of parts of groups": (
        map_of(
            (80, 4, 3),
            "float32",
            ["int8*960", "int8*4", "int8*3"],
            "y=to_float32(add(add(x0[i0*12+i1*3+i2],x1[i1]),x2[i2]))",
        ),
        (128, 8, 1),
        ("x0",),
    ),
    "a vector of several rows inside or outside of an image": (
        map_of((70, 8, 4), "int8", ["int8*2208"], "y=guarded(x0[i0*32+i1*4+i2-32],position(i2),i0*32-32,2208)"),
        (128, 16, 2),
        ("x0",),
    ),
    "a vector of several rows, some outside of an image": (
        map_of((70, 8, 4), "int8", ["int8*1680"], "y=guarded(x0[i0*24+i1*4+i2-4],position(i1),i1-1,6)"),
        (128, 16, 1),
        (),
    ),
    "a vector of rows that are read as rows of another length": (
        map_of((70, 8, 4), "int8", ["int8*2240", "int8*6"], "y=add(x0[i0*32+i1*4+i2],x1[(i1*4+i2)/6])"),
        (128, 16, 1),
        ("x0",),
    ),
    "a row that a vector does not divide": (
        map_of((19, 16), "float16", ["float16*342"], "y=x0[i0*18+i1]"),
        (128, 4, 1),
        (),
    ),
    "an offset that a vector does not divide": (map_of((288,), "int8", ["int8*290"], "y=x0[i0+2]"), (128, 4, 1), ()),
    "vectors that a guard leaves out": (
        map_of((18, 16), "float32", ["float32*256"], "y=guarded(x0[i0*16+i1-16],2.5,i0-1,16)"),
        (128, 4, 1),
        ("x0",),
    ),
    "a guard of the innermost axis": (
        map_of((18, 16), "int32", ["int32*252"], "y=guarded(x0[i0*14+i1-1],-2147483648,i1-1,14)"),
        (128, 4, 1),
        (),
    ),
    "a guard that holds for a part of a vector": (
        map_of((18, 16), "int16", ["int16*288"], "y=guarded(x0[i0*16+i1],-7,i1,14)"),
        (128, 4, 1),
        (),
    ),
    "a table of rows": (
        map_of((35, 16), "float16", ["float16*112", "int32*35!0..6"], "y=x0[x1[i0]*16+i1]"),
        (128, 8, 1),
        ("x0",),
    ),
    "a table of neighbours": (
        map_of((17, 16), "int8", ["int8*272", "int32*16!0..15"], "y=x0[i0*16+x1[i1]]"),
        (128, 4, 1),
        (),
    ),
    "places that are values, in two tables": (
        map_of(
            (18, 16),
            "int8",
            ["int8*288", "int8*256!", "float32*8!", "int32*288"],
            "a=looked_up(x1,bit_and(x0[i0*16+i1],255));b=looked_up(x2,minimum(maximum(x3[i0*16+i1],0),7))"
            ";y=wrap_int8(add(a,to_int32(b)))",
        ),
        (128, 4, 1),
        ("x0", "x3"),
    ),
    "one rounding of a product and a sum": (
        map_of((320,), "float32", ["float32*320"], "y=fma(x0[i0],x0[i0],negate(multiply(x0[i0],x0[i0])))"),
        (128, 4, 1),
        ("x0",),
    ),
    "a depth to space": (
        map_of((3, 12, 16), "int8", ["int8*576"], "y=x0[((i1%2)*2+i2%2)*144+i0*48+i1/2*8+i2/2]"),
        (128, 2, 2),
        (),
    ),
    "positions": (map_of((17, 16), "int32", [], "y=multiply(position(i0*16+i1),position(i1))"), (128, 4, 1), ()),
    "a number": (map_of((320,), "int64", [], "y=long(-9223372036854775808)"), (128, 2, 1), ()),
    "numbers at the ends": (
        map_of((320,), "int32", ["int32*320"], "y=maximum(add(x0[i0],-2147483648),minimum(2147483647,x0[i0]))"),
        (128, 4, 1),
        ("x0",),
    ),
    "integers halfway between two halves": (
        map_of((2048,), "float16", [], "y=to_float32(add(position(i0),2048))"),
        (128, 8, 1),
        (),
    ),
    "bfloat16 in and out": (
        map_of((24, 40), "bfloat16", ["bfloat16*960", "float32*960"], "y=add(x0[i1*24+i0],to_bfloat16(x1[i0*40+i1]))"),
        (128, 4, 1),
        ("x1",),
    ),
    "infinities and NaN in bfloat16": (
        map_of((320,), "bfloat16", ["float32*320"], "y=select(less(x0[i0],0.0),nan,maximum(x0[i0],3.4e38))"),
        (128, 4, 1),
        ("x0",),
    ),
    "infinities and NaN": (
        map_of((320,), "float16", ["float32*320"], "y=select(less(x0[i0],-inf),nan,maximum(x0[i0],inf))"),
        (128, 4, 1),
        ("x0",),
    ),
    "the last block has few elements": (
        map_of((1037,), "float32", ["float32*1037"], "y=tanh(x0[i0])"),
        (256, 1, 2),
        (),
    ),
    "a quantized sum of halves": (
        map_of(
            (24, 40),
            "int8",
            ["float16*960", "int8*960", "float32*1!", "int8*1!"],
            "a=multiply(to_float32(subtract(x1[i0*40+i1],x3[0])),x2[0]);b=divide(add(x0[i0*40+i1],a),x2[0])"
            ";y=to_int32(minimum(maximum(round(b),-128.0),127.0))",
        ),
        (128, 8, 1),
        ("x0", "x1"),
    ),
}


def joined(rows: int, extents: Sequence[int], dtype: str = "int8", gap: int = 0, times: int = 3) -> Map:
    """Return branches one behind the other along the last axis, then a gap, each branch with a factor of its own."""
    whole, begins = sum(extents) + gap, list(accumulate(extents, initial=0))
    lines = [
        f"a{at}=multiply(guarded(x{at}[i0*{extent}+i1-{begin}],0,i1-{begin},{extent}),{times + at})"
        for at, (begin, extent) in enumerate(zip(begins, extents, strict=False))
    ]
    chain = str(-5)
    for at, end in reversed(list(enumerate(begins[1:]))):
        begin = begins[at]
        condition = f"bit_and(less_or_equal({begin},position(i1)),less(position(i1-{begin}),{end - begin}))"
        chain = f"select({condition if at else f'less(position(i1),{end})'},a{at},{chain})"
    operands = [f"{dtype}*{rows * extent}" for extent in extents]
    return map_of((rows, whole), "int32", operands, ";".join([*lines, f"y=add({chain},position(i0))"]))


# Each with a config, how many branches a vector chooses from (0: it computes all), and the operands read as vectors.
JOINED: dict[str, tuple[Map, tuple[int, int, int], int, tuple[str, ...]]] = {
    "vectors begin where branches do": (joined(19, (16, 8, 8)), (128, 4, 1), 3, ("x0", "x1", "x2")),
    "a bound within a vector": (joined(19, (16, 6, 10)), (128, 4, 1), 0, ("x0",)),
    "bounds within vectors, one by one": (joined(19, (16, 6, 10)), (128, 1, 2), 3, ()),
    "a gap": (joined(19, (8, 8, 16), gap=8), (128, 8, 1), 4, ("x0", "x1", "x2")),
    "two branches": (joined(19, (16, 16)), (128, 4, 1), 0, ("x0", "x1")),
    "branches along another axis": (
        map_of(
            (5, 64),
            "int8",
            ["int8*64", "int8*128", "int8*128"],
            "a=guarded(x0[i0*64+i1],0,i0,1);b=guarded(x1[i0*64+i1-64],0,i0-1,2);c=guarded(x2[i0*64+i1-192],0,i0-3,2)"
            ";y=select(less(position(i0),1),a,select(less(position(i0),3),b,c))",
        ),
        (128, 4, 1),
        3,
        ("x0", "x1", "x2"),
    ),
    "conditions that overlap, the first one first": (
        map_of(
            (9, 32),
            "int32",
            ["int32*288"] * 3,
            "y=select(less_or_equal(16,position(i1)),x0[i0*32+i1],select(less(position(i1),24),x1[i0*32+i1],x2[i0*32+i1]))",
        ),
        (128, 4, 1),
        3,
        ("x0", "x1", "x2"),
    ),
    "a branch that no element is of": (
        map_of(
            (9, 32),
            "int32",
            ["int32*288"] * 4,
            "y=select(less(position(i1),16),x0[i0*32+i1],select(less(position(i1),8),x1[i0*32+i1],"
            "select(less(position(i1),28),x2[i0*32+i1],x3[i0*32+i1])))",
        ),
        (128, 4, 1),
        3,
        ("x0", "x1", "x2", "x3"),
    ),
    "a condition on two axes": (
        map_of(
            (16, 32),
            "int32",
            ["int32*512"] * 3,
            "y=select(less(position(i0+i1),8),x0[i0*32+i1],select(less(position(i1),16),x1[i0*32+i1],x2[i0*32+i1]))",
        ),
        (128, 4, 1),
        0,
        ("x0", "x1", "x2"),
    ),
    "guards that a branch needs": (
        map_of(
            (9, 32),
            "int32",
            ["int32*36", "int32*288", "int32*288"],
            "y=select(less(position(i1),8),guarded(x0[i0*4+i1-4],-3,i1-4,4),select(less(position(i1),24),x1[i0*32+i1],"
            "x2[i0*32+i1]))",
        ),
        (128, 4, 1),
        3,
        ("x0", "x1", "x2"),
    ),
}


@pytest.mark.parametrize("name", JOINED)
def test_branches_are_the_oracles(name: str) -> None:
    problem, numbers, branches, operands = JOINED[name]
    plan = generator.plan(problem, MapConfig(*numbers), CPU.target)
    assert isinstance(plan, MapPlan)
    assert [len(chain) for chain in plan.chains.values()] == [branches] * bool(branches)
    assert tuple(dict.fromkeys(one.operand for one in plan.vectors)) == operands
    assert mismatch(load(plan, CPU), registry.draw(problem, 3)) is None


def test_a_branch_has_no_guard_that_holds_in_all_of_it() -> None:
    problem, numbers, *_ = JOINED["vectors begin where branches do"]
    text = generator.render(generator.plan(problem, MapConfig(*numbers), CPU.target)).text
    assert "static_cast<unsigned>(i1" not in text
    assert [line.strip() for line in text.splitlines() if "scalar::less(" in line and "if" in line] == [
        "if (scalar::less(first_i1, 16)) {",
        "else if (scalar::less(first_i1, 24)) {",
    ]


def test_a_search_makes_the_branches_of_a_problem_once_per_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(map_family, "chains_of", lambda *given: asked.append(given) or chains_of(*given))
    generator.default(joined(23, (16, 8, 8, 4)), TARGETS["sm_90a"])
    assert 0 < len(asked) <= len(map_family.CHOICES["vector"])


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60))
def test_many_random_branches(seed: int) -> None:
    rng = random.Random(f"branches {seed}")
    extents = [rng.choice((1, 3, 4, 8, 12, 16, 32)) for _ in range(rng.randint(2, 9))]
    problem = joined(
        rng.randint(1, 40), extents, rng.choice(("int8", "uint8", "int16", "int32")), rng.choice((0, 0, 4))
    )
    check(5, seed, problem)


def plan_of(name: str) -> MapPlan:
    problem, numbers, _ = NAMED[name]
    plan = generator.plan(problem, MapConfig(*numbers), CPU.target)
    assert isinstance(plan, MapPlan)
    return plan


@pytest.mark.turns
@pytest.mark.parametrize("name", NAMED)
def test_every_element_is_the_oracles(name: str) -> None:
    plan = plan_of(name)
    assert mismatch(load(plan, CPU), registry.draw(plan.problem, 3)) is None


@pytest.mark.parametrize("name", NAMED)
def test_what_is_contiguous_is_read_as_vectors(name: str) -> None:
    assert tuple(dict.fromkeys(one.operand for one in plan_of(name).vectors)) == NAMED[name][2]


def test_what_elements_have_in_common_is_loaded_once() -> None:
    before, of_group, of_element = generator.render(plan_of("a vector of several groups")).text.split("#pragma unroll")[
        :3
    ]
    assert [text.count("tile::load(args.x4") for text in (before, of_group, of_element)] == [2, 0, 0]
    assert [text.count("tile::load(args.x1 ") for text in (before, of_group, of_element)] == [0, 1, 0]


def test_a_warp_looks_up_few_rows() -> None:
    """A warp takes two vectors side by side in each of four rows, which have 32 vectors each."""
    plans = {name: plan_of(name) for name in ("rows of a table that two lanes look up", "a table of rows")}
    assert [plan.is_tall for plan in plans.values()] == [True, False]
    assert plans["rows of a table that two lanes look up"].row_vectors == 32
    text = generator.render(plans["rows of a table that two lanes look up"]).text
    assert "constexpr int ROWS = THREADS / ROW_VECTORS;" in text


def random_plan(seed: int, index: int, problem: Map) -> MapPlan:
    plans, _ = generator.space(problem, CPU.target)
    plan = random.Random(f"map {seed} {index} {problem}").choice(plans)
    assert isinstance(plan, MapPlan)
    return plan


def check(seed: int, index: int, problem: Map) -> None:
    plan = random_plan(seed, index, problem)
    assert mismatch(load(plan, CPU), registry.draw(problem, index)) is None, f"{problem} {plan.config}"


@pytest.mark.parametrize("index", range(6))
def test_random_expressions(index: int) -> None:
    check(1, index, maps(1, index + 1)[index])


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 20))
def test_many_random_expressions(first: int) -> None:
    for index, problem in enumerate(maps(2, first + 20)[first:], first):
        check(2, index, problem)


SANITIZED = (
    "vectors that a guard leaves out",
    "a vector of several groups",
    "a table of rows",
    "rows of a table that two lanes look up",
    "the last block has few elements",
)


@pytest.mark.turns
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("name", SANITIZED)
def test_nothing_is_found(name: str, sanitizer: sanitized.Sanitizer) -> None:
    plan = plan_of(name)
    assert sanitized.mismatch(plan, registry.draw(plan.problem, 5), sanitizer) is None


@pytest.mark.many
@pytest.mark.slow
@pytest.mark.parametrize("index", range(40))
def test_nothing_is_found_in_random_expressions(index: int) -> None:
    plan = random_plan(3, index, maps(3, index + 1)[index])
    for sanitizer in ("address", "thread"):
        found = sanitized.mismatch(plan, registry.draw(plan.problem, index), sanitizer)  # type: ignore[arg-type]
        assert found is None, f"{plan.problem} {plan.config} {sanitizer}"


@pytest.mark.turns
@pytest.mark.parametrize(
    ("sanitizer", "old", "new"),
    [
        ("address", "if (first < ELEMENTS) ", ""),
        ("thread", "* THREADS + tile::thread()", "* THREADS / 2 + tile::thread()"),
    ],
)
def test_a_planted_fault_is_found(sanitizer: sanitized.Sanitizer, old: str, new: str) -> None:
    plan = plan_of("the last block has few elements")
    text = generator.render(plan).text
    assert old in text
    report, _ = sanitized.run(plan, registry.draw(plan.problem, 5), sanitizer, source=text.replace(old, new))
    assert not report.clean


@pytest.mark.parametrize(
    ("shape", "numbers", "says"),
    [
        ((3, 5, 24), (128, 16, 1), "vector=16 divides no product of the last extents of shape=3,5,24"),
        ((), (128, 2, 1), "vector=2 divides no product of the last extents of shape=$"),
        ((4, 32), (256, 16, 4), r"elements of a tile \(the problem has 128\): 16384; at most 256"),
        ((4, 32), (256, 3, 1), "vector=3 is not one of 1, 2, 4, 8, 16"),
    ],
)
def test_what_a_config_cannot_serve(shape: tuple[int, ...], numbers: tuple[int, int, int], says: str) -> None:
    with pytest.raises(Infeasible, match=says):
        generator.plan(map_of(shape, "float32", [], "y=1.0"), MapConfig(*numbers), TARGETS["sm_90a"])


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "cpu"])
def test_a_default_reads_and_writes_16_bytes_of_a_large_copy(target: str) -> None:
    for dtype, elements in (("float32", 4), ("float16", 8), ("int8", 16)):
        plan = generator.default(map_of((2**22,), dtype, [f"{dtype}*{2**22}"], "y=x0[i0]"), TARGETS[target])
        assert isinstance(plan, MapPlan)
        assert plan.config.vector == elements
        assert plan.alignment == {"x0": 16, "y": 16}


@pytest.mark.parametrize(
    ("y_type", "operands", "do", "vector"),
    [
        ("float32", ["float32*4194304", "float32*2048"], "y=add(x0[i0*2048+i1],x1[i0])", 4),
        ("float16", ["int8*4194304", "float32*1!"], "y=multiply(to_float32(x0[i0*2048+i1]),x1[0])", 8),
        ("int8", ["int8*4194304"], "y=x0[i1*2048+i0]", 4),
        ("float32", ["float32*4194304"], "y=x0[i1*2048+i0]", 1),
        ("float32", ["float32*4194304"], "y=guarded(x0[i0*2048+i1-1],0.0,i1-1,2047)", 1),
        ("float32", [], "y=to_float32(position(i1))", 4),
        ("uint8", ["uint8*4194304", "uint8*4096"], "y=add(x0[i0*2048+i1],x1[i1*2])", 16),
        ("uint8", ["uint8*4194304", "uint8*8388608"], "y=add(x0[i0*2048+i1],x1[i0*4096+i1*2])", 4),
    ],
)
def test_a_default_has_vectors_of_what_is_contiguous(y_type: str, operands: list[str], do: str, vector: int) -> None:
    plan = generator.default(map_of((2048, 2048), y_type, operands, do), TARGETS["sm_90a"])
    assert isinstance(plan, MapPlan)
    assert plan.config.vector == vector


def test_a_default_has_vectors_of_several_groups() -> None:
    """A group of two channels would be read two bytes at a time."""
    plan = generator.default(TYPICAL["a normalization of groups"], TARGETS["sm_90a"])
    assert isinstance(plan, MapPlan)
    assert (plan.config.vector, plan.alignment["x0"]) == (16, 16)


def test_a_nan_has_the_same_bits_however_it_is_made() -> None:
    do = "a=x0[i0];b=add(subtract(a,a),divide(0.0,0.0));c=maximum(sqrt(-1.0),multiply(inf,0.0));y=maximum(b,c)"
    x = np.array([np.inf, -np.inf, np.nan, 1, 2, 3, 4, 5], np.float32)
    x.view(np.uint32)[2] |= 0x80000001
    for y_type in ("float32", "float16"):
        problem = map_of((8,), y_type, ["float32*8"], do)
        assert mismatch(load(generator.default(problem, CPU.target), CPU), Sample((x,))) is None


@pytest.mark.parametrize("dtype", FLOAT8)
def test_8_bit_floats_are_read_and_stored(dtype: str) -> None:
    """Every boundary of the rounding, infinities and NaN; and every number of the type."""
    x = float8_boundaries(dtype)
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[dtype].numpy)
    cases = (
        (map_of((len(x),), dtype, [f"float32*{len(x)}"], "y=x0[i0]"), x),
        (map_of((len(x),), "float32", [f"float32*{len(x)}"], f"y=to_{dtype}(x0[i0])"), x),
        (map_of((256,), "float32", [f"{dtype}*256"], "y=x0[i0]"), every),
        (map_of((256,), dtype, [f"{dtype}*256"], "y=negate(x0[255-i0])"), every),
    )
    for problem, array in cases:
        instance = load(generator.default(problem, CPU.target), CPU)
        assert mismatch(instance, Sample((array,))) is None, problem
