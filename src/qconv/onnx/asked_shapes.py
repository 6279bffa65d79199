"""A model with the known shapes that were asked for: batches, and other open extents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import onnx

from qconv.onnx.blocked import in_blocks
from qconv.onnx.known_shapes import with_known_shapes
from qconv.onnx.model import ReadModel, forget_shape, read, rewritten, source_of, tensor_of
from qconv.onnx.options import Bits
from qconv.onnx.own_names import with_own_names
from qconv.onnx.tensor import Unsupported
from qconv.op import quoted


def own_proto(model: onnx.ModelProto | bytes | str | Path, config: Mapping[str, str], bits: Bits) -> onnx.ModelProto:
    """Return the model as ONNX Runtime rewrites it, with its own names."""
    source = source_of(model)
    return with_own_names(rewritten(source, config, without=bits.without), source)


def known_models(
    proto: onnx.ModelProto,
    config: Mapping[str, str],
    bits: Bits,
    batches: Sequence[int],
    extents: Mapping[str, Sequence[int]],
) -> Iterator[ReadModel]:
    """Yield the model with known shapes: for each batch, with each combination of its other open extents."""
    _check_extents(proto, extents)
    whole = read(proto, config)
    if bits is Bits.ONNXRUNTIME:
        whole = in_blocks(whole, config)
    for batch, *others in product(batches, *extents.values()):
        fixed = with_batch(proto, batch, dict(zip(extents, others, strict=True)))
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
