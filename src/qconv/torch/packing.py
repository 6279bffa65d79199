"""Weights, packed at the first call that has them and remembered as long as they live.

What is packed is a copy: the weights as the kernel reads them, with scales and biases. It is found by what was given:
the memory of each tensor, and the shape of the input, which chooses the kernel. Writing into any of the tensors counts
up its version, as autograd has it, and the next call packs anew. Scales of activations are packed as well: of calls
that differ in nothing but numbers the last few are remembered. A tensor that was made under `torch.inference_mode` has
no version, so that it is packed at every call.
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
# What is given, and what else chooses the kernel.
Key = tuple[Hashable, Hashable]
# How many are kept that differ in nothing but numbers. Scales that are read at every call may be new at every call.
REMEMBERED = 16


@dataclass(frozen=True, eq=False)
class Packing:
    """Packed weights. The references keep the addresses of what they refer to from being those of another."""

    packed: Any
    versions: Versions
    storages: tuple[Any, ...]
    # The same for all that differ in nothing but numbers.
    alike: Hashable = None
    # What graphs that were captured read. What they write is memory of theirs: PyTorch hands it to no one else.
    captured: list[Any] = field(default_factory=list)

    @property
    def is_gone(self) -> bool:
        return any(storage.expired() for storage in self.storages)


_kept: dict[Key, Packing] = {}
# Whoever changes that dictionary or goes through it has this. Those who look one key up need not.
_changing = threading.RLock()


def forget() -> None:
    """Drop all packed weights. Graphs that were captured with them must not run any more."""
    with _changing:
        _kept.clear()


# What is on a GPU goes back to PyTorch's allocator while that is there.
atexit.register(forget)


def identity_of(tensor: Any) -> Hashable:
    """The memory that a tensor is in, and how it lies there."""
    storage = tensor.untyped_storage()
    return storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def version_of(tensor: Any) -> int | None:
    return None if tensor.is_inference() else tensor._version


def packing_of(key: Key, tensors: Sequence[Any], place: Any, pack: Callable[[], Any]) -> Packing:
    """What was packed of the tensors under this key, or is now, if they were written since."""
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
    """All but the last few; not those that a captured graph reads."""
    same = [key for key, packing in _kept.items() if packing.alike == alike and not packing.captured]
    for key in same[: max(0, len(same) + 1 - REMEMBERED)]:
        del _kept[key]


def _drop_what_is_gone() -> None:
    with _changing:
        for stale in [name for name, packing in _kept.items() if packing.is_gone]:
            del _kept[stale]
