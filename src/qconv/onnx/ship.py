"""The programs of a model, for a target that need not be present."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import onnx

from qconv.device.traced import TracedDevice
from qconv.errors import Unshippable
from qconv.instances.load.building import Place
from qconv.instances.load.expected import Expectations
from qconv.instances.load.instance import Instance
from qconv.instances.load.serving import answered_by, found
from qconv.network import Arranger, Choices, Runner
from qconv.network.ship.program import Port, Program, traced
from qconv.onnx.built import batches_of, check_extents, with_batch
from qconv.onnx.fallback import Fallback
from qconv.onnx.known_shapes import with_known_shapes
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, ReadModel, read, rewritten, source_of, tensor_of
from qconv.onnx.options import Bits, settings
from qconv.onnx.own_names import with_own_names
from qconv.op import Problem


def known_models(
    model: onnx.ModelProto | bytes | str | Path,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
) -> Iterator[ReadModel]:
    """Yield the model for each batch, with each combination of its other open extents."""
    config = settings(None, Bits.INTEGERS)
    source = source_of(model)
    proto = with_own_names(rewritten(source, config, without=Bits.INTEGERS.without), source)
    extents = extents or {}
    check_extents(proto, extents)
    whole = read(proto, config)
    for batch, *others in product(batches_of(proto, batches), *extents.values()):
        fixed = with_batch(proto, batch, dict(zip(extents, others, strict=True)))
        shapes = {value.name: tensor_of(value).extents or () for value in fixed.graph.input}
        yield with_known_shapes(whole, shapes, {}, config)


def program_of(model: ReadModel, place: Place, database: str | None = None) -> Program:
    """Return the program of a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere."""
    fallback = Fallback(model, settings(None, Bits.INTEGERS), CPU_ONLY)
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

    with answered_by(_answers(device, database)):
        return traced(runner, device, ports, network.outputs)


def _answers(device: TracedDevice, database: str | None) -> Callable[[Problem], Instance]:
    """Return a lookup for this device, which loads each instance once."""
    known: dict[Problem, Instance] = {}

    def answer(problem: Problem) -> Instance:
        if problem not in known:
            known[problem] = found(problem, device, database, in_sequence=True)
        return known[problem]

    return answer
