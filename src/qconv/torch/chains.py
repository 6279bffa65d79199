"""Fusion of a lowered network: consecutive convolutions, or a convolution and a max pool, become one kernel where that
is faster for inputs of given shapes. No bit changes, because the kernel rounds intermediate tensors to bytes as if they
were in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from qconv.instances.load.expected import Expectations, LookupTime
from qconv.network.run.arrange import WORTH_MEASURING, Compared, compared, may_be_one_kernel, shortest, us_of
from qconv.op import Problem
from qconv.problem.chain import Chain, chain_of
from qconv.problem.convolution import Conv2d
from qconv.problem.pooled import PooledConv2d
from qconv.tensor_ops import MaxPool
from qconv.torch.arrays import device_of
from qconv.torch.convolution import LAYERS, OWN, problem_of
from qconv.torch.elementwise import OF_POOL, max_pool_problem
from qconv.torch.library import given_of
from qconv.torch.lowering import REPORT, Row, copy_of
from qconv.torch.pattern import REPLACES, target_of

CONVOLUTIONS = ("qconv.conv2d.default", "qconv.conv2d.scalar")
POOL = "qconv.max_pool2d.default"
OPS = {2: "conv2d_conv2d", 3: "conv2d_block"}


@dataclass(frozen=True)
class Layer:
    """A convolution of the graph, or a max pool after one, with the arguments and the problem of one run."""

    node: Any
    given: dict[str, Any]
    problem: Conv2d | MaxPool

    def follows(self, before: Layer) -> bool:
        """True where this is the only reader of the previous layer's output, with the same scale and zero point."""
        if self.node.args[0] is not before.node or list(before.node.users) != [self.node]:
            return False
        if isinstance(before.problem, MaxPool):
            return False
        if isinstance(self.problem, MaxPool):
            return True  # no scale to compare: the pool only moves bytes
        ends = [(before.given, "y"), (self.given, "x")]
        numbers = {tuple(given[f"{of}_{what}"] for what in ("scale", "zero_point")) for given, of in ends}
        return len(numbers) == 1 and before.given["mode"] == self.given["mode"] and before.given["residual"] is None


@dataclass(frozen=True, eq=False)
class Span:
    """Adjacent layers of a run, from `begin` to before `end`, and the times of their one kernel."""

    begin: int
    end: int
    problem: Chain | PooledConv2d
    found: Compared


@dataclass(frozen=True)
class Run:
    """Consecutive layers, and the ways to fuse them. `near` are problems that may have one kernel once they are
    measured."""

    layers: tuple[Layer, ...]
    unfused: tuple[LookupTime, ...]
    spans: tuple[Span, ...]
    near: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, layers: Sequence[Layer], expectations: Expectations) -> Run:
        expected = expectations.of([layer.problem for layer in layers])
        unfused = tuple(one for one in expected if one is not None)
        if len(unfused) < len(layers):
            return cls(tuple(layers), (), ())
        spans, near = [], []
        for begin in range(len(layers)):
            for end in range(begin + 2, min(begin + max(OPS), len(layers)) + 1):
                try:
                    problem = _together([layer.problem for layer in layers[begin:end]])
                except ValueError:  # no kernel computes them together
                    continue
                found = compared(problem, unfused[begin:end], expectations)
                if found is not None:
                    spans.append(Span(begin, end, problem, found))
                elif may_be_one_kernel(problem, expectations):
                    near.append(problem)
        return cls(tuple(layers), unfused, tuple(spans), tuple(near))

    @property
    def chosen(self) -> list[Span]:
        costs = {
            span: sum(map(us_of, self.unfused[span.begin : span.end])) * span.found.safe_ratio for span in self.spans
        }
        return [part for part in shortest(list(map(us_of, self.unfused)), costs) if isinstance(part, Span)]


def _together(problems: Sequence[Conv2d | MaxPool]) -> Chain | PooledConv2d:
    """Return the problem of several layers. Raise ValueError where no kernel computes them together."""
    convolutions = [one for one in problems if isinstance(one, Conv2d)]
    last = problems[-1]
    if not isinstance(last, MaxPool):
        return chain_of(convolutions)
    if len(convolutions) > 1:
        raise ValueError("a kernel with a pool is of one convolution")
    return PooledConv2d.behind(convolutions[0], last)


def fuse(lowered: Any, *inputs: Any, db: str | None = None) -> Any:
    """Fuse the layers of a module from `lower` for inputs of these shapes: two or three convolutions, or one and a max
    pool, become one op where their one kernel is faster by measured times, or clearly faster by predicted ones. Other
    shapes still work, but were not considered. `explain` lists the fused layers. The weights are shared."""
    module = copy_of(lowered)
    for run in _runs(module, inputs, db):
        for span in run.chosen:
            nodes = [layer.node for layer in run.layers[span.begin : span.end]]
            module.meta[REPORT] += (_replace(module, nodes, span),)
    module.graph.lint()
    module.recompile()
    return module


def alternatives(lowered: Any, *inputs: Any, db: str | None = None) -> tuple[Problem, ...]:
    """Return the problems of fused kernels that do not run, but whose times would improve the decision."""
    runs = _runs(lowered, inputs, db)
    worth = [span.problem for run in runs for span in run.spans if span.found.ratio <= WORTH_MEASURING]
    return tuple(dict.fromkeys([*worth, *(problem for run in runs for problem in run.near)]))


def _runs(module: Any, inputs: Sequence[Any], db: str | None) -> list[Run]:
    layers = layers_of(module, inputs)
    if not layers:
        return []
    expectations = Expectations(device_of(layers[0].given["x"].device), db)
    return [Run.of(row, expectations) for row in _in_rows(layers) if len(row) > 1]


def layers_of(module: Any, inputs: Sequence[Any]) -> list[Layer]:
    """Run the module. Return its convolutions in the order of the graph, each followed by its max pool."""
    interpreter, found = torch.fx.Interpreter(module), list[Layer]()
    run_node = interpreter.run_node

    def seen(node: Any) -> Any:
        if target_of(node) in CONVOLUTIONS:
            given = given_of(node.target, *interpreter.fetch_args_kwargs_from_env(node))
            problem = problem_of(given)
            assert isinstance(problem, Conv2d)
            found.append(Layer(node, given, problem))
        elif target_of(node) == POOL and found and node.args[0] is found[-1].node:
            given = given_of(node.target, *interpreter.fetch_args_kwargs_from_env(node))
            found.append(Layer(node, given, max_pool_problem(given)))
        return run_node(node)

    interpreter.run_node = seen
    with torch.no_grad():
        interpreter.run(*inputs)
    return found


def _in_rows(layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    row: list[Layer] = []
    for before, layer in pairwise([None, *layers]):
        assert layer is not None
        if before is not None and not layer.follows(before):
            yield row
            row = []
        row.append(layer)
    yield row


def _replace(module: Any, nodes: Sequence[Any], span: Span) -> Row:
    """Replace several nodes by one op."""
    last = nodes[-1]
    with last.graph.inserting_before(last):
        made = _pooled(*nodes) if isinstance(span.problem, PooledConv2d) else _chained(module, nodes)
    made.meta |= {name: value for name, value in last.meta.items() if name in ("val", "nn_module_stack", REPLACES)}
    last.replace_all_uses_with(made)
    for node in reversed(nodes):
        node.graph.erase_node(node)
    return Row(" and ".join(node.name for node in nodes), target_of(made).rpartition(".")[0], str(span.found))


def _pooled(node: Any, pool: Any) -> Any:
    """Return the pooled op, in the convolution's overload, with the arguments of both nodes."""
    op = getattr(torch.ops.qconv.conv2d_pool, node.target._overloadname)
    own, of_pool = (given_of(each.target, each.args, each.kwargs) for each in (node, pool))
    own |= {ours: of_pool[theirs] for theirs, ours in OF_POOL.items()}
    given = {each.name: own[each.name] for each in op._schema.arguments if own[each.name] is not None}
    inputs = tuple(given.pop(name) for name in ("x", "w", "w_scale"))
    return node.graph.call_function(op, inputs, given)


def _chained(module: Any, nodes: Sequence[Any]) -> Any:
    """Return the op of several convolutions, with their arguments under its names."""
    given = [given_of(node.target, node.args, node.kwargs) for node in nodes]
    first, last = given[0], given[-1]
    named = {name: first[name] for name in ("x_scale", "x_zero_point", "mode")}
    named |= {name: last[name] for name in ("y_scale", "y_zero_point", "residual_scale", "residual_zero_point")}
    for mid, own in zip(("mid", "mid2"), given[:-1], strict=False):
        named |= {f"{mid}_scale": own["y_scale"], f"{mid}_zero_point": own["y_zero_point"]}
        named[f"{mid}_dtype"] = own["out_dtype"]
    named["out_dtype"] = last["out_dtype"]
    for layer, node, own in zip(LAYERS[len(nodes)], nodes, given, strict=True):
        named |= {f"{layer}{name}": own[name] for name in (*OWN, "padding")}
        for name in ("w_scale", "w_zero_point"):
            if isinstance(own[name], (int, float)):
                named[f"{layer}{name}"] = _as_tensor(module, node, name, own[name])
    weights = [own["w"] for own in given]
    op = getattr(torch.ops.qconv, OPS[len(nodes)]).default
    told = {name: value for name, value in named.items() if value is not None}
    return nodes[-1].graph.call_function(op, (first["x"], *weights, last["residual"]), told)


def _as_tensor(module: Any, node: Any, name: str, value: float) -> Any:
    """Store a number of a convolution as a tensor, which the op of several requires."""
    name = f"_qconv_{node.name}_{name}"
    device = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), None)
    dtype = torch.float32 if isinstance(value, float) else torch.int32
    module.register_buffer(name, torch.tensor([value], dtype=dtype, device=device))
    made: Any = node.graph.get_attr(name)
    return made
