"""This project's family without matrix instructions: it runs everywhere, and is the baseline of the others."""

from __future__ import annotations

from timing import runner_of

from peers.case import Case, Peer, Unavailable
from qconv import generator
from qconv.device import Device
from qconv.errors import Infeasible
from qconv.generator import Plan
from qconv.instances.load.pair import load
from qconv.instances.load.serving import open_layers
from qconv.op import Problem
from qconv.tuner.measure.verification import POISONS


def known(problem: Problem, device: Device, database: str | None) -> tuple[Plan, str]:
    """Return the family's best known config for this problem, else the cheapest by its cost model."""
    target = device.target
    with open_layers(database, device) as layers:
        rows = layers.measurements(problem=problem, device=device.name, target=target.name)
    tuned = [row for row in rows if row.correct and row.config.family == "simt"]
    for row in sorted(tuned, key=lambda row: row.median_us or 0.0):
        try:
            return generator.plan(problem, row.config, target), "tuned"
        except Infeasible:
            continue
    family = generator.families(problem)["simt"]
    feasible: list[Plan] = []
    for config in family.configs(problem, target):
        try:
            feasible.append(family.plan(problem, config, target))
        except Infeasible:
            continue
    if not feasible:
        raise Unavailable(f"no simt config is feasible on {target.name}")
    return min(feasible, key=generator.cost), "default"


def prepare(case: Case) -> Peer:
    plan, origin = known(case.problem, case.device, case.database)
    device = case.device
    runnable = load(plan, device)
    y = device.empty(case.problem.y_shape, case.problem.quantization.out_type)
    device.fill(y, POISONS[0])
    runnable(*(device.upload(array) for array in case.drawn.arrays), out=y, **case.drawn.parameters)
    device.synchronize()
    if not bool((y == case.expected).all()):
        raise Unavailable("its output is not ours")
    facts = {"config": plan.config.as_dict(), "origin": origin, "equal": 1.0}
    return Peer(runner_of(runnable, case.drawn, case.protocol), facts)
