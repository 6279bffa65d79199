"""Expressions are read as they are written, and what is none is refused by name."""

from __future__ import annotations

import random

import numpy as np
import pytest
from random_expressions import Drawer

from qconv.expression import Axis, Call, Guard, Index, Load, Node, Number, Position, call
from qconv.expression.function import BOOL, FLOAT, INT, LONG
from qconv.expression.node import Evaluation, Lookup, in_order, most_of, parsed, replaced, statements, text_of

AXES = (Axis("i0", 6), Axis("i1", 4))
OPERANDS = {"x0": "float16", "x1": "int8", "x2": "int64", "x3": "bool", "x4": "int32"}
LOADS = {
    dtype: Load(name, Index.of(AXES[0]), dtype)
    for name, dtype in (("x0", FLOAT), ("x1", INT), ("x2", LONG), ("x3", BOOL))
}


def read(text: str) -> Node:
    return parsed(text, {axis.name: axis for axis in AXES}, OPERANDS, {"x4": (0, 5)})


@pytest.mark.parametrize("dtype", [FLOAT, INT, LONG, BOOL])
def test_random_expressions_are_read_as_they_are_written(dtype: str) -> None:
    for seed in range(60):
        drawer = Drawer(random.Random(f"nodes {dtype} {seed}"), AXES)
        root = drawer.node(dtype, 5)
        operands = {f"x{at}": operand.dtype for at, operand in enumerate(drawer.operands)}
        ranges = {
            f"x{at}": (one.low, one.high)
            for at, one in enumerate(drawer.operands)
            if one.low is not None and one.high is not None
        }
        again = parsed(text_of(root), {axis.name: axis for axis in AXES}, operands, ranges)
        assert text_of(again) == text_of(root)
        assert again.dtype == root.dtype


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Number(0.1), "0.10000000149011612"),
        (Number(-0.0), "-0.0"),
        (Number(float("nan")), "nan"),
        (Number(-float("inf")), "-inf"),
        (Number(1e39), "inf"),
        (Number(3), "3.0"),
        (Number(-(2**31), INT), "-2147483648"),
        (Number(-(2**63), LONG), "long(-9223372036854775808)"),
        (Number(1, BOOL), "True"),
    ],
)
def test_numbers(number: Number, text: str) -> None:
    assert number.text == text
    assert read(f"t0={text}") == number


def test_zeros_of_two_signs_are_two_numbers_and_nan_is_one() -> None:
    both = call("divide", Number(0.0), Number(-0.0))
    assert [node.text for node in in_order(both) if isinstance(node, Number)] == ["0.0", "-0.0"]
    assert Number(float("nan")) == Number(float("nan"))
    assert Number(1.0) != Number(1, INT)


def test_equal_nodes_are_one_statement() -> None:
    x = LOADS[FLOAT]
    twice = call("add", call("exp", x), call("exp", Load("x0", Index.of(AXES[0]), FLOAT)))
    assert [each.text for each in statements(twice)] == ["x0[i0]", "exp(t0)", "add(t1, t1)"]
    assert text_of(read("a=x0[i0];b=exp(a);c=exp(x0[i0]);d=add(b,c)")) == text_of(twice)


def test_a_number_stands_in_its_call_unless_it_is_the_result() -> None:
    assert text_of(Number(2.0)) == "t0=2.0"
    assert text_of(call("add", LOADS[FLOAT], Number(2.0))) == "t0=x0[i0];t1=add(t0,2.0)"


def test_a_guard_and_what_takes_its_place() -> None:
    load = Load("x0", Index.of(AXES[0]) - 1, FLOAT, (Guard(Index.of(AXES[0]) - 1, 4),), Number(0.0))
    assert text_of(load) == "t0=guarded(x0[i0-1],0.0,i0-1,4)"
    assert read(text_of(load)) == load
    axes = {"i0": np.arange(6).reshape(6, 1), "i1": np.arange(4)}
    got = Evaluation(axes, {"x0": np.arange(4, dtype=np.float16) + 1})(load)
    assert got.dtype == np.float32
    assert got.ravel().tolist() == [0, 1, 2, 3, 4, 0]


def test_positions() -> None:
    node = read("t0=position(i0*4+i1)")
    assert node == Position(Index.of(AXES[0]) * 4 + Index.of(AXES[1]))
    got = Evaluation({"i0": np.arange(6).reshape(6, 1), "i1": np.arange(4)}, {})(node)
    assert (got.dtype, got.ravel().tolist()) == (np.int32, list(range(24)))


INTEGER = LOADS[INT]


@pytest.mark.parametrize(
    ("place", "text", "most"),
    [
        (call("bit_and", INTEGER, Number(255, INT)), "bit_and(t0,255)", 255),
        (call("minimum", call("maximum", INTEGER, Number(0, INT)), Number(9, INT)), "minimum(t1,9)", 9),
        (call("bit_and", INTEGER, Number(0, INT)), "bit_and(t0,0)", 0),
        (call("bit_and", INTEGER, Number(-1, INT)), "", None),
        (call("minimum", INTEGER, Number(9, INT)), "", None),
        (call("minimum", call("maximum", INTEGER, Number(-1, INT)), Number(9, INT)), "", None),
        (call("minimum", call("maximum", INTEGER, Number(0, INT)), Number(-9, INT)), "", None),
        (call("minimum", call("maximum", INTEGER, Number(0, INT)), INTEGER), "", None),
        (call("add", INTEGER, Number(9, INT)), "", None),
        (INTEGER, "", None),
        (Number(3, INT), "", None),
    ],
)
def test_a_place_is_a_clamped_value(place: Node, text: str, most: int | None) -> None:
    assert most_of(place) == most
    looked_up = Lookup("x0", place, FLOAT)
    if most is not None:
        assert text_of(looked_up).endswith(f"={text};t{text.count('t1') + 2}=looked_up(x0,t{text.count('t1') + 1})")
        assert read(text_of(looked_up)) == looked_up
    else:
        with pytest.raises(ValueError, match=r"a place is clamped, as in minimum\(maximum\(t0,0\),255\)"):
            read(text_of(looked_up))


def test_an_element_at_a_place_has_the_type_of_its_operand() -> None:
    for name, dtype in (("x0", FLOAT), ("x1", INT), ("x2", LONG), ("x3", BOOL)):
        assert read(f"t0=looked_up({name},bit_and(x1[i0],3))").dtype == dtype


def test_elements_at_places() -> None:
    root = read("t0=looked_up(x0,bit_and(x1[i0],3))")
    table, at = np.array([1.5, -2, 0.25, 8], np.float16), np.array([0, 1, 2, 3, -1, 127], np.int8)
    axes = {"i0": np.arange(6), "i1": np.arange(1)}
    got = Evaluation(axes, {"x0": table, "x1": at})(root)
    assert got.dtype == np.float32
    assert got.tolist() == table[at & 3].tolist()


def test_the_place_of_an_element_is_replaced() -> None:
    root = read("t0=looked_up(x0,bit_and(x1[i0],3))")
    made = replaced(root, lambda node: Number(7, INT) if node == INTEGER else None)
    assert text_of(made) == "t0=bit_and(7,3);t1=looked_up(x0,t0)"


def test_a_deep_expression_has_no_deep_recursion() -> None:
    lines = ["t0=x0[i0]", *(f"t{at + 1}=add(t{at},1.0)" for at in range(4000))]
    root = read(";".join(lines))
    assert len(in_order(root)) == 4002
    assert text_of(replaced(root, lambda node: None)) == ";".join(lines)
    chain: Node = LOADS[FLOAT]
    for _ in range(4000):
        chain = call("negate", chain)
    assert len(in_order(chain)) == 4001


def test_equal_halves_are_compared_without_their_arguments() -> None:
    """Each statement is written twice: comparing them through would double with every line."""
    lines = ["a0=x0[i0]", "b0=x0[i0]"]
    lines += [f"{name}{at + 1}=add({name}{at},{name}{at})" for at in range(200) for name in "ab"]
    root = read(";".join([*lines, "y=subtract(a200,b200)"]))
    assert isinstance(root, Call)
    assert root.arguments[0] is root.arguments[1]


def test_nodes_are_replaced() -> None:
    root = read("t0=x0[i0];t1=exp(t0);t2=guarded(x0[i0-1],t1,i0-1,4);t3=add(t1,t2)")
    made = replaced(root, lambda node: Number(2.0) if node == LOADS[FLOAT] else None)
    assert text_of(made) == "t0=exp(2.0);t1=guarded(x0[i0-1],t0,i0-1,4);t2=add(t0,t1)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("t0", "a statement is name=expression"),
        ("t0=t1=x0[i0]", "a statement is name=expression"),
        ("t0+=x0[i0]", "a statement is name=expression"),
        ("import os", "a statement is name=expression"),
        ("t0=x0[i0", "cannot be read"),
        ("t0=x0[i0]\0", "cannot be read"),
        ("t0=x9[i0]", "operands are x0, x1, x2, x3, x4"),
        ("t0=expp(x0[i0])", "no function 'expp'; it has add, subtract"),
        ("t0=add(x0[i0])", "add takes 2 arguments; 1 were given"),
        ("t0=add(x0[i0],x1[i0])", r"add\(float32, int32\): its arguments are of one type"),
        ("t0=floor(x1[i0])", r"floor\(int32\).*one of float32"),
        ("t0=select(x1[i0],1,2)", r"select\(int32, int32, int32\)"),
        ("t0=add(x0[i0],1.0,more=2)", "no number, element or function"),
        ("t0=x0[i0]+1.0", "no number, element or function"),
        ("t0=t5", "no number, element or function"),
        ("t0='text'", "no number, element or function"),
        ("t0=2147483648", "a number of int32 is between -2147483648 and 2147483647"),
        ("t0=long(9223372036854775808)", "a number of int64 is between"),
        ("t0=long(1.5)", "it is written long"),
        ("t0=position()", "it is written position"),
        ("t0=-True", "a number of int32"),
        ("t0=guarded(x0[i0],0,i0,4)", "its element is float32, and int32 takes its place: convert it"),
        ("t0=guarded(x0[i0],0.0,i0,0)", "the extent of a guard is a positive integer"),
        ("t0=guarded(x0[i0],0.0,i0,2.5)", "the extent of a guard is a positive integer"),
        ("t0=guarded(x0[i0],0.0)", "it is written guarded"),
        ("t0=guarded(1.0,0.0,i0,4)", "it is written guarded"),
        ("t0=x0[i0:i1]", "no index"),
        ("t0=looked_up(x9,bit_and(x1[i0],3))", "the operands are x0, x1, x2, x3, x4"),
        ("t0=looked_up(x0[i0],bit_and(x1[i0],3))", "the operands are x0, x1, x2, x3, x4"),
        ("t0=looked_up(x0,x1[i0])", r"'x1\[i0\]' in an expression: a place is clamped"),
        ("t0=looked_up(x0,bit_and(x2[i0],long(3)))", "a place is clamped"),
        ("t0=looked_up(x0)", r"it is written looked_up\(x0,t1\)"),
        ("t0=fma(x0[i0],x0[i0])", "fma takes 3 arguments; 2 were given"),
        ("t0=fma(x1[i0],x1[i0],x1[i0])", r"fma\(int32, int32, int32\).*one of float32"),
        ("t0=(lambda: 1)()", "no number, element or function"),
    ],
)
def test_what_is_no_expression(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(text)


def test_a_thousand_too_many_statements_are_refused() -> None:
    with pytest.raises(ValueError, match="5001 statements; at most 4096"):
        read(";".join(f"t{at}=x0[i0]" for at in range(5001)))


def test_a_function_is_checked_where_it_is_called() -> None:
    with pytest.raises(ValueError, match="no function 'nothing'"):
        call("nothing", LOADS[INT])
    with pytest.raises(ValueError, match=r"bit_and\(float32, float32\).*int32, int64, bool"):
        call("bit_and", LOADS[FLOAT], LOADS[FLOAT])
