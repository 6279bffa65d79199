"""Lowering of torchao's PT2E graphs: computations between integers become ops of `torch.ops.qconv`.

A convolution or linear layer with dequantized input and weights absorbs what follows, as long as each node has one
reader: a dequantized residual, an activation, a max pool, and the node that quantizes. Without the last, its output is
real. `tensor_ops` lowers other ops between integers, and `islands` all other nodes that have expressions. What is left
stays, and the report says why.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from qconv.torch import convolution
from qconv.torch.functional import makes, without_assertions, without_views, without_writes, writes, written
from qconv.torch.islands import lower_islands
from qconv.torch.library import given_of
from qconv.torch.pattern import (
    CLAMPS,
    REPLACES,
    Quantized,
    Unmatched,
    activation_of,
    arguments,
    attribute,
    constant,
    dequantized,
    held,
    only_user,
    quantized,
    replace,
    shape_of,
    target_of,
)
from qconv.torch.tensor_ops import between, lower_end, window_fits
from qconv.torch.transposed import as_convolution
from qconv.torch.volumes import VolumeNodes

# The arithmetic of the graph: exact sums times x_scale * w_scale, plus the real bias, times 1 / y_scale.
MODE = "order=multiply_reciprocal:bias_scaling=real"
LAYERS = {
    **dict.fromkeys(("aten.conv1d.default", "aten.conv1d.padding"), "conv1d"),
    **dict.fromkeys(("aten.conv2d.default", "aten.conv2d.padding"), "conv2d"),
    **dict.fromkeys(("aten.conv3d.default", "aten.conv3d.padding"), "conv3d"),
    "aten.conv_transpose2d.input": "conv_transpose2d",
    "aten.linear.default": "linear",
}
AXES = {"conv1d": 3, "conv2d": 4, "conv_transpose2d": 4, "conv3d": 5}
# One of the inputs that each kind takes a batch of.
ONE_INPUT = {
    "conv1d": "two axes, one row",
    **dict.fromkeys(("conv2d", "conv_transpose2d"), "three axes, one image"),
    "conv3d": "four axes, one volume",
}
# The op of each kind of layer. A row of pixels is an image of one row.
OPS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "conv2d"),
    **{name: name for name in ("conv_transpose2d", "linear")},
}
# The axis of the weights' outputs.
OUTPUTS = {"conv_transpose2d": 1}
WINDOW = ("stride", "padding", "output_padding", "dilation", "groups")
MAX_POOL = "aten.max_pool2d.default"
REPORT = "qconv"


@dataclass(frozen=True)
class Row:
    """A row of the report. `op` is None for a layer that stays in PyTorch."""

    layer: str
    op: str | None
    says: str

    def __str__(self) -> str:
        return f"{self.layer}: {self.op or 'PyTorch'}, {self.says}"


@dataclass
class Tail:
    """The nodes that a layer absorbs, up to `last`. Its output is `out`, or real numbers if that is None."""

    last: Any
    out: Quantized | None = None
    activation: dict[str, Any] = field(default_factory=dict)
    residual: Quantized | None = None
    pool: Any = None

    @property
    def says(self) -> str:
        taken = [self.activation.get("activation"), self.residual and "residual", self.pool and "max pool"]
        words = [word for word in taken if word] + ["quantized" if self.out else "real output"]
        return "with " + ", ".join(words)


def lower(program: Any) -> Any:
    """Return a module that computes the same as `program`, which is an ExportedProgram or the GraphModule of
    `convert_pt2e`. It can be called, compiled and exported again; `explain` reports on each layer. The weights are
    shared."""
    exported = isinstance(program, torch.export.ExportedProgram)
    module = program.module() if exported else copy_of(program)
    without_assertions(module)
    without_writes(module)
    without_views(module)
    _propagate(module)
    # Keep the rows of layers that were lowered before.
    rows = [row for row in module.meta.get(REPORT, ()) if row.op is not None]
    for node in list(module.graph.nodes):
        if (kind := LAYERS.get(target_of(node))) is not None:
            try:
                rows.append(Row(node.name, f"qconv.{OPS[kind]}", _lower_layer(node, kind)))
            except Unmatched as reason:
                rows.append(Row(node.name, None, str(reason)))
    moves = [move for node in list(module.graph.nodes) if (move := between(node)) is not None and move.is_move]
    moved = {move.lower(): move for move in moves}
    module.graph.eliminate_dead_code()
    made, why_not = lower_islands(module, written(module))
    module.graph.eliminate_dead_code()
    rows += [Row(moved[node].last.name, *moved[node].row) for node in module.graph.nodes if node in moved]
    rows += [Row(*row) for row in made]
    for node in list(module.graph.nodes):
        lower_end(node)
    module.graph.eliminate_dead_code()
    rows += [Row(name, None, why) for name, why in staying(module.graph, [row.layer for row in rows], why_not)]
    module.graph.lint()
    module.recompile()
    module.meta[REPORT] = tuple(rows)
    return module


def copy_of(lowered: Any) -> Any:
    """Return a module with a copy of the graph, the same weights and the same report."""
    if not isinstance(lowered, torch.fx.GraphModule):
        raise ValueError(
            f"a {type(lowered).__name__} has no graph: give torch.export.export(module, inputs), or what convert_pt2e "
            "or qconv.torch.lower gave"
        )
    module = torch.fx.GraphModule(lowered, copy.deepcopy(lowered.graph))
    module.meta[REPORT] = lowered.meta.get(REPORT, ())
    return module


def explain(module: Any) -> str:
    """Return a report on each layer: which op computes it, or why it stays in PyTorch."""
    rows = getattr(module, "meta", {}).get(REPORT)
    if rows is None:
        raise ValueError(
            f"this {type(module).__name__} has no report: give what lower or fuse gave, not a copy by export"
        )
    return "\n".join(map(str, rows))


def _propagate(module: Any) -> None:
    """Compute the shapes of all nodes, if those of the inputs are known. The quantizer inserts nodes without shapes."""
    inputs = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
    mode = next((value.fake_mode for value in inputs if hasattr(value, "fake_mode")), None)
    if mode is not None and all(value is not None for value in inputs):
        # PyTorch's own dispatcher would take a resized batch for one of the example's size.
        with enable_python_dispatcher():
            FakeTensorProp(module, mode).propagate_dont_convert_inputs(*inputs)


def _lower_layer(node: Any, kind: str) -> str:
    values = arguments(node)
    x, w = _operand("x", values["input"]), dequantized(values["weight"])
    if len(shape_of(values["input"]) or ()) + 1 == AXES.get(kind):
        raise Unmatched(f"its input has {ONE_INPUT[kind]} without a batch: give it a batch of one")
    if w is None or w.axis not in (None, OUTPUTS.get(kind, 0)) or w.dtype not in (torch.int8, torch.uint8):
        raise Unmatched("its weights are not dequantized from 8 bits, per tensor or per output channel")
    window: dict[str, Any] = {name: values[name] for name in WINDOW if name in values}
    if kind == "conv_transpose2d" and w.axis is not None and window["groups"] > 1:
        raise Unmatched("its weights have scales for the outputs of one group, and it has several groups")
    filters, is_row = shape_of(values["weight"]), kind == "conv1d"
    if is_row:
        window |= {name: _of_one_row(name, window[name]) for name in ("stride", "padding", "dilation")}
        filters = filters and (*filters[:2], 1, *filters[2:])
    volume = None
    if kind == "conv3d":
        volume = VolumeNodes.of(values, shape_of(values["input"]), filters, x.zero_point)
        window |= volume.window
    if isinstance(window.get("padding"), str):
        window["padding"] = _pads(values["padding"], filters, window["dilation"])
    constants = [_constant("weights", w.node)] + ([_constant("bias", values["bias"])] if values["bias"] else [])
    zeros = None if w.axis is None else constant(w.zero_point)
    of_w = w.zero_point if w.axis is None or (zeros is not None and zeros.any()) else None
    tail = _tail(node, kind)
    # After all absorbed nodes.
    with node.graph.inserting_before(tail.last):
        weights, bias = (*(attribute(node, *each) for each in constants), None)[:2]
        images = [x.node, tail.residual and tail.residual.node]
        if is_row:
            weights = held(node, f"_qconv_{node.name}_w", constant(weights).unsqueeze(2))
            images = [image and _as_images(image) for image in images]
        if volume is not None:
            weights = held(node, f"_qconv_{node.name}_w", volume.weights(constant(weights)))
            images = [volume.of_x(images[0]), images[1] and volume.of_y(images[1])]
        inputs = (images[0], weights, w.scale, bias, images[1])
        named: dict[str, Any] = {"w_zero_point": of_w or None, **x.numbers("x"), **window, **tail.activation}
        if tail.residual:
            named |= tail.residual.numbers("residual")
        named |= (
            {**tail.out.numbers("y"), "out_dtype": tail.out.dtype} if tail.out else {"out_dtype": _real_type(tail.last)}
        )
        overload = getattr(getattr(torch.ops.qconv, OPS[kind]), "scalar" if w.axis is None else "default")
        _check(overload, (x, tail.residual), inputs, {**named, "mode": MODE})
        made = node.graph.call_function(overload, inputs, {**named, "mode": MODE})
        made.meta |= {name: value for name, value in node.meta.items() if name in ("nn_module_stack", "stack_trace")}
        if tail.pool is not None:
            made = _pooled(tail.pool, made)
        if is_row:
            made = node.graph.call_function(torch.ops.aten.squeeze.dim, (made, 2))
        if volume is not None:
            made.meta["val"] = volume.value(tail.last.meta.get("val"))
            made = volume.back(made)
    replace(tail.last, made)
    return tail.says


def _of_one_row(name: str, given: Any) -> Any:
    """Return a window's argument for images of one row."""
    if isinstance(given, str):
        return given
    across = given if isinstance(given, int) else given[0]
    return [0 if name == "padding" else 1, across]


def _as_images(node: Any) -> Any:
    """Return a node of rows as one of images of one row. The channels stay last in memory where they are."""
    value = node.meta.get("val")
    made = node.graph.call_function(torch.ops.aten.unsqueeze.default, (node, 2))
    made.meta["val"] = value.unsqueeze(2) if isinstance(value, torch.Tensor) else None
    return made


def _real_type(node: Any) -> Any:
    """Return the real type of the graph's computation, if kernels can output it: a network may be in 16 bits."""
    value = node.meta.get("val")
    return value.dtype if getattr(value, "dtype", None) in (torch.float16, torch.bfloat16) else torch.float32


def _operand(name: str, node: Any) -> Quantized:
    found = dequantized(node)
    if found is None or not found.is_served:
        raise Unmatched(f"{name} is not dequantized from 8 bits with one constant scale")
    return found


def _constant(name: str, node: Any) -> tuple[Any, Any]:
    tensor = constant(node)
    if tensor is None:
        raise Unmatched(f"the graph computes its {name}, so that they would be packed at every call")
    return node, tensor


def _pads(name: str, filters: tuple[Any, ...] | None, dilation: Sequence[int]) -> list[int]:
    """Return the pads as (top, left, bottom, right). With "same", the odd pixel is at the bottom or right."""
    if filters is None:
        raise Unmatched("the shape of its weights, which its padding depends on, is unknown")
    (rows, columns), (down, across) = filters[2:], (*dilation, *dilation)[:2]
    height, width = ((rows - 1) * down, (columns - 1) * across) if name == "same" else (0, 0)
    return [height // 2, width // 2, height - height // 2, width - width // 2]


def _tail(node: Any, kind: str) -> Tail:
    """Return the nodes that a layer absorbs: each has one reader. A max pool is included only before a quantization."""
    tail, pool = Tail(node), None
    while (user := only_user(pool or tail.last)) is not None:
        if (out := quantized(user)) is not None:
            if out.is_whole:
                tail.last, tail.out, tail.pool = user, out, pool
                return _clamped(tail)
            break
        if pool is not None or tail.activation:
            residual = activation = None
        else:
            may_add = tail.residual is None and kind != "conv_transpose2d"
            residual = _residual(user, tail.last) if may_add else None
            activation = activation_of(user)
        if residual is not None:
            tail.last, tail.residual = user, residual
        elif activation is not None:
            tail.last, tail.activation = user, activation
        elif kind == "conv2d" and pool is None and target_of(user) == MAX_POOL and window_fits(user):
            pool = user
        else:
            break
    return tail


def _residual(user: Any, current: Any) -> Quantized | None:
    """Return the tensor that is added to the layer, if its shape is the same."""
    if target_of(user) not in ("aten.add.Tensor", "aten.add_.Tensor") or user.kwargs.get("alpha", 1) != 1:
        return None
    other = user.args[1] if user.args[0] is current else user.args[0]
    found, shape = dequantized(other), shape_of(current)
    same = shape is not None and shape == shape_of(other) and other is not current
    return found if found is not None and found.is_served and same else None


def _clamped(tail: Tail) -> Tail:
    """Absorb a clamp after the quantization if its input and output have the same scale and zero point. Rounding is
    monotone, so that the clamp may precede it."""
    if tail.activation or tail.pool is not None:
        return tail
    real = only_user(tail.last)
    clamp = real and dequantized(real) and only_user(real)
    limits = clamp and activation_of(clamp)
    last = only_user(clamp) if limits and limits["activation"] in CLAMPS else None
    out = quantized(last)
    if limits and out and out.is_whole and tail.out is not None and out.means(tail.out):
        tail.last, tail.out, tail.activation = last, out, limits
    return tail


def _pooled(pool: Any, made: Any) -> Any:
    """Return a max pool of integers. Rounding is monotone, so that it may precede the maximum."""
    values = arguments(pool)
    window: dict[str, Any] = {name: values[name] for name in ("stride", "padding", "dilation", "ceil_mode")}
    return pool.graph.call_function(torch.ops.qconv.max_pool2d.default, (made, values["kernel_size"]), window)


def _check(overload: Any, read: Sequence[Quantized | None], inputs: Sequence[Any], named: dict[str, Any]) -> None:
    """Raise Unmatched where no kernel has the arithmetic, by trying the smallest image that the filter fits into."""
    of_node = {name: constant(value) if isinstance(value, torch.fx.Node) else value for name, value in named.items()}
    weights = (constant(each) if isinstance(each, torch.fx.Node) else each for each in inputs[1:4])
    x, residual = (each and torch.empty(0, dtype=each.dtype, device="meta") for each in read)
    given = given_of(overload, (x, *weights, residual), of_node)
    try:
        convolution.check_smallest(as_convolution(given) if "output_padding" in given else given)
    except ValueError as reason:
        raise Unmatched(str(reason)) from None


def staying(graph: Any, named: Collection[str], why_not: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return these nodes with their reasons, without the `named` ones and without those computed from constants
    alone."""
    constants: set[Any] = set()
    found = []
    for node in graph.nodes:
        read = node.all_input_nodes
        if node.op == "get_attr" or (node.op == "call_function" and read and constants.issuperset(read)):
            constants.add(node)
        elif _computes(node) and node.name not in named:
            found.append((node.name, why_not.get(node.name, f"no op here computes {target_of(node)}")))
    return found


def _computes(node: Any) -> bool:
    """True for a node that computes. Views, sizes and elements of tuples do not."""
    target = target_of(node)
    if not target or target.startswith("qconv.") or REPLACES in node.meta:
        return False
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    value = node.meta.get("val")
    gives_numbers = value is not None and not isinstance(value, torch.Tensor | tuple | list)
    return not gives_numbers and (writes(node) or (makes(node) and bool(node.target._schema.returns)))
