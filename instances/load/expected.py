"""How long what a lookup would choose takes: measured, where it was tuned for exactly this problem, and predicted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qconv import generator
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.generator.cost_units import CLOCK_MHZ, LAUNCH, MEMORY, copied
from qconv.instances.choose.lookup import Place, choose
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.problem.chain import Chain
from qconv.targets.target import Target

if TYPE_CHECKING:
    from qconv.tune_db.layered import Source


@dataclass(frozen=True)
class LookupTime:
    """Two predictions compare with each other, and so do two measurements by one protocol; one of each does not.
    `is_kept`: measured in sequence, and kept in the last race of a network."""

    plan: Plan
    measured_us: float | None
    predicted_us: float
    is_kept: bool = False

    @property
    def known_us(self) -> float | None:
        """Where it was not measured, what its bytes take, if they alone decide."""
        by_bytes = None if generator.predicts_time(self.plan.problem) else self.predicted_us
        return by_bytes if self.measured_us is None else self.measured_us

    @property
    def is_one_kernel(self) -> bool:
        return not self.plan.parts


class Expectations:
    """For the problems of one device. What was found is remembered: who decides by it decides the same again.
    `in_sequence`: see `choose`."""

    def __init__(self, device: Place, database: str | Source | None = None, in_sequence: bool = False) -> None:
        self.device = device
        self._database = database
        self._in_sequence = in_sequence
        self._found: dict[Problem, LookupTime | None] = {}

    def of(self, problems: Iterable[Problem]) -> list[LookupTime | None]:
        """None for what no kernel serves."""
        asked = list(problems)
        new = [problem for problem in dict.fromkeys(asked) if problem not in self._found]
        if new:
            with open_layers(self._database, self.device, serves=True) as layers:
                for problem in new:
                    try:
                        choice = choose(problem, self.device, layers, self._in_sequence)
                    except Infeasible:
                        self._found[problem] = None
                    else:
                        predicted_us = _predicted_us(choice.plan)
                        found = LookupTime(choice.plan, choice.measured_us, predicted_us, choice.is_kept)
                        self._found[problem] = found
        return [self._found[problem] for problem in asked]

    def one_kernel_us(self, problem: Problem) -> float | None:
        """What the best kernel for all layers of the problem is predicted to take, whether or not a lookup chooses it;
        None where there is none."""
        plans = generator.cheapest(problem, self.device.target, generator.RANKED)
        return min((one.us for one in generator.expected(plans)), default=None)


def spared_us(chain: Chain, target: Target) -> float:
    """What one kernel spares of the predicted time of several: launches, and what is between them in memory."""
    clocks = (len(chain.LAYERS) - 1) * LAUNCH + 2 * chain.mid_bytes / target.processors / MEMORY
    return clocks / CLOCK_MHZ


def _predicted_us(plan: Plan) -> float:
    """By the corrected cost model; where that merely orders configs, what a copy of so many bytes takes."""
    if generator.predicts_time(plan.problem):
        (predicted,) = generator.expected([plan])
        return predicted.us
    return copied(plan.problem, plan.target) / CLOCK_MHZ
