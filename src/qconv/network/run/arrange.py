"""Chooses kernels for a region: a shortest path over its layers, by measured times where there are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from qconv.instances.load.expected import Expectations, LookupTime, spared_us
from qconv.network.graph.served import Served
from qconv.network.graph.value import Shape
from qconv.network.run.chained import IntegerChain
from qconv.network.run.region import Choices, Element, Fusion, Region
from qconv.op import Problem
from qconv.problem.chain import Chain

# How many times shorter than that of several kernels the predicted time of one must be: the models of kernels for
# several layers are right to a tenth, with a sum behind them to a third; with a table they count as with a sum until
# some are measured. Where one of the layers is dense and larger than 1x1, they took up to 2.0 times what was predicted
# (ResNet-50's first blocks on an H200), and those with a sum lost to the two kernels that they were predicted to beat.
UNSURE, UNSURE_CHAIN_AND_SUM, UNSURE_DENSE, UNSURE_DENSE_AND_SUM = 1.15, 1.5, 2.1, 2.5
# What a kernel for several convolutions must spare of their predicted time for its configs to be looked through, which
# takes a tenth of a second: large layers are bound by their products, and are never faster together.
LEAST_SPARED = 0.1
# How many times shorter a measured time must be: runs of one kernel differ as much.
NOISE = 1.01
# Up to this part of the predicted time of several kernels, one is worth measuring.
WORTH_MEASURING = 1.3

Key = tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """One kernel beside several, by times of one kind. `is_kept`: see `LookupTime`, of the one."""

    kernel_us: float
    unfused_us: float
    unsure: float  # how many times shorter the one must be
    is_measured: bool
    is_kept: bool = False

    @classmethod
    def of(cls, one: LookupTime, unfused: Sequence[LookupTime], unsure: float) -> Compared:
        """`unsure` is of predictions. Sums and tables take what their bytes take: where convolutions were measured,
        those need not be. Times in sequence do not compare with those of kernels by themselves."""
        every = (one, *unfused)
        known = [us for each in every if (us := each.known_us) is not None]
        protocols = {each.is_kept for each in every if each.measured_us is not None}
        if len(known) == len(every) and len(protocols) <= 1:
            is_measured = all(each.measured_us is not None for each in every)
            return cls(known[0], sum(known[1:]), NOISE if is_measured else UNSURE, is_measured, one.is_kept)
        return cls(one.predicted_us, sum(each.predicted_us for each in unfused), unsure, False, one.is_kept)

    @property
    def ratio(self) -> float:
        return self.kernel_us / self.unfused_us

    @property
    def safe_ratio(self) -> float:
        return self.ratio * self.unsure

    def __str__(self) -> str:
        how = "measured" if self.is_measured else "predicted"
        return f"one kernel {how} at {self.kernel_us:.2f} us, {self.unfused_us:.2f} us unfused"


@dataclass(frozen=True)
class Arrangement:
    """`steps` compute the region, in turn; `spans` are its layers that are one kernel. `whys` say of some, by the keys
    of their layers, what decided. `alternatives` are problems that nobody runs, but whose times would decide better."""

    steps: tuple[Served, ...]
    spans: tuple[tuple[int, int], ...] = ()
    whys: Mapping[Key, str] = field(default_factory=dict)
    alternatives: tuple[Problem, ...] = ()


class Arranging(Protocol):
    """Whoever decides which kernels a region gets."""

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        """For inputs of these shapes, with the channels behind N."""
        ...


@dataclass(frozen=True)
class Arranger:
    """By expected times, where the choices leave it open."""

    expectations: Expectations
    choices: Choices = field(default_factory=Choices)

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        try:
            problems, known = region.problems(shapes)
        except ValueError:
            return Arrangement(region.elements)  # the one that is refused says why
        expected = self.expectations.of(problems)
        unfused = [one for one in expected if one is not None]
        if len(unfused) < len(expected):
            return Arrangement(region.elements)
        compared, near = self._compared(region, known, unfused)
        chosen = shortest(*self._costs(unfused, {fusion: found for fusion, (_, found) in compared.items()}))
        alternatives = dict.fromkeys(problems)
        alternatives |= dict.fromkeys(
            problem for problem, found in compared.values() if found.is_measured or found.ratio <= WORTH_MEASURING
        )
        return _arrangement(region, chosen, compared, tuple(alternatives | dict.fromkeys(near)))

    def _costs(
        self, unfused: Sequence[LookupTime], compared: Mapping[Fusion, Compared]
    ) -> tuple[list[float], dict[Fusion, float]]:
        """The cost of each layer by itself, and of each kernel for several. What the race of a network kept goes before
        what it did not, whatever the times: those were not taken among the same launches."""
        alone = [us_of(one) for one in unfused]
        costs = {
            fusion: sum(alone[fusion.begin : fusion.end]) * self._ratio(fusion, found)
            for fusion, found in compared.items()
        }
        if not any([one.is_kept for one in unfused] + [found.is_kept for found in compared.values()]):
            return alone, costs
        more = sum(alone) + sum(costs.values())
        alone = [us if one.is_kept else us + more for us, one in zip(alone, unfused, strict=True)]
        for fusion, found in compared.items():
            if not found.is_kept and self._forced(fusion) is None:
                costs[fusion] += more * (fusion.end - fusion.begin)
        return alone, costs

    def _compared(
        self, region: Region, shapes: Mapping[str, Shape], unfused: Sequence[LookupTime]
    ) -> tuple[dict[Fusion, tuple[Problem, Compared]], list[Problem]]:
        """Those that are one kernel; and the problems that may be one, once they are measured."""
        found, near = {}, []
        for fusion in region.fusions:
            rivals = unfused[fusion.begin : fusion.end]
            try:
                problem = fusion.problem(shapes)
            except ValueError:
                continue
            if (one := compared(problem, rivals, self.expectations, bool(self.choices.chains))) is not None:
                found[fusion] = problem, one
            elif may_be_one_kernel(problem, self.expectations):
                near.append(problem)
        return found, near

    def _ratio(self, fusion: Fusion, found: Compared) -> float:
        """What the kernel counts, where its layers unfused count 1."""
        # Where every kernel is taken, the one for most layers.
        return found.safe_ratio if self._forced(fusion) is None else 0.5 ** (fusion.end - fusion.begin)

    def _forced(self, fusion: Fusion) -> bool | None:
        if isinstance(fusion.served, IntegerChain):
            return self.choices.chains
        if fusion.served.pooled is not None:
            return self.choices.pools
        return self.choices.tables if fusion.served.has_table else self.choices.sums


def compared(
    problem: Problem, rivals: Sequence[LookupTime], expectations: Expectations, any_chain: bool = False
) -> Compared | None:
    """The one kernel of a problem beside the several that it stands for. None where there is none, and for a chain that
    is not promising, unless `any_chain` asks for all."""
    if isinstance(problem, Chain) and not any_chain:
        convolutions = rivals[: len(problem.LAYERS)]
        spared = spared_us(problem, expectations.device.target)
        if spared < LEAST_SPARED * sum(one.predicted_us for one in convolutions):
            return None
    (one,) = expectations.of([problem])
    return Compared.of(one, rivals, unsure_of(problem)) if one is not None and one.is_one_kernel else None


def may_be_one_kernel(problem: Problem, expectations: Expectations) -> bool:
    """Whether one kernel is predicted to take about as long as the several that a lookup gives, and nobody measured
    them. A chain is not looked through a second time."""
    (several,) = expectations.of([problem])
    if isinstance(problem, Chain) or several is None or several.is_one_kernel or several.measured_us is not None:
        return False
    us = expectations.one_kernel_us(problem)
    return us is not None and us <= WORTH_MEASURING * several.predicted_us


def unsure_of(problem: Problem) -> float:
    """How many times shorter than that of several kernels a predicted time must be."""
    if not isinstance(problem, Chain):
        return UNSURE
    q = problem.last.quantization
    adds = q.residual != "none" or q.table
    if any(layer.groups == 1 and layer.r * layer.s > 1 for layer in problem.layers.values()):
        return UNSURE_DENSE_AND_SUM if adds else UNSURE_DENSE
    return UNSURE_CHAIN_AND_SUM if adds else UNSURE


def us_of(one: LookupTime) -> float:
    return one.predicted_us if one.measured_us is None else one.measured_us


class Span(Protocol):
    """Neighbours that can be one kernel, from `begin` to before `end`."""

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


Part = TypeVar("Part", bound=Span)


def shortest(unfused: Sequence[float], costs: Mapping[Part, float]) -> list[Part | int]:
    """Parts, and the numbers of elements that stay by themselves; of ways that take equally long, the plain one."""
    best: list[tuple[float, list[Part | int]]] = [(0.0, [])]
    for end, us in enumerate(unfused, 1):
        before, way = best[end - 1]
        found: tuple[float, list[Part | int]] = (before + us, [*way, end - 1])
        for fusion, cost in costs.items():
            if fusion.end == end and best[fusion.begin][0] + cost < found[0]:
                before, way = best[fusion.begin]
                found = (before + cost, [*way, fusion])
        best.append(found)
    return best[-1][1]


def _arrangement(
    region: Region,
    chosen: Sequence[Fusion | int],
    compared: Mapping[Fusion, tuple[Problem, Compared]],
    alternatives: tuple[Problem, ...],
) -> Arrangement:
    whys: dict[Key, str] = {}
    for part in chosen:
        if isinstance(part, Fusion):
            whys[part.served.layer.key] = f"{compared[part][1]}; "
            continue
        element: Element = region.elements[part]
        # What it could have been a part of: the kernel that comes nearest.
        others = [found for fusion, (_, found) in compared.items() if fusion.begin == part]
        if others:
            nearest = min(others, key=lambda found: found.safe_ratio)
            whys[element.layer.key] = f"with what follows, {nearest}; "
    spans = tuple((part.begin, part.end) for part in chosen if isinstance(part, Fusion))
    return Arrangement(region.steps(spans), spans, whys, alternatives)
