"""Export of a model as a folder that C++ opens: for targets that need not be present, and inputs of known shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import onnx

from qconv.device.traced import TracedDevice
from qconv.errors import Unshippable
from qconv.instances.load.building import Place, places
from qconv.instances.load.expected import Expectations
from qconv.instances.load.instance import Instance
from qconv.instances.load.serving import answered_by, found
from qconv.network import Arranger, Choices, Runner
from qconv.network.ship.folder import write
from qconv.network.ship.plan import Plan, plan_of
from qconv.network.ship.program import Port, Program, traced
from qconv.network.ship.vectors import vectors_text
from qconv.onnx.built import batches_of, check_new, known_models, own_proto
from qconv.onnx.fallback import Fallback
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, ReadModel
from qconv.onnx.options import Bits, settings
from qconv.onnx.session import Session
from qconv.op import Problem
from qconv.targets.target import target

# The settings of ONNX Runtime that a session has by default.
CONFIG = settings(None, Bits.INTEGERS)


@dataclass(frozen=True)
class Shipped:
    """An exported network: its folder, and the names of its files there."""

    folder: Path
    files: tuple[str, ...]
    plans: tuple[Plan, ...]


def export(
    model: onnx.ModelProto | bytes | str | Path,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    device: str | None = None,
    database: str | None = None,
    vectors: bool = True,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with the network for each target, for inputs of these batches (by default the model's own, or 1)
    and of each combination of its other open extents. A C++ library in the folder opens it; nothing is compiled where
    it runs, but that library.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store what its outputs are for the
    self-test. Raise Unshippable, with the layers, where one does not run on kernels."""
    where = Path(folder)
    check_new(where)
    named = [target(name) for name in ((targets,) if isinstance(targets, str) else targets)]
    if not named:
        raise ValueError("targets are empty: name at least one, such as sm_90a, gfx942 or cpu")
    proto = own_proto(model, CONFIG, Bits.INTEGERS)
    models = list(known_models(proto, CONFIG, Bits.INTEGERS, batches_of(proto, batches), extents or {}))
    plans = []
    for place in (places(one, device)[0] for one in dict.fromkeys(named)):
        watch(f"{place.target.name}: {len(models)} programs")
        plans.append(plan_of(place.target, [program_of(known, place, database) for known in models]))
    more = {}
    if vectors:
        watch("vectors of the self-test")
        session = Session(model)
        ports = [(program.inputs, [port.name for port in program.outputs]) for program in plans[0].programs]
        more["vectors.txt"] = vectors_text(ports, lambda feeds: session.run(None, feeds)).encode()
    return Shipped(where, tuple(write(plans, where, more)), tuple(plans))


def program_of(model: ReadModel, place: Place, database: str | None = None) -> Program:
    """Return the program of a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere."""
    fallback = Fallback(model, CONFIG, CPU_ONLY)
    lowered = lower(model.network, fallback.function, Choices(), Bits.INTEGERS)
    if lowered.why_not:
        ops = {layer.name: layer.op for layer in lowered.network.layers}
        shown = "\n".join(f"  {ops[name]} ({name}): {why}" for name, why in lowered.why_not.items())
        raise Unshippable(f"{len(lowered.why_not)} layers run elsewhere, and cannot be shipped:\n{shown}")
    device = TracedDevice(place.target, place.name)
    network = lowered.network
    ports = []
    for name in network.inputs:
        tensor = network.tensor(name)
        if name in network.constants:
            continue
        if tensor.extents is None or tensor.dtype is None:
            raise Unshippable(f"the shape of the input {name!r} is not known: give the model inputs of fixed shapes")
        ports.append(Port(name, str(tensor.dtype), tensor.extents))
    arranger = Arranger(Expectations(place, database, in_sequence=True))

    def runner(on: TracedDevice) -> Runner:
        return Runner(network, lowered.served, on, fallback, arranger)

    with answered_by(_answers(device, database), looks_up=database is None):
        return traced(runner, device, ports, network.outputs)


def _answers(device: TracedDevice, database: str | None) -> Callable[[Problem], Instance]:
    """Return a lookup for this device, which loads each instance once."""
    known: dict[Problem, Instance] = {}

    def answer(problem: Problem) -> Instance:
        if problem not in known:
            known[problem] = found(problem, device, database, in_sequence=True)
        return known[problem]

    return answer
