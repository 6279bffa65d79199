"""The text of an expression: read as it was written, the same for equal expressions, for every shape."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

from qconv.torch.program import Constant, Described, Program, Step, program_of


def made(x: str = "x", y: str = "y") -> Program:
    """Return an expression that adds a number to x and resizes the sum."""
    steps = (
        Step("Add", (x, "one"), "sum", {}),
        Step("Resize", ("sum", "", "", "sizes"), y, {"mode": "nearest"}),
    )
    tensors = {
        x: Described("float32", ("s0", 3, 4)),
        "sum": Described("float32", ("s0", 3, 4)),
        y: Described("float32", ("s0", 3, "2*s0")),
    }
    constants = {"one": Constant("float32", (), (1.5,)), "sizes": Constant("int64", (3,), ("s0", 3, "2*s0"))}
    return Program((x,), steps, tensors, constants, True)


def test_a_text_is_read_as_it_was_written() -> None:
    renamed = made().renamed()
    assert Program.read(renamed.text) == renamed
    assert Program.read(made().text).text == made().text


def test_equal_expressions_have_equal_texts() -> None:
    assert made("a", "b").text != made().text
    assert made("a", "b").renamed().text == made().renamed().text


def test_shapes_follow_from_those_of_the_inputs() -> None:
    program = program_of(made().renamed().text)
    assert program.shape([(5, 3, 4)]) == (5, 3, 10)
    network = program.network([(2, 3, 4)])
    assert [layer.op for layer in network.layers] == ["Add", "Resize"]
    assert network.tensor(program.output).extents == (2, 3, 4)
    np.testing.assert_array_equal(network.constants[network.layers[1].inputs[3]], [2, 3, 4])


def test_lists_of_attributes_may_have_extents() -> None:
    step = Step("Slice", ("x",), "y", {"ends": ["s0 - 1", 3], "mode": "s0"})
    assert step.layer({"s0": 4}).attributes == {"ends": [3, 3], "mode": "s0"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "no",
        "[]",
        made().text.replace('"x","one"', '"z","one"'),
        made().text.replace('"tensors":{"x":', '"tensors":{"z":'),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"is not the text of an expression .*: give one that qconv\.torch\.lower wrote"
    ):
        program_of(text)


def test_another_count_of_inputs_is_refused() -> None:
    with pytest.raises(ValueError, match="2 inputs were given; the expression reads 1"):
        made().shape([(1, 3, 4), (1, 3, 4)])
