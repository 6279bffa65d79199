"""The choice of kernels for a region: a shortest path over its layers, by measured times where available."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from qconv.instances.load.expected import Expectations, LookupTime, may_be_promising
from qconv.instances.load.neighbours import Neighbours
from qconv.network.graph.served import Served
from qconv.network.graph.value import Shape
from qconv.network.run.chained import IntegerChain
from qconv.network.run.region import Choices, Element, Fusion, Region
from qconv.op import Problem
from qconv.problem.chain import Chain

# Factors by which the predicted time of one kernel must be shorter than that of several. Predictions of kernels for
# several layers are right to 10 %, and with a sum to a third; a table counts as a sum until some are measured. With a
# dense layer larger than 1x1, kernels took up to 2.0 times the prediction (ResNet-50's first blocks on an H200), and
# those with a sum lost to the two kernels that they were predicted to beat.
UNSURE, UNSURE_CHAIN_AND_SUM, UNSURE_DENSE, UNSURE_DENSE_AND_SUM = 1.15, 1.5, 2.1, 2.5
# The factor by which a measured time must be shorter: the variation between runs of one kernel.
NOISE = 1.01
# One kernel is worth measuring up to this multiple of the predicted time of several.
WORTH_MEASURING = 1.3
# Layers of a region whose kernels, and those that begin with them, one process chooses.
MOST_NEIGHBOURS = 3

Key = tuple[str, ...]


@dataclass(frozen=True)
class Compared:
    """The times of one kernel and of the several that it replaces, both measured or both predicted. `is_kept` is the
    one kernel's, see `LookupTime`."""

    kernel_us: float
    unfused_us: float
    unsure: float  # the factor by which the one must be shorter
    is_measured: bool
    is_kept: bool = False

    @classmethod
    def of(cls, one: LookupTime, unfused: Sequence[LookupTime], unsure: float) -> Compared:
        """Compare times. `unsure` applies to predictions. Sums and tables take as long as their memory traffic, so with
        measured convolutions theirs need not be measured. Times in sequence are not comparable with times of single
        kernels."""
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

    @property
    def doubt(self) -> str:
        """Say why the one kernel is not taken though its time is shorter; nothing if that is not why."""
        if not self.ratio < 1 <= self.safe_ratio:
            return ""
        times = "measured times differ" if self.is_measured else "predictions may be off"
        return f", not by the factor of {self.unsure:g} by which {times}"


@dataclass(frozen=True)
class Arrangement:
    """The kernels of a region. `steps` compute it in order; `spans` are the layers that share a kernel. `whys` has the
    reason for some steps, by the keys of their layers. `alternatives` are problems that do not run, but whose times
    would improve the decision."""

    steps: tuple[Served, ...]
    spans: tuple[tuple[int, int], ...] = ()
    whys: Mapping[Key, str] = field(default_factory=dict)
    alternatives: tuple[Problem, ...] = ()


class Arranging(Protocol):
    """The interface of an object that decides the kernels of regions."""

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        """Return the kernels for inputs of these shapes, with the channels after N."""
        ...

    def neighbours(self, region: Region, shapes: Sequence[Shape]) -> Sequence[Neighbours]:
        """Return the problems whose choices that needs, in parts that can be chosen in parallel."""
        ...


@dataclass(frozen=True)
class Arranger:
    """Decides by expected times, except where `choices` force a decision."""

    expectations: Expectations
    choices: Choices = field(default_factory=Choices)

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        try:
            problems, known = region.problems(shapes)
        except ValueError:
            return Arrangement(region.elements)  # the element that is rejected says why
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

    def neighbours(self, region: Region, shapes: Sequence[Shape]) -> Sequence[Neighbours]:
        try:
            problems, known = region.problems(shapes)
        except ValueError:
            return ()
        found = []
        for begin in range(0, len(problems), MOST_NEIGHBOURS):
            fusions = [one for one in region.fusions if begin <= one.begin < begin + MOST_NEIGHBOURS]
            end = max([begin + MOST_NEIGHBOURS, *(one.end for one in fusions)])
            fused = []
            for fusion in fusions:
                with suppress(ValueError):
                    fused.append((fusion.problem(known), fusion.begin - begin))
            found.append(Neighbours(tuple(problems[begin:end]), tuple(fused), bool(self.choices.chains)))
        return found

    def _costs(
        self, unfused: Sequence[LookupTime], compared: Mapping[Fusion, Compared]
    ) -> tuple[list[float], dict[Fusion, float]]:
        """Return the cost of each layer by itself and of each fused kernel. Kernels that the network's race kept
        precede others, whatever the times: those were not measured among the same launches."""
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
        """Return the fusions with a single kernel, and the problems that may have one once they are measured."""
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
        """Return the time of the fused kernel relative to its layers unfused."""
        # If every kernel is taken, the one for the most layers wins.
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
    """Compare the single kernel of a problem with the several that it replaces. Return None if there is none, or if it
    is a chain that is not promising, unless `any_chain`."""
    if not (any_chain or may_be_promising(problem, rivals, expectations.device.target)):
        return None
    (one,) = expectations.of([problem])
    return Compared.of(one, rivals, unsure_of(problem)) if one is not None and one.is_one_kernel else None


def may_be_one_kernel(problem: Problem, expectations: Expectations) -> bool:
    """True where one kernel is predicted to take about as long as the unmeasured several that a lookup returns. Chains
    are excluded: their configs have been searched before."""
    (several,) = expectations.of([problem])
    if isinstance(problem, Chain) or several is None or several.is_one_kernel or several.measured_us is not None:
        return False
    us = expectations.one_kernel_us(problem)
    return us is not None and us <= WORTH_MEASURING * several.predicted_us


def unsure_of(problem: Problem) -> float:
    """Return the factor by which the predicted time of one kernel must be shorter than that of several."""
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
    """Adjacent layers that can be one kernel, from `begin` to before `end`."""

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


Part = TypeVar("Part", bound=Span)


def shortest(unfused: Sequence[float], costs: Mapping[Part, float]) -> list[Part | int]:
    """Return the cheapest sequence of fused parts and of the indices of single elements. Ties go to fewer fusions."""
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
        # The fusion that comes closest to being chosen for this element.
        others = [found for fusion, (_, found) in compared.items() if fusion.begin == part]
        if others:
            nearest = min(others, key=lambda found: found.safe_ratio)
            whys[element.layer.key] = f"with what follows, {nearest}{nearest.doubt}; "
    spans = tuple((part.begin, part.end) for part in chosen if isinstance(part, Fusion))
    return Arrangement(region.steps(spans), spans, whys, alternatives)
