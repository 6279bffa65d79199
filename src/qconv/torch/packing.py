"""Packed weights, which are made by the first call that uses them and kept as long as they live.

A packing is a copy: weights in the kernel's layout, with scales and biases. Its key is the memory of each tensor, and
the shape of the input, which determines the kernel. Writing to one of the tensors increments its version, as for
autograd, and the next call packs again. Scales of activations are packed too, so only the last few packings that differ
in nothing but numbers are kept. A tensor made under `torch.inference_mode` has no version and is packed at every call.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.multiprocessing.reductions import StorageWeakRef

from qconv.torch.arrays import is_capturing

Versions = tuple[int | None, ...]
# The arguments of a call, and everything else that determines the kernel.
Key = tuple[Hashable, Hashable]
# Packings kept that differ in nothing but numbers. Scales that are read at each call may be new each time.
REMEMBERED = 16


@dataclass(frozen=True, eq=False)
class Packing:
    """Packed weights. The weak references keep the identities of the storages from being reused."""

    packed: Any
    versions: Versions
    storages: tuple[Any, ...]
    # The part of the key without numbers.
    alike: Hashable = None
    # Objects that captured graphs read. Their outputs are in the graph's own memory, which PyTorch does not reuse.
    captured: list[Any] = field(default_factory=list)

    @property
    def is_gone(self) -> bool:
        return any(storage.expired() for storage in self.storages)


_kept: dict[Key, Packing] = {}
# Guards changes to and iterations over the dictionary. Single lookups do not need it.
_changing = threading.RLock()


def forget() -> None:
    """Drop all packed weights. Graphs captured with them must not run any more."""
    with _changing:
        _kept.clear()


# GPU memory must return to PyTorch's allocator before that is destroyed.
atexit.register(forget)


def identity_of(tensor: Any) -> Hashable:
    """Return the tensor's memory and layout, as a key."""
    storage = tensor.untyped_storage()
    return storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def version_of(tensor: Any) -> int | None:
    return None if tensor.is_inference() else tensor._version


def packing_of(key: Key, tensors: Sequence[Any], place: Any, pack: Callable[[], Any]) -> Packing:
    """Return the packing of these tensors under this key. Pack them now if there is none, or if they were written
    since."""
    versions = tuple(version_of(tensor) for tensor in tensors)
    found = _kept.get(key)
    if found is not None and None not in versions and found.versions == versions:
        return found
    if is_capturing(place):
        raise RuntimeError(
            "the weights are not packed yet, or were written since, and a CUDA graph is being captured, which cannot "
            "wait for that: call once with inputs of this shape before the capture, as for any warm-up"
        )
    _drop_what_is_gone()
    storages = tuple(StorageWeakRef(tensor.untyped_storage()) for tensor in tensors)
    alike = (tuple(map(identity_of, tensors)), key[1])
    made = Packing(pack(), versions, storages, alike, [] if found is None else found.captured)
    with _changing:
        _kept.pop(key, None)
        _drop_the_first_of(alike)
        _kept[key] = made
    return made


def _drop_the_first_of(alike: Hashable) -> None:
    """Drop all but the last few packings that differ only in numbers, except those that a captured graph reads."""
    same = [key for key, packing in _kept.items() if packing.alike == alike and not packing.captured]
    for key in same[: max(0, len(same) + 1 - REMEMBERED)]:
        del _kept[key]


def _drop_what_is_gone() -> None:
    with _changing:
        for stale in [name for name, packing in _kept.items() if packing.is_gone]:
            del _kept[stale]
