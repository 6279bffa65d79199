"""Export of a lowered graph as a folder that C++ opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from qconv.errors import Unshippable
from qconv.network.ship.network_export import Export, Shipped
from qconv.torch.extents import Extent, extent_of, hint_of
from qconv.torch.lowering import copy_of, explain
from qconv.torch.shippable import check_lowered, shippable
from qconv.torch.translation.node_layers import tensor_of


def export(
    lowered: Any,
    folder: str | PathLike[str],
    targets: str | Iterable[str],
    *,
    batches: Sequence[int] | None = None,
    shapes: Sequence[Sequence[Sequence[int]]] | None = None,
    device: str | None = None,
    db: str | None = None,
    vectors: bool = True,
    watch: Callable[[str], None] = lambda said: None,
) -> Shipped:
    """Write a folder with a module from `lower` for each target, which a C++ library in the folder opens, without
    Python or PyTorch. `batches` are those of inputs whose first extent is dynamic, by default that of the graph's own
    example; other dynamic extents are as in the example. `shapes` are, instead, those of all inputs, in order, once for
    each program.

    `device` is the name of the device to choose kernels for, by default the first that winners are shipped for.
    `vectors`: run each program once here, on the first GPU or the CPU device, and store its outputs and the checksums
    of all tensors on the way, for the self-test. Raise Unshippable, with the nodes, where
    some stay in PyTorch."""
    asked = Export(Path(folder), targets, device, db, watch)
    explain(lowered)  # raises ValueError for what was not lowered
    module = copy_of(lowered)
    check_lowered(module)
    networks = [partial(shippable, module, each) for each in shapes_of(module, batches, shapes)]
    return asked.write(networks, networks if vectors else [])


def shapes_of(
    module: Any, batches: Sequence[int] | None, asked: Sequence[Sequence[Sequence[int]]] | None = None
) -> list[list[tuple[int, ...]]]:
    """Return the shapes of the inputs for each program."""
    tensors = {node.name: tensor_of(node) for node in module.graph.nodes if node.op == "placeholder"}
    examples = {name: _example(name, tensor) for name, tensor in tensors.items()}
    if asked is not None:
        if batches is not None:
            raise ValueError("shapes say every extent of the inputs: leave batches out")
        return [_checked(tensors, shapes) for shapes in asked]
    if batches is None:
        return [list(examples.values())]
    opened = [name for name, shape in examples.items() if shape and not isinstance(tensors[name].shape[0], int)]
    fixed = next(((name, shape[0]) for name, shape in examples.items() if shape and not opened), None)
    for batch in batches:
        if fixed is not None and batch != fixed[1]:
            raise ValueError(
                f"batch={batch}, but the input {fixed[0]!r} has {fixed[1]} images: leave batches out, or give "
                "torch.export.export a dynamic first extent"
            )
    return [[(batch, *shape[1:]) if name in opened else shape for name, shape in examples.items()] for batch in batches]


def _checked(tensors: Mapping[str, Any], shapes: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return shapes that the graph takes: its fixed extents, and one number for each dynamic one."""
    if len(shapes) != len(tensors):
        raise ValueError(f"shapes are of {len(shapes)} inputs; the graph takes {', '.join(tensors)}: give one for each")
    known: dict[Extent, int] = {}
    for (name, tensor), shape in zip(tensors.items(), shapes, strict=True):
        extents = [extent_of(size) for size in tensor.shape]
        pairs = zip(extents, shape, strict=False)
        wanted = [known.setdefault(extent, extent if isinstance(extent, int) else size) for extent, size in pairs]
        if len(shape) != len(extents) or wanted != list(shape):
            shown = ", ".join(str(known.get(extent, extent)) for extent in extents)
            raise ValueError(f"the input {name!r} has the shape {tuple(shape)}; the graph takes ({shown})")
    return [tuple(shape) for shape in shapes]


def _example(name: str, tensor: Any) -> tuple[int, ...]:
    """Return the shape of an input in the graph's own example."""
    shape = (None,) if tensor is None else tuple(map(hint_of, tensor.shape))
    known = tuple(extent for extent in shape if extent is not None)
    if len(known) < len(shape):
        raise Unshippable(f"the shape of the input {name!r} is not known: lower what torch.export.export gave")
    return known
