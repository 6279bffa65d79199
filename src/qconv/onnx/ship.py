"""Export of a model as a folder that C++ opens, and a session too."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from qconv.onnx.options import Meaning, meaning, settings

CHOSEN, UNFUSED = Choices(), Choices(sums=False, chains=False, tables=False, pools=False)
Model = onnx.ModelProto | bytes | str | Path


@dataclass(frozen=True)
class Shipping:
    """How a model's layers are shipped: their meaning, and ONNX Runtime's settings, by default those of a session.
    `may_run_elsewhere`: layers that no kernel computes are parts for ONNX Runtime."""

    meaning: Meaning = field(default_factory=Meaning)
    config: Mapping[str, str] = field(default_factory=lambda: settings(None, Meaning().bits))
    may_run_elsewhere: bool = False

    def known_models(self, model: Model, asked: AskedShapes) -> Iterator[ReadModel]:
        """Yield the model with known shapes, for all that are asked for."""
        yield from known_models(own_proto(model, self.config, self.meaning), self.config, self.meaning, asked)


def export(
    model: Model,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    shapes: Sequence[Mapping[str, Sequence[int]]] | None = None,
    device: str | None = None,
    db: str | None = None,
    floats: str | None = None,
    keep: Collection[str] | None = None,
    vectors: bool | None = None,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with the network for each target, for inputs of these batches (by default the model's own, or 1)
    and of each combination of its other open extents; or for inputs of these `shapes`, each of all inputs by their
    names. A C++ library in the folder opens it; nothing is compiled where it runs, but that library.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store its outputs and the checksums
    of all tensors on the way, for the self-test; by default, unless the bits depend on the kernels' configs, as with
    `floats` of 16 bits. Raise Unshippable, with the layers, where one does not run on kernels."""
    asked, shipping = Export(Path(folder), targets, device, db, watch), Shipping(meaning(None, floats, keep))
    narrow = shipping.meaning.narrow
    if vectors and narrow is not None:
        raise ValueError(
            f"vectors with floats={narrow!r}: the self-test compares bits, which depend on the kernels' configs there; "
            "leave one of them out"
        )
    known = list(shipping.known_models(model, AskedShapes(batches, extents, shapes)))
    stores = narrow is None if vectors is None else vectors
    unfused = [partial(shippable, one, shipping, UNFUSED) for one in known] if stores else []
    return asked.write([partial(shippable, one, shipping) for one in known], unfused)


def build(
    model: Model,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    config: Mapping[str, str] | None = None,
    bits: str | None = None,
    floats: str | None = None,
    keep: Collection[str] | None = None,
    device: str | None = None,
    db: str | None = None,
    watch: Callable[[str], None] = lambda said: None,
    **shapes: Unpack[ShapesByName],
) -> Shipped:
    """Write the same folder for a session, also of a model with layers that no kernel computes: these are models of
    their own in it, which ONNX Runtime runs. A session opens it without a compiler, a database or a writable disk.
    `shapes` are `batches`, `extents` and `shapes`, as of `export`."""
    into, meant = Export(Path(folder), targets, device, db, watch), meaning(bits, floats, keep)
    shipping = Shipping(meant, settings(config, meant.bits), may_run_elsewhere=True)
    networks = [partial(shippable, one, shipping) for one in shipping.known_models(model, AskedShapes(**shapes))]
    made = into.write(networks, [])
    add_ready_files(made.folder, [plan.target for plan in made.plans])
    return made


def shippable(model: ReadModel, shipping: Shipping = Shipping(), choices: Choices = CHOSEN) -> Shippable:
    """Lower a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere and may not."""
    fallback = Fallback(model, shipping.config, CPU_ONLY)
    lowered = lower(model.network, fallback.function, choices, shipping.meaning)
    if shipping.may_run_elsewhere:
        return Shippable(lowered.network, lowered.served, fallback.parts)
    if lowered.why_not:
        ops = {layer.name: layer.op for layer in lowered.network.layers}
        shown = "\n".join(f"  {ops[name]} ({name}): {why}" for name, why in lowered.why_not.items())
        number = "1 layer runs" if len(lowered.why_not) == 1 else f"{len(lowered.why_not)} layers run"
        raise Unshippable(
            f"{number} elsewhere, and cannot be exported; qconv-tune build writes the same folder, in which ONNX "
            f"Runtime or a function of yours computes them:\n{shown}"
        )
    return Shippable(lowered.network, lowered.served)
