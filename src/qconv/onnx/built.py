"""Built models: a folder with the graph, the kernels' choices and binaries for one target, and the arrangement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import ClassVar, TypeGuard

import onnx

from qconv.device import Device, open_device
from qconv.errors import KernelMissing
from qconv.instances.load.building import FILE_MODE, FOLDER_MODE, Built, Place, check_new
from qconv.instances.load.deployed import Collected, Deployed
from qconv.instances.load.expected import Expectations
from qconv.instances.load.manifest import AGAIN, Manifest, files_in, read_manifest
from qconv.instances.load.neighbours import Neighbours
from qconv.instances.load.serving import answered_by
from qconv.network import Arranger, Choices, Region, Runner
from qconv.network.graph.value import Shape
from qconv.network.run.arrange import Arrangement, Arranging
from qconv.network.ship.folder import LIST
from qconv.onnx.blocked import in_blocks
from qconv.onnx.fallback import Fallback
from qconv.onnx.known_shapes import with_known_shapes
from qconv.onnx.lowering import lower
from qconv.onnx.model import CPU_ONLY, ReadModel, forget_shape, read, rewritten, source_of, tensor_of
from qconv.onnx.options import Bits, Meaning, check_kept, settings
from qconv.onnx.options import meaning as asked
from qconv.onnx.own_names import graph_of, with_own_names
from qconv.onnx.tensor import Unsupported
from qconv.op import quoted

GRAPH = "graph.onnx"


@dataclass(frozen=True)
class Arranged:
    """The fused spans of a region, each from one layer to before another, for inputs of these shapes."""

    shapes: tuple[tuple[int, ...], ...]
    fused: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class NetworkManifest(Manifest):
    SCHEMA: ClassVar[str] = "qconv-network-5"
    device: str
    batches: tuple[int, ...]
    extents: dict[str, tuple[int, ...]]  # other open extents of the inputs, by their names
    config: dict[str, str]  # ONNX Runtime's settings
    bits: str
    floats: str
    keep: tuple[str, ...]
    arranged: dict[str, tuple[Arranged, ...]]  # by the region's layer

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.batches or min(self.batches) < 0:
            raise ValueError(f"batches={quoted(self.batches)} must have at least one number of images")
        self.meaning  # noqa: B018  # which is checked

    @property
    def meaning(self) -> Meaning:
        return asked(self.bits, self.floats, self.keep)


def build(
    model: onnx.ModelProto | bytes | str | Path,
    out: Path,
    place: Place,
    batches: Sequence[int] | None = None,
    config: Mapping[str, str] | None = None,
    extents: Mapping[str, Sequence[int]] | None = None,
    bits: str | None = None,
    floats: str | None = None,
    keep: Collection[str] | None = None,
    database: str | None = None,
    watch: Callable[[Built], None] = lambda built: None,
) -> int:
    """Write the folder for inputs of these batches, by default the model's own, or 1, each with each combination of its
    other open extents. Return the number of problems that it has kernels for. The device need not be present, because
    nothing runs."""
    check_new(out)
    meaning = asked(bits, floats, keep)
    config = settings(config, meaning.bits)
    proto = own_proto(model, config, meaning)
    batches, extents = batches_of(proto, batches), extents or {}
    collected = Collected(place, database)
    arranged: dict[str, tuple[Arranged, ...]] = {}
    for known in known_models(proto, config, meaning, batches, extents):
        expectations = Expectations(place, database, in_sequence=True)
        for name, entries in _prepared(known, config, meaning, collected, expectations).items():
            arranged[name] = arranged.get(name, ()) + entries
    out.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    choices = collected.write(out, watch)
    (out / GRAPH).write_bytes(proto.SerializeToString())
    (out / GRAPH).chmod(FILE_MODE)
    NetworkManifest(
        target=place.target.name,
        choices=choices,
        files=files_in(out),
        device=place.name,
        batches=tuple(batches),
        extents={name: tuple(numbers) for name, numbers in extents.items()},
        config=config,
        bits=meaning.bits,
        floats=meaning.floats,
        keep=tuple(sorted(meaning.keep)),
        arranged=arranged,
    ).write(out)
    return len(choices)


def own_proto(
    model: onnx.ModelProto | bytes | str | Path, config: Mapping[str, str], meaning: Meaning
) -> onnx.ModelProto:
    """Return the model as ONNX Runtime rewrites it, with its own names."""
    source = source_of(model)
    before = graph_of(source)
    return with_own_names(rewritten(source, config, without=meaning.bits.without_in(before)), before)


def known_models(
    proto: onnx.ModelProto,
    config: Mapping[str, str],
    meaning: Meaning,
    batches: Sequence[int],
    extents: Mapping[str, Sequence[int]],
) -> Iterator[ReadModel]:
    """Yield the model with known shapes: for each batch, with each combination of its other open extents."""
    _check_extents(proto, extents)
    whole = read(proto, config)
    check_kept(meaning.keep, whole.network)
    if meaning.bits is Bits.ONNXRUNTIME:
        whole = in_blocks(whole, config)
    for batch, *others in product(batches, *extents.values()):
        fixed = with_batch(proto, batch, dict(zip(extents, others, strict=True)))
        shapes = {value.name: tensor_of(value).extents or () for value in fixed.graph.input}
        yield with_known_shapes(whole, shapes, {}, config)


def _prepared(
    model: ReadModel, config: Mapping[str, str], meaning: Meaning, collected: Collected, expectations: Expectations
) -> dict[str, tuple[Arranged, ...]]:
    """Look up every kernel of a model with known shapes. Return the fused spans of its regions."""
    fallback = Fallback(model, config, CPU_ONLY)
    lowered = lower(model.network, fallback.function, Choices(), meaning)
    with answered_by(collected):
        runner = Runner(lowered.network, lowered.served, open_device("cpu"), fallback, Arranger(expectations))
    if unknown := runner.unprepared:
        raise Unsupported(
            f"the shapes that {', '.join(unknown[:3])} read are known only with the inputs: give the model inputs of "
            "fixed shapes"
        )
    return {
        name: tuple(Arranged(tuple(shapes), one.spans) for shapes, one in every.items())
        for name, every in runner.arrangements.items()
    }


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


@dataclass(frozen=True)
class Opened:
    """A model for a session: its graph, an arranger that chooses its kernels, and a context that answers lookups."""

    model: ReadModel
    config: Mapping[str, str]
    arranging: Arranging
    meaning: Meaning
    answering: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Decided:
    """An arranger that repeats the decisions made when the folder was built."""

    folder: Path
    batches: Sequence[int]
    arranged_before: Mapping[str, Sequence[Arranged]]
    extents: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def arranged(self, region: Region, shapes: Sequence[Shape]) -> Arrangement:
        for one in self.arranged_before.get(region.layer.name, ()):
            if one.shapes == tuple(shapes):
                return Arrangement(region.steps(one.fused), one.fused)
        batches = ", ".join(map(str, self.batches))
        others = "".join(f" and {name} of {', '.join(map(str, each))}" for name, each in self.extents.items())
        raise KernelMissing(
            f"{self.folder} was built for batches of {batches}{others}; for inputs {list(shapes)}, {AGAIN}"
        )

    def neighbours(self, region: Region, shapes: Sequence[Shape]) -> Sequence[Neighbours]:
        return ()


def is_folder(model: object) -> TypeGuard[str | Path]:
    # pathlib takes "" for the current folder; a caller does not.
    return isinstance(model, str | Path) and model != "" and Path(model).is_dir()


def is_shipped(model: object) -> bool:
    """True for a folder that was exported for C++."""
    return is_folder(model) and (Path(model) / LIST).is_file()


def open_folder(folder: Path, device: Device) -> Opened:
    manifest = read_manifest(folder, NetworkManifest, device)
    model = read(onnx.load(folder / GRAPH), manifest.config)
    decided = Decided(folder, manifest.batches, manifest.arranged, manifest.extents)
    deployed = Deployed(folder, manifest.choices, device)
    return Opened(model, manifest.config, decided, manifest.meaning, deployed.answering)
