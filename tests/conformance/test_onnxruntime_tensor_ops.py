"""The oracles of the integer ops between convolutions, compared with ONNX Runtime at tolerance 0 over all bytes."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from random_tensor_ops import TELLING, TELLING_SIGMOID, argmaxes, global_pools, pools

import qconv
from qconv.dtypes import RANGES
from qconv.ops import registry
from qconv.ops.registry import Sample
from qconv.tensor_ops import Add, AveragePool, Binary, GlobalAveragePool, Mul
from qconv.tensor_ops.binary import begins_with_first
from qconv.tensor_ops.functions import named, table_of

ort = pytest.importorskip("onnxruntime", reason="the oracle is compared with onnxruntime")
Array = np.ndarray[Any, Any]
OURS = "com.microsoft"


def run(op: str, arrays: dict[str, Array], numbers: dict[str, Any], order: list[str], **attributes: Any) -> Array:
    """Run one node in ONNX Runtime: `order` names its inputs, of which `numbers` are constants."""
    kinds = {"int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
    dtype = str(next(iter(arrays.values())).dtype)
    node = helper.make_node(op, order, ["y"], domain=attributes.pop("domain", OURS), **attributes)
    graph = helper.make_graph(
        [node],
        "one node",
        [helper.make_tensor_value_info(name, kinds[dtype], array.shape) for name, array in arrays.items()],
        [helper.make_tensor_value_info("y", TensorProto.INT64 if op == "ArgMax" else kinds[dtype], None)],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(OURS, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs: list[Array] = session.run(None, arrays)
    return outputs[0]


def numbers_of(dtype: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters in ONNX's form: fp32 scales, zero points of the tensor's type."""
    return {n: np.asarray(v, dtype if n.endswith("zero_point") else np.float32) for n, v in given.items()}


def all_pairs(dtype: str) -> tuple[Array, Array]:
    low, high = RANGES[dtype]
    every = np.arange(low, high + 1, dtype=dtype)
    return np.repeat(every, 256), np.tile(every, 256)


def some_numbers(dtype: str, names: tuple[str, ...], rng: np.random.Generator, index: int) -> dict[str, Any]:
    """Return scales of every magnitude; powers of two, which produce ties; and hundredths, whose ties are not exact in
    binary. Zero points are anywhere and at the ends."""
    low, high = RANGES[dtype]
    scales = {
        0: lambda: 2.0 ** rng.integers(-4, 4),
        1: lambda: round(rng.uniform(0.02, 0.6), 2),
        2: lambda: np.exp(rng.uniform(-5, 1)),
    }
    zeros = {f"{n}_zero_point": int(rng.choice([low, high, 0, rng.integers(low, high + 1)])) for n in names}
    return {f"{n}_scale": float(np.float32(scales[index % 3]())) for n in names} | zeros


BINARY = ["a", "a_scale", "a_zero_point", "b", "b_scale", "b_zero_point", "y_scale", "y_zero_point"]
NAMES = {Add: "QLinearAdd", Mul: "QLinearMul"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("kind", NAMES)
def test_all_pairs_of_bytes(kind: type[Binary], dtype: str) -> None:
    rng = np.random.default_rng(7)
    a, b = all_pairs(dtype)
    problem = kind.of(a.shape, b.shape, a_type=dtype, b_type=dtype, out_type=dtype)
    flat = tuple(array.reshape(t.shape) for array, t in zip((a, b), problem.inputs, strict=True))
    for index in range(60):
        given = some_numbers(dtype, ("a", "b", "y"), rng, index)
        if index < len(TELLING) and dtype == "uint8":
            given = TELLING[index]
        want = run(NAMES[kind], {"a": a, "b": b}, numbers_of(dtype, given), BINARY)
        (got,) = registry.compute(problem, Sample(flat, given))
        assert np.array_equal(got.reshape(-1), want), given


@pytest.mark.turns
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("kind", NAMES)
def test_a_number_for_all_of_the_other(kind: type[Binary], swapped: bool) -> None:
    """ONNX Runtime then adds the number to the offset first, whichever operand it is."""
    rng = np.random.default_rng(8)
    a = np.arange(-128, 128, dtype=np.int8)
    problem = kind.of(a.shape, (1,))
    for index in range(150):
        b = rng.integers(-128, 128, 1, dtype=np.int8)
        given = some_numbers("int8", ("a", "b", "y"), rng, index)
        order = BINARY[3:6] + BINARY[:3] + BINARY[6:] if swapped else BINARY
        want = run(NAMES[kind], {"a": a, "b": b}, numbers_of("int8", given), order)
        (got,) = registry.compute(problem, Sample((a.reshape(1, 256, 1), b.reshape(1, 1)), given))
        assert np.array_equal(got.reshape(-1), want), given


def test_a_row_for_all_of_the_second() -> None:
    """Compares the call itself, which sees the smaller tensor."""
    every = np.arange(256, dtype=np.uint8)
    row, whole = every, np.tile(every[:, np.newaxis], 256)
    for given in TELLING:
        for a, b in (
            (row, whole),
            (row[:, np.newaxis], whole[..., np.newaxis]),
            (whole, row),
            (whole[:, :1].copy(), np.tile(row, (256, 1))),
        ):
            want = run("QLinearAdd", {"a": a, "b": b}, numbers_of("uint8", given), BINARY)
            assert np.array_equal(qconv.add(a, b, **given), want), given


@lru_cache(maxsize=1)
def orders() -> list[tuple[dict[str, Any], Array, Array, dict[bool, Array]]]:
    """Return, per set of parameters, pairs of bytes whose sum depends on the first tensor, and both sums."""
    a, b = all_pairs("uint8")
    found = []
    for given in TELLING:
        made = {}
        for first in ("a", "b"):
            problem = Add(1, 1, len(a), "uint8", "uint8", "uint8", added_first=first)
            (made[first],) = registry.compute(problem, Sample((a.reshape(1, 1, -1), b.reshape(1, -1)), given))
        at = np.flatnonzero(made["a"] != made["b"])[:3]
        sums = {first == "a": y.reshape(-1)[at] for first, y in made.items()}
        found.append((given, a[at], b[at], sums))
    return found


@pytest.mark.turns
@pytest.mark.parametrize(
    "shapes",
    [
        *(((1,), (1,)), ((1, 1), (1,)), ((4,), (1,)), ((1,), (4,)), ((17,), (1, 17)), ((4,), (2, 4)), ((2, 4), (4,))),
        *(((2, 4), (1, 4)), ((1, 4), (2, 4)), ((2, 4), (2, 1)), ((2, 1), (2, 4)), ((2, 1), (2, 1)), ((3, 1), (1, 1))),
        *(((1, 1), (3, 1)), ((1, 64), (1, 1)), ((1, 1), (2, 1, 1)), ((1, 3, 1, 1), (2, 3, 1, 1))),
        *(((1, 3, 1, 1), (2, 3, 4, 4)), ((2, 3, 4, 4), (1, 3, 1, 1)), ((1, 1), (4,)), ((3, 1), (2, 3, 4))),
    ],
    ids=str,
)
def test_a_sum_begins_with_the_tensor_that_onnxruntime_begins_with(shapes: tuple[tuple[int, ...], ...]) -> None:
    for given, each_a, each_b, sums in orders():
        for at in range(len(each_a)):
            a, b = np.full(shapes[0], each_a[at]), np.full(shapes[1], each_b[at])
            want = run("QLinearAdd", {"a": a, "b": b}, numbers_of("uint8", given), BINARY)
            assert (want == sums[begins_with_first(*shapes)][at]).all(), given
            with contextlib.suppress(ValueError):  # tensors repeated along axes that are not neighbours
                assert np.array_equal(qconv.add(a, b, **given), want), given


@pytest.mark.parametrize("kind", NAMES)
def test_a_factor_a_channel_and_image(kind: type[Binary]) -> None:
    rng = np.random.default_rng(9)
    a = rng.integers(0, 256, (3, 7, 5, 40), dtype=np.uint8)
    b = rng.integers(0, 256, (3, 1, 1, 40), dtype=np.uint8)
    problem = kind.of(a.shape, b.shape, a_type="uint8", b_type="uint8", out_type="uint8")
    assert (problem.outer, problem.repeat, problem.inner) == (3, 35, 40)
    for index in range(20):
        given = some_numbers("uint8", ("a", "b", "y"), rng, index)
        want = run(NAMES[kind], {"a": a, "b": b}, numbers_of("uint8", given), BINARY)
        (got,) = registry.compute(problem, Sample((a.reshape(3, 35, 40), b.reshape(3, 40)), given))
        assert np.array_equal(got.reshape(a.shape), want), given


UNARY = ["x", "x_scale", "x_zero_point", "y_scale", "y_zero_point"]


@pytest.mark.turns
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("function", ["sigmoid", "leaky_relu", "identity"])
def test_tables_of_all_bytes(function: str, dtype: str) -> None:
    rng = np.random.default_rng(11)
    x = np.arange(256, dtype=np.uint8).view(dtype)
    for index in range(150):
        given = some_numbers(dtype, ("x", "y"), rng, index)
        alpha = round(float(rng.uniform(0.01, 0.5)), 2) if function == "leaky_relu" else None
        if function == "sigmoid" and index % 2:
            given |= {"y_scale": [1 / 256, 1 / 255, 0.004][index % 3], "y_zero_point": RANGES[dtype][0]}
        if function == "sigmoid" and index < len(TELLING_SIGMOID) and dtype == "uint8":
            given = TELLING_SIGMOID[index]
        got = table_of(named(function, alpha), dtype, dtype, **given)
        numbers = numbers_of(dtype, given)
        if function == "identity":
            order = ["y_scale", "y_zero_point", "x", "x_scale", "x_zero_point"]
            want = run("QLinearConcat", {"x": x}, numbers, order, axis=0)
        else:
            op, more = {"sigmoid": ("QLinearSigmoid", {}), "leaky_relu": ("QLinearLeakyRelu", {"alpha": alpha})}[
                function
            ]
            want = run(op, {"x": x}, numbers, UNARY, **more)
        assert np.array_equal(got, want), given


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_all_bytes_of_tensors_with_scales_of_their_own(dtype: str) -> None:
    """The second has the output's scale, and is copied."""
    rng = np.random.default_rng(14)
    every = np.arange(256, dtype=np.uint8).view(dtype)
    arrays = {name: rng.permutation(every).reshape(1, 2, 2, 64) for name in "abc"}
    order = ["y_scale", "y_zero_point", *(f"{n}{end}" for n in "abc" for end in ("", "_scale", "_zero_point"))]
    for index in range(60):
        given = some_numbers(dtype, ("a", "b", "c", "y"), rng, index)
        given |= {f"b_{end}": given[f"y_{end}"] for end in ("scale", "zero_point")}
        want = run("QLinearConcat", arrays, numbers_of(dtype, given), order, axis=3)
        scales, zeros = ([given[f"{n}_{end}"] for n in "abc"] for end in ("scale", "zero_point"))
        numbers = {"y_scale": given["y_scale"], "y_zero_point": given["y_zero_point"]}
        got = qconv.concat(list(arrays.values()), x_scales=scales, x_zero_points=zeros, **numbers)
        assert np.array_equal(got, want), given


@pytest.mark.parametrize("first", [0, 1])
def test_windows_in_every_position(first: int) -> None:
    """Alternates between average and max pools."""
    rng = np.random.default_rng(12)
    for index, problem in enumerate(pools(1, 240)[first::2]):
        x = rng.integers(*RANGES[problem.x_type], problem.inputs[0].shape, problem.x_type, endpoint=True)
        shape = {"kernel_shape": (problem.r, problem.s), "strides": problem.stride, "pads": problem.pad}
        shape |= {"ceil_mode": int(problem.ceil_mode)}
        nchw = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
        given: dict[str, Any] = {}
        if isinstance(problem, AveragePool):
            given = some_numbers(problem.x_type, ("x", "y"), rng, index)
            shape |= {"count_include_pad": int(problem.count_include_pad)}
            want = run("QLinearAveragePool", {"x": nchw}, numbers_of(problem.x_type, given), UNARY, **shape)
        else:
            want = run("MaxPool", {"x": nchw}, {}, ["x"], dilations=problem.steps, domain="", **shape)
        (got,) = registry.compute(problem, Sample((x,), given))
        assert got.shape == problem.outputs[0].shape
        assert np.array_equal(got, want.transpose(0, 2, 3, 1)), (str(problem), given)


def test_averages_of_whole_images() -> None:
    rng = np.random.default_rng(13)
    for index, problem in enumerate(global_pools(1, 120)):
        x = rng.integers(*RANGES[problem.x_type], problem.inputs[0].shape, problem.x_type, endpoint=True)
        given = some_numbers(problem.x_type, ("x", "y"), rng, index)
        arrays = {"x": x.reshape(problem.n, problem.pixels, 1, problem.c)}
        want = run("QLinearGlobalAveragePool", arrays, numbers_of(problem.x_type, given), UNARY, channels_last=1)
        (got,) = registry.compute(problem, Sample((x,), given))
        assert np.array_equal(got, want.reshape(got.shape)), (str(problem), given)


def test_every_sum_of_nine_pixels() -> None:
    """The scales are hundredths, whose ties are decided by the last bit of the kernel's combined scale."""
    sums = np.arange(-128 * 9, 127 * 9 + 1)
    whole, more = np.divmod(sums, 9)
    x = (whole + (np.arange(9)[:, np.newaxis] < more)).astype(np.int8)[np.newaxis]
    problem = GlobalAveragePool(*x.shape)
    for x_scale, y_scale, x_zero in ((0.57, 0.38, -3), (0.54, 0.36, 7), (0.45, 0.2, 35)):
        given = {"x_scale": x_scale, "x_zero_point": x_zero, "y_scale": y_scale, "y_zero_point": 0}
        arrays = {"x": x.reshape(1, 9, 1, -1)}
        want = run("QLinearGlobalAveragePool", arrays, numbers_of("int8", given), UNARY, channels_last=1)
        (got,) = registry.compute(problem, Sample((x,), given))
        assert np.array_equal(got, want.reshape(got.shape)), given


def test_where_the_largest_elements_are() -> None:
    for index, problem in enumerate(argmaxes(1, 200)):
        drawn = registry.draw(problem, index)
        given = {"axis": 1, "keepdims": 0, "select_last_index": int(problem.last)}
        want = run("ArgMax", {"x": drawn.arrays[0]}, {}, ["x"], domain="", **given)
        (got,) = registry.compute(problem, drawn)
        assert got.dtype == want.dtype
        assert np.array_equal(got, want), str(problem)


def test_every_byte_among_equals() -> None:
    """In a row of all bytes, each byte is the largest once: those above it are left out, and it occurs twice."""
    for dtype in ("int8", "uint8"):
        low, high = RANGES[dtype]
        every = np.arange(low, high + 1)
        x = np.tile(np.minimum(every, every[:, np.newaxis]), 2).astype(dtype)
        for last in (False, True):
            problem = qconv.parse(f"argmax:outer=256:length=512:inner=1:{'last:' if last else ''}x_type={dtype}")
            (got,) = registry.compute(problem, Sample((x[..., np.newaxis],)))
            want = run("ArgMax", {"x": x}, {}, ["x"], domain="", axis=1, select_last_index=int(last))
            assert np.array_equal(got, want)
