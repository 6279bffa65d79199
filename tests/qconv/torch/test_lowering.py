"""The nodes of a PT2E graph that become ops, those that stay, and integers that agree within one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_networks import differences, targets  # noqa: E402

import qconv.torch  # noqa: E402

of = torch.ops.quantized_decomposed
X, Y = (0.02, 3, -128, 127, torch.int8), (0.3, -7, -128, 127, torch.int8)
U = (0.3, 9, 0, 255, torch.uint8)
AGAIN = (0.02, 3)
ENDS = ("qconv.quantize.scalar", "qconv.dequantize.scalar")
EXPRESSION = "qconv.expression.default"


def integers(*shape: int, seed: int = 0) -> Any:
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(seed))


T = integers(2, 8, 9, seed=3)


def dq(x: Any, values: Any = X) -> Any:
    return of.dequantize_per_tensor(x, *values)


def q(x: Any, values: Any = Y) -> Any:
    return of.quantize_per_tensor(x, *values)


class Graph(torch.nn.Module):
    """A module with `body`, and its integer inputs."""

    def __init__(self, body: Callable[..., Any], channels: int = 8) -> None:
        super().__init__()
        self.body = body
        self.register_buffer("w", integers(8, channels, 3, 3, seed=1))
        self.register_buffer("rows", integers(5, 6, seed=2))
        self.register_buffer("scales", torch.linspace(0.001, 0.004, 8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("bias", torch.linspace(-2, 2, 8))

    def forward(self, *inputs: Any) -> Any:
        return self.body(self, *inputs)

    def filters(self) -> Any:
        return of.dequantize_per_channel(self.w, self.scales, self.zeros, 0, -128, 127, torch.int8)

    def taps(self) -> Any:
        return of.dequantize_per_channel(self.w[:, :, 0], self.scales, self.zeros, 0, -128, 127, torch.int8)

    def conv(self, x: Any, **window: Any) -> Any:
        return functional.conv2d(dq(x), self.filters(), self.bias, **{"padding": 1, **window})


def lowered(body: Callable[..., Any], *inputs: Any) -> tuple[Any, list[Any]]:
    """Return the lowered module, and the differences of its layers. Conversions match the graph's bits."""
    inputs = inputs or (integers(2, 8, 6, 6),)
    program = torch.export.export(Graph(body), inputs).module()
    module = qconv.torch.lower(program)
    with torch.no_grad():
        assert module(*inputs).dtype == program(*inputs).dtype
    found = differences(program, module, *inputs)
    ends = [each for each in found if each.op in ENDS]
    assert not any(each.differing for each in ends)
    return module, [each for each in found if each not in ends]


WITH = {
    "relu": lambda m, x: q(torch.relu(m.conv(x))),
    "relu6": lambda m, x: q(functional.hardtanh(m.conv(x), 0.0, 6.0)),
    "clamp": lambda m, x: q(functional.hardtanh(m.conv(x), -1.0, 2.5)),
    "clamp ": lambda m, x: q(torch.clamp(m.conv(x), min=-1.0)),
    "silu": lambda m, x: q(functional.silu(m.conv(x))),
    "hardswish": lambda m, x: q(functional.hardswish(m.conv(x))),
    "leaky_relu": lambda m, x: q(functional.leaky_relu(m.conv(x), 0.1)),
    "residual": lambda m, x: q(m.conv(x) + dq(x)),
    "relu, residual": lambda m, x: q(torch.relu(dq(x) + m.conv(x))),
    "relu, max pool": lambda m, x: q(functional.max_pool2d(torch.relu(m.conv(x)), 3, 2, 1)),
    "max pool": lambda m, x: q(functional.max_pool2d(m.conv(x), 2), U),
}


@pytest.mark.turns
@pytest.mark.parametrize("taken", WITH)
def test_a_convolution_takes_what_follows(taken: str) -> None:
    module, found = lowered(WITH[taken])
    assert qconv.torch.explain(module) == f"conv2d: qconv.conv2d, with {taken.strip()}, quantized"
    assert not [target for target in targets(module) if target.startswith(("aten.", "quantized_decomposed."))]
    (one,) = found
    assert one.largest <= 1
    assert one.differing <= one.count / 500


@pytest.mark.parametrize(
    ("body", "op"),
    [
        (lambda m, x: q(m.conv(x, stride=2, padding=(0, 1))), "conv2d"),
        (lambda m, x: q(functional.conv2d(dq(x), m.filters(), None, dilation=2)), "conv2d"),
        (lambda m, x: q(functional.conv2d(dq(x), dq(m.w, (0.01, 5, -128, 127, torch.int8)), m.bias)), "conv2d"),
        (lambda m, x: q(functional.linear(dq(x), dq(m.rows, (0.01, 0, -127, 127, torch.int8)))), "linear"),
        (lambda m, x: q(functional.conv2d(dq(x), m.filters(), m.bias * 2 + 1)), "conv2d"),
        (lambda m, x: q(m.conv(x, padding="valid")), "conv2d"),
        (lambda m, x: q(m.conv(x, padding="same", dilation=(1, 2))), "conv2d"),
        (lambda m, x: q(functional.conv2d(dq(x), dq(m.w[:, :, :2].clone(), X), padding="same")), "conv2d"),
    ],
)
def test_layers(body: Any, op: str) -> None:
    module, (found,) = lowered(body)
    assert qconv.torch.explain(module) == f"{op}: qconv.{op}, with quantized"
    assert found.largest <= 1
    assert found.differing <= found.count / 500


ROWS = {
    "relu, quantized": lambda m, x: q(torch.relu(functional.conv1d(dq(x), m.taps(), m.bias, 2, 1))),
    "residual, quantized": lambda m, x: q(functional.conv1d(dq(x), m.taps(), m.bias, padding="same") + dq(x)),
    "real output": lambda m, x: functional.conv1d(dq(x), m.taps(), m.bias, dilation=2),
}


@pytest.mark.parametrize("taken", ROWS)
def test_a_convolution_of_rows_is_one_of_images(taken: str) -> None:
    x = integers(2, 8, 9)
    module, (found,) = lowered(ROWS[taken], x)
    assert qconv.torch.explain(module) == f"conv1d: qconv.conv2d, with {taken}"
    assert found.largest <= (1 if "quantized" in taken else 1e-5)


def test_rows_between_convolutions_are_not_copied() -> None:
    module, _ = lowered(lambda m, x: q(functional.conv1d(dq(q(functional.conv1d(dq(x), m.taps()))), m.taps())), T)
    assert set(targets(module)) == {"qconv.conv2d.default", "aten.unsqueeze.default", "aten.squeeze.dim"}
    assert module(T).stride() == (5 * 8, 1, 8)


REAL = {
    "two readers": lambda m, x: (lambda y: q(y) + q(torch.tanh(torch.relu(y)) + torch.exp(y)))(m.conv(x)),
    "a narrow range": lambda m, x: q(m.conv(x), (0.3, 0, -127, 127, torch.int8)),
    "no quantization": lambda m, x: torch.cumsum(m.conv(x), 1),
    "a pool of real numbers": lambda m, x: functional.max_pool2d(m.conv(x), 2),
    "a window larger than the image": lambda m, x: q(functional.max_pool2d(m.conv(x), 7, 3, ceil_mode=True)),
    "another sum": lambda m, x: q(torch.add(m.conv(x), dq(x), alpha=2)),
    "a smaller residual": lambda m, x: q(m.conv(x) + dq(x[:1])),
}


@pytest.mark.parametrize("why", REAL)
def test_what_is_not_quantized_is_real(why: str) -> None:
    module, found = lowered(REAL[why])
    assert "conv2d: qconv.conv2d, with real output" in qconv.torch.explain(module)
    assert max(one.largest for one in found) < 1e-4


def test_real_output_may_have_an_activation() -> None:
    module, (found,) = lowered(lambda m, x: torch.cumsum(torch.relu(m.conv(x) + dq(x)), 1))
    first, *rest = qconv.torch.explain(module).split("\n")
    assert first == "conv2d: qconv.conv2d, with relu, residual, real output"
    assert rest == ["cumsum: PyTorch, no op here computes aten.cumsum.default"]
    assert found.largest < 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_of_16_bits_stays_one(dtype: Any) -> None:
    def body(m: Any, x: Any) -> Any:
        real = of.dequantize_per_tensor(x, *X, out_dtype=dtype)
        filters = of.dequantize_per_tensor(m.w, 0.002, 0, -128, 127, torch.int8, out_dtype=dtype)
        return torch.relu(functional.conv2d(real, filters, m.bias.to(dtype)))

    module, found = lowered(body)
    assert "conv2d: qconv.conv2d, with relu, real output" in qconv.torch.explain(module)
    assert found[0].largest <= 0.1, "the dtype of the whole is compared by `lowered`"


STAYS = {
    "x is not dequantized from 8 bits with one constant scale": lambda m, x: q(
        functional.conv2d(dq(x, (0.02, 3, -(2**15), 2**15 - 1, torch.int16)), m.filters()), Y
    ),
    "its weights are not dequantized from 8 bits": lambda m, x: q(functional.conv2d(dq(x), m.filters() * 2)),
    "the graph computes its weights": lambda m, x: q(functional.conv2d(dq(x), dq(x[:, :, :3, :3]))),
    "its input has three axes": lambda m, x: q(functional.conv2d(dq(x[0]), m.filters())),
    "the graph computes its bias": lambda m, x: q(functional.conv2d(dq(x), m.filters(), dq(x)[0, :, 0, 0])),
}


@pytest.mark.parametrize("why", STAYS)
def test_what_stays_says_why(why: str) -> None:
    x = integers(2, 8, 6, 6)
    module, found = lowered(STAYS[why], x.to(torch.int16) if "x is" in why else x)
    assert f"conv2d: PyTorch, {why}" in qconv.torch.explain(module)
    assert {one.op for one in found} <= {EXPRESSION}


def test_what_has_no_graph_or_no_report_is_refused() -> None:
    program = torch.export.export(Graph(WITH["relu"]), (integers(2, 8, 6, 6),))
    for function in (qconv.torch.lower, qconv.torch.fuse):
        with pytest.raises(ValueError, match=r"a Graph has no graph: give torch\.export\.export"):
            function(Graph(WITH["relu"]))
    for module in (torch.nn.ReLU(), program.module()):
        with pytest.raises(ValueError, match="has no report: give what lower or fuse gave"):
            qconv.torch.explain(module)
    once = qconv.torch.lower(program)
    assert qconv.torch.explain(qconv.torch.lower(once)) == qconv.torch.explain(once)


def test_other_layers_are_named() -> None:
    image = integers(1, 8, 2, 5, 5)
    module, _ = lowered(lambda m, x: functional.conv_transpose3d(dq(x), dq(m.w)[:, :, None]), image)
    assert qconv.torch.explain(module) == "conv_transpose3d: PyTorch, no op here computes aten.conv_transpose3d.input"


def test_sums_that_no_kernel_has_stay() -> None:
    class Long(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", integers(1, 7400, 3, 3))

        def forward(self, x: Any) -> Any:
            return q(functional.conv2d(dq(x), dq(self.w)))

    x = torch.zeros(1, 7400, 3, 3, dtype=torch.int8)
    module = qconv.torch.lower(torch.export.export(Long(), (x,)))
    assert "conv2d: PyTorch, a sum of r*s*c/groups=66600 products can reach" in qconv.torch.explain(module)


@pytest.mark.parametrize(("second", "folds"), [(Y, True), ((0.3, -6, *Y[2:]), False), ((0.31, *Y[1:]), False)])
def test_a_clamp_between_equal_integers_is_folded(second: Any, folds: bool) -> None:
    module, found = lowered(lambda m, x: q(torch.relu(dq(q(m.conv(x)), Y)), second))
    assert ("with relu, quantized" in qconv.torch.explain(module)) == folds
    assert found[0].largest <= 1


# Functions of one input, or of two.
BETWEEN = {
    "qconv.add": lambda m, x, y: q(dq(x) + dq(y, Y)),
    "qconv.add, relu": lambda m, x, y: q(torch.relu(dq(x) + dq(y, Y)), U),
    "qconv.mul": lambda m, x, y: q(dq(x) * dq(y, Y)),
    "qconv.max_pool2d": lambda m, x: q(functional.max_pool2d(dq(x), 3, 2, 1), X),
    "qconv.avg_pool2d": lambda m, x: q(functional.avg_pool2d(dq(x), 3, 2, 1)),
    "qconv.avg_pool2d, not whole": lambda m, x: q(functional.avg_pool2d(dq(x), 3, 2, ceil_mode=True)),
    "qconv.avg_pool2d, padded": lambda m, x: q(functional.avg_pool2d(dq(x), 3, 2, 1, True, False)),
    "qconv.global_avg_pool2d": lambda m, x: q(functional.adaptive_avg_pool2d(dq(x), 1)),
    "qconv.global_avg_pool2d, mean": lambda m, x: q(dq(x).mean((2, 3), keepdim=True)),
    "aten.flatten.using_ints": lambda m, x: q(dq(x).flatten(1), X),
    "aten.permute": lambda m, x: q(dq(x).permute(0, 2, 3, 1), X),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_between_integers(name: str) -> None:
    count = BETWEEN[name].__code__.co_argcount - 1
    pixels = (2, 8, 1, 1) if name == "qconv.mul" else (2, 8, 6, 6)
    module, (found,) = lowered(BETWEEN[name], *(integers(2, 8, 6, 6), integers(*pixels, seed=5))[:count])
    op = name.split(",")[0]
    says = "of integers as they are" if op.startswith("aten.") else "in the place of aten."
    assert f": {op}, {says}" in qconv.torch.explain(module)
    assert any(target.startswith(op) for target in targets(module))
    assert not [target for target in targets(module) if target.startswith("quantized_decomposed.")]
    assert found.largest <= (0 if op.startswith("aten.") or "max" in op else 1)
    assert found.differing <= found.count / 100


@pytest.mark.parametrize(
    "body",
    [
        lambda m, x: q(dq(x).flatten(1)),
        lambda m, x: q(functional.max_pool2d(dq(x), 2)),
        lambda m, x: q(torch.cat([dq(x), dq(x, Y)], 1), X),
        lambda m, x: q(torch.cat([dq(x), dq(x.flip(0))], 1), X),
        lambda m, x: q(dq(x).mean((2, 3))),
        lambda m, x: q(dq(x) + dq(x[:, :, :1].clone())),
        lambda m, x: q(torch.relu(functional.max_pool2d(dq(x), 2)), X),
        lambda m, x: q(torch.sub(dq(x), dq(x))),
        lambda m, x: q(functional.avg_pool2d(dq(x), 3, 2, 1, ceil_mode=True)),
    ],
)
def test_other_numbers_and_shapes_are_expressions(body: Any) -> None:
    module, (found,) = lowered(body)
    assert list(targets(module)) == [EXPRESSION]
    assert found.largest <= 1


@pytest.mark.parametrize("limits", [X, U, (0.02, 3, -100, 90, torch.int8)])
def test_what_only_converts_is_one_op(limits: Any) -> None:
    real = torch.randn(2, 8, 5, 3, generator=torch.Generator().manual_seed(0)) * 4
    ties = (torch.arange(2 * 8 * 5 * 3).reshape(real.shape) - 120.5) * limits[0]
    for x in (real, ties, real.to(memory_format=torch.channels_last)):
        module, found = lowered(lambda m, x: dq(q(x, limits).sort(0)[0], limits).cumsum(0), x)
        assert not found
        assert [target for target in targets(module) if target.startswith("q")] == list(ENDS)


WRITES = {
    "relu": lambda m, x: q(torch.relu_(m.conv(x))),
    "relu6": lambda m, x: q(functional.hardtanh_(m.conv(x), 0.0, 6.0)),
    "hardswish": lambda m, x: q(functional.hardswish(m.conv(x), inplace=True)),
    "residual, relu": lambda m, x: q(torch.relu_(m.conv(x).add_(dq(x)))),
    "dropout": lambda m, x: q(functional.dropout(m.conv(x), 0.3, training=False)),
    "dropout, written": lambda m, x: q(functional.dropout(m.conv(x), 0.3, training=False, inplace=True)),
}


@pytest.mark.parametrize("name", WRITES)
def test_nothing_is_left_of_ops_that_write_into_their_input(name: str) -> None:
    module, (found,) = lowered(WRITES[name])
    assert list(targets(module)) == ["qconv.conv2d.default"]
    assert found.largest <= 1


VIEWS = {
    "integers": lambda m, x: q(dq(q(m.conv(x))).view(x.size(0), -1)),
    "real numbers": lambda m, x: m.conv(x).view(x.size(0), 4, -1).cumsum(0),
    "moved by a pool": lambda m, x: q(dq(q(functional.max_pool2d(dq(q(m.conv(x))), 2))).view(-1, 72)),
}


@pytest.mark.parametrize("of", VIEWS)
def test_a_view_may_be_of_images_that_are_channels_last(of: str) -> None:
    module, found = lowered(VIEWS[of])
    assert "aten.view.default" not in targets(module)
    assert found[-1].largest <= 1


def test_a_view_that_is_written_stays() -> None:
    def body(m: Any, x: Any) -> Any:
        real = dq(x)
        real.view(2, -1)[:, :5].zero_()
        return real

    x = integers(2, 8, 6, 6)
    program = torch.export.export(Graph(body), (x,)).module()
    module = qconv.torch.lower(program)
    assert "aten.view.default" in targets(module)
    assert torch.equal(module(x), program(x))


def test_what_others_see_is_written() -> None:
    def body(m: Any, x: Any) -> Any:
        y = m.conv(x)
        part = y[:, :4]
        return y.relu_() + part.add_(1.0).sum() + y

    module, _ = lowered(body)
    x = integers(2, 8, 6, 6)
    program = torch.export.export(Graph(body), (x,)).module()
    assert [target for target in targets(module) if "_." in target] == ["aten.relu_.default", "aten.add_.Tensor"]
    assert torch.allclose(module(x), program(x), atol=1e-3)


def test_the_program_stays_as_it_was() -> None:
    program = torch.export.export(Graph(WITH["relu, max pool"]), (integers(2, 8, 6, 6),)).module()
    before = str(program.graph)
    qconv.torch.lower(program)
    assert str(program.graph) == before


def test_a_dynamic_batch() -> None:
    x = integers(2, 8, 6, 6)
    program = torch.export.export(
        Graph(WITH["relu, residual"]), (x,), dynamic_shapes={"inputs": ({0: torch.export.Dim("n", min=2, max=9)},)}
    )
    module = qconv.torch.lower(program)
    assert "with relu, residual, quantized" in qconv.torch.explain(module)
    both = torch.cat([x, x])
    assert torch.equal(module(both), torch.cat([module(x), module(x)]))
