"""ONNX Runtime's QLinearMatMul and the QLinearAdd or QLinearMul of a vector behind it, as an oracle of a product with a
constant per channel: full-range models, tolerance 0."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, expected
from random_problems import FLAGS, Decks
from scales import near_ties, ties

from qconv import Conv2d, Quantization
from qconv.ops import registry

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'qconv-tune[test]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'qconv-tune[test]'")

from nodes_by_ort import y_of  # noqa: E402 # it needs both

# Without VNNI, ONNX Runtime saturates sums of uint8 * int8.
TYPES = ("uint8", "int8")
COUNT, CHUNK = 48, 12


def _problems(count: int) -> list[Conv2d]:
    rng = random.Random("constant")
    decks, made = Decks(rng), []
    for index in range(count):
        dtype = TYPES[index % len(TYPES)]
        flags = {name: decks.deal(name, FLAGS) for name in ("x_zero_point", "w_zero_point", "y_zero_point")}
        q = Quantization(
            dtype, dtype, dtype, per_channel=decks.deal("per_channel", FLAGS), constant=decks.deal("constant", WAYS),
            **flags,
        )  # fmt: skip
        rows, c, k = rng.choice((1, 3, 17)), rng.choice((1, 7, 64)), rng.choice((2, 5, 40))
        made.append(Conv2d(1, 1, rows, c, k, 1, 1, quantization=q))
    return made


# With the vector as the first operand ONNX Runtime begins with the product; as the second, with the vector.
WAYS = ("added", "added_first", "multiplied")
PROBLEMS = _problems(COUNT)


def infer(problem: Conv2d, drawn: registry.Sample) -> Any:
    """Run a model of two nodes."""
    q, p, helper = problem.quantization, problem.checked(drawn.parameters), onnx.helper
    channels = (problem.k,) if q.per_channel else ()
    constants = {
        "w": drawn.arrays[1].reshape(problem.k, problem.c).T,
        "w_scale": np.broadcast_to(np.float32(p.w_scale), channels),
        "w_zero": np.broadcast_to(np.asarray(p.w_zero_point, q.w_type), channels),
        "constant": p.constant.astype(q.x_type),
    }
    for name in ("x", "own", "constant", "y"):
        constants[f"{name}_scale"] = np.float32(getattr(p, f"{name}_scale"))
        constants[f"{name}_zero"] = np.dtype(q.x_type).type(getattr(p, f"{name}_zero_point"))
    read = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "own_scale", "own_zero"]
    own, added = (("own", "own_scale", "own_zero"), ("constant", "constant_scale", "constant_zero"))
    first, second = (added, own) if q.constant == "added" else (own, added)
    op = "QLinearMul" if q.constant == "multiplied" else "QLinearAdd"
    nodes = [
        helper.make_node("QLinearMatMul", read, ["own"]),
        helper.make_node(op, [*first, *second, "y_scale", "y_zero"], ["y"], domain="com.microsoft"),
    ]
    x = drawn.arrays[0].reshape(problem.pixels, problem.c)
    return y_of(nodes, {"x": x}, constants, (problem.pixels, problem.k)).reshape(problem.y_shape)


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_the_oracle(first: int) -> None:
    """Covers two generic draws, one of ties and one of near ties."""
    for index in range(first, first + CHUNK):
        problem = PROBLEMS[index]
        made = [registry.draw(problem, 4 * index + draw) for draw in range(4)]
        for drawn in (*made[:2], ties(made[2]), near_ties(problem, made[3], index)):
            assert_same(expected(problem, drawn), infer(problem, drawn), str(problem))
