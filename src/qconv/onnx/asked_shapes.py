"""A model with the known shapes that were asked for: batches, and other open extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypedDict

import onnx

from qconv.onnx.blocked import in_blocks
from qconv.onnx.constant_nodes import with_constants_computed
from qconv.onnx.known_shapes import with_known_shapes
from qconv.onnx.model import ReadModel, forget_shape, read, rewritten, source_of, tensor_of
from qconv.onnx.options import Bits, Meaning, check_inputs, check_kept
from qconv.onnx.options import shape as checked_shape
from qconv.onnx.own_names import graph_of, with_own_names
from qconv.onnx.tensor import Unsupported
from qconv.op import quoted


class ShapesByName(TypedDict, total=False):
    """The fields of `AskedShapes`, for a function that takes them by name."""

    batches: Sequence[int] | None
    extents: Mapping[str, Sequence[int]] | None
    shapes: Sequence[Mapping[str, Sequence[int]]] | None


@dataclass(frozen=True)
class AskedShapes:
    """The shapes of the inputs that are asked for: batches, by default the model's own, or 1, each with each
    combination of its other open extents; or, instead, `shapes`, each of all inputs by their names."""

    batches: Sequence[int] | None = None
    extents: Mapping[str, Sequence[int]] | None = None
    shapes: Sequence[Mapping[str, Sequence[int]]] | None = None

    def __post_init__(self) -> None:
        if self.shapes is None:
            return
        if self.batches is not None or self.extents:
            raise ValueError("shapes say every extent of the inputs: leave batches and extents out")
        if not self.shapes:
            raise ValueError("shapes are empty: give those of all inputs, at least once")

    def fixed(self, proto: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
        """Yield the model with inputs of these shapes."""
        if self.shapes is not None:
            for shapes in self.shapes:
                yield with_shapes(proto, shapes)
            return
        extents = self.extents or {}
        _check_extents(proto, extents)
        for batch, *others in product(batches_of(proto, self.batches), *extents.values()):
            yield with_batch(proto, batch, dict(zip(extents, others, strict=True)))


def own_proto(
    model: onnx.ModelProto | bytes | str | Path, config: Mapping[str, str], meaning: Meaning
) -> onnx.ModelProto:
    """Return the model as ONNX Runtime rewrites it, with its own names."""
    source = source_of(model)
    before = graph_of(source)
    proto = rewritten(source, config, without=meaning.bits.without_in(before))
    return with_own_names(with_constants_computed(proto, config), before)


def known_models(
    proto: onnx.ModelProto, config: Mapping[str, str], meaning: Meaning, asked: AskedShapes
) -> Iterator[ReadModel]:
    """Yield the model with known shapes, for all that are asked for."""
    every = list(asked.fixed(proto))  # before the whole model is read: it is refused at once
    whole = read(proto, config)
    check_kept(meaning.keep, whole.network)
    if meaning.bits is Bits.ONNXRUNTIME:
        whole = in_blocks(whole, config)
    for fixed in every:
        shapes = {value.name: tensor_of(value).extents or () for value in fixed.graph.input}
        yield with_known_shapes(whole, shapes, {}, config)


def batches_of(proto: onnx.ModelProto, asked: Sequence[int] | None) -> Sequence[int]:
    """Return the requested batches. A model with fixed inputs is built for its own batch only."""
    inputs = _inputs(proto)
    if not inputs or any(not value.type.tensor_type.shape.dim[0].HasField("dim_value") for value in inputs):
        return (1,) if asked is None else asked
    own = inputs[0].type.tensor_type.shape.dim[0].dim_value
    for batch in () if asked is None else asked:
        if batch != own:
            raise ValueError(
                f"batch={batch}, but the model's input {inputs[0].name!r} has {own} images: leave --batch out, or "
                "export the model with an open batch"
            )
    return (own,)


def _inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs that a caller supplies and that have at least one axis."""
    held = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in held and value.type.tensor_type.shape.dim]


def _check_extents(proto: onnx.ModelProto, extents: Mapping[str, Sequence[int]]) -> None:
    """Reject names that no open extent has, and extents without numbers."""
    dims = [dim for value in _inputs(proto) for dim in value.type.tensor_type.shape.dim[1:]]
    names = dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param)
    for name, numbers in extents.items():
        if name not in names:
            raise ValueError(
                f"the extent {quoted(name)} is none of the model's open ones behind the batch "
                f"({', '.join(names) or 'it has none'}): correct its name, or leave it out"
            )
        if not numbers or min(numbers) < 1:
            raise ValueError(f"{name}={quoted(tuple(numbers))} must have at least one number, of at least 1")


def with_batch(proto: onnx.ModelProto, batch: int, extents: Mapping[str, int] | None = None) -> onnx.ModelProto:
    """Return the model with the first extent of its inputs set to `batch` where it is open, and others by their
    names."""
    fixed, named = onnx.ModelProto(), extents or {}
    fixed.CopyFrom(proto)
    del fixed.graph.value_info[:]
    for value in _inputs(fixed):
        dims = value.type.tensor_type.shape.dim
        if not dims[0].HasField("dim_value"):
            dims[0].dim_value = batch
        for at, dim in enumerate(dims):
            if dim.dim_param in named:
                dim.dim_value = named[dim.dim_param]
            if not dim.HasField("dim_value"):
                remedy = f"give {dim.dim_param}, by --extent of build, or fix it" if dim.dim_param else "fix it"
                raise Unsupported(
                    f"extent {at} of the input {value.name!r} is open, and --batch fixes the first: {remedy}"
                )
    for value in fixed.graph.output:
        forget_shape(value)
    return fixed


def with_shapes(proto: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Return the model with inputs of these shapes. Extents of one name are equal."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(proto)
    del fixed.graph.value_info[:]
    inputs = {value.name: value for value in _inputs(fixed)}
    check_inputs(shapes, [name for name, value in inputs.items() if tensor_of(value).extents is None], list(inputs))
    known: dict[str, int] = {}
    for name, given in shapes.items():
        extents = checked_shape(name, given, tensor_of(inputs[name]))
        for dim, extent in zip(inputs[name].type.tensor_type.shape.dim, extents, strict=True):
            if extent < 1:
                raise ValueError(f"the input {name!r} has the shape {extents}: extents are at least 1")
            if dim.dim_param and known.setdefault(dim.dim_param, extent) != extent:
                raise ValueError(
                    f"the input {name!r} has the shape {extents}, but its extent {dim.dim_param} is "
                    f"{known[dim.dim_param]} in another place: give it one number"
                )
            dim.dim_value = extent
    for value in fixed.graph.output:
        forget_shape(value)
    return fixed
