"""Export of a model as a folder that C++ opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

import onnx

from qconv.errors import Unshippable
from qconv.network import Choices
from qconv.network.ship.network_export import Export, Shippable, Shipped
from qconv.onnx.built import batches_of, known_models, own_proto
from qconv.onnx.fallback import Fallback
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, ReadModel
from qconv.onnx.options import Bits, settings

# The settings of ONNX Runtime that a session has by default.
CONFIG = settings(None, Bits.INTEGERS)
CHOSEN, UNFUSED = Choices(), Choices(sums=False, chains=False, tables=False, pools=False)


def export(
    model: onnx.ModelProto | bytes | str | Path,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    device: str | None = None,
    db: str | None = None,
    vectors: bool = True,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with the network for each target, for inputs of these batches (by default the model's own, or 1)
    and of each combination of its other open extents. A C++ library in the folder opens it; nothing is compiled where
    it runs, but that library.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store its outputs and the checksums
    of all tensors on the way, for the self-test. Raise Unshippable, with the layers, where one
    does not run on kernels."""
    asked = Export(Path(folder), targets, device, db, watch)
    proto = own_proto(model, CONFIG, Bits.INTEGERS)
    known = list(known_models(proto, CONFIG, Bits.INTEGERS, batches_of(proto, batches), extents or {}))
    unfused = [partial(shippable, one, UNFUSED) for one in known] if vectors else []
    return asked.write([partial(shippable, one) for one in known], unfused)


def shippable(model: ReadModel, choices: Choices = CHOSEN) -> Shippable:
    """Lower a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere."""
    lowered = lower(model.network, Fallback(model, CONFIG, CPU_ONLY).function, choices, Bits.INTEGERS)
    if lowered.why_not:
        ops = {layer.name: layer.op for layer in lowered.network.layers}
        shown = "\n".join(f"  {ops[name]} ({name}): {why}" for name, why in lowered.why_not.items())
        raise Unshippable(f"{len(lowered.why_not)} layers run elsewhere, and cannot be shipped:\n{shown}")
    return Shippable(lowered.network, lowered.served)
