"""Float products of a network on kernels of 16 bits.

Such a layer reads and writes floats of 16 bits. A Cast brings each other tensor to them, and its output back to the
type that it has in the model, so that expressions compute what is in between in fp32. An output that another such layer
reads stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from qconv.network.graph.graph import Layer, Network, Tensor
from qconv.network.graph.reading import Reading
from qconv.network.graph.served import Served, Unserved
from qconv.network.layers.float_convolution import READERS, REALS, FloatConvolution, FloatReader, check, note_of
from qconv.network.layers.float_folds import Folds
from qconv.network.layers.float_transposed import conv_transpose

KEPT = "float32 as asked for by keep"
NARROWED = {**READERS, "ConvTranspose": conv_transpose}


def narrow_products(
    network: Network, served: Mapping[str, Served], dtype: str, keep: Collection[str] = (), sums: bool = True
) -> tuple[Network, dict[str, Served]]:
    """Return the network whose float convolutions and matrix products with constant weights multiply floats of this
    type, without those in `keep`, and the served layers. `sums`: sums of two tensors are folded into them."""
    found: dict[str, FloatConvolution] = {}
    notes: dict[str, str] = {}
    for layer in network.layers:
        if layer.name in served or layer.op not in NARROWED:
            continue
        try:
            if layer.name in keep:
                raise Unserved(KEPT)
            found[layer.name] = _read(layer, network, dtype)
        except Unserved as error:
            notes[layer.name] = error.reason.text if layer.name in keep else f"not in {dtype}: {error}"
    noted = [replace(layer, note=notes.get(layer.name, layer.note)) for layer in network.layers]
    network = replace(network, layers=tuple(noted))
    narrowing = _Narrowing(network, dtype, dict(network.tensors), dict(served))
    layers = tuple(narrowing.rewritten(_folded(network, found, sums)))
    return replace(network, layers=layers, tensors=narrowing.tensors).without_unread(), narrowing.served


def _read(layer: Layer, network: Network, dtype: str) -> FloatConvolution:
    """Return the layer as one that multiplies floats of this type. Raise `Unserved` where no kernel does."""
    reading = Reading(layer, network)
    x = network.tensor(reading.name(0))
    if reading.name(0) in network.constants:
        raise Unserved(f"its input {x.name!r} is a constant")
    if x.dtype not in REALS or network.tensor(layer.outputs[0]).dtype not in REALS:
        raise Unserved(f"its input {x.name!r} is {x.dtype}; the kernels multiply floats")
    if x.extents is None or 0 in x.extents:
        raise Unserved(f"the shape of its input {x.name!r} is not known before the run, or it has no elements")
    made = NARROWED[layer.op](FloatReader(reading, dtype, dtype))
    assert isinstance(made, FloatConvolution)
    check(made, x.extents)
    return made


def _folded(network: Network, found: Mapping[str, FloatConvolution], sums: bool) -> dict[str, FloatConvolution]:
    """Return the convolutions with what follows folded in, by the names of the layers in whose places they run. Where
    two are added, the later one takes the sum."""
    taken = set(found)
    made = {}
    for one in reversed(list(found.values())):
        folds = Folds(network, sums, taken - {one.layer.name})
        whole = folds.into(one, network.tensor(one.x).extents or ())
        taken |= {part.name for part in whole.layer.parts}
        made[(whole.layer.parts or (whole.layer,))[-1].name] = whole
    return made


@dataclass
class _Narrowing:
    """The rewriting of a network: the tensors that it makes, and the narrow form of each that has one."""

    network: Network
    dtype: str
    tensors: dict[str, Tensor]
    served: dict[str, Served]
    narrow: dict[str, str] = field(default_factory=dict)

    def rewritten(self, convolutions: Mapping[str, FloatConvolution]) -> Iterator[Layer]:
        """Yield the layers, with each convolution in the place of the last one that is folded into it."""
        folded = {part.name for one in convolutions.values() for part in one.layer.parts or (one.layer,)}
        for layer in self.network.layers:
            if layer.name in convolutions:
                yield from self._narrowed(convolutions[layer.name])
            elif layer.name not in folded:
                yield layer

    def _narrowed(self, one: FloatConvolution) -> Iterator[Layer]:
        for name in one.inputs:
            if name not in self.narrow and self.tensors[name].dtype != self.dtype:
                self.narrow[name] = self._new(name)
                yield Layer(f"{self.narrow[name]}/cast", "Cast", (name,), (self.narrow[name],))
        inputs = tuple(self.narrow.get(name, name) for name in one.inputs)
        is_wide = self.tensors[one.y].dtype != self.dtype
        y = self._new(one.y) if is_wide else one.y
        layer = replace(one.layer, inputs=inputs, outputs=(y,), is_exact=False, note=note_of(self.dtype))
        added = None if one.added is None else inputs[1]
        self.served[layer.name] = replace(one, layer=layer, x=inputs[0], y=y, added=added)
        yield layer
        if is_wide:
            self.narrow[one.y] = y
            yield Layer(f"{y}/cast", "Cast", (y,), (one.y,))

    def _new(self, name: str) -> str:
        """Return the name of the narrow form of a tensor, which is a new tensor."""
        made = f"{name}/{self.dtype}"
        while made in self.tensors:
            made += "'"
        self.tensors[made] = Tensor(made, self.dtype, self.tensors[name].shape)
        return made
