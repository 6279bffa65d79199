"""Guarded values: a guard that always holds, or never, needs no condition, and plain elements need no function."""

from __future__ import annotations

from qconv.expression import Axis, Guard, Index, Number, call
from qconv.network.expressions.guarding import guarded
from qconv.network.expressions.lazy import Element

AXIS = Index.of(Axis("i0", 8))
ZERO, ONE = Number(0.0), Number(1.0)


def element(at: Index) -> Element:
    return Element("x", (at,), "float32")


def test_a_guard_that_always_holds_is_left_out() -> None:
    assert guarded(element(AXIS), [Guard(AXIS, 8)], ZERO) == element(AXIS)


def test_where_a_guard_never_holds_nothing_is_read() -> None:
    assert guarded(element(AXIS), [Guard(AXIS + 8, 8)], ONE) == ONE
    assert guarded(element(AXIS), [Guard(AXIS - 8, 8)], ONE) == ONE


def test_guards_with_one_fill_join() -> None:
    inner = guarded(element(AXIS - 1), [Guard(AXIS - 1, 8)], ZERO)
    outer = guarded(inner, [Guard(AXIS - 2, 4)], ZERO)
    assert outer == Element("x", (AXIS - 1,), "float32", (Guard(AXIS - 1, 8), Guard(AXIS - 2, 4)), ZERO)


def test_guards_with_two_fills_are_a_choice() -> None:
    """Elements that a guarded axis does not reach are read as they are."""
    other = Element("scale", (Index(),), "float32")
    node = guarded(call("multiply", element(AXIS - 2), other), [Guard(AXIS - 2, 4)], ONE)  # type: ignore[arg-type]
    assert node.function == "select"
    condition, inside, fill = node.arguments
    assert fill == ONE
    assert inside.arguments == (Element("x", (AXIS - 2,), "float32", (Guard(AXIS - 2, 4),), ZERO), other)
    assert [each.function for each in condition.arguments] == ["less_or_equal", "less"]
