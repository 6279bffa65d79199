"""Export of a model as a folder that C++ opens."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from qconv.onnx.options import Meaning, meaning, settings

# The settings of ONNX Runtime that a session has by default.
BY_DEFAULT = Meaning()
CONFIG = settings(None, BY_DEFAULT.bits)
CHOSEN, UNFUSED = Choices(), Choices(sums=False, chains=False, tables=False, pools=False)


def export(
    model: onnx.ModelProto | bytes | str | Path,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    device: str | None = None,
    database: str | None = None,
    floats: str | None = None,
    keep: Collection[str] | None = None,
    vectors: bool | None = None,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with the network for each target, for inputs of these batches (by default the model's own, or 1)
    and of each combination of its other open extents. A C++ library in the folder opens it; nothing is compiled where
    it runs, but that library.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store its outputs and the checksums
    of all tensors on the way, for the self-test; by default where the bits do not depend on the kernels' configs, as
    with `floats` of 16 bits. Raise Unshippable, with the layers, where one does not run on kernels."""
    asked = Export(Path(folder), targets, device, database, watch)
    computed = meaning(None, floats, keep)
    if vectors and computed.narrow is not None:
        raise ValueError(
            f"vectors with floats={computed.narrow!r}: the self-test compares bits, which depend on the kernels' "
            "configs there; leave one of them out"
        )
    proto = own_proto(model, CONFIG, computed)
    known = list(known_models(proto, CONFIG, computed, batches_of(proto, batches), extents or {}))
    stores = computed.narrow is None if vectors is None else vectors
    unfused = [partial(shippable, one, computed, UNFUSED) for one in known] if stores else []
    return asked.write([partial(shippable, one, computed) for one in known], unfused)


def shippable(model: ReadModel, computed: Meaning = BY_DEFAULT, choices: Choices = CHOSEN) -> Shippable:
    """Lower a model with known shapes. Raise Unshippable, with the layers, where one runs elsewhere."""
    lowered = lower(model.network, Fallback(model, CONFIG, CPU_ONLY).function, choices, computed)
    if lowered.why_not:
        ops = {layer.name: layer.op for layer in lowered.network.layers}
        shown = "\n".join(f"  {ops[name]} ({name}): {why}" for name, why in lowered.why_not.items())
        raise Unshippable(f"{len(lowered.why_not)} layers run elsewhere, and cannot be shipped:\n{shown}")
    return Shippable(lowered.network, lowered.served)
