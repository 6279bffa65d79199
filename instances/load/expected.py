"""The time of what a lookup would choose: measured, where the problem was tuned, and predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.cost_units import CLOCK_MHZ, LAUNCH, MEMORY, copied
from qconv.instances.choose import Choice
from qconv.instances.choose.lookup import Place
from qconv.instances.load.serving import answers
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.recent import Recent
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Source

# Problems whose times are cached. A session that sees new shapes all day asks for many.
MOST_TIMES = 8192
# The fraction of the convolutions' predicted time that one kernel must save before its configs are searched, which
# takes a tenth of a second. Large layers are compute-bound and never faster together.
LEAST_SPARED = 0.1


@dataclass(frozen=True)
class LookupTime:
    """The times of a lookup's choice. A prediction compares only with another prediction, and a measurement with
    another of the same protocol. `is_kept` is True where it was measured in sequence and kept in the last race of a
    network."""

    plan: Plan
    measured_us: float | None
    predicted_us: float
    is_kept: bool = False

    @property
    def known_us(self) -> float | None:
        """The measured time, or for an op bound by memory alone the predicted one."""
        by_bytes = None if generator.predicts_time(self.plan.problem) else self.predicted_us
        return by_bytes if self.measured_us is None else self.measured_us

    @property
    def is_one_kernel(self) -> bool:
        return not self.plan.parts


class Expectations:
    """The expected times of problems on one device. Results are cached, so that decisions based on them are repeatable.
    For `in_sequence` see `choose`."""

    def __init__(self, device: Place, db: str | Source | None = None, in_sequence: bool = False) -> None:
        self.device = device
        self._database = db
        self._in_sequence = in_sequence
        self._found: Recent[Problem, tuple[LookupTime | None]] = Recent(MOST_TIMES)

    def of(self, problems: Iterable[Problem]) -> list[LookupTime | None]:
        """Return the times of problems, None for those that no kernel serves."""
        wanted = list(problems)
        found = {problem: known[0] for problem in wanted if (known := self._found.get(problem)) is not None}
        new = [problem for problem in dict.fromkeys(wanted) if problem not in found]
        for problem, answer in zip(new, answers(new, self.device, self._database, self._in_sequence), strict=True):
            found[problem] = None if isinstance(answer, Infeasible) else _time_of(answer)
            self._found.keep(problem, (found[problem],))
        return [found[problem] for problem in wanted]

    def one_kernel_us(self, problem: Problem) -> float | None:
        """Return the predicted time of the best fused kernel for the problem, even if a lookup would not choose it.
        None where there is none."""
        plans = generator.cheapest(problem, self.device.target, generator.RANKED)
        return min((one.us for one in generator.expected(plans)), default=None)


def may_be_promising(problem: Problem, layers: Sequence[LookupTime], target: Target) -> bool:
    """True unless the problem is a chain whose kernel saves too little of its convolutions' time, the first of
    `layers`, for a search of its configs."""
    if not isinstance(problem, Chain):
        return True
    convolutions = layers[: len(problem.LAYERS)]
    return spared_us(problem, target) >= LEAST_SPARED * sum(one.predicted_us for one in convolutions)


def spared_us(chain: Chain, target: Target) -> float:
    """Return the time that a fused kernel saves: launches, and memory traffic of the intermediate tensors."""
    clocks = (len(chain.LAYERS) - 1) * LAUNCH + 2 * chain.mid_bytes / target.processors / MEMORY
    return clocks / CLOCK_MHZ


def _time_of(choice: Choice) -> LookupTime:
    return LookupTime(choice.plan, choice.measured_us, _predicted_us(choice.plan), choice.is_kept)


def _predicted_us(plan: Plan) -> float:
    """Return the time predicted by the corrected cost model, or the time of a copy where the model only ranks
    configs."""
    if generator.predicts_time(plan.problem):
        (predicted,) = generator.expected([plan])
        return predicted.us
    return copied(plan.problem, plan.target) / CLOCK_MHZ
