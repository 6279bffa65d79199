"""Export of a model as a folder that C++ opens, and a session too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Unpack

import onnx

from qconv.errors import Unshippable
from qconv.network import Choices
from qconv.network.ship.network_export import Export, Shippable, Shipped
from qconv.network.ship.ready_files import add_ready_files
from qconv.onnx.asked_shapes import AskedShapes, ShapesByName, known_models, own_proto
from qconv.onnx.fallback import Fallback
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, ReadModel
from qconv.onnx.options import Bits, settings
from qconv.onnx.options import bits as asked_bits

CHOSEN, UNFUSED = Choices(), Choices(sums=False, chains=False, tables=False, pools=False)
Model = onnx.ModelProto | bytes | str | Path


@dataclass(frozen=True)
class Meaning:
    """The arithmetic of a model's layers: ONNX Runtime's settings, by default those of a session, and their bits.
    `may_run_elsewhere`: layers that no kernel computes are parts for ONNX Runtime."""

    bits: Bits = Bits.INTEGERS
    config: Mapping[str, str] = field(default_factory=lambda: settings(None, Bits.INTEGERS))
    may_run_elsewhere: bool = False

    def known_models(self, model: Model, asked: AskedShapes) -> Iterator[ReadModel]:
        """Yield the model with known shapes, for all that are asked for."""
        yield from known_models(own_proto(model, self.config, self.bits), self.config, self.bits, asked)


def export(
    model: Model,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
    device: str | None = None,
    database: str | None = None,
    vectors: bool = True,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with the network for each target, for inputs of these batches (by default the model's own, or 1)
    and of each combination of its other open extents; or for inputs of these `shapes`, each of all inputs by their
    names. A C++ library in the folder opens it; nothing is compiled where it runs, but that library.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store its outputs and the checksums
    of all tensors on the way, for the self-test. Raise Unshippable, with the layers, where one
    does not run on kernels."""
    asked, meaning = Export(Path(folder), targets, device, database, watch), Meaning()
    known = list(meaning.known_models(model, AskedShapes(batches, extents, shapes)))
    unfused = [partial(shippable, one, meaning, UNFUSED) for one in known] if vectors else []
    return asked.write([partial(shippable, one, meaning) for one in known], unfused)


def build(
    model: Model,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    config: Mapping[str, str] | None = None,
    bits: str | None = None,
    device: str | None = None,
    database: str | None = None,
    watch: Callable[[str], None] = lambda said: None,
    **shapes: Unpack[ShapesByName],
) -> Shipped:
    """Write the same folder for a session, also of a model with layers that no kernel computes: these are models of
    their own in it, which ONNX Runtime runs. A session opens it without a compiler, a database or a writable disk.
    `shapes` are `batches`, `extents` and `shapes`, as of `export`."""
    into, meant = Export(Path(folder), targets, device, database, watch), asked_bits(bits)
    meaning = Meaning(meant, settings(config, meant), may_run_elsewhere=True)
    networks = [partial(shippable, one, meaning) for one in meaning.known_models(model, AskedShapes(**shapes))]
    made = into.write(networks, [])
    add_ready_files(made.folder, [plan.target for plan in made.plans])
    return made


def shippable(model: ReadModel, meaning: Meaning = Meaning(), choices: Choices = CHOSEN) -> Shippable:
    """Lower a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere and may not."""
    fallback = Fallback(model, meaning.config, CPU_ONLY)
    lowered = lower(model.network, fallback.function, choices, meaning.bits)
    if meaning.may_run_elsewhere:
        return Shippable(lowered.network, lowered.served, fallback.parts)
    if lowered.why_not:
        ops = {layer.name: layer.op for layer in lowered.network.layers}
        shown = "\n".join(f"  {ops[name]} ({name}): {why}" for name, why in lowered.why_not.items())
        raise Unshippable(f"{len(lowered.why_not)} layers run elsewhere, and cannot be shipped:\n{shown}")
    return Shippable(lowered.network, lowered.served)
