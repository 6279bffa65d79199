"""Regions: consecutive convolutions with the sums, tables and max pools after them, which different sets of kernels
compute with the same bits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qconv.network.graph.graph import Layer, Network, as_one
from qconv.network.graph.served import Served
from qconv.network.graph.value import Shape
from qconv.network.layers.binary import QuantizedBinary
from qconv.network.layers.convolution import IntegerConvolution
from qconv.network.layers.folds import with_pool, with_sum, with_table
from qconv.network.layers.pooling import QuantizedPool
from qconv.network.layers.table import Tabulated
from qconv.network.run.chained import IntegerChain, chain
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.tensor_ops import Add

Element = IntegerConvolution | QuantizedBinary | Tabulated | QuantizedPool
Step = Element | IntegerChain
LONGEST = 3  # convolutions per kernel


@dataclass(frozen=True)
class Choices:
    """The choice of layers to fold into convolutions: sums of two tensors, further convolutions (`chains`), functions
    of an output (`tables`), and max pools. None decides case by case, True uses every kernel that exists, False uses
    none."""

    sums: bool | None = None
    chains: bool | None = None
    tables: bool | None = None
    pools: bool | None = None


@dataclass(frozen=True)
class Fusion:
    """Adjacent layers of a region, from `begin` to before `end`, as one layer."""

    begin: int
    end: int
    served: IntegerConvolution | IntegerChain

    def problem(self, shapes: Mapping[str, Shape]) -> Problem:
        """Return the problem for these shapes of the region's tensors. Raise ValueError where no kernel serves it."""
        served = self.served
        problem: Problem = served.problem(shapes[served.inputs[0]])
        for other in served.inputs[1:]:
            if shapes[other] != shapes[served.y]:
                raise ValueError(f"the shapes {shapes[other]} and {shapes[served.y]} are added: they must be equal")
        if isinstance(served, IntegerChain):
            assert isinstance(problem, Chain)
            problem.checked(served.parameters(problem))
        else:
            problem.checked(dict(served.parameters))
        return problem


@dataclass(frozen=True, eq=False)
class Region:
    """A region. `elements` are in the order in which they run unfused; each is the only reader of the previous one's
    output. `fusions` are the kernels for several of them."""

    elements: tuple[Element, ...]
    fusions: tuple[Fusion, ...]

    @cached_property
    def layer(self) -> Layer:
        """The layer that stands for the whole region."""
        return as_one([one.layer for one in self.elements], -1)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        made = {one.y for one in self.elements}
        return tuple(dict.fromkeys(name for one in self.elements for name in one.inputs if name not in made))

    @property
    def y(self) -> str:
        return self.elements[-1].y

    def steps(self, spans: Collection[tuple[int, int]]) -> tuple[Step, ...]:
        """Return the layers to run, with one kernel for each of these spans and one for each other element."""
        fused = {one.begin: one for one in self.fusions if (one.begin, one.end) in spans}
        if len(fused) < len(spans):
            raise ValueError(f"the layers {', '.join(self.layer.key)} have no kernels for {sorted(spans)}")
        made: list[Step] = []
        at = 0
        while at < len(self.elements):
            made.append(fused[at].served if at in fused else self.elements[at])
            at = fused[at].end if at in fused else at + 1
        return tuple(made)

    def problems(self, given: Sequence[Shape]) -> tuple[list[Problem], dict[str, Shape]]:
        """Return the problems of the unfused elements for inputs of these shapes, and the shapes of all tensors. Raise
        ValueError where no kernel serves one."""
        shapes, problems = dict(zip(self.inputs, given, strict=True)), list[Problem]()
        for one in self.elements:
            taken = [shapes[name] for name in one.inputs]
            if isinstance(one, IntegerConvolution):
                problem = one.problem(taken[0])
                shapes[one.y] = one.made_shape(taken[0], problem)
                problems.append(problem)
            elif isinstance(one, Tabulated):
                problems.append(one.problem(taken[0]))
                shapes[one.y] = taken[0]
            elif isinstance(one, QuantizedPool):
                pool = one.problem(taken[0])
                n, *sizes, channels = one.y_shape(taken[0], pool)
                shapes[one.y] = (n, channels, *sizes)
                problems.append(pool)
            else:
                problems.append(one.problem(one.shapes(taken))[0])
                shapes[one.y] = np.broadcast_shapes(*one.shapes(taken))
        return problems, shapes


def find_regions(
    network: Network, served: Mapping[str, Served], choices: Choices
) -> tuple[Network, dict[str, Served | Region]]:
    """Find the regions with more than one way to run. Each becomes one layer in the place of its last, where all its
    inputs exist. Sums and tables are in regions only where their choice is open: otherwise they are folded already, or
    stay separate. Several convolutions, or a convolution and a max pool, may share a kernel unless the choice forbids
    it.
    """
    found: dict[str, Served | Region] = dict(served)
    layers = {layer.name: layer for layer in network.layers}
    order = {layer.name: at for at, layer in enumerate(network.layers)}
    taken: set[str] = set()
    for layer in network.layers:
        one = served.get(layer.name)
        if layer.name in taken or not isinstance(one, IntegerConvolution):
            continue
        elements = list(_run(network, served, one, choices, order))
        taken |= {each.layer.name for each in elements}
        fusions = tuple(_fusions(network, elements, choices.chains is not False))
        if not fusions:
            continue
        region = Region(tuple(elements), fusions)
        for each in elements[:-1]:
            del layers[each.layer.name], found[each.layer.name]
        layers[region.layer.name], found[region.layer.name] = region.layer, region
    return replace(network, layers=tuple(layers.values())), found


def _run(
    network: Network,
    served: Mapping[str, Served],
    first: IntegerConvolution,
    choices: Choices,
    order: Mapping[str, int],
) -> Iterator[Element]:
    """Yield a convolution and its successors, with sums and tables where their choice is open. If a sum adds the
    outputs of two convolutions, it belongs to the later one. A max pool ends the region."""
    one: Element | None = first
    while one is not None:
        yield one
        before, one = one, None
        reader = network.only_consumer(before.y)
        after = None if reader is None else served.get(reader.name)
        if isinstance(after, IntegerConvolution):
            one = after if after.inputs.count(before.y) == 1 and after.x == before.y else None
        elif choices.sums is None and isinstance(after, QuantizedBinary):
            one = after if _takes_sum(network, served, before, after, order) else None
        elif choices.tables is None and isinstance(after, Tabulated) and isinstance(before, IntegerConvolution):
            one = after if with_table(network, before, after) is not None else None
        elif choices.pools is not False and isinstance(after, QuantizedPool) and _takes_pool(network, before, after):
            yield after


def _takes_sum(
    network: Network, served: Mapping[str, Served], one: Element, add: QuantizedBinary, order: Mapping[str, int]
) -> bool:
    if add.kind is not Add or not isinstance(one, IntegerConvolution) or with_sum(network, one, add) is None:
        return False
    makers = [network.producers.get(name) for name in add.inputs if name != one.y]
    others = [served.get(maker.name) for maker in makers if maker is not None]
    return not any(
        isinstance(other, IntegerConvolution)
        and order[other.layer.name] > order[one.layer.name]
        and with_sum(network, other, add) is not None
        for other in others
    )


def _takes_pool(network: Network, one: Element, pool: QuantizedPool) -> bool:
    return isinstance(one, IntegerConvolution) and with_pool(network, one, pool) is not None


def _fusions(network: Network, elements: Sequence[Element], chains: bool) -> Iterator[Fusion]:
    for begin in range(len(elements)):
        convolutions: list[IntegerConvolution] = []
        for at, one in enumerate(elements[begin : begin + LONGEST], begin):
            if not isinstance(one, IntegerConvolution):
                break
            convolutions.append(one)
            if chains and len(convolutions) > 1 and (made := chain(convolutions)) is not None:
                yield Fusion(begin, at + 1, made)
            with_next = _with_next(network, one, elements[at + 1]) if at + 1 < len(elements) else None
            if with_next is None:
                continue
            if len(convolutions) == 1:
                yield Fusion(begin, at + 2, with_next)
            elif chains and (made := chain([*convolutions[:-1], with_next])) is not None:
                yield Fusion(begin, at + 2, made)


def _with_next(network: Network, one: IntegerConvolution, after: Element) -> IntegerConvolution | None:
    """Return the convolution with the next element folded in, or None where no kernel computes both."""
    if isinstance(after, QuantizedBinary):
        return with_sum(network, one, after)
    if isinstance(after, QuantizedPool):
        return with_pool(network, one, after)
    return with_table(network, one, after) if isinstance(after, Tabulated) else None
