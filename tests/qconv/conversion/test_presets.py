"""The named modes compared with the systems themselves, at tolerance 0, including ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conversion_calls import compute, draw

from qconv.conversion import Choose, Dequantize, Dynamic, Quantize, Requantize
from qconv.conversion.reference import broadcast
from qconv.dtypes import ELEMENT_TYPES, FLOAT8

ONNX_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "float16": 10, "bfloat16": 16}
# per tensor, per channel, per token, blocked
SIZES: dict[str, dict[str, int]] = {
    "tensor": {"outer": 3, "channels": 1, "inner": 1500},
    "channel": {"outer": 3, "channels": 19, "inner": 80},
    "token": {"outer": 1, "channels": 37, "inner": 120},
    "block": {"outer": 3, "channels": 50, "inner": 31, "block": 16},
}


def finite(x: Any) -> Any:
    """Exclude NaNs and int32 overflows, which the systems leave to the hardware."""
    wide = x.astype(np.float64)
    return np.where(np.isfinite(wide) & (np.abs(wide) < 1e5), x, np.ones_like(x))


def onnx_model(op: str, types: list[int], outputs: list[int], **attributes: Any) -> Any:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper = onnx.helper
    names = ["x", "scale", "zero"][: len(types)]
    outs = ["y", "s", "z"][: len(outputs)]
    node = helper.make_node(op, names, outs, **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, types, strict=True)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(outs, outputs, strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def run_onnx(system: str, model: Any, arrays: list[Any]) -> list[Any]:
    feed = dict(zip(["x", "scale", "zero"], arrays, strict=False))
    if system == "onnx-ref":
        reference = pytest.importorskip("onnx.reference", reason="onnx is not installed")
        with np.errstate(all="ignore"):
            return list(reference.ReferenceEvaluator(model).run(None, feed))
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return list(ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feed))


def onnx_scales(problem: Any, array: Any) -> Any:
    if problem.block:
        return array.reshape(problem.outer, problem.blocks, problem.inner)
    return array.reshape(()) if problem.channels == 1 else array


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("out_type", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize(
    ("system", "x_type"),
    [
        ("ort", "float32"),
        ("ort", "float16"),
        ("onnx-ref", "float32"),
        ("onnx-ref", "float16"),
        ("onnx-ref", "bfloat16"),
    ],
)
def test_onnx_quantize(system: str, x_type: str, out_type: str, size: str) -> None:
    problem = Quantize.of(system, **SIZES[size], x_type=x_type, out_type=out_type, zero_point=True)
    x, scale, zero = draw(problem, 3)
    x = finite(x)
    scale = scale.astype(ELEMENT_TYPES[x_type].numpy).astype(np.float32)
    (expected,) = compute(problem, (x, scale, zero))
    kind = ONNX_TYPES[x_type]
    model = onnx_model(
        *("QuantizeLinear", [kind, kind, ONNX_TYPES[out_type]], [ONNX_TYPES[out_type]]),
        axis=1,
        block_size=problem.block,
    )
    arrays = [
        x,
        onnx_scales(problem, scale.astype(ELEMENT_TYPES[x_type].numpy)),
        onnx_scales(problem, zero.astype(out_type)),
    ]
    (y,) = run_onnx(system, model, arrays)
    with np.errstate(all="ignore"):
        # A quotient beyond fp16 is infinite; the reference leaves its conversion to int32 to NumPy.
        defined = np.isfinite((x / broadcast(problem, scale)).astype(ELEMENT_TYPES[x_type].numpy).astype(np.float32))
    assert (y == expected)[defined].all(), int((y != expected).sum())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("out_type", ["float32", "float16"])
@pytest.mark.parametrize("x_type", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("system", ["ort", "onnx-ref"])
def test_onnx_dequantize(system: str, x_type: str, out_type: str, size: str) -> None:
    problem = Dequantize.of(system, **SIZES[size], x_type=x_type, out_type=out_type, zero_point=True)
    x, scale, zero = draw(problem, 4)
    scale = scale.astype(out_type).astype(np.float32)
    (expected,) = compute(problem, (x, scale, zero))
    kinds = [ONNX_TYPES[x_type], ONNX_TYPES[out_type], ONNX_TYPES[x_type]]
    model = onnx_model("DequantizeLinear", kinds, [ONNX_TYPES[out_type]], axis=1, block_size=problem.block)
    arrays = [x, onnx_scales(problem, scale.astype(out_type)), onnx_scales(problem, zero.astype(x_type))]
    (y,) = run_onnx(system, model, arrays)
    assert (y == expected).all(), int((y != expected).sum())


def between_casts(op: str, x: Any, scale: Any, **attributes: Any) -> Any:
    """Return a model whose x is a constant and whose output is float32, since an 8-bit float passes no interface."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper = onnx.helper
    nodes = [helper.make_node(op, ["x", "scale"], ["q"], **attributes), helper.make_node("Cast", ["q"], ["y"], to=1)]
    constants = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape, array.tobytes(), raw=True)
        for name, array in (("x", x), ("scale", scale))
    ]
    made = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph(nodes, "g", [], made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("x_type", ["float32", "float16"])
@pytest.mark.parametrize("system", ["ort", "onnx-ref"])
def test_onnx_quantize_to_8_bit_floats(system: str, x_type: str, dtype: str, size: str) -> None:
    problem = Quantize.of(system, **SIZES[size], x_type=x_type, out_type=dtype)
    x, scale = draw(problem, 3)
    scale = scale.astype(ELEMENT_TYPES[x_type].numpy).astype(np.float32)
    (expected,) = compute(problem, (x, scale))
    scales = onnx_scales(problem, scale.astype(ELEMENT_TYPES[x_type].numpy))
    attributes = {"axis": 1, "block_size": problem.block, "output_dtype": {"e4m3fn": 17, "e5m2": 19}[dtype[7:]]}
    (y,) = run_onnx(system, between_casts("QuantizeLinear", x, scales, **attributes), [])
    np.testing.assert_array_equal(y, expected.astype(np.float32))
    assert (np.signbit(y) == np.signbit(expected))[~np.isnan(y)].all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("out_type", ["float32", "float16"])
@pytest.mark.parametrize("system", ["ort", "onnx-ref"])
def test_onnx_dequantize_of_8_bit_floats(system: str, out_type: str, dtype: str, size: str) -> None:
    problem = Dequantize.of(system, **SIZES[size], x_type=dtype, out_type=out_type)
    x, scale = draw(problem, 4)
    scale = scale.astype(out_type).astype(np.float32)
    (expected,) = compute(problem, (x, scale))
    scales = onnx_scales(problem, scale.astype(out_type))
    (y,) = run_onnx(system, between_casts("DequantizeLinear", x, scales, axis=1, block_size=problem.block), [])
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("system", ["ort", "onnx-ref"])
def test_onnx_dynamic(system: str, seed: int) -> None:
    problem = Dynamic.of(system, outer=1, channels=1, inner=97)
    (x,) = draw(problem, seed)
    x = finite(x)
    y, scale, zero = compute(problem, (x,))
    model = onnx_model("DynamicQuantizeLinear", [1], [2, 1, 2])
    theirs = run_onnx(system, model, [x])
    assert scale[0] == theirs[1]
    assert zero[0] == theirs[2]
    assert (y == theirs[0]).all()


# ---- torch ----


def torch_module() -> Any:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this torch has no quantized_decomposed ops")
    return torch


def tensor(torch: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("out_type", ["int8", "uint8"])
def test_torch_quantize(out_type: str, seed: int) -> None:
    torch = torch_module()
    dtype = {"int8": torch.qint8, "uint8": torch.quint8}[out_type]
    problem = Quantize.of("torch-fbgemm", **SIZES["tensor"], out_type=out_type, zero_point=True)
    x, scale, zero = draw(problem, seed)
    x = finite(x)
    (expected,) = compute(problem, (x, scale, zero))
    q = torch.quantize_per_tensor(tensor(torch, x), float(scale[0]), int(zero[0]), dtype)
    assert (q.int_repr().numpy() == expected).all()
    back = Dequantize.of("torch-fbgemm", **SIZES["tensor"], x_type=out_type, zero_point=True)
    (real,) = compute(back, (expected, scale, zero))
    assert (q.dequantize().numpy() == real).all()
    problem = Quantize.of("torch-fbgemm", **SIZES["channel"], out_type=out_type, zero_point=True)
    x, scale, zero = draw(problem, seed)
    x = finite(x)
    (expected,) = compute(problem, (x, scale, zero))
    q = torch.quantize_per_channel(tensor(torch, x), tensor(torch, scale).double(), tensor(torch, zero), 1, dtype)
    assert (q.int_repr().numpy() == expected).all()


@pytest.mark.turns
@pytest.mark.parametrize("x_type", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("out_type", ["int8", "uint8", "int16", "uint16"])
def test_decomposed_quantize(x_type: str, out_type: str) -> None:
    torch = torch_module()
    ops, dtype = torch.ops.quantized_decomposed, getattr(torch, out_type)
    for seed in range(4):
        problem = Quantize.of("decomposed", **SIZES["tensor"], x_type=x_type, out_type=out_type, zero_point=True)
        x, scale, zero = draw(problem, seed)
        x = finite(x)
        (expected,) = compute(problem, (x, scale, zero))
        q = ops.quantize_per_tensor(
            tensor(torch, x), float(scale[0]), int(zero[0]), problem.low, problem.high, dtype
        ).numpy()
        assert (q == expected).all()
        for spec in ({"scale_type": "float32"}, {"precision": "float64"}):
            spec = {**spec, **SIZES["channel"]}
            problem = Quantize.of("decomposed", **spec, x_type=x_type, out_type=out_type, zero_point=True)
            x, scale, zero = draw(problem, seed)
            x = finite(x)
            (expected,) = compute(problem, (x, scale, zero))
            q = ops.quantize_per_channel(
                *(tensor(torch, x), tensor(torch, scale), tensor(torch, zero), 1, problem.low, problem.high, dtype)
            ).numpy()
            assert (q == expected).all()


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("out_type", ["int8", "uint8", "int16"])
def test_decomposed_per_token(out_type: str, precision: str) -> None:
    torch = torch_module()
    ops, dtype = torch.ops.quantized_decomposed, getattr(torch, out_type)
    for seed in range(4):
        both = {"scale_type": precision, "precision": precision, **SIZES["token"]}
        problem = Quantize.of("decomposed-token", **both, out_type=out_type, zero_point=True)
        x, scale, zero = draw(problem, seed)
        x = finite(x)
        (expected,) = compute(problem, (x, scale, zero))
        scales, zeros = tensor(torch, scale).reshape(-1, 1), tensor(torch, zero).reshape(-1, 1)
        q = ops.quantize_per_token(tensor(torch, x[0]), scales, zeros, problem.low, problem.high, dtype).numpy()
        assert (q == expected[0]).all()
        back = Dequantize.of("decomposed-token", **both, x_type=out_type, zero_point=True)
        (real,) = compute(back, (expected, scale, zero))
        theirs = ops.dequantize_per_token(
            tensor(torch, expected[0]), scales, zeros, problem.low, problem.high, dtype, torch.float32
        ).numpy()
        assert (theirs == real[0]).all()


@pytest.mark.parametrize("out_type", ["float32", "float64"])
@pytest.mark.parametrize("x_type", ["int8", "uint8", "int16", "int32"])
def test_decomposed_dequantize(x_type: str, out_type: str) -> None:
    torch = torch_module()
    ops, dtype = torch.ops.quantized_decomposed, getattr(torch, x_type)
    problem = Dequantize.of("decomposed", **SIZES["tensor"], x_type=x_type, out_type=out_type, zero_point=True)
    for seed in range(4):
        x, scale, zero = draw(problem, seed)
        (expected,) = compute(problem, (x, scale, zero))
        y = ops.dequantize_per_tensor(
            *(tensor(torch, x), float(scale[0]), int(zero[0]), -128, 127, dtype), out_dtype=getattr(torch, out_type)
        )
        assert (y.numpy() == expected).all()


# determine_qparams handles the middle of symmetric types for 8 bits only.
@pytest.mark.parametrize(
    ("mapping", "out_type"),
    [*(("asymmetric", one) for one in ("int8", "uint8", "int16")), *(("symmetric", one) for one in ("int8", "uint8"))],
)
def test_determine_qparams(mapping: str, out_type: str) -> None:
    torch = torch_module()
    from torch.ao.quantization.utils import determine_qparams

    scheme = {"asymmetric": torch.per_channel_affine, "symmetric": torch.per_channel_symmetric}[mapping]
    problem = Choose.of(
        "decomposed", outer=3, channels=400, inner=9, out_type=out_type, mapping=mapping, scale_type="float32"
    )
    (x,) = draw(problem, 1)
    x = finite(x)
    scale, zero = compute(problem, (x,))
    low, high = tensor(torch, x.min(axis=(0, 2))), tensor(torch, x.max(axis=(0, 2)))
    dtype = {"int8": torch.qint8, "uint8": torch.quint8, "int16": torch.int16}[out_type]
    eps = torch.tensor([torch.finfo(torch.float32).eps])
    theirs, zeros = determine_qparams(low, high, problem.low, problem.high, dtype, eps, False, scheme)
    assert (theirs.numpy() == scale).all()
    assert (zeros.numpy() == zero).all()


def test_choose_per_token() -> None:
    torch = torch_module()
    problem = Choose.of("decomposed-token", **{**SIZES["token"], "channels": 1000, "inner": 8})
    (x,) = draw(problem, 2)
    x = finite(x)
    scale, zero = compute(problem, (x,))
    theirs, zeros = torch.ops.quantized_decomposed._choose_qparams_per_token_asymmetric_impl(
        tensor(torch, x[0]), torch.int8
    )
    assert (theirs.numpy().reshape(-1) == scale).all()
    assert (zeros.numpy().reshape(-1) == zero).all()


def test_fbgemm_choice_and_dynamic() -> None:
    torch = torch_module()
    problem = Choose(outer=1, channels=3000, inner=5, out_type="uint8", rule="fbgemm", scale_type="float64")
    (x,) = draw(problem, 5)
    x = finite(x)
    scale, zero = compute(problem, (x,))
    for channel in range(problem.channels):
        theirs, zeros = torch._choose_qparams_per_tensor(tensor(torch, x[0, channel]), False)
        assert (theirs, zeros) == (scale[channel], zero[channel]), x[0, channel]
    for seed in range(30):
        dynamic = Dynamic.of("torch-fbgemm", outer=1, channels=1, inner=300, out_type="uint8")
        (x,) = draw(dynamic, seed)
        x = finite(x)
        q = torch.quantize_per_tensor_dynamic(tensor(torch, x), torch.quint8, False)
        y, scale, zero = compute(dynamic, (x,))
        assert np.float32(q.q_scale()) == scale[0]
        assert q.q_zero_point() == zero[0]
        assert (q.int_repr().numpy() == y).all()


def test_requantize_is_dequantize_then_quantize() -> None:
    """The meaning of Requantize's presets for systems that have no such op."""
    for system in ("ort", "onnx-ref", "migraphx", "rocmlir", "decomposed", "et-vulkan"):
        problem = Requantize.of(system, **SIZES["channel"], x_zero_point=True, y_zero_point=True)
        x, x_scale, x_zero, y_scale, y_zero = draw(problem, 9)
        real = compute(Dequantize.of(system, **SIZES["channel"], zero_point=True), (x, x_scale, x_zero))
        expected = compute(Quantize.of(system, **SIZES["channel"], zero_point=True), (*real, y_scale, y_zero))
        assert (compute(problem, (x, x_scale, x_zero, y_scale, y_zero))[0] == expected[0]).all()


def test_torch_quantizes_in_cuda_as_by_a_double_division() -> None:
    """torch's CUDA kernel, by its source: nearbyint(x / scale) + zero_point with a double scale."""
    problem = Quantize.of("torch-cudnn", **SIZES["channel"], zero_point=True)
    x, scale, zero = draw(problem, 8)
    x = finite(x)
    units = np.rint(x.astype(np.float64) / broadcast(problem, scale)) + broadcast(problem, zero)
    assert (compute(problem, (x, scale, zero))[0] == np.clip(units, -128, 127)).all()


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("x_type", ["float32", "float16", "bfloat16"])
def test_torchao_8_bit_floats(x_type: str, dtype: str) -> None:
    torch = torch_module()
    theirs = pytest.importorskip("torchao.quantization.quant_primitives", reason="torchao is not installed")
    problem = Quantize.of("torchao", outer=1, channels=37, inner=120, x_type=x_type, out_type=dtype)
    x, scale = draw(problem, 7)
    kind = getattr(torch, dtype)
    q = theirs._quantize_affine_float8(tensor(torch, x[0]), torch.from_numpy(scale).reshape(-1, 1), kind)
    (y,) = compute(problem, (x, scale))
    is_nan = np.isnan(y[0])
    np.testing.assert_array_equal(q.view(torch.uint8).numpy()[~is_nan], y[0].view(np.uint8)[~is_nan])
    assert q.float().isnan().numpy()[is_nan].all()
    back = Dequantize.of("torchao", outer=1, channels=37, inner=120, x_type=dtype, out_type=x_type)
    (real,) = compute(back, (np.where(is_nan, y.dtype.type(0), y), scale))
    got = theirs._dequantize_affine_float8(q, torch.from_numpy(scale).reshape(-1, 1), getattr(torch, x_type))
    np.testing.assert_array_equal(got.float().numpy()[~is_nan], real[0].astype(np.float32)[~is_nan])


@pytest.mark.parametrize("dtype", FLOAT8)
@pytest.mark.parametrize("seed", range(5))
def test_torchao_chooses_the_scale_of_an_8_bit_float(seed: int, dtype: str) -> None:
    torch = torch_module()
    theirs = pytest.importorskip("torchao.quantization.quant_primitives", reason="torchao is not installed")
    problem = Dynamic.of("torchao", outer=1, channels=30, inner=97, out_type=dtype)
    x = finite(draw(problem, seed)[0])
    y, scale = compute(problem, (x,))
    chosen = theirs._choose_scale_float8(torch.from_numpy(x[0]), [1, 97], getattr(torch, dtype))
    has_range = (x != 0).any(axis=(0, 2))  # of zeros alone, theirs is 0
    np.testing.assert_array_equal(chosen.numpy().ravel()[has_range], scale[has_range])
    q = theirs._quantize_affine_float8(torch.from_numpy(x[0]), chosen, getattr(torch, dtype))
    np.testing.assert_array_equal(q.view(torch.uint8).numpy()[has_range], y[0].view(np.uint8)[has_range])
