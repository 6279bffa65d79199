"""Problems of expressions: keys are canonical and read again, and what a kernel could not compute safely is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from random_expressions import map_of, maps

from qconv.expression import Map, Operand
from qconv.expression.function import COMPUTED
from qconv.expression.problem import draw, stored
from qconv.op import LARGEST
from qconv.ops import registry

RNG = np.random.default_rng(23)


def test_keys_are_canonical_and_read_again() -> None:
    for problem in maps(3, 150):
        again = registry.parse(str(problem))
        assert again == problem
        assert hash(again) == hash(problem)
        assert str(again) == str(problem)
        assert problem.root == again.root  # type: ignore[attr-defined]


def test_one_expression_has_one_key() -> None:
    one = map_of(
        (4, 6), "float32", ["float32*24", "int32*6!0..3"], "a = x0[i1 + 6*i0]; b = add(1, a) ;".replace("1,", "1.0,")
    )
    other = map_of((4, 6), "float32", ["float32*24", "int32*6!0..3"], "t9=x0[(i0*12+2*i1)/2];out=add(1.00,t9)")
    assert (
        str(one)
        == str(other)
        == "map:shape=4,6:in=float32*24,int32*6!0..3:out=float32:do=t0=x0[i0*6+i1];t1=add(1.0,t0)"
    )


def test_fields_come_in_any_order() -> None:
    assert registry.parse("map:do=t0=x0[i0]:out=int8:in=int8*3:shape=3") == map_of(
        (3,), "int8", ["int8*3"], "t0=x0[i0]"
    )


def test_a_problem_without_operands_or_axes() -> None:
    assert str(Map((), "float32", "y=1.5")) == "map:out=float32:do=t0=1.5"
    assert registry.compute(Map((), "float32", "y=1.5"), registry.Sample(()))[0].tolist() == 1.5


@pytest.mark.parametrize(
    ("operand", "text"),
    [
        (Operand("float16", 64), "float16*64"),
        (Operand("bool", 1, True), "bool*1!"),
        (Operand("int32", 8, True, -3, 7), "int32*8!-3..7"),
        (Operand("int64", LARGEST), f"int64*{LARGEST}"),
    ],
)
def test_operands(operand: Operand, text: str) -> None:
    assert operand.text == text
    assert Operand.of(text) == operand


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("float64*8", "type of an operand='float64' is not one of"),
        ("int8", "elements='' in a problem key must be an integer"),
        ("int8*0", "elements=0 must be between 1 and"),
        ("int8*-4", "elements=-4 must be between 1 and"),
        ("int8*2147483647", "elements=2147483647 must be between"),
        ("int8*8x", "elements='8x'"),
        ("int32*8!0..", "high=''"),
        ("int32*8!junk", "low='junk'"),
        ("int32*8!5..2", "a table is int32 and constant, with its least and largest value"),
        ("int8*8!0..7", "a table is int32 and constant"),
        ("int32*80..7", "elements='80..7'"),
    ],
)
def test_what_is_no_operand(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Operand.of(text)


def test_a_table_is_constant() -> None:
    with pytest.raises(ValueError, match="a table is int32 and constant"):
        Operand("int32", 8, False, 0, 7)
    with pytest.raises(ValueError, match="a table is int32 and constant"):
        Operand("int32", 8, True, 0)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "beyond the end": (
        {"do": "t0=x0[i0*6+i1+1]"},
        r"'x0\[i0 \* 6 \+ i1 \+ 1\]' reads elements 1 to 24 of 24: guard it",
    ),
    "before the beginning": ({"do": "t0=x0[i0*6+i1-1]"}, "reads elements -1 to 22 of 24: guard it"),
    "beyond the end behind a guard": ({"do": "t0=guarded(x0[i0*6+i1+12],0.0,i0-1,3)"}, "reads elements 18 to 35 of 24"),
    "a guard of another axis": ({"do": "t0=guarded(x0[i0*6+i1-1],0.0,i1,5)"}, "reads elements -1 to 21 of 24"),
    "beyond a table": ({"do": "t0=x0[x1[i0*2]]"}, r"'x1\[i0 \* 2\]' reads elements 0 to 6 of 4"),
    "a table of larger values": ({"do": "t0=x0[x1[i0]*9]"}, "reads elements 0 to 27 of 24"),
    "a table that is none": ({"do": "t0=x0[x0[i0]]"}, "no index"),
    "an index beyond int32": ({"do": "t0=x0[i0*1000000000%7]"}, "numbers up to 3000000000, beyond an int32"),
    "beyond int32 on the way": ({"do": "t0=x0[(i0*1000000000+i1)/7%24]"}, "beyond an int32"),
    "another type of output": (
        {"out": "int8"},
        "out=int8: the expression makes float32, which is stored as float32 or",
    ),
    "a type that is none": ({"out": "float8"}, "y_type='float8' is not one of"),
    "no expression": ({"do": ""}, "map has no do; it needs the expression"),
    "no output": ({"out": ""}, "map has no out"),
    "no extent": ({"shape": (0, 6)}, "shape=0 must be between 1 and"),
    "a text for an extent": ({"shape": "4,x"}, "shape='x'"),
    "too many elements": ({"shape": (2**16, 2**16)}, "the axes have 4294967296 elements; at most"),
    "too many operands": ({"in": ",".join(["int8*1"] * 33)}, "operands=33 must be between 0 and 32"),
    "a place behind the end": (
        {"do": "t0=looked_up(x0,bit_and(x1[i0],31))"},
        "a place in x0 is at most 31: clamp it to the operand's last element",
    ),
    "a place that is not clamped": ({"do": "t0=looked_up(x0,x1[i0])"}, r"a place is clamped, as in minimum\(maximum"),
    "a fold": ({"do": "t0=sum_of(x0[i0])"}, "sum_of combines the elements of a row; a map has no rows: use reduce"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_could_compute_is_refused(name: str) -> None:
    given, says = REFUSED[name]
    usual = {"shape": (4, 6), "in": "float32*24,int32*4!0..3", "out": "float32", "do": "t0=x0[i0*6+i1]"}
    Map.of(usual)
    with pytest.raises(ValueError, match=says):
        Map.of(usual | given)


@pytest.mark.parametrize(
    "do",
    [
        "t0=guarded(x0[i0*6+i1-1],0.0,i1-1,6)",
        "t0=guarded(x0[i0*6+i1-6],0.0,i0-1,3)",
        "t0=guarded(x0[(i0-1)*6+i1-1],0.0,i0-1,4,i1-1,6)",
        "t0=guarded(x0[(i0+3)/2*6+i1-6],0.0,(i0+1)%2,1)",
        "t0=x0[x1[i0]*6+i1]",
        "t0=guarded(x0[i0*6+100],0.0,i0-9,1)",
    ],
)
def test_reads_that_guards_keep_within_the_operand(do: str) -> None:
    map_of((4, 6), "float32", ["float32*24", "int32*4!0..3"], do)


def test_a_key_has_elements_at_places() -> None:
    key = "map:shape=4:in=int8*4,uint8*256!:out=uint8:do=t0=x0[i0];t1=bit_and(t0,255);t2=looked_up(x1,t1)"
    problem = registry.parse(key)
    assert str(problem) == key
    x, table = np.array([0, -1, -128, 127], np.int8), RNG.permutation(256).astype(np.uint8)
    (y,) = registry.compute(problem, registry.Sample((x, table)))
    assert y.tolist() == table[[0, 255, 128, 127]].tolist()


HOSTILE = {
    "unknown field": "map:shape=4:out=int8:x=1:do=t0=1",
    "twice": "map:shape=4:shape=4:out=int8:do=t0=1",
    "a flag": "map:shape",
    "a colon in the text": "map:shape=4:in=int8*4:out=int8:do=t0=x0[0:4]",
    "an integer of a thousand digits": f"map:shape=4:out=int32:do=t0={'9' * 5000}",
    "an extent of a thousand digits": f"map:shape={'9' * 5000}:out=int32:do=t0=1",
    "deep calls": f"map:shape=4:in=float32*4:out=float32:do=t0={'exp(' * 3000}x0[i0]{')' * 3000}",
    "deep parentheses": f"map:shape=4:in=int8*4:out=int32:do=t0=x0[{'(' * 5000}i0{')' * 5000}]",
    "a long sum": f"map:shape=4:in=int8*4:out=int32:do=t0=x0[{'+'.join(['i0'] * 20000)}]",
    "nested remainders": f"map:shape=2000:in=int8*4:out=int32:do=t0=x0[i0%{'%'.join(map(str, range(1999, 4, -1)))}]",
    "minus signs": f"map:shape=4:out=int32:do=t0={'-' * 5000}1",
    "a power": "map:shape=4:out=int32:do=t0=9**9**9**9",
    "a walrus": "map:shape=4:out=int32:do=t0=(a:=1)",
    "code": "map:shape=4:out=int32:do=t0=__import__('os')",
    "a null byte": "map:shape=4:out=int32:do=t0=1\0",
    "a line break": "map:shape=4:out=int32:do=t0=(1\n,",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_key_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as caught:
        registry.parse(HOSTILE[name])
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_key_is_a_problem_or_refused(seed: int) -> None:
    rng = random.Random(f"damage {seed}")
    for problem in maps(4, 6):
        key = list(str(problem))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(key))
            key[at : at + rng.randint(0, 2)] = rng.choice(
                ("", "9", "-", "(", ")", "i0", "x0", ";", ":", "=", ",", "!", "%")
            )
        try:
            again = registry.parse("".join(key))
        except ValueError:
            continue
        assert registry.parse(str(again)) == again


def test_random_data_are_of_the_whole_range_and_tables_are_valid() -> None:
    for name in COMPUTED:
        x = draw(map_of((1,), "int32", [f"{name}*9000"], "t0=1"), 1, {}).arrays[0]
        assert str(x.dtype) == name
        if x.dtype.kind in "iu" and x.dtype.itemsize == 1:
            assert (x.min(), x.max()) == (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        elif x.dtype.kind == "f":
            assert x.min() < -4
            assert 0 < np.abs(x).min() < 0.01
    table = draw(map_of((1,), "int32", ["int32*500!-2..3"], "t0=1"), 1, {}).arrays[0]
    assert set(table.tolist()) == {-2, -1, 0, 1, 2, 3}


def test_there_is_one_nan_in_memory() -> None:
    made = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    assert stored(made, "float32").view(np.uint32).tolist() == [0x7FC00000] * 3 + [0x3F800000]
    assert stored(made, "float16").view(np.uint16).tolist() == [0x7E00] * 3 + [0x3C00]
    assert stored(made, "bfloat16").view(np.uint16).tolist() == [0x7FC0] * 3 + [0x3F80]


def test_integers_wrap_when_they_are_stored() -> None:
    assert stored(np.array([300, -129, 2**31 - 1], np.int32), "int8").tolist() == [44, 127, -1]
    assert stored(np.array([1e6, -1e6], np.float32), "float16").tolist() == [np.inf, -np.inf]
    assert stored(np.array([3.4e38, 257, -1e6], np.float32), "bfloat16").tolist() == [np.inf, 256, -999424]
