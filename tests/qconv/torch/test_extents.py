"""Dynamic extents, from the shapes of inputs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from qconv.torch.extents import known_extents, value_of


@pytest.mark.parametrize(
    ("extent", "value"),
    [(7, 7), ("s0", 5), ("2*s0 + 1", 11), ("(((s1 - 3)//2)) + 1", 4), ("-(s0 % 3)", -2), ("s0*(s1 - 8)", 5)],
)
def test_extents(extent: int | str, value: int) -> None:
    assert value_of(extent, known_extents([("s0", 3), ("s1",)], [(5, 3), (9,)])) == value


def test_a_whole_expression_may_be_known() -> None:
    known = known_extents([("s0 // 2", 3)], [(5, 3)])
    assert value_of("s0//2 + 1", known | {"s0 // 2": 5}) == 6
    assert value_of("s0 // 2", known) == 5


@pytest.mark.parametrize("extent", ["s9", "s0.real", "f(s0)", "s0 if s0 else 1"])
def test_other_texts_are_refused(extent: str) -> None:
    with pytest.raises(ValueError, match="does not follow from those of the inputs, s0"):
        value_of(extent, {"s0": 3})


@pytest.mark.parametrize("shape", [(5, 3, 1), (5, 4)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"an input has the shape .*; the expression reads one of \('s0', 3\)"):
        known_extents([("s0", 3)], [shape])
