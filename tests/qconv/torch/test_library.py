"""PyTorch's requirements on an op: `opcheck`, `torch.compile` in one graph, `torch.export`, and AOTInductor
packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")

import qconv.torch  # noqa: E402
from qconv.torch.library import OPS  # noqa: E402
from qconv.torch.program import Constant, Described, Program, Step  # noqa: E402
from qconv.torch.schema import overloads  # noqa: E402

pytestmark = pytest.mark.thirds

ops = torch.ops.qconv
LAST = torch.channels_last


def integers(*shape: int, dtype: Any = torch.int8, seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    info = torch.iinfo(dtype)
    return torch.randint(info.min, info.max + 1, shape, dtype=dtype, generator=generator)


def scalar(value: float) -> Any:
    return torch.tensor(value, dtype=torch.float64)


X, W, W3 = integers(2, 8, 6, 5), integers(16, 8, 3, 3, seed=1), integers(8, 16, 1, 1, seed=2)
UP = integers(16, 16, 3, 3, seed=4)  # CKRS
SCALES, BIAS = torch.linspace(0.001, 0.005, 16), integers(16, dtype=torch.int32, seed=3) // 2**16
NUMBERS = {"x_scale": 0.02, "x_zero_point": 3, "y_scale": 0.2, "y_zero_point": -5}
CHAIN = {
    "x_scale": 0.02, "mid_scale": 0.2, "mid_zero_point": 4, "y_scale": 0.5,
    "first_w_scale": SCALES, "first_bias": BIAS, "first_padding": [1, 1], "first_activation": "relu",
    "second_w_scale": scalar(0.004),
}  # fmt: skip
BLOCK = {**CHAIN, "mid2_scale": 0.5, "third_w_scale": SCALES, "third_padding": [1, 1]}
REAL = torch.linspace(-9, 9, 2 * 8 * 6 * 5).reshape(2, 8, 6, 5)

# The sum of an input and of its hyperbolic tangent, both quantized.
EXPRESSION = Program(
    ("x",),
    (
        Step("DequantizeLinear", ("x", "scale", "zero"), "real", {}),
        Step("Tanh", ("real",), "curve", {}),
        Step("Add", ("real", "curve"), "sum", {}),
        Step("QuantizeLinear", ("sum", "scale", "zero"), "y", {}),
    ),
    {
        **dict.fromkeys(("x", "y"), Described("int8", ("n", 8, 6, 5))),
        **dict.fromkeys(("real", "curve", "sum"), Described("float32", ("n", 8, 6, 5))),
    },
    {"scale": Constant("float32", (), (0.05,)), "zero": Constant("int8", (), (3,))},
    is_last=False,
)
PROGRAM = EXPRESSION.text

# Name -> overload, arguments.
CASES: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "conv2d": (ops.conv2d.default, (X, W, SCALES, BIAS), {**NUMBERS, "padding": [1, 1]}),
    "conv2d, channels_last": (ops.conv2d.default, (X.to(memory_format=LAST), W.to(memory_format=LAST), SCALES), {}),
    "conv2d, residual, float16": (
        ops.conv2d.default,
        (X, W, SCALES, None, integers(2, 16, 4, 3)),
        {"x_scale": 0.02, "residual_scale": 0.1, "residual_zero_point": 3, "out_dtype": torch.float16},
    ),
    "conv2d, uint8, strided, dilated": (
        ops.conv2d.default,
        (integers(1, 16, 9, 9, dtype=torch.uint8), W, SCALES, BIAS.float()),
        {**NUMBERS, "y_zero_point": 5, "groups": 2, "stride": [2, 1], "dilation": [1, 2], "padding": [2, 1, 0, 1]},
    ),
    "conv2d, numbers": (ops.conv2d.scalar, (X, W, 0.004), {**NUMBERS, "activation": "clamp", "low": -1.0, "high": 3.0}),
    "conv2d, tensors": (
        ops.conv2d.tensor,
        (X, W, SCALES),
        {"x_scale": scalar(0.02), "y_scale": scalar(0.2), "y_zero_point": torch.tensor(3)},
    ),
    "conv2d, one pixel of one channel": (ops.conv2d.scalar, (integers(1, 1, 1, 1), integers(1, 1, 1, 1), 0.1), {}),
    "conv_transpose2d": (
        ops.conv_transpose2d.default,
        (integers(2, 16, 4, 3), UP, SCALES, BIAS),
        {**NUMBERS, "stride": [2, 3], "padding": [0, 1, 1, 0], "output_padding": [1, 2]},
    ),
    "conv_transpose2d, numbers": (
        ops.conv_transpose2d.scalar,
        (integers(2, 16, 4, 3), UP, 0.01, None, integers(2, 16, 9, 9)),
        {"stride": [2], "dilation": [2, 2], "padding": [1, 0], "residual_scale": 0.3},
    ),
    "conv_transpose2d, tensors": (
        ops.conv_transpose2d.tensor,
        (integers(2, 16, 4, 3), UP, SCALES),
        {"x_scale": scalar(0.02), "y_scale": scalar(0.2), "y_zero_point": torch.tensor(3)},
    ),
    "conv2d_pool": (
        ops.conv2d_pool.default,
        (X, W, SCALES, BIAS),
        {**NUMBERS, "padding": [1, 1], "window": [3, 3], "window_stride": [2, 2], "window_padding": [1, 1]},
    ),
    "conv2d_pool, uint8, numbers": (
        ops.conv2d_pool.scalar,
        (X, W, 0.004),
        {"x_scale": 0.02, "y_scale": 0.2, "window": [2, 3], "ceil_mode": True, "out_dtype": torch.uint8},
    ),
    "conv2d_pool, tensors": (
        ops.conv2d_pool.tensor,
        (X, W, SCALES),
        {"x_scale": scalar(0.02), "y_zero_point": torch.tensor(3), "window": [2], "window_padding": [1, 0, 0, 1]},
    ),
    "linear": (ops.linear.default, (integers(3, 4, 8), integers(16, 8), SCALES, BIAS), NUMBERS),
    "linear, numbers": (ops.linear.scalar, (integers(3, 8), integers(16, 8), 0.01), {"out_dtype": torch.float32}),
    "linear, tensors": (ops.linear.tensor, (integers(3, 8), integers(16, 8), SCALES), {"x_scale": scalar(0.1)}),
    "conv2d_conv2d": (ops.conv2d_conv2d.default, (X, W, W3), CHAIN),
    "conv2d_conv2d, uint8": (ops.conv2d_conv2d.default, (X, W, W3), {**CHAIN, "mid_dtype": torch.uint8}),
    "conv2d_conv2d, numbers": (
        ops.conv2d_conv2d.scalar,
        (X, W, W3),
        {"first_w_scale": 0.01, "second_w_scale": 0.02, "mid_scale": 9.0, "y_scale": 90.0},
    ),
    "conv2d_conv2d, tensors": (
        ops.conv2d_conv2d.tensor,
        (X, W, W3),
        {"first_w_scale": SCALES, "second_w_scale": scalar(0.02), "mid_scale": scalar(9.0)},
    ),
    "conv2d_block": (ops.conv2d_block.default, (X, W, W3, W), BLOCK),
    "add": (ops.add.default, (X, integers(1, 8, 1, 1)), {"a_scale": 0.1, "b_scale": 0.2, "y_scale": 0.3}),
    "add, tensors": (ops.add.tensor, (X, X.to(memory_format=LAST)), {"a_scale": scalar(0.5), "b_scale": scalar(0.5)}),
    "mul": (ops.mul.default, (X, X), {"a_scale": 0.1, "b_scale": 0.2, "y_scale": 2.0, "activation": "relu"}),
    "max_pool2d": (ops.max_pool2d.default, (X, [3, 3]), {"stride": [2, 2], "padding": [1, 1]}),
    "max_pool2d, ceil_mode": (ops.max_pool2d.default, (X, [2, 2]), {"dilation": [2, 1], "ceil_mode": True}),
    "avg_pool2d": (ops.avg_pool2d.default, (X, [3, 3]), {"stride": [2, 2], **NUMBERS}),
    "global_avg_pool2d": (ops.global_avg_pool2d.default, (X,), NUMBERS),
    "expression": (ops.expression.default, ([X],), {"program": PROGRAM}),
    "expression, channels_last": (
        ops.expression.default,
        ([X.to(memory_format=LAST)],),
        {"program": replace(EXPRESSION, is_last=True).text},
    ),
    "quantize": (ops.quantize.default, (REAL, torch.linspace(0.05, 0.1, 8)), {"axis": 1}),
    "quantize, numbers": (ops.quantize.scalar, (REAL.to(memory_format=LAST), 0.05, 3), {"out_dtype": torch.uint8}),
    "dequantize": (ops.dequantize.default, (X.to(memory_format=LAST), torch.linspace(0.05, 0.1, 8)), {"axis": 1}),
    "dequantize, numbers": (ops.dequantize.scalar, (X, 0.05, 3), {"out_dtype": torch.float16}),
}  # fmt: skip


@pytest.mark.turns
@pytest.mark.parametrize("name", CASES)
def test_opcheck(name: str) -> None:
    overload, args, named = CASES[name]
    torch.library.opcheck(overload, args, named)


def test_every_op_is_checked() -> None:
    assert {overload.name().partition("::")[2].partition(".")[0] for overload, *_ in CASES.values()} == set(OPS)


@pytest.mark.parametrize("overload", overloads(), ids=lambda overload: overload.qualified)
def test_an_output_is_made_of_every_overload(overload: Any) -> None:
    """Every overload has a fake kernel and a real one."""
    packet = getattr(ops, overload.op)
    defined = getattr(packet, overload.name or "default")
    keys = ("CPU", "CUDA", "Meta")
    assert all(torch._C._dispatch_has_kernel_for_dispatch_key(defined.name(), key) for key in keys)


class Network(torch.nn.Module):
    """Every op in sequence, from floats to floats."""

    def __init__(self) -> None:
        super().__init__()
        for name, tensor in {
            "w": W,
            "scales": SCALES,
            "bias": BIAS,
            "w3": W3,
            "rows": integers(5, 16),
            "up": UP,
        }.items():
            self.register_buffer(name, tensor)

    def forward(self, real: Any) -> Any:
        x = ops.expression([ops.quantize(real, 0.05, 3)], program=PROGRAM)
        pool = {"window": 3, "window_stride": 2, "window_padding": 1}
        y = ops.conv2d_pool(x, self.w, self.scales, self.bias, padding=1, activation="relu", **pool, **NUMBERS)
        chained = {**CHAIN, "first_w_scale": self.scales, "first_bias": self.bias, "second_w_scale": self.scales[3:4]}
        z = ops.conv2d_conv2d(ops.max_pool2d(x, 3, 2, 1), self.w, self.w3, **chained)
        z = ops.conv2d(z, self.w, 0.01, padding=1, x_scale=0.5, y_scale=0.2)
        z = ops.conv_transpose2d(z, self.up, 0.01, padding=1, x_scale=0.2, y_scale=4.0)
        y = ops.add(y, z, a_scale=0.2, b_scale=0.2, y_scale=0.3, a_zero_point=-5)
        y = ops.mul(y, ops.avg_pool2d(y, 1), a_scale=0.1, b_scale=0.1, y_scale=0.3)
        rows = ops.global_avg_pool2d(y, x_scale=0.3, y_scale=0.1).flatten(1)
        return ops.dequantize(ops.linear(rows, self.rows, 0.01, x_scale=0.1, y_scale=0.05), 0.05) + 1


def expected(x: Any) -> Any:
    with torch.no_grad():
        return Network()(x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, LAST])
def test_compile_in_one_graph(backend: str, layout: Any) -> None:
    if backend == "inductor" and which("g++") is None:
        pytest.skip("inductor compiles with a C++ compiler, and there is no g++")
    x = REAL.to(memory_format=layout)
    compiled = torch.compile(Network(), fullgraph=True, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(compiled(x), expected(x))


def test_compiled_weights_may_be_written() -> None:
    network = Network()
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        before = compiled(REAL)
        network.w.neg_()
        after = compiled(REAL)
        assert torch.equal(after, network(REAL))
        network.w.neg_()
        assert torch.equal(before, compiled(REAL))
        assert not torch.equal(before, after)


def exported(dynamic: bool) -> Any:
    shapes = {"real": {0: torch.export.Dim("n", min=2, max=64)}} if dynamic else None
    return torch.export.export(Network(), (REAL,), dynamic_shapes=shapes)


@pytest.mark.parametrize("dynamic", [False, True])
def test_export_there_and_back(dynamic: bool, tmp_path: Path) -> None:
    torch.export.save(exported(dynamic), tmp_path / "network.pt2")
    loaded = torch.export.load(tmp_path / "network.pt2").module()
    for x in [REAL, torch.cat([REAL, -REAL])] if dynamic else [REAL]:
        assert torch.equal(loaded(x), expected(x))


def test_an_exported_network_has_the_ops() -> None:
    targets = [str(node.target) for node in exported(False).graph.nodes if node.op == "call_function"]
    assert {target.split(".")[1] for target in targets if target.startswith("qconv.")} == set(OPS) - {"conv2d_block"}


@pytest.mark.slow
@pytest.mark.skipif(which("g++") is None, reason="AOTInductor compiles with a C++ compiler, and there is no g++")
def test_a_package_of_aot_inductor(tmp_path: Path) -> None:
    """In a process that has imported qconv.torch: the ops are Python."""
    package = torch._inductor.aoti_compile_and_package(exported(False), package_path=str(tmp_path / "network.pt2"))
    loaded = torch._inductor.aoti_load_package(package)
    for _ in range(2):
        assert torch.equal(loaded(REAL), expected(REAL))


@pytest.mark.filterwarnings("error")
def test_what_an_op_gives_requires_no_gradient() -> None:
    scales = torch.nn.Parameter(SCALES.clone())
    y = ops.conv2d(X, W, scales, x_scale=0.02, out_dtype=torch.float32)
    assert not y.requires_grad
    head = torch.nn.Linear(3, 2)
    head(y).sum().backward()
    assert head.weight.grad is not None
    assert scales.grad is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        y.sum().backward()


def test_fakes_say_what_is_wrong() -> None:
    def wrong(x: Any) -> Any:
        return ops.conv2d(x, W[:, :3], 1.0)

    call: Callable[[Any], Any] = torch.compile(wrong, fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="w has 3 channels a group"):
        call(X)


def test_forgetting_is_offered() -> None:
    assert qconv.torch.forget in (getattr(qconv.torch, name) for name in qconv.torch.__all__)
