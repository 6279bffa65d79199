"""The op expression: the bits of the same layers from ONNX, in every order of axes, at every shape."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'qconv-tune[torch]'")
pytest.importorskip("torch.ao.quantization.fx._decomposed", reason="this PyTorch has no quantized_decomposed")

from torch.nn import functional  # noqa: E402
from torch_functions import EXPRESSION, Y, dq, integers, lowered, of, program, q, targets  # noqa: E402

import qconv.torch  # noqa: E402
from qconv.torch.packing import _kept  # noqa: E402

X, GATE = integers(2, 8, 6, 4), integers(2, 8, 1, 1, seed=1)


def gated(m: Any, x: Any, gate: Any) -> Any:
    return q(dq(x) * functional.hardsigmoid(dq(gate, Y)))


def onnx_bits(nodes: Any, constants: dict[str, Any], inputs: dict[str, Any]) -> Any:
    """Return the output y of a model of these nodes, by a session."""
    onnx = pytest.importorskip("onnx")
    from onnx import helper, numpy_helper

    from qconv.onnx import Session

    held = [
        numpy_helper.from_array(torch.tensor(value[0], dtype=value[1]).numpy(), name)
        for name, value in constants.items()
    ]
    types = {torch.int8: onnx.TensorProto.INT8, torch.float32: onnx.TensorProto.FLOAT}
    given = [helper.make_tensor_value_info(name, types[x.dtype], x.shape) for name, x in inputs.items()]
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, None)]
    graph = helper.make_graph([helper.make_node(op, i, [o], **a) for op, i, o, a in nodes], "g", given, made, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    (y,) = Session(model, "cpu", strict=True).run(None, {name: x.numpy() for name, x in inputs.items()})
    return torch.from_numpy(y)


SCALES = {
    "xs": (0.02, torch.float32), "xz": (3, torch.int8), "ys": (0.05, torch.float32), "yz": (-7, torch.int8),
}  # fmt: skip


def test_the_bits_are_those_of_the_layers_from_onnx() -> None:
    module, _ = lowered(gated, X, GATE)
    nodes = [
        ("DequantizeLinear", ["x", "xs", "xz"], "xr", {}),
        ("DequantizeLinear", ["g", "ys", "yz"], "gr", {}),
        ("HardSigmoid", ["gr"], "s", {"alpha": 1 / 6, "beta": 0.5}),
        ("Mul", ["xr", "s"], "p", {}),
        ("QuantizeLinear", ["p", "ys", "yz"], "y", {}),
    ]
    assert torch.equal(module(X, GATE), onnx_bits(nodes, SCALES, {"x": X, "g": GATE}))


def test_resized_bits_are_those_of_the_layers_from_onnx() -> None:
    def body(m: Any, x: Any) -> Any:
        real = dq(x)
        return q(
            torch.cat(
                [functional.interpolate(real, scale_factor=2.0, mode="bilinear").tanh(), real.repeat(1, 1, 2, 2)], 1
            )
        )

    module, _ = lowered(body, X)
    nodes = [
        ("DequantizeLinear", ["x", "xs", "xz"], "xr", {}),
        ("Resize", ["xr", "", "by"], "r", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
        ("Tanh", ["r"], "t", {}),
        ("Tile", ["xr", "times"], "w", {}),
        ("Concat", ["t", "w"], "c", {"axis": 1}),
        ("QuantizeLinear", ["c", "ys", "yz"], "y", {}),
    ]
    more = {"by": ([1.0, 1.0, 2.0, 2.0], torch.float32), "times": ([1, 1, 2, 2], torch.int64)}
    assert torch.equal(module(X), onnx_bits(nodes, SCALES | more, {"x": X}))


def test_the_order_of_axes_changes_no_bit() -> None:
    module, _ = lowered(gated, X, GATE)
    want = module(X, GATE)
    for x in (X.contiguous(memory_format=torch.channels_last), X.transpose(2, 3).contiguous().transpose(2, 3)):
        assert torch.equal(module(x, GATE), want)


def test_images_with_the_channels_last_are_read_where_they_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _ = lowered(gated, X, GATE)
    want = module(X, GATE)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a copy")

    last = X.contiguous(memory_format=torch.channels_last)
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "contiguous", refused)
        assert torch.equal(module(last, GATE), want)


def test_a_view_at_an_odd_address_is_copied() -> None:
    module, _ = lowered(gated, X, GATE)
    odd = torch.cat([X.reshape(-1)[:1], X.reshape(-1)])[1:].reshape(X.shape)
    assert torch.equal(module(odd, GATE), module(X, GATE))


def test_an_output_has_the_order_that_its_fake_has() -> None:
    """A convolution in front makes images with the channels last."""

    def body(m: Any, x: Any) -> Any:
        filters = of.dequantize_per_tensor(x[:, :, :3, :3].clone() * 0 + 1, 0.01, 0, -128, 127, torch.int8)
        return functional.softmax(dq(x), -1), functional.softmax(dq(x), 1), dq(x).mean(1) * filters.sum()

    module, _ = lowered(body, X)
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = module(mode.from_tensor(X))
    for real, fake in zip(module(X), fakes, strict=True):
        assert (real.shape, real.stride(), real.dtype) == (fake.shape, fake.stride(), fake.dtype)


def test_one_text_serves_every_batch() -> None:
    module, _ = lowered(gated, X, GATE, batch=True)
    assert list(targets(module)) == [EXPRESSION]
    both = module(torch.cat([X, X]), torch.cat([GATE, GATE]))
    assert torch.equal(both, module(X, GATE).repeat(2, 1, 1, 1))
    assert module(X[:0], GATE[:0]).shape == (0, 8, 6, 4)


def test_a_long_row_is_folded_in_parts() -> None:
    x = integers(1, 1, 160, 160)
    module, (found,) = lowered(lambda m, x: q(dq(x) - dq(x).mean((2, 3), keepdim=True)), x)
    assert list(targets(module)) == [EXPRESSION]
    assert len(qconv.torch.problems(module, x)) == 3
    assert found.largest <= 1


def test_kernels_are_chosen_once_for_each_shape() -> None:
    module, _ = lowered(gated, X, GATE, batch=True)
    qconv.torch.forget()
    for _ in range(2):
        module(X, GATE)
        module(X[:1], GATE[:1])
    assert len(_kept) == 2
    for count in range(1, 41):
        module(X[:1].expand(count, -1, -1, -1).contiguous(), GATE[:1].expand(count, -1, -1, -1).contiguous())
    assert len(_kept) == 16, "the last ones"


def test_an_expression_is_compiled_and_exported_again() -> None:
    module, _ = lowered(gated, X, GATE)
    want = module(X, GATE)
    assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(X, GATE), want)
    assert torch.equal(torch.export.export(module, (X, GATE)).module()(X, GATE), want)


def test_other_inputs_are_refused() -> None:
    module, _ = lowered(gated, X, GATE)
    (node,) = (node for node in module.graph.nodes if str(node.target) == EXPRESSION)
    text = node.kwargs["program"]
    op = torch.ops.qconv.expression
    for inputs, why in (
        ([], "an expression reads at least one tensor"),
        ([X], "1 inputs were given; the expression reads 2"),
        ([X, GATE.float()], "an input has type torch.float32; the expression reads torch.int8"),
        ([X[:, :4], GATE], r"an input has the shape \(2, 4, 6, 4\); the expression reads one of"),
    ):
        with pytest.raises((ValueError, NotImplementedError), match=why if inputs else "inputs|backend"):
            op(inputs, program=text)
    with pytest.raises(ValueError, match=r"give one that qconv\.torch\.lower wrote"):
        op([X], program="{}")


def test_the_op_is_as_pytorch_wants_it() -> None:
    module, _ = lowered(gated, X, GATE)
    (node,) = (node for node in module.graph.nodes if str(node.target) == EXPRESSION)
    torch.library.opcheck(torch.ops.qconv.expression.default, ([X, GATE],), {"program": node.kwargs["program"]})
    assert program(gated, X, GATE)(X, GATE).shape == X.shape
