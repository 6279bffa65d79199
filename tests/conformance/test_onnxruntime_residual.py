"""ONNX Runtime's QLinearConv followed by QLinearAdd as an oracle of a convolution that requantizes its own output
before it adds a residual: full-range models, tolerance 0."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from exactness import assert_same, expected
from random_problems import FLAGS, Decks, problems
from random_tensor_ops import TELLING
from scales import near_ties, ties

from qconv import Conv2d, Mode, Quantization
from qconv.ops import registry

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'qconv-tune[test]'")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'qconv-tune[test]'")

from nodes_by_ort import y_of  # noqa: E402 # it needs both

# Without VNNI, ONNX Runtime saturates sums of uint8 * int8.
PAIRS = (("uint8", "uint8"), ("int8", "int8"))
COUNT, CHUNK = 96, 12


def _problems(count: int) -> list[Conv2d]:
    """Return the geometries of the random problems with at least two outputs: for single numbers the sum has another
    order."""
    decks = Decks(random.Random("QLinearAdd"))
    flags = ("per_channel", "x_zero_point", "w_zero_point", "y_zero_point", "residual_zero_point", "inner_zero_point")
    made = []
    for index, problem in enumerate(problems(seed=12, count=count)):
        x_type, w_type = PAIRS[index % len(PAIRS)]
        quantization = Quantization(
            x_type,
            w_type,
            x_type,
            **{name: decks.deal(name, FLAGS) for name in flags},
            bias=decks.deal("bias", ("none", "int32")),
            residual=x_type,
            mode=Mode(residual_add=decks.deal("residual_add", ("requantized", "requantized_last"))),
        )
        made.append(replace(problem, layout="nhwc", quantization=quantization))
    return [problem for problem in made if problem.pixels * problem.k > 1]


PROBLEMS = _problems(COUNT)


def infer(problem: Conv2d, drawn: registry.Sample) -> Any:
    """Run a model of two nodes. ONNX uses NCHW and KCRS. With two tensors of one shape ONNX Runtime starts with the
    second."""
    q, p, helper = problem.quantization, problem.checked(drawn.parameters), onnx.helper
    channels = (problem.k,) if q.per_channel else ()
    x, w, residual = (np.ascontiguousarray(array.transpose(0, 3, 1, 2)) for array in drawn.arrays)
    constants = {
        "w": w,
        "w_scale": np.broadcast_to(np.float32(p.w_scale), channels),
        "w_zero": np.broadcast_to(np.asarray(p.w_zero_point, q.w_type), channels),
    }
    for name in ("x", "inner", "residual", "y"):
        constants[f"{name}_scale"] = np.float32(getattr(p, f"{name}_scale"))
        constants[f"{name}_zero"] = np.dtype(q.x_type).type(getattr(p, f"{name}_zero_point"))
    if q.bias != "none":
        constants["bias"] = p.bias
    read = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "inner_scale", "inner_zero"]
    read += ["bias"] if "bias" in constants else []
    window = {"strides": problem.stride, "dilations": problem.dilation, "pads": problem.pad, "group": problem.groups}
    own, added = (("inner", "inner_scale", "inner_zero"), ("residual", "residual_scale", "residual_zero"))
    first, second = (added, own) if q.mode.begins_with_own else (own, added)
    nodes = [
        helper.make_node("QLinearConv", read, ["inner"], kernel_shape=(problem.r, problem.s), **window),
        helper.make_node("QLinearAdd", [*first, *second, "y_scale", "y_zero"], ["y"], domain="com.microsoft"),
    ]
    y = y_of(nodes, {"x": x, "residual": residual}, constants, residual.shape)
    return np.ascontiguousarray(y.transpose(0, 2, 3, 1))


@pytest.mark.turns
@pytest.mark.parametrize("first", range(0, len(PROBLEMS), CHUNK))
def test_the_oracle(first: int) -> None:
    """Covers two generic draws, one of ties and one of near ties."""
    for index in range(first, min(first + CHUNK, len(PROBLEMS))):
        problem = PROBLEMS[index]
        made = [registry.draw(problem, 4 * index + draw) for draw in range(4)]
        for drawn in (*made[:2], ties(made[2]), near_ties(problem, made[3], index)):
            assert_same(expected(problem, drawn), infer(problem, drawn), str(problem))


@pytest.mark.parametrize("given", TELLING, ids=str)
def test_all_pairs_of_bytes(given: dict[str, Any]) -> None:
    """An identity convolution, with parameters that reveal which of the two tensors the sum starts with."""
    x, residual = (np.ascontiguousarray(each).reshape(1, 256, 256, 1) for each in np.mgrid[:256, :256].astype("uint8"))
    numbers = {
        "x_scale": given["a_scale"],
        "w_scale": 1.0,
        "x_zero_point": given["a_zero_point"],
        "inner_scale": given["a_scale"],
        "inner_zero_point": given["a_zero_point"],
        "residual_scale": given["b_scale"],
        "residual_zero_point": given["b_zero_point"],
        "y_scale": given["y_scale"],
        "y_zero_point": given["y_zero_point"],
    }
    drawn = registry.Sample((x, np.ones((1, 1, 1, 1), "int8"), residual), numbers)
    zeros = dict.fromkeys(("x_zero_point", "y_zero_point", "residual_zero_point", "inner_zero_point"), True)
    made = []
    for residual_add in ("requantized", "requantized_last"):
        q = Quantization("uint8", "int8", "uint8", residual="uint8", mode=Mode(residual_add=residual_add), **zeros)
        problem = Conv2d(1, 256, 256, 1, 1, 1, 1, quantization=q)
        made.append(expected(problem, drawn))
        assert_same(made[-1], infer(problem, drawn), str(problem))
    assert not np.array_equal(*made)
